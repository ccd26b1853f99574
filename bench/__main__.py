"""`python -m bench run NAME [--device cpu|cuda] [--out DIR] [--check]`, `compare OLD NEW`, `report FILE`, `env`.

`run` prints a Markdown table; with --out it writes a record (`record.schema.json`) and, with
matplotlib, plots. Exit status: 0 fine, 1 a budget is missed (only with --check), a case is slower
(--fail-on slow) or a result is wrong, 2 bad input, 3 device absent, 4 not comparable.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import gputensor as gt

from . import compare as comparison
from . import record as records
from .environment import environment
from .places import WrongResult

BENCHMARKS = ("dispatch", "overhead", "autograd", "custom_op", "layout", "pack", "emulator")
FINE, MISSED, BAD_INPUT, DEVICE_ABSENT, NOT_COMPARABLE = range(5)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure")
    run.add_argument("benchmark", choices=BENCHMARKS)
    run.add_argument("--device", default="cpu")
    run.add_argument("--out", type=Path, help="folder for the record and the plots")
    run.add_argument("--check", action="store_true", help="exit 1 where a budget is missed")
    run.add_argument("--cases", type=_numbers, help="numbers of cases, as 1,2,17 (layout, pack)")
    run.add_argument("--peers", type=_names, help="peers to measure against, as torch,numpy (layout, pack)")
    run.add_argument("--rounds", type=int, help="rounds per case")
    run.add_argument("--scale", type=int, help="divide sizes by this, to try things out (layout, pack)")
    compare = commands.add_parser("compare", help="what became faster or slower between two records")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    compare.add_argument("--fail-on", choices=("slow",), help="exit 1 where a case is SLOW")
    compare.add_argument("--tolerance", type=float, default=comparison.TOLERANCE)
    report = commands.add_parser("report", help="print the table of a record")
    report.add_argument("record", type=Path)
    report.add_argument("--plots", type=Path, help="folder for PNGs of it")
    commands.add_parser("env", help="print the environment")
    args = parser.parse_args(argv)
    if args.command == "env":
        print(json.dumps(environment("cpu"), indent=1))
        return FINE
    if args.command == "report":
        return _report(args.record, args.plots)
    if args.command == "compare":
        return _compare(args)
    return _run(args)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _report(path: Path, plots: Path | None) -> int:
    try:
        data = records.read(path)
        module = importlib.import_module(f"bench.{data['benchmark']}")
    except (records.NotARecord, ImportError) as error:
        print(f"bench report: not a record ({error})", file=sys.stderr)
        return BAD_INPUT
    print(module.report(data))
    rows = comparison.self_comparison(data)
    if rows:
        differing = sum(row["verdict"] != comparison.SAME for row in rows)
        print(f"\nCompared with itself, {differing} of {len(rows)} cases are not SAME.")
    lacking = data["environment"]["missing"]
    if lacking:
        print(f"Not for publication: it lacks {', '.join(lacking)}.")
    if plots is not None:
        _draw(data, plots)
    return FINE


def _compare(args: argparse.Namespace) -> int:
    try:
        old, new = records.read(args.old), records.read(args.new)
    except records.NotARecord as error:
        print(f"bench compare: not a record ({error})", file=sys.stderr)
        return BAD_INPUT
    reasons = comparison.not_comparable(old, new)
    if reasons:
        print(f"bench compare: not comparable: {'; '.join(reasons)}", file=sys.stderr)
        return NOT_COMPARABLE
    rows = comparison.compare(old, new, args.tolerance)
    print(comparison.table(rows))
    is_slower = any(row["verdict"] == comparison.SLOW for row in rows)
    return MISSED if is_slower and args.fail_on == "slow" else FINE


def _run(args: argparse.Namespace) -> int:
    try:
        place = gt.device(args.device)
    except gt.GpuTensorError as error:
        print(f"bench: {error}", file=sys.stderr)
        return BAD_INPUT
    if place.type == "cuda" and not gt.cuda.is_available():
        print(f"bench: no CUDA device ({gt.cuda.unavailable_reason()})", file=sys.stderr)
        return DEVICE_ABSENT
    module = importlib.import_module(f"bench.{args.benchmark}")
    given = {"rounds": args.rounds, "only": args.cases, "libraries": args.peers, "scale": args.scale}
    options = {name: value for name, value in given.items() if value is not None}
    unknown = set(options) - set(inspect.signature(module.run).parameters)
    if unknown:
        print(f"bench: {args.benchmark} has no {', '.join(sorted(unknown))} to choose", file=sys.stderr)
        return BAD_INPUT
    try:
        data = module.run(args.device, **options)
    except WrongResult as error:
        print(f"bench: {error}", file=sys.stderr)
        return MISSED
    print(module.report(data))
    if args.out is not None:
        _write(data, args.device, args.out)
    missed = module.failures(data)
    for sentence in missed:
        print(f"budget missed: {sentence}", file=sys.stderr)
    return MISSED if missed and args.check else FINE


def _write(data: dict[str, Any], device: str, out: Path) -> None:
    record = records.build(data, environment(device))
    path = out / f"{data['benchmark']}-{gt.device(device).type}.json"
    records.write(record, path)
    print(f"written: {path}", file=sys.stderr)
    if data["cases"] and "gb_per_s" in data["cases"][0]:
        _draw(record[records.OURS], out)


def _draw(data: dict[str, Any], folder: Path) -> None:
    from . import plots

    try:
        paths = plots.draw(data, folder)
    except ImportError as error:
        print(f"no plots: {error}", file=sys.stderr)
        return
    for path in paths:
        print(f"written: {path}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
