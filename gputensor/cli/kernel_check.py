"""`gputensor kernel check FILE.cu…`: check a CUDA C file in one CI step, without a GPU.

gputensor kernel check blur.cu                      cases from blur.check.py beside it
gputensor kernel check blur.cu --spec cases.json --order random --seed 7
gputensor kernel check *.cu --max-registers 64 --max-spill 0

The command compiles each kernel for five architectures and prints registers, spills, shared memory
and the widths of loads and stores. Then it runs the cases on the emulator and compares the results
with the reference: with threads in each order, and both without checks and with all checks (bounds,
uninitialised shared memory, races, integer overflow). Exit status: 0 if everything passed, 1 after
the first failure, 2 for bad input, 3 without NVRTC or g++.
"""

from __future__ import annotations

import argparse
import operator
import os
import traceback
from pathlib import Path
from typing import Any

from gputensor import runtime
from gputensor.core import errors
from gputensor.cuda.report import widths

from .output import (
    CHECK_FAILED, DEVICE_ABSENT, FINE, Arguments, Progress, Refusal, print_json, table,
)  # fmt: skip

# Candidate architectures. The first five that NVRTC supports are used.
_ARCHITECTURES = (80, 90, 120, 75, 86, 89, 100, 70)
_ORDERS = ("forward", "reversed", "random")
_LIMIT_S = 60  # seconds per launch, unless GPUTENSOR_EMULATOR_LIMIT is set


class _Failed(Exception):
    """Error for a kernel that failed the check."""


def main(argv: list[str]) -> int:
    parser = Arguments("kernel check", "A CUDA C file in one CI step, without a GPU.")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (__doc__ or "").split("\n\n", 1)[1]
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.cu")
    parser.add_argument(
        "--spec", type=Path, help="the file with the cases (default: FILE.check.py or .json)"
    )
    parser.add_argument(
        "--arch", action="append", metavar="sm_90", help="compile for these architectures"
    )
    parser.add_argument("--no-compile", action="store_true", help="do not compile for GPUs")
    parser.add_argument("--max-registers", type=int, help="fail where a kernel needs more")
    parser.add_argument(
        "--max-spill", type=int, metavar="BYTES", help="fail where a kernel spills more"
    )
    parser.add_argument(
        "--order", action="append", choices=_ORDERS, help="orders of threads (default: all)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the cases and of random orders")
    parser.add_argument("--cases", type=int, help="run at most so many cases of each kernel")
    parser.add_argument(
        "--on", choices=("emulator", "gpu"), default="emulator", help="where the cases run"
    )
    arguments = parser.parse_args(argv)
    missing = next((f for f in arguments.files if not f.is_file()), None)
    if missing is not None:
        raise Refusal(f"{missing}: no such file")
    _choose_devices(arguments.on)
    result: dict[str, Any] = {"kernels": [], "failure": None}
    progress = Progress()
    try:
        for file in arguments.files:
            _check_file(file, arguments, result, progress)
    except _Failed as failure:
        result["failure"] = str(failure)
    finally:
        progress.done()
    _print(result, arguments)
    return CHECK_FAILED if result["failure"] else FINE


def _choose_devices(where: str) -> None:
    os.environ["GPUTENSOR_CUDA"] = "emulator" if where == "emulator" else "auto"
    cuda = runtime.choose_again()
    if not cuda.is_available() or cuda.is_emulated != (where == "emulator"):
        raise Refusal(f"cannot run kernels: {cuda.unavailable_reason()}", DEVICE_ABSENT)


def _check_file(file: Path, arguments: Any, result: dict[str, Any], progress: Progress) -> None:
    from gputensor.cuda import check

    try:
        checks = check.checks_of(file, arguments.spec)
    except check.Mismatch as error:
        raise Refusal(str(error)) from None
    except (errors.GpuTensorError, SyntaxError, OSError, ValueError, KeyError) as error:
        raise Refusal(f"{file}: {error}") from None
    for one in checks:
        record: dict[str, Any] = {
            "file": str(file), "kernel": one.kernel.entry, "architectures": {}, "runs": [],
            "passed": False,
        }  # fmt: skip
        result["kernels"].append(record)
        if not arguments.no_compile:
            progress(f"{one.kernel.entry}: compiling")
            record["architectures"] = _compile(one.kernel, arguments)
        is_emulated = arguments.on == "emulator"
        for checks_on in (
            ("all", "") if is_emulated else ("",)
        ):  # the run with all checks comes first, because its errors are clearer
            for order in arguments.order or (_ORDERS if is_emulated else ("forward",)):
                progress(f"{one.kernel.entry}: {order}{' checked' if checks_on else ''}")
                record["runs"].append(_run(one, checks_on, order, arguments))
        record["passed"] = True


def _compile(kernel: Any, arguments: Any) -> dict[str, Any]:
    from gputensor.runtime.compilation import nvrtc_users

    try:
        binding = nvrtc_users.binding()
    except errors.GpuTensorError as error:
        raise Refusal(f"{error}; --no-compile leaves this out", DEVICE_ABSENT) from None
    known = set(binding.getSupportedArchs())
    archs = arguments.arch or [
        f"sm_{n}" for n in sorted([n for n in _ARCHITECTURES if n in known][:5])
    ]
    try:
        report = kernel.report(archs)
    except errors.GpuTensorError as error:
        raise _Failed(str(error)) from None
    for row in report:
        for limit, value, what in (
            (arguments.max_registers, row.registers, "registers"),
            (arguments.max_spill, row.spill_bytes, "bytes of spills"),
        ):
            if limit is not None and value > limit:
                raise _Failed(f"{kernel.entry}: {row.arch}: {value} {what}, more than {limit}")
    found: dict[str, Any] = report.to_dict()
    return found


def _run(check: Any, checks_on: str, order: str, arguments: Any) -> dict[str, Any]:
    from gputensor.cuda import emulator_settings

    how = f"order {order}{', every access checked' if checks_on else ''}"
    limit_s = None if os.environ.get("GPUTENSOR_EMULATOR_LIMIT") else _LIMIT_S
    with emulator_settings(checks_on, order, arguments.seed, limit_s):
        try:
            count = check.run(arguments.seed, arguments.cases)
        except errors.GpuTensorError as error:
            raise _Failed(f"{error} [{how}]") from None
        except Exception as error:  # the error comes from a line of the file with the cases
            raise Refusal(_in_cases(error)) from error
    if count == 0:
        raise _Failed(f"{check.kernel.entry}: its file gives no cases, so nothing was run")
    return {"cases": count, "order": order, "checked": bool(checks_on)}


def _in_cases(error: Exception) -> str:
    """Describe an error and the line that raised it, such as `blur.check.py:12: NameError: …`."""
    frame = traceback.extract_tb(error.__traceback__)
    package = str(Path(runtime.__file__).parents[1])
    own = [f for f in frame if not f.filename.startswith(package)] or frame
    place = f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}"
    return f"{place}: {type(error).__name__}: {error}"


def _print(result: dict[str, Any], arguments: Any) -> None:
    if arguments.json:
        print_json(result)
        return
    rows = [
        (
            r["kernel"], arch, f["registers"], f["spill_bytes"], f["shared_bytes"],
            widths(f["loads"]), widths(f["stores"]),
        )
        for r in result["kernels"]
        for arch, f in r["architectures"].items()
    ]  # fmt: skip
    if rows:
        head = ("kernel", "arch", "registers", "spill B", "shared B", "loads", "stores")
        print(table(head, rows, right=(2, 3, 4)), end="\n\n")
    for record in filter(operator.itemgetter("passed"), result["kernels"]):
        plain = sum(r["cases"] for r in record["runs"] if not r["checked"])
        checked = sum(r["cases"] for r in record["runs"] if r["checked"])
        more = f"{checked} more with every access checked"
        print(f"{record['kernel']}: {plain} launches equal to the reference, {more}")
    if result["failure"]:
        print(f"FAILED  {result['failure']}")
