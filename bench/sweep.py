"""All operators that PyTorch also has, by family, size and dtype, compared with PyTorch and NumPy.

`sweep_cases` makes the calls. A call slower than half of PyTorch's speed needs a reason in
`REASONS`.
"""

from __future__ import annotations

import contextlib
import random
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

import gputensor as gt

from .measurement import peers, timing
from .records import tables
from .sweep_cases import SIZES, Case, arguments, cases

NAME = "sweep"
THREADS = 2
GOAL = {"numpy": 1.0, "torch": 0.7}
# A case needs a reason if PyTorch's time / ours is lower than this number.
BELOW = 0.5
# If a call takes longer than this number of seconds, it is not measured at larger sizes.
LONGEST_S = 0.5
# If single calls of all libraries take more than this number of seconds in total, each library is
# called three times. Otherwise rounds are measured until the requested number or twice this time is
# reached.
_LONG_S = 0.05
# While the benchmark runs, it writes its record at intervals of this number of seconds.
_NOTE_S = 30.0
# A case, such as an outer product, is excluded if its result has more elements than this multiple
# of the case's size.
_MOST_TIMES = 4

# Operators whose results are not compared. The results of most of these operators are not
# determined: the order of equal elements, the signs of vectors or the order of writes may differ.
# For grid_sampler_2d and for histc in f16, results differ because PyTorch first rounds grid
# positions and bin edges.
OPEN = {
    "argsort", "grid_sampler_2d", "histc float16", "kthvalue", "linalg_eig", "linalg_eigh",
    "linalg_eigvals", "linalg_svd", "mode", "put", "sort", "svd",
}  # fmt: skip
# Maps (name, condition) to the reason why such cases take more than twice PyTorch's time. name: an
# operator, a family, or "" for all operators. condition: a dtype, "small", or "" for all cases.
REASONS: dict[tuple[str, str], str] = {
    ("", "small"): "a call from Python costs more than PyTorch's from C++",
    ("", "complex64"): "the loop computes one complex number at a time",
    ("", "float16"): "the loop computes in f32, in blocks",
    ("addbmm", "int64"): "NumPy multiplies integer matrices",
    ("addr", ""): "the outer product is computed before self is added",
    ("batched", ""): "OpenBLAS compared with MKL",
    ("bits", ""): "several operators, each of which writes a tensor",
    ("calculus", ""): "several operators, each of which writes a tensor",
    ("conv", "int64"): "integers have no vectorised loop",
    ("diag", ""): "few elements are copied: the cost is that of the call",
    ("equal", ""): "PyTorch stops at the first elements that differ",
    ("erfinv", ""): "MKL's vectorised function; ours computes in f64",
    ("factor", ""): "LAPACK of OpenBLAS compared with MKL",
    ("fft", ""): "pocketfft in one thread, compared with MKL",
    ("linalg", ""): "LAPACK of OpenBLAS compared with MKL",
    ("matmul", ""): "OpenBLAS compared with MKL",
    ("hardtanh", "int64"): "a float bound of integers: NumPy's loop",
    ("mode", ""): "each row is sorted",
    ("order", "int64"): "integers of 64 bits are partitioned by NumPy",
    ("pool", "int64"): "integers have no vectorised loop",
    ("products", ""): "OpenBLAS compared with MKL",
    ("solve", ""): "LAPACK of OpenBLAS compared with MKL",
    ("special", ""): "SciPy's function computes one element at a time",
    ("slicing", ""): "views: the cost is that of the call",
    ("spectrum", ""): "LAPACK of OpenBLAS compared with MKL",
    ("threshold", "int64"): "a float bound of integers: NumPy's loop",
    ("type_as", ""): "nothing is computed: the cost is that of the call",
    ("unique", ""): "several passes, and a stable sort in one thread",
    ("upsample", ""): "the loop interpolates one dimension after the other",
}


# --- sides ----------------------------------------------------------------------------------------

# Maps our name to NumPy's name. All other operators have the same name in NumPy.
_NUMPY = {
    "sub": "subtract", "mul": "multiply", "div": "divide", "neg": "negative", "eq": "equal",
    "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
    "mm": "matmul", "bmm": "matmul", "mv": "matmul", "remainder": "mod", "sgn": "sign",
    "special_i0": "i0", "round": "round", "clone": "copy", "cat": "concatenate",
}  # fmt: skip


Given = tuple[list[Any], dict[str, Any]]
# (module of both libraries, prefix that the operators of its functions have).
_MODULES = (
    ("nn.functional.", ""), ("", ""), ("special.", "special_"), ("linalg.", "linalg_"),
    ("fft.", "fft_"), ("Tensor.", ""),
)  # fmt: skip


def _callees(case: Case, torch: Any) -> Iterator[tuple[Callable[..., Any], Callable[..., Any]]]:
    """Return pairs (ours, PyTorch's) of functions that call the case's operator. Public functions
    and methods come before the overload in `ops.aten`."""
    base, _, overload = case.op.partition(".")
    paths = [
        module + base.removeprefix(prefix)
        for module, prefix in _MODULES if base.startswith(prefix)
    ]  # fmt: skip
    for path in (*paths, f"ops.aten.{base}.{overload or 'default'}"):
        with contextlib.suppress(AttributeError):
            yield attrgetter(path)(gt), attrgetter(path)(torch)


def _sides(
    case: Case, given: Given, ours: Callable[..., Any], theirs: Callable[..., Any], torch: Any
) -> dict[str, Callable[[], Any]]:
    """Return a dict from library to a call of the case."""
    args, kwargs = given
    base = case.op.partition(".")[0]
    sides = {
        "gputensor": _bound(ours, gt.from_numpy, args, kwargs),
        "torch": _bound(theirs, torch.from_numpy, args, kwargs),
    }
    function = getattr(np, _NUMPY.get(base, base), None)
    if function is not None and not kwargs and len(args) <= 3:
        axis = [a.name for a in case.operator.schema.arguments][: len(args)]
        if "dim" in axis:
            at = axis.index("dim")
            value = args[at] if not isinstance(args[at], list) else tuple(args[at])
            rest = [x for i, x in enumerate(args) if i != at]
            sides["numpy"] = lambda: function(*rest, axis=value)
        else:
            sides["numpy"] = lambda: function(*args)
    return sides


def _copied(side: Callable[[], Any]) -> tuple[Callable[[], Any], float]:
    """Return (NumPy's call, seconds of one call). If the result is a view, the returned call also
    copies it."""
    made, taken_s = _timed(side)
    if isinstance(made, np.ndarray) and made.base is not None:
        return lambda: side().copy(), taken_s
    return side, taken_s


def _makes_far_more(case: Case, given: Given, torch: Any) -> bool:
    """Return True if the result is much larger than the operands. The result's size is found by a
    call with PyTorch's meta tensors."""
    base, _, overload = case.op.partition(".")
    theirs = getattr(getattr(torch.ops.aten, base), overload or "default")
    on_meta = _bound(theirs, lambda x: torch.from_numpy(x).to("meta"), *given)
    try:
        made = on_meta()
    except Exception:  # the result's size depends on values, and is at most the operands' size
        return False
    results = made if isinstance(made, (tuple, list)) else [made]
    count = sum(x.numel() for x in results if hasattr(x, "numel"))
    return bool(count > _MOST_TIMES * max(case.size, 1 << 10))


def _bound(function: Any, enter: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    def entered(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return enter(x)
        return [entered(y) for y in x] if isinstance(x, list) else x

    given = [entered(x) for x in args]
    named = {name: entered(x) for name, x in kwargs.items()}
    return lambda: function(*given, **named)


def _agree(ours: Any, theirs: Any, dtype: str) -> bool:
    """Return True if floating results are close and other results are equal. Of a large floating
    result, only a sample is compared."""
    if isinstance(ours, (tuple, list)):
        return all(_agree(x, y, dtype) for x, y in zip(ours, theirs))
    if not isinstance(ours, gt.Tensor):
        return bool(ours == theirs)
    if ours.dtype is gt.complex32:  # NumPy has no complex32
        ours, theirs = gt.view_as_real(ours), peers.torch("cpu").view_as_real(theirs)
    x, y = ours.numpy(), theirs.resolve_conj().numpy()
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype.kind not in "fc":
        return bool((x == y).all())
    step = x.size // SIZES[2] | 1  # odd, so that all columns are sampled
    x, y = x.reshape(-1)[::step], y.reshape(-1)[::step]
    rtol = 2e-2 if dtype == "float16" else 1e-2
    atol = 1e-3 * max(1.0, float(np.abs(y).max(initial=0.0)))
    return bool(np.isclose(x, y, rtol, atol, equal_nan=True).all())


# PyTorch's errors for a dtype, sizes or arguments that a function does not take.
_REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)


# --- run ------------------------------------------------------------------------------------------


def run(
    device: str = "cpu", rounds: int = 7, libraries: Sequence[str] = ("torch", "numpy"),
    scale: int = 1, families: Sequence[str] = (), sample: int = 0, only: Sequence[int] = (),
    note: Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Measure all cases, or some of them. Needs PyTorch, whose results and times are compared with
    ours.

    sample: the number of cases to draw from `families`; it always draws the same cases. note:
    called with the data from time to time and at the end, even after an interrupt.
    """
    torch = peers.torch("cpu")
    data: dict[str, Any] = {
        "benchmark": NAME, "device": "cpu", "cases": [], "peers": [*libraries], "threads": THREADS,
        "failed": {}, "skipped": {}, "refused": [], "too_long": {}, "not_here": {}, "count": 0,
    }  # fmt: skip
    if torch is None or gt.device(device).type != "cpu":
        why = peers.why_not("torch", "cpu") if torch is None else "this benchmark is the CPU's"
        return data | {"skipped": dict.fromkeys(libraries, why)}
    there = cases(torch, scale)
    data["count"] = len(there)
    if families:
        there = [c for c in there if {c.family, c.operator.short_name} & set(families)]
    if only:
        there = [c for c in there if c.number in set(only)]
    if 0 < sample < len(there):
        there = sorted(random.Random(0).sample(there, sample), key=lambda case: case.number)
    before = gt.get_num_threads()
    gt.set_num_threads(THREADS)
    peers.set_threads("torch", THREADS)
    noted = time.monotonic()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # peers warn of deprecated functions
            for case in timing.progress(there, lambda case: case.name):
                _measure(case, torch, libraries, rounds, data)
                if note is not None and time.monotonic() > noted + _NOTE_S:
                    note(data)
                    noted = time.monotonic()
    finally:
        gt.set_num_threads(before)
        if note is not None:
            note(data)
    return data


def _measure(
    case: Case, torch: Any, libraries: Sequence[str], rounds: int, data: dict[str, Any]
) -> None:
    begin = time.monotonic()
    try:
        given = arguments(case)
        if given is None or _makes_far_more(case, given, torch):
            data["refused"].append(case.number)
            return
    except _REFUSALS:
        data["refused"].append(case.number)
        return
    for callee, peer in _callees(case, torch):
        sides = _sides(case, given, callee, peer, torch)
        with contextlib.suppress(*_REFUSALS):
            expected, torch_s = _timed(sides["torch"])
            break
    else:
        data["refused"].append(case.number)  # PyTorch rejects this dtype or these sizes
        return
    try:
        found, ours_s = _timed(sides["gputensor"])
        name = case.operator.short_name
        is_open = name in OPEN or f"{name} {case.dtype}" in OPEN
        is_open |= "nondeterministic_seeded" in case.operator.tags
        if not is_open and not _agree(found, expected, case.dtype):
            data["failed"][case.name] = "it differs from PyTorch's"
            return
    except gt.GpuTensorError as error:  # a dtype that PyTorch accepts and gputensor does not
        data["refused"].append(case.number)
        data["not_here"][case.name] = str(error).splitlines()[0]
        return
    except Exception as error:
        data["failed"][case.name] = str(error).splitlines()[0]
        return
    del found, expected
    if max(ours_s, torch_s) > LONGEST_S:
        data["refused"].append(case.number)
        data["too_long"][case.name] = torch_s / ours_s
        return
    numpy_s, why = 0.0, "it has no such function"
    if "numpy" in sides:
        try:
            sides["numpy"], numpy_s = _copied(sides["numpy"])
        except (TypeError, ValueError, AttributeError):
            del sides["numpy"]
    if numpy_s > LONGEST_S:
        del sides["numpy"]
        numpy_s, why = 0.0, f"a call takes longer than {LONGEST_S} s"
    kept = {name: side for name, side in sides.items() if name in ("gputensor", *libraries)}
    samples = dict(zip(kept, _samples([*kept.values()], rounds, ours_s + torch_s + numpy_s)))
    ours = samples["gputensor"]
    data["cases"].append({
        "number": case.number, "name": case.name, "kind": case.family, "op": case.op,
        "dtype": case.dtype, "size": case.size,
        "ns": {name: s.median_ns for name, s in samples.items()},
        "quartiles_ns": {name: s.quartiles_ns for name, s in samples.items()},
        "ratio": {n: timing.ratio(s, ours) for n, s in samples.items() if s is not ours},
        "skipped": {} if "numpy" in kept else {"numpy": why},
        "took_s": round(time.monotonic() - begin, 3),
    })  # fmt: skip


def _timed(side: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.perf_counter()
    return side(), time.perf_counter() - begin


def _samples(sides: list[Callable[[], Any]], rounds: int, all_s: float) -> list[timing.Sample]:
    """Time the calls alternately. all_s: the total seconds of single calls of all libraries."""
    if all_s > _LONG_S:
        return timing.alternate(
            sides,
            min(rounds, 3),
            counts=[1] * len(sides),
            round_ms=1e3 * _LONG_S,
            rest_s=timing.REST_S,
        )
    end = time.monotonic() + 2 * _LONG_S
    return timing.alternate(
        sides, rounds, round_ms=0.5, rest_s=timing.REST_S,
        until=lambda samples: len(samples[0].ns) >= 3 and time.monotonic() > end,
    )  # fmt: skip


# --- report ---------------------------------------------------------------------------------------


def report(data: dict[str, Any]) -> str:
    """Return geometric means by family, size and dtype, and the calls below half of PyTorch's
    speed."""
    shown = data["peers"]
    head = ["operators", "cases", *(f"× {tables.NAMES[p]}" for p in shown)]
    rows = [_row(f"**{what}**" if what == "all" else what, of, shown) for what, of in _groups(data)]
    parts = [tables.table(head, rows, left=1)]
    slow = sorted(_slow(data), key=lambda c: c["ratio"]["torch"])
    if slow:
        lines = [
            [c["op"], c["dtype"], str(c["size"]), f"{c['ratio']['torch']:.2f}", reason(c)]
            for c in slow
        ]
        title = [f"below {BELOW} × PyTorch", "dtype", "elements", "× PyTorch", "reason"]
        parts.append(tables.table(title, lines, left=2))
    notes = [f"{THREADS} threads each; × is how many times as long the peer takes."]
    notes += [f"No figures: {name} ({why})." for name, why in data.get("failed", {}).items()]
    notes += [f"Skipped: {tables.NAMES[p]} ({why})." for p, why in data["skipped"].items()]
    notes += [f"PyTorch's alone: {name} ({why})." for name, why in data["not_here"].items()]
    notes += [
        f"Longer than {LONGEST_S} s a call, so at smaller sizes alone: {name} (× {ratio:.2f})."
        for name, ratio in data["too_long"].items()
    ]
    return "\n\n".join([*parts, "\n".join(f"- {line}" for line in notes)])


def _groups(data: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    for key in ("kind", "size", "dtype"):
        by: defaultdict[Any, list[Any]] = defaultdict(list)
        for case in data["cases"]:
            by[case[key]].append(case)
        for what, of in sorted(by.items()):
            yield f"{what} elements" if key == "size" else str(what), of
    yield "all", data["cases"]


def _row(what: str, of: list[Any], shown: list[str]) -> list[str]:
    means = [_mean(of, peer) for peer in shown]
    return [what, str(len(of)), *(tables.NO_FIGURE if m is None else f"{m:.2f}" for m in means)]


def _mean(of: list[Any], peer: str) -> float | None:
    ratios = [c["ratio"][peer] for c in of if peer in c["ratio"]]
    return timing.geomean(ratios) if ratios else None


def _slow(data: dict[str, Any]) -> list[Any]:
    return [c for c in data["cases"] if c["ratio"].get("torch", 1.0) < BELOW]


def reason(case: dict[str, Any]) -> str:
    """Look up the reason why a case is slow, by operator, family, dtype or size. Return "" if there
    is none."""
    is_small = "small" if case["size"] <= SIZES[1] else ""
    for of in (case["op"], case["op"].partition(".")[0], case["kind"], ""):
        for what in (case["dtype"], is_small, ""):
            if (of, what) in REASONS and (of or what):
                return REASONS[of, what]
    return ""


def summary(data: dict[str, Any]) -> dict[str, Any]:
    means = {f"geomean_vs_{peer}": _mean(data["cases"], peer) for peer in data["peers"]}
    return {name: mean for name, mean in means.items() if mean is not None}


def failures(data: dict[str, Any]) -> list[str]:
    """Return the goals that are not met, and the slow cases without a reason."""
    found = []
    for peer, goal in GOAL.items():
        mean = _mean(data["cases"], peer)
        if mean is not None and mean < goal:
            found.append(f"{mean:.2f} times as fast as {tables.NAMES[peer]}, below {goal}")
    unknown = [c["name"] for c in _slow(data) if not reason(c)]
    if unknown:
        found.append(f"{len(unknown)} slow cases have no reason, such as {unknown[0]}")
    return found
