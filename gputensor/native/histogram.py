"""Counts of values: bincount, histc, histogram, and histogramdd with the operators that it calls.

Source: aten/src/ATen/native/SummaryOps.cpp, Histogram.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._generated import calls, functions
from ..core import dtype as dtypes, errors
from ..core.arguments import real
from ..core.device import CPU
from ..core.dtype import INTEGER
from ..core.geometry import contiguous_geometry
from ..kernels import stub
from ..kernels.cpu import quiet
from ..runtime import cpu
from ..runtime.libraries import HOST
from ..structured import arguments, library
from ..tensor.make import over_array
from ..tensor.tensor import Tensor

BY_LIBRARY = True

# --- counts of integers ---------------------------------------------------------------------------


# The maximum number of bins, which is more than any memory can hold. Without a limit, NumPy would
# allocate 0 bins for numbers near 2**63, and would write out of bounds.
_MOST_BINS = 1 << 59


def bincount(
    key_set: int, self: Tensor, weights: Tensor | None = None, minlength: int = 0
) -> Tensor:
    given = self._geometry
    if given.dtype.category != INTEGER:
        raise errors.wrong_dtype("bincount", "self", "be whole numbers", self)
    if given.ndim != 1:
        raise errors.wrong_shape("bincount", "self", "have one dimension", self)
    minlength = arguments.integer("bincount", "minlength", minlength, least=0)
    if weights is None:
        return _counted(self, None, minlength)
    if weights._geometry.sizes != given.sizes:
        raise errors.wrong_shape("bincount", "weights", "have self's sizes", weights)
    arguments.check_device("bincount", "self", self, "weights", weights)
    to = dtypes.float32 if weights._geometry.dtype is dtypes.float32 else dtypes.float64
    wide = calls.to_dtype(weights, dtypes.float64)
    return calls.to_dtype(_counted(self, wide, minlength), to)


def _counted(self: Tensor, weights: Tensor | None, minlength: int) -> Tensor:
    if self._device is not CPU:
        return library.waiting("bincount", _count, self, weights, minlength)[0]
    by = None if weights is None else weights._get_array()
    return over_array(quiet.run(_count, HOST, self._get_array(), by, minlength))


def _count(library: Any, x: Any, weights: Any, minlength: int) -> Any:
    least, most = (int(x.min()), int(x.max())) if x.size else (0, -1)
    if least < 0:
        raise errors.must("bincount", "self", "hold no negative number", least)
    if most >= _MOST_BINS:
        raise errors.must("bincount", "self", "hold numbers less than 2**59", most)
    if not library.is_gpu:
        return stub.cpu("histogram").bincount(x, weights, max(minlength, most + 1))
    found = library.np.bincount(x.astype("int64"), weights, minlength)
    return found.astype("int64") if weights is None else found


# --- histograms -----------------------------------------------------------------------------------


def _outer(op: str, x: Tensor, least: float, most: float, apart: float) -> tuple[float, float]:
    """Return the outermost edges: [least, most], widened if both are equal.

    `apart` is the distance by which equal edges are moved outwards.
    """
    if not (math.isfinite(least) and math.isfinite(most)):
        raise errors.must(op, "self", "have a finite range", errors.Got(f"[{least}, {most}]"))
    if least > most:
        raise errors.must(op, "range", "ascend", (least, most))
    return (least - apart, most + apart) if least == most else (least, most)


def _range_of(x: Tensor) -> tuple[float, float]:
    if not x._geometry.numel or x._device.type == "meta":
        return 0.0, 1.0
    least, most = calls.aminmax(x, dim=None, keepdim=False)
    return float(least.item()), float(most.item())


def histc(key_set: int, self: Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Tensor:
    given = self._geometry
    arguments.check_is_floating("histc", "self", self)
    bins = arguments.integer("histc", "bins", bins, least=1)
    ends = real("histc", "min", min), real("histc", "max", max)
    if ends[0] == ends[1] and self._device.type != "meta":
        ends = _range_of(self)
    least, most = _outer("histc", self, *ends, 1.0)
    x = calls.to_dtype(self, dtypes.float32) if given.dtype.itemsize == 2 else self
    layout = (contiguous_geometry((bins,), x._geometry.dtype),)
    made = library.call("histc", _evenly, layout, x, bins, least, most)[0]
    return made if x is self else calls.to_dtype(made, given.dtype)


def _evenly(library: Any, x: Any, bins: int, least: float, most: float) -> Any:
    np = library.np
    if not library.is_gpu:
        found = stub.cpu("histogram").evenly(x, bins, least, most)
        if found is not None:
            return found.astype(x.dtype)
    x = x.reshape(-1)
    least, most = x.dtype.type(least), x.dtype.type(most)

    def count(part: slice) -> Any:
        inside = x[part]
        is_in = (inside >= least) & (inside <= most)
        places = ((inside[is_in] - least) / (most - least) * bins).astype("int64")
        return np.bincount(np.minimum(places, bins - 1), minlength=bins)

    return _in_parts(library, len(x), count).astype(x.dtype)


# The number of elements that the CPU processes at a time, so that they stay in the cache.
_PART = 1 << 15


def _in_parts(library: Any, n: int, count: Any) -> Any:
    """Divide n elements into parts. Return the sum of `count(part)` over the parts, added in
    order."""
    if library.is_gpu or n <= _PART:
        return count(slice(0, n))
    parts: list[Any] = [None] * -(-n // _PART)

    def work(number: int) -> None:
        parts[number] = quiet.run(count, slice(number * _PART, (number + 1) * _PART))

    cpu.share(len(parts), cpu.get_num_threads(), lambda: work)
    return sum(parts)


def _checked(op: str, self: Tensor, dims: int, weight: Tensor | None) -> None:
    given = self._geometry
    arguments.check_is_floating(op, "self", self)
    if given.ndim < 2:
        raise errors.wrong_shape(op, "self", "have at least two dimensions", self)
    if given.sizes[-1] != dims:
        raise errors.wrong_shape(op, "self", f"have points of {dims} numbers, as bins", self)
    if weight is not None:
        if weight._geometry.sizes != given.sizes[:-1]:
            raise errors.wrong_shape(op, "weight", "have a weight for each point of self", weight)
        arguments.check_dtype(op, "self", self, "weight", weight)


def _edges(op: str, self: Tensor, bins: Any, range: Any) -> list[Tensor]:
    """Return evenly spaced edges for each coordinate of the points."""
    given = self._geometry
    ends = None if range is None else arguments.reals(op, "range", range)
    if ends is not None and len(ends) != 2 * len(bins):
        raise errors.must(op, "range", f"hold {2 * len(bins)} numbers", range)
    found = []
    for d, count in enumerate(bins):
        count = arguments.integer(op, "bins", count, least=1)
        along = calls.select_int(self, -1, d)
        pair = _range_of(along) if ends is None else (ends[2 * d], ends[2 * d + 1])
        least, most = _outer(op, self, *pair, 0.5)
        found.append(
            functions.linspace(least, most, count + 1, dtype=given.dtype, device=self._device)
        )
    return found


def _tally(
    op: str, self: Tensor, edges: list[Tensor], weight: Tensor | None, density: bool, even: bool
) -> Tensor:
    of = self._geometry.dtype
    sizes = tuple([x._geometry.numel - 1 for x in edges])
    layout = (contiguous_geometry(sizes, of),)
    flat = calls.reshape(self, (-1, len(edges)))
    scales = None if weight is None else calls.reshape(weight, (-1,))
    made = library.call(op, _points, layout, flat, scales, even, *edges)[0]
    if density:
        made = made / calls.sum(made, dtype=None)
        for d, x in enumerate(edges):
            widths = calls.diff(x, 1, -1, None, None)
            made = made / calls.reshape(
                widths, tuple([-1 if d == k else 1 for k in range(len(edges))])
            )
    return made


def _points(library: Any, x: Any, weight: Any, even: bool, *edges: Any) -> Any:
    """Return the histogram of points. even: if True, the edges are evenly spaced, and a division
    finds the approximate bin."""
    np = library.np
    if not library.is_gpu:
        found = stub.cpu("histogram").points(x, weight, even, edges)
        if found is not None:
            return found.astype(x.dtype)
    shape = tuple([len(edge) - 1 for edge in edges])
    total = math.prod(shape)

    def count(part: slice) -> Any:
        points = x[part]
        inside, flat = np.ones(len(points), bool), np.zeros(len(points), "int64")
        for d, edge in enumerate(edges):
            along, bins = points[:, d], len(edge) - 1
            is_in = (along >= edge[0]) & (along <= edge[-1])
            if even:
                place = _beside(np, edge, np.where(is_in, along, edge[0]))
            else:
                place = np.searchsorted(edge, along, "right")
            inside &= is_in
            flat = flat * bins + np.clip(place - 1, 0, bins - 1)
        flat = np.where(inside, flat, total)
        scales = None if weight is None else np.where(inside, weight[part], 0)
        return np.bincount(flat, scales, total + 1)

    return _in_parts(library, len(x), count)[:total].reshape(shape).astype(x.dtype)


def _beside(np: Any, edges: Any, x: Any) -> Any:
    """Return, for each x, the number of edges that are at most x. The edges must be evenly spaced,
    and x must be between the first and the last edge.

    A division gives an approximate index. It is then compared with the three nearest edges.
    """
    least, most, bins = edges[0], edges[-1], len(edges) - 1
    guess = (x - least) / (most - least) * bins
    # Clamp the index: rounding can move it beyond the edges, and it is NaN if the range is
    # infinite.
    guess = np.fmin(np.fmax(guess, 0), bins).astype("int64")
    ends = np.full(1, math.inf, edges.dtype)
    padded = np.concatenate((-ends, edges, ends))
    place = guess - 1
    for beside in range(3):
        place += padded[guess + beside] <= x
    return place


def _histogramdd_bin_edges(
    key_set: int, self: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None,
    density: bool = False,
) -> list[Tensor]:  # fmt: skip
    _checked("histogramdd", self, len(bins), weight)
    return _edges("histogramdd", calls.reshape(self, (-1, len(bins))), bins, range)


def _histogramdd_from_bin_cts(
    key_set: int, self: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None,
    density: bool = False,
) -> Tensor:  # fmt: skip
    _checked("histogramdd", self, len(bins), weight)
    edges = _edges("histogramdd", calls.reshape(self, (-1, len(bins))), bins, range)
    return _tally("histogramdd", self, edges, weight, density, True)


def _histogramdd_from_bin_tensors(
    key_set: int, self: Tensor, bins: Any, weight: Tensor | None = None, density: bool = False
) -> Tensor:
    _checked("histogramdd", self, len(bins), weight)
    for x in bins:
        _check_edges("histogramdd", self, x)
    return _tally("histogramdd", self, list(bins), weight, density, False)


def _check_edges(op: str, self: Tensor, x: Tensor) -> None:
    if x._geometry.ndim != 1 or x._geometry.numel < 2:
        raise errors.wrong_shape(op, "bins", "be edges in one dimension, at least two", x)
    arguments.check_alike(op, "self", self, "bins", x)


def histogram_bin_ct(
    key_set: int, self: Tensor, bins: int = 100, range: Any = None, weight: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    points, scales = _column("histogram", self, weight)
    edges = _edges("histogram", points, (bins,), range)
    return _tally("histogram", points, edges, scales, density, True), edges[0]


def histogram_bins_tensor(
    key_set: int, self: Tensor, bins: Tensor, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    points, scales = _column("histogram", self, weight)
    _check_edges("histogram", self, bins)
    return _tally("histogram", points, [bins], scales, density, False), calls.clone(bins)


def _column(op: str, self: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return each element as a point with one coordinate, and the weights."""
    if weight is not None and weight._geometry.sizes != self._geometry.sizes:
        raise errors.wrong_shape(op, "weight", "have self's sizes", weight)
    points = calls.reshape(self, (self._geometry.numel, 1))
    scales = None if weight is None else calls.reshape(weight, (-1,))
    _checked(op, points, 1, scales)
    return points, scales


# --- histogramdd: public functions ----------------------------------------------------------------

Found = tuple[Tensor, Sequence[Tensor]]


def histogramdd(
    key_set: int, self: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None,
    density: bool = False,
) -> Found:  # fmt: skip
    edges = calls._histogramdd_bin_edges(self, bins, range=range, weight=weight, density=density)
    found = calls._histogramdd_from_bin_cts(self, bins, range=range, weight=weight, density=density)
    return found, edges


def histogramdd_int_bins(key_set: int, self: Tensor, bins: int, *rest: Any) -> Found:
    dims = self._geometry.sizes[-1] if self._geometry.ndim else 0
    return histogramdd(key_set, self, (bins,) * dims, *rest)


def histogramdd_TensorList_bins(
    key_set: int, self: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None,
    density: bool = False,
) -> Found:  # fmt: skip
    made = calls._histogramdd_from_bin_tensors(self, bins, weight=weight, density=density)
    return made, list(bins)
