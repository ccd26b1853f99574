"""Copies between arbitrary layouts on the emulator, against NumPy, for tests of copy kernels.

A copy is given in bytes: sizes, strides of both sides (also negative and zero) and the offset of
the first used byte, for any misalignment.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gputensor import runtime
from gputensor.core.dtype import dtype
from gputensor.kernels.cpu import copy as cpu_copy
from gputensor.kernels.cuda import copy_launch, copy_pack_plan, copy_plan
from gputensor.kernels.cuda.copy_walk import Walk, normalise
from gputensor.runtime.device_limits import H200, Limits

_SIZES = (2, 3, 4, 5, 7, 8, 16, 17, 31, 32, 33, 49, 64, 65, 100, 128, 200, 256, 257, 300, 512)


class Copy:
    """sizes; strides and offset of dst and src in bytes; their dtypes."""

    def __init__(
        self, sizes: Iterable[int], dst: Iterable[int], src: Iterable[int], to: dtype, of: dtype,
        dst_offset: int = 0, src_offset: int = 0,
    ) -> None:  # fmt: skip
        self.sizes, self.dst, self.src = tuple(sizes), tuple(dst), tuple(src)
        self.to, self.of, self.offsets = to, of, (dst_offset, src_offset)

    def __repr__(self) -> str:
        return (
            f"Copy({self.sizes}, {self.dst}, {self.src}, {self.to.short}, {self.of.short}, "
            f"{self.offsets})"
        )


def dense(sizes: Iterable[int], itemsize: int, order: Iterable[int] | None = None) -> list[int]:
    """Byte strides of dense memory; `order` has the fastest dimension first (default: the last)."""
    sizes = list(sizes)
    strides, step = [0] * len(sizes), itemsize
    for d in reversed(range(len(sizes))) if order is None else order:
        strides[d] = step
        step *= sizes[d]
    return strides


def some_copy(rng: random.Random, to: dtype, of: dtype, most: int) -> Copy:
    """Return a random copy of up to five dimensions, in any order on either side: with gaps,
    transposed, repeated, stepped, shifted. Every eighth copy has few channels, as pixels do."""
    is_image = rng.random() < 1 / 8
    sizes = [rng.choice(_SIZES) for _ in range(rng.randint(1, 5))]
    if is_image:
        sizes = [rng.choice((1, 2, 3)), rng.randint(2, 16), rng.choice((256, 257, 300, 464, 512))]
    while np.prod(sizes) > most:
        k = rng.randrange(len(sizes))
        sizes[k] = max(1, sizes[k] // 2)

    def strides(
        order: list[int], itemsize: int, *, gaps: bool, turned: bool, still: bool
    ) -> list[int]:
        found, step = [0] * len(sizes), itemsize
        for k in order:
            found[k] = step
            step *= sizes[k]
            if gaps and rng.random() < 0.4:
                step += itemsize * rng.choice([1, 2, 3, 4, 8])
        for k in range(len(sizes)):
            if turned and rng.random() < 0.25:
                found[k] = -found[k]
            if still and rng.random() < 0.3:
                found[k] = 0
        return found

    def chance(share: float) -> bool:
        return rng.random() < share

    one = list(range(len(sizes)))
    rng.shuffle(one)
    other = list(one)
    if is_image:
        one, other = rng.sample(([1, 2, 0], [2, 1, 0]), 2)
    elif chance(0.75):
        rng.shuffle(other)
    dst = strides(one, to.itemsize, gaps=chance(0.4), turned=chance(0.3), still=False)
    src = strides(other, of.itemsize, gaps=chance(0.5), turned=chance(0.3), still=chance(0.3))
    if chance(0.2):
        src = [s * rng.choice([2, 3, 4]) for s in src] if chance(0.3) else [s * 2 for s in src]
    if chance(0.1):
        dst = [2 * s for s in dst]
    shifts = [rng.choice([0, 0, 0, 1, 2, 3, 4, 8]) * d.itemsize for d in (to, of)]
    return Copy(sizes, dst, src, to, of, *shifts)


# --- plans ----------------------------------------------------------------------------------------


def legal_plans(walk: Walk, gpu: Limits = H200) -> list[Any]:
    """Return every plan that can run a walk, also plans that the selection would not choose."""
    found = [copy_plan.elem(walk), copy_plan.choose(walk, gpu)]
    if walk.sizes and walk.dst[0] == walk.dst_bytes:
        steps = {walk.src_bytes: 1, -walk.src_bytes: -1, 0: 0}
        if walk.src[0] in steps:
            found.append(copy_plan.row(walk, steps[walk.src[0]]))
        found += [copy_pack_plan.pack(walk, gpu), copy_plan.skinny(walk)]
    y = copy_plan.direction(walk) or 1
    if y < len(walk.sizes):
        found.append(copy_plan.tile(walk, y, gpu))
    return [plan for plan in found if plan is not None]


# --- running --------------------------------------------------------------------------------------


def _span(sizes: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    ends = [(n - 1) * s for n, s in zip(sizes, strides)]
    return sum(e for e in ends if e < 0), sum(e for e in ends if e > 0) + itemsize


def _filled(rng: np.random.Generator, of: dtype, nbytes: int, offset: int) -> np.ndarray:
    """Return bytes that are numbers of dtype `of` from `offset` on: small numbers if it is
    floating."""
    if of.category < 2:
        made = rng.integers(0, 2 if of.category == 0 else 256, nbytes, dtype=np.uint8)
        return made
    made = np.zeros(nbytes, np.uint8)
    count = (nbytes - offset) // of.itemsize
    values = rng.normal(size=count) * 50
    numbers = (values + 1j * values[::-1]) if of.is_complex else values
    made[offset : offset + count * of.itemsize] = numbers.astype(of.np).view(np.uint8)
    return made


class OnEmulator:
    """Source and destination of a copy in the memory of device 0, and the expected content of
    dst."""

    def __init__(self, copy: Copy, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.copy, self.pointers, self.memories = copy, [], []
        sides = []
        for strides, of, offset in zip((copy.dst, copy.src), (copy.to, copy.of), copy.offsets):
            low, high = _span(copy.sizes, strides, of.itemsize)
            made = _filled(rng, of, high - low + offset, offset % of.itemsize)
            memory = runtime.cuda().allocate(made.nbytes, 0)
            self.memories.append(memory)
            self.pointers.append(memory.ptr + offset - low)
            sides.append((made, np.ndarray(copy.sizes, of.np, made, offset - low, strides)))
        (self.before, _), (source, self.src) = sides
        self.wanted = self.before.copy()
        low, _ = _span(copy.sizes, copy.dst, copy.to.itemsize)
        self.dst = np.ndarray(
            copy.sizes, copy.to.np, self.wanted, copy.offsets[0] - low, copy.dst
        )  # in the expected memory
        _move(self.memories[1], source, to_device=True)

    @property
    def layout(self) -> copy_launch.Layout:
        copy = self.copy
        return copy_launch.Layout(copy.sizes, (copy.dst, copy.src), (copy.to, copy.of))

    def check(self, run: Callable[[], None], what: object) -> None:
        """Run the copy. Raise unless every byte of dst's memory is correct."""
        _move(self.memories[0], self.before, to_device=True)
        run()
        got = np.empty_like(self.before)
        _move(self.memories[0], got, to_device=False)
        runtime.cuda().synchronize(0)
        wrong = np.flatnonzero(got != self.wanted)
        assert not len(wrong), f"{self.copy}: {len(wrong)} wrong bytes with {what}"


def _move(memory: Any, array: np.ndarray, *, to_device: bool) -> None:
    cuda = runtime.cuda()
    ends = (memory.ptr, 0), (array.ctypes.data, -1)
    dst, src = ends if to_device else ends[::-1]
    cuda.copy_async(*dst, *src, array.nbytes, cuda.current_stream(0))


def check(
    copy: Copy, plans: Callable[[Walk, Limits], list[Any]] = legal_plans, seed: int = 0,
    admits: Callable[[copy_launch.CopyLaunch], bool] = lambda made: True, gpu: Limits = H200,
) -> list[str]:  # fmt: skip
    """Run a copy by each plan for a GPU that passes the filter. Return the names of the kernels."""
    case = OnEmulator(copy, seed)
    cpu_copy.copy(case.dst, case.src)
    low = [p & 15 for p in case.pointers]
    walk = normalise(case.layout, *low)
    names = []
    for plan in plans(walk, gpu):
        made = copy_launch.launch_of(walk, plan, case.layout.dtypes, gpu)
        if admits(made):
            case.check(lambda made=made: made(0, tuple(case.pointers)), made)
            names.append(plan.kernel)
    return names
