"""The dispatcher: keys, operators, tables, and the path of a call through them.

It uses only the key sets of operands, never tensors. `dispatcher.py` lists the steps of a call. The
public module is `gt.dispatch`; its names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import lazy

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
    from .tracing import trace as trace
else:
    __getattr__, __dir__ = lazy.attributes(globals())
