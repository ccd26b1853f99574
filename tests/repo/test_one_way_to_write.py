"""Only `runtime.files` writes files, because its writes are atomic.

`codegen/` is excluded: it must work while the package is broken, and git has its files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WAYS = frozenset(
    "write_text write_bytes savefig replace rename mkstemp mkdtemp NamedTemporaryFile "
    "TemporaryFile "
    "TemporaryDirectory tofile savez".split()
)
WORDS = re.compile(rf"open\s*\(|\b(write_|savefig|{'|'.join(sorted(WAYS))})")
MODULES = frozenset("os shutil tempfile np numpy Path path".split())
# The place, and why no reader can find the file incomplete.
ALLOWED = {
    "gputensor/runtime/files.py": "the one way",
    "gputensor/runtime/emulator/toolchain.py": "headers and results in a folder of runtime.files",
    "gputensor/serialization/__init__.py": "entries of an archive in a file of runtime.files",
    "bench/records/plots.py": "savefig writes into a file of runtime.files",
    "bench/emulator.py": "a folder for one measurement",
    "bench/house.py": "a folder for a fresh clone",
    "bench/host/import.py": "a folder for one measurement",
    "bench/host/stub_driver.py": "a folder for one build, whose result the kernels' cache keeps",
    "bench/gpu_check/__main__.py": "a folder for one build, whose archive is made before a run",
    "bench/gpu_check/run.py": "logs that grow, which are packed as far as they are",
    "bench/gpu_check/lines.py": "lines that are appended as tests end; a half one is left out",
    "bench/gpu_check/fuzz.py": "logs that grow",
}


def writes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in ("open", "fdopen"):
            modes = [
                a.value for a in (*node.args, *(k.value for k in node.keywords)) if _is_text(a)
            ]
            if any(set(m) & set("wax+") and set(m) <= set("rwaxbt+") for m in modes):
                yield node.lineno, name
        elif isinstance(called, ast.Attribute) and name in WAYS:
            owner = ast.unparse(called.value)
            # str.replace and files.write_text are other methods.
            if owner in MODULES or name.startswith(("write_", "savefig")) and owner != "files":
                yield node.lineno, f"{owner}.{name}"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@pytest.mark.full
def test_only_one_module_writes_files() -> None:
    found = {}
    for folder in ("gputensor", "bench"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            named = path.relative_to(ROOT).as_posix()
            text = path.read_text(encoding="utf-8")
            # files without the words have no such call, and need not be parsed
            seen = list(writes(ast.parse(text))) if WORDS.search(text) else []
            if seen:
                found[named] = seen
    assert not found.keys() - ALLOWED.keys(), found
    assert found.keys() == ALLOWED.keys()


def test_the_walk_sees_what_it_is_for() -> None:
    text = "open(p, 'wb'); p.open('x'); p.write_text(t); os.replace(a, b); tempfile.mkdtemp()"
    assert len(list(writes(ast.parse(text)))) == 5
    text = "open(p); open(p, 'rb'); s.replace('a', 'b'); files.write_text(p, t); os.open(p, flags)"
    assert not list(writes(ast.parse(text)))
