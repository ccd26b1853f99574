"""The committed generated code is current, and all loops of the YAML exist."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


ROOT = Path(__file__).parents[2]


def test_generated_is_current() -> None:
    """In a process whose hashes differ, so that no set's order gets into a file."""
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    found = subprocess.run(
        [sys.executable, "-m", "codegen", "--check"],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr


def test_codegen_does_not_import_the_package() -> None:
    code = "import codegen.generate, codegen.where, sys; assert 'gputensor' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
