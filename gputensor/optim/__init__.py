"""`gt.optim`: optimizers and schedules of their rates, as `torch.optim` has them, written over the
operators that users call.

An optimizer holds the tensors that it steps, and a state for each of them that has had a gradient.
Steps are made in place and are not recorded.
"""

from typing import TYPE_CHECKING

from ..core import lazy
from . import lr_scheduler
from .adam import Adam, AdamW
from .optimizer import Optimizer
from .rmsprop import Adagrad, RMSprop
from .sgd import SGD

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
