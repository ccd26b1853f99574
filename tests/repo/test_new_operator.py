"""The steps of docs/extensions/new_operator.md work in a copy of the checkout, with no other edits.

A paragraph "`FILE`, before `LINE`:" and the following block are an edit. The new operators then run
in the copy, on every available device and in every form, by the general tests of operators.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gputensor import cuda

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "extensions" / "new_operator.md"
EDIT = re.compile(
    r"^`([\w./]+)`, before `(.+?)`:\n\n(?:<!--[^\n]*-->\n)?```\S+\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
COPIED = ("codegen", "docs", "gputensor", "tests")
# A program that uses the operator with its own loops: forms, gradients, errors, devices.
PROGRAM = """
import sys
import gputensor as gt

def near(x, *wanted, by=1e-5):
    assert all(abs(a - b) <= by for a, b in zip(x.tolist(), wanted, strict=True)), x

x = gt.tensor([8.0, -27.0], requires_grad=True)
y = gt.cbrt(x)
near(y, 2, -3), near(x.cbrt(), 2, -3)
(first,) = gt.autograd.grad(y.sum(), x, create_graph=True)
near(first, 1 / 12, 1 / 27)
(second,) = gt.autograd.grad(first.sum(), x)
near(second, -1 / 144, 2 / 9 / 243)
out = gt.empty(0)
assert gt.cbrt(gt.tensor([1, 8]), out=out) is out
near(out, 1, 2)
z = gt.tensor([8.0])
assert z.cbrt_() is z
near(z, 2)
assert gt.cbrt(gt.empty(3, device="meta")).shape == (3,)
try:
    gt.cbrt(gt.tensor([1j]))
except RuntimeError as error:
    assert "cbrt: 'self' must be floating (got c64)" in str(error), error
assert gt.ops.aten.cbrt.out._schema and "cbrt" in dir(gt)
c = gt.tensor([2.0], requires_grad=True)
gt.cube(c).backward()
assert c.cube().item() == 8.0 and c.grad.item() == 12.0
if sys.argv[1:] == ["cuda"]:
    for dtype in (gt.float16, gt.bfloat16, gt.float32, gt.float64):
        on = gt.tensor([8.0, -27.0], dtype=dtype, device="cuda")
        near(on.cbrt(), 2, -3)
        assert on.cube().tolist()[0] == 512.0 and str(on.cbrt_().device) == "cuda:0"
"""


def edits() -> list[tuple[str, str, str]]:
    return [(m[1], m[2], m[3]) for m in EDIT.finditer(PAGE.read_text(encoding="utf-8"))]


def example() -> tuple[str, str]:
    """Return the page's example of the new operator, and its output."""
    text = PAGE.read_text(encoding="utf-8")
    program = text[text.index("```py\nimport gputensor") :].partition("\n")[2].partition("```")[0]
    return program, program.partition("# → ")[2].strip()


def run(folder: Path, *arguments: str) -> str:
    environment = dict(os.environ, PYTHONPATH=str(folder))
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


full = pytest.mark.full


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    for name in COPIED:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("native_functions.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    for name, line, block in edits():
        path = folder / name
        text = path.read_text(encoding="utf-8")
        at = re.search(rf"^ *{re.escape(line)}$", text, re.MULTILINE)
        assert at is not None, f"{name} has no line {line!r}"
        path.write_text(text[: at.start()] + block + text[at.start() :], encoding="utf-8")
    run(folder, "-m", "codegen")
    run(folder, "-m", "tests.freeze_samples")
    return folder


def test_an_operator_is_a_row_a_loop_a_functor_and_a_row_of_tests() -> None:
    places = [
        "native_functions.yaml", "gputensor/kernels/cpu/unary.py",
        "gputensor/kernels/cuda/unary.cu", "tests/rows/unary.py",
    ]  # fmt: skip
    composite = ["native_functions.yaml", "gputensor/native/unary.py", "tests/rows/unary.py"]
    assert [name for name, _, _ in edits()] == places + composite


@full
def test_it_is_there_in_every_form(copy: Path) -> None:
    run(copy, "-W", "error", "-c", PROGRAM)
    program, printed = example()
    assert run(copy, "-W", "error", "-c", program).strip() == printed


@full
def test_it_runs_on_cuda(copy: Path) -> None:
    if not cuda.is_available():
        pytest.skip(f"no CUDA device: {cuda.unavailable_reason()}")
    run(copy, "-W", "error", "-c", PROGRAM, "cuda")


@full
@pytest.mark.parametrize("name", ["cbrt", "cube"])
def test_its_row_passes_the_harnesses(copy: Path, name: str) -> None:
    files = sorted(str(p.relative_to(copy)) for p in copy.glob("tests/operators/test_ops_*.py"))
    told = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", name, *files)
    assert re.search(r"\b[1-9]\d* passed", told), told


@full
def test_its_places_are_named(copy: Path) -> None:
    told = run(copy, "-m", "codegen", "where", "cbrt")
    for place in (
        "native_functions.yaml", "_generated/families/unary.py",
        "registrations/_generated/unary.py",
        "native/unary.py", "kernels/cpu/unary.py", "kernels/cuda/unary.cu", "tests/rows/unary.py",
        "docs/operators.md",
    ):  # fmt: skip
        assert re.search(rf"{place}:\d+", told), (place, told)
    assert "CbrtBackward0" in told
    for name in ("_generated", "docs/operators.md"):
        assert "cbrt" not in name
    run(copy, "-m", "codegen", "--check")


@full
def test_nothing_else_was_written(copy: Path) -> None:
    written = {name for name, _, _ in edits()}
    generated = ("docs/operators.md", "gputensor/op_tests/samples.json")
    for path in sorted(p for name in COPIED for p in (ROOT / name).rglob("*.*")):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix not in (".py", ".pyi", ".cu", ".cuh", ".md", ".json"):
            continue
        if name in written or name.startswith(generated) or "_generated" in path.parts:
            continue
        assert (copy / name).read_bytes() == path.read_bytes(), name
