"""Files of the package: few modules at the root, a docstring in every `__init__`, only families in
native/, few files in a folder (also of pages), and no text that names a missing file.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from codegen import load

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "gputensor"
ROOMS = sorted(p.parent for p in PACKAGE.glob("*/__init__.py"))
FAMILIES = {op.family for op in load.load().ops}
MOST_AT_THE_ROOT = 12
# The maximum number of files in a folder beside `__init__.py`, except for folders of families and
# of records.
MOST = 15
MANY = {
    "gputensor/native", "gputensor/kernels/cpu", "gputensor/kernels/cuda",
    "gputensor/kernels/compiled", "gputensor/kernels/compiled/loops", "tests/kernels/compiled",
    "tests/rows", "bench/results",
}  # fmt: skip

# Files that families share, in folders where each other file belongs to a family: `copy.py`,
# `copy_plan.py`.
SHARED = {
    "native": set(),
    "kernels/cpu": {"cast", "pointwise", "quiet", "select", "table"},
    "kernels/cuda": {
        "binding", "chain", "chain_launch", "chain_source", "rows_chain",
        "rows_chain_launch", "rows_source", "division", "launch", "module",
        "numbers", "pointwise_launch", "pointwise_plan", "prebuilt", "variants",
    },
}  # fmt: skip

# Names of a reader's own files in examples.
READERS = {"axpy.cu", "scale_reference.py", "test.py"}
# The first folder, or the name of the library, distinguishes their files from ours.
OTHERS = re.compile(
    r"\b(aten|ATen|c10|csrc|torch|torchgen|PyTorch|CuPy|NumPy|cupy|numpy|Numba|gen_\w+)\b"
)
MENTION = re.compile(r"(?<![\w./*{<-])((?:\w[\w.-]*/)*)([a-z]\w*\.(?:py|pyi|cu|cuh))\b(?![\w(*])")


def stems(folder: str) -> set[str]:
    found = [p for p in (PACKAGE / folder).iterdir() if p.suffix in (".py", ".cu")]
    return {p.stem for p in found} - {"__init__"}


def test_the_root_holds_few_modules() -> None:
    assert len([*PACKAGE.glob("*.py")]) <= MOST_AT_THE_ROOT


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_room_says_in_one_sentence_what_it_holds(room: Path) -> None:
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))
    assert text, f"{room.name}/__init__.py has no docstring"
    first = text.partition("\n\n")[0].replace("\n", " ")
    assert first.endswith((".", ":")) and not re.search(r"[.!?] [A-Z]", first), first


def test_rooms_are_found() -> None:
    assert {"tensor", "exchange", "native", "kernels"} <= {room.name for room in ROOMS}


def test_native_holds_the_families_and_nothing_else() -> None:
    assert stems("native") == FAMILIES


@pytest.mark.parametrize("folder", [f for f in SHARED if f != "native"])
def test_kernels_are_called_as_their_family(folder: str) -> None:
    prefixes = tuple(f"{family}_" for family in FAMILIES)
    left = {s for s in stems(folder) if s not in FAMILIES and not s.startswith(prefixes)}
    assert left == SHARED[folder]


# --- texts --------------------------------------------------------------------------------------


def tracked() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no checkout: git does not list the files here")
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def prose(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Return (line number, line) of prose: the text of a page, or docstrings and comments of
    Python."""
    if name.endswith(".md"):
        yield from enumerate(text.splitlines(), 1)
        return
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, kinds) and ast.get_docstring(node):
            string = node.body[0]
            last = string.end_lineno or string.lineno
            yield from enumerate(lines[string.lineno - 1 : last], string.lineno)
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("# "):
            yield number, line


def is_there(folder: str, name: str, files: set[str], names: set[str]) -> bool:
    """True if a file has the mentioned name, or a path that ends in it."""
    if not folder:
        return name in names or name in READERS
    return any(file == folder + name or file.endswith(f"/{folder}{name}") for file in files)


def test_folders_hold_few_files() -> None:
    files = [file for file in tracked() if not file.endswith("/__init__.py")]
    folders = Counter(file.rpartition("/")[0] for file in files)
    rooms = ("gputensor", "codegen", "bench", "docs", "examples", "tests")
    ours = {f: n for f, n in folders.items() if f.split("/")[0] in rooms}
    engine = "gputensor/kernels/compiled/engine"
    assert {"codegen/emit", "bench/records", "docs/usage", engine} <= set(ours)
    few = {f: n for f, n in ours.items() if f not in MANY and "/_generated" not in f}
    full = {f: n for f, n in few.items() if n > MOST}
    assert not full, f"folders with more than {MOST} files: {full}"


@pytest.mark.full
def test_files_that_texts_name_are_there() -> None:
    files = set(tracked())
    names = {file.rpartition("/")[2] for file in files}
    wrong, seen = [], 0
    for file in sorted(files):
        is_ours = file.startswith(("gputensor/", "codegen/", "docs/")) or file.count("/") == 0
        if not is_ours or "/_generated/" in file or not file.endswith((".py", ".md")):
            continue
        if file == "CHANGELOG.md" or file.startswith("docs/adr/"):  # they describe earlier versions
            continue
        text = (ROOT / file).read_text(encoding="utf-8")
        for number, line in prose(file, text):
            if OTHERS.search(line):
                continue
            for folder, name in MENTION.findall(line):
                seen += 1
                if not is_there(folder, name, files, names):
                    wrong.append(f"{file}:{number} names {folder}{name}")
    assert seen > 200, "the texts were not read"
    assert not wrong, "\n".join(wrong)
