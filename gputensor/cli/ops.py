"""`gputensor ops [NAME]`: the operators; of one, its schema, documentation and kernels."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import gputensor as gt
from gputensor.dispatch import dispatcher, keys
from gputensor.dispatch.operator import Operator

from .output import FINE, Arguments, Refusal, print_json, table

_FOLDER = str(Path(gt.__file__).parents[1])
# Keys that a reader asks about; `gt.dispatch.dump_table(name)` prints all of them.
_SHOWN_KEYS = ("CPU", "CUDA", "Meta", "BackendSelect", "ADInplaceOrView", "AutogradCPU")


def main(argv: list[str]) -> int:
    parser = Arguments(
        "ops", "The operators there are; of one, its schema, its words and its kernels."
    )
    parser.add_argument("name", nargs="?", help="such as add, add.Tensor or aten::add.Tensor")
    arguments = parser.parse_args(argv)
    found = [_row(o) for o in _matching(arguments.name)]
    if not found:
        raise Refusal(f"no operator is called '{arguments.name}' (see gputensor ops)")
    if arguments.json:
        print_json({"operators": found})
    elif arguments.name is None:
        print(table(("operator", "files"), [(r["name"], " ".join(r["files"])) for r in found]))
    else:
        print("\n\n".join(_text(row) for row in found))
    return FINE


def _matching(name: str | None) -> list[Operator]:
    """All operators, or the overloads that a name means; in-place and out forms of it included."""
    known = sorted(
        (o for o in dispatcher.operators() if o.is_defined), key=lambda o: o.qualified_name
    )
    if name is None:
        return known
    full = name if "::" in name else f"aten::{name}"
    exact = [o for o in known if o.qualified_name == full]
    if exact and "." in full:
        return exact
    return [o for o in known if o.name in (full, f"{full}_")]


def _row(operator: Operator) -> dict[str, Any]:
    doc = _doc(operator)
    kernels = {}
    for name in _SHOWN_KEYS:
        try:
            kernel, _ = _compute(operator, name)
        except gt.GpuTensorError:
            continue
        if kernel is not None and not kernel.is_fallthrough:
            kernels[name] = kernel.site.replace(f"{_FOLDER}/", "")
    return {
        "name": operator.qualified_name,
        "schema": str(operator.schema),
        "tags": list(operator.tags),
        "doc": doc,
        "files": _files(operator, doc),
        "registered": kernels,
    }


def _compute(operator: Operator, key: str) -> Any:
    from gputensor.dispatch.tables import compute

    return compute(operator, keys.runtime_key(key))


def _doc(operator: Operator) -> str:
    """The docstring of the function or method that users call it by."""
    base = operator.short_name
    for home in (gt, gt.Tensor):
        found = getattr(home, base, None)
        if found is not None and inspect.getdoc(found):
            return str(inspect.getdoc(found))
    return ""


def _files(operator: Operator, doc: str) -> list[str]:
    """The files that the docstring names, and the one that holds the registered kernel's code."""
    files = re.findall(r"(?:kernels|native)/[a-z_/]+\.(?:py|cu)", doc)
    for registered in operator.kernels.values():
        code = getattr(registered[0].function, "__code__", None)
        if code is not None and f"{_FOLDER}/gputensor/native/" in code.co_filename:
            files.append(code.co_filename.replace(f"{_FOLDER}/gputensor/", ""))
    return sorted(set(files), key=lambda f: (not f.startswith("native"), f))


def _text(row: dict[str, Any]) -> str:
    lines = [row["schema"], ""]
    lines += [f"    {line}".rstrip() for line in row["doc"].splitlines()]
    lines += ["", f"    files: {', '.join(row['files'])}"]
    lines += [f"    {key}: registered at {site}" for key, site in row["registered"].items()]
    return "\n".join(lines)
