"""Loops made from ufuncs. A loop is the ufunc itself if possible, otherwise a wrapper that handles
numbers and casts.

All pointwise families share this module. It has no code for single operators. The loops take the
operands by position, then `out` by position or by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...core.dtype import BOOL, INTEGER, bfloat16, complex32, complex64, dtype, float16, float32
from ...core.number_range import in_64_bits, integer_range
from . import cast, table

Loop = Callable[..., Any]
Input = Any  # The dtype of an array operand, or the Python type of a number.

_HALF = (float16, bfloat16)


def typed(
    ufunc: np.ufunc, inputs: Sequence[Input], common: dtype, result: dtype, out: dtype
) -> Loop:
    """Return a loop of `ufunc` that computes in `common` and writes `result` to `out`. If no
    operand needs a cast, the loop is the ufunc itself, because NumPy then selects the right inner
    loop."""
    if out is result and all(i is common or isinstance(i, type) for i in inputs):
        if common is not bfloat16 or not any(isinstance(i, type) for i in inputs):
            return ufunc
    # `dtype=` works for NumPy's own types but would not cast bfloat16 operands, so the loop uses
    # `signature=`
    signature = (common.np,) * ufunc.nin + (result.np,)
    return partial(ufunc, signature=signature, casting="unsafe")


def arithmetic(
    op: str, ufunc: np.ufunc, inputs: Sequence[Input], common: dtype, out: dtype
) -> Loop:
    """Bind a ufunc whose result has the common dtype. If the other operand is f16 or bf16, a Python
    number is an f32. Source: aten/src/ATen/native/cpu/BinaryOpsKernel.cpp,
    binary_kernel_reduced_floating_vec."""
    position = number_position(inputs)
    if position is None:
        return typed(ufunc, inputs, common, common, out)
    if common in _HALF:
        return rounded_from_float32(ufunc, common)
    return with_number(op, typed(ufunc, inputs, common, common, out), position, common)


def through_float32(
    op: str, ufunc: np.ufunc, inputs: Sequence[Input], common: dtype, out: dtype
) -> Loop:
    """Like `arithmetic`, but f16 and bf16 arrays are computed in f32 and rounded once."""
    if common in _HALF:
        if all(i is common or isinstance(i, type) for i in inputs):
            return rounded_from_float32(ufunc, common)
        loop = computed(ufunc, inputs, common, out)
        return lambda a, b, out=None: loop(a, b, out)
    return arithmetic(op, ufunc, inputs, common, out)


# From this number of elements on, bf16 is faster if computed in f32, because ml_dtypes' loops take
# 6 ns per element.
_MANY = 512


def of_many(loop: Loop, inputs: Sequence[Input], out: dtype, numel: int) -> Loop:
    """Return a loop that computes the same as `loop` but is faster for `numel` elements of 16-bit
    operands. Return `loop` itself if no loop is faster."""
    arrays = [place for place, given in enumerate(inputs) if not isinstance(given, type)]
    if len(arrays) == 1 and numel >= table.FROM and out.itemsize <= 8:
        given = inputs[arrays[0]]
        if given is float16 and isinstance(loop, np.ufunc) and _has_vectors(loop):
            return loop
        return table.looked_up(loop, arrays[0], given.np, out.np) if given in _HALF else loop
    if numel > _MANY and isinstance(loop, np.ufunc) and loop is not np.nextafter:
        if all(i is bfloat16 for i in inputs):
            return _in_float32(loop, lambda x: x.astype(float32.np))
        if loop in _SLOW_IN_FLOAT16 and all(i is float16 for i in inputs):
            return _in_float32(loop, cast.widened)
    return loop


def _has_vectors(ufunc: np.ufunc) -> bool:
    """Return True if NumPy's f16 loop is faster than a table look-up. On a CPU with AVX512-FP16 the
    loop takes 0.1 to 0.4 ns per element, except for three functions."""
    if ufunc in (np.absolute, np.arccosh, np.arcsinh, np.cos):
        return ufunc is np.absolute
    name = ufunc.__name__
    found: Any = np.lib.introspect.opt_func_info(func_name=f"^{name}$", signature="float16")
    return bool(found.get(name, {}).get("ee", {}).get("current") == "AVX512_SPR")


# For these ufuncs, NumPy's f16 loop takes longer than casts to f32 and back.
_SLOW_IN_FLOAT16 = {
    np.add, np.subtract, np.multiply, np.divide, np.equal, np.not_equal, np.less, np.less_equal,
    np.greater, np.greater_equal,
}  # fmt: skip


def _in_float32(ufunc: np.ufunc, widened: Callable[[np.ndarray], np.ndarray]) -> Loop:
    def loop(*values: Any) -> Any:
        given = values[: ufunc.nin]
        wide = ufunc(*map(widened, given))
        out = values[ufunc.nin] if len(values) > ufunc.nin else None
        return rounded(wide, given[0].dtype if wide.dtype == float32.np else wide.dtype, out)

    return loop


def extreme_of_float16(ufunc: np.ufunc) -> Loop:
    """Return a faster version of np.maximum, np.minimum, np.fmax or np.fmin for two f16 arrays,
    `(a, b, out=None)`. If there is no NaN, it compares the bits as integers, because NumPy takes 3
    to 13 ns per pair."""
    larger = np.maximum if ufunc in (np.maximum, np.fmax) else np.minimum

    def loop(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        if a.size + b.size < 2 * _MANY:
            found: np.ndarray = ufunc(a, b, out=out)
            return found
        first, second = _in_order(a.view(np.int16)), _in_order(b.view(np.int16))
        if any(k.max() > _INFINITE or k.min() < ~_INFINITE for k in (first, second)):
            return np.asarray(ufunc(a, b, out=out))
        made: np.ndarray = _in_order(larger(first, second)).view(a.dtype)
        if out is None:
            return made
        np.copyto(out, made)
        return out

    return loop


_INFINITE = 0x7C00


def _in_order(bits: np.ndarray) -> np.ndarray:
    """Map the bits of f16 numbers to integers that have the order of the numbers. The function is
    its own inverse."""
    keys: np.ndarray = np.right_shift(np.atleast_1d(bits), 15)
    np.bitwise_and(keys, 0x7FFF, keys)
    np.bitwise_xor(keys, bits, keys)
    return keys


def float32_ufunc(ufunc: np.ufunc) -> Loop:
    """Return `ufunc` with every operand cast to f32."""
    return partial(ufunc, signature=(float32.np,) * ufunc.nargs, casting="unsafe")


def rounded_from_float32(ufunc: np.ufunc, common: dtype) -> Loop:
    """Make a loop of two operands that computes in f32 and rounds the result to `common`."""
    wide = float32_ufunc(ufunc)
    to = common.np
    return lambda a, b, out=None: rounded(wide(a, b), to, out)


def rounded(wide: np.ndarray, to: np.dtype, out: np.ndarray | None) -> np.ndarray:
    """Round the f32 array `wide` to dtype `to`. Return a new array or, if `out` is given, cast the
    rounded result into it."""
    narrow = wide.astype(to)
    if out is None:
        return narrow
    np.copyto(out, narrow, casting="unsafe")
    return out


def number_position(inputs: Sequence[Input]) -> int | None:
    """Return the index of the first input that is a Python number; None if there is none."""
    for position, given in enumerate(inputs):
        if isinstance(given, type):
            return position
    return None


def with_number(op: str, loop: Loop, position: int, common: dtype) -> Loop:
    """Return a loop of two operands that wraps the number at `position` to the range of `common`,
    then calls `loop`.

    Floating and complex dtypes accept every Python number. NumPy rejects integers out of range.
    """
    if common.category == INTEGER:
        low, high = integer_range(common)
        arg, to = ("self", "other")[position], common.np

        def wrap(number: Any) -> int:
            return cast.wrap(in_64_bits(op, arg, number), to)

        if position:
            return lambda a, b, out=None: loop(a, b if low <= b <= high else wrap(b), out)
        return lambda a, b, out=None: loop(a if low <= a <= high else wrap(a), b, out)
    if common is bfloat16 or common.category == BOOL:
        number, to = cast.number, common.np
        if position:
            return lambda a, b, out=None: loop(a, number(b, to), out)
        return lambda a, b, out=None: loop(number(a, to), b, out)
    return loop


# --- complex32 ------------------------------------------------------------------------------------


def through_complex64(
    bind: Callable[..., Loop], op: str, inputs: Sequence[Input], common: dtype, out: dtype
) -> Loop:
    """Make the complex32 loop from the complex64 loop that `bind` returns. The complex32 loop
    always needs `out`, into which the result is rounded once. Numbers are rounded to complex32
    first, as in PyTorch."""
    is_common = common is complex32
    wide = [_wide(complex if is_common and isinstance(x, type) else x) for x in inputs]
    loop, result = bind(op, tuple(wide), _wide(common), _wide(out)), _wide(out).np

    def entered(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return cast.readable(cast.convert(x, common.np) if is_common else x)
        return cast.readable(cast.number(x, common.np)).item() if is_common else x

    def through(*values: Any) -> Any:
        *given, out = values
        operands = [entered(x) if k < len(wide) else x for k, x in enumerate(given)]
        made = np.empty(out.shape, result)
        loop(*operands, made)
        cast.convert_into(out, made)
        return out

    return through


def _wide(of: Input) -> Input:
    return complex64 if of is complex32 else of


# --- functions of arrays --------------------------------------------------------------------------


def computed(
    function: Callable[..., Any], inputs: Sequence[Input], common: dtype, out: dtype
) -> Loop:
    """Make the loop `(*inputs, *params, out)` from a function of arrays. Such a loop takes more
    time per call than a bare ufunc.

    The function receives all inputs in the common dtype (f16 and bf16 in f32), and numbers and
    params as scalars of that dtype. It returns a new array, which is rounded once. 0-d arrays are
    passed as arrays of one element, so that a ufunc's result is an array. `out` is always passed;
    None lets NumPy allocate the result.
    """
    compute, to = (float32 if common in _HALF else common).np, common.np
    enters = [
        _kept_number(compute) if isinstance(given, type)
        else None if given is common and to is compute
        else partial(entered_in, common=to, compute=compute)
        for given in inputs
    ]  # fmt: skip
    takes_arrays = enters == [None] * len(inputs)
    takes_out = isinstance(function, np.ufunc) or function is np.ndarray.clip
    is_direct = takes_out and out is common and to is compute

    def bare(count: int, numbers: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return (callable, rest). The callable is called with `count` arrays, followed by the
        arguments `rest`. If no array needs a cast, the callable is `function` itself: NumPy
        allocates the result, and there is no final cast."""
        if enters[:count] != [None] * count:
            return loop, (*numbers, None)
        while len(enters) < count + len(numbers):
            enters.append(_kept_number(compute))
        return function, tuple([x if e is None else e(x) for e, x in zip(enters[count:], numbers)])

    def loop(*values: Any) -> Any:
        *given, out = values
        while len(enters) < len(given):
            enters.append(_kept_number(compute))
        if not takes_arrays or len(given) > len(inputs):
            given = [x if e is None else e(x) for e, x in zip(enters, given)]
        if is_direct:
            return function(*given, out=out)
        if out is not None and not out.ndim:
            given = [x.reshape(1) if type(x) is np.ndarray else x for x in given]
            out = out.reshape(1)
        made = function(*given)
        if made.dtype is not to and made.dtype != to:
            made = made.astype(to)
        if out is None:
            return made
        cast.convert_into(out, made)
        return out

    vars(loop)["bare"] = bare
    return loop


def _kept_number(compute: np.dtype) -> Callable[[Any], Any]:
    """Return a function that converts numbers to scalars. The function caches the last scalar,
    because repeated calls often pass the same number."""
    last: tuple[Any, Any] = (None, None)

    def enter(x: Any) -> Any:
        nonlocal last
        number, made = last
        if x is not number:
            made = cast.number(x, compute) if isinstance(x, (bool, int, float, complex)) else x
            last = (x, made)
        return made

    return enter


def entered_in(x: np.ndarray, common: np.dtype, compute: np.dtype) -> np.ndarray:
    """Cast an input to the dtype of the computation. An array whose dtype differs from the common
    dtype is first rounded to the common dtype."""
    entered = cast.convert(x, common)
    if entered.dtype == float16.np and compute == float32.np:
        return cast.widened(entered)
    return cast.convert(entered, compute)
