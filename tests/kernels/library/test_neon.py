"""NEON loops, compiled for aarch64 and run by QEMU, give the bits of AVX2's.

loops_alone.cpp, which contains no Python, calls every pointwise loop and cast and many functions;
it is built for both. With GPUTENSOR_REQUIRE_NEON=1 the test fails without the tools.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import build_library
from gputensor.core.dtype import STORED, dtype
from tests.harness import compare

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64-static"
HARNESS = Path(__file__).with_name("loops_alone.cpp")
BY_CODE = {d.code: d for d in STORED}


def missing() -> str:
    """Return why the loops cannot be run here; "" if they can."""
    if platform.machine() != "x86_64":
        return f"the loops that NEON's are compared with are not those of {platform.machine()}"
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        return "this CPU lacks AVX2"
    lacking = [name for name in (build_library.compiler()[0], COMPILER, EMULATOR)
               if shutil.which(name) is None]  # fmt: skip
    packages = "Debian: apt install g++-aarch64-linux-gnu qemu-user-static"
    return f"{' and '.join(lacking)} not on PATH ({packages})" if lacking else ""


def built(capability: str, machine: str, folder: Path, to: Path) -> Path:
    """Build the harness with the loops of a capability. Objects stay in `folder`; the library's
    objects are used if it has these loops."""
    wanted = {capability: build_library.CAPABILITIES[machine][capability].split()}
    engine = [
        unit._replace(places=())
        for unit in build_library.units(wanted, folder)
        if unit.source.parent.name == "engine"  # its folders include Python's headers
    ]
    of_loops = build_library.FOLDER
    if not any(of_loops.glob(f"{capability}_*.o")):
        of_loops = folder
    loops = build_library.loop_units(wanted, of_loops)
    objects = build_library.all_compiled(engine, folder)
    objects += build_library.all_compiled(loops, of_loops)
    program = to / capability
    command = [*build_library.compiler(), "-std=c++17", "-O1", "-w", "-static"]
    command += [f"-DCAPABILITY={capability}", f"-I{build_library.SOURCES}", str(HARNESS)]
    libraries = ["-lm", "-lpthread"]
    subprocess.run([*command, *map(str, objects), *libraries, "-o", str(program)], check=True)
    return program


def records(printed: bytes) -> Iterator[tuple[str, dtype, np.ndarray]]:
    at = 0
    while at < len(printed):
        end = printed.index(b"\n", at)
        name, count, code = printed[at:end].decode().rsplit(maxsplit=2)
        of = BY_CODE[int(code)]
        at = end + 1 + int(count) * of.itemsize
        yield name, of, np.frombuffer(printed[end + 1 : at], of.np)


@pytest.mark.full
def test_neon_gives_the_bits_of_avx2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = missing()
    if reason:
        (pytest.fail if os.environ.get("GPUTENSOR_REQUIRE_NEON") == "1" else pytest.skip)(reason)
    build = build_library.ROOT / "build"
    ours = built("avx2", "x86_64", build / "loops_alone", tmp_path)
    monkeypatch.setenv("GPUTENSOR_CXX", COMPILER)
    theirs = built("neon", "aarch64", build / "neon", tmp_path)
    given = subprocess.run([ours], capture_output=True, check=True).stdout
    found = subprocess.run([EMULATOR, theirs], capture_output=True, check=True).stdout
    count, wrong = 0, []
    for (name, of, x), (other, also, y) in zip(records(given), records(found), strict=True):
        assert (name, of) == (other, also)
        count += 1
        if not compare.same(x, y):
            place = next(k for k in range(len(x)) if not compare.same(x[k : k + 1], y[k : k + 1]))
            wrong.append(f"{name} {of}: avx2 {x[place]!r}, neon {y[place]!r} at {place}")
    assert not wrong, "\n".join(wrong)
    assert count > 8000
