"""Loading of the compiled library, for the best capability that this CPU has.

The capability is chosen at the first use of a loop and never changes, because plans contain bound
loops. Without a library, or with `GPUTENSOR_CPU_CAPABILITY=default`, NumPy's loops run. Source of
the design: ATen/native/DispatchStub.cpp.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

from ...core import errors
from ...core.dtype import STORED, dtype
from ...runtime import blas, cpu

VARIABLE = "GPUTENSOR_CPU_CAPABILITY"
DEFAULT = "default"
CAPABILITIES = (DEFAULT, "avx2", "avx512", "neon")

Loop = Callable[..., Any]
# The code that stands for a Python number among the codes of operands.
_NUMBER = -1


class Choice(NamedTuple):
    """The capability whose loops run. reason: why no better capability runs; "" if this is the
    best. remedy: what the user can do; "" if nothing."""

    capability: str
    reason: str
    remedy: str
    library: ModuleType | None


@cache
def choice() -> Choice:
    """The capability in use. It is chosen once. Raises: ArgumentError if the variable names an
    unknown capability, or one that this CPU or this build lacks."""
    wanted = os.environ.get(VARIABLE, "").lower()
    if wanted and wanted not in CAPABILITIES:
        raise errors.wrong_setting(VARIABLE, f"be one of {', '.join(CAPABILITIES)}", wanted)
    blas.take_memory()  # reserve OpenBLAS's memory before tensors use all memory
    if wanted == DEFAULT:
        return Choice(DEFAULT, f"{VARIABLE}={DEFAULT}", f"unset {VARIABLE}", None)
    try:
        from . import _library
    except ImportError as error:
        if wanted:
            raise errors.wrong_setting(VARIABLE, "name loops that are built", wanted) from error
        reason = f"the compiled loops are not built ({error})"
        return Choice(DEFAULT, reason, "install g++, then reinstall gputensor", None)
    vars(_library)["__getattr__"] = _absent
    found = _library.capabilities()
    if wanted and wanted not in found:
        rule = f"be one of {', '.join((DEFAULT, *found))} on this CPU"
        raise errors.wrong_setting(VARIABLE, rule, wanted)
    if not found:
        return Choice(DEFAULT, "the compiled loops need AVX2, FMA and F16C, or NEON", "", None)
    best = wanted or found[-1]
    _library.use(best, tuple([d.np for d in STORED]))
    _library.set_threads(cpu.get_num_threads())
    cpu.on_num_threads(_library.set_threads)
    cpu.allocate_by(_library.allocate, _library.empty, _library.address_of)
    lowered = best != found[-1]
    reason, remedy = (f"{VARIABLE}={wanted}", f"unset {VARIABLE}") if lowered else ("", "")
    return Choice(best, reason, remedy, _library)


def _absent(name: str) -> Any:
    """Raise for a name that is missing because the library was built from older sources. PEP
    562."""
    if name.startswith("__"):  # tools look up these names in every module
        raise AttributeError(name)
    raise errors.old_library(name)


def get_cpu_capability() -> str:
    """Return the capability whose loops the CPU runs: "default" (NumPy's), "avx2", "avx512" or
    "neon".

    It is chosen by the CPU's features at the first use. `GPUTENSOR_CPU_CAPABILITY` can select a
    lower one. PyTorch's function of this name returns capital letters.
    """
    return choice().capability


def bind(
    family: str, op: str, inputs: tuple[Any, ...], common: dtype, out: dtype, otherwise: Loop
) -> Loop | None:
    """Return the compiled loop `(*inputs, *scalars, out=None)` of a pointwise operator, or None.

    inputs: the dtype of each array, or the type of a Python number. otherwise: the loop for calls
    that the compiled loop declines: arrays that are unaligned or partly overlap, and numbers of
    another kind.
    """
    library = choice().library
    if library is None:
        return None
    kinds = tuple([_NUMBER if isinstance(x, type) else x.code for x in inputs])
    found: Loop | None = library.bind(family, op, kinds, common.code, out.code, otherwise)
    return found


def program(
    dtypes: tuple[int, ...], stored: tuple[int, ...], steps: tuple[tuple[Any, ...], ...],
    row: int = 0,
) -> Loop | None:  # fmt: skip
    """Build a program of several operators, or return None. Values are numbered: first the inputs,
    whose dtypes have these codes, then the result of each step. A negative operand is a number; -1
    is the first.

    steps: (family, op, code of the computation's dtype, code of the result's dtype, operands,
    params). Family "copy" is a cast. Returns: a function `(*stored, *inputs, numbers, may_share)`.
    It returns True if it has computed the values. If it returns False, it has written nothing: see
    `bind`.

    row: if given, a block is a row of at most this length, and steps may be functions of rows; see
    `read_step` in engine/chain.cpp. Arrays are then (rows, elements), or contiguous arrays that are
    divided into rows.
    """
    library = choice().library
    found: Loop | None = library.program(dtypes, stored, steps, row) if library else None
    return found


@cache
def faces() -> frozenset[str]:
    """Families with a module `<family>.py` in this folder, whose functions prepare arguments for
    the library. For other families, the library's functions with NumPy's names are called directly.
    """
    found = [os.path.splitext(name) for name in os.listdir(os.path.dirname(__file__))]
    return frozenset([name for name, of in found if of == ".py"]) - {"__init__", "library"}


def reduction(
    family: str, name: str, given: dtype, out: dtype, otherwise: Loop, number: float = 0.0
) -> Loop | None:
    """Return the compiled reduction `(array, axes, None, out, keepdims)` of an operator and dtypes,
    or None. given, out: dtypes of the arrays. otherwise: as in `bind`. number: a parameter of some
    operators."""
    library = choice().library
    if library is None:
        return None
    found: Loop | None = library.reduction(
        family, name, given.code, out.code, otherwise, number
    )  # fmt: skip
    return found


@cache
def function(family: str, name: str) -> Any:
    """Return the compiled function of a family by its operator and dtypes ("sum f32 f32"), or None.

    It takes arrays (or None), ints and floats in any order and returns 0, or 1 + the position of a
    bad value; see `abi.h`.
    """
    library = choice().library
    found: Any = library.function(family, name) if library else None
    return found


def served(family: str, name: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Return the compiled function of a family that has the name and arguments of NumPy's
    `otherwise`.

    The compiled function returns True. If it declines a call, it returns the result of `otherwise`.
    If there is no compiled function, `served` returns `otherwise` itself.
    """
    library = choice().library
    found = library.serve(family, name, otherwise) if library else None
    return otherwise if found is None else found
