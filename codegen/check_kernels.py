"""Check that all functions, CPU loops and CUDA functors to which the YAML refers are defined.

Python files are read as an AST and `.cu` files as text. Nothing is imported or compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import paths
from .model import Model, Op


_places: Any = paths.load_module("cli.places")
# Type of functions that return the names defined in a file, with the line of each name.
Names = Callable[[Path], dict[str, int]]
python_names: Names = _places.python_names
cpu_loops: Names = _places.cpu_loops
cuda_names: Names = _places.cuda_names


@dataclass(frozen=True)
class Missing:
    """A definition to which the YAML refers and which does not exist."""

    op: Op
    what: str
    where: Path

    def __str__(self) -> str:
        place = f"{paths.YAML.name}:{self.op.line}: {self.op.name}"
        gone = "" if self.where.exists() else " (no such file)"
        return f"{place}: must have {self.what} in {paths.shown(self.where)}{gone}"


def missing(model: Model) -> list[Missing]:
    """Return all missing definitions, in the order of the YAML."""
    return [item for op in model.all.ops for item in _missing(op)]


def _missing(op: Op) -> Iterator[Missing]:
    native = paths.native(op.family)
    for name in op.natives:
        if name not in python_names(native):
            yield Missing(op, f"'def {name}'", native)
    if op.dispatch is None and not defines(op.family, op.identifier):
        if op.kernel_factory not in python_names(native):
            yield Missing(op, f"'def {op.kernel_factory}' or 'def {op.identifier}'", native)
    for loop in op.needed_loops:
        if loop not in cpu_loops(paths.cpu_kernels(op.family)):
            yield Missing(op, f"a loop '{loop}'", paths.cpu_kernels(op.family))
        if loop not in cuda_names(paths.cuda_kernels(op.family)):
            yield Missing(
                op, f"'struct {loop}' or a kernel '{loop}'", paths.cuda_kernels(op.family)
            )


def defines(family: str, name: str) -> bool:
    """Return True if native/<family>.py defines `name` at the top level. Keys of dicts are not
    definitions."""
    return name in python_names(paths.native(family))


def formulas(names: Iterable[str]) -> dict[str, list[str]]:
    """Group `names`, which derivative formulas use, by the modules that define them. Return a dict
    from module, such as `autograd.formulas.reduce`, to names. Names that no module defines are
    operators. They are listed under `autograd.formulas`."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        homes = [path for path in paths.formulas() if name in python_names(path)]
        home = paths.dotted(homes[0]) if homes else "autograd.formulas"
        found.setdefault(home, []).append(name)
    return dict(sorted(found.items()))
