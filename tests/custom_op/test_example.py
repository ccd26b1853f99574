"""examples/custom_op.py: runs with the emulator and without any CUDA, and its operators pass
opcheck."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gputensor as gt

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("cuda", ["emulator", "off"])
def test_it_runs(cuda: str) -> None:
    if cuda == "emulator" and not gt.cuda.is_emulated():
        pytest.skip("the emulator is not what this run uses")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "custom_op.py")],
        env=os.environ | {"PYTHONPATH": str(ROOT), "GPUTENSOR_CUDA": cuda}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("SUCCESS") == (6 if cuda == "emulator" else 3)
    assert ("cuda: silu(-3.273) = -0.1195, slope -0.0786" in done.stdout) is (cuda == "emulator")
    assert "cpu: silu(-3.273) = -0.1195, slope -0.0786" in done.stdout
