"""The exception classes, and `must`, which builds nearly all messages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

R = TypeVar("R")


class GpuTensorError(Exception):
    """Base class of gputensor's exceptions. Each exception is also an instance of the builtin type
    that PyTorch raises."""


class ArgumentError(GpuTensorError, RuntimeError):
    """Error for a value that the operator does not accept."""


class ArgumentTypeError(GpuTensorError, TypeError):
    """Error for an argument of a wrong type."""


class ArgumentValueError(GpuTensorError, ValueError):
    """Error for an argument whose value is not allowed."""


class NumberRangeError(ArgumentError, OverflowError):
    """Error for a number that does not fit its dtype, or 64 bits."""


class ShapeError(GpuTensorError, RuntimeError):
    """Error for wrong sizes or strides, and for a view that does not exist."""


class IndexRangeError(GpuTensorError, IndexError):
    """Error for a dimension or an index outside its range."""


class BroadcastError(ArgumentError, ValueError):
    """Error for sizes that do not broadcast. It is a RuntimeError as in PyTorch, and a ValueError
    as in NumPy."""


class DtypeError(GpuTensorError, RuntimeError):
    """Error for a dtype that the operator does not accept or produce."""


class NotComputedError(DtypeError, TypeError):
    """Error for a dtype in which no kernel computes."""


class DeviceError(GpuTensorError, RuntimeError):
    """Error for an absent device, and for operands on different devices."""


class OutOfMemoryError(DeviceError, MemoryError):
    """Error for a request that exceeds a device's free memory. The message contains the figures."""


class DispatchError(GpuTensorError, NotImplementedError):
    """Error for a call whose dispatch keys have no kernel."""


class AbsentError(GpuTensorError, NotImplementedError):
    """Error for a method or an option that gputensor lacks, although similar classes have it."""


class RegistrationError(GpuTensorError, RuntimeError):
    """Error for a definition or registration that conflicts with another one."""


class SchemaError(GpuTensorError, ValueError):
    """Error for a text that is not an operator schema."""


class KernelError(GpuTensorError, RuntimeError):
    """Error for a CUDA C kernel that does not compile, load, launch or run."""


class DistributedError(GpuTensorError, RuntimeError):
    """Error for processes that make different calls, do not respond, or have exited."""


# The maximum number of characters of a value in a message.
_READABLE = 200


def describe(value: Any) -> str:
    """Describe a value: `f32[3,4] cuda:0` for a tensor, repr and type for others."""
    geometry = getattr(value, "_geometry", None)
    if geometry is not None:
        return describe_layout(geometry, getattr(value, "_device", None))
    if isinstance(value, (list, tuple)) and value and all(hasattr(v, "_geometry") for v in value):
        return "[" + ", ".join(describe(v) for v in value) + "]"
    if value is None or isinstance(value, (bool, int, float, complex, str, list, tuple)):
        return _repr(value)
    if hasattr(value, "short") or type(value).__module__.startswith("gputensor"):
        return str(value)
    return type(value).__name__


def _repr(value: Any) -> str:
    """Return the repr of a number, string or sequence, cut to 200 characters."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception:  # an int with over 4300 digits, or an object whose __repr__ raises
        return type(value).__name__
    return text if len(text) <= _READABLE else f"{text[: _READABLE - 3]}..."


def describe_layout(geometry: Any, device: Any = None) -> str:
    """Return a text such as `f32[3,4] cpu`. The device is left out if it is None."""
    text = f"{geometry.dtype.short}[{','.join(map(str, geometry.sizes))}]"
    return text if device is None else f"{text} {device}"


def must(
    op: str, arg: str, rule: str, got: Any, *, kind: type[GpuTensorError] = ArgumentError,
    remedy: str = "",
) -> GpuTensorError:  # fmt: skip
    """Make an error with the usual sentence: `{op}: '{arg}' must {rule} (got {what})`, then `;
    {remedy}` if there is one.

    `got` is passed to `describe`, unless it is an instance of `Got`, which is used unchanged.
    """
    what = got.text if type(got) is Got else describe(got)
    tail = f"; {remedy}" if remedy else ""
    return kind(f"{op}: '{arg}' must {rule} (got {what}){tail}")


# `must` for frequent exception classes.
wrong_type: partial[GpuTensorError] = partial(must, kind=ArgumentTypeError)
wrong_value: partial[GpuTensorError] = partial(must, kind=ArgumentValueError)
wrong_dtype: partial[GpuTensorError] = partial(must, kind=DtypeError)
wrong_shape: partial[GpuTensorError] = partial(must, kind=ShapeError)
wrong_index: partial[GpuTensorError] = partial(must, kind=IndexRangeError)


def not_computed(op: str, arg: str, of: Any, got: Any) -> GpuTensorError:
    """Make the error for a dtype in which kernels do not compute. Operators that only move elements
    accept the dtype, and elementwise operators also accept complex32.

    of: the dtype.
    """
    rule = f"not be {of.name}, which it does not compute in"
    remedy = f"use {'complex64' if of.is_complex else 'float32'}"
    return must(op, arg, rule, got, kind=NotComputedError, remedy=remedy)


def plainly(function: Callable[..., R], *args: Any) -> R:
    """Call `function(*args)`. If it raises a GpuTensorError, do not chain this error to the
    exception that the calling `except` block handles.
    """
    try:
        return function(*args)
    except GpuTensorError as error:
        error.__suppress_context__ = True
        raise


class Got:
    """A text that replaces the description of a value in the `(got …)` part of a message."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text: str = text
