"""Launch plans of random numbers, which follow from the index: elements are counted as in range."""

from __future__ import annotations

from struct import Struct
from typing import Any

from ...core import errors
from . import launch, numbers, variants
from .range_launch import walked
from .launch import Operands

_CODES = Struct("<IiiI4i").pack


def bind(family: str, op: str, layout: Any) -> Any:
    if launch.product(layout.shape) == 0:
        return launch.EmptyLaunch()
    (shape, strides), of = walked(layout), layout.dtypes[0]
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
            defines = variants.define(op, of.short, "CONTIGUOUS")
            tail = Struct("<II").pack(numel, 0)
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

    return launch.split(shape, [strides], one)


class Uniform(launch.Launch):
    """A launch whose two scalars, seed and counter, share a slot."""

    __slots__ = ()

    def pack(self, operands: Operands, scalars: Operands = ()) -> bytes:
        first = numbers.pair(int(scalars[0]), int(scalars[1]))
        return self.head(*operands) + first + self.values[1] + self.tail
