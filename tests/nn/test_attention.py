"""Attention and transformers without PyTorch beside them: what looks at what, and refusals."""

from __future__ import annotations

import pytest

import gputensor as gt
from gputensor import nn
from gputensor.core import errors
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
