"""Measurement of one call with all libraries: build it, compare results, time alternately."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

import gputensor as gt

from ..measurement import timing
from .calls import Case

Side = Callable[[], Any]

THREADS = 2
# A call of PyTorch that takes fewer seconds than this is measured with 1 or THREADS threads,
# whichever is faster.
SHORT_S = 1e-3
# Maximum number of rounds, minimum number for slow calls, and seconds for all rounds.
ROUNDS, LEAST_ROUNDS, LIMIT_S = 21, 5, 0.4
# If single calls of all libraries take more than this number of seconds in total, each library is
# called only three times.
LONG_S = 0.4
# NumPy is not measured if one of its calls takes longer than this number of seconds.
NUMPY_S = 0.3
# Tolerances by dtype, relative to each element and to the largest element of the result.
RTOL = {
    "float16": 5e-3, "bfloat16": 2e-2, "float32": 1e-4, "complex64": 1e-4, "float64": 1e-9,
    "complex128": 1e-9,
}  # fmt: skip


class Differs(AssertionError):
    """Exception for a result that differs from PyTorch's. Its text describes the difference."""


# --- sides ----------------------------------------------------------------------------------------


class Built:
    """A call for one library. `side` is the timed function, `names` are the variables in the call's
    text."""

    __slots__ = ("names", "side", "case")

    def __init__(self, case: Case, text: str, setup: str, names: dict[str, Any]) -> None:
        self.names, self.case = names, case
        if setup:
            exec(compile(setup, f"<{case.name}: setup>", "exec"), names)
        self.side: Side = eval(compile(f"lambda: {text}", f"<{case.name}>", "eval"), names)

    def agreeing(self, result: Any) -> Any:
        """Return the part of a result that must equal PyTorch's."""
        if not self.case.call.agree:
            return result
        return eval(self.case.call.agree, self.names | {"r": result})


def tensors(lib: Any, case: Case, arrays: Mapping[str, Any]) -> Built:
    """Return the call for gputensor or PyTorch, with fresh copies of the operands."""

    def owned(name: str, array: Any) -> Any:
        if isinstance(array, int):
            return array
        of = lib.from_numpy(array)
        dtype = case.operands[name].dtype
        return of.to(lib.bfloat16) if dtype == "bfloat16" else of.clone()

    names = {name: owned(name, array) for name, array in arrays.items()}
    names |= {"torch": lib, "F": lib.nn.functional}
    return Built(case, case.call.text, case.call.setup, names)


def of_numpy(case: Case, arrays: Mapping[str, Any]) -> Built:
    """Return the call for NumPy and SciPy. Raises: ImportError if SciPy is needed but missing."""
    names = {n: x.copy() if isinstance(x, np.ndarray) else x for n, x in arrays.items()}
    names |= {"np": np, "rng": np.random.default_rng(0)}
    if "scipy" in case.call.numpy:
        for part in ("special", "fft", "spatial.distance"):
            importlib.import_module(f"scipy.{part}")
        names["scipy"] = importlib.import_module("scipy")
    return Built(case, case.call.numpy, "", names)


# --- results --------------------------------------------------------------------------------------


def compare(ours: Built, found: Any, theirs: Built, expected: Any) -> None:
    """Compare a result with PyTorch's: structure, shapes and dtypes, then the elements.

    Raises: Differs if they are not equal within the tolerance.
    """
    a, b = list(_leaves(found)), list(_leaves(expected))
    if len(a) != len(b):
        raise Differs(f"it has {len(a)} parts, PyTorch's has {len(b)}")
    for x, y in zip(a, b):
        if _kind(x) != _kind(y):
            raise Differs(f"it is {_kind(x)}, PyTorch's is {_kind(y)}")
    rtol = ours.case.call.rtol
    for x, y in zip(_leaves(ours.agreeing(found)), _leaves(theirs.agreeing(expected))):
        dtype = _kind(y).partition("[")[0]
        _near(_array(x), _array(y), RTOL.get(dtype, 0.0) if rtol is None else rtol)


def _leaves(result: Any) -> Iterator[Any]:
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from _leaves(part)
    else:
        yield result


def _kind(x: Any) -> str:
    """Return text such as `float32[3, 4]` for a tensor, and the type's name for other values."""
    if not hasattr(x, "dtype"):
        return type(x).__name__
    return f"{str(x.dtype).rpartition('.')[2]}{list(x.shape)}"


def _array(x: Any) -> Any:
    if not hasattr(x, "detach"):
        return np.asarray(x)
    x = x.detach()
    if _kind(x).startswith("bfloat16"):
        x = x.float()
    return x.resolve_conj().numpy() if x.is_complex() else x.numpy()


def _near(x: Any, y: Any, rtol: float) -> None:
    if x.dtype.kind == "O":  # the result is None: the function writes to its argument
        return
    if x.shape != y.shape:
        raise Differs(f"its values have the shape {x.shape}, PyTorch's {y.shape}")
    if x.dtype.kind not in "fc":
        wrong = x != y
    else:
        wide = np.complex128 if x.dtype.kind == "c" else np.float64
        finite = np.abs(y[np.isfinite(y)]).astype(np.float64)
        atol = rtol * float(finite.max(initial=0.0))
        if x.dtype.itemsize < 4:
            x, y = x.astype(wide), y.astype(wide)
        wrong = ~np.isclose(x, y, rtol, atol, equal_nan=True)
    if wrong.any():
        raise Differs(f"{int(wrong.sum())} of {wrong.size} elements differ from PyTorch's")


# --- times ----------------------------------------------------------------------------------------


def measure(
    case: Case, libraries: Mapping[str, Any], peers: Iterable[str], rounds: int | None, scale: int
) -> dict[str, Any]:
    """Return the measurements of a case. libraries: gputensor and PyTorch, whose results are
    compared. peers: the libraries whose times are measured besides gputensor's.

    Raises: Differs, and any exception that the call raises.
    """
    begin = time.monotonic()
    arrays = {name: of.array(f"{case.name} {name}", scale) for name, of in case.operands.items()}
    ours, theirs = (tensors(libraries[name], case, arrays) for name in ("gputensor", "torch"))
    expected, torch_s = _timed(theirs.side)
    found, ours_s = _timed(ours.side)
    compare(ours, found, theirs, expected)
    sides, took_s, skipped, threads = {"gputensor": ours.side}, ours_s, {}, THREADS
    if "torch" in peers:
        sides["torch"], took_s = theirs.side, took_s + torch_s
        threads = _torch_threads(libraries["torch"], theirs.side)
    if "numpy" in peers:
        built, why = _numpy_side(case, arrays, theirs, expected)
        if built is None:
            skipped["numpy"] = why
        else:
            sides["numpy"] = built.side
            took_s += _timed(built.side)[1]
    del found, expected
    samples = dict(zip(sides, _samples([*sides.values()], rounds, took_s)))
    mine = samples["gputensor"]
    return {
        "number": case.number, "name": case.name, "kind": case.family, "call": case.call.text,
        "ns": {name: s.median_ns for name, s in samples.items()},
        "quartiles_ns": {name: s.quartiles_ns for name, s in samples.items()},
        "ratio": {n: timing.ratio(s, mine) for n, s in samples.items() if s is not mine},
        "torch_threads": threads, "skipped": skipped, "verified": True,
        "took_s": round(time.monotonic() - begin, 3),
    }  # fmt: skip


def _numpy_side(
    case: Case, arrays: Mapping[str, Any], theirs: Built, expected: Any
) -> tuple[Built | None, str]:
    """Return (NumPy's call, ""), or (None, the reason why NumPy is not measured). NumPy's result is
    compared with PyTorch's, except for a case with `agree`, whose results are not determined."""
    if not case.call.numpy:
        return None, "it has no such function"
    try:
        built = of_numpy(case, arrays)
        found, taken_s = _timed(built.side)
    except ImportError as error:
        return None, str(error)
    if taken_s > NUMPY_S:
        return None, f"a call takes longer than {NUMPY_S} s"
    if not case.call.agree:
        for x, y in zip(_leaves(found), _leaves(expected)):
            _same_as_numpys(np.asarray(x), _array(y), case.call.rtol or 1e-3)
    return built, ""


def _same_as_numpys(x: Any, y: Any, rtol: float) -> None:
    """Raise Differs unless NumPy's result equals PyTorch's. The dtypes may differ."""
    if x.dtype.kind == "O":
        return
    if x.size != y.size:
        raise Differs(f"NumPy's call gives the shape {x.shape}, PyTorch's {y.shape}")
    _near(x.reshape(y.shape), y, max(rtol, RTOL.get(x.dtype.name, 0.0)))


def _torch_threads(torch: Any, side: Side) -> int:
    """Set PyTorch to 1 or THREADS threads, whichever makes the call faster, and return the number.
    For a call that takes longer than SHORT_S, the number is THREADS.

    Some of PyTorch's functions use a second thread for 1,000 elements, which may take longer than
    the work itself.
    """
    best = {}
    for count in (1, THREADS):
        torch.set_num_threads(count)
        side()
        taken_s = timing.call_s(side)
        if taken_s > SHORT_S:
            break
        best[count] = timing.alternate([side], 5, round_ms=0.3)[0].best_ns
    chosen = min(best, key=best.__getitem__) if len(best) > 1 else THREADS
    torch.set_num_threads(chosen)
    return chosen


def _timed(side: Side) -> tuple[Any, float]:
    begin = time.perf_counter()
    return side(), time.perf_counter() - begin


def _samples(sides: list[Side], rounds: int | None, all_s: float) -> list[timing.Sample]:
    """Time the calls alternately. all_s: the total seconds of single calls of all libraries."""
    if all_s > LONG_S:
        return timing.alternate(
            sides,
            min(rounds or 3, 3),
            counts=[1] * len(sides),
            round_ms=1e3 * LONG_S,
            rest_s=timing.REST_S,
        )
    if rounds is not None:
        return timing.alternate(sides, rounds, rest_s=timing.REST_S)
    end = time.monotonic() + LIMIT_S
    return timing.alternate(
        sides, ROUNDS, rest_s=timing.REST_S,
        until=lambda samples: len(samples[0].ns) >= LEAST_ROUNDS and time.monotonic() > end,
    )  # fmt: skip


def effective_capability() -> str:
    """Return the CPU capability of gputensor's kernels, or `default` for versions of gputensor that
    have only one capability."""
    cpu = getattr(getattr(gt, "backends", None), "cpu", None)
    get = getattr(cpu, "get_cpu_capability", None)
    return "default" if get is None else str(get()).lower()
