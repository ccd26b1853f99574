"""g++: whether it is there, which one, and how kernels and the engine are built with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib import resources

from gputensor.core import errors

from .. import kernel_cache
from . import sanitizer, source

# -fwrapv and -fno-strict-aliasing: what CUDA compilers do with overflow and with casts of pointers.
_LANGUAGE = (
    "-std=c++17 -fPIC -w -fno-exceptions -fno-rtti -fno-threadsafe-statics -fvisibility=hidden "
    "-ffp-contract=off -fno-fast-math -fno-math-errno -fwrapv -fno-strict-aliasing"
).split()
# Findings go to the shim, not to libubsan: it is not linked, hence -nodefaultlibs.
_CHECKED = "-O1 -g1 -gdwarf-4 -fsanitize=alignment,bounds -fno-sanitize-recover=all".split()
_SANITIZED = (
    "-O1 -g1 -gdwarf-4 -fno-omit-frame-pointer -fsanitize=address "
    "-fsanitize-recover=address -fsanitize-sections=gts* "
    "-fsanitize=alignment,bounds,shift,bool,pointer-overflow,return,unreachable,null "
    "-fno-sanitize-recover=undefined"
).split()
_LINK = "-shared -nodefaultlibs -lm -lc -lgcc".split()

# What a kernel includes, and what the engine consists of.
_SHIM = ("engine.h", "cuda_on_cpu.h", "intrinsics.h", "floating_point.h", "findings.h")
_ENGINE = ("engine.h", "sanitizer.h", "memory.h", "context.h", "fibers.h", "faults.h", "launch.h")

_version: str | None = None
_reason: str | None = None


def compiler() -> str:
    return os.environ.get("GPUTENSOR_CXX") or "g++"


def unavailable_reason() -> str | None:
    """Why kernels cannot be built here; None if they can. Looks once."""
    global _version, _reason
    if _version is None and _reason is None:
        if shutil.which(compiler()) is None:
            _reason = f"the CUDA emulator needs g++, and {compiler()} is not on PATH"
            return _reason
        answer = subprocess.run(
            [compiler(), "--version"], capture_output=True, text=True, check=False
        )
        if answer.returncode:
            _reason = f"the CUDA emulator needs g++, and '{compiler()} --version' fails"
        else:
            _version = answer.stdout.partition("\n")[0]
    return _reason


def headers(names: Sequence[str]) -> dict[str, str]:
    """C++ files of this package, by name."""
    folder = resources.files(__package__)
    return {name: folder.joinpath(name).read_text() for name in names}


def compile_kernels(
    text: str, variants: Sequence[Mapping[str, object]], title: str
) -> tuple[bytes, str]:
    """The shared object with all variants of a `.cu` text, and the file it lies in."""
    options = [*_LANGUAGE, *(_SANITIZED if sanitizer.is_active() else _CHECKED)]
    own = headers(_SHIM)
    unit = source.translation_unit(text, variants, title)
    label = f"{title} emulator {len(variants)} variants"
    name = kernel_cache.key(unit, own, options, _version)

    def build() -> bytes:
        return _build(unit, options, own, title, variants[0] if len(variants) == 1 else {})

    return kernel_cache.fetch(name, ".so", build, label)


def compile_engine() -> str:
    """The path of the engine's shared object."""
    own = headers(_ENGINE)
    options = [*_LANGUAGE, "-O2"]
    name = kernel_cache.key(own, options, _version)

    def build() -> bytes:
        return _build('#include "launch.h"\n', options, own, "launch.h", {})

    return kernel_cache.fetch(name, ".so", build, "emulator engine")[1]


def _build(
    unit: str,
    options: Sequence[str],
    own: Mapping[str, str],
    title: str,
    defines: Mapping[str, object],
) -> bytes:
    with tempfile.TemporaryDirectory(prefix="gputensor-") as folder:
        for header, content in own.items():
            with open(os.path.join(folder, header), "w") as file:
                file.write(content)
        path = os.path.join(folder, "kernel.so")
        command = [compiler(), *options, "-x", "c++", "-", "-I", folder, "-o", path, *_LINK]
        answer = subprocess.run(command, input=unit, capture_output=True, text=True, check=False)
        if answer.returncode:
            raise errors.kernel_not_compiled(title, dict(defines), answer.stderr)
        with open(path, "rb") as file:
            return file.read()
