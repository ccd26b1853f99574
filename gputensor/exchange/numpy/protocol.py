"""NumPy's protocols, through which `np.sin(x)`, `ndarray + x` and `np.concatenate([x, ...])` work.

By default the tensors must be on the CPU, and none may require grad while operations are recorded
(except for functions that return bools, which have no gradient). table.py lists our operator for
each NumPy function. If that operator accepts the call, it computes the result, with its own
promotion and errors. Otherwise, for example if it lacks an argument or a dtype, NumPy computes on
the tensors' memory. In both cases the result is a tensor, or the given `out`.

With `set_numpy_on_devices(True)` our operators compute on any device. On devices other than the
CPU, calls that NumPy would have to compute still raise an error. The result of `np.arange(3,
like=x)` is then on the device of x.

A NumPy scalar counts as a Python number: `np.float32(2) * x` is `2.0 * x`, on any device and with
its gradient.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from . import table as table
from ...core import dtype as dtypes, errors
from ...core.arguments import NUMBERS, number
from ...core.device import CPU
from ...tensor import export
from ...tensor.tensor import Tensor
from .makers import LIKE, MAKERS, beside, made_like
from .memory import by_numpy, written_to
from .operands import PLAIN, as_tensors, cast, operands, taken
from .rule import BOOLEAN, check, get_numpy_on_devices, is_elsewhere, is_foreign

# Functions that read no elements, and therefore accept any tensor.
_FACTS: dict[str, Callable[[Tensor], Any]] = {
    "shape": lambda x: tuple(x.shape), "ndim": lambda x: x.ndim, "size": lambda x: x.numel(),
    "iscomplexobj": lambda x: x.is_complex(), "isrealobj": lambda x: not x.is_complex(),
}  # fmt: skip
# Functions that write to their first argument.
_WRITERS = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}
_MISSING = object()


def array_ufunc(
    tensor: Tensor, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """Handle `Tensor.__array_ufunc__`."""
    is_call = method == "__call__" and not options
    if is_call:
        found = _at_once(ufunc, inputs)
        if found is not _MISSING:
            return found
    name = ufunc.__name__
    out = options.get("out")
    if is_call and _is_number_by_tensor(inputs):
        return _operator_of(ufunc, inputs)
    if is_call and any(map(export.is_of_cupy, inputs)):
        return _beside_cupy(ufunc, inputs)  # CuPy returned NotImplemented for `cupy_array + tensor`
    is_boolean = _answers_with_bools(ufunc)
    anywhere = get_numpy_on_devices()
    check(name, (inputs, options), is_boolean, anywhere)
    if any([is_foreign(x) for x in (*inputs, *(out or ()))]):
        return NotImplemented
    found = _MISSING
    if method == "__call__" and not options.keys() - {"out", "dtype"}:
        found = _tried(_operator_of, ufunc, inputs, options.get("dtype"))
    elif method in ("reduce", "accumulate") and getattr(np, name, None) is ufunc:
        found = _over_axis(name, method, inputs, options)
    if found is _MISSING:
        if anywhere:
            check(name, (inputs, options), is_boolean)
        return by_numpy(getattr(ufunc, method), inputs, options, method == "at")
    if out is None:
        return found
    made = found if isinstance(found, tuple) else (found,)
    written = tuple([r if o is None else written_to(name, o, r) for o, r in zip(out, made)])
    return written if isinstance(found, tuple) else written[0]


def array_function(
    tensor: Tensor, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Handle `Tensor.__array_function__`."""
    call = _call_of(function, len(args), *kwargs)
    if call is not None:
        found = _answer(call, function, args, kwargs)
        if found is not _MISSING:
            return found
    name = _name_of(function)
    for x in kwargs.values():
        if x is np._NoValue:
            # `np.ma` and pandas pass this placeholder for omitted arguments
            given = {key: x for key, x in kwargs.items() if x is not np._NoValue}
            return array_function(tensor, function, args, given)
    if name in _FACTS and not kwargs and len(args) == 1 and isinstance(args[0], Tensor):
        return _FACTS[name](args[0])
    anywhere = get_numpy_on_devices()
    check(name, (args, kwargs), name in BOOLEAN, anywhere)
    if name in LIKE:
        return made_like(name, dict(zip(LIKE[name], args)) | kwargs)
    if anywhere:
        if name in table.ELSEWHERE and is_elsewhere(args[:2]):
            found = _by_row(name, True, args, kwargs)
            if found is not _MISSING:
                return found
        if name in MAKERS and not tensor.is_cpu:
            return beside(tensor, name, function, args, kwargs)
        check(name, (args, kwargs), name in BOOLEAN)
    return by_numpy(function, args, kwargs, name in _WRITERS)


@lru_cache(maxsize=1024)
def _answers_with_bools(ufunc: np.ufunc) -> bool:
    return {kind[-1] for kind in ufunc.types} in ({"?"}, {"?", "O"})


@lru_cache(maxsize=1024)
def _name_of(function: Callable[..., Any]) -> str:
    """Return the function's name as written in the table, such as `sum` or `linalg.svd`."""
    module = function.__module__.removeprefix("numpy").lstrip(".")
    return f"{module}.{function.__name__}".lstrip(".")


def _is_number_by_tensor(inputs: tuple[Any, ...]) -> bool:
    """Return True if one of two inputs is a NumPy number that Python can represent (no date, no
    longdouble)."""
    of_numpy = [x for x in inputs if isinstance(x, np.generic)]
    return len(inputs) == 2 and len(of_numpy) == 1 and number(of_numpy[0]) is not None


def _beside_cupy(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    """Compute a ufunc of CuPy arrays and tensors with our operator, on shared memory."""
    check(ufunc.__name__, inputs, False, any_device=True)
    ours = tuple([export.of_cupy(x) if export.is_of_cupy(x) else x for x in inputs])
    found = _tried(_operator_of, ufunc, ours)
    return NotImplemented if found is _MISSING else found


def _tried(function: Callable[..., Any], *args: Any) -> Any:
    """Return the function's result, or _MISSING if there is no operator for the call, or if the
    operator does not support an argument or a dtype."""
    try:
        return function(*args)
    except (KeyError, errors.DtypeError):
        return _MISSING


@lru_cache(maxsize=1024)
def _operation(ufunc: np.ufunc) -> tuple[Callable[..., Any], bool] | None:
    """Return (our operator for a ufunc, True if it accepts numbers), or None if there is no
    operator."""
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:
        if name in table.OPERATORS:
            return table.OPERATORS[name], True
        if name not in table.UFUNCS:
            return None
        return getattr(import_module("gputensor"), table.UFUNCS[name]), False
    # gputensor.special uses the function names of scipy.special.
    special = sys.modules.get("scipy.special")
    ours = import_module("gputensor.special")
    if getattr(special, name, None) is not ufunc or name not in dir(ours):
        return None
    return getattr(ours, name), False


def _at_once(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    """Return the result if all inputs are plain tensors and numbers, otherwise _MISSING."""
    known = _operation(ufunc)
    if known is None:
        return _MISSING
    operation, takes_numbers = known
    for x in inputs:
        if type(x) is Tensor:
            if x._autograd is not None or not (x._device is CPU or get_numpy_on_devices()):
                return _MISSING
        elif not (takes_numbers and type(x) in NUMBERS):
            return _MISSING
    return _tried(operation, *inputs)


def _operator_of(ufunc: np.ufunc, inputs: tuple[Any, ...], dtype: Any = None) -> Any:
    """Compute a ufunc with our operator, in `dtype` if it is given. Raises: KeyError if there is no
    operator, or if it does not support an input or the dtype."""
    known = _operation(ufunc)
    if known is None:
        raise KeyError(ufunc)
    operation, takes_numbers = known
    given = operands(inputs)
    if dtype is not None:
        element = dtypes.from_numpy(np.dtype(dtype))
        if element is None:
            raise KeyError(dtype)
        given = [x if type(x) in NUMBERS else cast(x, element) for x in given]
    return operation(*(given if takes_numbers else as_tensors(given)))


def _over_axis(name: str, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Compute `np.add.reduce(x, axis)` as `np.sum(x, axis)`, with axis 0 by default. Return
    _MISSING if there is no operator, or if the operator lacks an option."""
    row = (table.REDUCTIONS if method == "reduce" else table.RUNNING).get(name)
    if row is None or len(inputs) > 3:
        return _MISSING
    given = {"axis": 0, **dict(zip(("axis", "dtype"), inputs[1:])), **options}
    given.pop("out", None)
    return _by_row(row, False, inputs[:1], given)


@lru_cache(maxsize=1024)
def _call(name: str, is_elsewhere: bool, count: int, *keywords: str) -> table.Call | None:
    row = (table.ELSEWHERE if is_elsewhere else table.FUNCTIONS).get(name)
    return None if row is None else row.call(count, keywords)


@lru_cache(maxsize=1024)
def _call_of(function: Callable[..., Any], count: int, *keywords: str) -> table.Call | None:
    return _call(_name_of(function), False, count, *keywords)


def _by_row(name: str, is_elsewhere: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function as its row of the table describes. Return _MISSING if there is no row or an
    argument is not supported."""
    call = _call(name, is_elsewhere, len(args), *kwargs)
    return _MISSING if call is None else _answer(call, name, args, kwargs)


def _answer(call: table.Call, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the operator's result, or _MISSING if an argument is not supported. op: NumPy's
    function or its name."""
    try:
        given = []
        for x in (*args, *kwargs.values()):
            kind = type(x)
            if kind is Tensor:
                if x._autograd is not None or x._device is not CPU and not get_numpy_on_devices():
                    x = taken(op if type(op) is str else _name_of(op), x)
            elif kind is tuple:
                for y in x:
                    if type(y) not in PLAIN:
                        x = taken(op if type(op) is str else _name_of(op), x)
                        break
            elif kind not in PLAIN:
                x = taken(op if type(op) is str else _name_of(op), x)
            given.append(x)
        return call(given)
    except (KeyError, errors.DtypeError):
        return _MISSING
