"""`gt.optim`: optimizers and learning rate schedulers with the names of `torch.optim`.

The formulas of optimizers call public operators only. On the CPU and on CUDA, passes.py runs an
elementwise formula in one pass over memory. An optimizer has parameters, and a state for each
parameter that has had a gradient. Steps are made in place; autograd records them only with
differentiable=True.
"""

from typing import TYPE_CHECKING

from ..core import lazy
from . import lr_scheduler
from .adafactor import Adafactor
from .adam import Adam, Adamax, AdamW, SparseAdam
from .lbfgs import LBFGS
from .muon import Muon
from .nadam import NAdam, RAdam
from .optimizer import Optimizer
from .rmsprop import Adadelta, Adagrad, RMSprop
from .rprop import Rprop
from .sgd import ASGD, SGD

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon",
    "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "SparseAdam", "lr_scheduler",
]  # fmt: skip

if TYPE_CHECKING:
    from . import swa_utils as swa_utils
    from .swapping import (
        swap_in_optimizer_params_and_state as swap_in_optimizer_params_and_state,
    )


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
