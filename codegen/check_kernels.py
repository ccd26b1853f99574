"""Whether what the YAML promises is there: natives, CPU loops and CUDA functors, found by reading.

Python files are read as AST and `.cu` files as text; nothing is imported or compiled.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import paths
from .model import Model, Op


@dataclass(frozen=True)
class Missing:
    """Something promised and not found."""

    op: Op
    what: str
    where: Path

    def __str__(self) -> str:
        place = f"{paths.YAML.name}:{self.op.line}: {self.op.name}"
        gone = "" if self.where.exists() else " (no such file)"
        return f"{place}: must have {self.what} in {paths.shown(self.where)}{gone}"


def missing(model: Model) -> list[Missing]:
    """Everything that is promised and not there, in the YAML's order."""
    return [item for op in model.ops for item in _missing(op)]


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
    """True if native/<family>.py defines `name` at its top level; a table's key does not count."""
    return name in python_names(paths.native(family))


@functools.cache
def python_names(path: Path) -> dict[str, int]:
    """Names that a Python file defines at its top level, with their lines; {} for no file."""
    found: dict[str, int] = {}
    for node in _tree(path).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.setdefault(node.name, node.lineno)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in (name for target in targets for name in ast.walk(target)):
                if isinstance(name, ast.Name):
                    found.setdefault(name.id, node.lineno)
    return found


@functools.cache
def cpu_loops(path: Path) -> dict[str, int]:
    """Names that kernels/cpu/<family>.py gives loops: what it defines, and its strings."""
    found = dict(python_names(path))
    for node in ast.walk(_tree(path)):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.isidentifier()
        ):
            found.setdefault(node.value, node.lineno)
    return found


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8") if path.exists() else "", str(path))


_FUNCTOR = re.compile(r"^\s*(?:template\s*<[^>]*>\s*)?struct\s+(\w+)", re.MULTILINE)
_KERNEL = re.compile(r"__global__\s+(?:void\s+|__launch_bounds__\([^)]*\)\s*)+(\w+)\s*\(")


@functools.cache
def cuda_names(path: Path) -> dict[str, int]:
    """Functors and kernels of a `.cu` file with their lines; `mm_tiled` counts as `mm` too."""
    found: dict[str, int] = {}
    if not path.exists():
        return found
    text = path.read_text(encoding="utf-8")
    for match in (*_FUNCTOR.finditer(text), *_KERNEL.finditer(text)):
        line = text.count("\n", 0, match.start(1)) + 1
        name = match.group(1)
        found.setdefault(name, line)
        if match.re is _KERNEL:
            found.setdefault(name.partition("_")[0], line)
    return found
