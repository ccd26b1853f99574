"""Source lines of an operator's parts, found by parsing the package's files without importing them.

`gputensor ops` prints them. `python -m codegen where` also prints files that only a checkout has.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Sequence
from pathlib import Path

Places = list[tuple[str, str]]


def of(
    package: Path, family: str, name: str, natives: Sequence[str], loops: Sequence[str]
) -> Places:
    """Return pairs (part of the operator, file and line), in the order in which a call runs the
    parts.

    name: for example `add.Tensor`. natives: functions of the family's native code. Without natives,
    natives and loops are read from the registration.
    """
    identifier, base = name.replace(".", "_"), name.partition(".")[0]
    called = package / "_generated" / "families" / f"{family}.py"
    wanted = [f"op_{identifier}", base, f"Tensor_{base}", f"call_{identifier}"]
    found = _lines("called", called, python_names(called), wanted)
    kernels = package / "registrations" / "_generated" / f"{family}.py"
    row = rows(kernels).get(identifier)
    if row is not None:
        found.append(("row", f"{_shown(kernels)}:{row.line} of registration"))
        found += _lines("node", kernels, python_names(kernels), row.nodes)
    native = package / (native_file(kernels) or f"native/{family}.py")
    found += _lines("native", native, python_names(native), natives or (row.natives if row else ()))
    cpu, cuda = (package / "kernels" / folder / family for folder in ("cpu", "cuda"))
    cpu, cuda = cpu.with_suffix(".py"), cuda.with_suffix(".cu")
    for loop in loops or (row.loops if row else ()):
        found += _lines("cpu", cpu, cpu_loops(cpu), [loop])
        found += _lines("cuda", cuda, cuda_names(cuda), [loop])
    return found


def _lines(what: str, path: Path, names: dict[str, int], wanted: Sequence[str]) -> Places:
    known = [name for name in dict.fromkeys(wanted) if name in names]
    return [(what, f"{_shown(path)}:{names[name]} {name}") for name in known]


def _shown(path: Path) -> str:
    """Return the path relative to the package's parent folder, with forward slashes."""
    parts = path.parts
    return "/".join(parts[len(parts) - 1 - parts[::-1].index("gputensor") :])


class Row:
    """The names in one registration: functions of native code, a CPU loop, node classes."""

    __slots__ = ("line", "natives", "loops", "nodes")

    def __init__(self, call: ast.Call) -> None:
        self.line: int = call.lineno
        words = [a.value for a in call.args if isinstance(a, ast.Constant)]
        is_bound = isinstance(call.func, ast.Name) and call.func.id == "bind"
        self.loops: list[str] = [str(word) for word in words] if is_bound else []
        self.natives: list[str] = [
            a.attr for a in call.args
            if isinstance(a, ast.Attribute) and isinstance(a.value, ast.Name)
            and a.value.id == "native"
        ]  # fmt: skip
        # This list also contains the names of rules that other files define. `_lines` drops these
        # names, because no class of this file has them.
        self.nodes: list[str] = [a.id for a in call.args if isinstance(a, ast.Name)]


@functools.cache
def rows(path: Path) -> dict[str, Row]:
    """Parse a file of registrations/_generated. Return a dict: operator -> Row."""
    found: dict[str, Row] = {}
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Attribute):
            # operators outside aten have registrations of their own, such as `op_all_reduce`
            row = found.setdefault(node.args[0].attr.removeprefix("op_"), Row(node))
            row.natives += [name for name in Row(node).natives if name not in row.natives]
            row.nodes += [name for name in Row(node).nodes if name not in row.nodes]
    return found


@functools.cache
def native_file(path: Path) -> str:
    """Return the native file that a file of registrations imports, or "" if there is none."""
    for node in _tree(path).body:
        if isinstance(node, ast.ImportFrom) and node.names[0].asname == "native":
            return f"{node.module}/{node.names[0].name}.py"
    return ""


@functools.cache
def python_names(path: Path) -> dict[str, int]:
    """Return the top-level names of a Python file with their lines, or {} if the file is
    missing."""
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
    """Return the names of loops in kernels/cpu/<family>.py with their lines. A loop's name is
    defined at the top level or occurs in a string."""
    found = dict(python_names(path))
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.isidentifier():
                found.setdefault(node.value, node.lineno)
    return found


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8") if path.exists() else "", str(path))


_FUNCTOR = re.compile(r"^\s*(?:template\s*<[^>]*>\s*)?struct\s+(\w+)", re.MULTILINE)
_KERNEL = re.compile(r"__global__\s+(?:void\s+|__launch_bounds__\([^)]*\)\s*)+(\w+)\s*\(")


@functools.cache
def cuda_names(path: Path) -> dict[str, int]:
    """Return the functors and kernels of a `.cu` file with their lines. `mm_tiled` is also listed
    as `mm`."""
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
