"""Layout copies: the 38 cases of `layout_cases.py` against the peers and memcpy, in turns.

Every output is poisoned before a library's first copy and compared with NumPy's after it, and once
more after all rounds. A figure above the roofline is an error: it says that something was not
measured. `gputensor` is measured twice (the second time as `again`): what the two differ by is the
noise of the run.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import gputensor as gt

from . import gpu_state, layout_sides, peers, timing
from .layout_cases import CASES, Case
from .layout_sides import Pair
from .places import WrongResult, numbers, place_for

NAME = "layout"
THREADS = 2
# What must hold. CPU: geometric mean against the peers over cases of at least 1 MiB, and the worst.
CPU_TORCH, CPU_NUMPY, CPU_WORST_NUMPY, CPU_FROM_BYTES = 1.0, 2.5, 0.95, 1 << 20
# CUDA: share of same-run memcpy, geometric mean and worst; against the peers.
CUDA_SHARE, CUDA_WORST_SHARE, CUDA_TORCH, CUDA_CUPY, CUDA_WORST_PEER = 0.88, 0.60, 2.0, 2.5, 0.97
# Nothing is copied faster than this times the best memcpy of the same size: beyond lies an error.
# Broadcasts write more than they read, which memory takes faster; a CPU's clock and caches waver.
ROOFLINE = {"cpu": 2.0, "cuda": 1.10, "broadcast": 3.0}
_SECTOR = 32


def run(
    device: str = "cpu", rounds: int | None = None, only: tuple[int, ...] = (),
    libraries: tuple[str, ...] | None = None, scale: int = 1,
) -> dict[str, Any]:  # fmt: skip
    """Measure; returns the data of the record. scale: divides the outermost sizes, for tests."""
    kind = device.partition(":")[0]
    place = place_for(device)
    if kind == "cpu":
        gt.set_num_threads(THREADS)
    wanted = layout_sides.PEERS[kind] if libraries is None else libraries
    present = [name for name in wanted if find(name, device) is not None]
    skipped = {name: peers.why_not(name, device) for name in wanted if name not in present}
    if kind == "cpu" and "torch" in present:
        peers.torch(device).set_num_threads(THREADS)
    cases = [c for c in CASES if not only or c.number in only]
    measured = [
        _measure(case, place, kind, present, rounds or (15 if kind == "cpu" else 20), scale)
        for case in timing.progress(cases, lambda c: c.title)
    ]
    data: dict[str, Any] = {
        "benchmark": NAME, "device": device, "peers": present, "skipped": skipped,
        "threads": THREADS if kind == "cpu" else None, "cases": measured,
        "is_emulated": is_emulated(device),
    }  # fmt: skip
    data["summary"] = summary(data)
    return data


def is_emulated(device: str) -> bool:
    return device != "cpu" and bool(gt.cuda.is_emulated())


def find(name: str, device: str) -> Any:
    """The module of a peer; None where it cannot take part."""
    if name == "numpy":
        return np if device == "cpu" else None
    if name == "torch.compile":
        return peers.torch(device) if device != "cpu" else None
    return getattr(peers, name)(device)


def _measure(
    case: Case, place: Any, kind: str, libraries: list[str], rounds: int, scale: int
) -> dict[str, Any]:
    shape = _shape(case, kind, scale)
    how = case.strided(shape)
    host = numbers(int(np.prod(shape)), case.source)
    view = _on_host(case, host, shape)
    expected = _expected(view, case.result)
    moved, sectors = bytes_of(case, view, expected.nbytes)
    # Three pairs of buffers on a GPU, so that no copy finds its source in the L2 cache.
    count = 3 if kind == "cuda" and moved >= 1 << 22 else 1
    pairs = [Pair(place, place.put(host), place.empty(expected.size, case.result), how) for _ in range(count)]
    right = place.put(expected)
    sides: dict[str, Any] = {}
    skipped = {}
    for name in ("gputensor", *libraries):
        made = layout_sides.side(name, case, pairs)
        if isinstance(made, str):
            skipped[name] = made
            continue
        _verify(place, pairs, made, right, f"{case.title}: {name}")
        sides[name] = made
    sides["again"] = sides["gputensor"]
    plain = layout_sides.memcpys(place, moved, count)
    sides |= plain
    samples = timing.alternate(
        list(sides.values()), rounds, 1.0 if kind == "cpu" else 5.0, place.finish, place.clock
    )
    by_name = dict(zip(sides, samples))
    _verify(place, pairs, sides["gputensor"], right, f"{case.title}: gputensor, afterwards")
    limit = kind if case.kind != "broadcast" else "broadcast"
    return row(by_name, list(plain), moved, sectors, limit) | {
        "number": case.number, "name": case.title, "kind": case.kind, "source": list(shape),
        "sizes": list(view.shape), "skipped": skipped, "state": gpu_state.now(place),
    }  # fmt: skip


def _shape(case: Case, kind: str, scale: int) -> tuple[int, ...]:
    shape = case.shape if kind == "cuda" and not gt.cuda.is_emulated() else case.cpu_shape
    return tuple(max(1, n // scale) if n > 16 else n for n in shape)


def _on_host(case: Case, host: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return case.view(host.reshape(shape))


def _expected(view: np.ndarray, result: np.dtype) -> np.ndarray:
    """NumPy's copy, flat; by parts on several threads, for it is the slowest thing here."""
    made = np.empty(view.shape, result)
    ends = np.linspace(0, view.shape[0], min(view.shape[0], 16) + 1).astype(int).tolist()
    with ThreadPoolExecutor() as pool:
        parts = [slice(*pair) for pair in zip(ends, ends[1:])]
        list(pool.map(lambda part: np.copyto(made[part], view[part], casting="unsafe"), parts))
    return made.reshape(-1)


def bytes_of(case: Case, view: np.ndarray, written: int) -> tuple[int, int]:
    """(bytes that a copy has to move, bytes of the memory sectors that it has to touch)."""
    unique = view.itemsize
    for n, stride in zip(view.shape, view.strides):
        unique *= n if stride else 1
    step = min((abs(s) for n, s in zip(view.shape, view.strides) if s and n > 1), default=view.itemsize)
    waste = max(1, min(step, _SECTOR) // view.itemsize)
    return written + unique, written + unique * waste


def _verify(place: Any, pairs: list[Pair], side: Any, expected: Any, what: str) -> None:
    for pair in pairs:
        place.poison(pair.result)
    for _ in pairs:
        side()
    for pair in pairs:
        if not place.equal(pair.result, expected):
            raise WrongResult(f"{what} is wrong")


def row(
    samples: dict[str, timing.Sample], plain: list[str], moved: int, sectors: int, limit: str
) -> dict[str, Any]:
    """The figures of a case. limit: which of ROOFLINE is held against the best round of memcpy."""
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


# --- what it adds up to ---------------------------------------------------------------------------


def counted(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The cases that means are taken over: on the CPU those that write at least 1 MiB."""
    if data["device"] != "cpu":
        return data["cases"]
    return [c for c in data["cases"] if c["bytes"] >= 2 * CPU_FROM_BYTES] or data["cases"]


def summary(data: dict[str, Any]) -> dict[str, Any]:
    cases = counted(data)
    shares = [_share(c) for c in cases]
    found: dict[str, Any] = {
        "cases": len(cases), "geomean_share_of_memcpy": timing.geomean(shares),
        "worst_share_of_memcpy": min(shares),
        "again": timing.geomean(c["again"] for c in cases),
        "noise": float(np.median([_spread(c) for c in cases])),
    }  # fmt: skip
    for peer in data["peers"]:
        ratios = [c["ratio"][peer] for c in cases if peer in c["ratio"]]
        if ratios:
            found[f"geomean_vs_{peer}"], found[f"worst_vs_{peer}"] = timing.geomean(ratios), min(ratios)
    kinds = dict.fromkeys(c["kind"] for c in cases)
    found["by_kind"] = {
        kind: timing.geomean(_share(c) for c in cases if c["kind"] == kind) for kind in kinds
    }
    return found


def _share(case: dict[str, Any]) -> float:
    """Of memcpy; where sectors bind, of what they allow."""
    return case["share_of_sectors"] if case["kind"] == "sectors" else case["share_of_memcpy"]


def _spread(case: dict[str, Any]) -> float:
    low, high = case["quartiles_ns"]["gputensor"]
    return (high - low) / case["ns"]["gputensor"]


def report(data: dict[str, Any]) -> str:
    """A Markdown table of the data."""
    shown = data["peers"]
    head = ["GB/s", "memcpy", "share", "of sectors", *[f"× {p}" for p in shown]]
    lines = [f"| {data['device']} | " + " | ".join(head) + " |", "|---|" + "---:|" * len(head)]
    for case in data["cases"]:
        cells = [
            f"{case['gb_per_s']['gputensor']:.1f}", f"{case['memcpy_gb_per_s']:.1f}",
            f"{case['share_of_memcpy']:.2f}", f"{case['share_of_sectors']:.2f}",
        ]  # fmt: skip
        cells += [f"{case['ratio'][p]:.2f}" if p in case["ratio"] else "–" for p in shown]
        lines.append(f"| {case['name']} | " + " | ".join(cells) + " |")
    total = data["summary"]
    means = [f"**{total[f'geomean_vs_{p}']:.2f}**" if f"geomean_vs_{p}" in total else "" for p in shown]
    share = f"**{total['geomean_share_of_memcpy']:.2f}**"
    lines.append(f"| geometric mean of {total['cases']} | | | {share} | | " + " | ".join(means) + " |")
    worst = [f"{total[f'worst_vs_{p}']:.2f}" if f"worst_vs_{p}" in total else "" for p in shown]
    lines.append(f"| worst | | | {total['worst_share_of_memcpy']:.2f} | | " + " | ".join(worst) + " |")
    lines += ["", f"Read and write in GB/s; `×` is how many times as long the peer takes. Against itself: "
              f"{total['again']:.3f}; median spread of rounds {100 * total['noise']:.0f} %."]  # fmt: skip
    if data["is_emulated"]:
        lines.append("Emulated: the times are those of the emulator on this CPU and say nothing of a GPU.")
    lines += [f"Skipped: {peer} ({why})." for peer, why in data["skipped"].items()]
    return "\n".join(lines)


def impossible(data: dict[str, Any]) -> list[str]:
    """Figures that say that something was not measured, a sentence each."""
    if data["is_emulated"]:
        return []
    return [
        f"{c['name']}: {', '.join(c['above_roofline'])} is faster than memory allows"
        for c in data["cases"] if c["above_roofline"]
    ]  # fmt: skip


def failures(data: dict[str, Any]) -> list[str]:
    """Which budgets the data misses, and what cannot be true, a sentence each."""
    total, found = data["summary"], impossible(data)
    if data["is_emulated"]:
        return []
    limits: list[tuple[str, float]]
    if data["device"] == "cpu":
        limits = [
            ("geomean_vs_torch", CPU_TORCH), ("geomean_vs_numpy", CPU_NUMPY),
            ("worst_vs_numpy", CPU_WORST_NUMPY),
        ]  # fmt: skip
    else:
        limits = [
            ("geomean_share_of_memcpy", CUDA_SHARE), ("worst_share_of_memcpy", CUDA_WORST_SHARE),
            ("geomean_vs_torch", CUDA_TORCH), ("geomean_vs_cupy", CUDA_CUPY),
            ("worst_vs_torch", CUDA_WORST_PEER), ("worst_vs_cupy", CUDA_WORST_PEER),
        ]  # fmt: skip
    found += [
        f"{name.replace('_', ' ')} {total[name]:.2f} is below {limit}"
        for name, limit in limits if name in total and total[name] < limit
    ]  # fmt: skip
    return found
