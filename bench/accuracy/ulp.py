"""Accuracy of the CPU library's elementary functions: `python -m bench.accuracy.ulp [--page PAGE]`.

Each function of `ulp.cpp` is compiled like the library's loops. It is called with all 2^32 f32
numbers (functions of two numbers: with `--f64` pairs) and with a sample of f64 numbers of every
exponent. The greatest error, in units of the last place, is printed beside its bound. --page writes
the table into a page. The exit status is 1 if a bound is exceeded.

BOUNDS is the only list of the bounds. docs/measurements/numbers.md shows it, and
tests/kernels/library/test_elementary.py checks a sample.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import build_library
from gputensor.runtime import files
from gputensor.runtime.compilation import kernel_cache

from ..measurement import timing

SOURCE = Path(__file__).with_suffix(".cpp")
F64_COUNT = 100_000_000
# The number of random arguments that are tested at a time.
BLOCK = 1 << 20

# The number of consecutive f32 numbers that are tested at a time.
SWEEP = 1 << 26
SPEED_COUNT = 1 << 14


class Bound(NamedTuple):
    """Guaranteed upper bounds of a function's error in ulp, for f32 and f64. inputs: the number of
    the function's arguments."""

    f32: float
    f64: float
    inputs: int = 1


BOUNDS = {
    "acos": Bound(1, 1),
    "acosh": Bound(1, 1),
    "asin": Bound(1, 1),
    "asinh": Bound(1.5, 1.5),
    "atan": Bound(1.5, 1.5),
    "atan2": Bound(1.5, 1.5, 2),
    "atanh": Bound(1, 1),
    "cos": Bound(1, 1),
    "cosh": Bound(1, 1),
    "erf": Bound(1.5, 1.5),
    "erfc": Bound(2, 2),
    "exp": Bound(1.5, 1.5),
    "exp2": Bound(1, 1),
    "expm1": Bound(1.5, 1.5),
    "fmod": Bound(0, 0, 2),
    "hypot": Bound(1, 1, 2),
    "log": Bound(1, 1),
    "log10": Bound(1, 1),
    "log1p": Bound(1, 1),
    "log2": Bound(1, 1),
    "nextafter": Bound(0, 0, 2),
    "pow": Bound(1, 1.5, 2),
    "sin": Bound(1, 1),
    "sinh": Bound(1, 1),
    "tan": Bound(1, 1),
    "tanh": Bound(1, 1),
}
# At larger angles the loops call the C library, so a sample of these angles is sufficient.
FAR_ANGLE = {"f32": 2.0**17, "f64": 2.0**40}
OF_ANGLE = ("cos", "sin", "tan")
DTYPES: dict[str, Any] = {"f32": np.float32, "f64": np.float64}


class Error(NamedTuple):
    """The greatest error in ulp among `seen` elements, and the arguments at which it occurs."""

    ulp: float
    at: tuple[float, ...]
    seen: int

    def or_(self, other: Error) -> Error:
        worst = max(self, other, key=lambda error: error.ulp)
        return Error(worst.ulp, worst.at, self.seen + other.seen)


NOTHING = Error(-1.0, (), 0)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy.ulp", description=__doc__)
    parser.add_argument("--functions", default=",".join(BOUNDS), help="as exp,log; all")
    parser.add_argument("--f64", type=float, default=F64_COUNT, help="how many f64, or pairs")
    parser.add_argument("--sample", type=float, help="so many f32 instead of all")
    parser.add_argument(
        "--capability", default=default_capability(), help="a name of build_library.CAPABILITIES"
    )
    parser.add_argument("--speed", action="store_true", help="times beside NumPy's instead")
    parser.add_argument("--page", type=Path, help="a page whose table is written")
    args = parser.parse_args(argv)
    names = args.functions.split(",")
    reason = unavailable_reason(args.capability)
    if reason:
        parser.error(reason)
    library = built(args.capability)
    if args.speed:
        print(speed_table(library, names))
        return 0
    found: dict[tuple[str, str], Error] = {}
    sample = None if args.sample is None else int(args.sample)
    print(_HEAD)
    for name in names:
        steps = list(_steps(library, name, int(args.f64), sample))
        for dtype, measure in timing.progress(steps, partial(_label, name)):
            found[name, dtype] = found.get((name, dtype), NOTHING).or_(measure())
        print(_row(name, found), flush=True)
    end = _origin(found, args.capability)
    print(f"\n{end}")
    if args.page is not None:
        page = args.page.read_text(encoding="utf-8")
        text = "\n".join([_HEAD, *(_row(name, found) for name in names), "", end])
        files.write_text(args.page, _TABLE.sub(lambda m: f"{m[1]}{text}\n{m[2]}", page))
    missed = [
        f"{name} {dtype}: {error.ulp} ulp at {error.at}"
        for (name, dtype), error in found.items()
        if error.ulp > getattr(BOUNDS[name], dtype)
    ]
    print("\n".join(missed), end="\n" if missed else "")
    return 1 if missed else 0


_TABLE = re.compile(
    r"(<!-- written by bench/accuracy/ulp.py -->\n).*?(<!-- /bench/accuracy/ulp.py -->)", re.DOTALL
)


def unavailable_reason(capability: str) -> str:
    """Return the reason why ulp.cpp cannot be compiled or run here, or "" if there is none."""
    name = build_library.compiler()[0]
    if shutil.which(name) is None:
        return f"{name} is not on PATH"
    if capability not in build_library.CAPABILITIES.get(_machine(), {}):
        return f"a CPU of {_machine()} has no {capability}"
    needed = {"avx2": "avx2", "avx512": "avx512dq"}.get(capability, "")
    lacks = needed and needed not in _cpu_info("flags").split()
    return f"this CPU lacks {needed}" if lacks else ""


def default_capability() -> str:
    return "neon" if _machine() == "aarch64" else "avx2"


def _machine() -> str:
    return {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


def _cpu_info(field: str) -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(rf"^{field}\s*: (.*)$", text, re.MULTILINE)
    return found[1] if found else ""


@cache
def built(capability: str) -> ctypes.CDLL:
    """Compile ulp.cpp with the options of the library's loops for a CPU capability, and load it."""
    command = command_of(capability)
    headers = (build_library.KERNELS / "cuda" / "include").rglob("*.cuh")
    text = [path.read_bytes() for path in (SOURCE, *sorted(headers))]
    version = subprocess.run([command[0], "--version"], capture_output=True, check=True).stdout

    def build() -> bytes:
        path = Path(files.own_folder()) / f"ulp_{capability}.so"
        subprocess.run([*command, "-o", str(path)], check=True)
        return path.read_bytes()

    name = kernel_cache.key(*text, command, version)
    return ctypes.CDLL(kernel_cache.fetch(name, ".so", build, SOURCE.name)[1])


def command_of(capability: str) -> list[str]:
    """Return the command that compiles ulp.cpp, without the output file."""
    flags = build_library.CAPABILITIES[_machine()][capability].split()
    include = build_library.KERNELS / "cuda" / "include"
    return [
        *build_library.compiler(), *build_library.LANGUAGE, "-fvisibility=default",
        *build_library.LOOPS, *flags, "-shared", f"-I{include}", str(SOURCE), "-lm",
    ]  # fmt: skip


def computed(library: ctypes.CDLL, name: str, *inputs: Any) -> Any:
    """Return the results of the function's loop for input arrays that share one dtype."""
    dtype = "f32" if inputs[0].dtype == np.float32 else "f64"
    out = np.empty_like(inputs[0])
    getattr(library, f"{name}_{dtype}")(_long(len(out)), *map(_pointer, (out, *inputs)))
    return out


def worst(library: ctypes.CDLL, name: str, *inputs: Any) -> Error:
    """Return the greatest error for these arguments, compared with the C library in higher
    precision."""
    dtype = "f32" if inputs[0].dtype == np.float32 else "f64"
    function = getattr(library, f"{name}_worst_{dtype}")
    function.restype = ctypes.c_double
    at = np.empty(len(inputs), inputs[0].dtype)
    ulp = function(_long(len(inputs[0])), *map(_pointer, (at, *inputs)))
    return Error(ulp, tuple(at.tolist()), len(inputs[0]))


def _worst_bits(library: ctypes.CDLL, name: str, first: int, count: int) -> Error:
    function = getattr(library, f"{name}_worst_bits")
    function.restype = ctypes.c_double
    at = np.empty(1, np.float32)
    ulp = function(_long(count), _pointer(at), ctypes.c_uint32(first))
    return Error(ulp, tuple(at.tolist()), count)


def _long(count: int) -> ctypes.c_long:
    return ctypes.c_long(count)


def _pointer(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


Step = tuple[str, Callable[[], Error]]


def _steps(library: ctypes.CDLL, name: str, count: int, sample: int | None) -> Iterator[Step]:
    rng = np.random.default_rng(0)

    def drawn(dtype: str, count: int) -> Iterator[Step]:
        def measure() -> Error:
            return worst(library, name, *arguments(name, DTYPES[dtype], BLOCK, rng))

        yield from ((dtype, measure) for _ in range(-(-count // BLOCK)))

    if BOUNDS[name].inputs == 2 or sample is not None:
        yield from drawn("f32", count if sample is None else sample)
    else:
        yield from drawn("f32", BLOCK)
        end = int(np.float32(FAR_ANGLE["f32"]).view(np.uint32)) if name in OF_ANGLE else 1 << 31
        for first in (*range(0, end, SWEEP), *range(1 << 31, (1 << 31) + end, SWEEP)):
            size = min(SWEEP, (first & 1 << 31) + end - first)
            yield "f32", partial(_worst_bits, library, name, first, size)
    yield from drawn("f64", count)


def special(dtype: Any) -> Any:
    """Return numbers at which functions often fail, such as infinities and subnormal numbers."""
    info = np.finfo(dtype)
    sizes = [0, info.smallest_subnormal, info.tiny, info.eps, 0.5, 1, 2, 3, 4, 1e4, 2.0**24]
    sizes += [2.0**53, info.max, np.inf, np.pi / 4, np.pi / 2, np.pi, 710, 746, 89, 104, 150, 1074]
    some = np.array(sizes, np.longdouble).astype(dtype)
    with np.errstate(over="ignore"):
        each = np.concatenate(
            [np.nextafter(some, dtype(0)), some, np.nextafter(some, dtype(np.inf))]
        )
    each = np.unique(each)
    return np.concatenate([each, -each, np.array([np.nan], dtype)])


def arguments(name: str, dtype: Any, count: int, rng: np.random.Generator) -> list[Any]:
    """Return arrays of arguments: special numbers, random bits, and numbers of moderate size."""
    if BOUNDS[name].inputs == 1:
        half = count // 2
        parts = [special(dtype), _any(dtype, half, rng), _moderate(dtype, half, rng)]
        if name in OF_ANGLE:  # add numbers near multiples of pi / 2
            turns = np.exp2(rng.uniform(0, np.log2(FAR_ANGLE["f64"]), count // 8)).astype(np.int64)
            parts.append((turns * (np.longdouble("3.14159265358979323846264") / 2)).astype(dtype))
        return [np.concatenate(parts)]
    left, right = (axis.ravel() for axis in np.meshgrid(special(dtype), special(dtype)))
    x, y = (
        np.concatenate([_any(dtype, count // 4, rng), _moderate(dtype, count - count // 4, rng)])
        for _ in range(2)
    )
    many = np.arange(count) % 4 == 3
    if name == "pow":  # choose exponents y so that x ** y takes all magnitudes
        with np.errstate(all="ignore"):
            reach = np.finfo(dtype).maxexp + 10
            ends = rng.uniform(-reach - 60, reach, count)
            bits = np.log2(np.abs(x).astype(np.longdouble))
            y = np.where(many, y, (ends / bits).astype(dtype))
            x = np.where(many, x, np.abs(x))
    elif name in ("atan2", "hypot", "fmod"):  # choose y so that most y / x are moderate
        with np.errstate(all="ignore"):
            y = np.where(many, y, (x * _moderate(np.float64, count, rng)).astype(dtype))
    return [np.concatenate([left, x]), np.concatenate([right, y])]


def _any(dtype: Any, count: int, rng: np.random.Generator) -> Any:
    bits = np.uint32 if dtype is np.float32 else np.uint64
    return rng.integers(0, np.iinfo(bits).max, count, dtype=bits, endpoint=True).view(dtype)


def _moderate(dtype: Any, count: int, rng: np.random.Generator) -> Any:
    return (rng.standard_normal(count) * np.exp2(rng.integers(-8, 10, count))).astype(dtype)


_HEAD = """\
| function | f32: at most | measured | at | f64: at most | measured | at |
|---|---:|---:|---|---:|---:|---|"""


def _label(name: str, step: tuple[str, Any]) -> str:
    return f"{name} {step[0]}"


def _row(name: str, found: dict[tuple[str, str], Error]) -> str:
    cells = [f"`{name}`"]
    for dtype in DTYPES:
        error = found[name, dtype]
        at = ", ".join(f"{DTYPES[dtype](x)!s}" for x in error.at)
        cells += [f"{getattr(BOUNDS[name], dtype):g}", f"{error.ulp:.4f}", at]
    return f"| {' | '.join(cells)} |"


def _origin(found: dict[tuple[str, str], Error], capability: str) -> str:
    """Return a sentence with the date, the machine and the number of arguments."""
    seen = {dtype: max(e.seen for (_, of), e in found.items() if of == dtype) for dtype in DTYPES}
    command = [*build_library.compiler(), "--version"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    today = datetime.date.today().isoformat()
    return (
        f"Measured on {today}, {_cpu_info('model name')}, {capability}, "
        f"{version.splitlines()[0]}: {seen['f32']:,} f32 and {seen['f64']:,} f64 a function, and "
        "of functions of two numbers as many pairs as f64."
    )


NUMPY = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atan2": "arctan2", "atanh": "arctanh", "pow": "power",
}  # fmt: skip


def speed_table(library: ctypes.CDLL, names: list[str]) -> str:
    """Return a table of nanoseconds per element, for `SPEED_COUNT` elements in the core's
    caches."""
    lines = ["| function | f32 | NumPy | f64 | NumPy |", "|---|---:|---:|---:|---:|"]
    rng = np.random.default_rng(0)
    for name in timing.progress(names, str):
        cells = [f"`{name}`"]
        for kind, dtype in DTYPES.items():
            drawn = rng.uniform(0.05, 0.95, (BOUNDS[name].inputs, SPEED_COUNT)).astype(dtype)
            inputs = [x + 1 if name == "acosh" else x for x in drawn]
            out = np.empty_like(inputs[0])
            pointers = (_long(SPEED_COUNT), *map(_pointer, (out, *inputs)))
            sides: list[Callable[[], Any]] = [
                partial(getattr(library, f"{name}_{kind}"), *pointers)
            ]
            theirs = getattr(np, NUMPY.get(name, name), None)
            if theirs is not None:
                sides.append(partial(theirs, *inputs, out=out))
            times = [sample.best_ns / SPEED_COUNT for sample in timing.alternate(sides)]
            cells += [f"{ns:.2f}" for ns in times] + ["–"] * (2 - len(times))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
