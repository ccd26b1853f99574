"""Activations before a product: autograd saves only their input, and backward computes the
activations again."""

from __future__ import annotations

import gc
from collections.abc import Callable
from weakref import ref

import pytest

import gputensor as gt
from gputensor.autograd import saved
from gputensor.core import errors
from gputensor.nn import functional as F

Activation = Callable[[gt.Tensor], gt.Tensor]
ACTIVATIONS: dict[str, Activation] = {
    "gelu": F.gelu,
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


def _layer(activation: Activation, x: gt.Tensor, weight: gt.Tensor) -> gt.Tensor:
    return F.linear(activation(x), weight)


@pytest.fixture(params=list(ACTIVATIONS))
def activation(request: pytest.FixtureRequest) -> Activation:
    return ACTIVATIONS[request.param]


def test_gradients_are_the_same(activation: Activation, monkeypatch: pytest.MonkeyPatch) -> None:
    gt.manual_seed(0)
    leaves = [gt.randn(3, 4, 6, requires_grad=True), gt.randn(5, 6, requires_grad=True)]
    weight = gt.randn(3, 4, 5)
    wanted = gt.autograd.grad(_layer(activation, *leaves), leaves, weight)
    monkeypatch.setattr(saved, "LARGE", 0)
    found = gt.autograd.grad(_layer(activation, *leaves), leaves, weight)
    assert all(gt.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_gradients_have_gradients(activation: Activation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "LARGE", 0)
    gt.manual_seed(0)
    leaves = [gt.randn(n, 3, dtype=gt.float64, requires_grad=True) for n in (2, 4)]
    assert gt.autograd.gradgradcheck(lambda *given: _layer(activation, *given), leaves)
    made = gt.autograd.grad(_layer(activation, *leaves).sum(), leaves, create_graph=True)
    assert all(x.requires_grad for x in made)


def test_a_convolution_keeps_none_either(monkeypatch: pytest.MonkeyPatch) -> None:
    gt.manual_seed(0)
    x, weight = gt.randn(2, 3, 5, 5, requires_grad=True), gt.randn(4, 3, 3, 3, requires_grad=True)
    wanted = gt.autograd.grad(F.conv2d(F.silu(x), weight).sum(), (x, weight))
    monkeypatch.setattr(saved, "LARGE", 0)
    found = gt.autograd.grad(F.conv2d(F.silu(x), weight).sum(), (x, weight))
    assert all(gt.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_only_large_ones_are_let_go(activation: Activation) -> None:
    for size, is_kept in ((4, True), (1024, False)):
        x, weight = gt.ones(size, size, requires_grad=True), gt.ones(2, size, requires_grad=True)
        between = activation(x)
        storage = ref(between.untyped_storage())
        made = F.linear(between, weight)
        del between
        gc.collect()
        assert (storage() is not None) == is_kept
        made.sum().backward()
        assert weight.grad is not None


def test_what_is_written_meanwhile_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "LARGE", 0)
    x, weight = gt.ones(2, 3, requires_grad=True), gt.ones(4, 3, requires_grad=True)
    for write_input in (False, True):
        given = x * 1
        between = F.gelu(given)
        made = F.linear(between, weight)
        (given if write_input else between).detach().add_(1)
        with pytest.raises(errors.AutogradError, match="modified"):
            made.sum().backward()


def test_hooks_see_the_activation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "LARGE", 0)
    x, weight = gt.ones(2, 3, requires_grad=True), gt.ones(4, 3, requires_grad=True)
    seen: list[int] = []
    between = F.gelu(x)
    with gt.autograd.graph.saved_tensors_hooks(
        lambda x: seen.append(x.data_ptr()) or x, lambda x: x
    ):
        F.linear(between, weight)
    assert between.data_ptr() in seen
    node = F.linear(between, weight).grad_fn
    assert node is not None and gt.equal(node._saved_self, between)
