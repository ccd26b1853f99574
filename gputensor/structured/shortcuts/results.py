"""Short cuts of CPU calls whose results are computed by a function of arrays: see Note [Short cuts]
in dispatch.

They are for operators with one or several results, such as sort, kthvalue and the factorisations.
The kernels of these operators check the arguments, call a function of arrays, and make tensors from
its results. Unlike in computed.py, this function chooses the layout of its results, so each array
is adopted or copied as in structured/library.py.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

from numpy import ndarray
from numpy.linalg import LinAlgError

from ...core.arguments import are_equal
from ...core.device import CPU
from ...core.geometry import Geometry
from ...dispatch.operator import Table
from ...dispatch.shortcuts import LONG, ShortCut, in_block
from ...dispatch.tls import BELOW, FUSING, PLAIN, state
from ...kernels.cpu.quiet import run
from ...tensor.make import CPU_KEYS, from_array
from ...tensor.tensor import Tensor
from ..library import adopted
from .computed import around, comes_again, store

_now = state.get


def learn(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], made: Any,
    compute: Callable[..., Any], is_new: bool = False, key: Any = None,
) -> None:  # fmt: skip
    """Store the short cut of a call, once the call is repeated.

    args: all arguments, tensors first. made: the call's result or results. compute(*arrays):
    returns the arrays of the results, or None if the kernel must report an error. is_new: True if
    each result is always a new array, or a view of all elements of a new array to which there is no
    other reference. key: what finds the short cut, if it is not the geometries of the tensors.
    """
    results = made if type(made) is tuple else (made,)
    if not all([type(x) is Tensor and x._device is CPU for x in results]):
        return
    if not comes_again(table, kernel, args):
        return
    count = next((n for n, x in enumerate(args) if not isinstance(x, Tensor)), len(args))
    params, is_one = args[count:], type(made) is not tuple
    wanted = [x._geometry for x in results]
    begin, finish = around(table, params)
    takes = [_taking(x) for x in wanted]
    take = takes[0]
    is_new = is_new and all([x.numel for x in wanted])

    def make(otherwise: ShortCut) -> ShortCut:
        def short(*given: Any) -> Any:
            operands, rest = given[:count], given[count:]
            if not all(map(is_, rest, params)) and not are_equal(rest, params):
                return otherwise(*given)
            now, node, has_history = _now(), None, False
            for x in operands:
                if x._keys is not CPU_KEYS:
                    return None
                has_history = has_history or x._autograd is not None
            if now is not PLAIN and now is not BELOW:
                if now is not FUSING or not in_block[0](*operands):
                    return None
            if has_history and now is not BELOW and (node := begin(*operands)) is LONG:
                return None
            arrays = [x._get_array() for x in operands]
            try:
                found = run(compute, *arrays)
            except LinAlgError:
                return None
            if found is None:
                return None
            if is_one:
                result: Any = take(found) if is_new else None
                if result is None:
                    (result,) = adopted((found,), wanted, arrays)
            else:
                tensors = [t(array) for t, array in zip(takes, found)] if is_new else ()
                is_taken = tensors and all([x is not None for x in tensors])
                result = tuple(tensors) if is_taken else adopted(found, wanted, arrays)
            return result if node is None else finish(result, node)

        return short

    if key is None:
        shapes = [x._geometry for x in args[:count]]
        key = shapes[0] if count == 1 else tuple(shapes)
    store(table, kernel, key, make)


def _taking(geometry: Geometry) -> Callable[[Any], Tensor | None]:
    """Return a function that takes a new array. It returns a tensor over the array, or None if the
    array does not have this layout and must be copied."""
    sizes, strides, element = geometry.sizes, geometry.stride_bytes, geometry.dtype.np

    def take(array: Any) -> Tensor | None:
        if (
            type(array) is not ndarray or array.shape != sizes
            or array.strides != strides or array.dtype is not element
        ):  # fmt: skip
            return None
        return from_array(array, geometry)

    return take
