"""Conversion of arguments for which generated functions have no fast path.

Each function here runs after the fast path failed, for example for a NumPy number, for sizes in a
list or for an operand that is not a tensor. The functions convert types; native code checks the
values. A tensor is recognised by its attribute `_keys`.
"""

from __future__ import annotations

from contextlib import suppress
from math import copysign
from typing import Any

import numpy as np

from . import errors
from .dtype import dtype, from_numpy

# Types of operands that native code gets as Python numbers. Tested by `type(x) in NUMBERS`.
NUMBERS = frozenset((bool, int, float, complex))
# Types of objects that name a dtype, such as NumPy's and Python's classes. Tested by `type(x) in
# DTYPES`.
DTYPES = frozenset((dtype, type))
# Python has one object for each small int, so `x is ONE` is the cheapest test that is False for 1.0
# and True.
ONE = 1


def number(value: Any) -> Any:
    """Convert a NumPy scalar, int enum or similar object to a Python number. Return None for
    anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    kinds: tuple[Any, ...] = (bool, int, float, complex)
    for kind in kinds:
        if isinstance(value, kind):
            return kind(value)
    return None


REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def reduction(op: str, reduction: Any, size_average: Any = None, reduce: Any = None) -> int:
    """Return the number that operators take for a loss's `reduction`. `size_average` and `reduce`
    replace it if they are given."""
    if size_average is not None or reduce is not None:
        reduction = old_reduction(op, size_average, reduce)
    if not isinstance(reduction, str) or reduction not in REDUCTIONS:
        rule = "be 'none', 'mean' or 'sum'"
        raise errors.must(op, "reduction", rule, reduction, kind=errors.ArgumentValueError)
    return REDUCTIONS[reduction]


def old_reduction(op: str, size_average: Any, reduce: Any) -> str:
    """Return the `reduction` that the deprecated arguments `size_average` and `reduce` select, and
    warn. Source: torch/nn/_reduction.py, legacy_get_string."""
    import warnings

    is_mean = size_average is None or flag(op, "size_average", size_average)
    is_reduced = reduce is None or flag(op, "reduce", reduce)
    found = "none" if not is_reduced else "mean" if is_mean else "sum"
    message = errors.deprecated(op, "size_average and reduce are", f"use reduction={found!r}")
    warnings.warn(message, UserWarning, stacklevel=4)
    return found


def number_in(value: Any) -> Any:
    """Return `value` if it is a number, or the number in a 0-d tensor; otherwise None.

    Return None also for a tensor without elements and for a tensor that requires grad, because the
    number would have no history. The call waits for the tensor's device, as in PyTorch. Source:
    torch/csrc/utils/python_arg_parser.cpp, FunctionParameter::check.
    """
    if not hasattr(value, "_keys"):
        return number(value)
    if value.ndim or value.requires_grad or value.device.type == "meta":
        return None
    return number(value.item())


def element_type(op: str, given: Any, arg: str = "dtype", *, by_name: bool = False) -> dtype:
    """Return the dtype that `given` names. `given` may be a dtype, NumPy's dtype or scalar type of
    the same elements, or Python's bool, int, float or complex. As in NumPy and PyTorch, int means
    int64, float means float64 and complex means complex128.

    by_name: also accept NumPy's names ("f4") and all other values that NumPy converts to a dtype.

    Raises: TypeError if `given` names no dtype of gputensor.
    """
    if isinstance(given, dtype):
        return given
    array_type = given
    if isinstance(given, type) and (by_name or given in NUMBERS or issubclass(given, np.generic)):
        array_type = np.dtype(given)
    elif isinstance(given, str) and by_name:
        with suppress(TypeError):
            array_type = np.dtype(given)
    found = from_numpy(array_type) if isinstance(array_type, np.dtype) else None
    if found is None:
        raise errors.not_a_dtype(op, given, arg)
    return found


def axis(op: str, dim: Any, given: Any) -> Any:
    """Return the dimension that the caller passed as `axis`, NumPy's name for `dim`.

    Raises: TypeError if `dim` was passed too.
    """
    if dim is not None:
        raise errors.named_twice(op, "dim", "axis")
    return given


def exact(x: Any) -> Any:
    """Return x in a form for dict keys that distinguishes 1, 1.0 and True. Ints, tuples of ints and
    None are returned unchanged."""
    kind = type(x)
    if kind is int or x is None:
        return x
    if kind is tuple:
        for n in x:
            if type(n) is not int:
                return (x, *map(type, x))
        return x
    return (x, kind)


def are_equal(given: tuple[Any, ...], known: tuple[Any, ...]) -> bool:
    """True if `given` equals `known` in types and values, so 1, 1.0 and True differ, and 0.0 and
    -0.0 differ too. Complex numbers are equal only if they are one object. given: any objects.
    known: numbers, strings, dtypes, and tuples of these."""
    for x, y in zip(given, known):
        if x is y:
            continue
        kind = type(x)
        if kind is not type(y) or kind is complex or x != y:
            return False
        if kind is tuple and not are_equal(x, y):
            return False
        if kind is float and not x and copysign(1, x) != copysign(1, y):
            return False
    return True


def coerced(first: Any, *others: Any) -> list[Any]:
    """Return a list: the key set of a call, then its operands. NumPy scalars become Python numbers.

    Raises: AttributeError if the operand is neither a tensor nor a number.
    """
    found = [first._keys, first]
    for x in others:
        plain = None if hasattr(x, "_keys") else number(x)
        found.append(x if plain is None else plain)
        found[0] |= x._keys if plain is None else 0
    return found


def coerced_either(first: Any, *others: Any) -> list[Any]:
    """Return the result of `coerced` for a call whose first operand may be a number."""
    if hasattr(first, "_keys"):
        return coerced(first, *others)
    plain = number(first)
    if plain is None:
        raise AttributeError
    found = coerced(*others)
    return [found[0], plain, *found[1:]]


def coerced_swapped(first: Any, other: Any) -> list[Any]:
    """Return the result of `coerced` for a commutative operator. If the first operand is a number,
    swap the operands."""
    if hasattr(first, "_keys"):
        return coerced(first, other)
    return coerced(other, first)


def checked_out(op: str, out: Any, dtype: Any = None, device: Any = None) -> Any:
    """Return `out`. dtype, device: options that were passed beside `out`.

    Raises: ArgumentTypeError if `out` is not a Tensor. ArgumentError if an option differs from the
    dtype or device of `out`.
    """
    if not hasattr(out, "_keys"):
        raise errors.not_a_tensor(op, "out", "a Tensor", out)
    if dtype is not None and out.dtype is not dtype:
        raise errors.must(op, "out", f"be of the given dtype, {dtype}", out)
    if device is not None:
        is_same = device.index in (None, out.device.index)
        if device.type != out.device.type or not is_same:
            raise errors.must(op, "out", f"be on the given device, {device}", out)
    return out


def checked_outs(op: str, out: Any, count: int) -> int:
    """Return the union of the key sets of `out`. Raises: ArgumentTypeError if `out` is not a list
    or tuple of `count` Tensors."""
    if not isinstance(out, (tuple, list)) or len(out) != count:
        raise errors.wrong_type(op, "out", f"be a tuple of {count} Tensors", out)
    bits = 0
    for one in out:
        bits |= checked_out(op, one)._keys
    return bits


def keys_of_list(tensors: Any) -> int:
    """Return the union of the key sets of all tensors in a list or tuple. None has no keys.

    Raises: TypeError for an iterator, because it can be read only once, and for anything else that
    is not a list or tuple.
    """
    if not isinstance(tensors, (list, tuple)):
        raise TypeError
    bits = 0
    for tensor in tensors:
        if tensor is not None:
            bits |= tensor._keys
    return bits


def flag(op: str, arg: str, value: Any) -> bool:
    """Return `value` as a bool."""
    try:
        return bool(value)
    except Exception:
        raise errors.wrong_type(op, arg, "be a bool", value) from None


def real(op: str, arg: str, value: Any) -> float:
    """Return `value` as a float. Raises: ArgumentTypeError for text and other non-numbers."""
    try:
        if not isinstance(value, (str, bytes)):
            return float(value)
    except Exception:  # the `__float__` of a foreign class may raise any exception
        pass
    raise errors.wrong_type(op, arg, "be a number", value)


def sequence(value: Any) -> Any:
    """Convert a list to a tuple and an int to `(value,)`. Return other values unchanged, because
    native code rejects them."""
    if isinstance(value, (tuple, list)):
        return tuple(value)
    return (value.__index__(),) if hasattr(value, "__index__") else value
