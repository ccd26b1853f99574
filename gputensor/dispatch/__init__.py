"""The dispatcher: keys, operators, tables, and the way a call takes through them.

It knows operands by their key sets alone, never as tensors. `dispatcher.py` tells the way of a
call as a numbered list. Users see it as `gt.dispatch`: the names below come from the modules that
hold them, when first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import lazy

# Here and not when first asked for: the name must stand for the class, not for the module `trace`.
from .trace import trace as trace

if TYPE_CHECKING:
    from .dispatcher import find as find
    from .keys import DispatchKey as DispatchKey, KeySet as KeySet, full_after as full_after
    from .tables import (
        check_invariants as check_invariants, dangling_impls as dangling_impls, dump as dump,
        dump_table as dump_table, has_backend_fallback as has_backend_fallback,
        has_computed_kernel as has_computed_kernel, has_kernel as has_kernel,
        is_alias_key as is_alias_key, is_included_in_alias as is_included_in_alias,
        key_set as key_set, registrations_for_key as registrations_for_key,
    )  # fmt: skip
    from .tls import (
        AllowDispatchKeys as AllowDispatchKeys,
        AutoDispatchBelowADInplaceOrView as AutoDispatchBelowADInplaceOrView,
        AutoDispatchBelowAutograd as AutoDispatchBelowAutograd,
        ExcludeDispatchKeys as ExcludeDispatchKeys, IncludeDispatchKeys as IncludeDispatchKeys,
        InferenceMode as InferenceMode, excluded as excluded, included as included,
        is_inference_mode as is_inference_mode,
    )  # fmt: skip
else:
    __all__ = ["trace"]
    __getattr__, __dir__ = lazy.attributes(globals())
