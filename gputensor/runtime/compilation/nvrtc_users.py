"""Compilation of users' `.cu` texts by NVRTC, with standard headers, CUDA's headers and C++ names.

No GPU is needed. Besides the cubin, the cache stores what NVRTC reports only when it compiles: the
mangled names of kernels and variables, and the register counts from ptxas. Our own kernels
(nvrtc.py) do not need these.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from gputensor.core import errors

from . import includes, kernel_cache, nvrtc
from ..emulator import headers as shared, source

# Headers of the C library and of CUDA's host side that a text may include.
STANDARD = (*source.C_HEADERS, *source.COVERED_HEADERS - {"math_constants.h"})
_CUDART_VERSION = re.compile(r"^#define CUDART_VERSION +(\d+)", re.MULTILINE)
# A folder that contains this file contains libcu++. The file nv/target is no proof, because a CUDA
# 13 toolkit also has nv/target beside its own headers.
_LIBCUDACXX = "cuda/std/type_traits"
_CUDA_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)


class Image(bytes):
    """A cubin, with the names of its kernels and variables.

    names: from a name as written in the text to its mangled name. log: the output of ptxas. ptx:
    the PTX text.
    """

    names: dict[str, str]
    log: str
    ptx: str


def binding() -> Any:
    """Return CuPy's binding of NVRTC. Raises: DeviceError with the reason if there is none."""
    try:
        found = import_module("gputensor.runtime.cuda.driver").cupy.cuda.nvrtc
        found.getVersion()
    except Exception as error:  # The error's class depends on which part of CUDA is missing.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise errors.no_nvrtc(reason) from error
    return found


def compile_text(
    binding: Any, text: str, defines: Mapping[str, object], arch: str, entries: Sequence[str],
    headers: Mapping[str, str], options: Sequence[str] = (),
) -> Image:  # fmt: skip
    """Return the cubin of a text with names, log and PTX. It comes from the cache if the text was
    compiled before.

    entries: the C++ names of kernels and, after `&`, of variables.
    """
    standard = dict.fromkeys(STANDARD, '#include "gputensor/standard.h"\n')
    own = {**standard, **_own_headers(), **headers}
    given = (
        *nvrtc.OPTIONS, f"-arch={arch}", "--ptxas-options=-v", *options,
        *(f"-D{name}={value}" for name, value in defines.items()),
        *(f"-I{place}" for place in _include_folders(text, own)),
    )  # fmt: skip
    title = nvrtc.title_of(text)
    included = includes.digest((text, *headers.values()), given)
    key = kernel_cache.key(text, own, given, tuple(entries), nvrtc.version(binding), included)

    def build() -> bytes:
        return _build(binding, text, title, own, given, defines, entries)

    payload, _ = kernel_cache.fetch(key, ".cubin", build, f"{title} {arch} {' '.join(entries)}")
    length = int.from_bytes(payload[:4], "little")
    facts = json.loads(payload[4 : 4 + length])
    image = Image(payload[4 + length :])
    image.names, image.log, image.ptx = facts["names"], facts["log"], facts["ptx"]
    return image


def _own_headers() -> dict[str, str]:
    """Return our headers in place of the C library's. On a machine without CUDA's headers, also
    return our headers of half types. The emulator uses the same headers."""
    halves = ("half_types.h", "half_functions.h", "cuda_fp16.h", "cuda_bf16.h")
    names = ("gputensor/standard.h", *(() if cuda_headers() else halves))
    return {name: shared.includes()[name] for name in names}


def _include_folders(text: str, own: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders of CUDA's headers if the text includes a header that we do not provide,
    otherwise ()."""
    return cuda_headers() if set(_CUDA_INCLUDE.findall(text)) - set(own) else ()


@cache
def cuda_headers() -> tuple[str, ...]:
    """Return the folders of CUDA's headers, from NVIDIA's wheels or from an installed toolkit; ()
    if there are none.

    Their major version is NVRTC's, because headers of other versions need declarations that NVRTC
    lacks. CUDA's headers of 16-bit floats and cooperative groups include libcu++. It is a separate
    wheel, which CuPy contains.
    """
    major = int(nvrtc.version(binding()).partition(".")[0])
    named = [os.environ[v] for v in ("CUDA_PATH", "CUDA_HOME") if os.environ.get(v)]
    toolkits = [os.path.join(p, "include") for p in (*named, "/usr/local/cuda")]
    wheels = ["nvidia/cuda_runtime/include", "nvidia/cu13/include"]
    core = _first(wheels, toolkits, "cuda_fp16.h", lambda folder: _major(folder) in (major, None))
    if core is None:
        return ()
    own = [core, os.path.join(core, "cccl")]
    beside = ["nvidia/cuda_cccl/include", "cupy/_core/include/cupy/_cccl/libcudacxx"]
    target = _has(own, _LIBCUDACXX) or _first(beside, [], _LIBCUDACXX)
    if target is None:
        return ()
    return (core,) if target == core else (core, target)


def _major(folder: str) -> int | None:
    """Return the CUDA major version of the headers in a folder; None if it is unknown."""
    try:
        with open(
            os.path.join(folder, "cuda_runtime_api.h"), encoding="utf-8", errors="replace"
        ) as file:
            found = _CUDART_VERSION.search(file.read())
    except OSError:
        return None
    return int(found[1]) // 1000 if found else None


def _first(
    in_wheels: Sequence[str], elsewhere: Sequence[str], header: str,
    fits: Callable[[str], bool] = lambda folder: True,
) -> str | None:  # fmt: skip
    folders = [os.path.join(p, w) for p in sys.path for w in in_wheels]
    return _has([f for f in (*folders, *elsewhere) if fits(f)], header)


def _has(folders: Sequence[str], header: str) -> str | None:
    return next((f for f in folders if os.path.exists(os.path.join(f, header))), None)


def _build(
    binding: Any, text: str, title: str, headers: Mapping[str, str], options: Sequence[str],
    defines: Mapping[str, object], entries: Sequence[str],
) -> bytes:  # fmt: skip
    contents, names = [tuple(t.encode() for t in some) for some in (headers.values(), headers)]
    program = binding.createProgram(text, title, contents, names)
    try:
        for name in entries:
            binding.addNameExpression(program, name)
        try:
            binding.compileProgram(program, tuple(options))
        except binding.NVRTCError as error:
            log = binding.getProgramLog(program) or str(error)
            raise errors.kernel_not_compiled(title, dict(defines), log) from None
        facts = {
            "names": {name: binding.getLoweredName(program, name) for name in entries},
            "log": binding.getProgramLog(program),
            "ptx": _text(binding.getPTX(program)),
        }
        is_ptx = any(option.startswith("-arch=compute_") for option in options)
        image = binding.getPTX(program) if is_ptx else binding.getCUBIN(program)
    finally:
        binding.destroyProgram(program)
    head = json.dumps(facts).encode()
    return (
        len(head).to_bytes(4, "little") + head + bytes(image) + b"\0"
    )  # CuPy's binding has removed the last byte.


def _text(given: Any) -> str:
    return given.decode(errors="replace") if isinstance(given, bytes) else str(given)
