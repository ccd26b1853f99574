"""Quasi-random numbers: points that fill the unit cube more evenly than random points.

SciPy computes the points, with the direction numbers of Joe and Kuo (2008), which PyTorch also
uses. Scrambling draws different random numbers than PyTorch.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

from ._generated.functions import randint
from .core import errors, lazy
from .dispatch import defaults
from .exchange.construct import tensor
from .structured.arguments import integer
from .tensor.tensor import Tensor

__all__ = ["SobolEngine"]


class SobolEngine:
    """Sobol sequence of points in [0, 1)^dimension. Without scrambling the first point is the
    origin.

    dimension: at most 21,201. scramble: apply Owen's random shifts and permutations. seed: the seed
    of scrambling, by default drawn from gputensor's CPU generator. Source: torch/quasirandom.py.

    >>> SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT: ClassVar[int] = 30
    MAXDIM: ClassVar[int] = 21201
    dimension: int
    scramble: bool
    seed: int | None
    num_generated: int

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        self.dimension = integer("SobolEngine", "dimension", dimension)
        if not 1 <= self.dimension <= self.MAXDIM:
            rule = f"be in [1, {self.MAXDIM}]"
            raise errors.wrong_value("SobolEngine", "dimension", rule, dimension)
        self.scramble, self.seed = bool(scramble), seed
        self.num_generated = 0
        if self.scramble and seed is None:
            self._drawn = int(randint(2**62, ()))
        elif seed is not None:
            self._drawn = integer("SobolEngine", "seed", seed)
        self._engine = self._made()

    def _made(self) -> Any:
        from scipy.stats import qmc

        drawn = self._drawn if self.scramble else None
        return qmc.Sobol(self.dimension, scramble=self.scramble, bits=self.MAXBIT, seed=drawn)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """Return the next `n` points as a tensor of shape (n, dimension). Without `dtype`, it has
        the dtype of `out` or the default dtype."""
        count = integer("draw", "n", n)
        if count < 1:
            raise errors.wrong_value("draw", "n", "be at least 1", n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # SciPy warns if n is not a power of two
            points = self._engine.random(count)
        self.num_generated += count
        element = dtype or (defaults.get_default_dtype() if out is None else out.dtype)
        made: Tensor = tensor(points, dtype=element)
        return made if out is None else out.resize_(made.shape).copy_(made)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """Return the next `2**m` points.

        Raises: ArgumentError unless the total number of points is then a power of two.
        """
        total = self.num_generated + 2**m
        if total & (total - 1):
            rule = "make the number of points a power of two"
            raise errors.must("draw_base2", "m", rule, errors.Got(f"{total} points"))
        return self.draw(2**m, out, dtype)

    def reset(self) -> SobolEngine:
        """Restart the sequence at its first point. Return the engine."""
        self._engine, self.num_generated = self._made(), 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip `n` points. Return the engine."""
        self._engine.fast_forward(integer("fast_forward", "n", n))
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        parts += ["scramble=True"] * self.scramble
        parts += [f"seed={self.seed}"] * (self.seed is not None)
        return f"SobolEngine({', '.join(parts)})"


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
