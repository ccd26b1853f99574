"""In-place operators under the emulator's checks: no thread reads elements that another one writes,
even if it does not use them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gputensor as gt

from ..support import requires_emulator

pytestmark = [
    requires_emulator,
    pytest.mark.skipif(not gt.cuda.is_emulated(), reason="the emulator's checks"),
]

ROOT = Path(__file__).parents[3]


def fused(x: Any, y: Any, row: Any) -> None:
    with gt.fuse():
        x.sub_((x * 2).sigmoid())


CASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "two tensors": lambda x, y, row: x.sub_(y),
    "another dtype": lambda x, y, row: x.sub_(y.half()),
    "into another dtype": lambda x, y, row: x.half().add_(y),
    "a row": lambda x, y, row: x.sub_(row),
    "a row, by out=": lambda x, y, row: gt.add(x, row, out=x),
    "a comparison": lambda x, y, row: x.lt_(y),
    "every second": lambda x, y, row: x[:, ::2].add_(y[:, ::2]),
    "every second alone": lambda x, y, row: x[:, ::2].exp_(),
    "clamped": lambda x, y, row: x[:, ::2].clamp_(0, 0.5),
    "three operands": lambda x, y, row: x.addcmul_(y, row),
    "where": lambda x, y, row: x.masked_fill_(row > 0.5, 2),
    "activation": lambda x, y, row: gt.relu_(x[:, ::2]),
    "cast in place": lambda x, y, row: x.copy_(row),
    "a chain": fused,
}


def outcomes() -> dict[str, str]:
    """Return the outcome of each case, run in this process."""
    found = {}
    for name, case in CASES.items():
        x = gt.arange(12, device="cuda", dtype=gt.float32).reshape(3, 4) / 12
        try:
            case(x, x.clone() + 1, x[1].clone())
            found[name] = str(x.tolist())
        except gt.GpuTensorError as error:
            found[name] = str(error)
    return found


@pytest.mark.full
def test_no_thread_reads_what_another_writes() -> None:
    settings = {"GPUTENSOR_CUDA": "emulator", "GPUTENSOR_EMULATOR_SANITIZE": "all"}
    run = f"from {__name__} import outcomes; print(outcomes())"
    checked = subprocess.run(
        [sys.executable, "-c", run], env={**os.environ, **settings}, cwd=ROOT, text=True,
        capture_output=True,
    )  # fmt: skip
    assert checked.stdout.strip() == str(outcomes()), checked.stderr
