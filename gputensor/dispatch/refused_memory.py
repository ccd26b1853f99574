"""Errors for exhausted memory, read-only memory, and elements that NumPy cannot read.

Only failed calls run this code; see refusal.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..core import errors

if TYPE_CHECKING:
    from .registered import Registered


def refuse_memory(
    error: Exception, op: str, operator: Registered, given: Mapping[str, Any]
) -> None:
    """Raise the error for exhausted memory, read-only memory, or elements that the loop cannot
    read. Return if the failure has another cause.

    given: the operator's arguments by name.
    """
    if is_of_the_host(error):
        raise errors.host_memory_exhausted(op, error) from None
    if type(error) is ValueError and any(words in str(error) for words in _NOT_WRITABLE):
        for argument in operator.schema.arguments:
            value = given.get(argument.name)
            if argument.is_write and is_read_only(value):
                raise errors.read_only(operator.short_name, argument.name, value) from None
    refuse_opaque(error, op, given)


def refuse_opaque(error: Exception, op: str, given: Mapping[str, Any]) -> None:
    """Raise the error for complex32 or float8 in a loop that does not support it. Return if the
    failure has another cause."""
    is_foreign = not isinstance(error, errors.GpuTensorError)
    is_of_array = isinstance(error, errors.NotComputedError) and str(error).startswith("array:")
    if is_of_array or is_foreign and isinstance(error, (TypeError, LookupError, ValueError)):
        for name, value in given.items():
            for x in value if isinstance(value, (list, tuple)) else (value,):
                shape = getattr(x, "_geometry", None)
                if shape is not None and shape.dtype.is_opaque:
                    raise errors.not_computed(op, name, shape.dtype, x) from None


# NumPy's messages for sizes that exceed any memory.
_TOO_LARGE = ("array is too big", "Maximum allowed dimension exceeded")
# NumPy's messages for read-only memory; the second is np.dot's.
_NOT_WRITABLE = ("read-only", "output array is not acceptable")


def is_of_the_host(error: Exception) -> bool:
    """True if Python or NumPy ran out of memory. False for MemoryError subclasses of other modules,
    which have more specific messages."""
    if type(error) is ValueError and any(words in str(error) for words in _TOO_LARGE):
        return True
    home = type(error).__module__.partition(".")[0]
    return isinstance(error, MemoryError) and home in ("builtins", "numpy")


def is_read_only(tensor: Any) -> bool:
    """True if a tensor's elements are read-only memory of another library."""
    array = getattr(tensor, "_array", None)
    return array is not None and not array.flags.writeable
