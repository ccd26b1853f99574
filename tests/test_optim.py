"""gt.optim: what it steps, what it keeps, and what it refuses. Values:
tests/oracle/test_optim_oracle.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors


def leaf(*values: float) -> gt.Tensor:
    return gt.tensor(list(values), requires_grad=True)


def test_a_step_is_made_in_place_and_not_recorded() -> None:
    p, frozen = leaf(1.0, 2.0), leaf(3.0)
    optimizer = gt.optim.SGD([p, frozen], lr=0.5)
    (p * p).sum().backward()
    version = p._version
    optimizer.step()
    assert p.tolist() == [0.0, 0.0] and p.is_leaf and p.requires_grad and p._version == version + 1
    assert frozen.tolist() == [3.0] and not optimizer.state


def test_gradients_are_forgotten_or_zeroed() -> None:
    p = leaf(1.0)
    optimizer = gt.optim.SGD([p])
    p.grad = gt.ones(1)
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0]
    optimizer.zero_grad()
    assert p.grad is None


def test_a_closure_runs_with_recording_on() -> None:
    p = leaf(2.0)
    optimizer = gt.optim.Adam([p], lr=0.1)

    def closure() -> gt.Tensor:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with gt.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert p.item() == pytest.approx(1.9, rel=1e-6)


def test_groups_have_options_of_their_own() -> None:
    a, b = leaf(0.0), leaf(0.0)
    optimizer = gt.optim.SGD([{"params": [a]}, {"params": b, "lr": 0.25}], lr=1.0)
    a.grad, b.grad = gt.ones(1), gt.ones(1)
    optimizer.step()
    assert (a.item(), b.item()) == (-1.0, -0.25)
    assert "lr: 0.25" in repr(optimizer) and repr(optimizer).startswith("SGD (")


@pytest.mark.parametrize("make", [
    lambda p: gt.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    lambda p: gt.optim.Adam(p, amsgrad=True),
], ids=["SGD", "Adam"])  # fmt: skip
def test_a_state_survives_saving(make: Any, tmp_path: Any) -> None:
    def steps(optimizer: Any, p: Any, first: int, last: int) -> None:
        for n in range(first, last):
            p.grad = gt.tensor([n + 1.0, -0.5 * n])
            optimizer.step()

    whole = leaf(1.0, 2.0)
    steps(make([whole]), whole, 0, 6)
    p = leaf(1.0, 2.0)
    optimizer = make([p])
    steps(optimizer, p, 0, 3)
    gt.save({"p": p.detach(), "optimizer": optimizer.state_dict()}, tmp_path / "kept")
    kept = gt.load(tmp_path / "kept")
    q = kept["p"].requires_grad_()
    again = make([q])
    again.load_state_dict(kept["optimizer"])
    steps(again, q, 3, 6)
    assert q.tolist() == whole.tolist()
    given = kept["optimizer"]["state"][0]
    assert all(
        again.state[q][name] is not x for name, x in given.items() if isinstance(x, gt.Tensor)
    )


@pytest.mark.parametrize("sizes", [(), (1,)])
def test_a_state_of_pytorch_counts_steps_in_a_tensor(sizes: tuple[int, ...]) -> None:
    p, q = (gt.ones(sizes).requires_grad_() for _ in range(2))
    ours, loaded = gt.optim.Adam([p], lr=0.1), gt.optim.Adam([q], lr=0.1)
    for x, optimizer in ((p, ours), (q, loaded)):
        x.grad = gt.full(sizes, 0.5)
        optimizer.step()
    kept = ours.state_dict()
    kept["state"][0]["step"] = gt.tensor(1.0)
    loaded.load_state_dict(kept)
    for optimizer in (ours, loaded):
        optimizer.step()
    assert loaded.state[q]["step"] == 2 and q.tolist() == p.tolist()


def test_complex_parameters() -> None:
    p = gt.tensor([1 + 2j], requires_grad=True)
    for optimizer in (gt.optim.SGD([p], lr=0.5), gt.optim.Adam([p], lr=0.5)):
        p.grad = gt.tensor([2 - 2j])
        optimizer.step()
    assert p.tolist() == [pytest.approx(-0.5 + 3.5j)]


def test_refusals() -> None:
    p = leaf(1.0)
    for make, kind, message in (
        (lambda: gt.optim.SGD(p), TypeError, "SGD: 'params' must be a sequence"),
        (lambda: gt.optim.SGD([]), ValueError, "SGD: 'params' must not be empty"),
        (lambda: gt.optim.SGD([1.0]), TypeError, "SGD: 'params' must hold Tensors"),
        (lambda: gt.optim.SGD([p * 1]), ValueError, "SGD: 'params' must hold leaves"),
        (
            lambda: gt.optim.SGD([p, p]),
            ValueError,
            "SGD: 'params' must hold each Tensor at most once",
        ),
        (lambda: gt.optim.Adam([p], lr=-1.0), ValueError, "Adam: 'lr' must not be negative"),
        (lambda: gt.optim.Adam([p], betas=(0.9, 1.0)), ValueError, "Adam: 'betas' must be in"),
        (
            lambda: gt.optim.SGD([p], nesterov=True),
            ValueError,
            "SGD: 'nesterov' must come with a momentum",
        ),
    ):
        with pytest.raises(kind, match=message) as caught:
            make()
        assert isinstance(caught.value, errors.GpuTensorError)


def test_a_state_of_other_groups_changes_nothing() -> None:
    a, b = leaf(1.0), leaf(1.0)
    optimizer = gt.optim.SGD([a], lr=0.5)
    with pytest.raises(ValueError, match=r"SGD: 'state_dict' must have groups of \[1\] parameters"):
        optimizer.load_state_dict(gt.optim.SGD([a, b]).state_dict())
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_hyperparameters_may_be_scalars_of_numpy() -> None:
    """As operands may: schedules are computed with NumPy."""
    found = []
    for kind in (float, np.float64, np.float32):
        p = gt.ones(3, requires_grad=True)
        optimizers = [
            gt.optim.SGD([p], lr=kind(0.5), momentum=kind(0.25)),
            gt.optim.Adam([p], lr=kind(0.5)),
        ]
        for optimizer in optimizers:
            p.grad = None
            (p * p).sum().backward()
            optimizer.step()
        found.append(p.tolist())
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("optimizer", [gt.optim.SGD, gt.optim.Adam])
def test_a_rate_that_is_a_tensor(optimizer: Any) -> None:
    stepped = []
    for rate in (0.5, gt.tensor(0.5)):
        p = gt.ones(3, requires_grad=True)
        p.grad = gt.ones(3)
        optimizer([p], lr=rate).step()
        stepped.append(p.tolist())
    assert stepped[0] == stepped[1]


@pytest.mark.parametrize("kind", [gt.optim.SGD, gt.optim.Adam, gt.optim.AdamW, gt.optim.Adagrad])
def test_loops_of_pytorch_are_taken_and_step_alike(kind: Any) -> None:
    found = []
    for options in ({}, {"foreach": True}, {"fused": True}, {"fused": None, "foreach": False}):
        p = gt.ones(3, requires_grad=True)
        p.grad = gt.arange(3.0)
        kind([p], lr=0.1, **options).step()
        found.append(p.detach().clone())
    assert all(gt.equal(x, found[0]) for x in found)
    with pytest.raises(ValueError, match="'fused' must not come with foreach=True"):
        kind([p], foreach=True, fused=True)
    with pytest.raises(ValueError, match="'differentiable' must be False"):
        kind([p], differentiable=True)
    assert gt.optim.RMSprop([p], foreach=True).param_groups[0]["foreach"]
