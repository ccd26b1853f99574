"""`gt.func`: functions that transform functions, as `torch.func` has them.

`vmap` lets a function work on batches, `grad`, `vjp`, `jacrev` differentiate it in reverse, `jvp`
and `jacfwd` forward, `hessian` both; they nest in any order. levels.py is how that works,
vmap_level.py and the rules how operators work on batches, reverse.py and forward.py the
derivatives.
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
