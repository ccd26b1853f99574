"""Creation of tensors from numbers, ranges and grids, and from other libraries' arrays."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

import gputensor as gt
from gputensor import Tensor, device, dtype
from gputensor.core.dtype import INTEGER

from .dtypes import as_tuple

Device = device | str | None


def arange(
    start: int | float, /, stop: int | float | None = None, step: int | float = 1, *,
    dtype: dtype | None = None, device: Device = None,
) -> Tensor:  # fmt: skip
    """Numbers from `start`, in steps of `step`, before `stop`. Empty if the step has the wrong
    sign."""
    if stop is None:
        start, stop = 0, start
    if (stop - start) * step < 0:
        stop = start + 0 * stop  # an empty range, of floats if `start` or `stop` is a float
    has_floats = any(isinstance(n, float) for n in (start, stop, step))
    if has_floats and dtype is not None and dtype.category == INTEGER:
        # The standard computes the length before rounding; gt.arange of int64 rounds first, as
        # PyTorch does.
        return gt.arange(start, stop, step, dtype=gt.float64, device=device).to(dtype)
    return gt.arange(start, stop, step, dtype=dtype, device=device)


def asarray(
    obj: Any, /, *, dtype: dtype | None = None, device: Device = None, copy: bool | None = None
) -> Tensor:
    """Convert numbers, nested sequences of numbers, or an array. Share the memory if possible."""
    if copy is None and isinstance(obj, np.ndarray) and min(obj.strides, default=0) < 0:
        obj = obj.copy()  # tensors cannot have negative strides
    return gt.asarray(obj, dtype=dtype, device=device, copy=copy)


def empty(
    shape: int | tuple[int, ...], *, dtype: dtype | None = None, device: Device = None
) -> Tensor:
    """A tensor of uninitialised memory."""
    return gt.empty(as_tuple(shape), dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: dtype | None = None, device: Device = None) -> Tensor:
    """A tensor of uninitialised memory with the sizes of x."""
    return gt.empty_like(x, dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: dtype | None = None,
    device: Device = None,
) -> Tensor:  # fmt: skip
    """A matrix with ones on one diagonal and zeros elsewhere. `k` is the diagonal's distance above
    the main diagonal."""
    columns = n_rows if n_cols is None else n_cols
    if k == 0:
        return gt.eye(n_rows, columns, dtype=dtype, device=device)
    made = gt.zeros((n_rows, columns), dtype=dtype, device=device)
    if -n_rows < k < columns:
        gt.diagonal(made, k).fill_(1)
    return made


def from_dlpack(x: Any, /, *, device: Device = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of an object that supports DLPack."""
    return gt.from_dlpack(x, device=device, copy=copy)


def full(
    shape: int | tuple[int, ...], fill_value: bool | int | float | complex, *,
    dtype: dtype | None = None, device: Device = None,
) -> Tensor:  # fmt: skip
    """A tensor filled with one number, by default in the number's dtype."""
    return gt.full(as_tuple(shape), fill_value, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: bool | int | float | complex, *, dtype: dtype | None = None,
    device: Device = None,
) -> Tensor:  # fmt: skip
    """A tensor filled with one number, with the sizes and the dtype of x."""
    return gt.full_like(x, fill_value, dtype=dtype, device=device)


def linspace(
    start: int | float | complex, stop: int | float | complex, /, num: int, *,
    dtype: dtype | None = None, device: Device = None, endpoint: bool = True,
) -> Tensor:  # fmt: skip
    """`num` evenly spaced numbers from `start` to `stop`, or before `stop` if endpoint is False."""
    if endpoint:
        return gt.linspace(start, stop, num, dtype=dtype, device=device)
    return gt.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def meshgrid(*arrays: Tensor, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """Return the coordinates of a grid: one tensor for each vector. Each tensor repeats its
    vector along all other dimensions."""
    return gt.meshgrid(*arrays, indexing=indexing) if arrays else ()


def ones(
    shape: int | tuple[int, ...], *, dtype: dtype | None = None, device: Device = None
) -> Tensor:
    """A tensor of ones."""
    return gt.ones(as_tuple(shape), dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: dtype | None = None, device: Device = None) -> Tensor:
    """A tensor of ones with the sizes of x."""
    return gt.ones_like(x, dtype=dtype, device=device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Matrices with zeros above diagonal `k`."""
    return gt.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Matrices with zeros below diagonal `k`."""
    return gt.triu(x, k)


def zeros(
    shape: int | tuple[int, ...], *, dtype: dtype | None = None, device: Device = None
) -> Tensor:
    """A tensor of zeros."""
    return gt.zeros(as_tuple(shape), dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: dtype | None = None, device: Device = None) -> Tensor:
    """A tensor of zeros with the sizes of x."""
    return gt.zeros_like(x, dtype=dtype, device=device)
