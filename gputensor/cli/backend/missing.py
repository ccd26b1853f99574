"""`gputensor backend missing NAME SCRIPT`: operators that a script needs and a device lacks.

The script runs on the CPU, unchanged. The command counts each kernel call, and the bytes of its
operands and results. The device must be registered but needs no kernels.
"""

from __future__ import annotations

import contextlib
import runpy
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gputensor as gt
from gputensor.dispatch import dispatcher, keys
from gputensor.kernels import stub
from gputensor.tensor.base import tensors_of

from .check import device_of
from ..output import CHECK_FAILED, FINE, Arguments, Refusal, print_json, table

# Maps a composite operator that calls a device's loop (native/range.py) to the operator that it
# calls if the device has no such loop. tests/backend/test_commands.py checks this.
ASKS = {
    "aten::arange": "aten::arange.start_out", "aten::arange.start": "aten::arange.start_out",
    "aten::arange.start_step": "aten::arange.start_out", "aten::linspace": "aten::linspace.out",
    "aten::eye": "aten::eye.m_out", "aten::eye.m": "aten::eye.m_out",
}  # fmt: skip
_COPIES = ("aten::copy_", "aten::flip")


@dataclass(slots=True)
class Need:
    """An operator that the script called. calls: the number of calls. nbytes: the bytes of the
    operands and results of these calls."""

    name: str
    calls: int = 0
    nbytes: int = 0


def main(argv: list[str]) -> int:
    what = "Run a script on the CPU and rank the operators that a device lacks for it."
    parser = Arguments("backend missing", what)
    parser.add_argument(
        "name", help="a device, such as openreg, or its package's folder, ./openreg"
    )
    parser.add_argument("script", help="a Python file; its own arguments may follow")
    parser.add_argument("arguments", nargs="*", help="given to the script")
    arguments = parser.parse_args(argv)
    place = device_of(arguments.name)
    if not Path(arguments.script).is_file():
        raise Refusal(f"'script' must be a file (got {arguments.script})")
    with record() as needs:
        run(arguments.script, arguments.arguments)
    backend = gt.backend.get(place.type)
    rows = [
        {"operator": n.name, "status": status(n.name, backend), "calls": n.calls, "bytes": n.nbytes}
        for n in sorted(needs.values(), key=lambda n: (-n.calls, -n.nbytes, n.name))
    ]
    lacking = [row for row in rows if row["status"] != "native"]
    if arguments.json:
        print_json({"device": place.type, "operators": rows})
    elif not rows:
        print("the script called no operator")
    elif not lacking:
        print(f"{place.type} has all {len(rows)} operators that the script needs")
    else:
        cells = [(r["operator"], r["status"], r["calls"], r["bytes"]) for r in lacking]
        print(table(("operator", "status", "calls", "bytes"), cells, right=(2, 3)))
        has = f"{len(rows) - len(lacking)} of the {len(rows)} operators"
        print(f"\n{place.type} has {has} that the script needs")
    return FINE if rows else CHECK_FAILED


def run(script: str, arguments: list[str]) -> None:
    """Run the script as `python SCRIPT` does, with its output redirected to stderr."""
    before = sys.argv, sys.path[:]
    sys.argv, sys.path[:0] = [script, *arguments], [str(Path(script).resolve().parent)]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise Refusal(f"'script' ended with {stop.code}") from None
    except Exception as error:  # the user's code may raise anything
        raise Refusal(f"'script' raised {type(error).__name__}: {error}") from error
    finally:
        sys.argv, sys.path[:] = before


@contextlib.contextmanager
def record() -> Iterator[dict[str, Need]]:
    """Count the CPU kernels that run in the block, in all threads, and the bytes of their operands
    and results."""
    needs: dict[str, Need] = {}
    lock = threading.Lock()
    cpu = keys.runtime_key("CPU")

    def wrap(table: Any, key: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
        name = table.operator.qualified_name
        if key is not cpu or (
            table.slot(key)[1] != "kernel" and name not in ASKS and name not in _COPIES
        ):
            return kernel

        def counted(key_set: int, *args: Any) -> Any:
            result = kernel(key_set, *args)
            # an operand that is also the result counts once
            touched = {id(x): x for x in tensors_of((args, result))}
            nbytes = sum(x.nbytes for x in touched.values())
            with lock:
                need = needs.setdefault(ASKS.get(name, name), Need(ASKS.get(name, name)))
                need.calls += 1
                need.nbytes += nbytes
            return result

        return counted

    handle = dispatcher.add_wraps(wrap, wrap)
    try:
        yield needs
    finally:
        handle.remove()


def status(name: str, backend: Any) -> str:
    """Return where the device's kernel comes from: `native`, `fallback` or `missing`."""
    key = keys.runtime_key(backend.key)
    has_fallback = key in dispatcher.fallbacks()
    if name in _COPIES:
        is_native = stub.serves("copy", "copy", backend.name)
    else:
        is_native = backend.has_native(name)
    return "native" if is_native else "fallback" if has_fallback else "missing"
