"""Code blocks in README and docs run.

```python blocks of a page run in order in one namespace; the text after `# → ` is their output
(with `>>>`, a block is a doctest). ```sh and ```console blocks run in bash, in one folder for a
page; in a console block the lines after a `$ ` line are its output, where `…` matches anything and
lines may be wrapped anywhere. A benchmark runs one small case.

A block that cannot run has a comment above it, `<!-- not run: REASON -->`, and is counted in
NOT_RUN; targets and modules that it names must still exist.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "docker").glob("*.md")),
]
NAMES = [str(p.relative_to(ROOT)) for p in PAGES]
RUN = {"python", "sh", "console"}
# Languages of blocks that are shown and not run; test_new_operator.py runs `py`.
SHOWN = {"text", "yaml", "toml", "diff", "c++", "dockerfile", "py"}

# Pages whose blocks launch kernels: skipped without a GPU and the emulator.
NEEDS_CUDA = {
    "README.md",
    "where_to_start.md",
    "benchmarks.md",
    "cuda_graphs.md",
    "kernels_without_a_gpu.md",
}
NOT_RUN = {
    "README.md": ["sets up a virtual environment"],
    "CONTRIBUTING.md": ["sets up a virtual environment"],
    "docs/measurements/benchmarks.md": [
        "needs a GPU",
        "takes minutes",
        "takes minutes",
        "needs a GPU",
        "writes the committed records",
    ],
    "docs/extensions/kernels_without_a_gpu.md": ["needs gdb"],
    "docs/extensions/new_operator.md": ["runs in a copy of the checkout"],
    "docs/usage/scaling.md": ["needs what gputensor[mpi] installs"],
    "docker/README.md": ["needs Docker"] * 3,
}

BLOCK = re.compile(
    r"(?:^<!-- not run: (.*?) -->\n)?^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
# Replaces `python` on a page: a benchmark runs one small case for one round. Its figures are not
# judged, so none can be impossibly good.
PYTHON = f"""#!{sys.executable}
import os, sys
if sys.argv[1:3] != ["-m", "bench"]:
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
from bench import __main__
from bench.copies import sessions
from bench.records import plots
sessions.ROOFLINE = dict.fromkeys(sessions.ROOFLINE, 1e9)
if sys.argv[3] != "report":  # which draws what all of them draw
    plots.draw = lambda data, folder: []
small = "--scale 64 --rounds 1 --cases 1 --peers numpy".split()
sys.exit(__main__.main(sys.argv[3:] + (small if sys.argv[3] == "run" else [])))
"""


class Block(NamedTuple):
    """line: the first line. not_run: the reason why it is not run; None if it is run."""

    line: int
    language: str
    text: str
    not_run: str | None


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(text[: m.start()].count("\n") + 1 + (m[1] is not None), m[2], m[3], m[1])
        for m in BLOCK.finditer(text)
    ]


def shell_lines(block: Block) -> list[str]:
    """Return the commands of a block, without prompt and comment."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    return [line.split(" #")[0].strip() for line in lines if line.strip()]


def test_the_readme_has_code_and_commands() -> None:
    found = blocks(ROOT / "README.md")
    assert {block.language for block in found} == {"python", "sh", "console"}
    (commands,) = [shell_lines(block) for block in found if block.language == "sh"]
    assert commands == ["make demo", "make test"]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = blocks(page)
    assert len(found) * 2 == len(re.findall(r"^ *(?:```|~~~)", text, re.MULTILINE))
    assert {block.language for block in found} <= RUN | SHOWN
    reasons = [block.not_run for block in found if block.not_run is not None]
    assert reasons == NOT_RUN.get(str(page.relative_to(ROOT)), [])
    assert text.count("<!-- not run") == len(reasons)
    for block in found:
        if block.language == "text":  # a session with its output is a console
            assert not block.text.startswith("$ "), f"{page.name}:{block.line}"
        if block.language == "toml":
            tomllib.loads(block.text)


def _skip_without_cuda(page: Path) -> None:
    if page.name in NEEDS_CUDA:
        from gputensor import cuda

        if not cuda.is_available():
            pytest.skip(str(cuda.unavailable_reason()))


def _longest_to_full(page: Path) -> Any:
    """This page captures a training step, whose kernels take many seconds to compile."""
    return pytest.param(page, marks=pytest.mark.full) if page.stem == "cuda_graphs" else page


@pytest.mark.parametrize("page", [_longest_to_full(p) for p in PAGES], ids=NAMES)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUTENSOR_CUDA", os.environ.get("GPUTENSOR_CUDA", "auto"))
    _skip_without_cuda(page)
    names: dict[str, object] = {"__name__": "__docs__"}
    for block in blocks(page):
        if block.language != "python" or block.not_run is not None:
            continue
        where = f"{page.name}:{block.line}"
        if ">>>" in block.text:
            test = doctest.DocTestParser().get_doctest(
                block.text, names, where, str(page), block.line
            )
            failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(
                test, clear_globs=False
            )
            names.update(test.globs)
            assert not failed, where
        else:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
            _check_output("\n".join(re.findall("# → (.*)", block.text)), printed.getvalue(), where)


# Blocks with benchmarks take half a minute if PyTorch is installed; other blocks take some seconds.
_SLOW = {name: [pytest.mark.full] for name in ("benchmarks.md", "kernels_without_a_gpu.md")}


@pytest.mark.full
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=_SLOW.get(page.name, []), id=str(page.relative_to(ROOT)))
     for page in PAGES],
)  # fmt: skip
def test_shell_blocks_run(page: Path, tmp_path: Path) -> None:
    found = [b for b in blocks(page) if b.language in ("sh", "console") and b.not_run is None]
    if not found:
        return
    _skip_without_cuda(page)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    programs = tmp_path / ".programs"
    programs.mkdir()
    for name in ("gputensor", "pytest", "python"):
        module = f'#!/bin/sh\nexec "{sys.executable}" -m {name} "$@"\n'
        (programs / name).write_text(PYTHON if name == "python" else module)
        (programs / name).chmod(0o755)
    environment = os.environ | {
        "PYTHONPATH": str(ROOT), "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTEST_ADDOPTS": "--ignore=examples",
    }  # fmt: skip
    tests = _tests_of(page)
    if tests:
        (tmp_path / "test_page.py").write_text(tests)
    for block in found:
        for command, shown in _commands(block):
            where = f"{page.name}:{block.line}: {command}"
            done = subprocess.run(
                ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True,
                text=True,
            )  # fmt: skip
            status = 1 if shown.startswith("FAILED ") else 0
            assert done.returncode == status, f"{where}\n{done.stdout}\n{done.stderr}"
            if shown:
                _check_output(shown, done.stdout, where)


def test_where_to_start_is_a_program_that_switches_the_emulator_on(tmp_path: Path) -> None:
    page = ROOT / "docs" / "where_to_start.md"
    _skip_without_cuda(page)
    text = "\n".join(block.text for block in blocks(page) if block.language == "python")
    (tmp_path / "program.py").write_text(text)
    environment = {n: v for n, v in os.environ.items() if n != "GPUTENSOR_CUDA"}
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    _check_output("\n".join(re.findall("# → (.*)", text)), done.stdout, page.name)


def _tests_of(page: Path) -> str:
    """Return the page's Python up to its test, for the lines that call pytest; empty if there is no
    test."""
    texts = [block.text for block in blocks(page) if block.language == "python"]
    last = max((n for n, text in enumerate(texts) if "def test_" in text), default=-1)
    return "\n".join(texts[: last + 1])


def _commands(block: Block) -> list[tuple[str, str]]:
    """Return (command, shown output) for each command of a block; the output may be empty."""
    if block.language == "sh":
        return [(line, "") for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]
    parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
    assert not parts[0], "a console block begins with `$ `"
    return list(zip(parts[1::2], parts[2::2]))


def _check_output(shown: str, printed: str, where: str) -> None:
    """Check that the output equals the text on the page. `…` matches any text, and lines may be
    wrapped anywhere."""
    parts = [re.escape(" ".join(part.split())) for part in shown.split("…")]
    assert re.fullmatch(".*".join(parts), " ".join(printed.split())), f"{where}\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_what_is_not_run_names_what_exists(page: Path) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for block in blocks(page):
        if block.not_run is None:
            continue
        for command in shell_lines(block):
            words = [w for w in shlex.split(command) if not re.fullmatch(r"[A-Z_]+=.*", w)]
            where = f"{page.name}:{block.line}: {command}"
            if words[0] == "make":
                assert set(words[1:]) <= set(targets), where
            elif words[:2] == ["python", "-m"]:
                module = ROOT / words[2].replace(".", "/")
                assert module.is_dir() or module.with_suffix(".py").exists(), where
            elif "/" in words[0]:
                assert (ROOT / words[0]).exists(), where
            else:
                assert words[0] in ("pip", "pytest", "docker", "gdb", "mpiexec"), where


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"`[^`]*`", "", BLOCK.sub("", page.read_text(encoding="utf-8")))
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_files_that_prose_names_exist(page: Path) -> None:
    """A file that text names, such as `dispatch/tls.py`, must exist; <placeholders> need not."""
    for name in re.findall(
        r"`([a-z_]+(?:/[a-z_]+)+\.(?:py|cu|cuh|yaml|sh))`", page.read_text(encoding="utf-8")
    ):
        assert (ROOT / name).exists() or (ROOT / "gputensor" / name).exists(), (
            f"{page.name}: {name}"
        )
