"""A graph of any length is freed with its last user; an error names the forward call."""

from __future__ import annotations

import gc
import tracemalloc
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor.core.errors import AnomalyWarning
from gputensor.nn import functional as F
from tests.harness import tier


@pytest.fixture
def without_gc() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Square(gt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * x
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, _y = ctx.saved_tensors
        return g * 2 * x


def _programs() -> dict[str, object]:
    def base(x):
        c = x.clone()
        c[0] = 2.0
        c.view(3).mul_(3)
        return c

    return {
        "saved results": lambda x: x.exp().exp(),
        "in place": lambda x: (x * 2).exp_() * 3,
        "views": base,
        "several results": lambda x: gt.stack((x * 2).unbind()),
        "a custom function": lambda x: Square.apply(x * 1),
        "reductions": lambda x: x * (x * 2).amax(),
        "a second derivative": lambda x: gt.autograd.grad((x * x * x).sum(), x, create_graph=True)[
            0
        ],
    }


@pytest.mark.parametrize("name", _programs())
def test_no_cycle_keeps_a_graph_alive(name: str, without_gc: None) -> None:
    x = gt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = _programs()[name](x)
    y.register_hook(lambda g: g)
    y.retain_grad()
    node, tensor = weakref.ref(y.grad_fn), weakref.ref(y)
    y.sum().backward()
    del y
    assert node() is None and tensor() is None
    y = _programs()[name](x)  # never differentiated
    node, tensor = weakref.ref(y.grad_fn), weakref.ref(y)
    del y
    assert node() is None and tensor() is None


def test_an_error_in_backward_keeps_nothing_alive(without_gc: None) -> None:
    x = gt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    z = y * y
    y.add_(1)
    node = weakref.ref(z.grad_fn)
    try:
        z.sum().backward()
    except RuntimeError:
        pass
    del y, z
    assert node() is None


def test_the_saved_tensors_go_when_backward_is_done() -> None:
    x = gt.tensor([1.0, 2.0], requires_grad=True)
    w = gt.ones(2)
    y = (x * w).sum()
    kept = weakref.ref(w)
    del w
    assert kept() is not None
    y.backward()
    assert kept() is None


def test_a_chain_of_100_000_operators(without_gc: None) -> None:
    x = gt.ones(2, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1
    first = weakref.ref(y.grad_fn)
    last = y.grad_fn
    for _ in range(99_999):
        last = last.next_functions[0][0]
    deepest = weakref.ref(last)
    del last
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]
    (g,) = gt.autograd.grad(y.sum(), x)
    assert g.tolist() == [1, 1]
    del y
    assert first() is None and deepest() is None


def test_training_does_not_grow() -> None:
    w = gt.rand(4, 4).requires_grad_()
    x = gt.rand(8, 4)

    def step() -> None:
        loss = (gt.maximum(x @ w, gt.zeros(())) * 2).mean()
        loss.backward()
        with gt.no_grad():
            w.sub_(w.grad, alpha=0.1)
        w.grad = None

    for _ in range(20):
        step()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(200):
        step()
    gc.collect()
    assert len(gc.get_objects()) - before < 20


# --- training: a perceptron with the optimizers ---------------------------------------------------


def _training(device: str, optimizer: str) -> tuple[Any, Any, Any]:
    """Return (a function that makes a step and returns its loss, the parameters, the optimizer)."""
    parameters = [
        (gt.rand(n) - 0.5).to(device).requires_grad_() for n in ((16, 8), (16,), (4, 16), (4,))
    ]
    w1, b1, w2, b2 = parameters
    x, y = gt.rand(32, 8).to(device), (gt.rand(32) * 4).to(gt.int64).to(device)
    steps = (
        gt.optim.SGD(parameters, lr=0.1, momentum=0.9)
        if optimizer == "SGD"
        else gt.optim.Adam(parameters)
    )

    def step() -> Any:
        steps.zero_grad()
        hidden = F.relu(F.linear(x, w1, b1))
        loss = F.cross_entropy(F.linear(hidden, w2, b2), y)
        loss.backward()
        steps.step()
        return loss

    return step, parameters, steps


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_no_cycle_keeps_a_step_alive(optimizer: str, without_gc: None) -> None:
    step, parameters, steps = _training("cpu", optimizer)
    loss = step()
    node, grad = weakref.ref(loss.grad_fn), weakref.ref(parameters[0].grad)
    del loss
    assert node() is None
    steps.zero_grad()
    assert grad() is None
    state = weakref.ref(next(iter(steps.state[parameters[0]].values())) if optimizer == "SGD"
                        else steps.state[parameters[0]]["exp_avg"])  # fmt: skip
    leaf = weakref.ref(parameters[0])
    del step, parameters, steps
    assert leaf() is None and state() is None


@pytest.mark.full
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_memory_after_1_000_steps_is_flat(optimizer: str, without_gc: None) -> None:
    """With the garbage collector off, a step leaves neither objects nor bytes behind."""
    step, _, _ = _training("cpu", optimizer)
    for _ in range(50):
        step()
    tracemalloc.start()
    try:
        for _ in range(5):
            step()
        before, objects = tracemalloc.get_traced_memory()[0], len(gc.get_objects())
        for _ in range(1000):
            step()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(gc.get_objects()) - objects < 20
    assert grown < 20_000  # a step that left one gradient behind would leave 500,000


@pytest.mark.full
@pytest.mark.parametrize("optimizer", tier.pick(["SGD"], ["SGD", "Adam"]))
def test_device_memory_is_flat(optimizer: str, without_gc: None) -> None:
    if not gt.cuda.is_available():
        pytest.skip("no CUDA device")
    step, _, _ = _training("cuda", optimizer)
    for _ in range(3):
        step()
    gt.cuda.synchronize()
    names = ("allocated_bytes.all.current", "allocation.all.current", "reserved_bytes.all.current")
    before = [gt.cuda.memory_stats()[name] for name in names]
    for _ in range(40):
        step()
    gt.cuda.synchronize()
    assert [gt.cuda.memory_stats()[name] for name in names] == before


# --- anomaly mode ---------------------------------------------------------------------------------


def test_anomaly_mode_names_the_line_of_the_forward_call() -> None:
    with gt.autograd.detect_anomaly():
        x = gt.tensor([0.0, 1.0], requires_grad=True)
        y = x / x  # the culprit
        with pytest.warns(
            AnomalyWarning, match="DivBackward0.*\n(.*\n)*.*test_memory.py.*\n.*the culprit"
        ):
            with pytest.raises(
                RuntimeError, match="'DivBackward0' returned nan values in its 1th output"
            ):
                y.sum().backward()
    assert not gt.autograd.is_anomaly_enabled()


def test_anomaly_mode_without_the_check_for_nan() -> None:
    with gt.autograd.detect_anomaly(check_nan=False), warnings.catch_warnings():
        x = gt.tensor([0.0, 1.0], requires_grad=True)
        (x / x).sum().backward()
        y = x * 1
        z = y * y
        y.add_(1)
        with (
            pytest.warns(AnomalyWarning, match="MulBackward0"),
            pytest.raises(RuntimeError, match="inplace"),
        ):
            z.sum().backward()
    with gt.autograd.set_detect_anomaly(False):
        assert not gt.autograd.is_anomaly_enabled()
