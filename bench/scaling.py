"""`python -m bench run scaling`: the same work on 1, 2 and 4 ranks, and on 1, 2 and 4 Dask workers.

The total work is constant, so with enough CPUs twice the number of processes could take half the
time. Each process has one thread. Each time is the best of several rounds, which alternate between
the numbers of processes. Needs `pip install 'gputensor[mpi,clients]'`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module, util
from pathlib import Path
from typing import Any

import gputensor as gt
import gputensor.distributed as dist

from .measurement import timing

NAME = "scaling"
PARTS = (1, 2, 4)
BUDGET = 0.9  # lower bound of mpi4py's time / ours, for 16 MiB between two ranks
NBYTES = 1 << 24
BATCH, WIDTH, SIDE, CHUNKS = 4096, 768, 2048, 32
TRAINING = f"training step, batch {BATCH}"
TRANSFORM = f"FFT of {SIDE} × {SIDE}"
OURS, THEIRS = "all_reduce of 16 MiB", "the same of mpi4py"
STATISTICS = f"mean and deviation of {CHUNKS} chunks"
PRODUCT = f"x.T @ x of {CHUNKS} chunks"
ALONE = {"OPENBLAS_NUM_THREADS": "1", "GPUTENSOR_NUM_THREADS": "1"}


def run(device: str = "cpu", rounds: int = 3, scale: int = 1) -> dict[str, Any]:
    """Measure all cases; return the record that `bench run` prints and writes."""
    kinds: dict[str, Callable[[int, int], dict[str, float]]] = {
        "ranks": _ranks,
        "workers": _workers,
    }
    wanted = {"ranks": ("mpi4py",), "workers": ("dask", "distributed")}
    skipped = {
        kind: f"{module} is not installed"
        for kind, modules in wanted.items()
        for module in modules
        if util.find_spec(module) is None
    }
    found: dict[str, dict[str, float]] = {}
    turns = [(kind, n) for _ in range(rounds) for kind in kinds for n in PARTS]
    for kind, n in timing.progress(turns, lambda turn: f"{turn[1]} {turn[0]}"):
        if kind not in skipped:
            best = found.setdefault(f"{n} {kind}", {})
            for name, ns in kinds[kind](n, scale).items():
                best[name] = min(ns, best.get(name, ns))
    cases = [{"name": name, "ns": ns} for name, ns in found.items()]
    return {
        "benchmark": NAME, "device": device, "cases": cases, "peers": [], "skipped": skipped,
        "budget": BUDGET, "scale": scale,
    }  # fmt: skip


# --- ranks ----------------------------------------------------------------------------------------


def _ranks(n: int, scale: int) -> dict[str, float]:
    """Start n ranks, which run `_rank`, and return their measurements."""
    here = str(Path(sys.executable).parent)
    launcher = shutil.which("mpiexec", path=f"{here}{os.pathsep}{os.environ.get('PATH', '')}")
    done = subprocess.run(
        [launcher or "mpiexec", "-n", str(n), sys.executable, "-m", "bench.scaling", str(scale)],
        cwd=Path(__file__).parents[1], env=os.environ | ALONE, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _rank(scale: int) -> None:
    """Measure all programs as one of the ranks. Rank 0 prints the nanoseconds."""
    dist.init_process_group()
    (training,), (transform,) = _best(5, _training(scale)), _best(5, _transform(scale))
    found = {TRAINING: training, TRANSFORM: transform}
    x = gt.ones(NBYTES // 4 // scale)
    if dist.get_world_size() > 1:
        mpi = import_module("mpi4py.MPI")
        array = x.numpy()
        found[THEIRS], found[OURS] = _best(
            30, lambda: mpi.COMM_WORLD.Allreduce(mpi.IN_PLACE, array), lambda: dist.all_reduce(x)
        )
    if dist.get_rank() == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


def _best(rounds: int, *calls: Callable[[], object]) -> list[float]:
    """Return the nanoseconds of each call in its fastest round. The calls alternate. All ranks
    start a call at the same time."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds + 1):
        for call, found in zip(calls, times):
            dist.barrier()
            start = time.perf_counter_ns()
            call()
            found.append(float(time.perf_counter_ns() - start))
    return [min(found[1:]) for found in times]  # skip the first calls, which make plans


def _training(scale: int) -> Callable[[], object]:
    """Return a training step of a perceptron on this rank's part of the batch."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    gt.manual_seed(1)
    model = gt.nn.Sequential(
        gt.nn.Linear(WIDTH, WIDTH), gt.nn.ReLU(), gt.nn.Linear(WIDTH, WIDTH), gt.nn.ReLU(),
        gt.nn.Linear(WIDTH, 10),
    )  # fmt: skip
    optimizer = gt.optim.SGD(model.parameters(), lr=0.01)
    averager = dist.GradientAverager(list(model.parameters()))
    x = gt.randn(BATCH // scale, WIDTH).tensor_split(ranks)[rank]

    def step() -> None:
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        averager.wait()
        optimizer.step()

    return step


def _transform(scale: int) -> Callable[[], object]:
    """Return a function that runs the Fourier transform of examples/fft_parallel.py."""
    x = gt.randn(SIDE // scale, SIDE // scale).tensor_split(dist.get_world_size())[dist.get_rank()]
    return lambda: gt.fft.fft(dist.redistribute(gt.fft.fft(x, dim=1), 0, 1), dim=0)


# --- workers --------------------------------------------------------------------------------------


def _workers(n: int, scale: int) -> dict[str, float]:
    """Measure two Dask programs, statistics and a product, on an array that the n workers
    create."""
    da, distributed = import_module("dask.array"), import_module("distributed")
    found = {}
    with (
        _environment(ALONE),
        distributed.LocalCluster(
            n_workers=n, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        array = da.map_blocks(
            _chunk,
            chunks=((2048,) * max(2, CHUNKS // scale), (512,)),
            dtype="f4",
            meta=gt.empty((0, 0)),
        )
        kept = client.persist(array)
        distributed.wait(kept)
        programs: dict[str, Callable[[], Any]] = {
            STATISTICS: lambda: da.compute(kept.mean(axis=0), kept.std(axis=0)),
            PRODUCT: lambda: (kept.T @ kept).compute(),
        }
        for name, program in programs.items():
            times = []
            for _ in range(4):
                start = time.perf_counter_ns()
                program()
                times.append(time.perf_counter_ns() - start)
            found[name] = float(min(times[1:]))
    return found


def _chunk(block_info: Any = None) -> gt.Tensor:
    generator = gt.Generator().manual_seed(block_info[None]["chunk-location"][0])
    return gt.randn(2048, 512, generator=generator)


class _environment:
    """Set environment variables for the processes that are started in the block."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names, self.before = names, dict[str, str | None]()

    def __enter__(self) -> None:
        self.before = {name: os.environ.get(name) for name in self.names}
        os.environ.update(self.names)

    def __exit__(self, *error: object) -> None:
        for name, value in self.before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# --- the table ------------------------------------------------------------------------------------


def _by_kind(record: dict[str, Any]) -> Iterator[tuple[str, str, dict[int, float]]]:
    """Yield (kind of processes, measured program, {number of processes: ns})."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for case in record["cases"]:
        n, kind = case["name"].split()
        for name, ns in case["ns"].items():
            found.setdefault((kind, name), {})[int(n)] = ns
    for (kind, name), ns_of in found.items():
        yield kind, name, ns_of


def report(record: dict[str, Any]) -> str:
    """Return a Markdown table of a record: times of one process, and speed-ups for more
    processes."""
    head = [f"{n} {'processes' if n > 1 else 'process'}" for n in PARTS]
    lines = [f"| | {' | '.join(head)} |", "|---|" + "---:|" * len(PARTS)]
    reduced: dict[str, dict[int, float]] = {}
    for kind, name, ns_of in _by_kind(record):
        if name in (OURS, THEIRS):
            reduced[name] = ns_of
            continue
        one = ns_of[PARTS[0]]
        cells = [f"{one / 1e6:.1f} ms", *(f"{one / ns_of[n]:.2f} ×" for n in PARTS[1:])]
        lines.append(f"| {name}, {kind} | " + " | ".join(cells) + " |")
    if reduced:
        more = PARTS[1:]
        nbytes = NBYTES // record.get("scale", 1)
        speeds = [f"{nbytes / reduced[OURS][n]:.2f} GB/s" for n in more]
        ratios = [f"{reduced[THEIRS][n] / reduced[OURS][n]:.2f}" for n in more]
        lines.append(f"| {OURS}, bytes of a rank per second | – | {' | '.join(speeds)} |")
        lines.append(f"| beside mpi4py's own | – | {' | '.join(ratios)} |")
    lines += ["", f"Processes of one thread each, on {os.cpu_count()} CPUs."]
    if record.get("scale", 1) > 1:
        lines.append(f"To try things out: sizes are those above, divided by {record['scale']}.")
    lines += [f"Left out: {kind}: {reason}." for kind, reason in record["skipped"].items()]
    return "\n".join(lines)


def failures(record: dict[str, Any]) -> list[str]:
    """Return a sentence for each budget that the record misses."""
    ns = {name: ns_of for _, name, ns_of in _by_kind(record)}
    if OURS not in ns:
        return []
    found = ns[THEIRS][2] / ns[OURS][2]
    if found >= BUDGET:
        return []
    return [f"{OURS} between 2 ranks has {found:.2f} of mpi4py's speed, not {BUDGET}"]


if __name__ == "__main__":
    _rank(int(sys.argv[1]))
