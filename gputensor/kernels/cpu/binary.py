"""out[i] = op(a[i], b[i]), and a[i] + alpha * b[i].                                 family: binary

Types    computes in the common dtype; f16 and bf16 in f32, rounded once. A Python number with f16
         or bf16 operands is an f32, and so is its product with alpha. Integers wrap around; integer
         division by zero raises.
Source   rounding modes of div: aten/src/ATen/native/cpu/BinaryOpsKernel.cpp, div_floor_kernel.
         Floor division of floats follows Python and np.floor_divide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...core import errors
from ...core.dtype import BOOL, FLOATING, INTEGER, bfloat16, dtype, float16, float32
from ...core.number_range import in_64_bits
from . import cast
from .pointwise import (
    Input, Loop, arithmetic, computed, extreme_of_float16, number_position, rounded,
    through_float32, typed, with_number,
)  # fmt: skip
from .select import where


def bind(op: str, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    """Return the loop `(a, b, out=None)` of `op` for these dtypes, or `(a, b, alpha, out=None)` if
    `op` has an alpha."""
    builder, function = LOOPS[op]
    return builder(op.partition("_")[0], function, inputs, common, out)


def _extremum(op: str, ufunc: np.ufunc, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    """Bind a maximum or minimum of two operands. `out` is passed by name, because NumPy deprecates
    a positional `out` for these ufuncs."""
    position = number_position(inputs)
    if out is common is float16 and all(i is float16 for i in inputs):
        return extreme_of_float16(ufunc)
    if position is None or common in (float16, bfloat16):
        loop = arithmetic(op, ufunc, inputs, common, out)
        return lambda a, b, out=None: loop(a, b, out=out)
    bare = typed(ufunc, inputs, common, common, out)
    return with_number(op, lambda a, b, out=None: bare(a, b, out=out), position, common)


# --- scaled: a + alpha * b ----------------------------------------------------------------------


def _scaled(op: str, ufunc: np.ufunc, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    """Bind an addition or subtraction with alpha. alpha * b is rounded to the dtype of the
    computation (f32 for f16 and bf16), as on all devices."""
    compute = float32 if common in (float16, bfloat16) else common
    signature = (compute.np,) * 3
    multiply = partial(np.multiply, signature=signature, casting="unsafe")
    combine = partial(ufunc, signature=signature, casting="unsafe")
    if common.category in (BOOL, INTEGER):
        return _scaled_integers(op, multiply, combine, common.np)
    if compute is not common:
        to = common.np
        return lambda a, b, alpha, out=None: rounded(combine(a, multiply(b, alpha)), to, out)
    if out is common and all(i is common for i in inputs):
        return lambda a, b, alpha, out=None: ufunc(a, np.multiply(b, alpha), out)
    return lambda a, b, alpha, out=None: combine(a, multiply(b, alpha), out)


def _scaled_integers(op: str, multiply: Loop, combine: Loop, to: np.dtype) -> Loop:
    def enter(value: Any, arg: str) -> Any:
        return (
            value if isinstance(value, np.ndarray) else cast.number(in_64_bits(op, arg, value), to)
        )

    return lambda a, b, alpha, out=None: combine(
        enter(a, "self"), multiply(enter(b, "other"), enter(alpha, "alpha")), out
    )


# --- division -----------------------------------------------------------------------------------


def _integers_or(floating: Callable[..., Any]) -> Callable[..., Loop]:
    """Return a function that makes the loop of a division. For integers the loop uses the ufunc,
    for floats it uses `floating`."""

    def build(op: str, ufunc: np.ufunc, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
        if common.category == FLOATING:
            return _function(op, floating, inputs, common, out)
        return _checked(op, typed(ufunc, inputs, common, common, out), inputs, common)

    return build


def _trunc(op: str, ufunc: np.ufunc, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    if common.category == FLOATING:
        return _trunc_floating(op, inputs, common, out)
    if not common.is_signed:
        return _checked(op, typed(ufunc, inputs, common, common, out), inputs, common)
    signature = (common.np,) * 3
    remainder = partial(np.fmod, signature=signature, casting="unsafe")
    subtract = partial(np.subtract, signature=signature, casting="unsafe")
    divide = partial(ufunc, signature=signature, casting="unsafe")

    # C's remainder is subtracted first. The division is then exact, so rounding down equals
    # truncation.
    def loop(a: Any, b: Any, out: np.ndarray | None = None) -> Any:
        return divide(subtract(a, remainder(a, b)), b, out)

    return _checked(op, loop, inputs, common)


def _trunc_floating(op: str, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    if common in (float16, bfloat16):
        return _function(op, _whole_quotient, inputs, common, out)
    divide = arithmetic(op, np.true_divide, inputs, common, common)
    return lambda a, b, out=None: np.trunc(divide(a, b), out)


def _whole_quotient(a: Any, b: Any) -> Any:
    return np.trunc(np.true_divide(a, b))


def _checked(op: str, loop: Loop, inputs: Sequence[Input], common: dtype) -> Loop:
    """Wrap the integer division `loop` so that a zero divisor raises an error; NumPy would warn and
    return 0. A Python number is wrapped to the range of `common` first. The returned loop is
    marked, so that fusion does not delay its error."""

    def checked(a: Any, b: Any, out: np.ndarray | None = None) -> Any:
        if isinstance(b, np.ndarray):
            if np.count_nonzero(b) != b.size and np.size(a):
                raise errors.division_by_zero(op)
        elif not b:
            raise errors.division_by_zero(op)
        return loop(a, b, out)

    position = number_position(inputs)
    found: Any = checked if position is None else with_number(op, checked, position, common)
    found.looks_at_values = True
    loop_found: Loop = found
    return loop_found


# If the operands have at least this number of elements together, several NumPy ufuncs are faster
# than one ufunc that calls a C function for each element.
_MANY, _MANY_REMAINDERS, _MANY_QUOTIENTS = 256, 6000, 12000
# If an f32 quotient is below this limit, its f64 value has the correct integer part, and the
# product of this integer and the divisor is exact.
_QUOTIENT = 2.0**25
# Integers below this limit are exact in f32 at every step of npy_divmod.
_WHOLE = 2.0**22


def _floating_fmod(a: Any, b: Any) -> Any:
    """Return fmod of floats. C's function takes 14 ns per element. For f32, four f64 operations
    replace it if no quotient is too large."""
    if np.size(a) + np.size(b) < _MANY_REMAINDERS or np.result_type(a, b) != np.float32:
        return np.fmod(a, b)
    wide, by = np.asarray(a, np.float64), np.asarray(b, np.float64)
    whole = np.divide(wide, by)
    if not (np.maximum.reduce(whole, None) < _QUOTIENT > -np.minimum.reduce(whole, None)):
        return np.fmod(a, b)
    np.trunc(whole, whole)
    np.multiply(whole, by, whole)
    rest = np.subtract(wide, whole, whole).astype(np.float32)
    # np.fmod handles all cases in which `rest` is NaN, such as an infinite divisor.
    if np.isnan(np.maximum.reduce(rest, None)):
        return np.fmod(a, b)
    return np.copysign(rest, a, rest)


def _floating_floor_divide(a: Any, b: Any) -> Any:
    """Return the floor division of floats. If an operand is infinite, the result is the quotient,
    as the array API requires; NumPy returns NaN or -1."""
    if np.size(a) + np.size(b) >= _MANY_QUOTIENTS and np.result_type(a, b) == np.float32:
        # Rounding to f64 cannot turn a fractional quotient of f32 numbers into an integer: the
        # quotient differs from every integer by more than the rounding error.
        exact = np.divide(a, b, dtype=np.float64)
        if np.maximum.reduce(exact, None) < _WHOLE > -np.minimum.reduce(exact, None):
            if np.isfinite(b).all():
                return np.floor(exact, exact).astype(np.float32)
        found = _floor_by_steps(a, b)
    else:
        found = np.floor_divide(a, b)
    if np.isfinite(np.subtract(a, b)).all():  # a - b is finite only if a and b are finite.
        return found
    return where(np.logical_or(np.isinf(a), np.isinf(b)), np.divide(a, b), found)


def _floor_by_steps(a: Any, b: Any) -> Any:
    """Compute NumPy's floor division step by step, with a faster remainder. Source: numpy's
    npymath, npy_divmod."""
    rest = _floating_fmod(a, b)
    quotient = np.divide(np.subtract(a, rest), b)
    np.subtract(quotient, (rest != 0) & ((b < 0) != (rest < 0)), quotient)
    whole = np.floor(quotient)
    np.add(whole, quotient - whole > 0.5, whole)
    plain = np.divide(a, b)
    whole = np.copysign(whole, where(quotient != 0, whole, plain))
    return where(np.broadcast_to(np.equal(b, 0), whole.shape), plain, whole)


def _floating_remainder(a: Any, b: Any) -> Any:
    """Return the remainder of floats as in Python. A zero remainder also has the sign of
    `other`."""
    rest = _floating_fmod(a, b)
    return np.copysign(where((rest != 0) & ((b < 0) != (rest < 0)), rest + b, rest), b)


# --- functions of arrays --------------------------------------------------------------------------


def _function(op: str, function: Any, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    loop = computed(function, inputs, common, out)
    return lambda a, b, out=None: loop(a, b, out)


def _bare(op: str, ufunc: np.ufunc, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    """Bind a ufunc for 16-bit floats to NumPy's own loop, without a cast to f32."""
    return typed(ufunc, inputs, common, common, out)


def _hypot(a: Any, b: Any) -> Any:
    """Return hypot, accurate to 1 ulp if no square overflows or underflows. np.hypot is slower,
    because it calls C's function for each pair."""
    if np.size(a) + np.size(b) < _MANY_REMAINDERS:
        return np.hypot(a, b)
    made = np.add(np.square(a), np.square(b))
    least, most = np.minimum.reduce(made, None), np.maximum.reduce(made, None)
    limits = np.finfo(made.dtype)
    if not (least > limits.tiny / limits.eps and most < limits.max):
        return np.hypot(a, b)
    return np.sqrt(made, made)


def _heaviside(x: Any, values: Any) -> Any:
    return where(x == 0, values, (x > 0).astype(values.dtype))


def _logaddexp(
    op: str, ufunc: np.ufunc, inputs: Sequence[Input], common: dtype, out: dtype
) -> Loop:
    if common.is_complex:
        return _function(op, _complex_logaddexp, inputs, common, out)
    return _function(op, _logaddexp_of[ufunc], inputs, common, out)


def _from_the_larger(ufunc: np.ufunc, exp: np.ufunc, scale: float) -> Callable[..., Any]:
    """Return a vectorised function log(exp(a) + exp(b)), computed relative to the larger operand.
    Source: ATen/native/cpu/BinaryOpsKernel.cpp."""

    def of(a: Any, b: Any) -> Any:
        if np.size(a) + np.size(b) < _MANY:
            return ufunc(a, b)
        less = np.subtract(a, b)
        # The difference is NaN for two equal infinities, and if an operand is NaN.
        if np.isnan(np.maximum.reduce(less, None)):
            return ufunc(a, b)
        np.negative(np.abs(less, less), less)
        np.log1p(exp(less, less), less)
        if scale != 1:
            np.multiply(less, scale, less)
        return np.add(np.maximum(a, b), less, less)

    return of


_logaddexp_of: dict[Any, Callable[..., Any]] = {
    np.logaddexp: _from_the_larger(np.logaddexp, np.exp, 1.0),
    np.logaddexp2: _from_the_larger(np.logaddexp2, np.exp2, 1 / np.log(2.0)),
}


def _complex_logaddexp(a: Any, b: Any) -> Any:
    """Return logaddexp of complex numbers, computed relative to the operand with the larger real
    part. Source: ATen/native/cpu/LogAddExp.h."""
    is_first = a.real >= b.real
    low, high = where(is_first, b, a), where(is_first, a, b)
    infinite = np.isinf(low.real) & (low.real == high.real)
    made = high + np.log1p(np.exp(low - high))
    both = np.log(np.exp(low) + np.exp(high))
    return where(infinite, where(high.real < 0, low, both), made)


# --- powers ---------------------------------------------------------------------------------------


def _pow(op: str, ufunc: np.ufunc, inputs: Sequence[Input], common: dtype, out: dtype) -> Loop:
    if common.category == INTEGER:
        return _function(op, _integer_power, inputs, common, out)
    return through_float32(op, ufunc, inputs, common, out)


def _integer_power(a: Any, b: Any) -> Any:
    """Return integer powers. NumPy rejects negative exponents. Here their result is 0, except for
    bases 1 and -1."""
    negative = b < 0
    if not np.any(negative):
        return np.power(a, b)
    inverse = where(a == -1, 1 - 2 * (b & 1), a == 1).astype(np.result_type(a, b))
    return where(negative, inverse, np.power(a, where(negative, 0, b)))


# Exponents for which a faster function replaces pow. Source: ATen/native/cpu/PowKernel.cpp.
_QUICK: dict[Any, Any] = {
    2: np.square, 3: lambda x: x * x * x, 0.5: np.sqrt, -0.5: lambda x: 1 / np.sqrt(x),
    -1: np.reciprocal, -2: lambda x: 1 / (x * x),
}  # fmt: skip


def _pow_number(
    op: str, ufunc: np.ufunc, inputs: Sequence[Input], common: dtype, out: dtype
) -> Loop:
    general = through_float32(op, ufunc, inputs, common, out)
    quick = {
        power: typed(f, inputs[:1], common, common, out)
        if isinstance(f, np.ufunc) and common not in (float16, bfloat16)
        else _of_one(computed(f, inputs[:1], common, out))
        for power, f in _QUICK.items()
        if power == 2 or common.category >= FLOATING
    }

    def loop(a: Any, b: Any, out: np.ndarray | None = None) -> Any:
        found = quick.get(b)
        return general(a, b, out) if found is None else found(a, out)

    return loop


def _of_one(loop: Loop) -> Loop:
    return lambda x, out=None: loop(x, out)


# --- threshold_backward ---------------------------------------------------------------------------


def _threshold(
    op: str, ufunc: np.ufunc, inputs: Sequence[Input], common: dtype, out: dtype
) -> Loop:
    """Return a loop that selects 0 where x is at most the threshold, and `grad` elsewhere, also
    where x is NaN. A product with a mask would give NaN for infinity times zero."""
    compute = float32 if common in (float16, bfloat16) else common
    zero = np.zeros((), common.np)

    def loop(grad: Any, x: Any, threshold: Any, out: np.ndarray | None = None) -> np.ndarray:
        grad, x = _entered(grad, common, compute), _entered(x, common, compute)
        at = cast.number(threshold, compute.np)
        kept: np.ndarray = where(ufunc(x.astype(compute.np, copy=False), at), zero, grad)
        if out is None:
            return kept
        np.copyto(out, kept, casting="unsafe")
        return out

    return loop


def _entered(x: Any, common: dtype, compute: dtype) -> Any:
    """Cast an operand to the common dtype. Integer arrays are cast to 16-bit floats through f32."""
    if not isinstance(x, np.ndarray):
        return cast.number(x, common.np)
    if x.dtype == common.np:
        return x
    return (x.astype(compute.np) if x.dtype.kind in "iu" else x).astype(common.np)


LOOPS: dict[str, tuple[Callable[..., Loop], Callable[..., Any]]] = {
    "add": (arithmetic, np.add),
    "add_alpha": (_scaled, np.add),
    "atan2": (through_float32, np.arctan2),
    "bitwise_and": (arithmetic, np.bitwise_and),
    "bitwise_left_shift": (arithmetic, np.left_shift),
    "bitwise_or": (arithmetic, np.bitwise_or),
    "bitwise_right_shift": (arithmetic, np.right_shift),
    "bitwise_xor": (arithmetic, np.bitwise_xor),
    "copysign": (arithmetic, np.copysign),
    "div": (arithmetic, np.true_divide),
    "div_floor": (_integers_or(_floating_floor_divide), np.floor_divide),
    "div_trunc": (_trunc, np.floor_divide),
    "fmax": (_extremum, np.fmax),
    "fmin": (_extremum, np.fmin),
    "fmod": (_integers_or(_floating_fmod), np.fmod),
    "gcd": (_bare, np.gcd),
    "heaviside": (_function, _heaviside),
    "hypot": (_function, _hypot),
    "lcm": (_bare, np.lcm),
    "logaddexp": (_logaddexp, np.logaddexp),
    "logaddexp2": (_logaddexp, np.logaddexp2),
    "maximum": (_extremum, np.maximum),
    "minimum": (_extremum, np.minimum),
    "mul": (arithmetic, np.multiply),
    "nextafter": (_bare, np.nextafter),
    "pow": (_pow, np.power),
    "pow_number": (_pow_number, np.power),
    "remainder": (_integers_or(_floating_remainder), np.remainder),
    "sub": (arithmetic, np.subtract),
    "sub_alpha": (_scaled, np.subtract),
    "threshold_backward": (_threshold, np.less_equal),
}
