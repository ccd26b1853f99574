"""Programs that change requires_grad, detach, add hooks and differentiate have PyTorch's results.

GPUTENSOR_STATE_PROGRAMS sets their number.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gputensor as gt

from ...backend.late import late
from ...cuda.support import requires_emulator
from .autograd_state_programs import StateRun, state_step

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("one_thread")]

PROGRAMS = int(os.environ.get("GPUTENSOR_STATE_PROGRAMS", "2000"))
PER_TEST = 250
ON_DEVICES = PROGRAMS // 20
ROOT = Path(__file__).parents[3]


def run_program(seed: int, place: str = "") -> str | None:
    """Run a program with both libraries. Return None if they agree, otherwise the difference."""
    r, numbers = random.Random(seed), np.random.default_rng(seed)
    shapes = [(2, 3), (3,), (2, 3), ()]
    values = [np.asarray(numbers.uniform(0.5, 1.5, s)) for s in shapes]
    wants = [True, r.random() < 0.5, False, r.random() < 0.3]
    theirs, ours = StateRun(torch, values, wants), StateRun(gt, values, wants, place, seed)
    try:
        return _compare(r, theirs, ours)
    finally:
        theirs.close()
        ours.close()


def _compare(r: random.Random, theirs: StateRun, ours: StateRun) -> str | None:
    for number in range(r.randint(1, 24)):
        made = state_step(r, [tuple(x.shape) for x in theirs.pool])
        if theirs.is_ambiguous(made):
            continue
        a, b = theirs.do(made), ours.do(made)
        if a is not b:
            return f"step {number} {made}: {a} against {b}"
        facts = theirs.facts()
        if theirs.is_broken:
            return None
        if facts != ours.facts():
            return f"step {number} {made}: {theirs.facts()} against {ours.facts()}"
        if sorted(theirs.log) != sorted(ours.log):
            return f"step {number} {made}: {theirs.log} against {ours.log}"
        if a is not None and made[1] in ("backward", "grad"):
            return None  # the nodes that ran before a failure may differ between libraries
        if made[1] in ("backward", "grad"):
            found = _different(theirs.grads(), ours.grads())
            if found:
                return f"step {number} {made}: gradient {found}"
    found = _different(theirs.values(), ours.values())
    return f"value {found}" if found else None


def _different(theirs: list[Any], ours: list[Any]) -> str | None:
    for number, (a, b) in enumerate(zip(theirs, ours)):
        if (
            (a is None) is not (b is None)
            or a is not None
            and not np.allclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True)
        ):
            return f"{number}: {a} against {b}"
    return None


def wrong(first: int, count: int, place: str = "") -> dict[int, str]:
    return {
        seed: found for seed in range(first, first + count) if (found := run_program(seed, place))
    }


@pytest.mark.parametrize("first", range(0, PROGRAMS, PER_TEST))
def test_random_programs(first: int) -> None:
    assert not wrong(first, PER_TEST)


# --- on devices with streams, one for each step, against PyTorch's CPU --------------------------


def test_random_programs_on_a_further_devices_streams() -> None:
    with late():
        assert not wrong(0, ON_DEVICES, "openreg")


EMULATED = """
import warnings
import numpy as np
warnings.simplefilter("ignore")
np.seterr(all="ignore")
from tests.oracle.autograd.test_autograd_state_oracle import ON_DEVICES, wrong
found = wrong(0, ON_DEVICES, "cuda")
assert not found, found
"""


@requires_emulator
@pytest.mark.emulator
@pytest.mark.parametrize("order", ["lazy", "random"])
def test_random_programs_on_cuda_streams(order: str) -> None:
    settings = {
        "GPUTENSOR_CUDA": "emulator",
        "GPUTENSOR_EMULATOR_ORDER": order,
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", EMULATED],
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
