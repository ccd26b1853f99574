"""gt.optim against torch.optim: parameters after 50 steps, and state taken over from PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1}),
    ("Adam", {"amsgrad": True}),
    (
        "Adam",
        {
            "weight_decay": 0.1,
            "decoupled_weight_decay": True,
            "betas": (0.8, 0.95),
            "maximize": True,
        },
    ),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.01, "amsgrad": True, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 0.001, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5}),
]
# A step is some six roundings, half of an ulp each, which add up over 50; what PyTorch fuses is
# not.
ULP = 50


def leaves(lib: Any, values: list[np.ndarray]) -> list[Any]:
    return [lib.from_numpy(x.copy()).requires_grad_() for x in values]


def steps(
    random: np.random.Generator, theirs: tuple[Any, Any], ours: tuple[Any, Any], count: int
) -> None:
    for _ in range(count):
        for p, q in zip(theirs[1], ours[1]):
            g = random.normal(size=p.shape)
            g = (g + 1j * random.normal(size=p.shape) if p.is_complex() else g).astype(
                q.detach().numpy().dtype
            )
            p.grad, q.grad = torch.from_numpy(g.copy()), gt.from_numpy(g.copy())
        theirs[0].step()
        ours[0].step()


def compare(theirs: list[Any], ours: list[Any]) -> None:
    for p, q in zip(theirs, ours):
        x, y = p.detach().numpy(), q.detach().numpy()
        scale = np.finfo(x.dtype).eps * np.abs(x).max()
        assert x.dtype == y.dtype and np.abs(x - y).max() <= ULP * scale


@pytest.mark.parametrize("of", ["f4", "f8", "c16"])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_steps(name: str, options: dict[str, Any], of: str) -> None:
    random = np.random.default_rng(0)
    values = [random.normal(size=(5, 7)).astype(of), random.normal(size=3).astype(of)]
    a, b = leaves(torch, values), leaves(gt, values)
    theirs = (getattr(torch.optim, name)(a, foreach=False, **options), a)
    ours = (getattr(gt.optim, name)(b, **options), b)
    steps(random, theirs, ours, 50)
    compare(a, b)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_state_of_pytorchs_is_taken_over(name: str, options: dict[str, Any]) -> None:
    random = np.random.default_rng(1)
    values = [random.normal(size=(4,)).astype("f8")]
    a, b = leaves(torch, values), leaves(gt, values)
    theirs, ours = getattr(torch.optim, name)(a, **options), getattr(gt.optim, name)(b, **options)
    steps(random, (theirs, a), (getattr(gt.optim, name)(leaves(gt, values), **options), b), 5)
    found = theirs.state_dict()
    found["state"] = {
        n: {
            k: gt.from_numpy(v.numpy().copy()) if torch.is_tensor(v) else v
            for k, v in s.items()
            if v is not None
        }
        for n, s in found["state"].items()
    }
    ours.load_state_dict(found)
    with gt.no_grad():
        b[0].copy_(gt.from_numpy(a[0].detach().numpy().copy()))
    steps(random, (theirs, a), (ours, b), 20)
    compare(a, b)
