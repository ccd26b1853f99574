"""Common code of the copy benchmarks `layout` and `pack`: measurement, results and tables.

These two modules define the copies. A Session measures each copy alternately with other libraries
and memcpy.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

import gputensor as gt

from ..measurement import gpu_state, graphs, nvml, peers, timing
from ..measurement.places import WrongResult
from . import layout_sides

# Number of threads that each library uses on the CPU.
THREADS = 2
# Budgets on the CPU: geometric mean and lowest value of PyTorch's time / ours, geometric mean of
# NumPy's time / ours. Cases that write fewer than CPU_FROM_BYTES bytes do not count.
CPU_TORCH, CPU_WORST_TORCH, CPU_NUMPY, CPU_FROM_BYTES = 2.4, 0.9, 4.5, 1 << 20
# Budgets on CUDA: geometric mean and lowest value of our speed / memcpy's speed in the same run,
# geometric means of our speed / PyTorch's and our speed / CuPy's, and the lowest value of the last
# two ratios.
CUDA_SHARE, CUDA_WORST_SHARE, CUDA_TORCH, CUDA_CUPY, CUDA_WORST_PEER = 0.88, 0.60, 2.0, 2.5, 0.97
# If a copy is faster than the best memcpy of the same size by more than this factor, the
# measurement is wrong. The factor is higher for broadcasts, which write more than they read, and on
# a CPU, whose clock and caches vary.
ROOFLINE = {"cpu": 2.0, "cuda": 1.10, "broadcast": 3.0}
# Measurement of a case ends when its ratios have the relative accuracy NOISE, or after MOST
# (rounds, seconds).
NOISE = 0.005
MOST = {"cpu": (30, 6.0), "cuda": (30, 2.0)}
# The heading in tables and plots for cases that are excluded from the means.
LEFT_OUT = "in no mean"
# Milliseconds of a round. On a CPU rounds are short, so that other processes disturb few of them.
# On a GPU a round takes much longer than the recording of an event.
ROUND_MS = {"cpu": 1.0, "cuda": 5.0}
# A peer is not measured if one of its copies takes longer than this number of seconds.
SLOWEST_S = 2.0
# The least and the greatest number of buffer pairs that are used in turn on a GPU.
PAIRS = (3, 256)
# The L2 cache of an H200, the largest known, is assumed for GPUs of unknown L2 size.
L2_BYTES = 60 << 20

T = TypeVar("T")
Note = Callable[[dict[str, Any]], None]


class Skipped(Exception):
    """Exception for a library that cannot be measured in a case. Its text is the reason."""


class Session:
    """One run of a benchmark: the device, the available peers, and how long to measure."""

    def __init__(
        self, name: str, device: str, wanted: Iterable[str], rounds: int | None, scale: int = 1,
        note: Note | None = None,
    ) -> None:  # fmt: skip
        self.name, self.device, self.rounds, self.note = name, device, rounds, note
        self.scale = scale
        self.cases: list[dict[str, Any]] = []
        self.failed: dict[str, str] = {}
        self.kind = device.partition(":")[0]
        self.on_gpu = self.kind == "cuda" and not gt.cuda.is_emulated()
        if self.kind == "cpu":
            gt.set_num_threads(THREADS)
        wanted = tuple(wanted)
        self.peers = [name for name in wanted if peers.find(name, device) is not None]
        self.skipped = {
            name: peers.why_not(name, device) for name in wanted if name not in self.peers
        }
        for peer in self.peers if self.kind == "cpu" else ():
            peers.set_threads(peer, THREADS)

    def each(
        self, cases: Sequence[T], only: tuple[int, ...], title: Callable[[T], str],
        measure: Callable[[int, T, Session], dict[str, Any]],
    ) -> dict[str, Any]:  # fmt: skip
        """Measure all cases and return the record's data. A case that fails does not stop the
        others.

        Raises: the first exception if all cases fail.
        """
        first: Exception | None = None
        numbered = [(n, case) for n, case in enumerate(cases, 1) if not only or n in only]
        for number, case in timing.progress(numbered, lambda pair: title(pair[1])):
            try:
                self.cases.append(measure(number, case, self))
            except Exception as error:
                traceback.print_exc()
                # the traceback would keep the case's arrays alive
                first = first or error.with_traceback(None)
                self.failed[title(case)] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            if self.cases and self.note is not None:
                self.note(self.data())
        if first is not None and not self.cases:
            raise first
        return self.data()

    def measure(
        self, place: Any, make: Callable[[str], Any], verify: Callable[[Any, str], None],
        moved: int, sectors: int, limit: str,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the measurements of a case.

        make: a library's name -> its callable, or the reason why it has none. verify: called with
        (callable, name); raises WrongResult for a wrong copy. moved, sectors: bytes. limit: a key
        of ROOFLINE.
        """
        ours = make("gputensor")
        verify(ours, "gputensor")
        sides, skipped = {"gputensor": ours}, {}
        for name in self.peers:
            try:
                sides[name] = self._peer(place, make(name), verify, name)
            except Skipped as reason:
                skipped[name] = str(reason)
        pairs = buffers(self.kind, moved, self.device)
        plain = layout_sides.memcpys(place, moved, pairs)
        sides |= {"again": ours, **plain}
        clock, bound_by = place.clock, None
        if place.clock is not None and moved < graphs.BELOW_BYTES:
            try:
                sides = graphs.replays(sides, pairs, self.device)
                clock = lambda side, count: place.clock(side, count) / pairs  # noqa: E731
            except graphs.NotRecorded as reason:
                bound_by = f"a launch, since its copies are in no graph ({reason})"
        watch = gpu_state.Watch(_nvml(place), peers.bus_id(self.device))
        rounds, limit_s = MOST[self.kind]
        samples = timing.alternate(
            list(sides.values()), self.rounds or rounds, ROUND_MS[self.kind], place.finish, clock,
            until=None if self.rounds else timing.steady(NOISE, limit_s), is_fair=watch.is_fair,
            rest_s=timing.REST_S if self.kind == "cpu" else 0.0,
        )  # fmt: skip
        verify(sides["gputensor"], "gputensor, afterwards,")
        found = row(dict(zip(sides, samples)), list(plain), moved, sectors, limit)
        found |= {
            "pairs": pairs,
            "is_replayed": sides["gputensor"] is not ours,
            "bound_by": bound_by,
        }
        return found | {"skipped": skipped, "state": watch.state()}

    def _peer(self, place: Any, side: Any, verify: Callable[[Any, str], None], name: str) -> Any:
        if isinstance(side, str):
            raise Skipped(side)
        try:
            verify(side, name)
            taken_s = timing.call_s(side, place.finish)
        except WrongResult:
            raise
        except Exception as error:  # a failure of a peer must not end the benchmark
            raise Skipped(f"{type(error).__name__}: {error}".splitlines()[0][:200]) from None
        if taken_s > SLOWEST_S:
            raise Skipped(f"one copy takes {taken_s:.0f} s")
        return side

    def data(self) -> dict[str, Any]:
        """Return the record's data from the cases measured so far."""
        data: dict[str, Any] = {
            "benchmark": self.name, "device": self.device, "peers": self.peers,
            "skipped": self.skipped,
            "threads": THREADS if self.kind == "cpu" else None,
            "cases": list(self.cases),
            "failed": dict(self.failed),
            "is_emulated": self.kind != "cpu" and bool(gt.cuda.is_emulated()),
        }  # fmt: skip
        data["summary"] = summary(data)
        return data


def runner(
    name: str, peers_of: tuple[str, ...], cases: Callable[[Session], Sequence[T]],
    title: Callable[[T], str], measure: Callable[[int, T, Session], dict[str, Any]],
    absent: Mapping[str, str] = MappingProxyType({}),
) -> Callable[..., dict[str, Any]]:  # fmt: skip
    """Return the function `run` of a copy benchmark.

    measure: (number, case, session) -> measurements. absent: library without such copies -> reason.
    """

    def run(
        device: str = "cpu", rounds: int | None = None, only: tuple[int, ...] = (),
        libraries: tuple[str, ...] | None = None, scale: int = 1, note: Note | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Measure all cases and return the record's data.

        rounds: number of rounds; None measures until the result is accurate. only: numbers of
        cases. libraries: the peers. scale: divides the sizes, for tests. note: called after each
        case with the data so far.
        """
        wanted = peers_of if libraries is None else libraries
        session = Session(name, device, wanted, rounds, scale, note)
        session.skipped |= absent
        return session.each(cases(session), only, title, measure)

    return run


def buffers(kind: str, moved: int, device: str = "cuda") -> int:
    """Return the number of buffer pairs. On a GPU all pairs together have twice the size of the L2
    cache, so that copies do not read from the cache."""
    if kind != "cuda" or gt.cuda.is_emulated():
        return 1
    least, most = PAIRS
    filling = -(-2 * (peers.l2_bytes(device) or L2_BYTES) // max(1, moved))
    return max(least, min(most, filling))


def _nvml(place: Any) -> nvml.Device | None:
    bus_id = peers.bus_id(place.device)
    try:
        return None if bus_id is None else nvml.Device(bus_id)
    except nvml.Absent:
        return None


def row(
    samples: dict[str, timing.Sample], plain: list[str], moved: int, sectors: int, limit: str
) -> dict[str, Any]:
    """Return the record's entry for a case. limit: a key of ROOFLINE, whose value bounds the speed
    relative to memcpy's best round."""
    ours = samples["gputensor"]
    memcpy = min((samples[name] for name in plain), key=lambda s: s.median_ns)
    best = min(samples[name].best_ns for name in plain)
    peers_of = [n for n in samples if n not in ("gputensor", "again", *plain)]
    return {
        "bytes": moved, "sector_bytes": sectors,
        "ns": {n: s.median_ns for n, s in samples.items()},
        "quartiles_ns": {n: s.quartiles_ns for n, s in samples.items()},
        "samples_ns": {n: s.ns for n, s in samples.items()},
        "gb_per_s": {n: moved / s.median_ns for n, s in samples.items()},
        "memcpy_gb_per_s": moved / memcpy.median_ns,
        "share_of_memcpy": timing.ratio(memcpy, ours),
        "share_of_sectors": timing.ratio(memcpy, ours) * sectors / moved,
        "ratio": {n: timing.ratio(samples[n], ours) for n in peers_of},
        "again": timing.ratio(samples["again"], ours),
        "above_roofline": [
            n for n in samples if n not in plain and samples[n].median_ns * ROOFLINE[limit] < best
        ],
        "verified": True,
    }  # fmt: skip


# --- totals ---------------------------------------------------------------------------------------


def counted(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cases that count in means: on the CPU, cases that write at least 1 MiB; on a GPU,
    cases whose time is not dominated by the launch. If there is no such case, return all cases."""
    if data["device"] != "cpu":
        return [c for c in data["cases"] if not c.get("bound_by")] or data["cases"]
    return [c for c in data["cases"] if c["bytes"] >= 2 * CPU_FROM_BYTES] or data["cases"]


def groups(data: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return a dict from kind to cases. The last key, LEFT_OUT, contains the cases that are
    excluded from the means."""
    inside = counted(data)
    found: dict[str, list[dict[str, Any]]] = {}
    for case in inside:
        found.setdefault(case["kind"], []).append(case)
    outside = [c for c in data["cases"] if not any(c is other for other in inside)]
    return found | ({LEFT_OUT: outside} if outside else {})


def summary(data: dict[str, Any]) -> dict[str, Any]:
    cases = counted(data)
    found: dict[str, Any] = totals(cases, data["peers"]) | {
        "again": timing.geomean(c["again"] for c in cases),
        "noise": float(np.median([_spread(c) for c in cases])),
    }
    found["by_kind"] = {
        kind: totals(of, data["peers"]) for kind, of in groups(data).items() if kind != LEFT_OUT
    }
    return found


def totals(cases: list[dict[str, Any]], names: Iterable[str]) -> dict[str, Any]:
    """Return the geometric means and the worst results of these cases."""
    plain = [c["share_of_memcpy"] for c in cases]
    adjusted = [of_sectors(c) for c in cases]
    found: dict[str, Any] = {
        "cases": len(cases),
        "geomean_share_of_memcpy": timing.geomean(plain), "worst_share_of_memcpy": min(plain),
        "geomean_share_of_sectors": timing.geomean(adjusted),
        "worst_share_of_sectors": min(adjusted),
    }  # fmt: skip
    for peer in names:
        ratios = [c["ratio"][peer] for c in cases if peer in c["ratio"]]
        if ratios:
            found[f"geomean_vs_{peer}"], found[f"worst_vs_{peer}"] = (
                timing.geomean(ratios),
                min(ratios),
            )
    return found


def of_sectors(case: dict[str, Any]) -> float:
    """Return a copy's speed divided by memcpy's. For a case of kind `sectors`, the copy's speed
    counts the bytes of all memory sectors that the copy touches."""
    return float(case["share_of_sectors" if case["kind"] == "sectors" else "share_of_memcpy"])


def _spread(case: dict[str, Any]) -> float:
    low, high = case["quartiles_ns"]["gputensor"]
    return float((high - low) / case["ns"]["gputensor"])


def impossible(data: dict[str, Any]) -> list[str]:
    """Return a sentence for each case in which a library is faster than the memory allows."""
    if data["is_emulated"]:
        return []
    return [
        f"{c['name']}: {', '.join(c['above_roofline'])} is faster than memory allows"
        for c in data["cases"] if c["above_roofline"]
    ]  # fmt: skip


def failures(data: dict[str, Any]) -> list[str]:
    """Return a sentence for each budget that the data misses."""
    total = data["summary"]
    if data["is_emulated"]:
        return []
    limits: list[tuple[str, float]]
    if data["device"] == "cpu":
        limits = [
            ("geomean_vs_torch", CPU_TORCH), ("worst_vs_torch", CPU_WORST_TORCH),
            ("geomean_vs_numpy", CPU_NUMPY),
        ]  # fmt: skip
    else:
        limits = [
            ("geomean_share_of_sectors", CUDA_SHARE), ("worst_share_of_sectors", CUDA_WORST_SHARE),
            ("geomean_vs_torch", CUDA_TORCH), ("geomean_vs_cupy", CUDA_CUPY),
            ("worst_vs_torch", CUDA_WORST_PEER), ("worst_vs_cupy", CUDA_WORST_PEER),
        ]  # fmt: skip
    return [
        f"{name.replace('_', ' ')} {total[name]:.2f} is below {limit}"
        for name, limit in limits if name in total and total[name] < limit
    ]  # fmt: skip
