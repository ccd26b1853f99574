"""`python -m bench run overhead [--device cpu|cuda] [--out DIR] [--check]`, `report FILE`, `env`.

`run` prints a Markdown table, and writes a JSON record with its environment where --out says. Exit
status: 0 fine, 1 a budget is missed (only with --check), 2 bad input, 3 device absent.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

import gputensor as gt

from .environment import environment

BENCHMARKS = ("overhead",)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure")
    run.add_argument("benchmark", choices=BENCHMARKS)
    run.add_argument("--device", default="cpu")
    run.add_argument("--out", type=Path, help="folder for the JSON record")
    run.add_argument("--check", action="store_true", help="exit 1 where a budget is missed")
    report = commands.add_parser("report", help="print the table of a record")
    report.add_argument("record", type=Path)
    commands.add_parser("env", help="print the environment")
    args = parser.parse_args(argv)
    if args.command == "env":
        print(json.dumps(environment("cpu"), indent=1))
        return 0
    if args.command == "report":
        return _report(args.record)
    return _run(args.benchmark, args.device, args.out, args.check)


def _report(path: Path) -> int:
    try:
        record = json.loads(path.read_text())
        module = importlib.import_module(f"bench.{record['benchmark']}")
    except (OSError, ValueError, KeyError, ImportError) as error:
        print(f"bench report: {path} is not a record ({error})", file=sys.stderr)
        return 2
    print(module.report(record))
    return 0


def _run(name: str, device: str, out: Path | None, check: bool) -> int:
    try:
        place = gt.device(device)
    except gt.GpuTensorError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if place.type == "cuda" and not gt.cuda.is_available():
        print(f"bench: no CUDA device ({gt.cuda.unavailable_reason()})", file=sys.stderr)
        return 3
    module = importlib.import_module(f"bench.{name}")
    record = module.run(device)
    record["environment"] = environment(device)
    print(module.report(record))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        path = out / f"{name}-{place.type}.json"
        path.write_text(json.dumps(record, indent=1) + "\n")
        print(f"written: {path}", file=sys.stderr)
    missed = module.failures(record)
    for sentence in missed:
        print(f"budget missed: {sentence}", file=sys.stderr)
    return 1 if missed and check else 0


if __name__ == "__main__":
    sys.exit(main())
