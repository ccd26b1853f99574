"""`python -m bench run models`: the models agree with PyTorch's, and the table of their figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gputensor as gt
from bench import models
from bench.models import layers, networks, sides

MIB = 1 << 20


def case(ours: float, theirs: float, mib: int) -> dict[str, Any]:
    return {
        "name": "perceptron: step", "model": "perceptron", "kind": "step", "number": 10,
        "ns": {"gputensor": ours, "torch": theirs}, "ratio": {"torch": theirs / ours},
        "peak_bytes": {"gputensor": mib * MIB, "torch": 400 * MIB},
        "skipped": {"torch.compile": "no compiler"},
    }  # fmt: skip


def record(*cases: dict[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = {
        "benchmark": "models", "device": "cpu", "threads": 2, "scale": 1, "skipped": {},
        "peers": ["torch", "torch.compile"], "cases": [*cases],
    }  # fmt: skip
    return data | {"summary": models.summary(data)}


def test_the_table_has_times_ratios_and_memory() -> None:
    text = models.report(record(case(1e6, 2e6, 100)))
    assert "| perceptron: step | 1 | 2 | – | 2.00 | – | 100 | 400 |" in text
    assert "| **geometric mean** |  |  |  | **2.00** | – |  |  |" in text
    assert "No figures of torch.compile for perceptron: step (no compiler)." in text


def test_missed_budgets_are_sentences() -> None:
    assert models.failures(record(case(1e6, 1e6, 200))) == []
    assert models.failures(record(case(2e6, 1e6, 300))) == [
        "the models take 2.00 of PyTorch's time in the mean, not 1.1",
        "perceptron: step takes 2.00 of PyTorch's time, not 1.5",
        "perceptron: step has 0.75 of its memory, not 0.5",
    ]


def test_layers_have_budgets_by_kind() -> None:
    slow = {"name": "1 × 1: forward", "kind": "convolutions", "number": 9, "skipped": {},
            "ns": {"gputensor": 2e6, "torch": 1e6}, "ratio": {"torch": 0.5}}  # fmt: skip
    data = record(case(1e6, 1e6, 200), slow)
    assert models.failures(data) == [
        "convolutions have 0.50 of PyTorch's speed in the mean, not 0.9",
        "1 × 1: forward has 0.50 of PyTorch's speed, not 0.6",
    ]
    text = models.report(data)
    assert (
        "| 1 × 1: forward | 2 | 1 | 0.50 |" in text
        and "| **convolutions** |  |  | **0.50** |" in text
    )


def test_the_plot_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    environment = {"cpu": "a CPU", "cpus": 2, "versions": {}, "time": "2026-01-01", "commit": None}
    data = record(case(1e6, 2e6, 100)) | {"environment": environment}
    (path,) = models.draw(data, tmp_path)
    assert path.name == "models-cpu-ratio.png" and path.stat().st_size


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_each_model_learns(name: str) -> None:
    gt.manual_seed(0)
    network = networks.NETWORKS[name](gt, True)
    step = sides.stepping(gt, network)
    losses = [step().item() for _ in range(4)]
    assert losses[-1] < losses[0]


@pytest.mark.oracle
def test_each_is_compared_and_measured() -> None:
    pytest.importorskip("torch")
    found = models.run(rounds=1, scale=2, libraries=("torch",))
    names = [f"{name}: {what}" for name in networks.NETWORKS for what in ("forward", "step")]
    passes = ("forward", "forward and backward")
    names += [f"{name}: {what}" for name in layers.LAYERS for what in passes]
    assert [case["name"] for case in found["cases"]] == names
    for case in found["cases"]:
        peak = case.get("peak_bytes", {"gputensor": 21 * MIB, "torch": 22 * MIB})
        assert 20 * MIB < peak["gputensor"] < peak["torch"] and case["ratio"]["torch"] > 0
