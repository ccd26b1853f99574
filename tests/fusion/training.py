"""Random training steps: arithmetic of parameters and data, reads of values, writes, backward."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import gputensor as gt


def run(seed: int, block: Callable[[], AbstractContextManager[Any]], device: str = "cpu") -> Any:
    """Return gradients, values that were read, and errors."""
    rng = random.Random(seed)
    gt.manual_seed(seed)
    sizes = rng.choice([(5, 7), (40,), (3, 4, 5)])
    leaves = [gt.randn(sizes).to(device).requires_grad_() for _ in range(2)]
    row = gt.randn(sizes[-1:]).to(device).requires_grad_()
    data = [gt.randn(sizes).to(device) for _ in range(2)]
    told: list[Any] = []
    with block():
        for _ in range(2):
            values: list[Any] = [*leaves, row, *data]
            for _ in range(rng.randrange(4, 20)):
                try:
                    _statement(rng, values, data, told)
                except RuntimeError as error:
                    told.append(str(error))
            loss = sum([x.sum() for x in values[-3:]])
            kept = values[-1] if rng.random() < 0.3 else None
            del values
            if rng.random() < 0.6:
                told.append(float(loss.detach()))
            if rng.random() < 0.3:
                data[0].mul_(0.5)
            told.append(_differentiated(rng, loss, [*leaves, row]))
            told.append(None if kept is None else kept.tolist())
    return told, [None if x.grad is None else x.grad.tolist() for x in (*leaves, row)]


def _differentiated(rng: random.Random, loss: Any, leaves: list[Any]) -> Any:
    try:
        if rng.random() < 0.3:
            first = gt.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
            used = [x for x in first if x is not None and x.requires_grad]
            loss = sum([(x * x).sum() for x in used]) if used else None
        if loss is not None and loss.requires_grad:
            loss.backward()
    except RuntimeError as error:
        return str(error)
    return None


def _statement(rng: random.Random, values: list[Any], data: list[Any], told: list[Any]) -> None:
    x, y, pick = rng.choice(values), rng.choice(values[-6:]), rng.random()
    if pick < 0.6:
        calls: list[Callable[[], Any]] = [
            lambda: x * y, lambda: x + y, lambda: x - y * 0.5, lambda: x * x,
            lambda: gt.where(x > y, x, y * 2), lambda: gt.relu(x), lambda: x / (y * y + 1),
            lambda: (x * x + 1).sqrt(), lambda: gt.addcmul(x, y, y, value=0.5), lambda: x.abs(),
        ]  # fmt: skip
        values.append(rng.choice(calls)())
    elif pick < 0.7:
        values.append(gt.tanh(x) if rng.random() < 0.5 else x.exp().clamp(0, 5))
    elif pick < 0.75:
        values.append(x - x.mean(-1, keepdim=True))
    elif pick < 0.85:
        told.append(float(x.detach().sum()))
    elif pick < 0.92 and len(values) > 8:
        del values[rng.randrange(5, len(values) - 2)]
    elif pick < 0.96:
        rng.choice(data).add_(1)
    elif not x.is_leaf:
        x.mul_(0.5)
