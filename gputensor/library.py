"""`gt.library`: operators defined by users, as in torch.library. `custom/` implements it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core import lazy

# Each name is loaded on first use, because few programs define operators.
if TYPE_CHECKING:
    from .custom.custom_op import (
        CustomOpDef as CustomOpDef, custom_op as custom_op, register_autograd as register_autograd,
        register_fake as register_fake, register_kernel as register_kernel,
        register_vmap as register_vmap,
    )  # fmt: skip
    from .custom.infer_schema import infer_schema as infer_schema
    from .custom.library import Library as Library, fallthrough_kernel as fallthrough_kernel
    from .custom.opcheck import opcheck as opcheck
else:
    __getattr__, __dir__ = lazy.attributes(globals())
