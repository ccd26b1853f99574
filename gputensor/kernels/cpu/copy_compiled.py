"""The few loops that g++ may build: `pack`, casts between f32, f16 and bf16, and large copies
between two orders of dimensions.

NumPy has no loop that does several things to an element, casts f16 one at a time, and walks one
dimension at a time. These loops (copy_compiled.cpp, copy_permuted.cpp) do better, with the same
bits. They are used where somebody says so, by
`gt.set_compiled_loops(True)` or GPUTENSOR_COMPILED_LOOPS=1, and never by themselves: g++ has to be
there, and takes seconds once; the shared object is kept as the emulator's kernels are
(runtime/kernel_cache.py), and trusted by the same rules.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from ...core import errors
from ...core.dtype import bfloat16, float16, float32, uint8

VARIABLE = "GPUTENSOR_COMPILED_LOOPS"
_TEXT, _SHARE = "copy_compiled.cpp", "copy_share.cpp"
_NAMES = {uint8.np: "u8", float16.np: "f16", bfloat16.np: "bf16", float32.np: "f32"}
_CASTS = {
    (src.np, dst.np)
    for half in (float16, bfloat16) for src, dst in ((half, float32), (float32, half))
}  # fmt: skip

_is_on: bool | None = None  # None: the environment has not been asked

_ARGUMENTS = (("pack", "ppppp"), ("pack_rows", "ppnnnnpp"), ("cast", "ppn"))
_KINDS: dict[str, Any] = {"p": ctypes.c_void_p, "n": ctypes.c_longlong}

Loop = Callable[..., object]


def get_compiled_loops() -> bool:
    """Whether `pack` and large copies take loops of g++: GPUTENSOR_COMPILED_LOOPS at first."""
    global _is_on
    if _is_on is None:
        given = os.environ.get(VARIABLE) or "0"
        if given not in ("0", "1"):
            raise errors.wrong_setting(VARIABLE, "be 0 or 1", given)
        if given == "1":
            _check_compiler(VARIABLE)
        _is_on = given == "1"
    return _is_on


def set_compiled_loops(on: bool) -> None:
    """Let `gt.layout.pack`, large casts between f32, f16 and bf16, and large copies that change the
    order of dimensions use loops built by g++.

    No bit of a result changes. A loop is built when its dtypes are first met, in about a second,
    and found on disk from then on. Raises: RuntimeError where there is no g++.
    """
    global _is_on
    if type(on) is not bool:
        raise errors.wrong_type("set_compiled_loops", "on", "be a bool", on)
    if on:
        _check_compiler("set_compiled_loops")
    _is_on = on


def _check_compiler(op: str) -> None:
    from ...runtime.emulator import toolchain

    reason = toolchain.unavailable_reason("compiled loops need")
    if reason is not None:
        raise errors.no_compiled_loops(op, reason)


def of_cast(dst: np.dtype, src: np.dtype) -> Loop | None:
    """`loop(dst address, src address, count)` over dense elements; None where NumPy's is used."""
    known = (src, dst) in _CASTS and get_compiled_loops()
    return _of(dst, src)["cast"] if known else None


def of_pack(dst: np.dtype, src: np.dtype) -> tuple[Loop, Loop] | None:
    """The loop over a Walk and that over rows of pixels; None where NumPy's are used."""
    if src not in _NAMES or dst not in _NAMES or not get_compiled_loops():
        return None
    loops = _of(dst, src)
    return loops["pack"], loops["pack_rows"]


def _of(dst: np.dtype, src: np.dtype) -> dict[str, Loop]:
    return library(_TEXT, (("DST", _NAMES[dst]), ("SRC", _NAMES[src])), _ARGUMENTS)


@cache
def loop_of(content: str, name: str, letters: str, title: str) -> Any:
    """One function of a text, which answers with an int; letters: see `library`."""
    found = shared(content, title)[name]
    found.restype, found.argtypes = ctypes.c_int, [_KINDS[letter] for letter in letters]
    return found


def share(
    loop: Loop, dst: int, src: int, table: int, units: int, step: int, threads: int
) -> None:  # fmt: skip
    """Do all units of a loop, `step` at a time on each thread, without the interpreter's lock."""
    if threads == 1 or units <= step:
        loop(dst, src, table, 0, units)
        return
    library(_SHARE, (), (("share", "ppppnnn"),))["share"](
        loop, dst, src, table, units, step, threads
    )


@cache
def units_of(content: str, name: str, title: str) -> Callable[[int, int, int, int], None]:
    """`run(table, units, step, threads)` of a text's function of units, as copy_share.cpp calls it.
    Raises: DeviceError without g++."""
    loop = shared(content, title)[name]
    loop.restype, loop.argtypes = None, [_KINDS[letter] for letter in "pppnn"]
    return lambda table, units, step, threads: share(loop, 0, 0, table, units, step, threads)


def shared(content: str, title: str) -> ctypes.CDLL:
    """What a text is built to. Raises: DeviceError without g++."""
    _check_compiler(title)
    from ...runtime.emulator import toolchain

    return ctypes.CDLL(toolchain.compile_loops(content, {}, title))


@cache
def library(
    text: str, defines: tuple[tuple[str, str], ...], arguments: tuple[tuple[str, str], ...]
) -> dict[str, Loop]:
    """The loops of a text beside this one, by name.

    arguments: (name, a letter for each: p for an address, n for a count).
    """
    from ...runtime.emulator import toolchain

    content = resources.files(__package__).joinpath(text).read_text()
    title = f"{text} {' '.join(value for _, value in defines)}"
    shared = ctypes.CDLL(toolchain.compile_loops(content, dict(defines), title))
    found: dict[str, Loop] = {}
    for name, letters in arguments:
        loop = found[name] = shared[name]
        loop.restype, loop.argtypes = None, [_KINDS[letter] for letter in letters]
    return found
