"""MultiheadAttention, and the transformer layers and stacks that use it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from ..._generated.functions import empty, full, triu
from ...core import errors
from ...core.arguments import flag
from ...tensor.tensor import Tensor
from .. import functional as F, init
from ..parameter import Parameter
from .container import ModuleList, check_layers
from .functional import Dropout
from .linear import Linear
from .module import Module
from .norm import LayerNorm


class _Projection(Linear):
    """The output projection of MultiheadAttention: a Linear that `repr` shows under PyTorch's
    name."""

    def _get_name(self) -> str:
        return "NonDynamicallyQuantizableLinear"


class MultiheadAttention(Module):
    """Attention by several heads at once: softmax(q @ k.mT / sqrt(E / heads)) @ v, for projections
    q, k and v of the inputs.

    Parameters: in_proj_weight (3 E, E), or {q,k,v}_proj_weight if kdim or vdim differ from E, and
    the parameters of out_proj.
    """

    embed_dim: int
    num_heads: int
    dropout: float
    kdim: int
    vdim: int

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            rule = f"be positive and divide embed_dim, {embed_dim}"
            raise errors.must("MultiheadAttention", "num_heads", rule, num_heads)
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.batch_first: bool = flag("MultiheadAttention", "batch_first", batch_first)
        self.add_zero_attn = add_zero_attn
        self.head_dim: int = embed_dim // num_heads
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim

        def learnt(name: str, is_there: bool, *sizes: int) -> None:
            made = Parameter(empty(sizes, device=device, dtype=dtype)) if is_there else None
            self.register_parameter(name, made)

        is_one = self._qkv_same_embed_dim
        learnt("q_proj_weight", not is_one, embed_dim, embed_dim)
        learnt("k_proj_weight", not is_one, embed_dim, self.kdim)
        learnt("v_proj_weight", not is_one, embed_dim, self.vdim)
        learnt("in_proj_weight", is_one, 3 * embed_dim, embed_dim)
        learnt("in_proj_bias", bias, 3 * embed_dim)
        self.out_proj: Linear = _Projection(embed_dim, embed_dim, bias, device, dtype)
        learnt("bias_k", add_bias_kv, 1, 1, embed_dim)
        learnt("bias_v", add_bias_kv, 1, 1, embed_dim)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        names = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
        for weight in (getattr(self, name) for name in names):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None,
        average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Return the result and the weights. If need_weights is False, return None instead of the
        weights.

        Args:
            query: (L, N, E), (N, L, E) with batch_first, or (L, E). key, value: the same with S.
            key_padding_mask: (N, S), True to exclude a key, or numbers added to scores.
            attn_mask: (L, S) or (N * heads, L, S), True to exclude a key from a query, or numbers
                added to scores.
            is_causal: declares that attn_mask is causal.
        """
        swaps = self.batch_first and query.ndim == 3
        if swaps:
            # If one tensor is given as several arguments, it stays one object. One product then
            # computes all projections.
            turned = {id(x): x.transpose(0, 1) for x in (query, key, value)}
            query, key, value = (turned[id(x)] for x in (query, key, value))
        made, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
            self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, self.training, key_padding_mask, need_weights,
            attn_mask, not self._qkv_same_embed_dim, self.q_proj_weight, self.k_proj_weight,
            self.v_proj_weight, None, None, average_attn_weights, is_causal,
        )  # fmt: skip
        return made.transpose(0, 1) if swaps else made, weights


# --- layers ---------------------------------------------------------------------------------------


class _Layer(Module):
    """Base class of encoder and decoder layers: a perceptron, norms and dropout."""

    norms: int

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        made: Any = {"device": device, "dtype": dtype}

        def attention() -> MultiheadAttention:
            options: Any = {"dropout": dropout, "bias": bias, "batch_first": batch_first, **made}
            return MultiheadAttention(d_model, nhead, **options)

        self.self_attn: MultiheadAttention = attention()
        if self.norms == 3:
            self.multihead_attn: MultiheadAttention = attention()
        self.linear1: Linear = Linear(d_model, dim_feedforward, bias, **made)
        self.dropout: Dropout = Dropout(dropout)
        self.linear2: Linear = Linear(dim_feedforward, d_model, bias, **made)
        self.norm_first: bool = flag(type(self).__name__, "norm_first", norm_first)
        for n in range(1, self.norms + 1):
            setattr(self, f"norm{n}", LayerNorm(d_model, layer_norm_eps, bias=bias, **made))
        for n in range(1, self.norms + 1):
            setattr(self, f"dropout{n}", Dropout(dropout))
        self.activation: Callable[[Tensor], Tensor] = _activation(activation)

    def _step(self, n: int, x: Tensor, branch: Callable[[Tensor], Tensor]) -> Tensor:
        """Return x plus a branch of x. With norm_first, normalise the branch's input, otherwise
        normalise the sum."""
        norm, drop = getattr(self, f"norm{n}"), getattr(self, f"dropout{n}")
        found: Tensor = x + drop(branch(norm(x))) if self.norm_first else norm(x + drop(branch(x)))
        return found

    def _perceptron(self, x: Tensor) -> Tensor:
        made: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return made


def _activation(named: str | Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    if callable(named):
        return named
    if not isinstance(named, str) or named not in ("relu", "gelu"):
        raise errors.must("Transformer", "activation", "be 'relu', 'gelu' or a function", named)
    return F.relu if named == "relu" else F.gelu


class TransformerEncoderLayer(_Layer):
    """Self-attention, then a perceptron at each position, both with residual connections.

    Args: norm_first: normalise each block's input instead of its sum with the residual.
    """

    norms = 2

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None, is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        def attend(x: Tensor) -> Tensor:
            made: Tensor = self.self_attn(
                x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal
            )[0]
            return made

        return self._step(2, self._step(1, src, attend), self._perceptron)


class TransformerDecoderLayer(_Layer):
    """A TransformerEncoderLayer that also attends to a memory, between self-attention and
    perceptron."""

    norms = 3

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        def attend(x: Tensor) -> Tensor:
            made: Tensor = self.self_attn(
                x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal
            )[0]
            return made

        def remember(x: Tensor) -> Tensor:
            made: Tensor = self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, False, memory_mask,
                is_causal=memory_is_causal,
            )[0]  # fmt: skip
            return made

        x = self._step(2, self._step(1, tgt, attend), remember)
        return self._step(3, x, self._perceptron)


# --- stacks ---------------------------------------------------------------------------------------


class _Stack(Module):
    """A stack of copies of a layer, and an optional final norm."""

    def _stack(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        for arg, value in (("layer", layer), ("norm", norm)):
            if not isinstance(value, Module) and (arg == "layer" or value is not None):
                raise errors.wrong_type(type(self).__name__, arg, "be a Module", value)
        check_layers(type(self).__name__, num_layers)
        self.layers: ModuleList = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def _through(self, x: Tensor, *args: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x, *args)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """A stack of copies of one encoder layer. enable_nested_tensor, mask_check: ignored."""

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
        enable_nested_tensor: bool = True, mask_check: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self._stack(encoder_layer, num_layers, norm)

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:  # fmt: skip
        return self._through(src, mask, src_key_padding_mask, bool(is_causal))


class TransformerDecoder(_Stack):
    """A stack of `num_layers` copies of one decoder layer."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self._stack(decoder_layer, num_layers, norm)

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        return self._through(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            bool(tgt_is_causal), memory_is_causal,
        )  # fmt: skip


class Transformer(Module):
    """An encoder, and a decoder that attends to the encoder's output."""

    encoder: Any
    decoder: Any
    d_model: int
    nhead: int
    batch_first: bool

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6,
        num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu, custom_encoder: Any = None,
        custom_decoder: Any = None, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        rest = (activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype)
        given = (d_model, nhead, dim_feedforward, dropout, *rest)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        for arg, custom in (("encoder", custom_encoder), ("decoder", custom_decoder)):
            if custom is not None and not isinstance(custom, Module):
                raise errors.wrong_type("Transformer", f"custom_{arg}", "be a Module", custom)
        self.encoder = custom_encoder
        if custom_encoder is None:
            layer: Module = TransformerEncoderLayer(*given)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*given)
            self.decoder = TransformerDecoder(layer, num_decoder_layers, norm())
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for weight in self.parameters():
            if weight.ndim > 1:
                init.xavier_uniform_(weight)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        made: Tensor = self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            tgt_is_causal, memory_is_causal,
        )  # fmt: skip
        return made

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return a causal mask: -inf above the diagonal, 0 elsewhere."""
        return triu(full((sz, sz), -math.inf, device=device, dtype=dtype), 1)


__all__ = [
    "MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer",
    "TransformerEncoder", "TransformerDecoder", "Transformer",
]  # fmt: skip
