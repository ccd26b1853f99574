"""examples/train_digits.py: accuracy, picture, and equal results after an interruption."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import gputensor as gt

pytestmark = pytest.mark.skipif(
    find_spec("sklearn") is None, reason="scikit-learn brings the digits: the extra `examples`"
)

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "train_digits.py"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import train_digits

    yield train_digits


def python(*arguments: Any) -> tuple[float, str]:
    """Run the script in a separate process, with its own BLAS settings. Return (accuracy,
    progress)."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(SCRIPT), "--plot", "", *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = re.search(r"([\d.]+)% of 360 held-out digits", done.stdout)
    assert found, done.stdout
    return float(found[1]) / 100, done.stderr


@pytest.mark.full
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_it_recognises_97_percent(optimizer: str, tmp_path: Path) -> None:
    picture = tmp_path / "loss.png"
    accuracy, progress = python("--optimizer", optimizer, "--plot", picture)
    assert accuracy >= 0.97 and "step 920/920" in progress
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 20_000


@pytest.mark.full
def test_a_pause_changes_nothing(tmp_path: Path) -> None:
    """k + m steps are k steps, a checkpoint, a new process and m steps; k lies within an epoch."""
    whole, half, rest = (tmp_path / name for name in ("whole", "half", "rest"))
    same = ("--optimizer", "adam", "--hidden", 32, "--epochs", 4)
    python(*same, "--steps", 57, "--checkpoint", whole)
    python(*same, "--steps", 30, "--checkpoint", half)
    python(*same, "--steps", 57, "--checkpoint", rest, "--resume", half)
    assert gt.load(half)["step"] == 30
    a, b = gt.load(whole), gt.load(rest)
    assert len(a["losses"]) == 57 and a["losses"] == b["losses"]
    assert whole.read_bytes() == rest.read_bytes()


@pytest.mark.full
def test_an_epoch_on_a_cuda_device() -> None:
    if not gt.cuda.is_available():
        pytest.skip("no CUDA device")
    on_device, progress = python("--device", "cuda", "--epochs", 1)
    on_cpu, _ = python("--epochs", 1)
    assert on_device > 0.3 and abs(on_device - on_cpu) < 0.02 and "step 23/23" in progress


@pytest.mark.full
def test_a_graph_changes_nothing(tmp_path: Path) -> None:
    if not gt.cuda.is_available():
        pytest.skip("no CUDA device")
    same = ("--device", "cuda", "--optimizer", "adam", "--hidden", 16, "--steps", 27)
    python(*same, "--checkpoint", tmp_path / "calls")
    python(*same, "--checkpoint", tmp_path / "graph", "--graph")
    a, b = (gt.load(tmp_path / name, map_location="cpu") for name in ("calls", "graph"))
    assert len(a["losses"]) == 27 and a["losses"] == b["losses"]
    pairs = zip(a["parameters"], b["parameters"])
    assert all(p.tolist() == q.tolist() for p, q in pairs)


@pytest.mark.filterwarnings("ignore::gputensor.core.errors.FallbackWarning")
def test_steps_on_a_device_of_ones_own(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "openreg"))
    from gputensor_openreg import bring_up

    with bring_up():
        run = example.Run(example.arguments(["--device", "openreg", "--hidden", "16", "--quiet"]))
        run.train(8)
        here = example.Run(example.arguments(["--hidden", "16", "--quiet"]))
        here.train(8)
    assert run.losses == pytest.approx(here.losses, rel=1e-5)
