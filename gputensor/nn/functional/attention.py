"""Attention of gt.nn.functional."""

from __future__ import annotations

from ..._generated import calls
from ...core.arguments import flag
from ...tensor.tensor import Tensor

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Values weighted by softmax(query @ key.mT * scale + attn_mask).

    Args:
        query: (..., heads, L, E). key: (..., heads, S, E). value: (..., heads, S, F).
        attn_mask: added to the scores, or bool, False where a query is not to look; (..., L, S).
        dropout_p: share of the weights that are dropped, always: give 0 in evaluation.
        is_causal: query n looks at the first n keys and at its own.
        scale: 1 / sqrt(E) unless given.
        enable_gqa: each head of key and value serves several of query's.
    Returns: (..., heads, L, F).

    >>> x = gt.ones(1, 2, 3, 4)
    >>> gt.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).shape
    gputensor.Size([1, 2, 3, 4])
    """
    op = "scaled_dot_product_attention"
    return calls.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, flag(op, "is_causal", is_causal), scale,
        flag(op, "enable_gqa", enable_gqa),
    )  # fmt: skip
