"""Convolutions in blocks of rows equal one product of all windows; empty results."""

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
    monkeypatch.setattr(conv, "_conv_loop", lambda *_: False)
    whole = call()
    for size in (1, 100, 500):
        monkeypatch.setattr(conv, "_BLOCK", size)
        found = call()
        assert gt.equal(found, whole) and found.stride() == whole.stride()


DEVICES = ["cpu", "meta", *(["cuda"] if gt.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options, sizes", [
    ({"padding": 1}, (2, 3, 0, 0)), ({"padding": (1, 0)}, (2, 3, 0, 5)),
    ({"padding": 1, "stride": 2}, (2, 3, 0, 6)),
    ({"padding": (2, 0), "dilation": (3, 1)}, (2, 3, 0, 5)),
], ids=str)  # fmt: skip
def test_padding_may_leave_nothing_of_a_transposed_convolution(
    options: Any, sizes: tuple[int, ...], device: str
) -> None:
    given = (1, 1) if sizes[3] == 0 else (1, 4)
    x = gt.ones(2, 2, *given, device=device, requires_grad=True)
    w = gt.ones(2, 3, 2, 2, device=device, requires_grad=True)
    b = gt.ones(3, device=device, requires_grad=True)
    made = F.conv_transpose2d(x, w, b, **options)
    assert made.shape == sizes and made.is_contiguous()
    (made * made).sum().backward()
    for leaf in (x, w, b):
        assert leaf.grad is not None and leaf.grad.shape == leaf.shape
        assert device == "meta" or not leaf.grad.any()


def test_padding_may_not_take_more_than_all_of_a_transposed_convolution() -> None:
    with pytest.raises(RuntimeError, match="'input' must be as large as the kernel"):
        F.conv_transpose2d(gt.ones(2, 2, 1, 1), gt.ones(2, 3, 2, 2), padding=(2, 0))
