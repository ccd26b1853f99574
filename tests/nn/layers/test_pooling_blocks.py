"""Pooling in blocks of planes and rows has the bits of one block; NaN and its index."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.structured.layers import windows

aten = gt.ops.aten
CALLS: list[Any] = [
    lambda x: aten.max_pool2d_with_indices(x, [3, 2], [2, 1], [1, 1], [2, 1], True),
    lambda x: aten.avg_pool2d(x, [3, 2], [2, 1], [1, 1], True, False),
    lambda x: aten.avg_pool2d_backward(
        aten.avg_pool2d(x, [3, 2], [2, 1], [1, 1]), x, [3, 2], [2, 1], [1, 1], False, True, None
    ),
    lambda x: aten.adaptive_max_pool2d(x, [4, 5]),
    lambda x: aten._adaptive_avg_pool2d(x, [4, 5]),
    lambda x: aten._adaptive_avg_pool2d(x, [11, 9]),
    lambda x: aten._adaptive_avg_pool2d_backward(aten._adaptive_avg_pool2d(x, [4, 5]), x),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("form", [gt.contiguous_format, gt.channels_last])
def test_blocks_give_the_bits_of_one(call: Any, form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.random.default_rng(0).standard_normal((3, 2, 17, 13), np.float32)
    x = gt.from_numpy(numbers).contiguous(memory_format=form)
    whole = call(x)
    for size in (1, 60, 300, 1000):
        monkeypatch.setattr(windows, "_BLOCK", size)
        found = call(x)
        pairs = zip(found, whole) if isinstance(whole, tuple) else [(found, whole)]
        assert all(a.tolist() == b.tolist() and a.stride() == b.stride() for a, b in pairs)


def test_of_several_nans_the_last_counts() -> None:
    x = gt.tensor([[[math.nan, 1.0, 2.0, 0.0], [5.0, math.nan, -math.inf, 3.0]]])
    for values, at in (
        aten.max_pool2d_with_indices(x, [2, 2]),
        aten.adaptive_max_pool2d(x, [1, 2]),
    ):
        assert at.flatten().tolist() == [5, 7]
        assert math.isnan(values.flatten().tolist()[0]) and values.flatten().tolist()[1] == 3.0


@pytest.mark.parametrize("count", [1, 2, 3])
def test_unpooling_of_an_empty_batch_has_a_gradient(count: int) -> None:
    x = gt.ones(0, 3, *(2,) * count, requires_grad=True)
    places = gt.zeros(x.shape, dtype=gt.int64)
    unpool: Any = getattr(gt.nn.functional, f"max_unpool{count}d")
    unpool(x, places, 2).sum().backward()
    assert x.grad.shape == x.shape
