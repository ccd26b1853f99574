"""Tensors whose values depend only on the index: arange, linspace, eye.

Source of sizes and dtypes: aten/src/ATen/native/RangeFactories.cpp and TensorFactories.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._generated import calls, operators
from ..core import dtype as dtypes, errors, number_range
from ..core.device import CPU
from ..core.dtype import COMPLEX, INTEGER, dtype
from ..core.geometry import contiguous_geometry
from ..core.number_range import in_64_bits, integer_range
from ..dispatch import defaults, shortcuts
from ..dispatch.keys import BELOW_ADINPLACEORVIEW
from ..iterator import overlap
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..tensor.tensor import Tensor
from ..structured import arguments, missing
from ..structured.pointwise import writes
from ..structured.forms import Kernel
from ..structured.shortcuts import cuda_factories as short_cuda, factories as short_make
from ..structured.shortcuts.computed import new_array
from .factory import dtype_of_number
from ..structured.pointwise import NUMBERS
from ..structured.transfer import resize_output


def _launch(op: str, loop: str, out: Tensor, scalars: tuple[Any, ...]) -> Tensor:
    """Run a loop of the family range on `out`, which already has the right sizes."""
    if out._geometry.numel == 0 or out._device.type == "meta":
        return out
    if out._geometry.dtype is dtypes.complex32:
        sizes, place = out._geometry.sizes, out._device
        wide = calls.empty_memory_format(sizes, dtypes.complex64, None, place, None, None)
        return missing.ask(operators.copy_, out, out, _launch(op, loop, wide, scalars), False)
    if out._device is CPU:
        run(getattr(stub.cpu("range"), loop), out._get_array(), *scalars)
        return out
    launch = writes.writing(op, "range", loop, out._geometry, out._device)
    launch(out._device.index, (out._address(),), scalars)
    return out


def _has_none(made: Tensor, loop: str) -> bool:
    """Return True if the device of `made` has no loop of the family range.

    The caller must then call the `out` form.
    """
    return made._device is not CPU and not stub.serves("range", loop, made._device.type)


def _numbers(op: str, **values: Any) -> None:
    for name, value in values.items():
        if type(value) not in NUMBERS:
            raise errors.wrong_type(op, name, "be a number", value)
        in_64_bits(op, name, value)


def _real(op: str, **values: Any) -> list[Any]:
    """Return the values as real numbers. Raise if a value has an imaginary part other than 0."""
    for name, value in values.items():
        if type(value) is complex and value.imag != 0:
            raise errors.must(op, name, "be real", value)
    return [v.real if type(v) is complex else v for v in values.values()]


# --- arange ---------------------------------------------------------------------------------------


def _arange_length(start: Any, end: Any, step: Any) -> int:
    if not (step > 0 or step < 0):
        raise errors.must("arange", "step", "not be 0", step)
    for name, value in (("start", start), ("end", end)):
        if not math.isfinite(value):
            raise errors.must("arange", name, "be finite", value)
    if (end - start) * (1 if step > 0 else -1) < 0:
        rule = "lie from start in the direction of step"
        raise errors.must("arange", "end", rule, (start, end, step))
    if all(isinstance(v, int) for v in (start, end, step)):
        return int(-((end - start) // -step))
    length: int = math.ceil((end - start) / step)
    return length


def _arange_step(
    key_set: int, start: Any, end: Any, step: Any = 1, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    _numbers("arange", start=start, end=end, step=step)
    if dtype is None:
        integers = all(isinstance(v, int) for v in (start, end, step))
        dtype = dtypes.int64 if integers else defaults.get_default_dtype()
    length = 0
    if isinstance(dtype, dtypes.dtype):  # For other values, `empty` raises the error.
        length, start, step = _arange(dtype, start, end, step)
    made = calls.empty_memory_format((length,), dtype, layout, device, pin_memory, None)
    if _has_none(made, "arange"):
        return missing.ask(operators.arange_start_out, made, start, end, step, made)
    return _launch("arange", "arange", made, (start, step))


def _arange(element: dtype, start: Any, end: Any, step: Any) -> tuple[int, Any, Any]:
    """Return (length, start, step). For an integer dtype, start and step are truncated to integers:
    for int64 before the length is computed, for other dtypes afterwards. Source:
    aten/src/ATen/native/RangeFactories.cpp, arange_out."""
    start, end, step = _real("arange", start=start, end=end, step=step)
    length = _arange_length(start, end, step)
    if element.category != INTEGER:
        return length, start, step
    for name, value in (("start", start), ("end", end), ("step", step)):
        of = element if element is dtypes.uint64 else dtypes.int64
        number_range.check("arange", name, value, of)
    start, step = int(start), int(step)
    if element is not dtypes.int64:
        return length, start, step
    return _arange_length(start, int(end), step), start, step


def _arange_end(key_set: int, end: Any, *options: Any) -> Tensor:
    return _arange_step(key_set, 0, end, 1, *options)


def _arange_start(key_set: int, start: Any, end: Any, *options: Any) -> Tensor:
    return _arange_step(key_set, start, end, 1, *options)


# A short cut stores a result of at most _KEPT_BYTES bytes, and each call copies the stored result.
# For a larger result, each call runs the loop again.
_KEPT_BYTES = 1 << 12


def repeated(
    operator: str, kernel: Kernel, count: int, of_ints: dtype | None = None, loop: str = "",
    scalars: Callable[..., tuple[Any, ...]] | None = None,
) -> Kernel:  # fmt: skip
    """Make the kernel of a factory whose first `count` arguments are numbers. Equal numbers give
    equal results, so the kernel stores short cuts, which write the result by `loop`. Without a
    loop, there are short cuts for small results on the CPU.

    of_ints: the result's dtype if all numbers are ints and no dtype is given; None means the
    default dtype. scalars: a function (dtype, *numbers) that returns the loop's scalars.
    """

    def repeated(key_set: int, *args: Any) -> Tensor:
        table = getattr(operators, operator).table
        made: Tensor = kernel(key_set, *args)
        numbers = args[:count]
        if type(made) is not Tensor or not all([type(n) in NUMBERS for n in numbers]):
            return made
        unnamed = of_ints if all([isinstance(n, int) for n in numbers]) else None
        if made._device is CPU:
            again = partial(_again, loop, made, scalars, numbers)
            short_make.learn_numbers(table, repeated, numbers, made, again, unnamed)
        elif scalars is not None and short_cuda.is_served(made):
            shape, place = made._geometry, made._device

            def write() -> Any:
                launch = writes.writing(loop, "range", loop, shape, place)
                return writes.writer(launch, place, scalars(shape.dtype, *numbers))

            short_cuda.learn(table, repeated, numbers, made, args[count + 2], write, unnamed)
        return made

    repeated.__module__ = kernel.__module__  # A kernel's family is the name of its module.
    shortcuts.jumps(repeated, _over_filling)
    return repeated


def _again(
    loop: str, made: Tensor, scalars: Callable[..., tuple[Any, ...]] | None,
    numbers: tuple[Any, ...],
) -> Callable[[], np.ndarray] | None:  # fmt: skip
    """Return a function that makes a new array equal to the array of `made`. Return None if `made`
    is empty, or too large without a loop, or has a dtype that loops do not write."""
    shape, allocate = made._geometry, new_array(made._geometry)
    if allocate is None:
        return None
    if shape.nbytes <= _KEPT_BYTES:
        kept: Callable[[], np.ndarray] = made._get_array().copy().copy
        return kept
    if scalars is None or shape.dtype is dtypes.complex32:
        return None
    write, given = getattr(stub.cpu("range"), loop), scalars(shape.dtype, *numbers)

    def array() -> np.ndarray:
        found: np.ndarray = allocate()
        run(write, found, *given)
        return found

    return array


def _over_filling() -> Any:
    return (
        (operators.empty_memory_format, shortcuts.FACTORY, "factory.empty"),
        (operators.copy_, shortcuts.BELOW, "copy.copy_"),
    )


def _of_end(of: dtype, end: Any) -> tuple[Any, Any]:
    return _arange(of, 0, end, 1)[1:]


def _of_start(of: dtype, start: Any, end: Any, step: Any = 1) -> tuple[Any, Any]:
    return _arange(of, start, end, step)[1:]


_whole = dtypes.int64
arange: Kernel = repeated("arange", _arange_end, 1, _whole, "arange", _of_end)
arange_start: Kernel = repeated("arange_start", _arange_start, 2, _whole, "arange", _of_start)
arange_start_step: Kernel = repeated(
    "arange_start_step", _arange_step, 3, _whole, "arange", _of_start
)


def arange_end_out(key_set: int, end: Any, out: Tensor) -> Tensor:
    return arange_out(key_set, 0, end, 1, out)


def arange_out(key_set: int, start: Any, end: Any, step: Any, out: Tensor) -> Tensor:
    _numbers("arange", start=start, end=end, step=step)
    length, start, step = _arange(out._geometry.dtype, start, end, step)
    overlap.check_itself("arange", out)
    if out._geometry.numel != length:
        resize_output("arange", out, contiguous_geometry((length,), out._geometry.dtype))
    return _into(out, (length,), lambda flat: _launch("arange", "arange", flat, (start, step)))


def _into(out: Tensor, sizes: tuple[int, ...], write: Any) -> Tensor:
    """Write a 1-d result to `out`, which has the same number of elements. If `out` cannot be viewed
    as 1-d, write to a new tensor and copy."""
    if out._geometry.ndim == 1:
        write(out)
    elif out._geometry.is_contiguous:
        write(calls.view(out, sizes))
    else:
        element, place = out._geometry.dtype, out._device
        flat = write(calls.empty_memory_format(sizes, element, None, place, None, None))
        # The caller has already counted the write to `out`.
        key_set = out._keys & BELOW_ADINPLACEORVIEW
        shaped = calls.view(flat, out._geometry.sizes)
        operators.copy_.redispatch_table[key_set](key_set, out, shaped, False)
    return out


# --- linspace, eye --------------------------------------------------------------------------------


def _ends(element: dtype, start: Any, end: Any, length: int) -> tuple[Any, Any]:
    """Return start and end, converted to the dtype `element`. Integers wrap around."""
    if element.category != COMPLEX and complex in (type(start), type(end)):
        raise errors.must("linspace", "start", f"be real for {element.name}, and end", (start, end))
    ends = []
    for name, value, is_used in (("start", start, length > 0), ("end", end, length > 1)):
        if not is_used:
            value = 0
        number_range.check("linspace", name, value, element)
        if element.category == INTEGER:
            value = int(value)
            value = value if element.is_signed else value & integer_range(element)[1]
        ends.append(value)
    return ends[0], ends[1]


def _linspace(
    key_set: int, start: Any, end: Any, steps: int, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    _numbers("linspace", start=start, end=end)
    if dtype is None:
        dtype = defaults.get_default_dtype()
        if complex in (type(start), type(end)):
            dtype = dtype_of_number(1j)
    length = arguments.integer("linspace", "steps", steps, least=0)
    if isinstance(dtype, dtypes.dtype):
        start, end = _ends(dtype, start, end, length)
    made = calls.empty_memory_format((length,), dtype, layout, device, pin_memory, None)
    if _has_none(made, "linspace"):
        return missing.ask(operators.linspace_out, made, start, end, steps, made)
    return _launch("linspace", "linspace", made, (start, end, steps))


def _of_ends(of: dtype, start: Any, end: Any, steps: int) -> tuple[Any, ...]:
    return (*_ends(of, start, end, steps), steps)


linspace: Kernel = repeated("linspace", _linspace, 3, None, "linspace", _of_ends)


def linspace_out(key_set: int, start: Any, end: Any, steps: int, out: Tensor) -> Tensor:
    _numbers("linspace", start=start, end=end)
    length = arguments.integer("linspace", "steps", steps, least=0)
    start, end = _ends(out._geometry.dtype, start, end, length)
    overlap.check_itself("linspace", out)
    if out._geometry.numel != length:
        resize_output("linspace", out, contiguous_geometry((length,), out._geometry.dtype))
    ends = (start, end, length)
    return _into(out, (length,), lambda flat: _launch("linspace", "linspace", flat, ends))


def _eye_sizes(n: Any, m: Any) -> tuple[int, int]:
    rows, columns = arguments.integer("eye", "n", n), arguments.integer("eye", "m", m)
    if rows < 0 or columns < 0:
        raise errors.must("eye", "n", "not be negative, nor m", (rows, columns))
    return rows, columns


def _eye(
    key_set: int, n: int, m: int, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    if getattr(dtype, "is_float8", False):
        made = _eye(key_set, n, m, dtypes.float32, layout, device, pin_memory)
        return calls.to_dtype(made, dtype, False, False, None)
    made = calls.empty_memory_format(_eye_sizes(n, m), dtype, layout, device, pin_memory, None)
    if _has_none(made, "eye"):
        return missing.ask(operators.eye_m_out, made, n, m, made)
    return _launch("eye", "eye", made, (m,))


def _square_eye(key_set: int, n: int, *options: Any) -> Tensor:
    return _eye(key_set, n, n, *options)


def _columns(of: dtype, *sizes: int) -> tuple[int]:
    return (sizes[-1],)


eye: Kernel = repeated("eye", _square_eye, 1, None, "eye", _columns)
eye_m: Kernel = repeated("eye_m", _eye, 2, None, "eye", _columns)


def eye_n_out(key_set: int, n: int, out: Tensor) -> Tensor:
    return eye_out(key_set, n, n, out)


def eye_out(key_set: int, n: int, m: int, out: Tensor) -> Tensor:
    sizes = _eye_sizes(n, m)
    overlap.check_itself("eye", out)
    if out._geometry.sizes != sizes:
        resize_output("eye", out, contiguous_geometry(sizes, out._geometry.dtype))
    return _launch("eye", "eye", out, (sizes[1],))


# --- tensors as ends ----------------------------------------------------------------------------


def _end(op: str, arg: str, value: Any) -> Any:
    """Return a number, or the value of a 0-d tensor, or 0 on the meta device. To read a tensor, the
    call waits for its device."""
    if not isinstance(value, Tensor):
        return value
    if value._geometry.ndim:
        raise errors.wrong_shape(op, arg, "be a number or a 0-d tensor", value)
    if value._device.type == "meta":
        return 0j if value._geometry.dtype.is_complex else 0
    return calls.item(value)


def linspace_of_tensors(key_set: int, start: Any, end: Any, steps: int, *options: Any) -> Tensor:
    ends = _end("linspace", "start", start), _end("linspace", "end", end)
    return calls.linspace(*ends, steps, *options)


def linspace_of_tensors_out(key_set: int, start: Any, end: Any, steps: int, out: Tensor) -> Tensor:
    ends = _end("linspace", "start", start), _end("linspace", "end", end)
    # The caller has already counted the write to `out`.
    key_set = out._keys & BELOW_ADINPLACEORVIEW
    into = operators.linspace_out.redispatch_table[key_set]
    made: Tensor = into(key_set, *ends, steps, out)
    return made


def logspace_of_tensors(
    key_set: int, start: Any, end: Any, steps: int, base: float = 10.0, *options: Any
) -> Tensor:
    ends = _end("logspace", "start", start), _end("logspace", "end", end)
    return calls.logspace(*ends, steps, base, *options)


def logspace_of_tensors_out(
    key_set: int, start: Any, end: Any, steps: int, base: float, out: Tensor
) -> Tensor:
    ends = _end("logspace", "start", start), _end("logspace", "end", end)
    return logspace_out(key_set, *ends, steps, base, out)


def logspace(
    key_set: int, start: Any, end: Any, steps: int, base: float = 10.0, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    """Return base to the power of linspace, computed in the widest dtype of the category and
    rounded once. For integers, start and end are truncated first, as in RangeFactories.cpp,
    logspace_out."""
    _numbers("logspace", start=start, end=end, base=base)
    is_complex = complex in (type(start), type(end))
    if dtype is None:
        dtype = dtype_of_number(1j) if is_complex else defaults.get_default_dtype()
    if not isinstance(dtype, dtypes.dtype):
        raise errors.not_a_dtype("logspace", dtype)
    if is_complex and dtype.category != COMPLEX:
        raise errors.must("logspace", "start", f"be real for {dtype.name}, and end", (start, end))
    if dtype.category < dtypes.FLOATING:
        steps = arguments.integer("logspace", "steps", steps)
        if steps == 1:  # The power is truncated to an integer, not the exponent.
            value = run(np.power, float(base), float(start)).item()
            number_range.check("logspace", "start", value, dtype)
            made = calls.empty_memory_format((1,), dtype, layout, device, pin_memory, None)
            return missing.ask_inplace(operators.fill__Scalar, made, value)
        start, end = int(start), int(end)
    wide = dtypes.complex128 if dtype.category == COMPLEX else dtypes.float64
    powers = calls.linspace(start, end, steps, wide, layout, device, pin_memory)
    return calls.to_dtype(calls.pow_Scalar(base, powers), dtype, False, False, None)


def logspace_out(
    key_set: int, start: Any, end: Any, steps: int, base: float, out: Tensor
) -> Tensor:
    overlap.check_itself("logspace", out)
    made = logspace(key_set, start, end, steps, base, out._geometry.dtype, None, out._device, None)
    if out._geometry.numel != made._geometry.numel:
        resize_output("logspace", out, made._geometry)
    key_set = out._keys & BELOW_ADINPLACEORVIEW  # The caller has already counted the write.
    shaped = calls.view(made, out._geometry.sizes)
    operators.copy_.redispatch_table[key_set](key_set, out, shaped, False)
    return out
