"""`gt.func`: functions that transform functions, as in `torch.func`.

`vmap` applies a function to batches. `grad`, `vjp` and `jacrev` differentiate it in reverse mode,
`jvp` and `jacfwd` in forward mode, `hessian` in both. Transforms nest in any order. levels.py
explains the mechanism. Operators on batches are in vmap_level.py and rules/. Derivatives are in
reverse.py and forward.py.
"""

from typing import TYPE_CHECKING

from ..core import lazy

if TYPE_CHECKING:
    from .batching import vmap as vmap
    from .forward import hessian as hessian, jacfwd as jacfwd, jvp as jvp
    from .reverse import (
        grad as grad, grad_and_value as grad_and_value, jacrev as jacrev, linearize as linearize,
        vjp as vjp,
    )  # fmt: skip
    from .modules import functional_call as functional_call
    from .modules import stack_module_state as stack_module_state
else:
    __getattr__, __dir__ = lazy.attributes(globals())
