"""Diagonals and triangles of matrices.

Source of the semantics: aten/src/ATen/native/TriangularOps.cpp and TensorFactories.cpp.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._generated import calls, operators
from ..core import dtype as dtypes, errors
from ..core.dtype import BOOL, INTEGER
from ..core.device import CPU, device as as_device
from ..core.geometry import Geometry, Sizes, contiguous_geometry
from ..core.promotion import promote_types
from ..dispatch import shortcuts, tls
from ..dispatch.backend_select import resolve
from ..dispatch.keys import BELOW_ADINPLACEORVIEW, FUSE
from ..iterator import overlap
from ..iterator.coalesce import coalesce
from ..kernels import stub
from ..structured import arguments
from ..structured.forms import Kernel, given, inplace
from ..structured.shortcuts import computed as short, cuda as short_cuda, results as short_results
from ..tensor.make import allocate, over_array
from ..tensor.tensor import Tensor
from .range import repeated

# --- triangles ------------------------------------------------------------------------------------


def tril(key_set: int, self: Tensor, diagonal: int = 0) -> Tensor:
    return _triangle("tril", self, diagonal, lambda row, column: calls.ge_Tensor(row, column))


def triu(key_set: int, self: Tensor, diagonal: int = 0) -> Tensor:
    return _triangle("triu", self, diagonal, lambda row, column: calls.le_Tensor(row, column))


def _triangle(op: str, self: Tensor, diagonal: int, keeps: Any) -> Tensor:
    """Return self with zeros where `keeps(row + diagonal, column)` is false. The result is
    row-major."""
    shape = self._geometry
    if shape.ndim < 2:
        raise errors.wrong_shape(op, "self", "have at least 2 dimensions", self)
    shift = arguments.integer(op, "diagonal", diagonal)
    rows, columns = shape.sizes[-2:]
    shift = max(-rows, min(shift, columns))
    if self._device is CPU and _LONG * min(rows, columns) <= shape.numel:
        made = allocate(contiguous_geometry(shape.sizes, shape.dtype), CPU)
        loop = stub.cpu("triangle").lower if op == "tril" else stub.cpu("triangle").upper
        loop(self._get_array(), made._get_array(), shift)
        return made
    launch = _launch(op, self, shift)
    if launch is not None:
        return launch.fresh(self, diagonal)
    if self._device is CPU and rows * columns <= _KEPT:
        mask = over_array(_mask(op, rows, columns, shift))
    else:
        mask = _compared(self, keeps, rows, columns, shift)
    made = allocate(contiguous_geometry(shape.sizes, shape.dtype), self._device)
    key_set = (made._keys | self._keys) & BELOW_ADINPLACEORVIEW
    into = operators.where_self_out.redispatch_table[key_set]
    # The number is False and not 0: bool has the lowest category, so the result has self's dtype.
    into(key_set, mask, self, False, made)
    if self._device is CPU and rows * columns <= _KEPT and shape.dtype.np.kind in "biufc":
        operator, kernel = (operators.tril, tril) if op == "tril" else (operators.triu, triu)
        loop = _kept(_mask(op, rows, columns, shift))
        make = short.made_by(loop, made._geometry)
        short.learn_again(operator.table, kernel, (self, diagonal), make)
    return made


def _inplace(op: str) -> Kernel:
    """Make the in-place kernel of tril or triu."""

    def kernel(key_set: int, self: Tensor, diagonal: int = 0) -> Tensor:
        shape, launch = self._geometry, None
        if self._device.type == "cuda" and shape.ndim > 1 and not key_set & ~BELOW_ADINPLACEORVIEW:
            shift = arguments.integer(op, "diagonal", diagonal)
            rows, columns = shape.sizes[-2:]
            launch = _launch(op, self, max(-rows, min(shift, columns)), is_inplace=True)
        if launch is None:
            copied: Tensor = _copied(op)(key_set, self, diagonal)
            return copied
        overlap.check_itself(f"{op}_", self, "self")
        launch.write(self, self)
        return self

    return kernel


@functools.cache
def _copied(op: str) -> Kernel:
    """Return the in-place kernel that calls the operator named `op` and copies its result to
    self."""
    return inplace(getattr(operators, op))


tril_: Kernel = _inplace("tril")
triu_: Kernel = _inplace("triu")


class _Layout(NamedTuple):
    """The layout of a kernel of family triangle. shape: the numbers of columns and rows, then the
    other sizes. stride_bytes and dtypes have one entry for out and one for x."""

    shape: Sizes
    stride_bytes: Any
    dtypes: Any
    shift: int


class _Launch:
    """The kernel of tril or triu for one layout. geometry: the geometry of the result. count: the
    number of calls of `fresh`, up to 2. The second call stores a short cut."""

    __slots__ = ("op", "geometry", "run", "count")

    def __init__(self, op: str, x: Tensor, shift: int, is_inplace: bool) -> None:
        given = x._geometry
        self.op, self.count = op, 0
        self.geometry: Geometry = (
            given if is_inplace else contiguous_geometry(given.sizes, given.dtype)
        )
        walks, sizes = [g.stride_bytes for g in (self.geometry, given)], given.sizes
        outer = [*reversed(range(given.ndim - 2))]
        shape, others = coalesce(sizes, walks, outer) if outer else ((), [(), ()])
        layout = _Layout(
            (sizes[-1], sizes[-2], *shape),
            [(walk[-1], walk[-2], *other) for walk, other in zip(walks, others)],
            (given.dtype,) * 2, shift,
        )  # fmt: skip
        self.run: Any = stub.bind("triangle", op, "cuda", layout)

    def write(self, out: Tensor, x: Tensor) -> None:
        self.run(x._device.index, (out._address(), x._address()))

    def fresh(self, x: Tensor, diagonal: Any) -> Tensor:
        if self.count < 2:
            self.count += 1
            if self.count == 2:
                operator, kernel = getattr(operators, self.op), tril if self.op == "tril" else triu
                short_cuda.learn_with_params(
                    operator.table, kernel, (x, diagonal), self.geometry, self.run
                )
        out = allocate(self.geometry, x._device)
        self.write(out, x)
        return out


def _launch(op: str, x: Tensor, shift: int, *, is_inplace: bool = False) -> _Launch | None:
    """Return the kernel for this tensor, or None if the result must be composed of other
    operators."""
    shape, place = x._geometry, x._device
    if (
        place.type != "cuda" or not shape.numel or shape.dtype.is_float8
        or tls.state.get()[0] & FUSE
    ):  # fmt: skip
        return None
    table = getattr(operators, op).table
    key = (_launch, shape, place, shift, is_inplace)
    found: _Launch | None = table.plans.get(key)
    if found is None:
        found = table.remember(key, _Launch(op, x, shift, is_inplace))
    return found


def _kept(mask: np.ndarray) -> Callable[..., None]:
    """Return a function that copies x to out where the mask is true, and writes 0 to out
    elsewhere."""

    def loop(x: np.ndarray, out: np.ndarray) -> None:
        out.fill(0)
        np.copyto(out, x, where=mask)

    return loop


for _kernel in (tril, triu):
    shortcuts.jumps(
        _kernel,
        lambda: ((operators.where_self_out, shortcuts.BELOW, "where.out.<locals>.kernel"),),
    )


# On the CPU, rows are copied one by one if the batch has at least this number of elements per row
# (or per column, if there are fewer columns than rows).
_LONG = 256
# _KEPT: the maximum number of elements of a cached mask. _MASKS: the number of cached masks.
_KEPT, _MASKS = 1 << 20, 8


@functools.lru_cache(_MASKS)
def _mask(op: str, rows: int, columns: int, shift: int) -> np.ndarray:
    below = np.tri(rows, columns, shift if op == "tril" else shift - 1, bool)
    return below if op == "tril" else ~below


def _compared(self: Tensor, keeps: Any, rows: int, columns: int, shift: int) -> Tensor:
    row = calls.arange_start_step(
        shift, shift + rows, 1, dtypes.int64, None, self._device, None
    )  # fmt: skip
    column = calls.arange_start_step(0, columns, 1, dtypes.int64, None, self._device, None)
    found: Tensor = keeps(calls.unsqueeze(row, 1), column)
    return found


def _indices(
    key_set: int, op: str, find: Any, row: int, col: int, offset: int, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    """Return the indices that `find` computes. They are computed on the host, like the elements of
    `tensor(...)`."""
    for arg, value in (("row", row), ("col", col)):
        arguments.integer(op, arg, value, least=0)
    shift = max(-row, min(arguments.integer(op, "offset", offset), col))
    try:
        found = np.stack(find(row, shift, col)).astype(np.int64)
    except ValueError as error:  # NumPy raises this error for sizes above its limit.
        raise errors.host_memory_exhausted(op, error) from None
    element = dtypes.int64 if dtype is None else dtype
    place = CPU if device is None else resolve(as_device(device))
    made = calls.empty_memory_format(found.shape, element, layout, place, pin_memory, None)
    if place.type == "meta":
        return made
    key_set = made._keys & BELOW_ADINPLACEORVIEW
    return operators.copy_.redispatch_table[key_set](key_set, made, over_array(found), False)


def _repeated_indices(op: str, find: Any) -> Kernel:
    return repeated(op, given(_indices, op=op, find=find), 3, dtypes.int64)


tril_indices: Kernel = _repeated_indices("tril_indices", np.tril_indices)
triu_indices: Kernel = _repeated_indices("triu_indices", np.triu_indices)


# --- diagonals ------------------------------------------------------------------------------------


def diag(key_set: int, self: Tensor, diagonal: int = 0) -> Tensor:
    ndim = self._geometry.ndim
    if ndim not in (1, 2):
        raise errors.wrong_shape("diag", "self", "have 1 or 2 dimensions", self)
    if ndim == 1:
        made: Tensor = calls.diag_embed(self, diagonal, 0, 1)
        compute = _embedding(made, diagonal, 0, 1)
    else:
        made, compute = (
            calls.diagonal_copy(self, diagonal, 0, 1),
            lambda x: x.diagonal(diagonal).copy(),
        )
    if not made._geometry.dtype.is_float8:
        short_results.learn(
            operators.diag.table, diag, (self, diagonal), made, compute, is_new=True
        )
    return made


def _embedding(made: Tensor, offset: int, dim1: int, dim2: int) -> Any:
    """Return a function that computes diag_embed of an array. Its result has the sizes of
    `made`."""
    sizes, element = made._geometry.sizes, made._geometry.dtype.np

    def compute(x: Any) -> Any:
        array = np.zeros(sizes, element)
        place = array.diagonal(offset, dim1, dim2)
        place.flags.writeable = True  # NumPy's diagonals are read-only views.
        place[...] = x
        return array

    return compute


def diag_embed(
    key_set: int, self: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1
) -> Tensor:
    shape = self._geometry
    if not shape.ndim:
        raise errors.wrong_shape("diag_embed", "self", "have a dimension", self)
    ndim = shape.ndim + 1
    a = arguments.dim("diag_embed", dim1, ndim, "dim1")
    b = arguments.dim("diag_embed", dim2, ndim, "dim2")
    if a == b:
        raise errors.must("diag_embed", "dim2", "differ from dim1", (dim1, dim2))
    length = shape.sizes[-1] + abs(arguments.integer("diag_embed", "offset", offset))
    sizes = list(shape.sizes[:-1])
    for d in sorted((a, b)):
        sizes.insert(d, length)
    made = calls.new_zeros(self, tuple(sizes), None, None, None, None)
    key_set = (made._keys | self._keys) & BELOW_ADINPLACEORVIEW
    place = calls.diagonal(made, offset, a, b)
    operators.copy_.redispatch_table[key_set](key_set, place, self, False)
    if not shape.dtype.is_float8:
        args, compute = (self, offset, dim1, dim2), _embedding(made, offset, a, b)
        short_results.learn(
            operators.diag_embed.table, diag_embed, args, made, compute, is_new=True
        )
    return made


shortcuts.jumps(diag_embed, lambda: (
    (operators.new_zeros, shortcuts.CPU, "factory.new_zeros"),
    (operators.new_empty, shortcuts.CPU, "factory.new_empty"),
    (operators.empty_memory_format, shortcuts.FACTORY, "factory.empty"),
    (operators.zero_, shortcuts.BELOW, "fill.zero_"),
    (operators.diagonal, shortcuts.CPU, "slicing.diagonal"),
    (operators.copy_, shortcuts.BELOW, "copy.copy_"),
))  # fmt: skip
shortcuts.jumps(diag, lambda: (
    (operators.diag_embed, shortcuts.CPU, diag_embed),
    (operators.diagonal_copy, shortcuts.CPU, "structured.forms.copy.<locals>.kernel"),
    (operators.clone, shortcuts.CPU, "copy.clone"),
))  # fmt: skip


def vander(key_set: int, x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    shape = x._geometry
    if shape.ndim != 1:
        raise errors.wrong_shape("vander", "x", "have 1 dimension", x)
    count = shape.sizes[0] if N is None else arguments.integer("vander", "N", N)
    if count < 0:
        raise errors.must("vander", "N", "not be negative", N)
    element = promote_types(shape.dtype, dtypes.int64) if shape.dtype.category in (
        BOOL, INTEGER) else shape.dtype  # fmt: skip
    base = calls.to_dtype(x, element, False, False, None)
    if not count:
        return calls.new_empty(base, (shape.sizes[0], 0), None, None, None, None)
    column = calls.unsqueeze(base, 1)
    powers = [calls.ones_like(column, None, None, None, None, None)]
    if count > 1:
        powers.append(calls.cumprod(calls.expand(column, (shape.sizes[0], count - 1)), 1))
    made = calls.cat(tuple(powers), 1)
    return made if increasing else calls.flip(made, (1,))
