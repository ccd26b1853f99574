"""The launches of mm and addmm: a block per tile of 64 x 64 outputs, any strides."""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import Any

from ... import runtime
from ...core import errors
from ...core.dtype import dtype
from . import launch, module, numbers, variants
from .division import divider

TILE = 64
_PARAMS = Struct("<3Q6q4I4I")


_ADDED = Struct("<Q2q").pack


class Matmul:
    """mm of one dtype; see `mm`."""

    __slots__ = ("itemsize", "defines")
    entry = "matmul_strided"
    op = "mm"

    def __init__(self, of: dtype) -> None:
        self.itemsize = of.itemsize
        self.defines = variants.define(self.op, variants.matmul_scalar(of), "STRIDED")

    def __call__(
        self, device_index: int, out: int, a: int, b: int, m: int, n: int, k: int,
        a_strides: tuple[int, int], b_strides: tuple[int, int], out_strides: tuple[int, int],
    ) -> None:  # fmt: skip
        self._launch(device_index, (out, a, b), (m, n, k), (out_strides, a_strides, b_strides), b"")

    def _launch(
        self, device_index: int, pointers: tuple[int, int, int], sizes: tuple[int, int, int],
        strides: tuple[tuple[int, int], ...], rest: bytes,
    ) -> None:  # fmt: skip
        if sizes[0] == 0 or sizes[1] == 0:
            return
        function = module.function("matmul", self.entry, self.defines, device_index)
        blocks, params = self.plan(pointers, sizes, strides)
        cuda = runtime.cuda()
        cuda.launch(
            function, (blocks, 1, 1), (launch.THREADS, 1, 1), 0,
            cuda.current_stream(device_index), params + rest,
        )  # fmt: skip

    def plan(
        self, pointers: tuple[int, int, int], sizes: tuple[int, int, int],
        strides: tuple[tuple[int, int], ...],
    ) -> tuple[int, bytes]:  # fmt: skip
        """(blocks, parameters); pointers and strides of out, a, b, sizes m, n, k."""
        m, n, k = sizes
        if max(sizes) >= 1 << 31:
            raise errors.must(self.op, "self", "have sizes below 2**31", errors.Got(str(sizes)))
        columns = launch.blocks_for(n, TILE)
        in_bytes = [by * self.itemsize for pair in strides for by in pair]
        return (
            columns * launch.blocks_for(m, TILE),
            _PARAMS.pack(*pointers, *in_bytes, m, n, k, 0, *divider(columns)),
        )


class Addmm(Matmul):
    """addmm of one dtype; see `addmm`."""

    __slots__ = ("number",)
    op = "addmm"

    def __init__(self, of: dtype) -> None:
        super().__init__(of)
        self.number = numbers.arithmetic(variants.arithmetic(of), of, is_rounded=False)

    def __call__(  # type: ignore[override]
        self,
        device_index: int,
        out: int,
        a: int,
        b: int,
        m: int,
        n: int,
        k: int,
        a_strides: tuple[int, int],
        b_strides: tuple[int, int],
        out_strides: tuple[int, int],
        added: int,
        added_strides: tuple[int, int],
        beta: Any,
        alpha: Any,
    ) -> None:
        rest = self.added(added, added_strides, beta, alpha)
        strides = (out_strides, a_strides, b_strides)
        self._launch(device_index, (out, a, b), (m, n, k), strides, rest)

    def added(self, pointer: int, strides: tuple[int, int], beta: Any, alpha: Any) -> bytes:
        """The parameters behind those of mm."""
        in_bytes = [by * self.itemsize for by in strides]
        added = _ADDED(pointer if beta != 0 else 0, *in_bytes)
        return added + self.number(beta) + self.number(alpha)


@cache
def mm(of: dtype) -> Matmul:
    """mm of one dtype: callable(device_index, out, a, b, m, n, k, a_strides, b_strides,
    out_strides), the first three pointers; strides are (row, column) in elements.
    """
    return Matmul(of)


@cache
def addmm(of: dtype) -> Addmm:
    """addmm of one dtype: as `mm`, and behind it the pointer and strides of what is added, beta
    and alpha. With beta 0 that pointer is not read.
    """
    return Addmm(of)
