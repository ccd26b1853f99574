"""Load the compiled library for the best capability of this CPU.

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
# This operand code stands for a Python number.
_NUMBER = -1


class Choice(NamedTuple):
    """The CPU capability whose loops are used. reason: why a better capability is not used; "" if
    this one is the best. remedy: advice for the user; "" if there is none."""

    capability: str
    reason: str
    remedy: str
    library: ModuleType | None


@cache
def choice() -> Choice:
    """Choose the capability, once per process. Raises: ArgumentError if the environment variable
    names an unknown capability, or one that this CPU or this build does not support."""
    wanted = os.environ.get(VARIABLE, "").lower()
    if wanted and wanted not in CAPABILITIES:
        raise errors.wrong_setting(VARIABLE, f"be one of {', '.join(CAPABILITIES)}", wanted)
    blas.take_memory()  # Reserve OpenBLAS's buffers before tensors use up all memory.
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
    """Raise an error for a name that the library lacks, because the library was built from older
    sources. This is the `__getattr__` of the library's module (PEP 562)."""
    # Tools look up special names and expect AttributeError for an absent one.
    if name.startswith("__"):
        raise AttributeError(name)
    raise errors.old_library(name)


def get_cpu_capability() -> str:
    """Return the capability whose loops the CPU runs: "default" (NumPy's), "avx2", "avx512" or
    "neon".

    The capability is chosen from the CPU's features at first use. `GPUTENSOR_CPU_CAPABILITY` can
    select a lower one. Unlike PyTorch's function of this name, this one returns lower-case letters.
    """
    return choice().capability


def bind(
    family: str, op: str, inputs: tuple[Any, ...], common: dtype, out: dtype, otherwise: Loop
) -> Loop | None:
    """Return the compiled loop `(*inputs, *scalars, out=None)` of a pointwise operator, or None.

    inputs: the dtype of each array, or the type of a Python number. otherwise: the loop that runs
    if the compiled loop declines a call. It declines arrays that are unaligned or partly overlap,
    and numbers of a type other than the one in `inputs`.
    """
    library = choice().library
    if library is None:
        return None
    kinds = tuple([_NUMBER if isinstance(x, type) else x.code for x in inputs])
    found: Loop | None = library.bind(family, op, kinds, common.code, out.code, otherwise)
    return found


def program(
    dtypes: tuple[int, ...], stored: tuple[int, ...], steps: tuple[tuple[Any, ...], ...],
    row: int = 0, shapes: tuple[tuple[int, ...], ...] = (),
    wholes: tuple[tuple[str, int, int] | None, ...] = (),
) -> Loop | None:  # fmt: skip
    """Return a compiled program of several operators, or None if the library cannot build the
    program. Values are numbered: first the inputs, then the result of each step. dtypes: the dtype
    codes of the inputs. A step's operands are indices of values. A negative operand stands for a
    Python number; -1 stands for the first Python number.

    steps: (family, op, code of the computation's dtype, code of the result's dtype, operands,
    params). Family "copy" is a cast. Returns: a function `(*stored, *inputs, numbers, may_share)`.
    It returns True if it has computed the values. If it returns False, it has written nothing: see
    `bind`.

    row: if given, the blocks are rows of at most this length, and steps may be functions of rows;
    see `read_step` in engine/chain/chain.cpp. shapes: if `row` is given, the shape in which the
    program takes each array: (rows, elements), or (elements,), which are divided into rows. Arrays
    of other shapes must be contiguous. wholes: for each stored value that is a reduction to one
    element: the function of family "reduce" that merges the results of rows in pairs, the divisor
    of a mean or 0, and the output's dtype code; None for other values.
    """
    library = choice().library
    found: Loop | None = (
        library.program(dtypes, stored, steps, row, shapes, wholes) if library else None
    )
    return found


@cache
def faces() -> frozenset[str]:
    """Return the families that have a module `<family>.py` in this folder. The module's functions
    prepare arguments for the library. For other families, the library's functions are called
    directly. They have the names and the arguments of the functions in `kernels/cpu/<family>.py`.
    """
    found = [os.path.splitext(name) for name in os.listdir(os.path.dirname(__file__))]
    return frozenset([name for name, of in found if of == ".py"]) - {"__init__", "library"}


def reduction(
    family: str, name: str, given: dtype, out: dtype, otherwise: Loop, number: float = 0.0
) -> Loop | None:
    """Return the compiled reduction of an operator for these dtypes, or None. It is called as
    `(array, axes, None, out, keepdims)`. given: the dtype of the array. out: the dtype of the
    result. otherwise: the loop that runs if the compiled loop declines a call: see `bind`. number:
    the parameter of an operator that has one, such as the order of a norm."""
    library = choice().library
    if library is None:
        return None
    found: Loop | None = library.reduction(
        family, name, given.code, out.code, otherwise, number
    )  # fmt: skip
    return found


@cache
def function(family: str, name: str) -> Any:
    """Return the compiled function with a name such as "sum f32 f32" (operator and dtypes), or
    None.

    The function takes arrays (or None), ints and floats in any order. It returns 0, or 1 + the
    position of a bad value; see `abi.h`.
    """
    library = choice().library
    found: Any = library.function(family, name) if library else None
    return found


def served(family: str, name: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled function with the same arguments as the Python function `otherwise`.

    The compiled function returns True. If it declines a call, it calls `otherwise` and returns that
    result. If there is no compiled function, `served` returns `otherwise` itself.
    """
    library = choice().library
    found = library.serve(family, name, otherwise) if library else None
    return otherwise if found is None else found
