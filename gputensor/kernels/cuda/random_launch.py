"""Launch plans of random numbers. A number depends only on the seed, the counter and the element's
row-major index."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from ...core import errors
from . import launch, numbers, variants
from .launch import Operands

_TAIL = Struct("<II").pack
_FLOATS = Struct("<dd").pack
_BY_PLACE = (1).to_bytes(4, "little")
_WORD = (1 << 64) - 1  # Counters wrap around at 64 bits, as in numbers.pair.
_COUNTED = ("bernoulli", "integers")  # These distributions have integer parameters.


def packer(op: str) -> Any:
    """Return a function that packs a distribution's two parameters."""
    return numbers.pair if op in _COUNTED else _FLOATS


def bind(family: str, op: str, layout: Any) -> Any:
    numel = launch.product(layout.shape)
    if numel == 0:
        return launch.EmptyLaunch()
    of = layout.dtypes[0]
    strides = layout.stride_bytes[0] or (0,)
    assert len(layout.shape) < 2 and (numel == 1 or strides[0] == of.itemsize), layout
    if of.is_complex:
        # Complex element i consists of the real elements 2i and 2i + 1.
        of, numel = of.to_real, 2 * numel
    if not of.is_floating_point and op not in variants.whole():
        raise errors.no_cuda_kernel(op, of)
    defines = variants.define(op, variants.random_scalar(of), "CONTIGUOUS")
    pack = packer(op)

    def one(sizes: tuple[int, ...], before: int) -> Random:
        return drawn("random", defines, sizes[0], before, 1, pack, _TAIL(sizes[0], 0))

    return launch.split((numel,), [(of.itemsize,)], one)


def drawn(
    family: str, defines: variants.Defines, numel: int, before: int, operands: int, pack: Any,
    tail: bytes,
) -> Random:  # fmt: skip
    """Return a launch for `numel` elements. before: the number of elements of earlier launches of
    the call. pack: packs the last two scalars."""
    taken = before % 4
    threads = launch.threads_for(numel + taken, 4)
    return Random(
        family, f"{family}_{defines['LAYOUT'].lower()}", defines,
        launch.blocks_for(numel + taken, threads * 4), threads, operands,
        [numbers.EMPTY, numbers.pair(before // 4, taken), numbers.EMPTY], [(0, ~0, pack)], tail,
    )  # fmt: skip


class Random(launch.Launch):
    """A launch whose parameters are the seed and counter, and the operator's two parameters."""

    __slots__ = ()

    def pack(self, operands: Operands, scalars: Operands = ()) -> bytes:
        seed, counter, first, second = scalars
        begin, params = numbers.pair(seed, counter), self.packers[0][2](first, second)
        before = self.values[1]
        # In a graph, the kernel reads the seed at an address: Note [Random numbers of a graph].
        if type(seed) is not int:
            before = before[:12] + _BY_PLACE
        packed: bytes = self.head(*operands) + begin + before + params + self.tail
        return packed

    def drawing(self, device_index: int, first: Any, second: Any) -> Callable[[int, int, int], Any]:
        """Return a function (address, seed, counter) that launches the kernel. The distribution's
        parameters `first` and `second` are packed only once."""
        run = self.runs.get(device_index) or self.load(device_index)
        tail = self.values[1] + self.packers[0][2](first, second) + self.tail
        pack = Struct(f"<3Q{len(tail)}s").pack

        def draw(address: int, seed: int, counter: int) -> None:
            if type(seed) is int:
                run(pack(address, seed, counter & _WORD, tail))
            else:
                self(device_index, (address,), (seed, counter, first, second))

        return draw
