"""Errors for failed calls of public functions, and warnings. The schema is used to find and name
the wrong argument.

Only failed calls run this code, so successful calls pay nothing. Native code must fail before it
writes; `tests/errors/test_bad_values.py` checks that. If a 0-d tensor was passed for a number, this
module reads the number and repeats the call. Other errors, such as errors of users' kernels,
propagate unchanged. Functions that are not operators declare their arguments with `declares`.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from ..core._generated import index
from ..core import errors
from ..core.arguments import number, number_in
from . import dispatcher
from .refused_memory import is_of_the_host, refuse_memory, refuse_opaque

if TYPE_CHECKING:
    from ..core.schema import Argument, Type
    from .operator import Operator

# Functions whose tensor operands may all be numbers, as in PyTorch. Source:
# torch/csrc/utils/python_arg_parser.cpp, should_allow_numbers_as_tensors.
_OF_NUMBERS = frozenset(
    ("add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "floor_divide")
)
F = TypeVar("F", bound=Callable[..., Any])
# Empty unless as_torch is installed. `as_torch.install` adds one function. This function calls the
# `__torch_function__` of an argument and returns a tuple with the result. It returns None if no
# argument has a `__torch_function__`.
overriding: list[Callable[[Callable[..., Any], Mapping[str, Any]], tuple[Any] | None]] = []


# Empty unless a TorchFunctionMode is active. `entering[0]` is called at each call of a function
# that `declares` has wrapped. It calls the mode and returns a tuple with the mode's result, or None
# if the wrapped function must run.
entering: list[Callable[[Callable[..., Any], Any, Any], tuple[Any] | None]] = []


# The number of warnings that operators and losses have issued. A fused call that changes this
# number is not replayed, because a replay would issue no warning.
warned = 0


def warn(message: str, stacklevel: int) -> None:
    """Issue a warning about a call's operands. stacklevel: as in `warnings.warn`."""
    global warned
    warned += 1
    warnings.warn(message, UserWarning, stacklevel + 1)


def refuse(error: Exception, op: str, function: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Handle a failed call of the public function `op`. If 0-d tensors or NumPy scalars were passed
    for numbers, repeat the call with their values and return the result. Otherwise raise the error
    that explains the failure.

    given: the function's local variables, which contain the values of the schema's arguments.
    """
    # Remove the error from the dict to avoid a reference cycle: up to Python 3.12, the function's
    # frame keeps this dict, and the error's traceback keeps that frame.
    given.pop("error", None)
    if overriding and (taken := overriding[0](function, given)):
        return taken[0]
    if op in _OF_NUMBERS and None not in (number(given.get("input")), number(given.get("other"))):
        made = dispatcher.find("aten::full")([], number(given["input"]))
        return _again(function, {**given, "input": made})
    if isinstance(error, errors.DispatchError) and "input" in given:
        if not any(hasattr(x, "_keys") for x in given.values()):
            raise errors.not_a_tensor(op, "input", "a Tensor", given["input"]) from None
    if plain := _untyped_storages(op, given) or _plain_numbers(op, given):
        return _again(function, {**given, **plain})
    try:
        _explain(error, op, given, function)
        raise error
    finally:
        # The error's traceback keeps this frame, so these variables would be a reference cycle.
        del error, given


def in_old_order(op: str, function: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Call the function with scalars that were passed positionally, such as the 2 in
    `x.add_(2, y)`, by keyword. Raise TypeError if there are too many operands or scalars.

    given: the function's local variables. `old` has the arguments after the last operand.
    """
    kinds = _parameters(function)
    names = [name for name, kind in kinds if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    scalars = [n for n, kind in kinds if kind is inspect.Parameter.KEYWORD_ONLY and n != "out"]
    values = [*(given[name] for name in names), *given["old"]]
    numbers = [x for x in values if number(x) is not None]
    operands = [x for x in values if number(x) is None]
    defaults = cast(Any, function).__kwdefaults__
    is_named = any(given[n] is not defaults[n] for n in scalars)
    if is_named or len(operands) != len(names) or len(numbers) > len(scalars):
        raise errors.too_many_arguments(_overloads(op)[0], len(names), len(values))
    plain = {**dict(zip(names, operands)), **dict(zip(scalars, numbers)), "old": ()}
    return _again(function, {**given, **plain})


def _is_single(x: Any) -> bool:
    return hasattr(x, "_keys") and not getattr(x, "ndim", 1)


def _overloads(op: str) -> list[Operator]:
    return [o for o in dispatcher.overloads(f"aten::{op}") if o.definition is not None]


def _untyped_storages(op: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dict that maps variables that are a TypedStorage to the storages of its bytes.

    Raises: ArgumentError if its dtype differs from the tensor's.
    """
    found = {}
    for name, x in given.items():
        if hasattr(x, "_untyped"):
            wanted = given["self"].dtype
            if x.dtype is not wanted:
                rule = f"have self's dtype {wanted.short}"
                raise errors.must(op, name, rule, errors.Got(repr(x)))
            found[name] = x.untyped()
    return found


def _plain_numbers(op: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Find 0-d tensors and NumPy scalars that were passed for arguments declared as numbers. Return
    a dict that maps the function's variables to their values."""
    if not any(_is_single(x) or isinstance(x, np.generic) for x in given.values()):
        return {}
    found = {}
    for name, types in _types_of(op, dispatcher.generation[0]).items():
        place = _place(name, given)
        if place is not None:
            number = _number_in(given[place], types)
            found.update({} if number is None else {place: number})
    return found


@functools.lru_cache(maxsize=256)
def _types_of(op: str, generation: int) -> dict[str, list[Type]]:
    """Return a dict that maps each argument to its types in all overloads. generation: the
    dispatcher's `generation`. It is only a part of the cache key, because a registration may change
    the overloads."""
    return {name: [fit.type for fit in fits] for name, fits in _arguments(_overloads(op)).items()}


_INTEGRAL = {"int", "SymInt"}
_NUMERIC = {*_INTEGRAL, "float", "complex", "Scalar", "number"}


def _number_in(x: Any, types: Iterable[Type]) -> Any:
    """Return the value of the 0-d tensor or NumPy scalar x if all `types` are types of numbers;
    otherwise None."""
    # A tensor or NumPy scalar is never passed for a string, and a NumPy scalar never for a tensor.
    bases = {kind.base for kind in types} - {"str"}
    if isinstance(x, np.generic):
        bases -= {"Tensor"}
    elif not hasattr(x, "_keys"):
        return None
    if not bases or not bases <= _NUMERIC:
        return None
    found = number_in(x)
    return None if bases <= _INTEGRAL and type(found) is not int else found


def _again(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Call the function with these values of its local variables. NumPy's names `axis` and
    `keepdims` are left out, because `dim` and `keepdim` already have their values."""
    args: list[Any] = []
    kwargs = {}
    for name, kind in _parameters(function):
        if kind is inspect.Parameter.VAR_POSITIONAL:
            args += given[name]
        elif kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            args.append(given[name])
        elif name not in ("axis", "keepdims"):
            kwargs[name] = given[name]
    return _afresh(function, args, kwargs)


@functools.lru_cache(maxsize=256)
def _parameters(function: Callable[..., Any]) -> list[tuple[str, Any]]:
    return [(name, p.kind) for name, p in inspect.signature(function).parameters.items()]


def _afresh(function: Callable[..., Any], args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call the function so that its exception is not chained to the previous one."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        error.__context__ = None
        raise


def _explain(
    error: Exception, base: str, given: dict[str, Any], function: Callable[..., Any]
) -> None:
    """Raise the error that explains why a function that calls the operator `base` failed. Return if
    no such error is found."""
    # In gt.nn.functional, the names of a function and its operator may differ. The error then names
    # the function. Properties have no `__module__`, so `getattr` needs a default.
    is_of_nn = getattr(function, "__module__", "").endswith(".nn.functional")
    op = function.__name__ if is_of_nn else base
    if isinstance(error, errors.GpuTensorError):
        refuse_opaque(error, op, given)
        _name_the_caller(error, op, given)
        return
    overloads = _overloads(base)
    # With inplace=True, a function of gt.nn.functional calls the in-place operator.
    writers = _overloads(f"{base}_") if is_of_nn else []
    is_method = base in index.METHODS and not is_of_nn
    for operator in (*overloads, *writers):
        names = {a.name: _place(a.name, given) for a in operator.schema.arguments}
        found = {n: given[at] for n, at in names.items() if at is not None}
        refuse_memory(error, op, operator, found)
    for name, fits in _arguments(overloads).items():
        place = _place(name, given)
        if place is None:
            continue
        value = given[place]
        if value is None and len(overloads) > 1 and not any(fit.is_needed for fit in fits):
            # None means that the argument was not passed, and not every overload needs the
            # argument.
            continue
        if not any(fit(value) for fit in fits):
            # if the function is not also a method, its argument `self` is called `input`
            shown = place if name == "self" and not is_method else name
            raise errors.unfit(op, shown, [fit.type for fit in fits], value) from None
    _refuse_together(op, overloads, given)
    if not isinstance(given.get("requires_grad", False), int):
        raise errors.wrong_type(op, "requires_grad", "be a bool", given["requires_grad"]) from None


def _refuse_together(op: str, overloads: list[Operator], given: Mapping[str, Any]) -> None:
    """Raise an error if no overload accepts all the passed arguments together."""
    unfit = []
    for operator in overloads:
        wrong = []
        for name, (fit,) in _arguments([operator]).items():
            place = _place(name, given)
            value = None if place is None else given[place]
            # `meant` is False if a tensor was passed but this overload takes no tensor for the
            # argument. The tensor is then meant for another overload.
            meant = fit.type.has_tensor or not hasattr(value, "_keys")
            if place is not None and not (meant and fit(value)):
                wrong.append((name, fit.type, value))
        if not wrong:
            return
        unfit.append(wrong)
    if len(unfit) > 1:
        name, kind, value = min(unfit, key=len)[-1]
        raise errors.unfit(op, name, [kind], value) from None


def declares(op: str = "", *, first: bool = False, **types: str) -> Callable[[F], F]:
    """Return a decorator that declares the argument types of a function that is not an operator.

    types: the type of each argument, such as `"Tensor|Tensor[]"`: types of schemas, Callable,
    Iterable or dict. The annotations are the default. NumPy numbers are converted to Python
    numbers. 0-d tensors are converted too if the function fails with them. op: the function's name
    in messages. first: check the arguments before the function runs. Functions that only store
    their arguments need this. Errors of a constructor name its class. If both a function and a
    function that it calls declare types, the outer function's arguments are checked first.
    """

    def decorate(function: F) -> F:
        name = op or function.__name__
        has_none = _OF_NUMPY.isdisjoint

        @functools.wraps(function)
        def declared(*args: Any, **kwargs: Any) -> Any:
            if entering and (taken := entering[0](declared, args, kwargs)):
                return taken[0]
            has_numpys = not has_none(map(type, args)) or (
                kwargs and not has_none(map(type, kwargs.values()))
            )
            if first or has_numpys:
                called = _name_of(name, args)
                args, kwargs = read(called, function, types, args, kwargs, refuses=first)
            try:
                return function(*args, **kwargs)
            except Exception as error:
                if overriding and (taken := _overridden(declared, args, kwargs)):
                    return taken[0]
                if (plain := _without_tensors(function, types, args, kwargs)) is not None:
                    return _afresh(function, plain.args, plain.kwargs)
                if isinstance(error, errors.GpuTensorError):
                    refuse_opaque(error, name, {**dict(zip(("input",), args)), **kwargs})
                    if name == "__init__":
                        read(_name_of(name, args), function, types, args, kwargs)
                    raise
                if is_of_the_host(error):
                    raise errors.host_memory_exhausted(name, error) from None
                refuse_opaque(error, name, {**dict(zip(("input",), args)), **kwargs})
                read(_name_of(name, args), function, types, args, kwargs)
                raise

        return cast(F, declared)

    return decorate


def _overridden(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any] | None:
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    return overriding[0](function, bound.arguments)


def _name_of(function: str, args: tuple[Any, ...]) -> str:
    return type(args[0]).__name__ if function == "__init__" and args else function


def declare_constructor(kind: type, ours: str | tuple[str, ...], *, first: bool = False) -> None:
    """Apply `declares` to the constructor of a class if the class is defined in our modules. ours:
    prefixes of the names of these modules."""
    constructor = vars(kind).get("__init__")
    if constructor is not None and kind.__module__.startswith(ours):
        kind.__init__ = declares(first=first)(constructor)  # type: ignore[misc]


# Types of NumPy's arrays and numbers, which `read` converts.
_OF_NUMPY = frozenset([np.ndarray, *np.sctypeDict.values()])


def _without_tensors(
    function: Callable[..., Any], types: dict[str, str], args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> inspect.BoundArguments | None:  # fmt: skip
    """Replace 0-d tensors that were passed for declared numbers by their values. Return all
    arguments, or None if there is no such tensor."""
    if not any(map(_is_single, (*args, *kwargs.values()))):
        return None
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return None
    found = {}
    for name, text in (types or _annotated(function)).items():
        if name in bound.arguments and not any(kind in text for kind in _PLAIN):
            number = _number_in(bound.arguments[name], _types(text))
            found.update({} if number is None else {name: number})
    bound.arguments.update(found)
    return bound if found else None


def read(
    op: str, function: Callable[..., Any], types: dict[str, str], args: tuple[Any, ...],
    kwargs: dict[str, Any], *, refuses: bool = True,
) -> tuple[tuple[Any, ...], dict[str, Any]]:  # fmt: skip
    """Return the arguments with NumPy numbers converted. refuses: if True, raise the error for an
    argument that does not fit."""
    from .boxing import conversions

    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:  # Python's own error names a missing or extra argument
        return args, kwargs
    for name, text in (types or _annotated(function)).items():
        if name not in bound.arguments:
            continue
        kinds, value = _types(text), bound.arguments[name]
        kind = next((kind for kind in kinds if _is_a(kind, value)), None)
        if kind is None and refuses:
            raise errors.unfit(op, name, list(kinds), value) from None
        if type(value) in _OF_NUMPY and kind is not None:
            convert = conversions.converter(kind, False)
            bound.arguments[name] = convert(value) if convert else value
    return bound.args, bound.kwargs


_ANNOTATIONS = {
    "Ints": "int|int[]", "Padding": "int|int[]|str", "Sizes": "int|int?[]",
    "Reals": "float|float[]", "Sequence[int]": "int[]",
    "_dtype": "ScalarType", "dtypes.dtype": "ScalarType", "Tensor | float": "Tensor|float",
    "Tensor | Iterable[Tensor]": "Tensor|Iterable", "Numbers[int]": "int[]",
    "tuple[int, ...]": "int[]", "Factor | list[Factor]": "Callable|Iterable",
    "float | list[float]": "float|float[]",
}  # fmt: skip
_SCHEMA = (
    "Tensor", "int", "float", "bool", "str", "Callable", "Iterable", "Mapping", "Optimizer",
)  # fmt: skip


def _annotated(function: Callable[..., Any]) -> dict[str, str]:
    """Return the declared types of a function's arguments, from its annotations. An argument
    annotated with Any has no declared type."""
    found = {}
    for name, text in function.__annotations__.items():
        plain = text.removesuffix(" | None")
        whole = plain if plain in _ANNOTATIONS else plain.partition("[")[0]
        kind = _ANNOTATIONS.get(whole, whole if whole in _SCHEMA else "")
        if kind and name != "return":
            optional = "?" if plain != text else ""
            found[name] = "|".join([part + optional for part in kind.split("|")])
    return found


@functools.cache
def _types(text: str) -> tuple[Type, ...]:
    from ..core import schema

    found = []
    for part in text.split("|"):
        plain = schema.Type(part.rstrip("?"))
        if plain.name not in _PLAIN:
            found.append(schema.parse_type(part))
        else:
            found.append(schema.Type("optional", (plain,)) if part.endswith("?") else plain)
    return tuple(found)


def is_iterable(value: Any) -> bool:
    """True for an iterable other than str and bytes."""
    try:
        iter(value)
    except Exception:  # the value is, for example, an array without dimensions
        return False
    return not isinstance(value, (str, bytes))


_PLAIN: dict[str, Callable[[Any], bool]] = {
    "Callable": callable,
    "Iterable": is_iterable,
    "path": lambda value: hasattr(value, "__fspath__"),
    "dict": lambda value: isinstance(value, dict),
    "Mapping": lambda value: hasattr(value, "items"),
    "Optimizer": lambda value: hasattr(value, "param_groups"),
    "Parameters": lambda value: is_iterable(value) and all(hasattr(p, "_keys") for p in value),
}  # fmt: skip


def _is_a(kind: Type, value: Any) -> bool:
    plain = _PLAIN.get(kind.required.name)
    if plain is not None:
        return value is None if kind.is_optional and value is None else plain(value)
    from .boxing import conversions

    return not _is_of_others(kind, value) and conversions.accepts(kind, value, False)


def _is_of_others(kind: Type, value: Any) -> bool:
    """True for a number of a foreign class that no operator accepts, such as Fraction."""
    is_number = kind.required.base in ("Scalar", "float") and isinstance(value, numbers.Number)
    return is_number and not isinstance(value, (int, float, complex, np.generic))


def _name_the_caller(error: errors.GpuTensorError, op: str, given: Mapping[str, Any]) -> None:
    """Correct the function's name in a message such as `empty: 'size' must …`: it must name the
    function that the user called."""
    inner, colon, rest = str(error).partition(": '")
    name = rest.partition("'")[0]
    is_named = colon and inner.isidentifier() and name in given and name not in ("self", "input")
    if is_named and inner != op and dispatcher.overloads(f"aten::{inner}"):
        error.args = (f"{op}: '{rest}", *error.args[1:])


class _Fit:
    """A callable that tests whether a value fits the type of one argument in one overload."""

    __slots__ = ("type", "takes_numbers", "is_out", "is_needed")

    def __init__(self, argument: Argument, takes_numbers: bool) -> None:
        self.type, self.takes_numbers = argument.type, takes_numbers
        # False if None may mean that the argument was not passed. True for tensors, and for
        # arguments with a default other than None.
        self.is_needed = argument.default is not None or argument.type.has_tensor
        self.is_out = argument.is_keyword_only and argument.is_write

    def __call__(self, value: Any) -> bool:
        form = self.type.required
        if value is None and self.is_out:
            return True
        if isinstance(value, np.ndarray) and form.base in ("Tensor", "Scalar", "float"):
            return False  # only boxed calls convert an array
        if _is_of_others(form, value):
            return False
        if form.is_list and not form.has_tensor and not isinstance(value, (list, tuple)):
            value = (value,)  # a number counts as a list, as in x.view(3) and x.permute(0)
        from .boxing import conversions

        return conversions.accepts(self.type, value, self.takes_numbers)


def _arguments(overloads: list[Operator]) -> dict[str, list[_Fit]]:
    """Return a dict that maps each argument to its declared types in all overloads. Arguments are
    in the order of the schemas."""
    found: dict[str, list[_Fit]] = {}
    for operator in overloads:
        assert operator.definition is not None
        first, *_ = operator.schema.arguments
        for argument in operator.schema.arguments:
            takes_numbers = argument is not first and argument.name in operator.definition.numbers
            found.setdefault(argument.name, []).append(_Fit(argument, takes_numbers))
    return found


def _place(name: str, given: Mapping[str, Any]) -> str | None:
    """Return the name of the function's variable for a schema argument: `input` for `self`, `from_`
    for `from`."""
    for variable in (name, f"{name}_", "input" if name == "self" else name):
        if variable in given:
            return variable
    return None
