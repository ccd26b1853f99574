"""`gt.testing`: comparison of tensors and of containers of tensors within tolerances; random
tensors.

Tolerances, checks and messages are PyTorch's, so that a test suite can be used unchanged. Values
are compared on the host. Source: torch/testing/_comparison.py.
"""

from __future__ import annotations

from cmath import isfinite, isnan
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ._generated import functions
from .core import dtype as dtypes, errors, lazy
from .core.arguments import element_type, flag, real
from .core.dtype import FLOATING, dtype
from .core.promotion import promote_types
from .exchange.numpy.bridge import from_numpy
from .kernels.cpu import quiet
from .structured.arguments import ints
from .tensor.base import materialised
from .tensor.tensor import Tensor
from .tensor.type_info import finfo, iinfo

__all__ = ["assert_close", "make_tensor"]

# dtype -> (rtol, atol). Elements of all other dtypes must be equal.
_TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5), dtypes.bfloat16: (1.6e-2, 1e-5), dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7), dtypes.complex64: (1.3e-6, 1e-5), dtypes.complex128: (1e-7, 1e-7),
}  # fmt: skip
_NUMBER_DTYPES = {int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None,
    atol: float | None = None, equal_nan: bool = False, check_device: bool = True,
    check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:  # fmt: skip
    """Raise an error unless |actual - expected| <= atol + rtol * |expected| for all elements.

    Args:
        actual, expected: tensors, arrays, numbers, None, or sequences and mappings of them.
        allow_subclasses: if False, tensors must be of one class.
        rtol, atol: both or neither; by default the dtype's, for two dtypes the larger ones.
        equal_nan: treat NaN as equal to NaN.
        check_device, check_dtype, check_stride: also require equal device, dtype, strides. By
            default device and dtype must be equal.
        msg: another message, or a function from the message to another message.
    Raises: AssertionError if they differ; TypeError for inputs of unrelated types; ValueError for
        one tolerance without the other.
    """
    __tracebackhide__ = True
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}."
        )
    if rtol is not None and atol is not None:
        rtol, atol = real("assert_close", "rtol", rtol), real("assert_close", "atol", atol)
    equal_nan = flag("assert_close", "equal_nan", equal_nan)
    check_device = flag("assert_close", "check_device", check_device)
    check_dtype = flag("assert_close", "check_dtype", check_dtype)
    check_stride = flag("assert_close", "check_stride", check_stride)
    check = _Check(rtol, atol, equal_nan, check_device, check_dtype, check_stride)
    may_differ = flag("assert_close", "allow_subclasses", allow_subclasses)
    for where, a, b in _pairs(actual, expected, ()):
        if not may_differ and isinstance(a, Tensor) and type(a) is not type(b):
            raise TypeError(f"inputs must be of one class (got {type(a)} and {type(b)})")
        found = check.compare(a, b)
        if found is not None:
            if where:
                found += f"\n\nThe failure occurred for item {''.join(f'[{w!r}]' for w in where)}"
            raise AssertionError(msg(found) if callable(msg) else msg or found)


def make_tensor(
    *shape: Any, dtype: dtype, device: Any = None, low: float | None = None,
    high: float | None = None, requires_grad: bool = False, noncontiguous: bool = False,
    exclude_zero: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Return a tensor of uniform random numbers in [low, high), for tests.

    Args:
        shape: the sizes, or one sequence of sizes.
        device: None means the CPU.
        low, high: by default -9 and 9 (10 for integers), or 0 and 2 for bool. Both are limited to
        the
            dtype's range.
        noncontiguous: return every second column of a wider tensor, if there are several elements.
        exclude_zero: replace zeros by 1, or by the smallest normal number of a floating dtype.
        memory_format: the format of the result; not allowed with noncontiguous.
    Raises: ArgumentValueError if the dtype has no number in the interval.
    """
    op = "make_tensor"
    listed = shape[0] if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape
    sizes, dtype = ints(op, "shape", tuple(listed)), element_type(op, dtype)
    low = None if low is None else real(op, "low", low)
    high = None if high is None else real(op, "high", high)
    flag(op, "requires_grad", requires_grad)
    if flag(op, "noncontiguous", noncontiguous) and memory_format is not None:
        raise errors.must(op, "memory_format", "not be given with noncontiguous", memory_format)
    if requires_grad and dtype.category < FLOATING:
        raise errors.must(op, "requires_grad", "be False for integers and bool", True)
    is_spread = noncontiguous and prod(sizes) > 1
    drawn = (*sizes[:-1], 2 * sizes[-1]) if is_spread else sizes
    made = _uniform(op, drawn, dtype, "cpu" if device is None else device, low, high)
    if is_spread:
        made = made[..., 1::2]
    elif memory_format is not None:
        made = made.clone(memory_format=memory_format)
    if flag(op, "exclude_zero", exclude_zero):
        least = 1 if dtype.category < FLOATING else finfo(dtype).tiny
        made.masked_fill_(made == 0, complex(least, least) if dtype.is_complex else least)
    return made.requires_grad_() if requires_grad else made


def _uniform(
    op: str, sizes: tuple[int, ...], of: dtype, device: Any, low: float | None, high: float | None
) -> Tensor:
    if of is dtypes.bool_:
        begin, end = _interval(op, of, low, high, (0, 2), (0, 2))
    elif of.category < FLOATING:
        info = iinfo(of)
        # randint cannot represent max + 1 of int64
        beyond = info.max + (info.bits < 63)
        begin, end = _interval(op, of, low, high, (info.min, beyond), (-9, 10))
    else:
        limits = finfo(of.to_real)
        begin, end = _interval(op, of, low, high, (limits.min, limits.max), (-9, 9))
        wide = functions.empty(sizes, dtype=dtypes.float32 if of.is_float8 else of, device=device)
        real = functions.view_as_real(wide) if of.is_complex else wide
        # The length of an interval from near the least to near the greatest number would overflow.
        real.uniform_(begin / 2, end / 2).mul_(2)
        return wide.to(of)
    return functions.randint(ceil(begin), ceil(end), sizes, dtype=of, device=device)


def _interval(
    op: str, of: dtype, low: float | None, high: float | None, limits: tuple[float, float],
    default: tuple[float, float],
) -> tuple[float, float]:  # fmt: skip
    """Return the bounds (low, high), limited to the dtype's range. Bounds that are None are
    replaced by the default ones."""
    begin, end = default[0] if low is None else low, default[1] if high is None else high
    is_one = begin == end and of.category >= FLOATING
    if not (begin < end or is_one) or end < limits[0] or begin >= limits[1]:
        rule = f"be less than 'high', in [{limits[0]}, {limits[1]})"
        raise errors.must(op, "low", rule, errors.Got(f"[{begin}, {end})"))
    return max(begin, limits[0]), min(end, limits[1])


def _pairs(actual: Any, expected: Any, where: tuple[Any, ...]) -> list[tuple[Any, Any, Any]]:
    """Return (indices, leaf of `actual`, leaf of `expected`) for all pairs of leaves of two
    containers."""
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            lengths = f"{len(actual)} != {len(expected)}"
            raise AssertionError(f"The length of the sequences mismatch: {lengths}")
        keys: Any = range(len(actual))
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            missing = sorted(expected.keys() - actual.keys(), key=str)
            additional = sorted(actual.keys() - expected.keys(), key=str)
            raise AssertionError(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {missing}\n"
                f"Additional keys in the actual mapping: {additional}"
            )
        keys = sorted(actual.keys(), key=str)
    else:
        return [(where, actual, expected)]
    return [pair for key in keys for pair in _pairs(actual[key], expected[key], (*where, key))]


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, (str, bytes))


@dataclass(frozen=True, slots=True)
class _Check:
    """Comparison of two leaves. Each method returns a description of the difference, or None."""

    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_stride: bool

    def compare(self, a: Any, b: Any) -> str | None:
        if a is None or b is None:
            return None if a is b else f"None mismatch: {a} is not {b}"
        booleans = (bool, np.bool_)
        if isinstance(a, booleans) and isinstance(b, booleans):
            return None if bool(a) is bool(b) else f"Booleans mismatch: {bool(a)} is not {bool(b)}"
        numbers = (int, float, complex, np.number)
        if isinstance(a, numbers) and isinstance(b, numbers):
            return self._numbers(*(x.item() if isinstance(x, np.number) else x for x in (a, b)))
        is_tensor = isinstance(a, Tensor), isinstance(b, Tensor)
        is_array = isinstance(a, np.ndarray), isinstance(b, np.ndarray)
        if not all(is_tensor) and not all(is_array):
            types = f"{type(a)} and {type(b)}"
            raise TypeError(f"No comparison pair was able to handle inputs of type {types}.")
        return self._tensors(_as_tensor(a), _as_tensor(b))

    def _tolerances(self, *both: dtype) -> tuple[float, float]:
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        found = [_TOLERANCES.get(d, (0.0, 0.0)) for d in both]
        return max([f[0] for f in found]), max([f[1] for f in found])

    def _numbers(self, a: Any, b: Any) -> str | None:
        if self.check_dtype and type(a) is not type(b):
            return f"The (d)types do not match: {type(a)} != {type(b)}."
        if a == b or self.equal_nan and isnan(a) and isnan(b):
            return None
        rtol, atol = self._tolerances(_NUMBER_DTYPES[type(a)], _NUMBER_DTYPES[type(b)])
        difference = abs(a - b)
        if isfinite(difference) and difference <= atol + rtol * abs(b):
            return None
        return _scalar_message(a, b, rtol, atol)

    def _tensors(self, a: Tensor, b: Tensor) -> str | None:
        for is_checked, name, x, y in (
            (True, "shape", a.shape, b.shape),
            (self.check_stride, "stride()", a.stride(), b.stride()),
            (self.check_device, "device", a.device, b.device),
            (self.check_dtype, "dtype", a.dtype, b.dtype),
        ):
            if is_checked and x != y:
                return f"The values for attribute '{name}' do not match: {x} != {y}."
        if a.is_meta or b.is_meta:
            return None
        rtol, atol = self._tolerances(a.dtype, b.dtype)
        common = a.dtype
        if a.dtype is not b.dtype:
            common = promote_types(_signed(a.dtype), _signed(b.dtype), "assert_close")
        if common.is_float8:
            return _differences_in_float8(a, b, rtol, atol, self.equal_nan)
        x, y = _host(a, common), _host(b, common)
        found: str | None = quiet.run(_differences, x, y, common, rtol, atol, self.equal_nan)
        return found


def _as_tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else from_numpy(np.array(x))


def _signed(d: dtype) -> dtype:
    # PyTorch defines no promotion for these dtypes; int64 is sufficient for a comparison
    return dtypes.int64 if d in (dtypes.uint16, dtypes.uint32, dtypes.uint64) else d


def _host(x: Tensor, common: dtype) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = materialised(x.detach().cpu())._get_array()
    return array if x.dtype is common else array.astype(common.np)


def _differences(
    x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], element: dtype, rtol: float, atol: float,
    equal_nan: bool,
) -> str | None:  # fmt: skip
    """Return a description of the differences, with the greatest differences and their indices.

    16-bit floats are computed in float32 and rounded to their dtype after each step, as in PyTorch.
    """
    wide = np.float32 if element.itemsize == 2 and element.category == FLOATING else None
    if wide is not None:
        x, y = x.astype(wide), y.astype(wide)

    def rounded(z: Any) -> Any:
        return z if wide is None else z.astype(element.np).astype(wide)

    matches = x == y
    if equal_nan and element.category >= FLOATING:
        matches |= np.isnan(x) & np.isnan(y)
    if rtol or atol:
        # For integers, the tolerance and the differences are computed in float64.
        z, w = (
            (x, y) if element.category >= FLOATING else (x.astype(np.float64), y.astype(np.float64))
        )
        allowed = rounded(atol + np.abs(rounded(rtol * w)))
        error = rounded(np.abs(rounded(z - w)))
        matches |= np.isfinite(error) & (error <= allowed)
    if matches.all():
        return None
    if x.ndim == 0:
        return _scalar_message(x.item(), y.item(), rtol, atol)
    if element.category < FLOATING:
        x, y = x.astype(np.int64), y.astype(np.int64)
    absolute = rounded(np.abs(x - y))
    relative = rounded(np.asarray(absolute / np.abs(y)))
    absolute[matches] = 0
    relative[matches] = 0
    if element.category < FLOATING:
        # PyTorch divides integers in the default float dtype
        relative = relative.astype(np.float32)
    wrong = (~matches).sum()
    lines = [f"Mismatched elements: {wrong} / {x.size} ({wrong / x.size:.1%})"]
    for name, values, tolerance in (("absolute", absolute, atol), ("relative", relative, rtol)):
        # argmax treats NaN as the largest number, like PyTorch's max
        where = np.unravel_index(int(np.argmax(values)), values.shape)
        lines.append(
            f"Greatest {name} difference: {values[where].item()} at index {tuple(map(int, where))}"
            + (f" (up to {tolerance} allowed)" if rtol or atol else "")
        )
    word = "close" if rtol or atol else "equal"
    return f"Tensor-likes are not {word}!\n\n" + "\n".join(lines)


def _differences_in_float8(
    a: Tensor, b: Tensor, rtol: float, atol: float, equal_nan: bool
) -> str | None:
    """Return a text with the number of differences and the index of the first one. Return None if
    there is no difference. Tolerances must be 0, as in PyTorch.

    Source: torch/testing/_comparison.py, bitwise comparison of low dimensional floats.
    """
    if rtol or atol:
        return (
            f"Rtol={rtol} and atol={atol} are not supported for bitwise comparison of low "
            "dimensional floats. Please use rtol=0.0 and atol=0.0."
        )
    x, y = [z.detach().cpu().float().numpy() for z in (a, b)]
    wrong = np.asarray((x != y) & ~(equal_nan & np.isnan(x) & np.isnan(y)))
    if not wrong.any():
        return None
    first = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    return (
        f"Tensor-likes are not 'equal'!\n\n"
        f"Mismatched elements: {wrong.sum()} / {x.size} ({wrong.sum() / x.size:.1%})\n"
        f"The first mismatched element is at index {tuple(map(int, first))}."
    )


def _scalar_message(a: Any, b: Any, rtol: float, atol: float) -> str:
    absolute = abs(a - b)
    relative = float("inf") if b == 0 else absolute / abs(b)
    lines = [f"Expected {b} but got {a}."]
    for name, value, tolerance in (("Absolute", absolute, atol), ("Relative", relative, rtol)):
        allowed = f" (up to {tolerance} allowed)" if rtol or atol else ""
        lines.append(f"{name} difference: {value}{allowed}")
    return f"Scalars are not {'close' if rtol or atol else 'equal'}!\n\n" + "\n".join(lines)


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
