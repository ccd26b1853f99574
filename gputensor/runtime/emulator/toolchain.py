"""Find g++ and its version, and build kernels and the engine."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

from gputensor.core import errors

from .. import files
from ..compilation import includes, kernel_cache
from . import coverage, headers, sanitizer, settings, shared_object, source

# With -fwrapv and -fno-strict-aliasing, overflow and pointer casts work as with CUDA compilers.
_LANGUAGE = (
    "-std=c++17 -fPIC -w -fno-exceptions -fno-rtti -fno-threadsafe-statics -fvisibility=hidden "
    "-ffp-contract=off -fno-fast-math -fno-math-errno -fwrapv -fno-strict-aliasing"
).split()
# The shim implements the functions that report findings, so -nodefaultlibs leaves libubsan out.
# With -fno-var-tracking g++ needs a quarter less time, and findings name lines but not variables.
_CHECKED = (
    "-Og -g1 -fno-var-tracking -gdwarf-4 -fsanitize=alignment,bounds -fno-sanitize-recover=all"
).split()
# -fsanitize=thread inserts a call at each access. The engine implements these calls; libtsan is not
# used.
_INSTRUMENTED = (
    "-Og -g -fno-var-tracking -gdwarf-4 -fsanitize=thread,alignment,bounds "
    "-fno-sanitize-recover=all"
).split()
# -fsanitize=kernel-address is used only for stores, because only stores can damage the process.
_WRITES_CHECKED = (
    "-DGPUTENSOR_CHECK_WRITES -fsanitize=kernel-address -fno-sanitize-recover=kernel-address "
    "--param asan-instrumentation-with-call-threshold=0 --param asan-instrument-reads=0 "
    "--param asan-stack=0 --param asan-globals=0"
).split()
_DEBUGGED = "-O0 -g3 -gdwarf-4 -fsanitize=alignment,bounds -fno-sanitize-recover=all".split()
# Options for users' kernels. The sanitizers report operations that are undefined in C++ but defined
# on a GPU, because the emulator does not imitate the GPU's results of these operations.
_USERS = (
    "-ftrack-macro-expansion=0 -fsigned-char -fstack-clash-protection "
    "-fsanitize=shift-exponent,float-cast-overflow "
    "-fno-sanitize-recover=shift-exponent,float-cast-overflow"
).split()
_OVERFLOW = (
    "-fno-wrapv -fsanitize=signed-integer-overflow,integer-divide-by-zero "
    "-fno-sanitize-recover=signed-integer-overflow,integer-divide-by-zero"
).split()
# Local variables start as garbage, as registers do. Without these flags, g++ may treat a variable
# that is set only on some paths as set on all paths.
_GARBAGE = ("-ftrivial-auto-var-init=pattern", "-fno-tree-fre")
_SANITIZED = (
    "-O1 -g1 -fno-var-tracking -gdwarf-4 -fno-omit-frame-pointer -fsanitize=address "
    "-fsanitize-recover=address -fsanitize-sections=gts* "
    "-fsanitize=alignment,bounds,shift,bool,pointer-overflow,return,unreachable,null "
    "-fno-sanitize-recover=undefined"
).split()
_LINK = "-shared -nodefaultlibs -lm -lc -lgcc".split()

# This is part of the cache key, because machines with a common home folder may have different
# instruction sets.
_MACHINE = os.uname().machine

_version: str | None = None
_reason: str | None = None


def compiler() -> str:
    return os.environ.get("GPUTENSOR_CXX") or "g++"


def compiler_name() -> str:
    """Return a name such as `g++ 12`, for messages."""
    return f"{os.path.basename(compiler())} {_major_version() or ''}".strip()


def _major_version() -> int:
    """Return the major version, such as 12 for g++ 12.2; 0 if it is unknown."""
    unavailable_reason()
    number = re.search(r"(\d+)\.\d+", (_version or "").rpartition(")")[2])
    return int(number[1]) if number else 0


def unavailable_reason() -> str | None:
    """Return the reason why kernels cannot be built, or None. The result is cached."""
    global _version, _reason
    if _version is None and _reason is None:
        command = [compiler(), "--version"]
        if shutil.which(compiler()) is None:
            _reason = f"g++, and {compiler()} is not on PATH"
        else:
            answer = subprocess.run(command, capture_output=True, text=True, check=False)
            if answer.returncode:
                _reason = f"g++, and '{compiler()} --version' fails"
            else:
                _version = answer.stdout.partition("\n")[0]
    return _reason and f"the CUDA emulator needs {_reason}"


def _build_options(is_users: bool) -> list[str]:
    if sanitizer.is_active():
        kind = _SANITIZED
    elif os.environ.get("GPUTENSOR_EMULATOR_DEBUG") == "1":
        kind = _DEBUGGED
    else:
        kind = _INSTRUMENTED if settings.current().build[0] else _CHECKED
    if not is_users:
        return [*_LANGUAGE, *kind]
    garbage = _GARBAGE if _major_version() >= 12 else ()
    writes = _WRITES_CHECKED if kind is _CHECKED and settings.current().build[2] else ()
    return [
        *_LANGUAGE, *kind, *writes, *_USERS, *garbage,
        *(_OVERFLOW if settings.current().build[1] else ()),
    ]  # fmt: skip


def compile_kernels(
    text: str, variants: Sequence[Mapping[str, object]], title: str,
    entries: Sequence[str] | None = None, included: Mapping[str, str] | None = None,
    folders: Sequence[str] = (), standard: str | None = None,
) -> tuple[bytes, str]:  # fmt: skip
    """Return the shared object with all variants of a `.cu` text, and the path of its file.

    entries: for a user's text, the requested kernels, such as `scale<float>` for a template
    instance. included: headers by their name in `#include`; other headers are searched in the
    folders. standard: the C++ standard, such as `c++20`.
    """
    is_users = entries is not None
    options = [
        *_build_options(is_users),
        *(f"-I{os.path.abspath(folder)}" for folder in folders),
        *((f"-std={standard}",) if standard else ()),
    ]
    own = {**headers.shim(), **(headers.includes() if is_users else {}), **(included or {})}
    unit = source.translation_unit(text, variants, title, entries)
    label = f"{title} emulator {len(variants)} variants"
    others = includes.digest((text,), options) if is_users else ""
    name = kernel_cache.key(unit, own, options, others, _version, _MACHINE)

    def build() -> bytes:
        defines = variants[0] if len(variants) == 1 else {}
        return _build(unit, options, own, title, defines, is_users)

    image, path = kernel_cache.fetch(name, ".so", build, label)
    if entries and not sanitizer.is_active():
        shared_object.check(image, text, entries, title)
    return image, path


def copy_of(path: str) -> str:
    """Copy the shared object to another file and return its path. The loader loads each file only
    once, so loading the object again needs a copy."""
    copy = os.path.join(files.own_folder(), f"{next(_copies)}.so")
    shutil.copyfile(path, copy)
    return copy


_copies = itertools.count()


def compile_engine() -> str:
    """Build the engine's shared object if needed, and return its path."""
    own = headers.engine()
    # With _FORTIFY_SOURCE, siglongjmp would reject the engine's jumps between stacks.
    options = [*_LANGUAGE, "-O2", "-U_FORTIFY_SOURCE"]
    name = kernel_cache.key(own, options, _version, _MACHINE)

    def build() -> bytes:
        return _build('#include "launch.h"\n', options, own, "launch.h", {})

    return kernel_cache.fetch(name, ".so", build, "emulator engine")[1]


def _build(
    unit: str, options: Sequence[str], own: Mapping[str, str], title: str,
    defines: Mapping[str, object], is_users: bool = False,
) -> bytes:  # fmt: skip
    with tempfile.TemporaryDirectory(dir=files.own_folder()) as folder:
        for header, content in own.items():
            place = os.path.join(folder, header)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w") as file:
                file.write(content)
        path = os.path.join(folder, "kernel.so")
        # With this flag, an undefined name is an error of the build and not of the load.
        defined = ["-Wl,-z,defs"] if is_users and not sanitizer.is_active() else []
        command = [
            compiler(), *options, "-x", "c++", "-", "-I", folder, "-o", path, *_LINK, *defined,
        ]  # fmt: skip
        answer = subprocess.run(command, input=unit, capture_output=True, text=True, check=False)
        if answer.returncode:
            log = answer.stderr.replace(f"{folder}/", "")
            log = coverage.explain(log, unit) if is_users else log
            raise errors.kernel_not_compiled(title, dict(defines), log)
        with open(path, "rb") as file:
            return file.read()
