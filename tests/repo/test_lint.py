"""Ruff and mypy pass, if they are installed."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "command",
    ["ruff check .", "ruff format --check .", pytest.param("mypy", marks=pytest.mark.full)],
    ids=lambda line: line,
)
def test_tool_has_nothing_to_say(command: str) -> None:
    tool, *arguments = command.split()
    if find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed")
    found = subprocess.run(
        [sys.executable, "-m", tool, *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_lines_that_ruff_does_not_see_are_as_short() -> None:
    longest = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["line-length"]
    paths = [
        path
        for folder in ("gputensor", "examples", "bench", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".cu", ".cuh", ".h", ".cpp", ".pyi") or path.match("_generated/*/*.py")
    ]
    assert len(paths) > 100
    assert not [
        f"{path.relative_to(ROOT)}:{number}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > longest
        and not line.lstrip()[1:].startswith(("aten::", "_c10d_functional::"))  # one text
    ]
