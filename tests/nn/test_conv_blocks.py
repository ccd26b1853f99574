"""Convolutions in blocks of rows give what one product of all windows gives."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.native import conv

F = gt.nn.functional
CALLS: list[Any] = [
    lambda: F.conv2d(_whole(2, 4, 7, 6), _whole(6, 2, 3, 2), _whole(6), 2, 1, 1, 2),
    lambda: F.conv1d(_whole(3, 2, 9), _whole(3, 2, 4), dilation=2),
    lambda: F.conv3d(_whole(2, 2, 4, 5, 3), _whole(2, 2, 2, 2, 2), padding=1),
    lambda: F.conv_transpose2d(_whole(2, 4, 5, 4), _whole(4, 3, 3, 3), None, 2, 1, 1),
]


def _whole(*sizes: int) -> gt.Tensor:
    """Numbers whose sums are exact in any order."""
    count = gt.ones(sizes).numel()
    return (gt.arange(float(count), dtype=gt.float64) % 7 - 3).view(sizes)


@pytest.mark.parametrize("call", CALLS)
def test_blocks_give_what_one_product_gives(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = call()
    for size in (1, 100, 500):
        monkeypatch.setattr(conv, "_BLOCK", size)
        found = call()
        assert gt.equal(found, whole) and found.stride() == whole.stride()
