"""Launches of mm and addmm, with one block per tile of 64 x 64 outputs. Operands may have any
strides. One launch computes any number of products.

Strides are in elements: (row, column), or (row, column, product) for several products.
"""

from __future__ import annotations

from functools import cache, lru_cache
from struct import Struct
from typing import Any

from ... import runtime
from ...core import errors
from ...core.dtype import dtype
from ...core.geometry import Sizes
from . import launch, module, numbers, variants
from .division import divider

TILE = 64
_POINTERS, _LAYOUTS = Struct("<3Q"), Struct("<9q4I4I")
_ADDED = Struct("<Q3q")
_MOST_PRODUCTS = 65535  # The grid has at most this size along y.


class Matmul:
    """Launches of mm for one dtype: see the function `mm`."""

    __slots__ = ("itemsize", "defines")
    entry = "matmul_strided"
    op = "mm"

    def __init__(self, of: dtype) -> None:
        self.itemsize: int = of.itemsize
        self.defines = variants.define(self.op, variants.matmul_scalar(of), "STRIDED")

    def __call__(
        self, device_index: int, out: int, a: int, b: int, m: int, n: int, k: int,
        a_strides: Sizes, b_strides: Sizes, out_strides: Sizes, count: int = 1,
    ) -> None:  # fmt: skip
        strides = (out_strides, a_strides, b_strides)
        self._launch(device_index, (out, a, b), (m, n, k), strides, count, b"")

    def fixed(
        self, sizes: tuple[int, int, int], strides: list[Sizes], scales: tuple[Any, Any],
        count: int = 1,
    ) -> Fixed | None:  # fmt: skip
        """Return the launch for operands of these layouts, or None if it is not one launch.
        scales: not used."""
        return self._fixed(sizes, tuple(strides), count, b"")

    def _fixed(
        self, sizes: tuple[int, int, int], strides: tuple[Sizes, ...], count: int, rest: bytes
    ) -> Fixed | None:
        if count > _MOST_PRODUCTS:
            return None
        blocks, layouts, _ = _plan(self.op, self.itemsize, sizes, strides)
        return Fixed(self, (blocks, count, 1), layouts, rest)

    def ready(self, device_index: int) -> Any:
        """Return the loaded kernel."""
        return module.function("matmul", self.entry, self.defines, device_index)

    def _launch(
        self, device_index: int, pointers: tuple[int, ...], sizes: tuple[int, int, int],
        strides: tuple[Sizes, ...], count: int, rest: bytes,
    ) -> None:  # fmt: skip
        if sizes[0] == 0 or sizes[1] == 0 or count == 0:
            return
        function = self.ready(device_index)
        cuda = runtime.cuda()
        stream = cuda.current_stream(device_index)
        blocks, layouts, steps = _plan(self.op, self.itemsize, sizes, strides)
        for first in range(0, count, _MOST_PRODUCTS):
            if first:
                rest = self.moved(rest, _MOST_PRODUCTS)
                pointers = tuple([p + _MOST_PRODUCTS * by for p, by in zip(pointers, steps)])
            grid = (blocks, min(count - first, _MOST_PRODUCTS), 1)
            params = _POINTERS.pack(*pointers) + layouts + rest
            cuda.launch(function, grid, (launch.THREADS, 1, 1), 0, stream, params)

    def moved(self, rest: bytes, count: int) -> bytes:
        """Adapt the parameters `rest`, which follow mm's own parameters, to a launch that begins
        `count` products later. Return the adapted parameters."""
        return rest


@lru_cache(1 << 10)
def _plan(
    op: str, itemsize: int, sizes: tuple[int, int, int], strides: tuple[Sizes, ...]
) -> tuple[int, bytes, tuple[int, ...]]:
    """Return (blocks, parameters after the pointers, bytes from one product to the next). sizes:
    m, n, k. strides: of out, a and b."""
    m, n, k = sizes
    columns = launch.blocks_for(n, TILE)
    tiles = columns * launch.blocks_for(m, TILE)
    if max(*sizes, tiles) >= 1 << 31:
        raise errors.must(op, "self", "have sizes below 2**31", errors.Got(str(sizes)))
    in_bytes = [_in_bytes(three, itemsize) for three in strides]
    params = _LAYOUTS.pack(*sum(in_bytes, ()), m, n, k, 0, *divider(columns))
    return tiles, params, tuple([three[2] for three in in_bytes])


def _in_bytes(strides: Sizes, itemsize: int) -> tuple[int, ...]:
    """Return the strides of rows, columns and products in bytes."""
    return tuple([by * itemsize for by in (*strides, 0)[:3]])


class Addmm(Matmul):
    """Launches of addmm for one dtype: see the function `addmm`."""

    __slots__ = ("number",)
    op = "addmm"

    def __init__(self, of: dtype) -> None:
        super().__init__(of)
        self.number = numbers.arithmetic(variants.arithmetic(of), of, is_rounded=False)

    def __call__(  # type: ignore[override]
        self, device_index: int, out: int, a: int, b: int, m: int, n: int, k: int,
        a_strides: Sizes, b_strides: Sizes, out_strides: Sizes, added: int, added_strides: Sizes,
        beta: Any, alpha: Any, count: int = 1,
    ) -> None:  # fmt: skip
        rest = self.added(added, added_strides, beta, alpha)
        strides = (out_strides, a_strides, b_strides)
        self._launch(device_index, (out, a, b), (m, n, k), strides, count, rest)

    def fixed(
        self, sizes: tuple[int, int, int], strides: list[Sizes], scales: tuple[Any, Any],
        count: int = 1,
    ) -> Fixed | None:  # fmt: skip
        """Return the launch for operands of these layouts. scales: (beta, alpha)."""
        *three, added = strides
        rest = self.added(0, added, *scales)
        return self._fixed(sizes, tuple(three), count, rest)

    def added(self, pointer: int, strides: Sizes, beta: Any, alpha: Any) -> bytes:
        """Return the additional parameters of addmm, which follow mm's parameters."""
        added = _ADDED.pack(pointer if beta != 0 else 0, *_in_bytes(strides, self.itemsize))
        return added + self.number(beta) + self.number(alpha)

    def moved(self, rest: bytes, count: int) -> bytes:
        pointer, *by = _ADDED.unpack_from(rest)
        pointer += count * by[2] if pointer else 0
        return _ADDED.pack(pointer, *by) + rest[_ADDED.size :]


class Fixed:
    """One launch of mm or addmm for operands of fixed layouts. The operands are pointers to out, a,
    b and, for addmm, the summand. rest: the parameters of addmm after the layouts."""

    __slots__ = ("by", "grid", "layouts", "rest")

    def __init__(
        self, by: Matmul, grid: tuple[int, int, int], layouts: bytes, rest: bytes
    ) -> None:  # fmt: skip
        self.by, self.grid, self.layouts, self.rest = by, grid, layouts, rest

    def __call__(self, device_index: int, operands: Any, scalars: Any = ()) -> None:
        run, pack, tail = self.numbered(device_index, operands, scalars)
        run(pack(*operands, tail))

    def numbered(self, device_index: int, operands: Any, scalars: Any) -> launch.Straight:
        """Return the parts of the launch: see launch.numbered."""
        function, grid = self.by.ready(device_index), self.grid
        run = runtime.cuda().launcher(function, grid, (launch.THREADS, 1, 1))
        tail, layouts = self.rest[8:], self.layouts
        if len(operands) == 3:
            return run, launch.packed_behind(3, layouts), layouts
        pack = Struct(f"<3Q{len(layouts)}sQ{len(tail)}s").pack

        def packed(out: int, a: int, b: int, added: int, tail: bytes) -> bytes:
            return pack(out, a, b, layouts, added, tail)

        return run, packed, tail


@cache
def mm(of: dtype) -> Matmul:
    """Return mm for one dtype: callable(device_index, out, a, b, m, n, k, a_strides, b_strides,
    out_strides, number of products), where out, a and b are pointers."""
    return Matmul(of)


@cache
def addmm(of: dtype) -> Addmm:
    """Return addmm for one dtype. The callable takes the arguments of `mm`, and four more before
    the number of products: the summand's pointer and strides, beta, and alpha. If beta is 0, the
    summand is not read."""
    return Addmm(of)


def ready(of: dtype, device_index: int) -> None:
    """Load the kernels of one dtype."""
    for launches in (mm(of), addmm(of)):
        launches.ready(device_index)
