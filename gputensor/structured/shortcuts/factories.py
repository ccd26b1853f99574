"""Short cuts of factories and of copies on the CPU: see Note [Short cuts] in dispatch.

A short cut skips the operators of which a factory or a copy is composed. It makes their checks: of
the thread's state, the default device, and the operand's keys. The forms are in
structured/_generated/short_forms.py. This module has the parts that depend on the layout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from .._generated import short_forms as forms
from ...core.device import CPU
from ...core.geometry import Geometry
from ...dispatch import defaults, shortcuts
from ...dispatch.operator import Table
from ...dispatch.shortcuts import ShortCut
from ...dispatch.tls import PLAIN, state
from ...kernels import stub
from ...tensor.make import CPU_KEYS, allocate, from_array
from ...tensor.tensor import Tensor
from ..view_kernel import seen
from .computed import around, filler, fits_in, long_way, new_array

_now = state.get

made_of_nothing, empty, like, copy_ = forms.made_of_nothing, forms.empty, forms.like, forms.copy_
filled_with, _REPEATED = forms.filled, (forms.repeated_1, forms.repeated_2, forms.repeated_3)


def leave(
    table: Table, kernel: Any, front: tuple[Any, ...], element: Any, make: Any, unnamed: Any = None
) -> None:
    """Store the short cuts of a factory, for calls that pass the dtype and the device, and for
    calls that omit them. The short cuts are dropped if the default dtype changes. A short cut for
    calls without a device checks that the default device is the CPU.

    front: the arguments before the dtype. unnamed: the dtype of calls without a dtype argument, if
    it is not the default dtype.
    """
    is_unnamed = element is (unnamed or defaults.get_default_dtype())
    found = ((CPU, make(False)), (None, make(True)))
    if found[0][1] is None:
        return
    for given in (element, None) if is_unnamed else (element,):
        for place, short in found:
            shortcuts.learn(table, kernel, (*front, given, place), short)


def learn(
    table: Table, kernel: Any, front: tuple[Any, ...], made: Tensor,
    again: Callable[[], Callable[[], Any] | None], make: Any = made_of_nothing, unnamed: Any = None,
) -> None:  # fmt: skip
    """Store the short cuts of a factory, once a call with the same arguments is repeated.

    front, unnamed: as in `leave`. made: the call's result. again: a function that returns the
    function that makes the result's array, or None. make(geometry, array, asks): returns the short
    cut that calls the function `array`.
    """
    shape = made._geometry
    known = seen(shape, (table.operator.name, front))
    if shortcuts.is_due(known, table):
        array = again()
        if array is not None:
            leave(table, kernel, front, shape.dtype, lambda asks: make(shape, array, asks), unnamed)
        known.short = table.short


def learn_numbers(
    table: Table, kernel: Any, numbers: tuple[Any, ...], made: Tensor,
    again: Callable[[], Callable[[], Any] | None], unnamed: Any = None,
) -> None:  # fmt: skip
    """Store the short cuts of a factory that takes up to three numbers: see `learn`."""

    def make(shape: Geometry, array: Any, asks: bool) -> ShortCut:
        return _REPEATED[len(numbers) - 1](shape, array, asks, numbers)

    learn(table, kernel, numbers, made, again, make, unnamed)


def filled(geometry: Geometry, made: Tensor) -> Callable[[], Any] | None:
    """Return a function that makes an array of this geometry, filled with the first element of
    `made`. Return None if `new_array` cannot make the array."""
    allocate = new_array(geometry)
    if allocate is None:
        return None
    one = made._get_array().reshape(-1)[:1].reshape(()).copy()
    fill = np.ndarray.fill if geometry.in_numpy else stub.cpu("copy").copy

    def array() -> Any:
        found = allocate()
        fill(found, one)
        return found

    return array


def filled_like(geometry: Geometry, made: Tensor) -> ShortCut | None:
    """Return the short cut of zeros_like and ones_like. made: the result of a call."""
    array = filled(geometry, made)
    return None if array is None else like(geometry, array)


def full_like(geometry: Geometry, made: Tensor) -> ShortCut | None:
    """Return the short cut of full_like, which autograd does not record."""
    allocate, fits, fill = new_array(geometry), fits_in(geometry), filler(geometry)
    if allocate is None or fits is None:
        return None

    def short(self: Any, value: Any) -> Any:
        if self._keys is not CPU_KEYS or _now() is not PLAIN or not fits(value):
            return None
        array = allocate()
        fill(array, value)
        return from_array(array, geometry)

    return short


def number(geometry: Geometry, asks: bool) -> ShortCut | None:
    """Return the short cut of a factory of 0-d tensors. asks: True if the default device must be
    checked."""
    fits, element = fits_in(geometry), geometry.dtype.np
    if fits is None:
        return None

    def short(value: Any) -> Any:
        if not fits(value) or _now() is not PLAIN:
            return None
        if asks and forms._places()[-1] is not CPU:
            return None
        array = np.empty((), element)
        array.fill(value)
        return from_array(array, geometry)

    return short


def new(geometry: Geometry, array: Callable[[], Any] | None) -> ShortCut | None:
    """Return the short cut of a `new_` factory, which autograd does not record. array: a function
    that makes the result's array; None if the call passes the fill value."""
    allocate, fits, fill = new_array(geometry), fits_in(geometry), filler(geometry)
    if allocate is None or array is None and fits is None:
        return None

    def short(self: Any, size: Any, value: Any = 0) -> Any:
        if self._keys is not CPU_KEYS or _now() is not PLAIN:
            return None
        for n in size:
            if type(n) is not int:
                return None
        if array is not None:
            return from_array(array(), geometry)
        if fits is None or not fits(value):
            return None
        made = allocate()
        fill(made, value)
        return from_array(made, geometry)

    return short


def empty_like(geometry: Geometry) -> ShortCut:
    """Return a short cut that makes an uninitialised tensor of a geometry.

    Autograd does not record it.
    """
    if geometry.in_numpy:
        return forms.empty_like(geometry)

    def large(self: Any) -> Any:
        if self._keys is not CPU_KEYS or _now() is not PLAIN:
            return None
        return allocate(geometry, CPU)

    return large


def copied(table: Table, self: Tensor, geometry: Geometry) -> ShortCut | None:
    """Return a short cut that copies its operand to `geometry`. Return None if NumPy would give
    copies of the operand another layout."""
    shape = self._geometry
    order: Literal["C", "K"] = "C" if geometry.is_contiguous else "K"
    # Test another array of the same layout, because access to the tensor's own array would run
    # pending work.
    memory = np.empty(shape.extent * shape.dtype.itemsize, np.uint8)
    source = np.ndarray(shape.sizes, shape.dtype.np, memory.data, 0, shape.stride_bytes)
    if source.copy(order).strides != geometry.stride_bytes:
        return None
    return forms.copied(geometry, order, _turns(self), around(table, (None,)))


def _turns(self: Tensor) -> tuple[Geometry | None, tuple[int, ...]]:
    """If a tensor is a view that permutes its base's dimensions, return the base's geometry and the
    permutation. Otherwise return None and ()."""
    shape, base = self._geometry, self._autograd
    if type(base) is not Tensor or base._geometry.ndim != shape.ndim:
        return None, ()
    of = base._geometry
    if of.dtype is not shape.dtype:
        return None, ()
    left, dims = list(zip(of.sizes, of.strides)), list[int]()
    for wanted in zip(shape.sizes, shape.strides):
        found = next((d for d, there in enumerate(left) if there == wanted and d not in dims), None)
        if found is None:
            return None, ()
        dims.append(found)
    return of, tuple(dims)


def learn_cast(
    table: Table, kernel: Callable[..., Any], key: Any, copy: Callable[..., Any],
    geometry: Geometry, behind: tuple[Any, ...],
) -> None:  # fmt: skip
    """Store the short cut of a cast. copy(array, x) writes x into a new row-major array. behind:
    all arguments after x."""
    sizes, element = geometry.sizes, geometry.dtype.np

    def cast(x: Any) -> Any:
        array = np.empty(sizes, element)
        copy(array, x)
        return array

    recorded = around(table, behind)
    shortcuts.learn(table, kernel, key, forms.one(cast, (), geometry, (), long_way, recorded))
