"""Compilation of kernel text to a cubin by NVRTC, with our own options and our own cache.

The binding (`cupy.cuda.nvrtc`) is an argument, so this module imports no CuPy and needs no GPU.
CuPy's own compiler is not used, because it appends `-ftz=true` to the options, which flushes
float32 denormals.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gputensor.core import errors

from . import carried, kernel_cache

# The lowest compute capability that has `__grid_constant__` and loads that bypass L1. Pascal lacks
# both.
OLDEST = 70
OPTIONS = ("--std=c++17", "-fmad=false")

_TITLE = re.compile(r'^[ \t]*#[ \t]*line[ \t]+\d+[ \t]+"([^"]*)"', re.MULTILINE)


def nearest_arch(binding: Any, number: int) -> str:
    """Return the compiler's target for a compute capability, such as `sm_90` for 90. If NVRTC lacks
    this target, return the newest older target whose output the GPU can load: a cubin of the same
    generation or, if there is none, PTX."""
    supported = [k for k in binding.getSupportedArchs() if k >= OLDEST]
    known = [k for k in supported if k <= number]
    if not known:
        oldest = f"NVRTC {version(binding)} compiles our kernels for sm_{min(supported)} and newer"
        raise errors.no_device("cuda", f"sm_{number} is too old: {oldest}")
    newest = max(known)
    return f"sm_{newest}" if newest // 10 == number // 10 else f"compute_{newest}"


def compile_cubin(binding: Any, text: str, defines: Mapping[str, object], arch: str) -> bytes:
    """Return the cubin of one variant of a text (for a `compute_` arch, the PTX). It comes from the
    carried cubins, from the cache, or from the compiler."""
    options = _options(defines, arch)
    brought = carried.find(text, options)
    if brought is not None:
        return brought
    title = title_of(text)
    name = kernel_cache.key(text, options, version(binding))
    return kernel_cache.fetch(
        name, ".cubin", lambda: _build(binding, text, title, options, defines),
        _label(title, options),
    )[0]  # fmt: skip


def carry_cubin(
    binding: Any, text: str, defines: Mapping[str, object], arch: str, folder: str
) -> bool:
    """Compile a variant into a folder for another machine. Return False if the folder already
    contains it."""
    options = _options(defines, arch)
    if carried.holds(folder, text, options):
        return False
    cubin, label = compile_cubin(binding, text, defines, arch), _label(title_of(text), options)
    carried.keep(folder, text, options, cubin, label, version(binding))
    return True


def _options(defines: Mapping[str, object], arch: str) -> tuple[str, ...]:
    return (*OPTIONS, f"-arch={arch}", *(f"-D{name}={value}" for name, value in defines.items()))


def _label(title: str, options: tuple[str, ...]) -> str:
    return " ".join((title, *options[len(OPTIONS) :]))


def title_of(text: str) -> str:
    """Return the name of the file in the first `#line` mark of a text."""
    given = _TITLE.search(text)
    return given[1] if given else "kernel.cu"


def version(binding: Any) -> str:
    try:
        return ".".join(map(str, binding.getVersion()))
    # When CuPy loads NVRTC, errors of many classes are possible, such as pathfinder's
    # DynamicLibNotFoundError.
    except Exception as error:
        why = f"NVRTC does not load: {str(error).splitlines()[0]}"
        raise errors.no_device("cuda", why) from error


def _build(
    binding: Any, text: str, title: str, options: tuple[str, ...], defines: Mapping[str, object]
) -> bytes:
    program = binding.createProgram(text, title, (), ())
    try:
        try:
            binding.compileProgram(program, options)
        except binding.NVRTCError as error:
            log = binding.getProgramLog(program) or str(error)
            raise errors.kernel_not_compiled(title, dict(defines), log) from None
        is_ptx = any(option.startswith("-arch=compute_") for option in options)
        image: bytes = binding.getPTX(program) if is_ptx else binding.getCUBIN(program)
        return image + b"\0"  # CuPy's binding has removed the last byte.
    finally:
        binding.destroyProgram(program)
