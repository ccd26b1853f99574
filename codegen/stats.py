"""`python -m codegen --stats`: the number of generated lines per overload, by kind."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from . import generate, paths
from .model import Model

# Upper bound of the generated lines per overload, including stubs.
BUDGET = 25


def overloads_of(model: Model) -> int:
    """Return the number of overloads. A function of gt.nn.functional counts as one."""
    return len(model.all.ops) + sum(len(op.nn) for op in model.all.ops)


def counted(texts: dict[Path, str]) -> dict[Path, int]:
    """Return a dict from path to number of lines, for those of the given files that are in
    _generated."""
    return {path: text.count("\n") for path, text in texts.items() if paths.is_generated(path)}


def lines(model: Model) -> dict[Path, int]:
    """Return a dict from path to number of lines, for all files in _generated."""
    return counted(generate.files(model))


def _kind(path: Path) -> str:
    """Return the name of a file; for a family's file, the name of its folder or room."""
    if path.parent.name == "families":
        return "families"
    room = path.parent.parent.name
    return room if room == "registrations" else path.name


def print_lines(model: Model) -> int:
    """Print the lines by kind and by family. Return exit code 1 if the budget is exceeded."""
    found, overloads = lines(model), overloads_of(model)
    kinds: Counter[str] = Counter()
    families: Counter[str] = Counter()
    for path, count in found.items():
        kind = _kind(path)
        kinds[kind] += count
        families[path.stem if kind != path.name else ""] += count
    for name, count in kinds.items():
        print(f"{name:<16}{count:>7} lines{count / overloads:>7.1f} an overload")
    print()
    for family in model.all.families():
        ops = sum(1 + len(op.nn) for op in model.all.ops if op.family == family)
        print(f"{family:<16}{families[family]:>7} lines{families[family] / ops:>7.1f} an overload")
    each = sum(found.values()) / overloads
    print(f"\n{sum(found.values())} lines, {overloads} overloads: {each:.1f} each, budget {BUDGET}")
    return 1 if each > BUDGET else 0
