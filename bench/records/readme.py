"""Write results from records into pages, between two markers:

    <!-- bench:layout-cpu -->
    …
    <!-- /bench:layout-cpu -->

`python -m bench report bench/results/layout-cpu.json --readme README.md` writes the text between
the markers. `bench:layout-cpu#14` stands for case 14 alone. If a record is missing, the text says
so.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from gputensor.runtime import files

from .. import benchmarks
from . import record as records, tables

RESULTS = Path(__file__).parents[1] / "results"
# SUMMARY: the name of the block with the means of several records. SUMMARISED: maps the names of
# these records to descriptions.
SUMMARY = "summary"
SUMMARISED = {
    "layout-cuda": "layout copies", "pack-cuda": "pixels to a model's input",
    "layout-cpu": "layout copies", "pack-cpu": "pixels to a model's input",
    "operators-cpu": "calls that users make", "models-cpu": "models, forward and a training step",
}  # fmt: skip
_BLOCK = re.compile(r"(<!-- bench:([\w-]+(?:#\d+)?) -->\n)(.*?)(<!-- /bench:\2 -->)", re.DOTALL)


def names(page: str) -> list[str]:
    """Return the names of the records for which a page has blocks."""
    return [match[2].partition("#")[0] for match in _BLOCK.finditer(page)]


def block(name: str, folder: Path, page: Path) -> str:
    """Return the text of a block for a record (`name`) or for one of its cases (`name#number`).

    page: the path of the page, for links. folder: the folder of the records. The text ends in a
    newline.
    """
    if name == SUMMARY:
        return _summary(folder, page)
    name, _, number = name.partition("#")
    path = folder / f"{name}.json"
    if not path.exists():
        benchmark, _, device = name.rpartition("-")
        return f"*No record yet; `{_command(benchmark, device)}` makes one.*\n"
    data = records.read(path)
    of = origin(data, os.path.relpath(path, page.parent))
    if number:
        return f"{tables.one(data, int(number))}\n\n{of}\n"
    module = benchmarks.module(data["benchmark"])
    parts = [getattr(module, "brief", module.report)(data)]
    for kind in ("ratio", "memcpy"):
        plot = folder / f"{name}-{kind}.png"
        if plot.exists():
            parts.append(f"![{_ALT[kind]}]({os.path.relpath(plot, page.parent)})")
    return "\n\n".join([*parts, of]) + "\n"


def _summary(folder: Path, page: Path) -> str:
    """Return a table with one line for each existing record of SUMMARISED. The text ends in a
    newline."""
    peers = ("torch", "torch.compile", "numpy", "cupy")
    rows = []
    for name, what in SUMMARISED.items():
        path = folder / f"{name}.json"
        if not path.exists():
            continue
        data = records.read(path)
        e = data["environment"]
        on = e["gpu"]["name"] if e.get("gpu") else f"{e['cpu']}, {data['threads']} threads each"
        means = [data["summary"].get(f"geomean_vs_{peer}") for peer in peers]
        table = os.path.relpath(path.with_suffix(".md"), page.parent)
        rows.append(
            [
                f"[{what}]({table})",
                on,
                *(tables.NO_FIGURE if m is None else f"{m:.2f}" for m in means),
            ]
        )
    head = ["geometric mean of", "on", *(f"× {tables.NAMES[peer]}" for peer in peers)]
    return tables.table(head, rows, left=2) + "\n"


_ALT = {
    "ratio": "How many times as long each library takes, case by case",
    "memcpy": "GB/s of each case beside a memcpy of as many bytes",
}


def origin(data: dict[str, Any], path: str) -> str:
    """Return the machine, the versions, the commit, and the command that repeats the run."""
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
    """Update the blocks of a page. only: update only the blocks of this record and the summary, if
    it contains the record. Return True if the page changed.

    Raises: LookupError if the page has no block for `only`.
    """
    text = page.read_text(encoding="utf-8")
    wanted = {only, *([SUMMARY] if only in SUMMARISED else [])}
    if only is not None and wanted.isdisjoint(names(text)):
        raise LookupError(f"{page.name} has no block <!-- bench:{only} -->")

    def fresh(match: re.Match[str]) -> str:
        if only is not None and match[2].partition("#")[0] not in wanted:
            return match[0]
        return match[1] + block(match[2], folder, page) + match[4]

    made = _BLOCK.sub(fresh, text)
    files.write_text(page, made)
    return made != text
