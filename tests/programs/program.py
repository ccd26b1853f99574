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
    """A program: its name, the package it comes from, and what makes it.

    make: given Inputs, the Program. dtype: of its parameters and floating inputs. float64 is for
    networks that make rounding greater, such as batch norm of a few values, by much more than the
    tolerance.
    """

    name: str
    package: str
    make: Callable[[Inputs], Program]
    dtype: str = "float32"


@dataclass
class Program:
    """What is called and with what.

    model: has the parameters and buffers, which gputensor takes from PyTorch. call: what is called
    where that is not the model. optimizer: makes one from parameters, in the place of SGD.
    train: whether the model is in training mode; dropout is taken out then. saves: whether it has
    save_pretrained, by which weights go both ways. grad: whether derivatives are compared.
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
    """Draws the tensors of a row: the same numbers for both sides."""

    def __init__(self, name: str) -> None:
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))

    def normal(self, *shape: int) -> Any:
        import torch

        return torch.from_numpy(self.rng.standard_normal(shape, dtype=np.float32))

    def uniform(self, *shape: int) -> Any:
        """Within [0, 1)."""
        import torch

        return torch.from_numpy(self.rng.random(shape, dtype=np.float32))

    def ints(self, high: int, *shape: int) -> Any:
        """int64 in [0, high)."""
        import torch

        return torch.from_numpy(self.rng.integers(0, high, shape))
