"""Linear, Bilinear, Embedding, EmbeddingBag and PReLU."""

from __future__ import annotations

import math
from typing import Any

from ..._generated.functions import empty
from ...core import errors
from ...structured import arguments
from ...tensor.tensor import Tensor
from .. import functional as F, init
from ..parameter import Parameter
from .module import Module


class Identity(Module):
    """A module that returns its input unchanged. The constructor accepts any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """Compute input @ weight.T + bias. Parameters: weight (out_features, in_features), bias
    (out_features)."""

    in_features: int
    out_features: int

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        made: Any = {"device": device, "dtype": dtype}
        self.weight: Parameter = Parameter(empty(out_features, in_features, **made))
        self.register_parameter("bias", Parameter(empty(out_features, **made)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill weight and bias with uniform numbers in [-b, b]; b is 1 / sqrt(in_features)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}"


class Bilinear(Module):
    """Compute input1 @ weight[k] @ input2 + bias[k] for each k. Parameters: weight (out, in1, in2),
    bias (out)."""

    in1_features: int
    in2_features: int

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        made: Any = {"device": device, "dtype": dtype}
        self.weight: Parameter = Parameter(empty(out_features, in1_features, in2_features, **made))
        self.register_parameter("bias", Parameter(empty(out_features, **made)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.in1_features)
        for of in (self.weight, self.bias):
            if of is not None:
                init.uniform_(of, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        sizes = f"in1_features={self.in1_features}, in2_features={self.in2_features}"
        return f"{sizes}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """Look up the rows of a table at the given indices. Parameters: weight (num_embeddings,
    embedding_dim), the table.

    padding_idx: the index of a row that is initially zero and gets no gradient. max_norm: the rows
    that are looked up are scaled down to this norm, in place.
    """

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    sparse: bool
    weight: Parameter

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Tensor | None = None, _freeze: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if padding_idx is not None:
            padding_idx = arguments.integer("Embedding", "padding_idx", padding_idx)
            if not -num_embeddings <= padding_idx < num_embeddings:
                rule = f"be in [-{num_embeddings}, {num_embeddings - 1}]"
                raise errors.wrong_index("Embedding", "padding_idx", rule, padding_idx)
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx, self.max_norm, self.norm_type = padding_idx, max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if _weight is None:
            made = empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(made, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Fill the table with numbers of the standard normal distribution, and the row at
        padding_idx with zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.detach()[self.padding_idx].fill_(0)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:  # fmt: skip
        """Make an Embedding of an existing table."""
        rows, columns = embeddings.shape
        return cls(
            rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
            embeddings, freeze,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return self._shown(("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"))

    def _shown(self, names: tuple[str, ...]) -> str:
        usual = {"norm_type": 2.0, "scale_grad_by_freq": False, "sparse": False}
        values = {name: getattr(self, name) for name in names}
        shown = [f"{n}={x!r}" for n, x in values.items() if x != usual.get(n)]
        return ", ".join([f"{self.num_embeddings}", f"{self.embedding_dim}", *shown])


class EmbeddingBag(Embedding):
    """Compute the mean, sum or max of the rows of a table in each bag of indices. Bags are the rows
    of a 2-d input, or the parts of a 1-d input that begin at offsets."""

    mode: str
    include_last_offset: bool

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, _weight: Tensor | None = None, include_last_offset: bool = False,
        padding_idx: int | None = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse, _weight, False, device, dtype,
        )  # fmt: skip
        self.mode, self.include_last_offset = mode, include_last_offset

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, include_last_offset: bool = False, padding_idx: int | None = None,
    ) -> EmbeddingBag:  # fmt: skip
        """Make an EmbeddingBag of an existing table."""
        rows, columns = embeddings.shape
        made = cls(
            rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
            include_last_offset, padding_idx,
        )  # fmt: skip
        made.weight.requires_grad_(not freeze)
        return made

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        names = ("max_norm", "norm_type", "scale_grad_by_freq", "mode", "padding_idx")
        return self._shown(names)


class PReLU(Module):
    """Multiply each negative element by a learned slope. Parameters: weight (num_parameters), the
    slopes."""

    num_parameters: int
    init: float

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        made = empty(num_parameters, device=device, dtype=dtype).fill_(init)
        self.weight: Parameter = Parameter(made)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


__all__ = ["Identity", "Linear", "Bilinear", "Embedding", "EmbeddingBag", "PReLU"]
