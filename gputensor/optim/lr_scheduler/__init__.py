"""`gt.optim.lr_scheduler`: schedulers of learning rates, which are stepped once per epoch or batch.

As in PyTorch, a scheduler computes a rate from the previous rate and the number of steps, so that
several schedulers can be combined. Source: torch/optim/lr_scheduler.py.
"""

from typing import TYPE_CHECKING

from ...core import lazy
from .base import LRScheduler
from .chains import ChainedScheduler, SequentialLR
from .cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from .factors import (
    ConstantLR, CosineAnnealingLR, ExponentialLR, LambdaLR, LinearLR, MultiplicativeLR, MultiStepLR,
    PolynomialLR, StepLR,
)  # fmt: skip
from .plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",
    "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
