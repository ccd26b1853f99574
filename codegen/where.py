"""`python -m codegen where add`: every place an operator has, as file:line."""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

from . import check_kernels, paths
from .model import Model, Op


def print_places(model: Model, name: str) -> int:
    """Print the places of every overload that `name` means. Exit code 2 for an unknown name."""
    wanted = name.removeprefix("aten::")
    found = [op for op in model.ops if wanted in (op.base, op.name, op.identifier)]
    if not found:
        names = {known for op in model.ops for known in (op.base, op.name)}
        close = difflib.get_close_matches(wanted, names, n=3)
        hint = f"; did you mean {', '.join(close)}" if close else ""
        print(
            f"where: 'operator' must be in {paths.YAML.name} (got {name!r}){hint}", file=sys.stderr
        )
        return 2
    for op in found:
        print(op.name)
        for label, text in places(op):
            print(f"  {label:8}{text}")
    return 0


def places(op: Op) -> list[tuple[str, str]]:
    """(what, where) in the order of a call: public names, YAML, native, kernels, test row."""
    native = paths.native(op.family)
    names = check_kernels.python_names(native)
    found = [("public", ", ".join(public_names(op)) or "gt.ops only")]
    found.append(("yaml", f"{paths.shown(paths.YAML)}:{op.line}"))
    if op.dispatch is None:
        own = op.identifier if op.identifier in names else op.kernel_factory
        found.append(("native", _line(native, names, own)))
    for key, name in (op.dispatch or {}).items():
        found.append(("native", f"{_line(native, names, name)} at {key}"))
    cpu, cuda = paths.cpu_kernels(op.family), paths.cuda_kernels(op.family)
    for loop in op.needed_loops:
        found.append(("cpu", _line(cpu, check_kernels.cpu_loops(cpu), loop)))
        found.append(("cuda", _line(cuda, check_kernels.cuda_names(cuda), loop)))
    rows = paths.rows(op.family)
    found.append(("row", _line(rows, row_names(rows), op.base)))
    return found


def public_names(op: Op) -> list[str]:
    """`gt.add`, `Tensor.add`, and what Python's operators call."""
    found = []
    if op.is_public and op.kind != "out":
        found += [f"gt.{op.base}"] if "function" in op.variants else []
        found += (
            [f"Tensor.{op.base}"]
            if "function" not in op.variants or "method" in op.variants
            else []
        )
    return [*found, *op.operators]


def row_names(path: Path) -> dict[str, int]:
    """First arguments of `Row(...)` in a file of test rows, with their lines."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found: dict[str, int] = {}
    for match in re.finditer(r"""Row\(\s*["']([\w.]+)["']""", text):
        found.setdefault(match[1], text.count("\n", 0, match.start()) + 1)
    return found


def _line(path: Path, names: dict[str, int], name: str) -> str:
    if name in names:
        return f"{paths.shown(path)}:{names[name]} {name}"
    return f"{paths.shown(path)} (no {name})"
