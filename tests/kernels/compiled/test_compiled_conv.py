"""The compiled loops of convolutions and their gradients, against composed matrix products."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor.kernels.compiled import library
from gputensor.native import conv
from gputensor.testing import assert_close

from ...harness import tier
from ..convolutions import case, whole

F = gt.nn.functional

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = gt.get_num_threads()
    yield
    gt.set_num_threads(before)


def _results(
    function: Any, tensors: list[gt.Tensor], numbers: dict[str, Any], weigh: Any = None
) -> list[gt.Tensor]:
    leaves = [x.detach().requires_grad_() for x in tensors]
    made = function(*leaves, **numbers)
    weight = (gt.arange(float(made.numel())) % 3 - 1).view(made.shape).to(made.dtype)
    made.backward(weight if weigh is None else weigh(weight))
    return [made.detach(), *[leaf.grad for leaf in leaves if leaf.grad is not None]]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_they_give_what_a_product_of_all_windows_gives(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(dtype)
    for _ in range(tier.pick(15, 60)):
        function, tensors, numbers = case(draw, getattr(gt, dtype))
        try:
            found = _results(function, tensors, numbers)
        except gt.GpuTensorError:  # negative padding removed all elements
            continue
        with monkeypatch.context() as patch:
            patch.setattr(conv, "_conv_loop", lambda *_: False)
            patch.setattr(conv, "_gradient_loop", lambda *_: False)
            wanted = _results(function, tensors, numbers)
        for a, b in zip(found, wanted, strict=True):
            assert gt.equal(a, b) and a.dtype is b.dtype, (function, numbers, tensors)
        strides = [
            [step for step, n in zip(x.stride(), x.shape) if n > 1] for x in (found[0], wanted[0])
        ]
        assert strides[0] == strides[1]


@pytest.mark.parametrize(("dtype", "half_ulp", "least"), [
    ("bfloat16", 2.0**-8, 2.0**-133), ("float16", 2.0**-11, 2.0**-24),
])  # fmt: skip
def test_half_types_round_each_sum_once(dtype: str, half_ulp: float, least: float) -> None:
    """Sums are computed in f32, also over samples. PyTorch rounds the sum of each sample for
    transposed convolutions and for f16."""
    draw, tested = random.Random(dtype), 0
    for seed in range(tier.pick(20, 80)):
        function, tensors, numbers = case(draw, getattr(gt, dtype))
        gt.manual_seed(seed)
        given = [x.copy_(gt.randn(x.shape)) for x in tensors]
        doubles = [x.to(gt.float64) for x in given]
        try:
            found = _results(function, given, numbers)
        except gt.GpuTensorError:  # negative padding removed all elements
            continue
        exact = _results(function, doubles, numbers)
        whole = _results(function, [x.abs() for x in doubles], numbers, gt.abs)
        for a, b, most in zip(found, exact, whole, strict=True):
            room = b.abs() * half_ulp + most * 8 * 2.0**-24 + least
            assert bool(((a.to(gt.float64) - b).abs() <= room).all()), (function, numbers, tensors)
            tested += a.numel()
    assert tested > 100_000


CASES: list[tuple[Any, Any, dict[str, Any]]] = [
    ((2, 3, 40, 30), (20, 3, 3, 3), {"padding": 1}),
    ((1, 70, 9, 7), (33, 70, 3, 3), {"padding": 1, "stride": 2}),
    ((3, 64, 5, 5), (70, 64, 1, 1), {}),
    ((2, 600, 3, 3), (9, 600, 3, 3), {"padding": 1}),  # several chunks of channels
    ((1, 1600, 20, 24), (8, 1600, 3, 3), {"padding": 1}),  # copies of rows that leave the cache
    ((5, 400, 6, 6), (330, 400, 3, 3), {"padding": 1}),  # one unit, whose weights are not packed
    ((13, 40, 7, 7), (200, 40, 3, 3), {"padding": 1}),  # units of several samples
    ((2, 16, 5, 700), (80, 16, 3, 3), {"padding": 1}),  # rows longer than a unit
    ((2, 64, 40, 9), (24, 64, 1, 1), {}),  # planes that are read from x itself
    ((3, 800, 5, 5), (660, 400, 3, 3), {"groups": 2, "stride": 2, "padding": 1}),
    ((2, 40, 20, 300), (40, 1, 3, 3), {"padding": 1, "groups": 40}),
    ((2, 12, 11, 9), (24, 1, 5, 5), {"padding": 2, "groups": 12}),
    ((2, 32, 12, 10), (64, 4, 3, 3), {"groups": 8, "stride": 2}),
]


@pytest.mark.parametrize("form", [gt.contiguous_format, gt.channels_last], ids=str)
@pytest.mark.parametrize(("sizes", "kernel", "numbers"), CASES, ids=str)
def test_threads_change_no_bit_and_it_is_near_f64(
    sizes: Any, kernel: Any, numbers: dict[str, Any], form: Any
) -> None:
    gt.manual_seed(0)
    tensors = [gt.randn(sizes), gt.randn(kernel), gt.randn(kernel[0])]
    tensors = [*[x.contiguous(memory_format=form) for x in tensors[:2]], tensors[2]]
    weigh = gt.randn_like
    found = []
    for threads in (1, 2, 3):
        gt.set_num_threads(threads)
        gt.manual_seed(1)
        found.append(_results(F.conv2d, tensors, numbers, weigh))
    for others in found[1:]:
        assert all(gt.equal(a, b) for a, b in zip(found[0], others, strict=True))
    gt.manual_seed(1)
    grad = gt.randn_like(found[0][0]).double()
    exact = _results(F.conv2d, [x.double() for x in tensors], numbers, lambda _: grad)
    for a, b in zip(found[0], exact, strict=True):
        assert (a - b).abs().max() <= 4e-6 * b.abs().max() + 1e-5


def test_elements_beyond_the_input_are_never_read_and_infinities_stay() -> None:
    x, w = gt.zeros(1, 1, 4, 4), gt.ones(1, 1, 3, 3)
    x[0, 0, 0, 0] = float("inf")
    made = F.conv2d(x, w, padding=1)
    assert made[0, 0, :2, :2].isinf().all() and not made[0, 0, 2:].any()
    big = gt.full((1, 8, 6, 6), float("nan"))
    big[:, :, 1:5, 1:5] = 1
    assert F.conv2d(big[:, :, 1:5, 1:5], gt.ones(2, 8, 3, 3)).eq(72).all()


BANDS: list[tuple[Any, Any, dict[str, Any]]] = [
    ((2, 32, 6, 28, 28), (32, 32, 3, 3, 3), {"padding": 1}),
    ((1, 8, 5, 30, 41), (12, 4, 2, 3, 5), {"padding": (1, 0, 2), "stride": (2, 1, 2), "groups": 2}),
    ((2, 64, 56, 56), (20, 64, 3, 3), {"padding": 1}),
    ((2, 8, 33, 100), (9, 8, 3, 3), {"padding": 2, "dilation": 2}),
    ((1, 3, 61, 150), (17, 3, 7, 7), {"padding": 3, "stride": 2}),
    ((2, 12, 45, 40), (8, 3, 5, 4), {"stride": 3, "groups": 4, "padding": 4}),
    ((2, 24, 180), (40, 24, 5), {"padding": 2}),
]


@pytest.mark.parametrize("dtype", [gt.float32, gt.float64], ids=str)
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize(("sizes", "kernel", "numbers"), BANDS[:: tier.pick(3, 1)], ids=str)
def test_windows_that_overlap_are_read_where_they_are(
    sizes: Any, kernel: Any, numbers: dict[str, Any], is_transposed: bool, dtype: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """They are read in bands of rows. The results equal those of composed products (sums are exact
    in any order), and an infinity affects only the sums of its own windows."""
    draw = random.Random(0)
    function = getattr(F, f"conv{'_transpose' * is_transposed}{len(sizes) - 2}d")
    inner = kernel[0] if is_transposed else sizes[1]
    outer = sizes[1] if is_transposed else kernel[0]
    x, weight = (whole(draw, of, dtype) for of in ((sizes[0], inner, *sizes[2:]), kernel))
    x[0, 0].view(-1)[sizes[-1] - 1] = float("inf")  # the end of a row
    x[-1, -1].view(-1)[-1] = -float("inf")
    tensors = [x, weight, whole(draw, (outer,), dtype)]
    found = []
    for threads in (1, 3):
        gt.set_num_threads(threads)
        found.append(_results(function, tensors, numbers))
    monkeypatch.setattr(conv, "_conv_loop", lambda *_: False)
    monkeypatch.setattr(conv, "_gradient_loop", lambda *_: False)
    wanted = _results(function, tensors, numbers)
    for made in found:
        for a, b in zip(made, wanted, strict=True):
            assert_close(a, b, rtol=0, atol=0, equal_nan=True)
    assert wanted[0].isfinite().any()


@pytest.mark.full
@pytest.mark.parametrize("numbers", [
    {"padding": 1}, {"stride": 2, "groups": 2}, {"groups": 4, "dilation": 2, "padding": 2},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d"])
def test_gradients_have_gradients(name: str, numbers: dict[str, Any]) -> None:
    gt.manual_seed(0)
    groups = numbers.get("groups", 1)
    sizes = (4, 4 // groups, 3, 2)
    leaves = [gt.randn(*of, dtype=gt.float64, requires_grad=True) for of in ((2, 4, 6, 5), sizes)]

    def gradients(*given: gt.Tensor) -> tuple[gt.Tensor, ...]:
        made = getattr(F, name)(*given, **numbers)
        found = gt.autograd.grad(made.sin().sum(), given, create_graph=True)
        assert all(x.requires_grad for x in found)
        return found

    assert gt.autograd.gradcheck(gradients, leaves)


def test_taps_may_be_far_apart() -> None:
    x = gt.ones(1, 2, 5, 5)
    for groups in (1, 2):
        w = gt.ones(2, 2 // groups, 3, 3)
        made = F.conv2d(x, w, padding=1000, dilation=1000, groups=groups)
        assert made.eq(2 // groups).all() and made.shape == x.shape
        for far in (1 << 62, 1 << 70):
            assert gt.equal(F.conv2d(x, w[..., :1, :1], dilation=far, groups=groups), made)


def test_a_step_beyond_all_is_one_window() -> None:
    x, w = gt.ones(2, 3, 5, requires_grad=True), gt.ones(4, 3, 2, requires_grad=True)
    made = F.conv1d(x, w, stride=1 << 70)
    made.sum().backward()
    assert made.shape == (2, 4, 1) and x.grad is not None and x.grad.sum() == 2 * 3 * 2 * 4
