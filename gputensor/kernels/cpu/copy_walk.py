"""Same-dtype copies between layouts, faster than np.copyto from 256 KiB up.

`copy` normalises, plans (`copy_plan.py`) and walks the boxes of the plan on the threads of
`runtime/cpu.py`. Elements are moved as unsigned integers or 16-byte words of their size, so the
bits of NaNs survive. It does not cast and does not look at dtypes beyond their size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ...runtime import cpu
from . import copy_compiled, copy_permuted, copy_plan
from .copy_plan import GATHER, LANES, ROWS, TILES, Plan, Walk
from ...core.geometry import Sizes

# Below the first, planning costs more than any walk saves; below the second, than one saves that
# goes through both sides in one order (a transpose of 512 KiB 0.5 of np.copyto, rows 1.6).
FROM_NBYTES, LARGE_NBYTES = 1 << 18, 1 << 20
# From here a second thread pays. Handing work over takes 9 us at most (runtime/cpu.py); of less,
# what is won is lost in waiting for the GIL and for memory.
_PARALLEL_FROM = {ROWS: 1 << 22, LANES: 1 << 21, TILES: 1 << 21, GATHER: 1 << 20}

# Bytes that a thread takes at a time where NumPy's own order is right.
_PIECE_NBYTES = 1 << 20

_WORDS = {1: "|u1", 2: "<u2", 4: "<u4", 8: "<u8", 16: "<c16"}
# What a row of a scratch is longer than its elements: rows of a power of two would share few sets
# of the L1 cache.
_PAD = 64


def copy(dst: np.ndarray, src: np.ndarray) -> None:
    """Write `src`, broadcast, into `dst` of the same dtype."""
    if src.shape != dst.shape:
        src = np.broadcast_to(src, dst.shape)
    if dst.size == 0:
        return
    nbytes, is_dense = dst.nbytes, dst.flags.c_contiguous and src.flags.c_contiguous
    is_plain = nbytes < _PARALLEL_FROM[ROWS] if is_dense else is_small(nbytes, dst, src)
    if is_plain or np.may_share_memory(dst, src) or not dst.flags.writeable:
        np.copyto(dst, src)
        return
    if is_dense:
        in_parts(np.copyto, dst.reshape(-1), src.reshape(-1), True)
        return
    if min((*dst.strides, *src.strides), default=0) < 0:
        in_parts(np.copyto, dst, src, dst.nbytes >= _PARALLEL_FROM[ROWS])
        return
    to, source = cpu.address_of(dst), cpu.address_of(src)
    layout = dst.itemsize, dst.shape, dst.strides, src.strides, _alignment(to, source)
    if copy_compiled.get_compiled_loops():
        compiled = copy_permuted.planned(*layout, to % _PAD == 0)
        if compiled is not None:
            copy_permuted.run(compiled, to, source, nbytes)
            return
    how, words = _planned(*layout)
    walk = how.walk
    dst_words = _view(dst, to, words, walk.shape, walk.dst, readonly=False)
    src_words = _view(src, source, words, walk.shape, walk.src, readonly=True)
    if how.box is None:
        in_parts(np.copyto, dst_words, src_words, dst.nbytes >= _PARALLEL_FROM[ROWS])
    else:
        _walk_boxes(how, how.box, words, dst_words, src_words)


def loops(dst: np.ndarray, src: np.ndarray) -> str:
    """Whose loops such a copy takes: "compiled" or "NumPy's"."""
    nbytes = dst.nbytes
    plain = nbytes < FROM_NBYTES or src.shape != dst.shape or is_small(nbytes, dst, src)
    if plain or not dst.flags.writeable or min((*dst.strides, *src.strides)) < 0:
        return "NumPy's"
    if dst.flags.c_contiguous and src.flags.c_contiguous or np.may_share_memory(dst, src):
        return "NumPy's"
    to, source = cpu.address_of(dst), cpu.address_of(src)
    layout = dst.itemsize, dst.shape, dst.strides, src.strides, _alignment(to, source)
    is_compiled = copy_compiled.get_compiled_loops() and copy_permuted.planned(*layout) is not None
    return "compiled" if is_compiled else "NumPy's"


def is_small(nbytes: int, dst: np.ndarray, src: np.ndarray) -> bool:
    """True below LARGE_NBYTES where both sides' smallest steps are along one dimension, or src's
    is none at all."""
    if nbytes >= LARGE_NBYTES:
        return False
    steps, others = dst.strides, src.strides
    return 0 in others or steps.index(min(steps)) == others.index(min(others))


def _alignment(to: int, source: int) -> int:
    """A power of two that divides both addresses."""
    both = to | source | _PAD
    return both & -both


# A plan takes 20 to 40 us, half of what 1 MiB takes to copy.
@lru_cache(maxsize=1024)
def _planned(
    itemsize: int, shape: Sizes, dst: Sizes, src: Sizes, alignment: int
) -> tuple[Plan, str]:
    walk = copy_plan.normalise(itemsize, shape, dst, src, alignment)
    return copy_plan.plan(walk), _words(walk, alignment)


def _words(walk: Walk, alignment: int) -> str:
    """An unsigned integer or, where there is none or it would not be aligned, opaque bytes."""
    needed = min(walk.itemsize, 8)
    aligned = needed <= alignment and not any(s % needed for s in (*walk.dst, *walk.src))
    if walk.itemsize in _WORDS and aligned:
        return _WORDS[walk.itemsize]
    return f"|V{walk.itemsize}"


class _Words:
    """Memory of `owner` seen with other elements; np.asarray keeps it, and so the owner, alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: np.ndarray, interface: dict[str, Any]) -> None:
        self.owner, self.__array_interface__ = owner, interface


def _view(
    owner: np.ndarray, address: int, words: str, shape: list[int], strides: list[int],
    readonly: bool,
) -> np.ndarray:  # fmt: skip
    interface = {
        "version": 3, "typestr": words, "data": (address, readonly),
        "shape": tuple(shape), "strides": tuple(strides),
    }  # fmt: skip
    return np.asarray(_Words(owner, interface))


def in_parts(
    write: Callable[[np.ndarray, np.ndarray], object], dst: np.ndarray, src: np.ndarray,
    is_parallel: bool,
) -> None:  # fmt: skip
    """`write(dst, src)`, by parts of the slowest dimension of `dst` with enough for all threads."""
    threads = cpu.get_num_threads() if is_parallel else 1
    wide = [d for d in range(dst.ndim) if dst.shape[d] >= 4 * threads]
    if threads == 1 or not wide:
        write(dst, src)
        return
    dim = max(wide, key=lambda d: abs(dst.strides[d]))
    lead = (slice(None),) * dim
    length = dst.shape[dim]
    pieces = min(length, max(threads, dst.nbytes // _PIECE_NBYTES))
    step = -(-length // pieces)

    def piece(index: int) -> None:
        where = (*lead, slice(index * step, index * step + step))
        write(dst[where], src[where])

    cpu.share(-(-length // step), threads, lambda: piece)


def _walk_boxes(how: Plan, box: list[int], words: str, dst: np.ndarray, src: np.ndarray) -> None:
    shape = how.walk.shape
    counts = [-(-n // part) for n, part in zip(shape, box)]
    total = 1
    for n in counts:
        total *= n
    walker = _WALKERS[how.kind](how, box, words)

    def make() -> Callable[[int], None]:
        step = walker()

        def piece(index: int) -> None:
            at = []
            for n, part in zip(counts, box):
                index, position = divmod(index, n)
                at.append(slice(position * part, position * part + part))
            where: tuple[Any, ...] = (*at, ...)  # the dots keep a 0-d result an array
            step(dst[where], src[where])

        return piece

    parallel = dst.nbytes >= _PARALLEL_FROM[how.kind]
    cpu.share(total, cpu.get_num_threads() if parallel else 1, make)


# --- walkers: a function of the plan gives a maker, called once per thread, of the step for a box -

Step = Callable[[np.ndarray, np.ndarray], None]


def _rows(how: Plan, box: list[int], words: str) -> Callable[[], Step]:
    return lambda: np.copyto


def _lanes(how: Plan, box: list[int], words: str) -> Callable[[], Step]:
    lane = how.lane

    def step(dst: np.ndarray, src: np.ndarray) -> None:
        dst, src = dst.swapaxes(0, lane), src.swapaxes(0, lane)
        for k in range(dst.shape[0]):
            np.copyto(dst[k], src[k])

    return lambda: step


def _tiles(how: Plan, box: list[int], words: str) -> Callable[[], Step]:
    def make() -> Step:
        scratch = _scratch(how, box, words)

        def step(dst: np.ndarray, src: np.ndarray) -> None:
            part = scratch
            if src.shape != scratch.shape:
                part = scratch[tuple([slice(n) for n in src.shape])]
            np.copyto(part, src)
            np.copyto(dst, part)

        return step

    return make


def _scratch(how: Plan, box: list[int], words: str) -> np.ndarray:
    """An array of a box's shape that runs as src does, padded along dst's run."""
    strides = [0] * len(box)
    stride = how.walk.itemsize
    others = [d for d in range(len(box)) if d not in how.order]
    for d in (*how.order, *others):
        if d == 0:
            stride += _PAD
        strides[d] = stride
        stride *= box[d]
    memory = cpu.allocate(stride + _PAD)
    return np.ndarray(box, words, memory, 0, strides)


def _gather(how: Plan, box: list[int], words: str) -> Callable[[], Step]:
    """Two dense scratches and `indices`, the place in the first of each element of the second."""
    order = [*how.order, *[d for d in range(len(box)) if d not in how.order]]
    backwards = order[::-1]
    tables: dict[Sizes, np.ndarray] = {}

    def table(shape: Sizes) -> np.ndarray:
        found = tables.get(shape)
        if found is None:
            numel = int(np.prod(shape))
            places = np.arange(numel).reshape([shape[d] for d in backwards])
            back = [backwards.index(d) for d in range(len(shape))]
            found = tables[shape] = np.ascontiguousarray(places.transpose(back).T).reshape(-1)
        return found

    def make() -> Step:
        numel = int(np.prod(box))
        first, second = np.empty(numel, words), np.empty(numel, words)

        def step(dst: np.ndarray, src: np.ndarray) -> None:
            in_order = src.transpose(backwards)
            count = src.size
            np.copyto(first[:count].reshape(in_order.shape), in_order)
            np.take(first[:count], table(src.shape), out=second[:count], mode="clip")
            np.copyto(dst.T, second[:count].reshape(dst.T.shape))

        return step

    return make


_WALKERS = {ROWS: _rows, LANES: _lanes, TILES: _tiles, GATHER: _gather}
