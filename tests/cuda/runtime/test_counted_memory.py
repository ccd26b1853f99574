"""Memory of a training step, counted by the allocator, compared with the documentation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gputensor.runtime.emulator import toolchain

ROOT = Path(__file__).parents[3]
MIB = 1 << 20


@pytest.mark.full
@pytest.mark.skipif(
    toolchain.unavailable_reason() is not None, reason=str(toolchain.unavailable_reason())
)
def test_a_step_needs_little_more_than_what_it_holds() -> None:
    command = [sys.executable, "-m", "tests.cuda.runtime.counted_memory", "64"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(made.stdout)
    largest = 64 * 256 * 56 * 56 * 4  # bytes; all windows would take 9 times as much
    assert found["held"] < found["step"] < found["held"] + largest
    text = " ".join((ROOT / "docs/internals/architecture.md").read_text(encoding="utf-8").split())
    assert f"{found['step'] / MIB:,.0f} MiB, of which {found['held'] / MIB:,.0f} MiB" in text
