"""`python -m bench.copies.plans --cases 6,7,31 [--compile]`: time all plans of layout copies.

All plans copy correctly, and the scores in kernels/cuda/copy_score.py choose one of them. This
program also measures the plans that are not chosen: TILE with each tile size and access width, PACK
with each run length and number of tiles per block. It prints one line of JSON for each plan, the
fastest first. --compile only compiles the kernels, so that several processes can fill the cache
before one process measures.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import gputensor as gt
from gputensor import runtime
from gputensor.core.dtype import from_numpy
from gputensor.kernels.cuda import copy_launch, copy_pack_plan as packing, copy_plan
from gputensor.kernels.cuda import copy_score as score
from gputensor.kernels.cuda.copy_walk import Walk, normalise

from . import layout_cases

DEVICE, ROUNDS, CALLS = 0, 7, 5


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.copies.plans", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--once", action="store_true", help="launch the chosen plan once, for ncu")
    given = parser.parse_args(argv)
    for case in layout_cases.CASES:
        if given.cases and case.number not in given.cases:
            continue
        walk, dtypes = _walk(case)
        if given.compile:
            for _, launch in _launches(walk, dtypes):
                launch.load(DEVICE)
        else:
            _run(case, walk, dtypes, given.once)
    return 0


def _walk(case: layout_cases.Case) -> tuple[Walk, tuple[Any, Any]]:
    shape, strides, _ = case.strided(case.shape)
    dtypes: Any = from_numpy(case.result), from_numpy(case.source)
    dense = np.empty(shape, np.uint8).strides if 0 not in shape else strides
    by = [tuple(n * d.itemsize for n in s) for s, d in zip((dense, strides), dtypes)]
    return normalise(copy_launch.Layout(shape, tuple(by), dtypes), 0, 0), dtypes


def _run(case: layout_cases.Case, walk: Walk, dtypes: tuple[Any, Any], is_once: bool) -> None:
    count = math.prod(case.shape) * walk.src_bytes
    source = gt.from_numpy(np.random.default_rng(0).integers(0, 256, count, np.uint8)).to("cuda")
    wanted = gt.empty(walk.numel * walk.dst_bytes, dtype=gt.uint8, device="cuda")
    made = gt.empty_like(wanted)
    found = []
    for number, (what, launch) in enumerate(_launches(walk, dtypes)):
        into = made if number else wanted
        into.zero_()
        call = partial(launch, DEVICE, (into.data_ptr(), source.data_ptr()))
        call()
        if is_once:
            gt.cuda.synchronize()
            return
        if number and not bool((made == wanted).all()):
            what["wrong"] = True
        found.append(what | {"us": _us(call)})
    nbytes = source.numel() + wanted.numel()
    for what in sorted(found, key=lambda one: one["us"]):
        gbs = round(nbytes / what["us"] / 1e3)
        print(json.dumps({"case": case.title, "GB/s": gbs} | what), flush=True)


def _us(call: Callable[[], None]) -> float:
    """Return the microseconds of one call on the device, in the fastest of several rounds."""
    call()
    times = []
    for _ in range(ROUNDS):
        begin, end = (gt.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(CALLS):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / CALLS)
    return float(round(min(times), 1))


def _launches(walk: Walk, dtypes: tuple[Any, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield (description, launch) for the chosen plan, then for all others."""
    gpu = runtime.cuda().limits(DEVICE)
    chosen = copy_plan.choose(walk, gpu)
    yield {"plan": chosen.kernel, "chosen": True}, copy_launch.launch_of(walk, chosen, dtypes, gpu)
    y = copy_plan.direction(walk)
    for plan, group in _tiles(walk, y) if y else ():
        before, score.TILE_GROUP = score.TILE_GROUP, group
        try:
            launch = copy_launch.launch_of(walk, plan, dtypes, gpu)
        finally:
            score.TILE_GROUP = before
        names = ("rows", "columns", "load", "store", "threads")
        yield {"plan": "tile", "group": group} | {n: getattr(plan, n) for n in names}, launch
    if not walk.is_cast:
        yield from _packs(walk, dtypes, gpu)


def _tiles(walk: Walk, y: int) -> Iterator[tuple[copy_plan.Tile, int]]:
    """Yield (tile plan, value of `score.TILE_GROUP` to use with this plan). The value is the number
    of tile columns that adjacent blocks cover."""
    side = score.TILE_SIDE[walk.item]
    load, store = copy_plan._tile_accesses(walk, y)
    for rows, columns in product((2 * side, side, side // 2), repeat=2):
        others = sorted({(1, store), (load, 1), (1, 1)} - {(load, store)})
        if rows > side or columns > side:
            others = []
        tried = [((load, store), group) for group in (4, 8, 16)]
        for accesses, group in tried + [(of, 8) for of in others]:
            made = copy_plan.Tile(0, y, *accesses)
            made.rows, made.columns, made.resident = rows, columns, 1
            made.threads = copy_plan._tile_threads(walk, made)
            if made.threads and rows * columns * walk.dst_bytes <= 48 << 10:
                yield made, group


def _packs(walk: Walk, dtypes: tuple[Any, Any], gpu: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    runs: Any = [
        packing._dense(strides, size, walk.sizes)
        for strides, size in ((walk.dst, walk.dst_bytes), (walk.src, walk.src_bytes))
    ]
    seen = set()
    for halved in (0, 1, 2) if all(runs) else ():
        for out_bytes in (32, *score.PACK_RUNS_BYTES):
            for each, threads in (score.PACK_WIDE[walk.item], score.PACK_NARROW[walk.item]):
                room = max(1, each >> halved) * threads
                plan = packing._tile(walk, runs[0], runs[1], out_bytes, room, halved)
                if plan is None or (key := (tuple(plan.chunks), halved)) in seen:
                    continue
                seen.add(key)
                packing._score(walk, gpu, plan, 1.0)
                plan.pad_shift, plan.pad = packing._padding(walk, plan)
                count = packing.tiles(walk, plan)
                for per_block in (1, 2, 4, 8, 16):
                    plan.per_block, plan.blocks = per_block, -(-count // per_block)
                    what = {"plan": "pack", "halved": halved, "out_bytes": out_bytes,
                            "chunks": plan.chunks, "load": plan.load, "store": plan.store,
                            "per_block": per_block, "pad": (plan.pad_shift, plan.pad),
                            "resident": plan.resident}  # fmt: skip
                    yield what, copy_launch.launch_of(walk, plan, dtypes, gpu)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
