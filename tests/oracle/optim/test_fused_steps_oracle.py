"""The fused steps of optimizers equal PyTorch's within rounding."""

from __future__ import annotations

import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import gputensor as gt  # noqa: E402

pytestmark = pytest.mark.oracle

SHAPES = [(3, 4), (), (0, 2), (1030,)]


def _both(draw: random.Random, dtype: str, positive: bool = False) -> tuple[list[Any], list[Any]]:
    torch.manual_seed(draw.randrange(1 << 30))
    theirs = [torch.randn(shape, dtype=getattr(torch, dtype)) for shape in SHAPES]
    theirs = [x.abs() if positive else x for x in theirs]
    return [gt.from_numpy(x.numpy().copy()) for x in theirs], theirs


def _case(draw: random.Random, name: str) -> tuple[list[str], dict[str, Any]]:
    """Return the names of the lists after self and grads, and the numbers."""
    numbers: dict[str, Any] = {
        "lr": draw.choice([1e-3, 0.1]), "weight_decay": draw.choice([0.0, 0.1]),
        "maximize": draw.random() < 0.5,
    }  # fmt: skip
    if name == "_fused_sgd_":
        numbers |= {"momentum": draw.choice([0.0, 0.9]), "dampening": draw.choice([0.0, 0.2])}
        numbers["nesterov"] = bool(numbers["momentum"]) and not numbers["dampening"]
        numbers["is_first_step"] = draw.random() < 0.5
        return ["momentum"] if numbers["momentum"] else [], numbers
    numbers["eps"] = 1e-8
    if name == "_fused_adagrad_":
        return ["sum+"], numbers | {"lr_decay": draw.choice([0.0, 0.1])}
    numbers |= {"beta1": 0.9, "beta2": 0.99, "amsgrad": draw.random() < 0.5}
    return ["average", "square+", *(["largest+"] if numbers["amsgrad"] else [])], numbers


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "name", ["_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_"]
)
def test_as_pytorch(name: str, dtype: str) -> None:
    draw = random.Random(name + dtype)
    for _ in range(30):
        lists, numbers = _case(draw, name)
        pairs = [_both(draw, dtype, of.endswith("+")) for of in ("self", "grads", *lists)]
        steps = float(draw.randint(1, 50))
        extra: dict[str, float] = {}
        if draw.random() < 0.4:
            extra["grad_scale"] = 4.0
        if draw.random() < 0.4:
            extra["found_inf"] = draw.choice([0.0, 1.0])
        for side, make in ((0, gt), (1, torch)):
            given = [pair[side] for pair in pairs]
            if name == "_fused_sgd_" and not lists or "adam" in name and len(given) == 4:
                given.append([])
            if name != "_fused_sgd_":
                given.append([make.tensor(steps) for _ in SHAPES])
            tensors = {arg: make.tensor(x) for arg, x in extra.items()}
            assert getattr(make.ops.aten, name)(*given, **numbers, **tensors) in (None, ())
        near = (
            {"rtol": 2e-6, "atol": 1e-6} if dtype == "float32" else {"rtol": 1e-13, "atol": 1e-13}
        )
        for of, (ours, theirs) in zip(("self", "grads", *lists), pairs):
            for x, y in zip(ours, theirs):
                gt.testing.assert_close(
                    x, gt.from_numpy(y.numpy()), **near, msg=f"{of} {numbers} {extra}"
                )
