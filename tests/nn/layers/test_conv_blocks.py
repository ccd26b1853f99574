"""Convolutions in blocks of windows: their sizes, results and memory; empty results."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod
from typing import Any

import pytest

import gputensor as gt
from gputensor.native import conv
from gputensor.runtime.device_limits import KNOWN
from gputensor.structured.layers import window_products
from gputensor.structured.layers.window_products import block, block_bytes

from ...harness import tier
from ...kernels.convolutions import case

F = gt.nn.functional
MIB = 1 << 20


# (samples, groups, *output), (taps, channels of a group), itemsize -> the block for each GPU.
PLANS: list[tuple[tuple[int, ...], tuple[int, int], int, dict[str, tuple[int, ...]]]] = [
    ((64, 1, 112, 112), (147, 64), 4, {
        "T4": (1, 1, 19, 112), "A100": (1, 1, 112, 112), "H100": (2, 1, 112, 112),
        "H200": (2, 1, 112, 112)}),
    ((64, 1, 56, 56), (576, 64), 4, {
        "T4": (1, 1, 14, 56), "A100": (2, 1, 56, 56), "H100": (3, 1, 56, 56),
        "H200": (3, 1, 56, 56)}),
    ((64, 1, 7, 7), (4608, 512), 4, {
        "T4": (2, 1, 7, 7), "A100": (16, 1, 7, 7), "H100": (22, 1, 7, 7), "H200": (22, 1, 7, 7)}),
    ((32, 96, 56, 56), (9, 1), 4, {
        "T4": (1, 16, 56, 56), "A100": (1, 96, 56, 56), "H100": (2, 96, 56, 56),
        "H200": (2, 96, 56, 56)}),
    ((1, 1, 32, 112, 112), (1728, 64), 4, {
        "T4": (1, 1, 1, 2, 112), "A100": (1, 1, 1, 23, 112), "H100": (1, 1, 1, 28, 112),
        "H200": (1, 1, 1, 38, 112)}),
    ((8, 1, 1_000_000), (24, 8), 8, {
        "T4": (1, 1, 8131), "A100": (1, 1, 76924), "H100": (1, 1, 100_000),
        "H200": (1, 1, 111_112)}),
]  # fmt: skip


@pytest.mark.parametrize("sizes, counts, itemsize, wanted", PLANS)
@pytest.mark.parametrize("gpu", KNOWN)
def test_a_block_fills_half_of_the_cache(
    gpu: str, sizes: Any, counts: Any, itemsize: int, wanted: Any
) -> None:
    most, nbytes = block_bytes(KNOWN[gpu].l2_bytes), sum(counts) * itemsize
    found = block(sizes, nbytes, most)
    assert found == wanted[gpu]
    assert prod(found) * nbytes <= most


def test_a_block_has_at_most_64_mib_of_a_larger_cache() -> None:
    assert [block_bytes(n * MIB) for n in (4, 127, 128, 256)] == [
        2 * MIB, 127 * MIB // 2, 64 * MIB, 64 * MIB
    ]  # fmt: skip


def test_blocks_of_any_sizes_are_boxes_that_fit() -> None:
    draw = random.Random(0)
    for _ in range(2000):
        sizes = [draw.randint(1, 40) for _ in range(draw.randint(2, 5))]
        nbytes, most = draw.randint(1, 50), draw.randint(1, 1 << draw.randint(0, 20))
        found = block(sizes, nbytes, most)
        assert prod(found) * nbytes <= max(most, nbytes) and len(found) == len(sizes)
        cut = [d for d, (n, size) in enumerate(zip(found, sizes)) if n < size]
        for d, n in enumerate(found):
            assert 1 <= n <= sizes[d]
            if cut and d < max(cut):
                assert n == 1
            if d in cut and d == max(cut):  # no block is twice as large as another
                fits = max(1, most // nbytes // prod(found[d + 1 :]))
                assert -(-sizes[d] // n) == -(-sizes[d] // fits)


def _gradients(function: Any, leaves: list[gt.Tensor], numbers: Any) -> list[gt.Tensor]:
    leaves = [x.detach().requires_grad_() for x in leaves]
    made = function(*leaves, **numbers)
    weight = (gt.arange(float(made.numel())) % 3 - 1).view(made.shape).to(made)
    return [made.detach(), *gt.autograd.grad(made, leaves, weight)]


def _steps(x: gt.Tensor) -> list[int]:
    """Return the strides of dimensions with more than one element."""
    return [stride for size, stride in zip(x.shape, x.stride()) if size > 1]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_blocks_give_what_the_loops_give(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements are integers, so sums are exact in any order."""
    draw, compared = random.Random(device), 0
    is_slow = device == "cuda" and gt.cuda.is_emulated()
    for _ in range(tier.pick(12, 16) if is_slow else tier.pick(40, 120)):
        function, tensors, numbers = case(draw, draw.choice([gt.float32, gt.float64, gt.bfloat16]))
        try:
            wanted = _gradients(function, tensors, numbers)
        except gt.GpuTensorError:
            continue
        with monkeypatch.context() as patch:
            for name in ("_conv_loop", "_gradient_loop"):
                patch.setattr(conv, name, lambda *_: False)
            limit = draw.choice([2000, 20_000] if is_slow else [1, 300, 2000, 20_000])
            patch.setattr(window_products, "_limit", lambda x: limit)
            found = _gradients(function, [x.to(device) for x in tensors], numbers)
        for x, y in zip(found, wanted, strict=True):
            assert gt.equal(x.cpu(), y), (function.__name__, numbers, limit)
        if device == "cpu":  # a copy to another device may be dense where its source is not
            assert _steps(found[0]) == _steps(wanted[0])
        compared += 1
    assert compared >= 8


def _whole(*sizes: int) -> gt.Tensor:
    """Return numbers whose sums are exact in any order."""
    count = gt.ones(sizes).numel()
    return (gt.arange(float(count), dtype=gt.float64) % 7 - 3).view(sizes)


WITHOUT_LOOPS: list[Callable[[], gt.Tensor]] = [
    lambda: F.conv2d(_whole(2, 4, 7, 6).long(), _whole(6, 2, 3, 2).long(), None, 2, 1, 1, 2),
    lambda: F.conv3d(_whole(2, 2, 4, 5, 3) * 1j, _whole(2, 2, 2, 2, 2) * (1 + 1j), padding=1),
    lambda: gt.convolution(
        _whole(2, 2, 3, 3, 3, 3), _whole(2, 2, 2, 2, 2, 2), None, (1, 1, 2, 1), (0, 1, 0, 1),
        (1,) * 4, False, (0,) * 4, 1,
    ),
]  # fmt: skip


@pytest.mark.parametrize("call", WITHOUT_LOOPS)
def test_blocks_of_what_has_no_loop(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = call()
    for limit in (1, 500, 5000):
        monkeypatch.setattr(window_products, "_limit", lambda x, limit=limit: limit)
        assert gt.equal(call(), whole)


@pytest.mark.full
def test_memory_of_windows_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    if not gt.cuda.is_available():
        pytest.skip("no device, and no emulator of one")
    limit = 1 << 17
    monkeypatch.setattr(window_products, "_limit", lambda x: limit)
    x = gt.ones(8, 16, 24, 24, device="cuda", requires_grad=True)
    w = gt.ones(16, 16, 3, 3, device="cuda", requires_grad=True)

    def peak(work: Callable[[], Any]) -> int:
        gt.cuda.synchronize()
        gt.cuda.reset_peak_memory_stats()
        before = gt.cuda.memory_allocated()
        kept = work()  # noqa: F841
        return gt.cuda.max_memory_allocated() - before

    made = F.conv2d(x, w, padding=1)
    grad = gt.ones_like(made)
    nbytes = made.numel() * 4
    a_sample = 16 * 26 * 26 * 4
    least = limit + nbytes
    assert least < peak(lambda: F.conv2d(x, w, padding=1)) <= least + 4 * a_sample < 9 * nbytes
    both = peak(lambda: gt.autograd.grad(made, (x, w), grad))
    assert both <= least + 4 * a_sample + 2 * w.numel() * 4


DEVICES = ["cpu", "meta", *(["cuda"] if gt.cuda.is_available() else [])]


@pytest.mark.full
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


@pytest.mark.parametrize("sizes, kernel, form", [
    ((2, 2, 9, 7), (3, 2), gt.channels_last), ((1, 2, 3, 4, 5), (2, 3, 2), gt.channels_last_3d),
], ids=str)  # fmt: skip
def test_the_same_padding_of_an_even_kernel_keeps_channels_last(
    sizes: tuple[int, ...], kernel: tuple[int, ...], form: Any
) -> None:
    x, w = _whole(*sizes).contiguous(memory_format=form), _whole(4, 2, *kernel)
    function = F.conv2d if len(kernel) == 2 else F.conv3d
    made = function(x, w, padding="same")
    assert made.is_contiguous(memory_format=form) and made.shape[2:] == x.shape[2:]
    assert gt.equal(made, function(x.contiguous(), w, padding="same"))
