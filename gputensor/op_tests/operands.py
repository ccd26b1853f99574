"""Tensors for the samples of tests/rows. Each tensor has values of a given kind and its own
storage.

An operand's values do not depend on device and layout, except that the layout `expanded` repeats
the first element of the first dimension. Gaps between elements contain ones, so that reads and
writes outside the elements are detected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.dtype import BOOL, COMPLEX, FLOATING, INTEGER, STORED, complex32, dtype
from ..core.geometry import contiguous_geometry
from ..core.memory_format import contiguous_strides
from ..kernels.cpu import cast
from ..tensor.make import from_array

LAYOUTS = ("contiguous", "transposed", "channels_last", "step 2", "expanded", "offset")


class T:
    """A tensor in a sample: its sizes, and optionally the kind of its values, its dtype and its
    layout.

    values: `any` (extreme values of the dtype, NaN, infinities), `exact` (small numbers, for which
    a few operations are exact in every dtype), `nonzero` (exact, without 0), `positive` (uniform in
    [0.5, 1), so that sums do not cancel), `classes` (0, 1 or 2), `zeros`, `ones`.
    dtype, layout: None means the test case's. as_storage: pass the tensor's storage instead of the
    tensor.
    """

    __slots__ = ("sizes", "values", "dtype", "layout", "as_storage")
    values: str
    layout: str | None

    def __init__(
        self, *sizes: int, values: str = "exact", dtype: dtype | None = None,
        layout: str | None = None, as_storage: bool = False,
    ) -> None:  # fmt: skip
        self.sizes, self.values, self.dtype, self.layout = sizes, values, dtype, layout
        self.as_storage: bool = as_storage


# --- values ---------------------------------------------------------------------------------------

_REALS = (
    0.0, -0.0, 1.0, -1.5, 2.75, -0.125, 1e-8, 3.5, 100.0, -77.0, 1e30, -1e30, 65504.0, 1e-41,
    1e-310, math.inf, -math.inf, math.nan, 11.0, -6.0,
)  # fmt: skip


@lru_cache(maxsize=4096)
def values(sizes: tuple[int, ...], kind: str, of: dtype, position: int) -> np.ndarray:
    """Return the values of the operand at index `position` in a sample, as a read-only array."""
    random = np.random.default_rng([position, len(sizes), *sizes])
    count = math.prod(sizes)
    with np.errstate(all="ignore"):
        made = _KINDS[kind](random, count, of)
        if of is complex32:
            made = cast.convert(made.astype(np.complex128), of.np)
        made = made.astype(of.np, copy=False).reshape(sizes)
    made.flags.writeable = False
    return made


def _exact(random: np.random.Generator, count: int, of: dtype) -> np.ndarray:
    if of.category == BOOL:
        return random.integers(0, 2, count)
    low = -6 if of.is_signed else 0
    whole = random.integers(low, 7, count)
    if of.category == INTEGER:
        return whole
    if of.category == FLOATING:
        return whole * 0.5
    return whole * 0.5 + 0.5j * random.integers(-6, 7, count)


def _nonzero(random: np.random.Generator, count: int, of: dtype) -> np.ndarray:
    found = _exact(random, count, of)
    return np.where(found == 0, 1, found)


def _any(random: np.random.Generator, count: int, of: dtype) -> np.ndarray:
    if of.category == BOOL:
        return random.integers(0, 2, count)
    if of.category == INTEGER:
        info = np.iinfo(of.np)
        few = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2, 0, 1, 2, 3, 7, 100]
        few += [-1, -2, -7, -100] if of.is_signed else []
        return np.array(few, of.np)[random.integers(0, len(few), count)]
    if of.category == COMPLEX:
        # products and quotients of infinite complex numbers differ between libraries
        return _exact(random, count, of)
    edges = np.array(_REALS)
    start = int(random.integers(0, len(edges)))
    return edges[(start + np.arange(count)) % len(edges)]


def _positive(random: np.random.Generator, count: int, of: dtype) -> np.ndarray:
    if of.category < FLOATING:
        return random.integers(0, 2, count)
    found = random.uniform(0.5, 1, count)
    return found * (1 + 1j) if of.category == COMPLEX else found


def _powers(random: np.random.Generator, count: int, of: dtype) -> np.ndarray:
    """Return positive and negative powers of two, whose products are exact."""
    if of.category == BOOL:
        return np.ones(count)
    signs = np.where(random.integers(0, 2, count) == 1, 1, -1 if of.is_signed else 1)
    if of.category == INTEGER:
        return signs * random.integers(1, 3, count)
    found: np.ndarray = signs * 2.0 ** random.integers(-1, 2, count)
    if of.category == COMPLEX:
        found = found * 1j ** random.integers(0, 4, count)
    return found


def _classes(random: np.random.Generator, count: int, of: dtype) -> np.ndarray:
    return random.integers(0, 3, count)


def _zeros(random: np.random.Generator, count: int, of: dtype) -> np.ndarray:
    return np.zeros(count)


_KINDS = {
    "zeros": _zeros,
    "any": _any, "exact": _exact, "nonzero": _nonzero, "positive": _positive, "classes": _classes,
    "ones": lambda random, count, of: np.ones(count),
    "powers": _powers,
}  # fmt: skip


# --- layouts --------------------------------------------------------------------------------------


def strides_of(sizes: tuple[int, ...], layout: str) -> tuple[tuple[int, ...], int] | None:
    """Return (strides, offset) in elements. Return None if the layout does not apply to these sizes
    or equals the contiguous layout."""
    dense = contiguous_strides(sizes)
    if layout == "contiguous":
        return dense, 0
    if not sizes:
        return (dense, 3) if layout == "offset" else None
    if layout == "offset":
        return dense, 3
    if layout == "transposed":
        found = contiguous_strides(sizes[::-1])[::-1]
        return None if found == dense else (found, 0)
    if layout == "channels_last":
        if len(sizes) != 4:
            return None
        _, c, h, w = sizes
        return (h * w * c, 1, w * c, c), 0
    if layout == "step 2":
        spread = contiguous_strides(tuple(2 * n for n in sizes))
        return tuple(2 * n for n in spread), 1
    assert layout == "expanded", layout
    return ((0, *dense[1:]), 0) if sizes[0] > 1 else None


@dataclass(slots=True, eq=False)
class Built:
    """A tensor made for one call, and a copy of its whole storage from before the call."""

    tensor: Any
    before: np.ndarray

    def storage_now(self) -> np.ndarray:
        array: np.ndarray = self.whole(self.tensor).cpu()._get_array()
        return array

    def whole(self, tensor: Any) -> Any:
        return tensor.as_strided(self.before.shape, (1,), 0)


def layout_of(operand: T, layout: str) -> tuple[tuple[int, ...], int]:
    found = strides_of(operand.sizes, operand.layout or layout)
    return found or (contiguous_strides(operand.sizes), 0)


def array_of(operand: T, of: dtype, layout: str, position: int) -> np.ndarray:
    """Return the values that `build` writes to the operand with this layout."""
    of = operand.dtype or of
    found = values(operand.sizes, operand.values, of, position)
    strides, _ = layout_of(operand, layout)
    if 0 in strides and found.size and found.shape[0] > 1:
        found = np.broadcast_to(found[:1], found.shape)
    return found


def build(operand: T, of: dtype, layout: str, position: int, device: str) -> Built:
    """Make the operand as a tensor on a device."""
    array = array_of(operand, of, layout, position)
    of = operand.dtype or of
    strides, offset = layout_of(operand, layout)
    extent = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides)) if array.size else 0
    base = cast.number(1, of.np).repeat(offset + extent + 2)
    in_bytes = tuple(s * of.itemsize for s in strides)
    inside = np.lib.stride_tricks.as_strided(base[offset:], array.shape, in_bytes)
    inside[...] = array
    flat = from_array(base, contiguous_geometry(base.shape, of))
    before = base.copy()
    if device != "cpu":
        flat = flat.to(device)
    return Built(flat.as_strided(array.shape, strides, offset), before)


assert len(STORED) == 16, "a new dtype needs values here"
