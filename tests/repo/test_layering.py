"""All imports of the package go to lower floors of the list, without cycles.

Imports inside functions count. Imports under `if TYPE_CHECKING:` do not, because they never run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path


ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "gputensor"

# The longest matching prefix decides. Modules of one row may import each other; modules of two rows
# on one floor may not. Each folder is in one row.
FLOORS = [
    (0, "core"),
    (1, "runtime"),
    (1, "dispatch"),
    (2, "kernels"),  # plans and kernels get operands, never a Tensor
    (3, "iterator"),
    (4, "_generated"),
    (5, "tensor"),
    (6, "structured"),
    (7, "native"),
    (8, "autograd"),
    (9, "fallbacks"),
    (10, "amp makers"),
    (11, "registrations"),
    (11, "exchange"),
    (11, "ops"),
    (12, "devices"),
    (12, "fft linalg special"),
    (13, "custom"),
    (13, "functional"),
    (13, "backends"),
    (13, "cuda"),
    (13, "testing"),
    (13, "op_tests"),
    (13, "profiling"),
    (13, "nn"),
    (12, "fusion"),
    (13, "random quasirandom"),
    (14, "layout"),
    (14, "optim"),  # above `nn`: optim/swa_utils.py averages modules
    (14, "distributions"),
    (14, "serialization"),
    (14, "library"),
    (14, "distributed registrations._generated.collective"),  # its native code is in distributed
    (14, "interop"),
    (15, "__init__ __main__ cli pytest_plugin"),
    (15, "utils"),
    (15, "parallel"),  # modules that import `distributed`; `nn` loads them on first use
    (16, "func"),
    (16, "as_torch"),
    (16, "array_api"),  # a client of the package's names
]

ROW_OF = {name: (floor, row) for row, (floor, names) in enumerate(FLOORS) for name in names.split()}


def modules() -> list[str]:
    """Return every module, relative to the package: `core.dtype`; `__init__` is the package
    itself."""
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts))
    return names


def listed_prefix(module: str) -> str | None:
    parts = module.split(".")
    prefixes = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((p for p in prefixes if p in ROW_OF), None)


def file_of(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


class _Imports(ast.NodeVisitor):
    """Collects (line, dotted name, imported names, level), without imports for type checkers
    only."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str, list[str], int]] = []

    def generic_visit(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):  # expressions contain no import
                self.visit(child)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.orelse:
                self.visit(child)
        else:
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.found += [(node.lineno, alias.name, [], 0) for alias in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.found.append(
            (node.lineno, node.module or "", [a.name for a in node.names], node.level)
        )


@cache
def imports_of(module: str) -> list[tuple[int, str]]:
    """Return (line, absolute name) of every import; for `from a import b` it is a.b if that is a
    module."""
    path = file_of(module)
    visitor = _Imports()
    visitor.visit(ast.parse(path.read_text(encoding="utf-8"), str(path)))
    here = ["gputensor", *([] if module == "__init__" else module.split("."))]
    if path.name != "__init__.py":
        here = here[:-1]
    found = []
    for line, name, imported, level in visitor.found:
        base = here[: len(here) - level + 1] if level else []
        dotted = ".".join([*base, *([name] if name else [])])
        own = dotted.removeprefix("gputensor").removeprefix(".")
        is_ours = dotted.split(".")[0] == "gputensor"
        for child in imported or [""]:
            full = f"{own}.{child}".strip(".")
            is_module = is_ours and bool(child) and file_of(full).exists()
            found.append((line, f"gputensor.{full}" if is_module else dotted))
    return found


def test_modules_are_found() -> None:
    assert {"core.dtype", "dispatch.dispatcher", "__init__", "cli"} <= set(modules())


def test_imports_go_down() -> None:
    wrong = [sentence for module in modules() for sentence in imports_upwards(module)]
    assert not wrong, "an import may not go to the same floor or upwards:\n" + "\n".join(wrong)


def imports_upwards(module: str) -> list[str]:
    own = listed_prefix(module)
    if own is None:
        return [f"{module} is on no floor; add it to FLOORS and to the design"]
    floor, row = ROW_OF[own]
    wrong = []
    for line, dotted in imports_of(module):
        if dotted.split(".")[0] != "gputensor":
            continue
        target = dotted.removeprefix("gputensor").removeprefix(".") or "__init__"
        prefix = listed_prefix(target)
        if prefix is None:  # a name that the package itself exports
            prefix = "__init__"
        target_floor, target_row = ROW_OF[prefix]
        if target_row != row and target_floor >= floor:
            wrong.append(
                f"{module} (floor {floor}), line {line}, imports {target} (floor {target_floor})"
            )
    return wrong


def test_a_room_is_one_row() -> None:
    """Except for the rows of collectives, because registrations of a family are found by name."""
    assert [n for n in ROW_OF if "." in n] == ["registrations._generated.collective"]


def graph() -> dict[str, set[str]]:
    """Return module -> the modules that it imports, in function bodies too."""
    known = set(modules())
    found: dict[str, set[str]] = {}
    for module in known:
        targets = {
            dotted.removeprefix("gputensor").removeprefix(".") or "__init__"
            for _, dotted in imports_of(module)
            if dotted.split(".")[0] == "gputensor"
        }
        # a name that is not a module is exported by the package itself
        found[module] = {t if t in known else "__init__" for t in targets} - {module}
    return found


def circles(of: dict[str, set[str]]) -> set[str]:
    """Return the modules in import cycles: those that remain after modules without remaining
    imports are removed."""
    left = {module: set(targets) for module, targets in of.items()}
    while True:
        ends = {m for m, targets in left.items() if not targets}
        # no module imports it, so it is in no cycle
        starts = left.keys() - set().union(*left.values())
        if not ends | starts:
            return set(left)
        left = {m: targets - ends - starts for m, targets in left.items() if m not in ends | starts}


def test_there_is_no_circle() -> None:
    assert not circles(graph())


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c", "d"}, "c": {"b"}, "d": set()}) == {"b", "c"}
    assert not circles({"a": {"b", "c"}, "b": {"c"}, "c": set()})


def test_only_the_cuda_runtime_imports_cupy() -> None:
    importers = {
        m for m in modules() for _, name in imports_of(m) if name.split(".")[0].startswith("cupy")
    }
    assert all(f"{module}.".startswith("runtime.cuda.") for module in importers)


def test_only_tests_know_pytorch() -> None:
    assert not [m for m in modules() for _, name in imports_of(m) if name.split(".")[0] == "torch"]


def test_floors_hold_nothing_that_is_gone() -> None:
    gone = [name for name in ROW_OF if not file_of(name).exists()]
    assert not gone, "these are gone; take them off FLOORS"


FACES = ("_generated.calls", "_generated.functions", "_generated.operators")


def _run_by_import(nodes: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """Return the code that runs when a module is imported: not function bodies, and no code for
    type checkers only."""
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for child in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
                yield from ast.walk(child) if child is not None else ()
        elif isinstance(node, (ast.ClassDef, ast.Try, ast.With)):
            yield from _run_by_import(node.body)
        elif isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.unparse(node.test):
                yield from _run_by_import([*node.body, *node.orelse])
        else:
            rest: list[ast.AST] = [node]
            while rest:
                child = rest.pop()
                if not isinstance(child, ast.Lambda):
                    yield child
                    rest += ast.iter_child_nodes(child)


def _operators_named(module: str) -> list[str]:
    """Return `line: name` of each operator that a module reads while it is imported."""
    path = file_of(module)
    body = ast.parse(path.read_text(encoding="utf-8"), str(path)).body
    faces: set[str] = set()
    found = []
    for node in _run_by_import(body):
        if isinstance(node, ast.ImportFrom):
            source = (node.module or "").removeprefix("gputensor.")
            names = [alias.name for alias in node.names]
            if source.endswith("_generated"):
                faces |= {a.asname or a.name for a in node.names if f"_generated.{a.name}" in FACES}
            if source.endswith(FACES):
                found.append(f"{node.lineno}: {', '.join(names)}")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in faces:
                found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


def test_what_a_load_of_a_family_imports_names_no_operator_by_its_own_import() -> None:
    """See Note [Loads take one lock first] in gputensor/dispatch/families.py."""
    assert _operators_named("optim.adam"), "this test sees what a module names"
    highest, _ = ROW_OF["registrations"]
    below = [m for m in modules() if ROW_OF[str(listed_prefix(m))][0] < highest]
    named = {m: _operators_named(m) for m in below if "_generated" not in m.split(".")}
    assert not {m: names for m, names in named.items() if names}
