"""The rows of the table, and helpers of their programs.

`torch` is imported only within functions: in a child process it is PyTorch, or gputensor under
that name.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """A program: its name, its package, and a function that makes it.

    make: a function from Inputs to the Program. dtype: of its parameters and floating inputs.
    float64 is for networks that amplify rounding errors beyond the tolerance, such as batch norm of
    a few values.
    """

    name: str
    package: str
    make: Callable[[Inputs], Program]
    dtype: str = "float32"


@dataclass
class Program:
    """A callable and its arguments.

    model: has the parameters and buffers, which gputensor loads from PyTorch. call: the called
    function, by default the model. optimizer: makes an optimizer of parameters, by default SGD.
    train: True for training mode, without dropout. saves: True if it has save_pretrained, by which
    weights are exchanged in both directions. grad: True if derivatives are compared.
    """

    model: Any
    inputs: Sequence[Any] = ()
    keywords: dict[str, Any] | None = None
    call: Callable[..., Any] | None = None
    optimizer: Callable[[Any], Any] | None = None
    train: bool = True
    saves: bool = False
    grad: bool = True


class Inputs:
    """Draws the tensors of a row, equal for both sides."""

    def __init__(self, name: str) -> None:
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))

    def normal(self, *shape: int) -> Any:
        import torch

        return torch.from_numpy(self.rng.standard_normal(shape, dtype=np.float32))

    def uniform(self, *shape: int) -> Any:
        """Return numbers in [0, 1)."""
        import torch

        return torch.from_numpy(self.rng.random(shape, dtype=np.float32))

    def ints(self, high: int, *shape: int) -> Any:
        """Return int64 numbers in [0, high)."""
        import torch

        return torch.from_numpy(self.rng.integers(0, high, shape))
