"""Ruff and mypy are tests too, where they are installed."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("tool, arguments", [("ruff", ["check", "."]), ("mypy", [])])
def test_tool_has_nothing_to_say(tool: str, arguments: list[str]) -> None:
    if find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed")
    found = subprocess.run(
        [sys.executable, "-m", tool, *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr
