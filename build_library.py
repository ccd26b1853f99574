"""Builds the CPU's loops, `gputensor/kernels/compiled/_library.abi3.so`, with g++.

setup.py calls this when the package is installed or a wheel is built; `python build_library.py`
builds what changed, in place, and says in one line what came of it; it fails where
GPUTENSOR_REQUIRE_LIBRARY=1 and nothing was built. `--times` prints what each object cost. `--check`
compiles nothing, and fails unless the library is that of the sources. `--loops` compiles the loops
alone, which need no package, so that `make` can do it while pip installs NumPy. The library needs
NumPy's and Python's headers, and no network.

The sources of `engine/` are compiled once, those of `loops/` once for each capability of the
machine. Objects stay in build/library and are compiled again where their command, the compiler or
the content of a file that they include has changed; times of files mean nothing, since a checkout
sets them anew.

    GPUTENSOR_CXX, else CXX         the compiler; g++ where neither is set
    GPUTENSOR_BUILD_CAPABILITIES    which loops are built: `avx2,avx512`; `default` for none; `best`
                                    for those that this CPU runs, and those built here before
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import functools
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent
KERNELS = ROOT / "gputensor" / "kernels"
SOURCES = KERNELS / "compiled"
FOLDER = ROOT / "build" / "library"
LIBRARY = SOURCES / "_library.abi3.so"

VARIABLE = "GPUTENSOR_BUILD_CAPABILITIES"
# What gputensor.backends.cpu.get_cpu_capability() calls NumPy's loops.
DEFAULT = "default"
# Half of the compiler's time, for a checkout that this machine alone runs.
BEST = "best"

# By machine, each capability's instructions. A capability's loops run only where the CPU has all of
# them: `known` of engine/python/module.cpp.
_AVX2 = "-mavx2 -mfma -mf16c -mbmi -mbmi2 -mlzcnt -mpopcnt"
_AVX512 = f"{_AVX2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512"
CAPABILITIES = {
    "x86_64": {"avx2": _AVX2, "avx512": _AVX512},
    "aarch64": {"neon": "-march=armv8-a"},
}

# -w: what the kernels' text leaves unused for one dtype is used for another.
LANGUAGE = (
    "-std=c++17 -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -fno-threadsafe-statics "
    "-fwrapv -fno-strict-aliasing -ffunction-sections -fdata-sections -w"
).split()
ENGINE = ("-O2",)
# No -ffast-math, no contraction: arithmetic has the same bits at every capability.
LOOPS = (
    "-O2 -ftree-vectorize -fvect-cost-model=dynamic -fno-tree-pre -fno-math-errno "
    "-fno-trapping-math -ffp-contract=off"
).split()
# Nothing of libstdc++ is used, so nothing of it is linked.
LINK = "-shared -nodefaultlibs -Wl,--gc-sections -Wl,-s -lm -lpthread -lc -lgcc".split()

# Ends what a loop needs of a kernel: the functors stand above it, in namespace op.
_BODY = "// ---- body ----"
_FUNCTORS_END = "}  // namespace op"


class BuildError(Exception):
    """The library cannot be built; says why in one line, the compiler's own words behind it."""


class Unit(NamedTuple):
    """One object: its source and what compiles it. options: in the key; places: where headers are,
    which differ between two builds of the same text."""

    name: str
    source: Path
    options: tuple[str, ...]
    places: tuple[str, ...]


def compiler() -> list[str]:
    """The command that compiles C++, with the options that CXX may carry."""
    return shlex.split(os.environ.get("GPUTENSOR_CXX") or os.environ.get("CXX") or "g++")


def capabilities() -> dict[str, list[str]]:
    """The capabilities to build, each with its options. Raises: BuildError for an unknown one."""
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    known = {name: flags.split() for name, flags in CAPABILITIES.get(machine, {}).items()}
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return known
    if wanted == DEFAULT:
        return {}
    if wanted == BEST:
        return {name: known[name] for name in _best(known)}
    for name in wanted.split(","):
        if name not in known:
            names = ", ".join((DEFAULT, BEST, *known))
            raise BuildError(f"{VARIABLE} must be of {names} on {machine} (got {wanted!r})")
    return {name: known[name] for name in wanted.split(",")}


def _best(known: dict[str, list[str]]) -> list[str]:
    """The highest capability that this CPU supports, the one that GPUTENSOR_CPU_CAPABILITY names,
    and those built here before; all of them if Linux does not report the CPU's instructions."""
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return list(known)
    has = set(next((ln for ln in told.splitlines() if ln.startswith("flags")), "").split())
    renamed = {"bmi": "bmi1", "lzcnt": "abm"}
    runs = [
        name for name, options in known.items()
        if all(renamed.get(o[2:], o[2:]) in has for o in options if "=" not in o)
    ]  # fmt: skip
    kept = [name for name in known if any(FOLDER.glob(f"{name}_*.o"))]
    wanted = {*runs[-1:], *kept, os.environ.get("GPUTENSOR_CPU_CAPABILITY")}
    return [name for name in known if name in wanted] or list(known)


def unavailable_reason() -> str:
    """Why nothing can be built here; "" where it can. Compiles two lines and no loop."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this Python lacks CPython's stable ABI"
    if not capabilities():
        if os.environ.get(VARIABLE) == DEFAULT:
            return f"{VARIABLE}={DEFAULT}"
        return f"there are no loops for {platform.machine()}"
    name = compiler()[0]
    if shutil.which(name) is None:
        return f"{name} is not on PATH"
    try:
        import numpy
    except ImportError:
        return "NumPy, whose headers it needs, is not installed"
    if int(numpy.__version__.split(".")[0]) < 2:
        return f"NumPy {numpy.__version__} is older than 2"
    text = "#include <Python.h>\n#include <numpy/arrayobject.h>\n"
    command = [*compiler(), *_foreign_headers(), "-x", "c++", "-fsyntax-only", "-w", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    if "Python.h" in done.stderr:
        return "Python.h is not installed (Debian: apt install python3-dev)"
    return f"{name} fails: {(done.stderr.strip().splitlines() or ['no message'])[0]}"


def build(target: Path = LIBRARY, say: Callable[[str], None] = lambda line: None) -> None:
    """Build the library and put it at `target`. Raises: BuildError."""
    reason = unavailable_reason()
    if reason:
        raise BuildError(reason)
    todo = units(capabilities(), FOLDER)
    objects = all_compiled(todo, FOLDER, say)
    identity = _identity(todo, FOLDER)
    if _is_of(target, identity):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.with_name(f"{target.name}.{os.getpid()}")
    link = [*compiler(), *map(str, objects), *LINK, f"-Wl,--build-id=0x{identity}"]
    _run([*link, "-o", str(made)], target.name)
    made.replace(target)  # a process may have the old one mapped


def build_loops(say: Callable[[str], None]) -> None:
    """Compile what the library is built from without NumPy; without a compiler, nothing."""
    if shutil.which(compiler()[0]):
        all_compiled(loop_units(capabilities(), FOLDER), FOLDER, say)


def all_compiled(
    todo: Sequence[Unit], folder: Path, say: Callable[[str], None] = lambda line: None
) -> list[Path]:
    """Compile units on all cores, the longest first. Return their objects. Raises: BuildError."""
    with _one_process(folder / "heads"):
        write_heads(folder)
    todo = sorted(todo, key=lambda unit: _last_seconds(unit, folder), reverse=True)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(lambda unit: compiled(unit, folder, say), todo))


def is_current(target: Path = LIBRARY) -> bool:
    """Whether the library was built here from the sources as they are now."""
    write_heads(FOLDER)
    todo = units(capabilities(), FOLDER)
    return all(_is_compiled(unit, FOLDER) for unit in todo) and _is_of(
        target, _identity(todo, FOLDER)
    )


def _identity(todo: Sequence[Unit], folder: Path) -> str:
    """The library's build id: a digest of what its objects were made of."""
    digest = hashlib.sha256(repr(LINK).encode())
    for unit in sorted(todo):
        digest.update(json.loads((folder / f"{unit.name}.json").read_text())["key"].encode())
    return digest.hexdigest()


def _is_of(target: Path, identity: str) -> bool:
    return target.exists() and bytes.fromhex(identity) in target.read_bytes()


def units(wanted: dict[str, list[str]], folder: Path) -> list[Unit]:
    """What is compiled for these capabilities; `folder` has the kernels' heads."""
    built = [f"-DWITH_{name.upper()}" for name in wanted]
    found = [
        Unit(f"engine_{s.stem}", s, (*LANGUAGE, *ENGINE, *built), tuple(_foreign_headers()))
        for s in sorted((SOURCES / "engine").rglob("*.cpp"))
    ]
    return found + loop_units(wanted, folder)


def loop_units(wanted: dict[str, list[str]], folder: Path) -> list[Unit]:
    """The loops of these capabilities, which include neither Python's nor NumPy's headers."""
    return [
        Unit(
            f"{name}_{source.stem}",
            source,
            (*LANGUAGE, *LOOPS, *flags, f"-DCAPABILITY={name}"),
            loop_headers(folder),
        )
        for name, flags in wanted.items()
        for source in sorted((SOURCES / "loops").glob("*.cpp"))
    ]


def loop_headers(folder: Path) -> tuple[str, ...]:
    """Where a file of loops/ finds what it includes."""
    places = (folder, KERNELS / "cuda" / "include", KERNELS / "_generated", SOURCES)
    return tuple(f"-I{place}" for place in places)


def write_heads(folder: Path) -> None:
    """Write the functors of each kernel, without its body, as `heads/<family>.h`."""
    (folder / "heads").mkdir(parents=True, exist_ok=True)
    for path in (KERNELS / "cuda").glob("*.cu"):
        text = path.read_text(encoding="utf-8").partition(_BODY)[0]
        above, end, _ = text.rpartition(_FUNCTORS_END)
        head = f'#line 1 "{path.name}"\n{above}{end}\n' if end else f'#line 1 "{path.name}"\n{text}'
        to = folder / "heads" / f"{path.stem}.h"
        if not to.exists() or to.read_text(encoding="utf-8") != head:
            to.write_text(head, encoding="utf-8")


def compiled(unit: Unit, folder: Path, say: Callable[[str], None]) -> Path:
    """The object of a unit, compiled where there is none of this text, compiler and command.

    Two processes may compile the units of one folder: each unit is compiled by one of them.
    """
    with _one_process(folder / unit.name):
        if not _is_compiled(unit, folder):
            _compile(unit, folder, say)
    return folder / f"{unit.name}.o"


@contextlib.contextmanager
def _one_process(path: Path) -> Iterator[None]:
    """Let one process at a time inside; a process that ends lets the next one in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{path}.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _compile(unit: Unit, folder: Path, say: Callable[[str], None]) -> None:
    made, record = folder / f"{unit.name}.o", folder / f"{unit.name}.json"
    say(f"compiling {unit.source.name} ({unit.name})")
    listed = folder / f"{unit.name}.d"
    command = [*compiler(), *unit.options, *unit.places, "-MMD", "-MF", str(listed)]
    made.unlink(missing_ok=True)
    seconds = _run([*command, "-c", str(unit.source), "-o", str(made)], unit.source.name)
    _, _, names = listed.read_text().replace("\\\n", " ").partition(": ")
    files = [os.path.relpath(name, folder) for name in names.split()]
    listed.unlink()
    key = _key(unit, [folder / path for path in files])
    record.write_text(json.dumps({"key": key, "files": files, "seconds": seconds}))


def _last_seconds(unit: Unit, folder: Path) -> float:
    """CPU seconds that a unit took the last time; the first time, an estimate from its text and
    from the number of loops that the generated table lists for it."""
    record = folder / f"{unit.name}.json"
    if record.exists():
        return float(json.loads(record.read_text())["seconds"])
    table = f"#define {unit.source.stem.upper()}_LOOPS(X)"
    loops = _table_of_loops().partition(table)[2].partition("#define")[0].count("X(")
    return unit.source.stat().st_size / 3000 + loops / 30


@functools.cache
def _table_of_loops() -> str:
    return (KERNELS / "_generated" / "loops.h").read_text(encoding="utf-8")


def _is_compiled(unit: Unit, folder: Path) -> bool:
    made, record = folder / f"{unit.name}.o", folder / f"{unit.name}.json"
    if not (made.exists() and record.exists()):
        return False
    then = json.loads(record.read_text())
    return bool(then["key"] == _key(unit, [folder / path for path in then["files"]]))


def _key(unit: Unit, files: Sequence[Path]) -> str:
    digest = hashlib.sha256(repr((unit.options, _version(*compiler()))).encode())
    for path in files:
        digest.update(path.read_bytes() if path.exists() else b"none")
    return digest.hexdigest()


@functools.cache
def _version(*command: str) -> str:
    """The compiler's. Python's and NumPy's do not matter: both ABIs are stable."""
    asked = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return f"{shlex.join(command)} {asked.stdout}"


def _foreign_headers() -> list[str]:
    """Python's and NumPy's, as system headers, which -MMD does not list."""
    import numpy

    return ["-isystem", sysconfig.get_paths()["include"], "-isystem", numpy.get_include()]


def _run(command: Sequence[str], title: str) -> float:
    """Run a compiler; returns the seconds of CPU that it took. Raises: BuildError."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        said = errors.read()
    if status:
        lines = said.strip().splitlines()
        first = next((line for line in lines if "error" in line), "no message")
        raise BuildError(f"{title} does not compile: {first}\n{said}")
    return round(used.ru_utime + used.ru_stime, 2)


def main(arguments: Sequence[str]) -> None:
    if list(arguments) == ["--check"]:
        if not is_current():
            sys.exit("build_library: the library is not of these sources; run build_library.py")
        return
    if list(arguments) == ["--loops"]:
        with contextlib.suppress(BuildError):  # the build that follows says what is wrong
            build_loops(say=lambda line: None)
        return
    began = time.monotonic()
    try:
        build(say=print)
    except BuildError as error:
        is_old = "the library that was built before runs"
        runs = is_old if LIBRARY.exists() else "NumPy's run"
        line = f"the CPU's loops are not compiled, {runs}: {error}"
        if os.environ.get("GPUTENSOR_REQUIRE_LIBRARY") == "1":
            sys.exit(f"setup: {line}")
        print(f"setup: {line.splitlines()[0]}")
        return
    if list(arguments) == ["--times"]:
        known = {p.stem: json.loads(p.read_text())["seconds"] for p in FOLDER.glob("*.json")}
        for name, seconds in sorted(known.items(), key=lambda item: -item[1]):
            print(f"{seconds:6.1f} s  {name}")
        print(f"{sum(known.values()):6.1f} s of CPU in all")
    names = ", ".join(capabilities())
    size, took = LIBRARY.stat().st_size / 2**20, time.monotonic() - began
    print(f"setup: the CPU's loops are compiled for {names}: {size:.1f} MiB, {took:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
