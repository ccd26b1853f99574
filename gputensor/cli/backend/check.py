"""`gputensor backend check NAME`: run the op tests on a device, and show where its kernels come
from."""

from __future__ import annotations

import sys
import tomllib
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import gputensor as gt
from gputensor.core import errors
from gputensor.op_tests import check, samples

from ..output import (
    CHECK_FAILED, DEVICE_ABSENT, FINE, Arguments, Progress, Refusal, print_json, table,
)  # fmt: skip

_STATUSES = (check.NATIVE, check.FALLBACK, check.MISSING, check.FAILED)
_MARK = {check.NATIVE: "", check.FALLBACK: "through the CPU: ", check.MISSING: "next to write: "}


def main(argv: list[str]) -> int:
    what = (
        "Run the op tests on a device and compare with the CPU; exit 1 if one fails or none runs."
    )
    parser = Arguments("backend check", what)
    parser.add_argument(
        "name", help="a device, such as openreg or openreg:1, or its package's folder, ./openreg"
    )
    parser.add_argument(
        "--op", action="append", metavar="OP", help="only these operators; may be repeated"
    )
    parser.add_argument("--all", action="store_true", help="every dtype in every layout (a minute)")
    parser.add_argument("--strict", action="store_true", help="a missing operator is a failure too")
    arguments = parser.parse_args(argv)
    place = device_of(arguments.name)
    rows = samples.load()
    if arguments.op:
        unknown = sorted(set(arguments.op) - {row.name for row in rows})
        if unknown:
            raise Refusal(f"'--op' must name operators that have tests (got {', '.join(unknown)})")
        rows = [row for row in rows if row.name in arguments.op]
    progress = Progress()
    outcomes: list[check.Outcome] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # each fallback issues a warning
        for outcome in check.check(rows, place, every=arguments.all):
            progress(f"{outcome.name} ({len(outcomes) + 1} of {len(rows)})")
            outcomes.append(outcome)
    progress.done()
    report = summary(place, outcomes)
    print_json(report) if arguments.json else print(_text(report))
    failed = report["failed"] or not report["executed"] or (arguments.strict and report["missing"])
    return CHECK_FAILED if failed else FINE


def device_of(name: str) -> Any:
    """Load a device's package, given by its name or folder, and return the device."""
    try:
        if "/" in name or name in (".", ".."):
            name = _bring_up_from(Path(name))
        kind = name.partition(":")[0]
        if kind != "cuda":
            name = gt.backend.get(kind).name + name[len(kind) :]
        place = gt.device(name)
        gt.empty(1, device=place)
    except (errors.RegistrationError, errors.DeviceError) as error:
        raise Refusal(str(error), DEVICE_ABSENT) from None
    except errors.GpuTensorError as error:
        raise Refusal(str(error)) from None
    return gt.empty(1, device=place).device


def _bring_up_from(folder: Path) -> str:
    """Load the backend package in `folder`, which need not be installed. Return the name of its
    device."""
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        ((name, target),) = project["entry-points"][gt.backend.GROUP].items()
    except (OSError, ValueError, KeyError):
        rule = f"be a folder whose pyproject.toml has one entry point of group {gt.backend.GROUP}"
        raise Refusal(f"'name' must {rule} (got {folder})") from None
    if name not in [b.name for b in gt.backend.registered()]:
        sys.path.insert(0, str(folder.resolve()))
        module, _, function = target.partition(":")
        getattr(import_module(module), function)()
    return str(name)


def summary(place: Any, outcomes: list[check.Outcome]) -> dict[str, Any]:
    by_status = {status: sum(o.status == status for o in outcomes) for status in _STATUSES}
    rows = [
        {
            "name": o.name, "status": o.status, "calls": o.counts,
            "operators": sorted(o.served_elsewhere), "failures": o.failures,
        }
        for o in outcomes
    ]  # fmt: skip
    return {
        "device": str(place), "executed": sum(o.executed for o in outcomes), **by_status,
        "operators": rows,
    }  # fmt: skip


def _text(report: dict[str, Any]) -> str:
    rows = []
    for row in report["operators"]:
        if row["status"] == check.FAILED:
            remark = row["failures"][0]
        else:
            remark = _MARK[row["status"]] + ", ".join(row["operators"])
        rows.append((row["name"], row["status"], sum(row["calls"].values()), remark))
    counts = ", ".join(f"{report[s]} {s}" for s in _STATUSES)
    lines = [table(("operator", "status", "calls", ""), rows, right=(2,)), ""]
    called = f"{len(rows)} operators, {report['executed']} calls executed"
    lines.append(f"{report['device']}: {counts} ({called})")
    if not report["executed"]:
        lines.append("nothing was executed, which is a failure")
    return "\n".join(lines)
