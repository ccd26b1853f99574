"""Losses of invalid targets, rows with infinities, and long rows, beyond the samples of rows."""

from __future__ import annotations

import math
from typing import Any

import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.nn import functional as F

LOSSES = (F.nll_loss, F.cross_entropy)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("wrong", [3, -1, -101, 1 << 40])
def test_a_target_that_is_no_class_is_named(loss: Any, wrong: int) -> None:
    target = gt.tensor([0, wrong, 2])
    with pytest.raises(
        errors.IndexRangeError, match=rf"target' must hold classes in \[0, 2\].*got {wrong}\)"
    ):
        loss(gt.zeros(3, 3), target)
    with pytest.raises(IndexError):
        loss(gt.zeros(3, 3), target, reduction="none", ignore_index=2)
    assert loss(gt.zeros(3, 3), target, ignore_index=wrong).item() == pytest.approx(
        0 if loss is F.nll_loss else math.log(3)
    )


def test_on_a_cuda_device_it_is_an_assertion() -> None:
    """The host does not wait for the kernel, so the call returns. No memory outside of the operands
    is read."""
    if not (gt.cuda.is_available() and gt.cuda.is_emulated()):
        pytest.skip("a failed assertion ends the use of a GPU in this process")
    x = gt.zeros(2, 3, device="cuda")
    with pytest.raises(
        errors.KernelError, match=r"loss\.cu:\d+: assertion failed: .*a target is no class"
    ):
        F.nll_loss(x, gt.tensor([0, 3]).to("cuda")).item()
    assert F.nll_loss(x, gt.tensor([0, 2]).to("cuda")).item() == 0


def test_all_targets_ignored() -> None:
    x, target = gt.ones(2, 3), gt.tensor([1, 1])
    assert math.isnan(F.nll_loss(x, target, ignore_index=1).item())
    assert F.nll_loss(x, target, ignore_index=1, reduction="sum").item() == 0


@pytest.mark.full
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_large_numbers_and_infinities(device: str) -> None:
    if device == "cuda" and not gt.cuda.is_available():
        pytest.skip("no CUDA device")
    inf = math.inf
    x = gt.tensor([[1e30, -1e30, 1e30], [0.0, -inf, 0.0], [1000.0, 0.0, -inf]]).to(device)
    half = math.log(0.5)
    assert gt.log_softmax(x, 1).tolist() == [
        [pytest.approx(half), pytest.approx(-2e30), pytest.approx(half)],
        [pytest.approx(half), -inf, pytest.approx(half)],
        [0.0, -1000.0, -inf],
    ]
    assert gt.softmax(x, 1).tolist() == [[0.5, 0, 0.5], [0.5, 0, 0.5], [1, 0, 0]]
    for row in ([-inf, -inf], [inf, 0.0], [math.nan, 0.0]):
        found = gt.softmax(gt.tensor(row).to(device), 0).tolist()
        assert all(math.isnan(y) for y in found), row


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_functional_takes_pytorchs_arguments(reduction: str) -> None:
    x, y = gt.rand(5, 3), gt.rand(5, 3)
    squares = (x - y) * (x - y)
    wanted = {"none": squares, "mean": squares.mean(), "sum": squares.sum()}[reduction]
    assert F.mse_loss(x, y, reduction=reduction).tolist() == wanted.tolist()
    w = gt.rand(5, 3) + 0.5
    weighed = {
        "none": squares * w,
        "mean": (squares * w).sum() / w.sum(),
        "sum": (squares * w).sum(),
    }
    found = F.mse_loss(x, y, reduction=reduction, weight=w)
    assert gt.testing.assert_close(found, weighed[reduction]) is None
    z = x - 0.5
    assert F.relu(z, inplace=True) is z and z.tolist() == F.relu(x - 0.5).tolist()
    with pytest.raises(errors.GpuTensorError, match="reduction"):
        F.nll_loss(x, y, reduction="max")
    with pytest.raises(TypeError):
        F.linear(x, [1.0])


@pytest.mark.parametrize("reduction", ["none", "sum"])
def test_smoothing_over_no_classes(reduction: str) -> None:
    x = gt.zeros(2, 0)
    loss = F.cross_entropy(x, x, reduction=reduction, label_smoothing=0.1)
    assert loss.sum().item() == 0.0
