"""Attention and transformers without PyTorch: masks and errors."""

from __future__ import annotations

import math
import random
import tracemalloc
from typing import Any

import pytest

import gputensor as gt
from gputensor import nn
from gputensor.core import errors
from gputensor.kernels.compiled import library
from gputensor.kernels.cuda import attention_launch
from gputensor.native import attention
from gputensor.nn import functional as F
from gputensor.structured.layers import attention_kernels, attention_loops, attention_tiles
from gputensor.testing import assert_close

from ...harness import tier


@pytest.fixture(autouse=True)
def _seed() -> None:
    gt.manual_seed(0)


def test_a_causal_mask_hides_what_comes_later() -> None:
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, nn.LayerNorm(8)
    ).eval()
    mask, x = nn.Transformer.generate_square_subsequent_mask(5), gt.randn(2, 5, 8)
    other = gt.cat([x[:, :3], gt.randn(2, 2, 8)], 1)
    first, second = (model(y, mask, is_causal=True) for y in (x, other))
    assert_close(first[:, :3], second[:, :3])
    assert not gt.allclose(first[:, 3:], second[:, 3:])


def test_padded_keys_change_nothing() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x, padding = gt.randn(2, 4, 8), gt.tensor([[False, False, True, True]] * 2)
    wanted, shares = attention(x, x, x, padding)
    assert_close(shares[:, :, 2:], gt.zeros(2, 4, 2))
    short = x[:, :2]
    assert_close(attention(x, short, short, need_weights=False)[0], wanted)


def test_the_layers_of_a_stack_learn_apart() -> None:
    layer = nn.TransformerDecoderLayer(4, 1, 8, dropout=0.0)
    stack = nn.TransformerDecoder(layer, 2)
    assert len(list(stack.parameters())) == 2 * len(list(layer.parameters()))
    stack(gt.randn(3, 4), gt.randn(2, 4)).sum().backward()
    assert all(p.grad is not None for p in stack.parameters())
    assert all(p.grad is None for p in layer.parameters())


def test_dropout_of_the_weights() -> None:
    x = gt.ones(1, 1, 64, 4)
    found = F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
    assert 0.8 < float(found.mean()) < 1.2 and float(found.std()) > 0
    model = nn.MultiheadAttention(4, 1, dropout=0.5)
    assert not gt.equal(model(x[0], x[0], x[0])[0], model(x[0], x[0], x[0])[0])
    model.eval()
    assert gt.equal(model(x[0], x[0], x[0])[0], model(x[0], x[0], x[0])[0])


def test_parameters_by_name() -> None:
    kept = nn.ParameterDict({"a": nn.Parameter(gt.ones(2)), "b": gt.zeros(3)})
    assert list(kept) == ["a", "b"] and "a" in kept and len(kept) == 2
    assert list(kept.state_dict()) == ["a", "b"] and type(kept["b"]) is nn.Parameter
    del kept["a"]
    assert list(kept.keys()) == ["b"]


def test_refusals() -> None:
    with pytest.raises(errors.ArgumentError, match="'num_heads' must be positive and divide embed"):
        nn.MultiheadAttention(8, 3)
    attention, x = nn.MultiheadAttention(4, 2), gt.ones(3, 1, 4)
    with pytest.raises(errors.ShapeError, match="'query' must have 4 columns"):
        attention(x[..., :3], x, x)
    with pytest.raises(errors.ShapeError, match=r"'key_padding_mask' must have sizes \[1, 3\]"):
        attention(x, x, x, gt.zeros(3, dtype=gt.bool))
    with pytest.raises(errors.ArgumentError, match="'attn_mask' must be given with is_causal"):
        attention(x, x, x, is_causal=True)
    with pytest.raises(errors.DtypeError, match="'attn_mask' must be bool or floating"):
        attention(x, x, x, attn_mask=gt.zeros(3, 3, dtype=gt.int64))
    with pytest.raises(errors.ArgumentError, match="'activation' must be 'relu', 'gelu'"):
        nn.TransformerEncoderLayer(4, 2, activation="tanh")


def _random_attention(draw: random.Random, device: str) -> tuple[list[gt.Tensor], dict[str, Any]]:
    """Return operands of scaled_dot_product_attention, in any layout, and its other arguments."""
    samples, own, served = draw.choice([1, 2, 3]), draw.choice([1, 2, 3]), draw.choice([1, 1, 2])
    queries, keys, width = draw.randint(1, 9), draw.randint(1, 9), draw.randint(1, 5)

    def laid_out(heads: int, length: int) -> gt.Tensor:
        x = gt.randn(samples, length, heads, width, dtype=gt.float64, device=device)
        x = x.transpose(1, 2)
        return (x if draw.random() < 0.5 else x.contiguous()).detach().requires_grad_()

    heads = own * served
    given = [laid_out(heads, queries), *(laid_out(own, keys) for _ in range(2))]
    sizes = draw.choice([(1, 1), (samples, 1), (1, heads), (samples, heads)])
    sizes = (*sizes, draw.choice([1, queries]), keys)
    drawn = gt.randn(sizes, device=device)
    mask = draw.choice([None, None, drawn, drawn < 0.3])
    dropout_p = draw.choice([0.0, 0.0, 0.3, 1.0])
    is_causal = draw.random() < 0.4
    numbers = {"attn_mask": mask, "dropout_p": dropout_p, "is_causal": is_causal}
    return given, {**numbers, "enable_gqa": True}


@pytest.fixture
def by_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute tiles by operators on the CPU, too."""
    for name in ("_forward_loop", "_backward_loop"):
        monkeypatch.setattr(attention_loops, name, lambda *_: False)


@pytest.mark.usefixtures("by_tiles")
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.full)])
def test_tiles_give_what_all_scores_at_once_give(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(device)
    for _ in range(60):
        given, numbers = _random_attention(draw, device)
        weight = gt.randn_like(given[0])

        def gradients() -> tuple[gt.Tensor, ...]:
            gt.manual_seed(2)
            made = F.scaled_dot_product_attention(*given, **numbers)
            found = gt.autograd.grad(made, given, weight, create_graph=draw.random() < 0.3)
            return made.detach(), *found

        found = []
        for nbytes in (8 * draw.randint(1, 60), 1 << 20):
            monkeypatch.setitem(attention_tiles.TILE_BYTES, device, nbytes)
            monkeypatch.setattr(attention, "_FEW", 0)
            found.append(gradients())
        with monkeypatch.context() as whole:
            whole.setattr(attention, "_is_fused", lambda *_: False)
            found.append(gradients())
        for made in found[:-1]:
            assert_close(made, found[-1], msg=lambda text: f"{numbers}: {text}")


_LENGTHS = (1, 3, 9, 63, 64, 65, 130, 239, 240, 241, 300, 500)


def _long_attention(draw: random.Random, dtype: Any) -> tuple[list[gt.Tensor], dict[str, Any]]:
    """Return operands with incomplete tiles, and with a head size that fills registers or does
    not."""
    samples, own, served = draw.choice([1, 2]), draw.choice([1, 2]), draw.choice([1, 1, 3])
    queries, keys = draw.choice(_LENGTHS), draw.choice(_LENGTHS)
    width = draw.choice([1, 8, 40, 64, 100])

    def laid_out(heads: int, length: int) -> gt.Tensor:
        x = gt.randn(samples, length, heads, width).to(dtype).transpose(1, 2)
        return (x if draw.random() < 0.5 else x.contiguous()).detach().requires_grad_()

    given = [laid_out(own * served, queries), laid_out(own, keys), laid_out(own, keys)]
    mask, is_causal = None, draw.random() < 0.4
    if not is_causal and draw.random() < 0.7:
        sizes = (draw.choice([1, samples]), draw.choice([1, own * served]))
        mask = gt.randn(*sizes, draw.choice([1, queries]), draw.choice([keys, keys, 1]))
        kind = draw.choice(["bool", "fixed", "learned"])
        mask = mask > -0.5 if kind == "bool" else mask.to(dtype).requires_grad_(kind == "learned")
        given += [mask] if kind == "learned" else []
    return given, {"attn_mask": mask, "is_causal": is_causal, "enable_gqa": True}


def _gradients(given: list[gt.Tensor], numbers: dict[str, Any]) -> tuple[gt.Tensor, ...]:
    with gt.random.fork_rng():
        gt.manual_seed(3)
        made = F.scaled_dot_product_attention(*given[:3], **numbers)
    weight = gt.linspace(-1, 1, made.numel()).reshape(made.shape).to(made)
    return made.detach(), *gt.autograd.grad(made, given, weight)


@pytest.mark.parametrize("dtype", [gt.float32, gt.float64, gt.float16, gt.bfloat16], ids=str)
def test_loops_give_what_all_scores_at_once_give(
    dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(str(dtype))
    near = {"rtol": 0, "atol": 1e-5 if dtype is gt.float32 else 1e-13}
    if dtype.itemsize == 2:  # results are up to 16
        near["atol"] = 16 * gt.finfo(dtype).eps
    for n in range(tier.pick(8, 40)):
        given, numbers = _long_attention(draw, dtype)
        numbers["dropout_p"] = 0.3 * (n % 3 == 2)
        found = _gradients(given, numbers)
        with monkeypatch.context() as whole:
            whole.setattr(attention, "_is_fused", lambda *_: False)
            wanted = _gradients(given, numbers)
        for x, y in zip(found, wanted):
            scale = max(1.0, float(y.abs().max()))
            assert_close(x / scale, y / scale, **near, msg=lambda text: f"{numbers}: {text}")


@pytest.mark.skipif(not gt.cuda.is_available(), reason="no device, and no emulator of one")
@pytest.mark.parametrize(
    "dtype", tier.pick([gt.float32], [gt.float32, gt.float16, gt.bfloat16]), ids=str
)
def test_the_kernels_give_what_the_cpu_gives(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[str] = []
    launch = attention_launch.Attention._launch

    def noted(self: Any, index: int, entry: str, *rest: Any) -> None:
        launched.append(entry)
        launch(self, index, entry, *rest)

    monkeypatch.setattr(attention_launch.Attention, "_launch", noted)
    draw = random.Random(str(dtype))
    # With one key, its gradient is a sum of terms that cancel, and the error has the size of the
    # terms.
    near = 1e-5 if dtype is gt.float32 else 4 * gt.finfo(dtype).eps
    for n in range(tier.pick(6, 40)):
        given, numbers = _long_attention(draw, dtype)
        numbers["dropout_p"] = 0.3 * (n % 3 == 2)
        wanted = _gradients(given, numbers)
        moved = [x.detach().to("cuda").requires_grad_() for x in given]
        if (mask := numbers["attn_mask"]) is not None:
            numbers["attn_mask"] = moved[3] if len(given) == 4 else mask.to("cuda")
        for x, y in zip(_gradients(moved, numbers), wanted, strict=True):
            steps = [[s for n, s in zip(z.shape, z.stride()) if n > 1] for z in (x, y)]
            assert x.dtype is y.dtype and steps[0] == steps[1]
            scale = max(1.0, float(y.abs().max()))
            assert_close(x.cpu() / scale, y / scale, rtol=0, atol=near, msg=str(numbers))
    assert {"attention_forward", "attention_queries", "attention_keys"} == {*launched}


@pytest.mark.full
@pytest.mark.skipif(not gt.cuda.is_available(), reason="no device, and no emulator of one")
def test_a_query_without_keys_gives_zeros_by_the_kernels() -> None:
    given = [gt.randn(1, 2, 70, 8, device="cuda").requires_grad_() for _ in range(3)]
    mask = gt.ones(70, 70, dtype=gt.bool, device="cuda")
    mask[5] = False
    made, *gradients = _gradients(given, {"attn_mask": mask})
    assert not made[:, :, 5].any() and not gradients[0][:, :, 5].any()
    assert all(bool(x.isfinite().all()) and bool(x.any()) for x in gradients)
    sums = gt.ops.aten._scaled_dot_product_flash_attention_for_cpu(*given, attn_mask=mask)[1]
    assert not sums[:, :, 5].any() and sums[:, :, 4].all()
    given[0].data[0, 0, 3, 0] = math.nan
    made = F.scaled_dot_product_attention(*given)
    assert made[0, 0, 3].isnan().all() and made[0, 0, 4].isfinite().all()


@pytest.mark.full
@pytest.mark.skipif(not gt.cuda.is_available(), reason="no device, and no emulator of one")
@pytest.mark.parametrize("dtype", [gt.float32, gt.float64], ids=str)
def test_a_graph_drops_other_weights_at_each_replay(dtype: Any) -> None:
    """Kernels, and operators for f64, draw the same numbers forward and backward."""
    x = gt.randn(1, 16, 70, 8, device="cuda", dtype=dtype).requires_grad_()

    def step() -> list[gt.Tensor]:
        made = F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
        return [made.detach(), *gt.autograd.grad(made.sum(), x)]

    step()
    gt.manual_seed(5)
    wanted = [made.clone() for _ in range(2) for made in step()]
    gt.manual_seed(5)
    graph = gt.cuda.CUDAGraph()
    with gt.cuda.graph(graph):
        results = step()
    found = []
    for _ in range(2):
        graph.replay()
        found += [made.clone() for made in results]
    assert all(gt.equal(a, b) for a, b in zip(found, wanted)) and not gt.equal(found[0], found[2])


def test_transforms_keep_their_rules_of_random_numbers() -> None:
    def attend(x: gt.Tensor) -> gt.Tensor:
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)

    x = gt.ones(3, 1, 1, 8, 4)
    with pytest.raises(errors.DispatchError, match="must not draw random numbers"):
        gt.func.vmap(attend)(x)
    made = gt.func.vmap(attend, randomness="different")(x)
    assert not gt.equal(made[0], made[1])


@pytest.mark.skipif(not gt.cuda.is_available(), reason="no device, and no emulator of one")
@pytest.mark.parametrize("width, dtype, is_kernel", [
    (128, gt.float32, True), (129, gt.float32, False), (8, gt.float64, False),
])  # fmt: skip
def test_what_the_kernels_do_not_take_is_computed_by_tiles(
    width: int, dtype: Any, is_kernel: bool
) -> None:
    given = [gt.randn(1, 1, 4, width, dtype=dtype) for _ in range(3)]
    wanted = F.scaled_dot_product_attention(*given)
    moved = [x.to("cuda") for x in given]
    launches = attention_kernels.launches(*moved, None, False, 1.0)
    assert (launches is not None) == is_kernel
    made = F.scaled_dot_product_attention(*moved)
    assert_close(made.cpu(), wanted)


@pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)
@pytest.mark.parametrize("heads", [1, 3, 24])
def test_bits_are_the_same_with_any_threads(heads: int) -> None:
    given = [gt.randn(1, heads, n, 48).requires_grad_() for n in (333, 700, 700)]
    threads, found = gt.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            gt.set_num_threads(count)
            found.append([*_gradients(given, {}), *_gradients(given, {"dropout_p": 0.4})])
    finally:
        gt.set_num_threads(threads)
    for made in found[1:]:
        assert all(gt.equal(x, y) for x, y in zip(made, found[0]))


def test_a_query_without_keys_gives_zeros() -> None:
    given = [gt.randn(1, 2, 70, 8).requires_grad_() for _ in range(3)]
    mask = gt.ones(70, 70, dtype=gt.bool)
    mask[5] = False
    made, *gradients = _gradients(given, {"attn_mask": mask})
    assert not made[:, :, 5].any() and not gradients[0][:, :, 5].any()
    assert all(x.isfinite().all() and x.any() for x in gradients)
    sums = gt.ops.aten._scaled_dot_product_flash_attention_for_cpu(*given, attn_mask=mask)[1]
    assert not sums[:, :, 5].any() and sums[:, :, 4].all()


@pytest.mark.full
@pytest.mark.parametrize("dropout_p", [0.0, 0.4])
def test_a_mask_that_needs_a_gradient_has_two_derivatives(dropout_p: float) -> None:
    given = [gt.randn(1, 2, 3, 4, dtype=gt.float64).requires_grad_() for _ in range(3)]
    for sizes in [(3, 3), (2, 1, 3), (1, 1, 1, 3), (1, 2, 3, 3)]:
        mask = gt.randn(*sizes, dtype=gt.float64).requires_grad_()

        def attend(*x: gt.Tensor) -> gt.Tensor:
            gt.manual_seed(1)
            return F.scaled_dot_product_attention(*x, dropout_p=dropout_p)

        assert gt.autograd.gradcheck(attend, (*given, mask))
        assert gt.autograd.gradgradcheck(attend, (*given, mask))
    with pytest.raises(errors.DtypeError, match="'attn_mask' must be floating"):
        x = gt.ones(1, 1, 2, 2)
        rest = (x, x, gt.ones(1, 1, 2), gt.ones(2, 2, dtype=gt.bool), 0.0, False, None, 0, 0, True)
        gt.ops.aten._attention_backward(x, x, x, *rest)


@pytest.mark.parametrize("dropout_p", [0.0, 0.1])
def test_scores_are_never_stored_whole(dropout_p: float) -> None:
    """Memory grows with the number of queries, not with queries times keys."""
    x = gt.ones(1, 1, 4096, 8)
    q, k, v = (x.clone().requires_grad_() for _ in range(3))
    tracemalloc.start()
    F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p).sum().backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4096 * 4096 * 4 // 2 and q.grad is not None


@pytest.mark.parametrize("sizes", [(0, 2, 3), (2, 0, 3), (2, 2, 0)], ids=str)
@pytest.mark.parametrize("keys", [0, 3])
def test_the_fused_operator_takes_nothing(sizes: tuple[int, int, int], keys: int) -> None:
    query = gt.ones(*sizes, 4, requires_grad=True)
    key = gt.ones(sizes[0], max(sizes[1], 1), keys, 4, requires_grad=True)
    if not sizes[1]:
        key = key[:, :0]
    made, sums = gt.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, key)
    assert made.shape == query.shape and sums.shape == sizes
    assert not made.any() or keys
    assert gt.autograd.grad(made.sum(), query)[0].shape == query.shape


@pytest.mark.parametrize("length", [4, 256])
def test_heads_are_shared_only_where_that_is_asked(length: int) -> None:
    query, key = gt.ones(1, 4, length, 2), gt.ones(1, 2, length, 2)
    with pytest.raises(errors.ShapeError):
        F.scaled_dot_product_attention(query, key, key)
    made = F.scaled_dot_product_attention(query, key, key, enable_gqa=True)
    assert gt.equal(made, gt.ones_like(query))


@pytest.mark.full
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_fused_function_draws_dropout_at_each_call(device: str) -> None:
    def function(x: gt.Tensor) -> gt.Tensor:
        return F.scaled_dot_product_attention(x * 1, x, x, dropout_p=0.5) + gt.rand_like(x)

    x, fused = gt.randn(1, 2, 9, 4, device=device), gt.fuse(function)
    for seed in range(5):
        gt.manual_seed(seed)
        found = fused(x), gt.rand(2, device=device)
        gt.manual_seed(seed)
        wanted = function(x), gt.rand(2, device=device)
        assert gt.equal(found[0], wanted[0]) and gt.equal(found[1], wanted[1])
