"""Operators that are implemented by one function over an array library.

    def _sizes(self, dim): ...                        # checks, and the geometry of each result
    def _sort(library, x, dim): return library.np.sort(x, dim)
    sort = library.kernel("sort", _sizes, _sort)      # row: `CPU, CUDA, Meta: sort`

A family whose kernels themselves call `call` or `write` sets `BY_LIBRARY = True`. Devices of other
packages then use their fallback instead of these kernels.

The function receives arrays in place of tensors. On the CPU, these are NumPy arrays over the
tensors' memory, with the tensors' strides. On the emulator, they are NumPy arrays over emulated
memory, and the function runs in the order of the current stream. On a GPU, they are CuPy arrays
over our memory; the function runs on the device's current stream, and temporaries come from our
allocator. `library.np` is NumPy or CuPy; `library.scipy("fft")` is a module of SciPy or of CuPy.
The function must not read values, except in `waiting`, and must not write into its operands. Its
return value becomes the result. If it has the result's layout, it is not copied. Before the call,
half types that the library lacks are cast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import runtime
from ..core import errors
from ..core.device import CPU, device
from ..core.dtype import of_ours
from ..core.geometry import Geometry, contiguous_geometry
from ..dispatch.backend_select import TENSOR_KEYS
from ..iterator import overlap
from ..kernels.cpu.quiet import run
from ..runtime import blas, cpu
from ..runtime.libraries import HOST, Array, Compute, as_results, has_layout
from ..tensor.make import allocate, from_array, from_storage
from ..tensor.storage import Storage
from ..tensor.tensor import Tensor
from .transfer import resize_output

Results = tuple[Tensor, ...]

# types.CapsuleType, which exists from Python 3.13 on
_CAPSULE: type = type(np.empty(0).__array_struct__)


def kernel(op: str, results: Callable[..., Any], function: Compute) -> Callable[..., Any]:
    """Return the kernel for all devices. results(*args): a function that checks the arguments and
    returns the geometry of the result, or a tuple of geometries."""

    def run_it(key_set: int, *args: Any) -> Any:
        wanted = results(*args)
        if type(wanted) is tuple:
            return call(op, function, wanted, *args)
        return call(op, function, (wanted,), *args)[0]

    return run_it


def call(op: str, function: Compute, wanted: Sequence[Geometry], *args: Any) -> Results:
    """Return new tensors of these geometries that contain the results of `function(library,
    *args)`."""
    place = _place(args)
    if place.type == "meta":
        return tuple([allocate(g, place) for g in wanted])
    if place is CPU:
        arrays = _on_host(args)
        try:
            found = as_results(run(function, HOST, *arrays), len(wanted))
        except np.linalg.LinAlgError as error:
            raise errors.library_failed(op, error) from None
        return adopted(found, wanted, arrays)
    layouts = [_of(g, 0) for g in wanted]
    made = _on_device(op, function, args, (), layouts, place)
    return tuple([_over(memory, g, place) for memory, g in zip(made, wanted)])


def by_lapack(op: str, function: Compute, wanted: Sequence[Geometry], *args: Any) -> Results:
    """Like `call`, for functions that call LAPACK on the matrices of the first tensor. BLAS is
    limited to one thread if the matrices are small, or numerous enough to occupy all threads: see
    runtime/blas.py."""
    if _uses_threads(args[0]._geometry):
        return call(op, function, wanted, *args)
    with blas.one_thread():
        return call(op, function, wanted, *args)


def _uses_threads(shape: Geometry) -> bool:
    *batch, m, n = shape.sizes
    return max(m, n) > blas.SMALL and math.prod(batch) < cpu.get_num_threads()


def lapack_on_host(function: Compute, shape: Geometry, *rest: Any) -> Callable[..., Any]:
    """Return the function that `by_lapack` runs on the CPU for matrices of this geometry. It takes
    arrays. rest: the arguments after the arrays."""

    def on_host(*arrays: Any) -> Any:
        if _uses_threads(shape):
            return function(HOST, *arrays, *rest)
        with blas.one_thread():
            return function(HOST, *arrays, *rest)

    return on_host


def write(op: str, function: Compute, outs: Sequence[Tensor], *args: Any) -> None:
    """Call `function(library, *outs, *args)`, which writes to the arrays of `outs`."""
    place = outs[0]._device
    if place.type == "meta":
        return
    if place is CPU:
        run(function, HOST, *[x._get_array() for x in outs], *_on_host(args))
    else:
        _on_device(op, function, args, outs, (), place)


def waiting(op: str, function: Compute, *args: Any) -> Results:
    """Like `call`, for results whose sizes depend on values. The call waits for the device.

    Raises an error for meta tensors, because they have no values.
    """
    place = _place(args)
    if place.type == "meta":
        raise errors.must(op, "self", "have values, which decide the sizes", args[0])
    if place is CPU:
        arrays = _on_host(args)
        returned = run(function, HOST, *arrays)
        found = [np.asarray(x) for x in (returned if type(returned) is tuple else (returned,))]
        return adopted(found, [_geometry(x) for x in found], arrays)
    returned = _on_device(op, function, args, (), None, place)
    made = returned if type(returned) is tuple else (returned,)
    wanted = [_geometry(x) for x in made]
    layouts = [_of(g, 0) for g in wanted]
    memories = _on_device(op, lambda library: made, (), (), layouts, place)
    return tuple([_over(memory, g, place) for memory, g in zip(memories, wanted)])


def check_out(op: str, out: Tensor, wanted: Geometry, **read: Tensor) -> None:
    """Resize `out` for the result if needed. Raise if `out` cannot contain the result."""
    first = next(iter(read.values()))
    if out._device is not first._device:
        raise errors.mixed_devices(op, first, next(iter(read)), out, "out")
    if out._geometry.dtype is not wanted.dtype:
        raise errors.wrong_dtype(op, "out", f"have the result's dtype {wanted.dtype.short}", out)
    shape = wanted if out._geometry.sizes != wanted.sizes else None
    overlap.check_out(op, out, shape, **read)
    if shape is not None:
        resize_output(op, out, wanted)


# --- arrays of tensors ----------------------------------------------------------------------------


def _place(args: Sequence[Any]) -> device:
    for x in args:
        if isinstance(x, Tensor):
            return x._device
    raise AssertionError("no tensor among the arguments")


def _on_host(args: Sequence[Any]) -> list[Any]:
    return [x._get_array() if isinstance(x, Tensor) else x for x in args]


def _of(geometry: Geometry, ptr: int, is_written: bool = False) -> Array:
    extent = geometry.extent * geometry.dtype.itemsize if geometry.numel else 0
    return Array(ptr, geometry.sizes, geometry.stride_bytes, geometry.dtype.np, extent, is_written)


def _geometry(array: Any) -> Geometry:
    return contiguous_geometry(tuple(array.shape), of_ours(np.dtype(array.dtype)))


def adopted(found: Sequence[Any], wanted: Sequence[Geometry], given: Sequence[Any]) -> Results:
    """Return CPU tensors over a function's results, or over copies of them. given: the operands'
    arrays, with which a result must not share memory."""
    taken = set[int]()
    for x in given:
        if isinstance(x, np.ndarray):
            taken.update((id(x), id(x.base)))
    made = []
    for value, geometry in zip(found, wanted):
        array = value if type(value) is np.ndarray else np.asarray(value)
        # The base of a view is the array that owns the memory, even if the view is a view of
        # another view.
        owner = array if _owns(array) else array.base
        if (
            id(owner) not in taken and type(owner) is np.ndarray and owner.nbytes == array.nbytes
            and (owner is array or _owns(owner))
            and array.size and array.flags.writeable and _has_layout(array, geometry)
        ):  # fmt: skip
            taken.add(id(owner))
            made.append(from_array(array, geometry))
        else:
            tensor = allocate(geometry, CPU)
            np.copyto(tensor._get_array(), array, casting="unsafe")
            made.append(tensor)
    return tuple(made)


def _owns(array: np.ndarray) -> bool:
    """Return True if NumPy or the compiled library allocated the memory for this array."""
    return (base := array.base) is None or type(base) is _CAPSULE


def _has_layout(array: np.ndarray, geometry: Geometry) -> bool:
    if array.shape != geometry.sizes or array.dtype != geometry.dtype.np:
        return False
    return array.strides == geometry.stride_bytes or has_layout(array, _of(geometry, 0))


def _on_device(
    op: str, function: Compute, args: Sequence[Any], outs: Sequence[Tensor],
    results: Sequence[Array] | None, place: device,
) -> Any:  # fmt: skip
    device_runtime = runtime.of(place.type)
    if not hasattr(device_runtime, "call_library"):
        raise errors.no_stub(op, op, place.type)
    for x in args:
        if isinstance(x, Tensor) and x._geometry.dtype.is_opaque:
            raise errors.not_computed(op, "self", x._geometry.dtype, x)
    operands = [_of(x._geometry, x._address(), is_written=True) for x in outs]
    operands += [_of(x._geometry, x._address()) for x in args if isinstance(x, Tensor)]
    with_rest = _filled(function, args, len(outs))
    return device_runtime.call_library(op, with_rest, operands, results, place.index)


def _filled(function: Compute, args: Sequence[Any], before: int) -> Compute:
    """Bind the arguments that are not tensors. Return a function that takes the library, the result
    arrays and the operands' arrays. before: the number of result arrays."""
    rest = [None if isinstance(x, Tensor) else (x,) for x in args]

    def with_rest(library: Any, *arrays: Any) -> Any:
        later = iter(arrays[before:])
        given = [next(later) if x is None else x[0] for x in rest]
        return function(library, *arrays[:before], *given)

    return with_rest


def _over(memory: Any, geometry: Geometry, place: device) -> Tensor:
    nbytes = geometry.extent * geometry.dtype.itemsize
    return from_storage(Storage.over(memory, nbytes, place), 0, geometry, TENSOR_KEYS[place.type])
