"""Batch rules composed of other operators that have rules.

With `batch: composed` in an operator's row, the rule is the function of this module with the
operator's name. The function takes the operator's arguments. For invalid arguments it returns
NotImplemented; then the operator runs for the first entry and raises the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._generated import calls, functions
from ...structured.layers import recurrent
from ..operators import Entry


def composed(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule that calls a function of this module with the tensors of the level."""
    if entry.kind == "inplace":
        return NotImplemented
    return _FORMS[entry.operator.short_name](*args)


def plus(self: Any, made: Any, beta: Any, alpha: Any) -> Any:
    """Return beta * self + alpha * made."""
    made = made if alpha == 1 else made * alpha
    if beta == 0:  # self may contain NaN
        return made
    return made + (self if beta == 1 else self * beta)


def addbmm(self: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any) -> Any:
    return plus(self, functions.bmm(batch1, batch2).sum(0), beta, alpha)


def addr(self: Any, vec1: Any, vec2: Any, beta: Any, alpha: Any) -> Any:
    return plus(self, functions.outer(vec1, vec2), beta, alpha)


def trace(self: Any) -> Any:
    return self.diagonal().sum() if self.ndim == 2 else NotImplemented


def take(self: Any, index: Any) -> Any:
    return calls.index_Tensor(self.reshape(-1), (index,))


def put(self: Any, index: Any, source: Any, accumulate: bool) -> Any:
    if index.numel() != source.numel():
        return NotImplemented
    places = (index.reshape(-1),)
    made = calls.index_put(self.reshape(-1), places, source.reshape(-1), accumulate)
    return made.reshape(self.shape)


def dist(self: Any, other: Any, p: Any) -> Any:
    return calls.norm_Scalar(self - other, p)


def renorm(self: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    """Compute renorm. Source: aten/src/ATen/native/Normalization.cpp, renorm."""
    ndim = self.ndim
    if ndim < 2 or not -ndim <= dim < ndim or p <= 0 or maxnorm < 0:
        return NotImplemented
    others = [d for d in range(ndim) if d != dim % ndim]
    norms = calls.linalg_vector_norm(self, p, others, True, dtype=None)
    return self * functions.where(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0)


def rot90(self: Any, k: int, dims: Sequence[int]) -> Any:
    ndim = self.ndim
    if len(dims) != 2 or any(not -ndim <= d < ndim for d in dims):
        return NotImplemented
    if dims[0] % ndim == dims[1] % ndim:
        return NotImplemented
    turns = k % 4
    if not turns % 2:
        return self.flip(dims) if turns else self.clone()
    return self.flip(dims[1 if turns == 1 else 0]).transpose(*dims)


def channel_shuffle(self: Any, groups: int) -> Any:
    sizes = self.shape
    if len(sizes) < 3 or groups < 1 or sizes[1] % groups:
        return NotImplemented
    parts = self.reshape(sizes[0], groups, sizes[1] // groups, *sizes[2:])
    return parts.transpose(1, 2).reshape(sizes)


def _rnn_layer(*args: Any) -> Any:
    *given, mode, reverse, batch_sizes, train = args
    operands = recurrent.Operands(*given)
    how = recurrent.how_of(operands.input, mode, reverse, batch_sizes)
    return recurrent.forward(operands, how, train)


def _rnn_layer_backward(*args: Any) -> Any:
    operands, saved = recurrent.Operands(*args[3:11]), recurrent.Saved(*args[11:14])
    *which, wanted = args[14:]
    how = recurrent.how_of(operands.input, *which)
    return recurrent.backward(operands, how, saved, args[:3], wanted)


_OF_ALL = (addbmm, addr, trace, take, put, dist, renorm, rot90, channel_shuffle, _rnn_layer,
           _rnn_layer_backward)  # fmt: skip
_FORMS = {f.__name__: f for f in _OF_ALL}
