"""examples/gpt.py learns, generates text, draws and saves, also with `import torch`."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gputensor as gt

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "gpt.py"
SHORT = ["--steps", "12", "--width", "32", "--heads", "2", "--layers", "1", "--length", "16",
         "--batch", "8", "--write", "24", "--plot", ""]  # fmt: skip


@pytest.fixture
def gpt(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import gpt

    yield gpt


def test_a_short_form(gpt: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="it draws the losses")
    pytest.importorskip("safetensors", reason="it saves its weights")
    picture, weights = tmp_path / "gpt.png", tmp_path / "gpt.safetensors"
    loss = gpt.main([*SHORT, "--plot", str(picture), "--weights", str(weights)])
    shown = capsys.readouterr()
    assert loss < math.log(len(gpt.Text(gpt.documentation()).characters)) - 0.4
    assert "step 12/12" in shown.err and "A tensor " in shown.out
    assert re.search(rf"12 steps in \d+ s: {loss:.3f} nats a character held out", shown.out)
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 20_000
    from safetensors.numpy import load_file

    saved = load_file(weights)
    assert saved["blocks.0.attention.qkv.weight"].shape == (96, 32)


def test_it_writes_no_place_twice(gpt: ModuleType) -> None:
    """Earlier text does not depend on later text, also beyond the context length."""
    run = gpt.Run(gpt.arguments(SHORT))
    prompt = run.text.encode("gputensor")
    gt.manual_seed(0)
    whole = run.model.write(prompt, 20, 1.0).tolist()
    gt.manual_seed(0)
    half = run.model.write(prompt, 10, 1.0).tolist()
    assert whole[: len(half)] == half and half[: len(prompt)] == prompt.tolist()


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::gputensor.core.errors.FallbackWarning")
def test_steps_on_other_devices(gpt: ModuleType) -> None:
    if not gt.cuda.is_available():
        pytest.skip("no CUDA device, real or emulated")
    of = []
    for device in ("cpu", "cuda"):
        run = gpt.Run(gpt.arguments([*SHORT, "--steps", "3", "--device", device]))
        run.train()
        of.append(run.losses)
    assert of[0] == pytest.approx(of[1], rel=1e-4)


@pytest.mark.oracle
def test_it_runs_with_pytorchs_import(gpt: ModuleType, tmp_path: Path) -> None:
    """The file runs with its import changed. The saved weights give the same scores in PyTorch."""
    torch = pytest.importorskip("torch")
    text = SCRIPT.read_text(encoding="utf-8")
    text = text.replace("gputensor", "torch")
    there: dict[str, Any] = {"__name__": "gpt_torch", "__file__": str(SCRIPT)}
    exec(compile(text, "gpt_torch.py", "exec"), there)
    theirs = there["Run"](there["arguments"](SHORT))
    theirs.train()
    assert theirs.losses[-1] < theirs.losses[0]
    ours = gpt.Run(gpt.arguments(SHORT))
    ours.train()
    state = {name: x.numpy() for name, x in ours.model.state_dict().items()}
    theirs.model.load_state_dict({name: torch.from_numpy(x) for name, x in state.items()})
    x = np.random.default_rng(0).integers(0, len(ours.text.characters), (2, 16))
    with gt.no_grad():
        found = ours.model(gt.from_numpy(x)).numpy()
    wanted = theirs.model(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.full
def test_it_learns_what_the_documentation_reads_like(tmp_path: Path) -> None:
    picture = tmp_path / "gpt.png"
    command = [sys.executable, str(SCRIPT), "--plot", str(picture), "--steps", "100"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = re.search(r"([\d.]+) nats a character held out", done.stdout)
    assert found and float(found[1]) < 3.2, done.stdout  # 3.4: without context
    assert "step 100/100" in done.stderr and picture.stat().st_size > 20_000
