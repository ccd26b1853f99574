"""Consecutive steps of a chain as one function that g++ builds.

Note [A program]
What is element by element and arithmetic is a loop of the functors of kernels/cuda/*.cu, as
chain_source.py composes them. Between such loops stand NumPy's own inner loops (exp, log, sin: the
address is the ufunc's), reductions of a row, and what is computed once for a row. All of them go
over a tile, some thousand elements or a few whole rows, before the next tile is begun; what only
the program reads lies in a scratch that stays in the first cache. A step's stage is the number of
loops that have to run before its own: what waits for a NumPy loop or a row's sum is a stage later.

Note [The bits of NaN]
IEEE 754 says what each of these operators gives, to the bit, but for which NaN: of two operands
that are NaN a compiler takes either. The greatest of a row may be either zero; a number beyond an
integer's range has no cast in C. So a program says whether it has met such a number, and NumPy's
loops then do that block again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.dtype import dtype
from ..kernels.cpu import copy_compiled
from ..runtime import cpu
from .chain import Chain
from .native_text import LOOP, OF_ROWS, REDUCE, SUM, TILE, UFUNC, UFUNC_ONCE, Writer, has_bounds

# Elements that a thread takes at a time.
_PIECE = 1 << 16


class _Ufunc(ctypes.Structure):
    """The head of PyUFuncObject, of NumPy's stable ABI."""

    _fields_ = (
        ("count", ctypes.c_ssize_t), ("type", ctypes.c_void_p), ("nin", ctypes.c_int),
        ("nout", ctypes.c_int), ("nargs", ctypes.c_int), ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)), ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
    )  # fmt: skip


def inner_loop(ufunc: np.ufunc, of: dtype) -> tuple[int, int] | None:
    """The addresses of a ufunc's loop over a dtype and of what it is given; None where it has none.

    Source: numpy/ufuncobject.h, PyUFuncObject.
    """
    head, letter = _Ufunc.from_address(id(ufunc)), of.np.char
    types = ufunc.types
    if (head.nin, head.nout, head.ntypes) != (ufunc.nin, ufunc.nout, len(types)):
        return None
    signature = f"{letter * ufunc.nin}->{letter}"
    if signature not in types:
        return None
    place = types.index(signature)
    return head.functions[place] or 0, head.data[place] or 0


class Program:
    """Instructions [first, last) of a chain, as one function. kinds: what each is, by its value;
    inner: the bytes from an input's element to the next, 0 of one that repeats; stores: the values
    that are kept of the chain.

    inputs: values that it reads, from outside; stores: values that it leaves. See Note [A program].
    """

    __slots__ = (
        "chain", "made", "inputs", "stores", "kinds", "inner", "stage", "is_rows", "sums",
        "packing", "text", "functors", "numpy", "of_numpy", "call",
    )  # fmt: skip
    chain: Chain
    made: range
    inputs: list[int]
    stores: list[int]
    kinds: dict[int, str]
    inner: list[int]
    stage: dict[int, int]
    is_rows: bool
    sums: list[int]
    packing: list[Any]
    text: str
    functors: list[str]
    numpy: list[int]
    of_numpy: Any
    call: Any

    def __init__(
        self, chain: Chain, first: int, last: int, kinds: dict[int, str], inner: Sequence[int],
        stores: Sequence[int],
    ) -> None:  # fmt: skip
        count = len(chain.inputs)
        self.chain, self.kinds = chain, kinds
        made = self.made = range(count + first, count + last)
        steps = {n: chain.instructions[n - count] for n in made}
        self.inputs = list(dict.fromkeys(
            [x for step in steps.values() for x in step.operands if x >= 0 and x not in made]
        ))  # fmt: skip
        later = {x for step in chain.instructions[last:] for x in step.operands} | {*stores}
        self.stores = [x for x in made if x in later]
        self.is_rows = any([kinds[n] not in (LOOP, UFUNC) for n in made])
        self.inner = [
            0 if self._is_of_row(n) else chain.geometry(n).dtype.itemsize for n in self.stores
        ] + [inner[n] if n < count else self._step_of(n) for n in self.inputs]
        self.stage = {}
        for n, step in steps.items():
            self.stage[n] = max([self._after(x, n) for x in step.operands], default=0)
        readers: dict[int, list[int]] = {n: [] for n in made}
        for n, step in steps.items():
            for x in step.operands:
                if x in readers:
                    readers[x].append(n)
        # Values that lie somewhere between two loops.
        kept = [
            n for n in made
            if kinds[n] != LOOP or n in self.stores
            or any([kinds[r] != LOOP or self.stage[r] != self.stage[n] for r in readers[n]])
        ]  # fmt: skip
        self.sums = [n for n in made if kinds[n] == SUM]
        self.call = None
        writer = Writer(chain, kinds, self.stores, self.inputs, self.inner, self.stage, kept)
        self.text = writer.text()
        self.packing, self.functors = writer.packing, writer.functors
        self.numpy = [x for n in writer.numpy for x in self._inner_loop(n)]

    def _is_of_row(self, n: int) -> bool:
        """Whether a row has one of it."""
        return self.kinds.get(n) in OF_ROWS

    def _inner_loop(self, n: int) -> tuple[int, int]:
        what = self.chain.instructions[n - len(self.chain.inputs)].what
        found = inner_loop(what.entry.loop, what.result)
        assert found is not None  # or it was no step of this kind
        return found

    def _step_of(self, n: int) -> int:
        """The bytes between elements of what an earlier step has left."""
        shape, walk = self.chain.geometry(n), self.chain.walk
        return shape.dtype.itemsize if shape.sizes == walk.sizes else 0

    def _after(self, x: int, n: int) -> int:
        """The stage from which a step may read a value."""
        if x not in self.stage:
            return 0
        # To an integer and back: g++ would make it a trunc, which leaves -0.0.
        is_apart = self.kinds[x] != LOOP or has_bounds(self.chain, x)
        return self.stage[x] + (self.kinds[n] == LOOP and is_apart)

    def numbers(self, scalars: list[Any]) -> bytes:
        return b"".join([pack(scalars[~source]) for _, source, pack in self.packing])

    def shown(self) -> list[str]:
        """For readers."""
        count = len(self.chain.inputs)
        lines = ["one loop: " + ", ".join([f"v{n}" for n in self.made])]
        for n in self.made:
            step, of = self.chain.instructions[n - count], ", ".join(map(str, self._names(n)))
            if self.kinds[n] in (UFUNC, UFUNC_ONCE):
                lines.append(f"v{n}: NumPy's loop of {step.what.entry.loop.__name__}({of})")
            elif self.kinds[n] == REDUCE:
                lines.append(f"v{n}: {step.what.loop} of each row of {of}")
            elif self.kinds[n] == SUM:
                lines.append(f"v{n}: {step.what.loop} of {of}")
        return [*lines, *self.functors]

    def _names(self, n: int) -> list[str]:
        step = self.chain.instructions[n - len(self.chain.inputs)]
        return [f"v{x}" if x >= 0 else f"s{~x}" for x in step.operands]

    # --- a run ------------------------------------------------------------------------------------

    def build(self) -> None:
        """Raises: DeviceError without g++."""
        name = "sums" if self.sums else "chain"
        self.call = copy_compiled.units_of(self.text, name, "fuse")
        self.of_numpy = (ctypes.c_void_p * max(1, len(self.numpy)))(*self.numpy)

    def run(
        self, arrays: list[Any], numbers: bytes, sizes: tuple[int, ...], order: Sequence[int],
        axis: int, threads: int = 1,
    ) -> bool:  # fmt: skip
        """Over arrays that broadcast to these sizes, those of `stores` and then of `inputs`; order:
        the dimensions, slowest first; axis: the one that rows run along. Answers whether NumPy's
        loops have to do it again; it has then written to the stores alone."""
        ndim = len(sizes)
        steps = [
            [0] * (ndim - x.ndim) + [0 if n == 1 else s for n, s in zip(x.shape, x.strides)]
            for x in arrays
        ]
        cols = sizes[axis] if ndim else 1
        if cols > 1 and [of[axis] for of in steps] != self.inner or not self._are_even(arrays):
            return True
        outer = [d for d in order if d != axis and sizes[d] != 1]
        if not self.is_rows and cols > 1:
            while outer and all([of[outer[-1]] == of[axis] * cols for of in steps]):
                cols *= sizes[outer.pop()]
        dims: list[tuple[int, tuple[int, ...]]] = []
        for d in outer:
            size, strides = sizes[d], tuple([of[d] for of in steps])
            if dims and dims[-1][1] == tuple([n * size for n in strides]):
                size *= dims.pop()[0]
            dims.append((size, strides))
        rows = dims[-1][0] if dims else 1
        if self.is_rows or cols < TILE:
            units = -(-rows // max(1, TILE // cols))
        else:
            units = rows * -(-cols // TILE)
        for size, _ in dims[:-1]:
            units *= size
        walked = np.array(
            [*[n for n, _ in dims], *[s for _, strides in dims for s in strides], 0], np.int64
        )
        at = cpu.address_of(walked)
        step = max(1, _PIECE // max(TILE, cols))
        return self._is_odd(
            arrays, numbers, (at, at + 8 * len(dims), len(dims), cols), units, step, threads
        )

    def run_sums(
        self, arrays: list[Any], numbers: bytes, pieces: list[tuple[int, int]], sums: list[Any],
        threads: int,
    ) -> bool:  # fmt: skip
        """Over runs of memory, and of each piece of them, [first, last), its sums."""
        steps = [0 if x.size == 1 else x.strides[0] for x in arrays]
        if steps != self.inner or not self._are_even(arrays):
            return True
        walked, into = np.array(pieces, np.int64), np.array([cpu.address_of(x) for x in sums])
        walk = (cpu.address_of(walked), cpu.address_of(into), 0, 0)
        return self._is_odd(arrays, numbers, walk, len(pieces), 1, threads)

    def _is_odd(
        self, arrays: list[Any], numbers: bytes, walk: tuple[int, int, int, int], units: int,
        step: int, threads: int,
    ) -> bool:  # fmt: skip
        pointers = np.array([cpu.address_of(x) for x in arrays], np.int64)
        given, odd = np.frombuffer(numbers or b"\0", np.uint8), np.zeros(1, np.int32)
        table = np.array(
            [cpu.address_of(pointers), cpu.address_of(given), *walk,
             ctypes.addressof(self.of_numpy), cpu.address_of(odd)], np.int64,
        )  # fmt: skip
        self.call(cpu.address_of(table), units, step, threads)
        return bool(odd[0])

    def _are_even(self, arrays: list[Any]) -> bool:
        """Whether NumPy's loops may read them, which want elements where they belong."""
        return not self.numpy or all([x.flags.aligned for x in arrays])
