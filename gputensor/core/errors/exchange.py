"""Errors of data exchange with other libraries and with files."""

from __future__ import annotations

from typing import Any

from .base import (
    ArgumentError, ArgumentTypeError, Got, GpuTensorError, IndexRangeError, describe, must,
)  # fmt: skip


# --- tensor surface -------------------------------------------------------------------------------


class ExchangeError(GpuTensorError, BufferError):
    """Error for memory that cannot be shared with another library."""


class NoScalarError(ArgumentError, TypeError):
    """Error for a tensor that does not have exactly one element. It is a TypeError as in Python and
    NumPy, and a RuntimeError as in PyTorch."""


def not_one_element(op: str, tensor: Any) -> GpuTensorError:
    return must(op, "self", "hold one element", tensor, kind=NoScalarError)


def unsupported_index(index: Any) -> IndexRangeError:
    """Make the error for an index of an unsupported type."""
    what = index.text if type(index) is Got else describe(index)
    return IndexRangeError(
        "index: 'index' must be made of ints, slices, None, bools, at most one Ellipsis, and "
        f"tensors, arrays, ranges or lists of ints or bools (got {what})"
    )


def too_many_indices(tensor: Any, count: int) -> IndexRangeError:
    geometry = tensor._geometry
    most = f"at most {geometry.ndim} ints, slices and indices"
    return IndexRangeError(f"index: 'index' must have {most} (got {count} for {describe(tensor)})")


def cannot_assign(value: Any) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"index: 'value' must be a number or a tensor (got {type(value).__name__}); use "
        f"gputensor.asarray(...)"
    )


# --- lazy views -----------------------------------------------------------------------------------


def not_in_memory(
    op: str, tensor: Any, kind: type[GpuTensorError] = ArgumentError
) -> GpuTensorError:
    """Make the error for code outside the package that requests the memory of a lazy view. This
    memory does not contain the elements."""
    rule = "not be a lazy conjugate, negative or zero"
    return must(op, "self", rule, tensor, kind=kind, remedy="use .clone() first")


def zeros_are_immutable(op: str, arg: str) -> ArgumentError:
    return ArgumentError(
        f"{op}: '{arg}' must have memory to write to (got an efficient zero); use .clone() first"
    )
