"""Same-dtype copies between two orders of dimensions by the compiled loops of copy_permuted.cpp.

`planned` says which loop takes a copy and in which units; where none is made for it, NumPy's walk
(`copy_walk.py`) is taken. It runs only where compiled loops were asked for by name.

tiles    each side runs along another dimension, both long enough for whole vectors.
lanes    two to four planes become pixels, or pixels planes.
rows     runs of 32 bytes and more, moved whole.
repeats  a word that is written many times.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ...core.geometry import Sizes
from ...runtime import cpu
from . import copy_compiled, copy_plan
from .copy_plan import Walk

_TEXT = "copy_permuted.cpp"
_ARGUMENTS = tuple((name, "pppnn") for name in ("tiles", "lanes", "rows", "repeats"))
_SIZES = (1, 2, 4, 8, 16)
_VECTOR, _LINE = 16, 64
# Words of a unit along dst's run, whose memory pages stay in the TLB; bytes of a unit.
_ALONG, _UNIT_NBYTES = 1024, 1 << 19
# Bytes of a run that is cut at the ends of lines where it begins within one, and of one whose lines
# wait for others.
_LONG_RUN, _SHORT_RUN = 1024, 256
_LANES = (2, 3, 4)
_SHORTEST_ROW, _LONG_ROW = 32, 1 << 12
_PARALLEL_FROM = 1 << 20

Dimension = tuple[int, int, int]


class Plan:
    """loop: its name; words: bytes of a word; units: of work in all; step: of a thread's piece."""

    __slots__ = ("loop", "words", "table", "units", "step")
    loop: str
    words: int
    table: np.ndarray
    units: int
    step: int

    def __init__(
        self, loop: str, words: int, dims: list[Dimension], parts: tuple[int, int], nbytes: int,
        is_aligned: bool = False, streams: bool = False,
    ) -> None:  # fmt: skip
        self.loop, self.words = loop, words
        units = 1
        for (size, _, _), part in zip(dims, (*parts, *(1 for _ in dims[2:]))):
            units *= -(-size // part)
        head = [len(dims), *parts, is_aligned, streams]
        self.table = np.array([*head, *(n for dim in dims for n in dim)], np.int64)
        self.units, self.step = units, max(1, units * _UNIT_NBYTES // nbytes)

    def __repr__(self) -> str:
        return f"Plan({self.loop}, {self.words}, {self.table.tolist()})"


def run(plan: Plan, dst: int, src: int, nbytes: int) -> None:
    """dst, src: the addresses of a copy that `plan` was made for."""
    loop = copy_compiled.library(_TEXT, (("WORD", f"w{plan.words}"),), _ARGUMENTS)[plan.loop]
    threads = cpu.free_threads() if nbytes >= _PARALLEL_FROM else 1
    copy_compiled.share(loop, dst, src, cpu.address_of(plan.table), plan.units, plan.step, threads)


@lru_cache(maxsize=1024)
def planned(
    itemsize: int, shape: Sizes, dst: Sizes, src: Sizes, alignment: int, at_line: bool = False
) -> Plan | None:
    """The loop for such a copy, strides in bytes, none negative; None where NumPy's is taken.

    alignment: a power of two that divides both addresses. at_line: dst begins a cache line.
    """
    walk = copy_plan.normalise(itemsize, shape, dst, src, alignment)
    shape_, dst_, src_ = walk.shape, walk.dst, walk.src
    if not shape_:
        return None
    if walk.itemsize > _VECTOR:
        return _rows(walk, walk.itemsize, 0, at_line)
    if walk.itemsize not in _SIZES or alignment < min(walk.itemsize, 8):
        return None
    order = sorted((d for d in range(len(shape_)) if src_[d]), key=lambda d: (src_[d], d))
    if dst_[0] == walk.itemsize and not src_[0] and len(shape_) > 1:
        return _rows(walk, shape_[0] * walk.itemsize, 1, at_line)
    dense = dst_[0] == walk.itemsize and bool(order) and src_[order[0]] == walk.itemsize
    if not dense or 0 not in order:
        return None
    if order[0] == 0:
        return _rows(walk, shape_[0] * walk.itemsize, 1, at_line)
    return _lanes(walk, order) or _tiles(walk, order, alignment, at_line)


def _tiles(walk: Walk, order: list[int], alignment: int, at_line: bool) -> Plan | None:
    item, x = walk.itemsize, order[0]
    if min(walk.shape[0], walk.shape[x]) * item < _VECTOR:
        return None
    rest = _soon(walk, order)
    rest += [d for d in range(1, len(walk.shape)) if d not in (x, *rest)]
    nbytes = _nbytes(walk)
    # a run is cut at the ends of dst's lines where that leaves few parts of lines
    has_lines = alignment >= item and not any(step % _LINE for step in walk.dst[1:])
    is_aligned = has_lines and (at_line or walk.shape[0] * item >= _LONG_RUN)
    streams = is_aligned and item > 1 and _empties_cache(walk)
    along = _lines(copy_plan.even_part(walk.shape[0], _ALONG), item)
    across = max(1, _UNIT_NBYTES // (along * item))
    parts = along, _lines(copy_plan.even_part(walk.shape[x], across), item)
    dims = _dims(walk, [0, x, *rest])
    return Plan("tiles", item, dims, parts, nbytes, is_aligned, streams)


def _soon(walk: Walk, order: list[int]) -> list[int]:
    """Dimensions to walk first, which make the shorter of both sides' runs longer."""
    taken, x, run = [0, order[0]], order[0], [walk.itemsize * walk.shape[0]] * 2
    run[1] = walk.itemsize * walk.shape[x]
    run[0] *= walk.shape[x] if walk.dst[x] == run[0] else 1
    run[1] *= walk.shape[0] if walk.src[0] == run[1] else 1
    while min(run) < _SHORT_RUN:
        side = 0 if run[0] < run[1] else 1
        steps = (walk.dst, walk.src)[side]
        following = [d for d in range(1, len(steps)) if steps[d] == run[side] and d not in taken]
        if not following:
            break
        taken.append(following[0])
        run[side] *= walk.shape[following[0]]
    return taken[2:]


def _lanes(walk: Walk, order: list[int]) -> Plan | None:
    item, x = walk.itemsize, order[0]
    for lane, run, steps in ((0, x, walk.dst), (x, 0, walk.src)):
        count = walk.shape[lane]
        if count in _LANES and steps[run] == count * item and walk.shape[run] * item >= _LINE:
            rest = [d for d in range(len(walk.shape)) if d not in (lane, run)]
            parts = count, copy_plan.even_part(walk.shape[run], _UNIT_NBYTES // (4 * item))
            return Plan("lanes", item, _dims(walk, [lane, run, *rest]), parts, _nbytes(walk))
    return None


def _rows(walk: Walk, run: int, begin: int, at_line: bool) -> Plan | None:
    """run: bytes that lie dense in dst, and in src or there as one word. begin: the first dimension
    that is walked."""
    rest = list(range(begin, len(walk.shape)))
    if run < _SHORTEST_ROW or not rest:
        return None
    rest.sort(key=lambda d: walk.src[d] or 1 << 62)  # src from its begin to its end
    first = rest.pop(0)
    parts = run, copy_plan.even_part(walk.shape[first], max(1, _UNIT_NBYTES // run))
    others = _dims(walk, [first, *rest])
    if begin and not walk.src[0]:
        dims = [*_dims(walk, [0]), *others]
        return Plan("repeats", walk.itemsize, dims, (walk.shape[0], parts[1]), _nbytes(walk))
    nbytes, steps = _nbytes(walk), (run, *walk.dst[begin:])
    streams = at_line and not any(step % _LINE for step in steps) and _empties_cache(walk)
    streams = streams and (run < _LONG_ROW or 0 in walk.src)  # else memcpy reads and writes faster
    return Plan("rows", 1, [(run, 1, 1), *others], parts, nbytes, at_line, streams)


def _dims(walk: Walk, which: list[int]) -> list[Dimension]:
    return [(walk.shape[d], walk.dst[d], walk.src[d]) for d in which]


def _empties_cache(walk: Walk) -> bool:
    """Whether dst is written past the cache: both sides are more than two thirds of it.

    Of 16 MiB in a cache of 32 MiB, a copy past it takes 1.3 to 1.7 times as long as one into it;
    of 24 MiB and more, 0.55 to 0.9 times.
    """
    touched = _nbytes(walk) + walk.itemsize * math.prod(
        size for size, step in zip(walk.shape, walk.src) if step
    )
    return 3 * touched > 2 * cpu.cache_nbytes()


def _nbytes(walk: Walk) -> int:
    return int(np.prod(walk.shape)) * walk.itemsize


def _lines(count: int, item: int) -> int:
    """`count` words, rounded up to whole cache lines."""
    return -(-count * item // _LINE) * _LINE // item
