"""Attention and transformers without PyTorch: masks and errors."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest

import gputensor as gt
from gputensor import nn
from gputensor.core import errors
from gputensor.native import attention
from gputensor.nn import functional as F
from gputensor.testing import assert_close


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
    """Operands of scaled_dot_product_attention, in any layout, and its other arguments."""
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
    return given, {"attn_mask": mask, "is_causal": draw.random() < 0.4, "enable_gqa": True}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_tiles_give_what_all_scores_at_once_give(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(device)
    for _ in range(60):
        given, numbers = _random_attention(draw, device)
        weight = gt.randn_like(given[0])

        def gradients() -> tuple[gt.Tensor, ...]:
            made = F.scaled_dot_product_attention(*given, **numbers)
            found = gt.autograd.grad(made, given, weight, create_graph=draw.random() < 0.3)
            return made.detach(), *found

        found = []
        for nbytes in (8 * draw.randint(1, 60), 1 << 20):
            monkeypatch.setitem(attention._TILE, device, nbytes)
            monkeypatch.setattr(attention, "_FEW", 0)
            found.append(gradients())
        monkeypatch.setattr(attention, "_is_fused", lambda *_: False)
        found.append(gradients())
        monkeypatch.undo()
        for made in found[:-1]:
            assert_close(made, found[-1], msg=lambda text: f"{numbers}: {text}")


def test_scores_are_never_stored_whole() -> None:
    """The result and the gradients hold as much as queries, not queries by keys."""
    x = gt.ones(1, 1, 4096, 8)
    q, k, v = (x.clone().requires_grad_() for _ in range(3))
    tracemalloc.start()
    F.scaled_dot_product_attention(q, k, v).sum().backward()
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
