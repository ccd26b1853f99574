"""Bad values for arguments, and a check that a call accepts them or raises one clear sentence."""

from __future__ import annotations

import enum
import fractions
import inspect
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import gputensor as gt
from gputensor.core.errors import GpuTensorError


class _Colour(enum.Enum):
    RED = 1


class _Liar:
    """An object whose __index__ and __float__ raise."""

    def __index__(self) -> int:
        raise ValueError("no int after all")

    __float__ = __index__


# Without sizes between 2**20 and 2**50, which some machines can allocate.
VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "a word": lambda: "x",
    "no word": lambda: "",
    "a dtype's name": lambda: "float32",
    "a device": lambda: "cuda:7",
    "bytes": lambda: b"x",
    "1.5": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-inf": lambda: float("-inf"),
    "1e300": lambda: 1e300,
    "1j": lambda: 1j,
    "-1": lambda: -1,
    "-7": lambda: -7,
    "2**62": lambda: 2**62,
    "2**63": lambda: 2**63,
    "2**64": lambda: 2**64,
    "-2**63": lambda: -(2**63),
    "-2**63-1": lambda: -(2**63) - 1,
    "10**400": lambda: 10**400,
    "5001 digits": lambda: 10**5000,
    "an object": object,
    "a class": lambda: int,
    "a function": lambda: lambda *args, **kwargs: None,
    "dtype": lambda: gt.float32,
    "NumPy's dtype": lambda: np.float32,
    "format": lambda: gt.contiguous_format,
    "array": lambda: np.array([0, 1]),
    "0-d array": lambda: np.array(1.5),
    "empty array": lambda: np.array([]),
    "array of objects": lambda: np.array([None, "x"], dtype=object),
    "np.float64": lambda: np.float64(1.5),
    "np.int64": lambda: np.int64(-1),
    "np.bool_": lambda: np.bool_(True),
    "np.str_": lambda: np.str_("x"),
    "np.datetime64": lambda: np.datetime64("2020-01-01"),
    "[]": list,
    "[None]": lambda: [None],
    "[[1]]": lambda: [[1]],
    "[1, 'x']": lambda: [1, "x"],
    "(1.5,)": lambda: (1.5,),
    "(-1,)": lambda: (-1,),
    "(2**62, 2**62)": lambda: (2**62, 2**62),
    "(5001 digits,)": lambda: (10**5000,),
    "65 dims": lambda: (1,) * 65,
    "dict": lambda: {1: 2},
    "set": lambda: {1},
    "iterator": lambda: iter([1, 2]),
    "slice": lambda: slice(0, 2),
    "Ellipsis": lambda: ...,
    "0-d tensor": lambda: gt.tensor(1.5),
    "tensor": lambda: gt.tensor([0, 1]),
    "meta tensor": lambda: gt.empty((2, 2), device="meta"),
    "tensors": lambda: [gt.ones(2), None],
    "enum": lambda: _Colour.RED,
    "fraction": lambda: fractions.Fraction(1, 3),
    "a liar": _Liar,
}  # fmt: skip


def fault(error: BaseException) -> str | None:
    """Return what is wrong with an error; None if it follows the rules for messages."""
    if not isinstance(error, GpuTensorError):
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"raw {type(error).__name__}: {error!s:.90} ({last.filename[-40:]}:{last.lineno})"
    context = error
    while context is not None:
        if context.__context__ is not None and not context.__suppress_context__:
            made_from = type(context.__context__).__name__
            return f"shows what it was made from: {made_from} -> {error!s:.60}"
        context = context.__cause__
    text = str(error)
    if len(text) > 2000:
        return f"a sentence of {len(text)} characters"
    return None


def state_of(tensors: list[Any]) -> list[Any]:
    return [
        (x.shape, x.stride(), x.storage_offset(), x._version, x.dtype, x.requires_grad)
        for x in tensors
    ]


def try_one(
    call: Callable[[], Any],
    tensors: list[Any],
    built: Sequence[Any] = (),
    of_others: tuple[type, ...] = (),
) -> tuple[str, str | None]:
    """Make a call; return ("taken" | "refused", fault). A call that raises must not change tensors.

    of_others: exceptions of other libraries that the call may raise.
    """
    before = state_of(tensors)
    kept: Any = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except Exception as error:
            found = None if isinstance(error, of_others) else fault(error)
            if found is None and state_of(tensors) != before:
                found = f"changed an operand, then: {error}"
            for made in built if found is None else ():
                if not made.tensor.is_meta and not _same(made.storage_now(), made.before):
                    found = f"wrote, then: {error}"
            if isinstance(error, GpuTensorError):
                kept = weakref.ref(error)
        else:
            return "taken", None
    if found is None and kept is not None and kept() is not None:
        found = (
            "is kept, with the operands that its traceback knows, until the garbage collector runs"
        )
    return "refused", found


def _same(x: Any, y: Any) -> bool:
    return x.tobytes() == y.tobytes()


def parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of parameters that may be keywords, in order; `*name` for a variadic one."""
    kinds = inspect.Parameter
    found = []
    for name, p in inspect.signature(function).parameters.items():
        if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY):
            found.append(name)
        elif p.kind is kinds.VAR_POSITIONAL:
            found.append(f"*{name}")
    return found


def spoiled(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], value: Any
) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Yield (name, args, kwargs) with each argument in turn replaced by `value`."""
    for number in range(len(args)):
        yield f"#{number}", (*args[:number], value, *args[number + 1 :]), kwargs
    known = parameters(function)
    for name in known[0 if any(n.startswith("*") for n in known) else len(args) :]:
        if not name.startswith("*"):
            yield name, args, {**kwargs, name: value}
