"""NumPy's protocols: what `np.sin(x)`, `ndarray + x` and `np.concatenate([x, ...])` do.

The rule. The tensors must be on the CPU, and none may require grad while operations are recorded
(functions that answer with bools may: nothing of theirs has a gradient). Then an operator of ours
computes where there is one that takes the call: numpy_table.py names them, promotion and errors are
theirs. Where there is none, or it lacks an argument or a dtype, NumPy computes on the tensors'
memory. The result is a tensor either way; what is given as `out` is what comes back.

`set_numpy_on_devices(True)` lets operators of ours compute on any device, where CuPy's arrays would
do so as well; what NumPy would have to compute is refused there as before. What NumPy makes with
`like=` a tensor, `np.arange(3, like=x)`, is then on that tensor's device.

One of NumPy's numbers is no array: `np.float32(2) * x` is `2.0 * x`, on any device and with its
gradient.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from . import numpy_table as table
from .._generated import calls
from ..core import dtype as dtypes, errors
from ..core.arguments import NUMBERS, element_type, flag, number
from ..core.device import CPU
from ..tensor import export
from ..tensor.base import bump_version
from ..tensor.tensor import Tensor
from .numpy_bridge import from_numpy

# They read no element, so that any tensor will do.
_FACTS: dict[str, Callable[[Tensor], Any]] = {
    "shape": lambda x: tuple(x.shape), "ndim": lambda x: x.ndim, "size": lambda x: x.numel(),
    "iscomplexobj": lambda x: x.is_complex(), "isrealobj": lambda x: not x.is_complex(),
}  # fmt: skip
# Functions that write to their first argument.
_WRITERS = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}
# What they make is like the tensor, and so a tensor: NumPy's parameters in order.
_LIKE = {
    "empty_like": ("prototype", "dtype", "order", "subok", "shape", "device"),
    "full_like": ("a", "fill_value", "dtype", "order", "subok", "shape", "device"),
    "ones_like": ("a", "dtype", "order", "subok", "shape", "device"),
    "zeros_like": ("a", "dtype", "order", "subok", "shape", "device"),
}
# What reaches us by `like=` alone, and those of them that take what is an array already.
_FROM = {"array", "asanyarray", "asarray", "ascontiguousarray"}
_MAKERS = _FROM | {"arange", "empty", "eye", "full", "identity", "linspace", "ones", "tri", "zeros"}
# Those of one kind of answer that are no ufuncs.
_BOOLEAN = {"all", "any", "allclose", "array_equal", "array_equiv", "isclose", "isin"}

_MISSING = object()
# What is handed on as it is.
_PLAIN = frozenset({bool, int, float, complex, str, type(None)})

_VARIABLE = "GPUTENSOR_NUMPY_ON_DEVICES"
_on_devices: bool | None = None  # None until somebody asks


def get_numpy_on_devices() -> bool:
    """Whether NumPy's functions take tensors of any device; GPUTENSOR_NUMPY_ON_DEVICES=1 says so
    from the beginning."""
    global _on_devices
    if _on_devices is None:
        given = os.environ.get(_VARIABLE, "0")
        if given not in ("0", "1"):
            raise errors.wrong_setting(_VARIABLE, "be 0 or 1", given)
        _on_devices = given == "1"
    return _on_devices


def set_numpy_on_devices(on: bool) -> None:
    """Let NumPy's functions compute on tensors of any device, by operators of ours, as libraries
    need that call them on arrays of any kind (Dask). What ours lack is refused off the CPU.

    PyTorch's rule, which refuses all of them there, is the default.
    """
    global _on_devices
    _on_devices = flag("set_numpy_on_devices", "on", on)


def array_ufunc(
    tensor: Tensor, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """`Tensor.__array_ufunc__`."""
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
        return _beside_cupy(ufunc, inputs)  # where CuPy has left `cupy_array + tensor` to us
    is_boolean = _answers_with_bools(ufunc)
    anywhere = get_numpy_on_devices()
    _check(name, (inputs, options), is_boolean, anywhere)
    if any([_is_foreign(x) for x in (*inputs, *(out or ()))]):
        return NotImplemented
    found = _MISSING
    if method == "__call__" and not options.keys() - {"out", "dtype"}:
        found = _tried(_operator_of, ufunc, inputs, options.get("dtype"))
    elif method in ("reduce", "accumulate") and getattr(np, name, None) is ufunc:
        found = _over_axis(name, method, inputs, options)
    if found is _MISSING:
        if anywhere:
            _check(name, (inputs, options), is_boolean)
        return _by_numpy(getattr(ufunc, method), inputs, options, method == "at")
    if out is None:
        return found
    made = found if isinstance(found, tuple) else (found,)
    written = tuple([r if o is None else _written(name, o, r) for o, r in zip(out, made)])
    return written if isinstance(found, tuple) else written[0]


def array_function(
    tensor: Tensor, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`Tensor.__array_function__`."""
    name = _name_of(function)
    found = _by_row(name, False, args, kwargs)
    if found is not _MISSING:
        return found
    for x in kwargs.values():
        if x is np._NoValue:
            # What `np.ma` and pandas hand on for an argument that they were not given.
            given = {key: x for key, x in kwargs.items() if x is not np._NoValue}
            return array_function(tensor, function, args, given)
    if name in _FACTS and not kwargs and len(args) == 1 and isinstance(args[0], Tensor):
        return _FACTS[name](args[0])
    anywhere = get_numpy_on_devices()
    _check(name, (args, kwargs), name in _BOOLEAN, anywhere)
    if name in _LIKE:
        return _like(name, dict(zip(_LIKE[name], args)) | kwargs)
    if anywhere:
        if name in table.ELSEWHERE and _is_elsewhere(args[:2]):
            found = _by_row(name, True, args, kwargs)
            if found is not _MISSING:
                return found
        if name in _MAKERS and not tensor.is_cpu:
            return _beside(tensor, name, function, args, kwargs)
        _check(name, (args, kwargs), name in _BOOLEAN)
    return _by_numpy(function, args, kwargs, name in _WRITERS)


@lru_cache(maxsize=1024)
def _answers_with_bools(ufunc: np.ufunc) -> bool:
    return {kind[-1] for kind in ufunc.types} in ({"?"}, {"?", "O"})


@lru_cache(maxsize=1024)
def _name_of(function: Callable[..., Any]) -> str:
    """As the rows have it: `sum`, `linalg.svd`."""
    module = function.__module__.removeprefix("numpy").lstrip(".")
    return f"{module}.{function.__name__}".lstrip(".")


def _beside(
    like: Tensor, name: str, function: Callable[..., Any], args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    """What NumPy makes, on the device of a tensor; a tensor that is there stays where it is."""
    x = args[0] if args else None
    if isinstance(x, (list, tuple)) and x and all([isinstance(y, Tensor) for y in x]):
        x = calls.stack(x, 0)
    if name in _FROM and isinstance(x, Tensor) and len(args) < 3 and not (
        kwargs.keys() - {"dtype", "copy"}
    ):  # fmt: skip
        dtype = args[1] if len(args) == 2 else kwargs.get("dtype")
        if x._device is not like._device:
            raise errors.mixed_devices(name, like, "like", x, "a")
        element = x.dtype if dtype is None else element_type(name, dtype, by_name=True)
        return calls.to_dtype(x, element, False, kwargs.get("copy", name == "array"))
    _check(name, (args, kwargs), False)
    made = _by_numpy(function, args, kwargs, False)
    return made.to(like.device) if isinstance(made, Tensor) else made


def _like(name: str, given: dict[str, Any]) -> Tensor:
    """A new tensor of the tensor's sizes, dtype and device, or of those that are given."""
    x = given[_LIKE[name][0]]
    if not isinstance(x, Tensor):  # the fill value is
        x = from_numpy(np.asarray(x))
    gt = import_module("gputensor")
    named: dict[str, Any] = {"dtype": x.dtype, "device": given.get("device") or x.device}
    if given.get("dtype") is not None:
        named["dtype"] = element_type(name, given["dtype"], by_name=True)
    fill = [given["fill_value"]] if "fill_value" in given else []
    sizes, order = given.get("shape"), given.get("order", "K")
    made: Tensor
    if sizes is None and order in ("K", "A"):
        made = getattr(gt, name)(x, *fill, **named)
        return made
    sizes = x.shape if sizes is None else sizes
    sizes = tuple(sizes) if isinstance(sizes, (tuple, list)) else (int(sizes),)
    make = getattr(gt, name.removesuffix("_like"))
    if order == "F":
        made = make(sizes[::-1], *fill, **named).permute(*range(len(sizes))[::-1])
    else:
        made = make(sizes, *fill, **named)
    return made


def _is_number_by_tensor(inputs: tuple[Any, ...]) -> bool:
    """Not so for a date or a longdouble, which are no numbers of ours."""
    of_numpy = [x for x in inputs if isinstance(x, np.generic)]
    return len(inputs) == 2 and len(of_numpy) == 1 and number(of_numpy[0]) is not None


def _beside_cupy(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    """Arrays of CuPy's and tensors: ours computes, over their memory."""
    _check(ufunc.__name__, inputs, False, any_device=True)
    ours = tuple([export.of_cupy(x) if export.is_of_cupy(x) else x for x in inputs])
    found = _tried(_operator_of, ufunc, ours)
    return NotImplemented if found is _MISSING else found


def _is_elsewhere(args: Iterable[Any]) -> bool:
    """Whether a tensor among them is where NumPy cannot compute."""
    return any(
        [
            not x.is_cpu if isinstance(x, Tensor)
            else isinstance(x, (list, tuple)) and _is_elsewhere(x)
            for x in args
        ]
    )  # fmt: skip


def _is_foreign(x: Any) -> bool:
    """An array of a library that must answer for itself."""
    return not isinstance(x, (Tensor, np.ndarray)) and hasattr(x, "__dlpack__")


def _check(op: str, given: Iterable[Any], is_boolean: bool, any_device: bool = False) -> None:
    """Raise for a tensor that NumPy may not be handed; any_device: for one that ours may not."""
    for x in given:
        if isinstance(x, Tensor):
            if any_device:
                export.check_without_grad(op, x, is_boolean)
            else:
                export.check_shareable(op, x, is_boolean)
        elif isinstance(x, (list, tuple)):
            _check(op, x, is_boolean, any_device)
        elif isinstance(x, dict):
            _check(op, x.values(), is_boolean, any_device)


def _tried(function: Callable[..., Any], *args: Any) -> Any:
    """What ours computes; _MISSING where none does, or it lacks an argument or the dtype."""
    try:
        return function(*args)
    except (KeyError, errors.DtypeError):
        return _MISSING


@lru_cache(maxsize=1024)
def _operation(ufunc: np.ufunc) -> tuple[Callable[..., Any], bool] | None:
    """Ours, if there is one, and whether it takes numbers beside a tensor."""
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:
        if name in table.OPERATORS:
            return table.OPERATORS[name], True
        if name not in table.UFUNCS:
            return None
        return getattr(import_module("gputensor"), table.UFUNCS[name]), False
    # SciPy's by its name: ours of the same name is the same function.
    special = sys.modules.get("scipy.special")
    ours = import_module("gputensor.special")
    if getattr(special, name, None) is not ufunc or name not in dir(ours):
        return None
    return getattr(ours, name), False


def _at_once(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    """What ours computes of tensors and numbers that need no second look; else _MISSING."""
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
    """A ufunc by our operator, in a dtype if one is named. Raises: KeyError where there is none."""
    known = _operation(ufunc)
    if known is None:
        raise KeyError(ufunc)
    operation, takes_numbers = known
    given = _operands(inputs)
    if dtype is not None:
        element = dtypes.from_numpy(np.dtype(dtype))
        if element is None:
            raise KeyError(dtype)
        given = [x if type(x) in NUMBERS else _cast(x, element) for x in given]
    return operation(*(given if takes_numbers else _as_tensors(given)))


def _cast(x: Tensor, element: dtypes.dtype) -> Tensor:
    """Raises: KeyError where NumPy would not cast so without being told."""
    if x._geometry.dtype is element:
        return x
    if not np.can_cast(x._geometry.dtype.np, element.np, "same_kind"):
        raise KeyError(element)
    return calls.to_dtype(x, element)


def _operands(inputs: Any) -> list[Any]:
    """Tensors and numbers. Raises: KeyError for what is neither, and is no array of numbers."""
    return [_operand(x) for x in inputs]


def _operand(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x
    plain = None if isinstance(x, np.ndarray) else number(x)
    if plain is None:
        plain = export.over_array(np.asarray(x))
    if plain is None:
        raise KeyError(type(x))
    return plain


def _as_tensors(operands: list[Any]) -> list[Tensor]:
    """Numbers as 0-d tensors, of a dtype that leaves the tensors theirs where it can."""
    like = next(x for x in operands if isinstance(x, Tensor))
    result_type = import_module("gputensor").result_type
    return [
        x if isinstance(x, Tensor) else calls.full_like(
            calls.new_empty(like, ()), x, dtype=result_type(like, x)
        )
        for x in operands
    ]  # fmt: skip


def _over_axis(name: str, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """`np.add.reduce(x, axis)` as `np.sum(x, axis)`, where the axis is the first if none is named;
    _MISSING where there is no such operator, or it lacks an option."""
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


def _by_row(name: str, is_elsewhere: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function by its row; _MISSING where there is none, or it leaves out what is given."""
    call = _call(name, is_elsewhere, len(args), *kwargs)
    if call is None:
        return _MISSING
    try:
        return call([
            x if type(x) in _PLAIN or type(x) is Tensor and x._autograd is None and (
                x._device is CPU or get_numpy_on_devices()
            ) else _taken(name, x)
            for x in (*args, *kwargs.values())
        ])  # fmt: skip
    except (KeyError, errors.DtypeError):
        return _MISSING


def _taken(name: str, x: Any) -> Any:
    """An argument of ours, once it has been looked at. Raises: KeyError where it is none."""
    anywhere = get_numpy_on_devices()
    if type(x) is tuple or type(x) is list:
        kinds = {*map(type, x)}
        if kinds <= _PLAIN:
            return x
        if kinds == {Tensor} and all(
            [y._autograd is None and (y._device is CPU or anywhere) for y in x]
        ):
            return x
    elif x is np._NoValue:
        raise KeyError(name)
    _check(name, (x,), name in _BOOLEAN, anywhere)
    return _argument(x)


def _argument(x: Any) -> Any:
    """An argument of ours: arrays become tensors, also those of a list."""
    if isinstance(x, np.ndarray):
        return _operand(x)
    if isinstance(x, np.generic):
        return number(x)
    if isinstance(x, (list, tuple)) and any([isinstance(y, (Tensor, np.ndarray)) for y in x]):
        return [_operand(y) for y in x]
    return x


# --- NumPy computes -------------------------------------------------------------------------------


def _by_numpy(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], writes: bool
) -> Any:
    """NumPy's own on the tensors' memory; what it makes comes back as tensors."""
    seen: dict[int, tuple[Any, Any]] = {}

    def lent(x: Any) -> Any:
        if isinstance(x, Tensor):
            array = export.array(calls.detach(x))  # _check has looked
            seen[id(array)] = array, x
            return array
        if isinstance(x, dtypes.dtype):
            return x.np
        if isinstance(x, dict):
            return {key: lent(y) for key, y in x.items()}
        return type(x)(map(lent, x)) if type(x) in (list, tuple) else x

    def back(x: Any) -> Any:
        if id(x) in seen:
            return seen[id(x)][1]
        if isinstance(x, (list, tuple)):
            return type(x)(*map(back, x)) if hasattr(x, "_fields") else type(x)(map(back, x))
        if not isinstance(x, (np.ndarray, np.generic)):
            return x
        return x if any([x is y for y in outs]) else _tensor_of(x)

    out = kwargs.get("out")
    outs: tuple[Any, ...] = out if isinstance(out, tuple) else () if out is None else (out,)
    written = [*outs, *(args[:1] if writes else ())]
    result = back(function(*lent(args), **lent(kwargs)))
    for x in written:
        if isinstance(x, Tensor):
            bump_version(x)
    return result


def _tensor_of(x: Any) -> Any:
    """An array of NumPy's as a tensor, over its memory where strides allow; text stays as it is."""
    array = np.asarray(x)
    element = dtypes.from_numpy(array.dtype)
    if element is None:
        return x
    size = element.itemsize
    if array is not x or any([s < 0 or s % size for s in array.strides]):
        array = array.copy()
    return from_numpy(array)


def _written(op: str, out: Any, found: Tensor) -> Any:
    """`out` with the result in it: of its sizes, and cast as NumPy casts ("same_kind")."""
    target = out if isinstance(out, Tensor) else from_numpy(out)
    if not np.can_cast(found._geometry.dtype.np, target._geometry.dtype.np, "same_kind"):
        rule = f"have a dtype that {found._geometry.dtype} is cast to"
        raise errors.wrong_dtype(op, "out", rule, target)
    if found._geometry.sizes != target._geometry.sizes:
        sizes = list(found._geometry.sizes)
        raise errors.wrong_shape(op, "out", f"have the sizes {sizes}", target)
    calls.copy_(target, found, False)
    return out
