"""`gt.library`: operators of users, as torch.library has them; made in `custom/`."""

from __future__ import annotations

from .core import lazy

# Few programs make operators, and imports are budgeted: each name is loaded when first asked for.
_HOME = {
    "Library": "library", "fallthrough_kernel": "library",
    "custom_op": "custom_op", "CustomOpDef": "custom_op", "register_kernel": "custom_op",
    "register_fake": "custom_op", "register_autograd": "custom_op", "opcheck": "opcheck",
    "infer_schema": "infer_schema",
}  # fmt: skip
__all__ = list(_HOME)

__getattr__, __dir__ = lazy.attributes(globals(), _HOME, "gputensor.custom")
