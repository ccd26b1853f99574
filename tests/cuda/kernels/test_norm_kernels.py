"""Layer, group and batch norm by norm.cu, against the CPU's loops, and their launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core.dtype import bfloat16, dtype, float16, float32, float64
from gputensor.dispatch import dispatcher
from gputensor.kernels.cuda import launch, module, norm_launch
from gputensor.runtime.emulator import settings
from tests.harness import tier
from tests.harness.launches import launched_kernels, on_emulator  # noqa: F401

from ..support import requires_emulator

F = gt.nn.functional
TOLERANCE = {float32: 4e-6, float64: 1e-13, float16: 4e-3, bfloat16: 3e-2}
Call = Callable[..., Any]


def _layer(x: Any, w: Any, b: Any, kept: Any) -> Any:
    return F.layer_norm(x, w.shape, w, b)


def _plain(x: Any, w: Any, b: Any, kept: Any) -> Any:
    return F.layer_norm(x, w.shape)


def _rms(x: Any, w: Any, b: Any, kept: Any) -> Any:
    return F.rms_norm(x, w.shape, w)


def _group(x: Any, w: Any, b: Any, kept: Any) -> Any:
    return F.group_norm(x, 2, w, b)


def _batch(x: Any, w: Any, b: Any, kept: Any) -> Any:
    return gt.native_batch_norm(x, w, b, *kept, True, 0.3, 1e-5)[0]


def _given(x: Any, w: Any, b: Any, kept: Any) -> Any:
    return F.batch_norm(x, *kept, w, b, False)


# name: (call, input's sizes, sizes of the parameters, a memory format). Rows of a part of a warp,
# of a warp and of a block; rows that are read again in each pass; pieces of 16 bytes and odd sizes;
# adjacent channels, and channels of one element or of many.
CASES: dict[str, tuple[Call, tuple[int, ...], tuple[int, ...], str]] = {
    "short rows": (_layer, (70, 5), (5,), ""),
    "rows of a warp": (_layer, (3, 4, 96), (96,), ""),
    "rows of several dimensions": (_layer, (6, 3, 40), (3, 40), ""),
    "rows of a block": (_plain, (2, 1500), (1500,), ""),
    "long rows": (_layer, (2, 9001), (9001,), ""),
    "one element": (_plain, (1, 1), (1,), ""),
    "transposed rows": (lambda x, w, b, kept: _layer(x.t(), w, b, kept), (24, 7), (24,), ""),
    "short rows of RMS norm": (_rms, (70, 5), (5,), ""),
    "rows of RMS norm": (_rms, (5, 300), (300,), ""),
    "long rows of RMS norm": (_rms, (2, 9001), (9001,), ""),
    "groups": (_group, (3, 4, 2, 3), (4,), ""),
    "large groups": (_group, (1, 6, 30, 31), (6,), ""),
    "groups of pixels": (_group, (2, 4, 3, 5), (4,), "channels_last"),
    "columns": (_batch, (50, 37), (37,), ""),
    "images": (_batch, (3, 5, 6, 7), (5,), ""),
    "pixels": (_batch, (3, 5, 6, 7), (5,), "channels_last"),
    "one sample": (_batch, (1, 3, 1, 1), (3,), ""),
    "images in eval": (_given, (3, 5, 6, 7), (5,), ""),
    "pixels in eval": (_given, (3, 5, 6, 7), (5,), "channels_last"),
}


def _results(name: str, of: dtype, device: str, begin: int = 0) -> list[Any]:
    call, sizes, of_parameters, form = CASES[name]
    rng = np.random.default_rng(5)

    def made(sizes: tuple[int, ...], low: float = -2.0) -> Any:
        values = gt.from_numpy(rng.uniform(low, 2.0, sizes)).to(of).to(device)
        flat = gt.zeros(values.numel() + begin, dtype=of, device=device)
        return flat[begin:].reshape(sizes).copy_(values)

    x, w, b = (made(s).requires_grad_() for s in (sizes, of_parameters, of_parameters))
    kept = made(of_parameters), made(of_parameters, 0.5)
    used = x.contiguous(memory_format=getattr(gt, form)) if form else x
    y = call(used, w, b, kept)
    y.backward(made(tuple(y.shape)))
    return [y.detach(), x.grad, w.grad, b.grad, *kept]


def _assert_equal(name: str, of: dtype, begin: int = 0) -> None:
    for mine, theirs in zip(_results(name, of, "cuda", begin), _results(name, of, "cpu", begin)):
        if theirs is None:
            assert mine is None
            continue
        assert (mine.dtype, mine.shape, mine.stride()) == (
            theirs.dtype,
            theirs.shape,
            theirs.stride(),
        )
        a, b = (x.cpu().to(float64).numpy() for x in (mine, theirs))
        bound = TOLERANCE[of] * max(1.0, np.nanmax(np.abs(b), initial=0.0))
        np.testing.assert_allclose(a, b, rtol=0, atol=bound)


@requires_emulator
@pytest.mark.parametrize("of", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_equal_the_cpu(name: str, of: dtype) -> None:
    _assert_equal(name, of)


@requires_emulator
@pytest.mark.parametrize("name", ["rows of a warp", "images", "images in eval", "long rows"])
def test_memory_that_is_not_aligned(name: str) -> None:
    _assert_equal(name, float16, 1)


@requires_emulator
@pytest.mark.parametrize("name", tier.pick(["images"], [n for n in CASES if "eval" not in n]))
def test_channels_in_segments(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norm_launch, "PER_LANE", 1 / 64)  # a segment has 4 elements or fewer
    dispatcher.forget_plans()
    try:
        _assert_equal(name, float32)
    finally:
        dispatcher.forget_plans()


@on_emulator
@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_the_emulator_finds_no_fault(name: str) -> None:
    """Races, reads of memory that was not written, accesses outside of allocations."""
    for schedule in ("forward", "random"):
        with settings.emulator_settings(sanitize="all", schedule=schedule, seed=3):
            _forget()
            _results(name, float32, "cuda")
    _forget()


def _forget() -> None:
    """Drop kernels that were compiled without the checks, and the plans that hold them."""
    module.clear()
    dispatcher.forget_plans()


@on_emulator
@pytest.mark.parametrize("name, forward, backward", [
    ("rows of a warp", ["norm_rows"], ["norm_rows_backward", "norm_gradients"]),
    ("rows of RMS norm", ["norm_rows"], ["norm_rows_backward", "norm_gradients"]),
    ("groups", ["norm_rows"], ["norm_rows_backward", "norm_gradients"]),
    ("images", ["norm_statistics", "norm_scaled"], ["norm_gradients", "norm_scaled_backward"]),
    ("images in eval", ["norm_scaled"], ["norm_gradients", "norm_scaled_backward"]),
])  # fmt: skip
def test_launches(
    name: str, forward: list[str], backward: list[str], request: pytest.FixtureRequest
) -> None:
    call, sizes, of_parameters, _ = CASES[name]
    x = gt.ones(sizes, device="cuda").requires_grad_()
    w, b = (gt.ones(of_parameters, device="cuda").requires_grad_() for _ in range(2))
    kept = gt.zeros(of_parameters, device="cuda"), gt.ones(of_parameters, device="cuda")
    grad = gt.ones(sizes, device="cuda")
    call(x, w, b, kept).backward(grad)  # compiles
    launched = request.getfixturevalue("launched")
    launched.clear()
    y = call(x, w, b, kept)
    assert launched == forward
    launched.clear()
    gt.autograd.grad(y, (x, w, b), grad, allow_unused=True)
    assert launched == backward


@on_emulator
@pytest.mark.parametrize("of", TOLERANCE, ids=str)
@pytest.mark.parametrize("count", [7, 300, 5000, pytest.param(17_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_a_chain_has_the_bits_of_the_kernel(
    of: dtype, count: int, norm: str, request: pytest.FixtureRequest
) -> None:
    """A chain composes layer norm and RMS norm of f32 and f64, whose sums the kernel adds like
    reduce.cu."""
    w = gt.randn(count).to(of).cuda()

    def layer(x: Any) -> Any:
        return F.layer_norm(x * 2 + 1, (count,), w, w) * 2

    def rms(x: Any) -> Any:
        return F.rms_norm(x * 2 + 1, (count,), w) * 2

    normal = {"layer": layer, "rms": rms}[norm]
    fused = gt.fuse(normal)
    fused(gt.randn(20, count).to(of).cuda())
    launched = request.getfixturevalue("launched")
    for _ in range(3):
        x = gt.randn(20, count).to(of).cuda()
        expected = normal(x)
        launched.clear()
        found = fused(x)
        assert ("norm_rows" in launched) is (of.itemsize == 2 or count > 1 << 14)
        assert bool((found == expected).all())


@requires_emulator
@pytest.mark.parametrize("name", ["layer", "rms", "group", "batch"])
def test_gradients_of_f32_for_an_input_of_f16(name: str) -> None:
    x, grad, mean, rstd = gt.randn(6, 4, 5).half(), gt.randn(6, 4, 5), gt.randn(24), gt.rand(24)
    mask, ops = (True, True, True), gt.ops.aten

    def found(device: str) -> Any:
        g, y, m, r = (z.to(device) for z in (grad, x, mean, rstd))
        if name == "layer":
            rows = (6, 4, 1)
            m, r = m.reshape(rows), r.reshape(rows)
            return ops.native_layer_norm_backward(g, y, (5,), m, r, None, None, mask)
        if name == "rms":
            return ops._fused_rms_norm_backward(g, y, (5,), r.reshape(6, 4, 1), None, mask[:2])
        if name == "group":
            m, r = m[:12].reshape(6, 2), r[:12].reshape(6, 2)
            return ops.native_group_norm_backward(g, y, m, r, None, 6, 4, 5, 2, mask)
        m, r = m[:4], r[:4]
        return ops.native_batch_norm_backward(g, y, None, None, None, m, r, True, 1e-5, mask)

    for mine, theirs in zip(found("cuda"), found("cpu")):
        assert mine.dtype is theirs.dtype
        assert gt.allclose(mine.cpu().float(), theirs.float(), rtol=4e-3, atol=4e-2)


@requires_emulator
def test_statistics_of_f32_beside_f16() -> None:
    x = gt.randn(4, 8).to(float16)
    w = gt.ones(8)
    on_cpu = gt.native_layer_norm(x, (8,), w, w, 1e-5)
    on_cuda = gt.native_layer_norm(x.cuda(), (8,), w.cuda(), w.cuda(), 1e-5)
    for mine, theirs in zip(on_cuda, on_cpu):
        assert mine.dtype is theirs.dtype
        np.testing.assert_allclose(mine.cpu().float().numpy(), theirs.float().numpy(), atol=4e-3)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=requires_emulator)])
def test_a_pending_chain_reads_running_statistics_before_they_change(device: str) -> None:
    """The schema does not declare that batch norm writes them, so the chain would run too late."""

    @gt.fuse
    def call(x: Any, mean: Any, var: Any) -> Any:
        before = (mean * 2 + 1) * 3
        return before, F.batch_norm(x, mean, var, training=True)

    for _ in range(4):
        x = gt.ones(4, 8192, device=device)
        mean, var = gt.zeros(8192, device=device), gt.ones(8192, device=device)
        before, _ = call(x, mean, var)
        assert bool((before == 3).all())


def test_segments_depend_on_sizes_alone() -> None:
    made = norm_launch.Norm(float32, 64, 64, 56 * 56)
    assert made.segments == min(launch.MOST_BLOCKS // 64, 64 * 56 * 56 // (64 * 256))
    assert made.channel_blocks == 64 * made.segments and made.parts() == 2 * 64 * made.segments
    few = norm_launch.Norm(float32, 8, 1000, 1)
    assert (few.segments, few.channel_blocks, few.parts()) == (1, -(-1000 // 32), 0)
