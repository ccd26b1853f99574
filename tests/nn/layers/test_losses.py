"""Losses as modules: attributes, arguments passed on, and losses with parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor import nn
from gputensor.core import errors
from gputensor.nn import functional as F
from gputensor.nn.modules import loss as losses

FIXED = [getattr(nn, name) for name in losses.__all__ if hasattr(getattr(nn, name), "function")]


def test_not_empty() -> None:
    assert len(FIXED) > 18


@pytest.mark.parametrize("kind", FIXED, ids=lambda kind: kind.__name__)
def test_options_are_those_of_the_function(kind: Any) -> None:
    import inspect

    parameters = inspect.signature(getattr(F, kind.function)).parameters
    for name, default in kind.options.items():
        assert parameters[name].default == default, name
    made = kind()
    assert repr(made) == f"{kind.__name__}()" and not list(made.parameters())
    if "reduction" in kind.options:
        assert kind(reduction="sum").reduction == "sum"
    with pytest.raises(errors.ArgumentTypeError):
        kind(no_such_option=1)


def test_weights_are_buffers() -> None:
    weight = gt.tensor([1.0, 2.0, 3.0])
    made = nn.CrossEntropyLoss(weight, label_smoothing=0.1)
    assert list(made.state_dict()) == ["weight"] and made.double().weight.dtype is gt.float64
    x, y = gt.rand(4, 3), gt.tensor([0, 2, 1, 1])
    found = nn.CrossEntropyLoss(weight, label_smoothing=0.1)(x, y)
    assert found.item() == F.cross_entropy(x, y, weight, label_smoothing=0.1).item()
    assert not nn.BCEWithLogitsLoss().state_dict()


def test_a_linear_layer_and_its_loss() -> None:
    made = nn.LinearCrossEntropyLoss(4, 3, out_features=(2,), bias=True, reduction="sum")
    assert list(made.state_dict()) == ["linear.weight", "linear.bias"]
    x, y = gt.rand(5, 4), gt.from_numpy(np.arange(10).reshape(5, 2) % 3)
    wanted = F.cross_entropy(made.linear(x).reshape(5, 3, 2), y, reduction="sum")
    assert made(x, y).item() == pytest.approx(wanted.item(), rel=1e-6)
    assert "num_classes=3" in repr(made)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("options", [
    {}, {"batch_chunk_size": 2}, {"batch_chunk_size": 50}, {"chunking_method": "aspect_ratio:4"},
    {"chunking_method": None, "acc_dtype": gt.float64},
])  # fmt: skip
def test_a_linear_loss_in_chunks(options: Any, reduction: str) -> None:
    gt.manual_seed(0)
    leaves = [gt.randn(s, requires_grad=True) for s in ((5, 4), (7, 4), (7,))]
    x, rows, bias = leaves
    target, scale = gt.tensor([0, 6, 3, 1, 3]), gt.rand(7)
    how: Any = {"linear_bias": bias, "weight": scale, "ignore_index": 1, "reduction": reduction}
    chosen = nn.LinearCrossEntropyOptions(**options)
    found = F.linear_cross_entropy(x, rows, target, **how, options=chosen)
    wanted = F.linear_cross_entropy(x, rows, target, **how)
    assert found.dtype is gt.float32 and gt.allclose(found, wanted, atol=1e-6)
    for _ in range(2):  # any number of times
        given = gt.autograd.grad(found.sum(), leaves, retain_graph=True, create_graph=True)
        for a, b in zip(given, gt.autograd.grad(wanted.sum(), leaves, retain_graph=True)):
            assert gt.allclose(a, b, atol=1e-5)
    (second,) = gt.autograd.grad(given[0].sum(), rows)
    assert second.abs().sum() > 0
    _, tangent = gt.func.jvp(
        lambda r: F.linear_cross_entropy(x.detach(), r, target, reduction="sum", options=chosen),
        (rows.detach(),), (gt.ones(7, 4),),
    )  # fmt: skip
    assert abs(tangent.item()) < 1e-5  # a constant added to all logits
    one = F.linear_cross_entropy(x[0], rows, target[0], options=chosen)
    assert gt.allclose(one, F.linear_cross_entropy(x[0], rows, target[0]), atol=1e-6)


def test_how_many_samples_a_chunk_has() -> None:
    x = gt.empty(16, 4, device="meta")
    for options, classes, count in [
        ({}, 16, 2), ({"chunking_method": "aspect_ratio"}, 16, 4), ({}, 2, 8),
        ({"chunking_method": None}, 16, 16), ({"batch_chunk_size": 3}, 16, 3),
    ]:  # fmt: skip
        assert nn.LinearCrossEntropyOptions(**options)._samples(x, classes) == count
    with pytest.raises(errors.GpuTensorError, match="batch_chunk_size"):
        both = nn.LinearCrossEntropyOptions(batch_chunk_size=3, chunking_method="aspect_ratio")
        both._samples(x, 16)
    for wrong in (
        {"batch_chunk_size": 0}, {"chunking_method": "aspect_ratio:0"}, {"acc_policy": "none"},
        {"acc_dtype": gt.int32}, {"chunking_method": "rows"},
    ):  # fmt: skip
        with pytest.raises(errors.GpuTensorError, match="LinearCrossEntropyOptions"):
            nn.LinearCrossEntropyOptions(**wrong)
    x, rows, target = gt.rand(2, 3), gt.rand(4, 3), gt.tensor([1, 2])
    with pytest.warns(UserWarning, match="'options' are ignored"):
        options = nn.LinearCrossEntropyOptions()
        F.linear_cross_entropy(x, rows, target, label_smoothing=0.1, options=options)
    with pytest.raises(errors.GpuTensorError, match="'options' must be None"):
        F.linear_cross_entropy(x, rows, target, options=3)  # type: ignore[arg-type]


def test_many_classes_in_clusters() -> None:
    gt.manual_seed(0)
    made = nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], div_value=2.0, head_bias=True)
    x, y = gt.randn(7, 8), gt.tensor([0, 2, 3, 5, 6, 9, 1])
    logs = made.log_prob(x)
    assert np.allclose(logs.exp().sum(1).detach().numpy(), 1, atol=1e-6)
    output, loss = made(x, y)
    chosen = logs.gather(1, y.unsqueeze(1)).squeeze(1)
    assert np.allclose(output.detach().numpy(), chosen.detach().numpy(), atol=1e-6)
    assert loss.item() == pytest.approx(-chosen.mean().item(), rel=1e-5)
    assert np.allclose(made(x[0], y[0]).output.item(), output[0].item())
    loss.backward()
    assert all(p.grad is not None for p in made.parameters())
    best = made.predict(x).tolist()
    for row, (place, whole) in enumerate(zip(best, logs.argmax(1).tolist())):
        assert place == whole or made.head(x)[row].argmax().item() < 3
    with pytest.raises(errors.IndexRangeError, match=r"'target_' must hold classes in \[0, 9\]"):
        made(x, y + 1)
    with pytest.raises(ValueError, match="'cutoffs' must be ascending"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 10, [6, 3])


def test_pairs_of_classes_are_looked_at_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x = gt.arange(40.0).reshape(4, 10).sin().requires_grad_()
    target = gt.tensor([[1, 3, 5, 7, 9, 0, 2, -1, 4, 4], [9, -1] + [0] * 8] * 2)
    wanted = F.multilabel_margin_loss(x, target)
    (by_x,) = gt.autograd.grad(wanted, x)
    monkeypatch.setattr("gputensor.native.margin._BLOCK", 120)  # three targets at a time
    found = F.multilabel_margin_loss(x, target)
    assert found.allclose(wanted) and gt.autograd.grad(found, x)[0].allclose(by_x)
