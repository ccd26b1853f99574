"""Launch plans of the families whose values follow from the index alone: range and random.

Both count the layout's elements with dimension 0 fastest.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from ...core import errors
from ...core.dtype import float64, int64
from . import launch, numbers, variants

_CODES = Struct("<IiiI4i").pack
_RANGE_SCALARS = {"arange": 2, "linspace": 3, "eye": 1}


def bind(family: str, op: str, layout: Any) -> Any:
    shape = layout.shape or (1,)
    strides = layout.stride_bytes[0] or (0,)
    if launch.product(shape) == 0:
        return launch.EmptyLaunch()
    return (
        Range(op, layout, shape, strides)
        if family == "range"
        else _random(op, layout, shape, strides)
    )


def _split(shape: tuple[int, ...], strides: tuple[int, ...], one: Any) -> Any:
    """`one(part's sizes, elements before it)`, for each part of the layout."""
    parts: list[tuple[tuple[int | None, ...], Any]] = []
    before = 0
    for start, sizes in launch.pieces(shape, launch.MAX_NUMEL):
        parts.append(((launch.offset_of(start, strides),), one(sizes, before)))
        before += launch.product(sizes)
    return parts[0][1] if len(parts) == 1 else launch.SplitLaunch(parts)


class Range:
    """arange, linspace or eye; integers count in f64 where a call's scalars are floats."""

    __slots__ = ("op", "layout", "shape", "strides", "whole", "floating")

    def __init__(
        self, op: str, layout: Any, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> None:
        self.op, self.layout, self.shape, self.strides = op, layout, shape, strides
        self.whole = self._bind(has_floats=False)
        self.floating: Any = None

    def __call__(
        self, device_index: int, operands: launch.Operands, scalars: launch.Operands = ()
    ) -> None:
        if not any(type(x) is float for x in scalars):
            self.whole(device_index, operands, scalars)
            return
        if self.floating is None:
            self.floating = self._bind(has_floats=True)
        self.floating(device_index, operands, scalars)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    def _bind(self, *, has_floats: bool) -> Any:
        of = self.layout.dtypes[0]
        scalar = variants.range_scalar(self.op, of, has_floats=has_floats)
        computed = {"i64": int64, "f64": float64}.get(scalar, of)
        pack = numbers.arithmetic(scalar, computed, is_rounded=False)
        packers = [(k, ~k, pack) for k in range(_RANGE_SCALARS[self.op])]

        def one(sizes: tuple[int, ...], before: int) -> launch.Launch:
            dims, numel = launch.dims_for(self.op, sizes), launch.product(sizes)
            threads = launch.threads_for(numel, launch.STRIDED_UNROLL)
            tail = _CODES(numel, len(sizes), of.code, 0, of.code, 0, 0, 0)
            return launch.Launch(
                "range", "range_strided", variants.define(self.op, scalar, "STRIDED", dims),
                launch.blocks_for(numel, threads * launch.STRIDED_UNROLL), threads, 1,
                [numbers.EMPTY] * 3 + [numbers.pair(before, 0)], packers,
                tail + launch.pack_dims(sizes, [self.strides], dims),
            )  # fmt: skip

        return _split(self.shape, self.strides, one)


def _random(op: str, layout: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    of = layout.dtypes[0]
    if of.is_complex:
        # Element i is the real elements 2i and 2i + 1.
        of = of.to_real
        if shape == (1,) or (len(shape) == 1 and strides[0] == 2 * of.itemsize):
            shape, strides = (2 * shape[0],), (of.itemsize,)
        else:
            shape, strides = (2, *shape), (of.itemsize, *strides)
    if not of.is_floating_point:
        raise errors.no_cuda_kernel(op, of)
    dense = len(shape) == 1 and (shape[0] == 1 or strides[0] == of.itemsize)

    def one(sizes: tuple[int, ...], before: int) -> launch.Launch:
        numel, taken = launch.product(sizes), before % 4
        threads = launch.threads_for(numel + taken, 4)
        values = [numbers.EMPTY, numbers.pair(before // 4, taken)]
        if dense:
            defines, tail = (
                variants.define(op, of.short, "CONTIGUOUS"),
                Struct("<II").pack(numel, 0),
            )
        else:
            dims = launch.dims_for(op, sizes)
            defines = variants.define(op, of.short, "STRIDED", dims)
            tail = _CODES(numel, len(sizes), of.code, 0, of.code, 0, 0, 0)
            tail += launch.pack_dims(sizes, [strides], dims)
        return Uniform(
            "random", "random_contiguous" if dense else "random_strided", defines,
            launch.blocks_for(numel + taken, threads * 4), threads, 1, values, [(0, ~0, None)],
            tail,
        )  # fmt: skip

    return _split(shape, strides, one)


class Uniform(launch.Launch):
    """A launch whose two scalars, seed and counter, share a slot."""

    __slots__ = ()

    def pack(self, operands: launch.Operands, scalars: launch.Operands = ()) -> bytes:
        first = numbers.pair(int(scalars[0]), int(scalars[1]))
        return self.head(*operands) + first + self.values[1] + self.tail
