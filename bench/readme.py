"""The figures of a page, written from records: between two markers stands what a record gives.

    <!-- bench:layout-cpu -->
    …
    <!-- /bench:layout-cpu -->

`python -m bench report bench/results/layout-cpu.json --readme README.md` writes what is between
them; nobody types it. `bench:layout-cpu#14` is case 14 alone. Where there is no record, it says so.
"""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path
from typing import Any

from gputensor.runtime import files

from . import record as records
from . import tables

RESULTS = Path(__file__).parent / "results"
_BLOCK = re.compile(r"(<!-- bench:([\w-]+(?:#\d+)?) -->\n)(.*?)(<!-- /bench:\2 -->)", re.DOTALL)


def names(page: str) -> list[str]:
    """Of the records that a page has blocks for."""
    return [match[2].partition("#")[0] for match in _BLOCK.finditer(page)]


def block(name: str, folder: Path, page: Path) -> str:
    """What a page at `page` shows of the record `name` in `folder`, or of its case, with `#` and
    its number; ends in a newline."""
    name, _, number = name.partition("#")
    path = folder / f"{name}.json"
    if not path.exists():
        benchmark, _, device = name.rpartition("-")
        return f"*No record yet; `{_command(benchmark, device)}` makes one.*\n"
    data = records.read(path)
    of = origin(data, os.path.relpath(path, page.parent))
    if number:
        return f"{tables.one(data, int(number))}\n\n{of}\n"
    module = importlib.import_module(f"bench.{data['benchmark']}")
    parts = [getattr(module, "brief", module.report)(data)]
    for kind in ("ratio", "memcpy"):
        plot = folder / f"{name}-{kind}.png"
        if plot.exists():
            parts.append(f"![{_ALT[kind]}]({os.path.relpath(plot, page.parent)})")
    return "\n\n".join([*parts, of]) + "\n"


_ALT = {
    "ratio": "How many times as long each library takes, case by case",
    "memcpy": "GB/s of each case beside a memcpy of as many bytes",
}


def origin(data: dict[str, Any], path: str) -> str:
    """Machine, versions, commit, and the command that does it again."""
    e = data["environment"]
    versions = [
        f"{tables.NAMES.get(n, n)} {e['versions'][n]}"
        for n in ("numpy", *data["peers"])
        if n in e["versions"]
    ]
    gpu = e.get("gpu")
    machine = [f"{e['cpu']}, {e['cpus']} CPUs"]
    if gpu is not None:
        machine.insert(0, f"{gpu['name']}, driver {gpu.get('driver_version', 'unknown')}")
    if data.get("threads"):
        machine.append(f"{data['threads']} threads for each library")
    commit = e["commit"]["hash"][:10] if e["commit"] else "unknown"
    kind = data["device"].partition(":")[0]
    python = f"Python {e['python']}"
    if "python_build" in e:
        python += f" ({e['python_build']})"
    sentence = "; ".join(
        [*machine, f"{e['system']}, {python}, {', '.join(dict.fromkeys(versions))}"]
    )
    return (
        f"{sentence}; commit {commit}, {e['time'][:10]}; record: "
        f"[{os.path.basename(path)}]({path}). "
        f"Again: `{_command(data['benchmark'], kind)}{_options(data)}`."
    )


def _options(data: dict[str, Any]) -> str:
    return "".join(f" --capability {name}" for name in data.get("capabilities", ()))


def _command(benchmark: str, device: str) -> str:
    return f"python -m bench run {benchmark} --device {device} --out bench/results"


def rewrite(page: Path, folder: Path = RESULTS, only: str | None = None) -> bool:
    """Bring the blocks of a page up to date; only: that of one record. Returns whether it changed.

    Raises: LookupError where the page has no such block.
    """
    text = page.read_text(encoding="utf-8")
    if only is not None and only not in names(text):
        raise LookupError(f"{page.name} has no block <!-- bench:{only} -->")

    def fresh(match: re.Match[str]) -> str:
        if only not in (None, match[2].partition("#")[0]):
            return match[0]
        return match[1] + block(match[2], folder, page) + match[4]

    made = _BLOCK.sub(fresh, text)
    files.write_text(page, made)
    return made != text
