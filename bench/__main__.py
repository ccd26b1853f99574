"""The command `python -m bench`, with `run NAME [--device cpu|cuda] [--out DIR] [--check]`,
`compare OLD [NEW]`, `merge PART…`, `report FILE` or `env`.

`run` prints a Markdown table. With --out it also writes a record (`record.schema.json`) after every
case, and at the end the table and, if matplotlib is installed, plots. Exit status: 0 success; 1 if
a budget is not met (only with --check), a case is slower (--fail-on slow), a build differs from
itself, a record cannot be published, a measured speed is impossible or a result is wrong; 2 bad
input; 3 no device; 4 if records cannot be compared."""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import gputensor as gt
from gputensor.runtime import files
from gputensor.runtime.compilation import carried

from . import benchmarks
from .measurement import peers, timing
from .measurement.places import WrongResult
from .operators import capabilities
from .records import compare as comparison, readme, record as records
from .records.environment import environment

FINE, MISSED, BAD_INPUT, DEVICE_ABSENT, NOT_COMPARABLE = range(5)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure")
    run.add_argument("benchmark", choices=benchmarks.NAMES)
    run.add_argument("--device", default="cpu")
    run.add_argument("--out", type=Path, help="folder for the record, the table and the plots")
    run.add_argument("--check", action="store_true", help="exit 1 where a budget is missed")
    run.add_argument(
        "--cases", type=_numbers, help="numbers of cases, as 1,2,17 (layout, pack, sweep)"
    )
    run.add_argument(
        "--beside", type=_names, metavar="RECORD,…", help="only cases that these records have not"
    )
    run.add_argument(
        "--peers",
        type=_names,
        help="peers to measure against, as torch,numpy (layout, pack, sweep)",
    )
    run.add_argument("--rounds", type=int, help="rounds per case, instead of as many as it needs")
    run.add_argument(
        "--scale",
        type=int,
        help="divide sizes by this, to try things out (layout, pack, sweep, fuse, models)",
    )
    run.add_argument("--families", type=_names, help="families or operators, as unary,add (sweep)")
    run.add_argument("--sample", type=int, help="so many cases, drawn from all of them (sweep)")
    run.add_argument(
        "--only", action="append", metavar="TEXT",
        help="calls with this in their family or name; may be given again (operators, models)",
    )  # fmt: skip
    run.add_argument(
        "--capability", action="append", choices=(*capabilities.NAMES, "all"),
        help="measure at this CPU capability, in a process of its own; may be given again "
        "(operators)",
    )  # fmt: skip
    compare = commands.add_parser(
        "compare", help="what became faster or slower between two records"
    )
    compare.add_argument("old", type=Path)
    compare.add_argument(
        "new", type=Path, nargs="?", help="without it: OLD's two measurements of one build"
    )
    compare.add_argument("--fail-on", choices=("slow",), help="exit 1 where a case is SLOW")
    compare.add_argument("--tolerance", type=float, default=comparison.TOLERANCE)
    merge = commands.add_parser("merge", help="one record of several parts of a benchmark")
    merge.add_argument("parts", type=Path, nargs="+")
    merge.add_argument(
        "--out", type=Path, required=True, help="folder for the record, the table and the plots"
    )
    report = commands.add_parser("report", help="print the table of a record")
    report.add_argument("record", type=Path)
    report.add_argument("--out", type=Path, help="folder for the table and PNGs of it")
    report.add_argument(
        "--readme", type=Path, metavar="PAGE", help="write its block of this page anew"
    )
    env = commands.add_parser("env", help="print the environment")
    env.add_argument("--device", default="cpu")
    args = parser.parse_args(argv)
    try:
        if args.command == "report":
            return _report(args)
        if args.command == "compare":
            return _compare(args)
        if args.command == "merge":
            return _merge(args)
        place = gt.device(args.device)
        if args.command == "env":
            print(json.dumps(environment(str(place)), indent=1))
            return FINE
        return _run(args, sys.argv[1:] if argv is None else argv)
    except records.NotARecord as error:
        print(f"bench {args.command}: not a record ({error})", file=sys.stderr)
    except gt.GpuTensorError as error:
        print(f"bench {args.command}: {error}", file=sys.stderr)
        return DEVICE_ABSENT if "no device" in str(error) else BAD_INPUT
    return BAD_INPUT


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _report(args: argparse.Namespace) -> int:
    data = records.read(args.record)
    module = _module(data)
    print(module.report(data))
    rows = comparison.self_comparison(data)
    if rows:
        apart = sum(row["verdict"] in comparison.APART for row in rows)
        print(f"\nCompared with itself: {apart} of {len(rows)} cases are told apart.")
    lacking = data["environment"]["missing"]
    if lacking:
        print(f"\nNot for publication: it lacks {', '.join(lacking)}.")
    if args.out is not None:
        _write_report(data, args.record.stem, args.out)
    if args.readme is None:
        return FINE
    if lacking:
        print(f"bench report: {args.readme} stays as it is", file=sys.stderr)
        return MISSED
    try:
        readme.rewrite(args.readme, args.record.parent, args.record.stem)
    except (LookupError, OSError) as error:
        print(f"bench report: {error}", file=sys.stderr)
        return BAD_INPUT
    return FINE


def _module(data: dict[str, Any]) -> Any:
    try:
        return benchmarks.module(data["benchmark"])
    except LookupError as error:
        raise records.NotARecord(str(error)) from error


def _compare(args: argparse.Namespace) -> int:
    old = records.read(args.old)
    if args.new is None:
        return _compare_with_itself(old, args.tolerance)
    new = records.read(args.new)
    reasons = comparison.not_comparable(old, new)
    if reasons:
        print(f"bench compare: not comparable: {'; '.join(reasons)}", file=sys.stderr)
        return NOT_COMPARABLE
    rows = comparison.compare(old, new, args.tolerance)
    print(comparison.table(rows))
    is_slower = any(row["verdict"] == comparison.SLOW for row in rows)
    return MISSED if is_slower and args.fail_on == "slow" else FINE


def _compare_with_itself(data: dict[str, Any], tolerance: float) -> int:
    rows = comparison.self_comparison(data, tolerance)
    if not rows:
        print("bench compare: the record has no second measurement of its build", file=sys.stderr)
        return BAD_INPUT
    print(comparison.table(rows))
    apart = [row["name"] for row in rows if row["verdict"] in comparison.APART]
    if len(apart) <= comparison.most_told_apart(len(rows)):
        return FINE
    print(f"bench compare: a build is told apart from itself: {', '.join(apart)}", file=sys.stderr)
    return MISSED


def _run(args: argparse.Namespace, argv: list[str]) -> int:
    place = gt.device(args.device)
    if place.type == "cuda" and not gt.cuda.is_available():
        print(f"bench: no CUDA device ({gt.cuda.unavailable_reason()})", file=sys.stderr)
        return DEVICE_ABSENT
    module = benchmarks.module(args.benchmark)
    given = {
        "rounds": args.rounds,
        "only": args.cases,
        "libraries": args.peers,
        "scale": args.scale,
        "families": args.families,
        "sample": args.sample,
        "matching": args.only,
        "capability": args.capability,
    }
    if args.beside:
        given["only"] = _not_in(args.beside, module)
        if given["only"] == ():
            print("bench: these records have every case", file=sys.stderr)
            return FINE
    options = {name: value for name, value in given.items() if value is not None}
    unknown = set(options) - set(inspect.signature(module.run).parameters)
    if unknown:
        print(
            f"bench: {args.benchmark} has no {', '.join(sorted(unknown))} to choose",
            file=sys.stderr,
        )
        return BAD_INPUT
    around = environment(args.device, argv)  # called before the run, which makes CPUs busy
    if args.out is not None and "note" in inspect.signature(module.run).parameters:
        # write a record after each case, so that an interrupted run keeps the measured cases
        options["note"] = lambda data: _write(data, _completed(around, data, args), args.out)
    try:
        data = module.run(args.device, **options)
    except WrongResult as error:
        print(f"bench: {error}", file=sys.stderr)
        return MISSED
    print(module.report(data))
    impossible = module.impossible(data) if hasattr(module, "impossible") else []
    for sentence in impossible:
        print(f"bench: impossible: {sentence}", file=sys.stderr)
    failed = data.get("failed", {})
    for name, reason in failed.items():
        print(f"bench: no figures: {name}: {reason}", file=sys.stderr)
    if args.out is not None:
        path = _write(data, _completed(around, data, args), args.out)
        print(f"written: {path}", file=sys.stderr)
        _write_report(records.read(path), path.stem, args.out)
    missed = module.failures(data)
    for sentence in missed:
        print(f"budget missed: {sentence}", file=sys.stderr)
    return MISSED if failed or impossible or missed and args.check else FINE


def _not_in(paths: tuple[str, ...], module: Any) -> tuple[int, ...] | None:
    """Return the numbers of the cases that no existing record contains, or None if there is no
    record. None selects all cases."""
    there = [records.read(Path(path)) for path in paths if Path(path).exists()]
    done = {case["number"] for data in there for case in data["cases"]}
    done.update(number for data in there for number in data.get("refused", ()))
    if not there:
        return None
    count: int = module.COUNT if hasattr(module, "COUNT") else there[0]["count"]
    return tuple(n for n in range(1, count + 1) if n not in done)


def _completed(
    around: dict[str, Any], data: dict[str, Any], args: argparse.Namespace
) -> dict[str, Any]:
    """Return the environment with facts that are known only after a run: the versions of libraries
    that the run imported, and the unmet conditions for publication."""
    made = around | {
        "versions": around["versions"] | peers.versions()
    }  # the run may have imported further libraries
    if "gpu" in made:
        made["gpu"] = made["gpu"] | {"carried_cubins": carried.used()}
    lacking = []
    if args.scale not in (None, 1):
        lacking.append("full sizes (--scale)")
    if args.rounds is not None and args.rounds < timing.LEAST_ROUNDS:
        lacking.append(f"{timing.LEAST_ROUNDS} rounds of each case (--rounds)")
    return made | {"missing": [*around["missing"], *lacking, *records.lacking(data, _module(data))]}


def _merge(args: argparse.Namespace) -> int:
    there = [path for path in args.parts if path.exists()]
    for path in args.parts:
        if path not in there:
            print(f"bench merge: {path} is not there", file=sys.stderr)
    if not there:
        return BAD_INPUT
    parts = [records.read(path) for path in there]
    reasons = records.not_mergeable(parts)
    if reasons:
        print(f"bench merge: not parts of one record: {'; '.join(reasons)}", file=sys.stderr)
        return NOT_COMPARABLE
    data, around = records.merged(parts, _module(parts[0]))
    path = _write(data, around, args.out)
    print(f"written: {path}", file=sys.stderr)
    _write_report(records.read(path), path.stem, args.out)
    return FINE


def _write(data: dict[str, Any], around: dict[str, Any], out: Path) -> Path:
    path = out / f"{records.stem(data)}.json"
    records.write(records.build(data, around), path)
    return path


def _write_report(data: dict[str, Any], stem: str, folder: Path) -> None:
    from .records import plots

    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{stem}.md"
    files.write_text(
        page, f"{_module(data).report(data)}\n\n{readme.origin(data, f'{stem}.json')}\n"
    )
    print(f"written: {page}", file=sys.stderr)
    try:
        paths = plots.draw(data, folder)
    except (ImportError, OSError) as error:  # matplotlib is missing, or cannot write its font cache
        print(f"no plots: {error}", file=sys.stderr)
        return
    for path in paths:
        print(f"written: {path}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
