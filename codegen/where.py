"""`python -m codegen where add`: print all places of an operator as file:line."""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path
from typing import Any

from . import check_kernels, model, paths
from .model import Model, Op

PLACES: Any = paths.load_module("cli.places")


def print_places(known: Model, name: str) -> int:
    """Print the places of each overload that matches `name`. Return exit code 2 for an unknown
    name."""
    wanted = name.rpartition("::")[2]
    found = [op for op in known.all.ops if wanted in (op.base, op.name, op.identifier)]
    if not found:
        names = {spelled for op in known.all.ops for spelled in (op.base, op.name)}
        close = difflib.get_close_matches(wanted, names, n=3)
        hint = f"; did you mean {', '.join(close)}" if close else ""
        print(
            f"where: 'operator' must be in {paths.YAML.name} (got {name!r}){hint}", file=sys.stderr
        )
        return 2
    for op in found:
        print(op.name)
        for label, text in places(op):
            print(f"  {label:9}{text}")
    return 0


def places(op: Op) -> list[tuple[str, str]]:
    """Return (what, where) pairs in the order of a call: names, generated code, native code and
    kernels. The last pairs are the row of the operator's tests and the line in
    docs/operators.md."""
    found = [("public", ", ".join(public_names(op)) or "gt.ops only"), ("schema", op.full_schema)]
    found.append(("yaml", f"{paths.shown(paths.YAML)}:{op.line}"))
    natives = op.natives
    if op.dispatch is None:
        is_own = check_kernels.defines(op.family, op.identifier)
        natives = [op.identifier if is_own else op.kernel_factory]
    found += PLACES.of(paths.PACKAGE, op.family, op.name, natives, op.needed_loops)
    if op.dtypes:
        kinds = model.DTYPES[op.dtypes].kinds
        found.append(("variants", f"of {kinds}, by dtypes: {op.dtypes}"))
    rows = paths.rows(op.family)
    found.append(("test", _line(rows, row_names(rows), op.base)))
    page = paths.ROOT / "docs" / paths.OPERATORS_PAGE.name
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    entry = op
    while entry.source is not None:
        entry = entry.source
    if f"| `{entry.name}` |" in text:
        line = text[: text.index(f"| `{entry.name}` |")].count("\n") + 1
        found.append(("page", f"{paths.shown(page)}:{line}"))
    return found


def public_names(op: Op) -> list[str]:
    """Return the public names, such as `gt.add` and `Tensor.add`, and the special methods."""
    found = []
    if op.is_public and op.kind != "out":
        found += [f"gt.{op.public_name}"] if "function" in op.variants else []
        found += (
            [f"Tensor.{op.base}"]
            if "function" not in op.variants or "method" in op.variants
            else []
        )
    aliases = [f"gt.{_in_module(name)}" for name in op.aliases] if found else []
    return [*found, *aliases, *op.operators]


def _in_module(name: str) -> str:
    """Return a function's name in its module, such as `special.erf` for special_erf."""
    module, _, rest = name.partition("_")
    return f"{module}.{rest}" if module in model.MODULES else name


def row_names(path: Path) -> dict[str, int]:
    """Return a dict from name to line, for the first argument of each `Row(...)` in a file of test
    rows."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found: dict[str, int] = {}
    for match in re.finditer(r"""Row\(\s*["']([\w.]+)["']""", text):
        found.setdefault(match[1], text.count("\n", 0, match.start()) + 1)
    return found


def _line(path: Path, names: dict[str, int], name: str) -> str:
    if name in names:
        return f"{paths.shown(path)}:{names[name]} {name}"
    return f"{paths.shown(path)} (no {name})"
