"""Calls with arguments in any form: `gt.ops.aten.add.Tensor(x, other=1)`, and boxed calls.

A `Signature` is a schema prepared for calls. It binds arguments by name and position, fills in
defaults, converts arguments as PyTorch's boxed calls do and collects the dispatch keys. Generated
functions do not use it, because their code contains the signature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...core import errors
from . import conversions

if TYPE_CHECKING:
    from ...core.schema import Argument, FunctionSchema, Type

# The tag of operators that accept a number in place of a tensor. PyTorch has separate overloads for
# the number.
NUMBERS_AS_TENSORS = "numbers_as_tensors"
# A function that replaces numbers among the arguments by 0-d tensors. The tensor module sets it.
tensors_for_numbers: list[Callable[[Sequence[Any]], Sequence[Any]]] = []

_NO_DEFAULT = object()
# Kinds of arguments that contain tensors. `arrange` converts each kind in another way.
_TENSOR, _TENSORS, _TENSORS_AMONG = "a tensor", "a list of tensors", "a tuple or dict of them"
_EXACT = {"int": int, "SymInt": int, "float": float, "bool": bool, "str": str}


class Signature:
    """One schema, prepared for calls: it converts arguments and checks results.

    n_tensors: the number of arguments if all are plain tensors, otherwise -1. is_simple: all
    arguments are positional, and the schema returns one tensor. is_converted: `for_users` changes
    some arguments.
    """

    __slots__ = (
        "schema", "names", "n_positional", "n_tensors", "is_simple", "returns_fit", "returns_form",
        "is_converted", "_lists", "_tensors_for_numbers", "_takes", "_convert", "_defaults",
    )  # fmt: skip

    def __init__(
        self, schema: FunctionSchema, numbers: tuple[str, ...] = (), tags: Sequence[str] = ()
    ) -> None:
        self.schema: FunctionSchema = schema
        declared = schema.arguments
        self.names: tuple[str, ...] = tuple(a.name for a in declared)
        self.n_positional: int = len(schema.positional)
        plain = all(a.type.name == "Tensor" for a in declared)
        self.n_tensors: int = len(declared) if plain and self.n_positional == len(declared) else -1
        self._takes = tuple(_how_to_take(a.type) for a in declared)
        self._convert = tuple(conversions.converter(a.type, a.name in numbers) for a in declared)
        self._defaults = tuple(map(_default, declared, self._convert))
        self._lists = tuple(n for n, a in enumerate(declared) if a.type.required.is_list)
        self._tensors_for_numbers = NUMBERS_AS_TENSORS in tags
        self.is_converted: bool = bool(self._lists) or self._tensors_for_numbers
        types = [r.type for r in schema.returns]
        self.returns_fit: Callable[[Any], bool] = conversions.checker_of(
            types, "output_mask" in self.names
        )
        self.returns_form: Callable[[Any], Any] | None = conversions.form_of(types)
        returns = [r.type.name for r in schema.returns]
        self.is_simple: bool = self.n_positional == len(declared) and returns == ["Tensor"]

    def arrange(
        self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], int]:
        """Return all arguments in the schema's order, with defaults filled in, and the union of
        their key sets. operator: the operator that errors name.

        Raises: ArgumentTypeError for too many, unknown, doubled, missing or unfitting arguments.
        The message contains the declaration.
        """
        if len(args) > self.n_positional:
            raise errors.too_many_arguments(operator, self.n_positional, len(args))
        arguments = list(args)
        given: Iterable[Any] = args
        if kwargs:
            given = arguments
            self._complete(operator, arguments, kwargs)
        elif len(args) < len(self.names):
            rest = self._defaults[len(args) :]
            if _NO_DEFAULT in rest:
                missing = len(args) + rest.index(_NO_DEFAULT)
                raise errors.argument_missing(operator, self.names[missing])
            arguments += rest
        key_set = number = 0
        for take, value in zip(self._takes, given):
            if take is _TENSOR:
                try:
                    key_set |= value._keys
                except AttributeError:
                    arguments[number] = self._converted(operator, number, value)
            elif take is _TENSORS:
                if type(value) is list or type(value) is tuple:
                    try:
                        for item in value:
                            key_set |= item._keys
                    except AttributeError:
                        key_set |= keys_of_list(self._converted(operator, number, value))
                else:
                    key_set |= keys_of_list(self._converted(operator, number, value) or ())
            elif type(value) is not take and value is not self._defaults[number]:
                arguments[number] = self._converted(operator, number, value)
                if take is _TENSORS_AMONG and value is not None:
                    key_set |= keys_of_list(value.values() if isinstance(value, dict) else value)
            number += 1
        return arguments, key_set

    def _complete(self, operator: Any, arguments: list[Any], kwargs: dict[str, Any]) -> None:
        given, used = len(arguments), 0
        for name, default in zip(self.names[given:], self._defaults[given:]):
            if name in kwargs:
                used += 1
                arguments.append(kwargs[name])
            elif default is _NO_DEFAULT:
                raise errors.argument_missing(operator, name)
            else:
                arguments.append(default)
        if used != len(kwargs):
            for name in kwargs:
                if name in self.names[:given]:
                    raise errors.argument_twice(operator, name)
                if name not in self.names:
                    raise errors.argument_unknown(operator, name)

    def _converted(self, operator: Any, number: int, value: Any) -> Any:
        convert = self._convert[number]
        try:
            return value if convert is None else convert(value)
        except conversions.Refused:
            argument = self.schema.arguments[number]
            raise errors.wrong_argument(operator, argument, number, value) from None

    # --- for kernels of users ---------------------------------------------------------------------

    def keywords_of(self, arguments: Any) -> dict[str, Any]:
        """Return the keyword-only arguments by name."""
        n = self.n_positional
        return dict(zip(self.names[n:], arguments[n:]))

    def for_users(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """Return the arguments in the form that users' kernels expect from PyTorch.

        Inside the package, a list argument is a tuple or one number. A tensor argument of an
        operator with the tag NUMBERS_AS_TENSORS may be a number. Users' kernels get lists and
        tensors instead.
        """
        if self._tensors_for_numbers:
            arguments = tensors_for_numbers[0](arguments)
        for number in self._lists:
            value = arguments[number]
            if value is not None and type(value) is not list:
                break
        else:
            return arguments
        shown = list(arguments)
        for number in self._lists:
            value = shown[number]
            if type(value) is tuple:
                shown[number] = list(value)
            elif value is not None and type(value) is not list:
                size = self.schema.arguments[number].type.required.size
                shown[number] = [value] * (size or 1)
        return shown

    def without_defaults(self, arguments: Any) -> tuple[list[Any], dict[str, Any]]:
        """Return (positional, keywords) without the last arguments that equal their defaults.

        A keyword-only argument with its default is left out even if later ones are not. Source:
        parseIValuesToPyArgsKwargs in torch/csrc/utils/python_dispatch.cpp.
        """
        end = self.n_positional
        while end and self._is_default(end - 1, arguments[end - 1]):
            end -= 1
        keywords = {
            self.names[i]: arguments[i]
            for i in range(self.n_positional, len(self.names)) if not self._is_default(i,
            arguments[i])
        }  # fmt: skip
        return list(arguments[:end]), keywords

    def _is_default(self, number: int, value: Any) -> bool:
        default = self._defaults[number]
        if isinstance(value, list):
            value = tuple(value)
        return type(value) is type(default) and (value is default or bool(value == default))


def keys_of_list(values: Iterable[Any]) -> int:
    """Return the union of the key sets in a list of tensors. None and numbers have no keys."""
    bits = 0
    for value in values:
        if value is not None:
            try:
                bits |= value._keys
            except AttributeError:
                if isinstance(value, (list, tuple)):
                    bits |= keys_of_list(value)
    return bits


def _how_to_take(type: Type) -> object:
    if type.has_tensor:
        form = type.required
        return _TENSOR if form.name == "Tensor" else _TENSORS if form.is_list else _TENSORS_AMONG
    return _EXACT.get(type.name)


def _default(argument: Argument, convert: Callable[[Any], Any] | None) -> Any:
    if not argument.has_default:
        return _NO_DEFAULT
    value = conversions.named_default(argument.type, argument.default)
    return value if convert is None else convert(value)
