"""examples/train_digits_parallel.py: several ranks get the result of one, interrupted or not."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import gputensor as gt

from . import launch

pytestmark = pytest.mark.skipif(
    find_spec("sklearn") is None, reason="scikit-learn brings the digits: the extra `examples`"
)

SCRIPT = launch.ROOT / "examples" / "train_digits_parallel.py"
# Rank 1 is killed in a step, when other ranks already wait for its gradients.
KILLED = """
import os, signal, sys
sys.path.insert(0, {folder!r})
import train_digits_parallel as example
eager = example.ParallelRun.eager
def dies(run, x, y, lr):
    if run.rank == 1 and run.step == {step}:
        os.kill(os.getpid(), signal.SIGKILL)
    return eager(run, x, y, lr)
example.ParallelRun.eager = dies
example.main(sys.argv[1:])
"""


def train(ranks: int, *arguments: object) -> float:
    command = [str(SCRIPT), "--plot", "", *map(str, arguments)]
    done = launch.run(ranks, *command)
    assert done.returncode == 0, done.stdout
    found = re.search(r"([\d.]+)% of 360 held-out digits; parameters are the same on", done.stdout)
    assert found, done.stdout
    return float(found[1]) / 100


def parameters(path: Path) -> list[np.ndarray]:
    return [p.numpy() for p in gt.load(path)["parameters"]]


@pytest.mark.full
def test_ranks_recognise_97_percent() -> None:
    assert train(2) >= 0.97


@pytest.mark.full
def test_ranks_find_what_one_finds_also_after_a_rank_was_killed(tmp_path: Path) -> None:
    """A killed rank loses no more than an epoch."""
    whole, kept, script = tmp_path / "whole", tmp_path / "kept", tmp_path / "killed.py"
    small = ("--epochs", 3, "--hidden", 32)
    train(1, *small, "--checkpoint", tmp_path / "one")
    train(2, *small, "--checkpoint", whole)
    for one, two in zip(parameters(tmp_path / "one"), parameters(whole)):
        np.testing.assert_allclose(two, one, rtol=1e-3, atol=1e-4)
    script.write_text(KILLED.format(folder=str(SCRIPT.parent), step=57))
    given = map(str, (*small, "--checkpoint", kept, "--plot", ""))
    done = launch.run(2, str(script), *given)
    assert done.returncode != 0 and gt.load(kept)["step"] == 46, done.stdout
    train(2, *small, "--checkpoint", kept, "--resume", kept)
    for one, other in zip(parameters(whole), parameters(kept)):
        np.testing.assert_array_equal(one, other)
