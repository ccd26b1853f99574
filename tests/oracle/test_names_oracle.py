"""gputensor/core/errors/names.txt equals the names of PyTorch and NumPy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the oracle is PyTorch")

pytestmark = pytest.mark.oracle

ROOT = Path(__file__).parents[2]
NAMES = ROOT / "gputensor" / "core" / "errors" / "names.txt"


def test_the_frozen_names_are_theirs() -> None:
    program = "from tests.oracle import freeze_names; print(freeze_names.text(), end='')"
    done = subprocess.run(  # a separate process, because other imports add names to these libraries
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    frozen, found = NAMES.read_text(encoding="utf-8").splitlines(), done.stdout.splitlines()
    if frozen[0] != found[0]:
        pytest.skip(f"other versions are installed: {found[0]}")
    for ours, theirs in zip(frozen, found, strict=True):
        assert ours == theirs
    program = program.replace("text()", "of_programs()")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    frozen = (ROOT / "tests" / "as_torch" / "names.txt").read_text(encoding="utf-8").splitlines()
    for ours, theirs in zip(frozen, done.stdout.splitlines(), strict=True):
        assert ours == theirs
