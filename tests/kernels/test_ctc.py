"""ctc_loss: the gradient through log_softmax by finite differences; impossible targets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.autograd import gradcheck
from gputensor.core import errors
from gputensor.nn import functional as F

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.full)]


def _scores(*sizes: int, device: str = "cpu") -> Any:
    if device == "cuda" and not gt.cuda.is_available():
        pytest.skip("no CUDA device")
    drawn = np.random.default_rng(0).normal(size=sizes)
    return gt.from_numpy(drawn).to(device).detach().requires_grad_()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_the_gradient_behind_log_softmax(reduction: str, device: str) -> None:
    targets = gt.tensor([[1, 1, 2], [2, 0, 0], [1, 2, 1]], device=device)

    def loss(x: Any) -> Any:
        logs = F.log_softmax(x, dim=2)
        return F.ctc_loss(logs, targets, [6, 4, 6], [3, 1, 0], reduction=reduction)

    assert gradcheck(loss, (_scores(6, 3, 4, device=device),))


def test_what_arrives_sums_to_nothing_at_each_step() -> None:
    """As in PyTorch, the gradient is already that of log_softmax's input."""
    logs = F.log_softmax(_scores(5, 1, 4), dim=2).detach().requires_grad_()
    F.ctc_loss(logs, gt.tensor([[1, 2]]), [4], [2]).backward()
    assert np.abs(logs.grad.sum(2).numpy()).max() < 1e-12
    assert logs.grad[4].tolist() == [[0.0] * 4]  # after the last step
    first = F.ctc_loss(logs, gt.tensor([[1, 2]]), [4], [2])
    (slope,) = gt.autograd.grad(first, logs, create_graph=True)
    with pytest.raises(errors.GpuTensorError, match="derivative for _ctc_loss_backward"):
        slope.sum().backward()


@pytest.mark.parametrize("device", DEVICES)
def test_texts_that_cannot_be_aligned(device: str) -> None:
    """Two equal labels need a blank between them."""
    logs = F.log_softmax(_scores(2, 2, 3, device=device), dim=2)
    targets, lengths = gt.tensor([[1, 1], [1, 2]], device=device), ([2, 2], [2, 2])
    found = F.ctc_loss(logs, targets, *lengths, reduction="none")
    assert found[0].item() == math.inf and math.isfinite(found[1].item())
    logs = logs.detach().requires_grad_()
    F.ctc_loss(logs, targets, *lengths, reduction="sum").backward()
    assert np.isnan(logs.grad[:, 0].cpu().numpy()).all()
    assert np.isfinite(logs.grad[:, 1].cpu().numpy()).all()
    logs.grad = None
    spared = F.ctc_loss(logs, targets, *lengths, reduction="sum", zero_infinity=True)
    assert spared.item() == pytest.approx(found[1].item())
    spared.backward()
    assert not logs.grad[:, 0].cpu().numpy().any()


def test_one_text_without_a_batch_and_texts_one_behind_another() -> None:
    logs = F.log_softmax(_scores(5, 2, 4), dim=2)
    both = F.ctc_loss(logs, gt.tensor([[1, 2], [3, 0]]), [5, 5], [2, 1], reduction="none")
    joined = F.ctc_loss(logs, gt.tensor([1, 2, 3]), gt.tensor([5, 5]), gt.tensor([2, 1]),
                        reduction="none")  # fmt: skip
    assert both.tolist() == joined.tolist()
    alone = F.ctc_loss(logs[:, 0], gt.tensor([1, 2]), gt.tensor(5), gt.tensor(2), reduction="none")
    assert alone.shape == () and alone.item() == both[0].item()
    nothing = F.ctc_loss(logs, gt.zeros(2, 0, dtype=gt.int64), [0, 3], [0, 0], reduction="none")
    assert nothing[0].item() == 0
    assert nothing[1].item() == pytest.approx(-logs[:3, 1, 0].sum().item())


def test_a_target_that_is_no_class_is_named() -> None:
    logs = gt.zeros(3, 1, 4)
    with pytest.raises(errors.IndexRangeError, match=r"'targets' must hold classes in \[0, 3\]"):
        F.ctc_loss(logs, gt.tensor([[1, 4]]), [3], [2])
    behind = F.ctc_loss(logs, gt.tensor([[1, 4]]), [3], [1])
    assert behind.item() == F.ctc_loss(logs, gt.tensor([[1, 2]]), [3], [1]).item()
    with pytest.raises(errors.ArgumentTypeError, match="'target_lengths' must be a Tensor"):
        gt.ctc_loss(logs, gt.tensor([[1, 2]]), gt.tensor([3]), [2])
