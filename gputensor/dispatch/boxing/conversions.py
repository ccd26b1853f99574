"""Conversion of values in boxed calls, by the type that the schema declares.

An int converts to float, but a float does not convert to int. A bool is an int. One-element tensors
and NumPy scalars convert to their number. One int expands to an `int[2]`, lists become tuples, and
'cpu' becomes a device. Source: torch/csrc/jit/python/pybind_utils.cpp, toIValue.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core import dtype as dtypes, memory_format as formats
from ...core.device import device
from ...core.schema import Name

if TYPE_CHECKING:
    from ...core.schema import Type

Converter = Callable[[Any], Any]
_NUMBERS = (bool, int, float, complex)
_INT64, _INT64_END = -(2**63), 2**63


class Refused(Exception):
    """The exception for a value that does not fit the type. The caller catches this exception and
    names the argument."""


def accepts(type: Type, value: Any, takes_numbers: bool) -> bool:
    """True if `value` converts to `type`."""
    convert = converter(type, takes_numbers)
    return convert is None or _accepts(convert, value)


def converter(type: Type, takes_numbers: bool) -> Converter | None:
    """Return a function that converts a value to `type` or raises Refused. Return None if `type`
    accepts any value.

    takes_numbers: accept a Python number for a Tensor.
    """
    if type.is_optional:
        inner = converter(type.parts[0], takes_numbers)
        if inner is None:
            return None
        return lambda value: None if value is None else inner(value)
    if type.is_list:
        return _list_converter(type, takes_numbers)
    if type.name == "Tensor":
        return _tensor_or_number if takes_numbers else _tensor
    if type.name == "tuple":
        return _tuple_converter([converter(part, takes_numbers) for part in type.parts])
    if type.name == "Dict":
        return _dict_converter(*[converter(part, takes_numbers) for part in type.parts])
    return _CONVERTERS.get(type.name)


def _list_converter(type: Type, takes_numbers: bool) -> Converter:
    inner = converter(type.parts[0], takes_numbers)
    if type.has_tensor:
        return _tensors_converter(inner)
    size = type.size
    # `bool[N]` needs exactly N values, because it is a std::array in PyTorch.
    is_exact = type.parts[0].name == "bool" and size is not None

    def convert(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            if size is None or value is None:
                raise Refused
            return (value if inner is None else inner(value),) * size
        if is_exact and len(value) != size:
            raise Refused
        return tuple(value) if inner is None else tuple([inner(item) for item in value])

    return convert


def _tuple_converter(parts: list[Converter | None]) -> Converter:
    def convert(value: Any) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) != len(parts):
            raise Refused
        return tuple([v if part is None else part(v) for part, v in zip(parts, value)])

    return convert


def _dict_converter(key: Converter | None, item: Converter | None) -> Converter:
    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Refused
        return {
            (k if key is None else key(k)): (v if item is None else item(v))
            for k, v in value.items()
        }

    return convert


def _tensors_converter(inner: Converter | None) -> Converter:
    assert inner is not None

    def convert(value: Any) -> Any:
        # Return the caller's list, not a copy, because a kernel that writes to the list's tensors
        # may return this list.
        if not isinstance(value, (list, tuple)):
            raise Refused
        for item in value:
            if not hasattr(item, "_keys"):
                inner(item)
        return value

    return convert


def _tensor(value: Any) -> Any:
    if hasattr(value, "_keys"):
        return value
    raise Refused


def _tensor_or_number(value: Any) -> Any:
    return value if hasattr(value, "_keys") else _number(value)


def _int(value: Any) -> int:
    if type(value) is int and _INT64 <= value < _INT64_END:
        return value
    try:
        number = operator.index(value)
    except Exception:  # the `__index__` of a foreign class may raise any exception
        raise Refused from None
    if not _INT64 <= number < _INT64_END:
        raise Refused
    return number


def _float(value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, (str, bytes, complex)) or not hasattr(value, "__float__"):
        raise Refused
    try:
        return float(value)
    except Exception:  # raised by a foreign class, or for an int beyond the range of floats
        raise Refused from None


def _complex(value: Any) -> complex:
    return complex(_number(value))


def _bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    number = _number(value)
    if type(number) is not bool:
        raise Refused
    return number


def _number(value: Any) -> Any:
    if isinstance(value, (bool, int, float, complex)):
        # np.float64 is a subclass of float; kernels expect a plain float.
        value = value if type(value) in _NUMBERS or not hasattr(value, "item") else value.item()
        if isinstance(value, int) and not _INT64 <= value < -2 * _INT64:
            raise Refused
        return value
    if not hasattr(value, "item") or getattr(value, "ndim", False):
        raise Refused
    try:
        number = value.item()
    except Exception:
        raise Refused from None
    if type(number) not in _NUMBERS:
        raise Refused
    return number


def _storage(value: Any) -> Any:
    # A storage is recognised by its attributes, because this package must not import its class.
    if hasattr(value, "_keys") or not hasattr(value, "nbytes") or not hasattr(value, "version"):
        raise Refused
    return value


def _generator(value: Any) -> Any:
    if not hasattr(value, "manual_seed") or not hasattr(value, "get_state"):
        raise Refused
    return value


def _instance_of(kind: Any) -> Converter:
    def convert(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        raise Refused

    return convert


def _device(value: Any) -> device:
    if isinstance(value, (str, device)):
        return device(value)
    raise Refused


_CONVERTERS: dict[str, Converter] = {
    "int": _int, "SymInt": _int, "DeviceIndex": _int, "float": _float, "complex": _complex,
    "bool": _bool, "SymBool": _bool, "number": _number, "Scalar": _number,
    "str": _instance_of(str), "Device": _device, "ScalarType": _instance_of(dtypes.dtype),
    "MemoryFormat": _instance_of(formats.memory_format), "Layout": _instance_of(formats.layout),
    "Storage": _storage, "Generator": _generator,
}  # fmt: skip

_REDUCTIONS = {"None": 0, "Mean": 1, "Sum": 2}
_DTYPES = {
    "bool": "bool_", "int": "int32", "long": "int64", "half": "float16", "float": "float32",
    "double": "float64",
}  # fmt: skip


def named_default(type: Type, value: Any) -> Any:
    """Return the object that an identifier in a schema's default names, such as
    `contiguous_format`, `long` or `Mean`."""
    if not isinstance(value, Name):
        return value
    kind = type.base
    if kind in ("MemoryFormat", "Layout"):
        return getattr(formats, value)
    if kind == "ScalarType":
        return getattr(dtypes, _DTYPES.get(value, value))
    return _REDUCTIONS[value]


# --- results ------------------------------------------------------------------------------------


def checker_of(types: list[Type], is_masked: bool = False) -> Callable[[Any], bool]:
    """Return a function that checks the number and types of a kernel's results.

    is_masked: the operator takes an `output_mask`, so that a result may be None.
    """
    if len(types) == 1:
        return _checker(types[0])
    if not types:
        return lambda result: result is None
    checkers = [_checker(declared) for declared in types]
    return lambda result: (
        isinstance(result, (list, tuple)) and len(result) == len(checkers)
        and all(is_masked and value is None or fits(value) for fits, value in zip(checkers, result))
    )  # fmt: skip


def form_of(types: list[Type]) -> Callable[[Any], Any] | None:
    """Return a function that converts a kernel's result to the form that callers expect; None if no
    conversion is needed.

    Callers expect a list for `Tensor[]` and a tuple for several results, as in PyTorch.
    """
    are_lists = [t.required.is_list for t in types]
    if len(types) == 1:
        return _as_list if are_lists[0] else None
    if not types:
        return None
    return lambda result: tuple([_as_list(v) if n else v for v, n in zip(result, are_lists)])


def _as_list(value: Any) -> Any:
    return list(value) if type(value) is tuple else value


def _checker(type: Type) -> Callable[[Any], bool]:
    if type.is_optional:
        inner = _checker(type.parts[0])
        return lambda value: value is None or inner(value)
    if type.is_list:
        item = _checker(type.parts[0])
        return lambda value: isinstance(value, (list, tuple)) and all(map(item, value))
    if type.name == "Tensor":
        return lambda value: hasattr(value, "_keys")
    if type.name == "tuple":
        parts = list(map(_checker, type.parts))
        return lambda value: (
            isinstance(value, tuple) and len(value) == len(parts)
            and all(fits(item) for fits, item in zip(parts, value))
        )  # fmt: skip
    convert = _CONVERTERS.get(type.name)
    if convert is None:
        return lambda value: True
    return lambda value: not hasattr(value, "_keys") and _accepts(convert, value)


def _accepts(convert: Converter, value: Any) -> bool:
    try:
        convert(value)
    except Refused:
        return False
    return True
