"""The dispatcher: keys, operators, tables, and the way a call takes through them.

It knows operands by their key sets alone, never as tensors. `dispatcher.py` tells the way of a
call as a numbered list. Users see it as `gt.dispatch`: the names below come from the modules that
hold them, when first asked for.
"""

from __future__ import annotations

from ..core import lazy

# Here and not when first asked for: the name must stand for the class, not for the module `trace`.
from .trace import trace

_HOME = {
    "dump": "tables", "dump_table": "tables", "has_kernel": "tables",
    "has_computed_kernel": "tables", "is_alias_key": "tables", "is_included_in_alias": "tables",
    "has_backend_fallback": "tables", "dangling_impls": "tables", "registrations_for_key": "tables",
    "check_invariants": "tables", "key_set": "tables", "KeySet": "keys", "DispatchKey": "keys",
    "full_after": "keys", "IncludeDispatchKeys": "tls", "ExcludeDispatchKeys": "tls",
    "AllowDispatchKeys": "tls", "AutoDispatchBelowAutograd": "tls",
    "AutoDispatchBelowADInplaceOrView": "tls", "InferenceMode": "tls", "included": "tls",
    "excluded": "tls", "is_inference_mode": "tls", "find": "dispatcher",
}  # fmt: skip

__all__ = ["trace", *_HOME]

__getattr__, __dir__ = lazy.attributes(globals(), _HOME, __name__)
