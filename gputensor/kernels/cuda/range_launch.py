"""Launch plans of arange, linspace and eye, whose values depend only on the index.

Elements are numbered with dimension 0 fastest.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from ...core.dtype import float64, int64
from ...core.geometry import Sizes
from . import launch, numbers, variants
from .launch import Operands

_CODES = Struct("<IiiI4i").pack
_RANGE_SCALARS = {"arange": 2, "linspace": 3, "eye": 1}


def bind(family: str, op: str, layout: Any) -> Any:
    return (
        Range(op, layout, *walked(layout)) if launch.product(layout.shape) else launch.EmptyLaunch()
    )


def walked(layout: Any) -> tuple[Sizes, Sizes]:
    """Return the sizes and stride bytes in the order in which the elements are numbered."""
    return layout.shape or (1,), layout.stride_bytes[0] or (0,)


class Range:
    """The launch of arange, linspace or eye. If a scalar of the call is a float, integer results
    are computed in f64."""

    __slots__ = ("op", "layout", "shape", "strides", "whole", "floating")
    op: str
    layout: Any
    shape: Sizes
    strides: Sizes

    def __init__(self, op: str, layout: Any, shape: Sizes, strides: Sizes) -> None:
        self.op, self.layout, self.shape, self.strides = op, layout, shape, strides
        self.whole: Any = self._bind(has_floats=False)
        self.floating: Any = None

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        self._of(scalars)(device_index, operands, scalars)

    def numbered(self, device_index: int, operands: Operands, scalars: Operands) -> launch.Straight:
        """Return the parts of the launch with these scalars: see launch.numbered."""
        return launch.numbered(self._of(scalars), device_index, operands, scalars)

    def _of(self, scalars: Operands) -> Any:
        if not any([type(x) is float for x in scalars]):
            return self.whole
        if self.floating is None:
            self.floating = self._bind(has_floats=True)
        return self.floating

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    def _bind(self, *, has_floats: bool) -> Any:
        of = self.layout.dtypes[0]
        scalar = variants.range_scalar(self.op, of, has_floats=has_floats)
        computed = {"i64": int64, "f64": float64}.get(scalar, of)
        pack = numbers.arithmetic(scalar, computed, is_rounded=False)
        packers = [(k, ~k, pack) for k in range(_RANGE_SCALARS[self.op])]

        def one(sizes: Sizes, before: int) -> launch.Launch:
            dims, numel = launch.dims_for(self.op, sizes), launch.product(sizes)
            threads = launch.threads_for(numel, launch.STRIDED_UNROLL)
            tail = _CODES(numel, len(sizes), of.code, 0, of.code, 0, 0, 0)
            return launch.Launch(
                "range", "range_strided", variants.define(self.op, scalar, "STRIDED", dims),
                launch.blocks_for(numel, threads * launch.STRIDED_UNROLL), threads, 1,
                [numbers.EMPTY] * 3 + [numbers.pair(before, 0)], packers,
                tail + launch.pack_dims(sizes, [self.strides], dims),
            )  # fmt: skip

        return launch.split(self.shape, [self.strides], one)
