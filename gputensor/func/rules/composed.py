"""Batch rules composed of other operators that have rules.

With `batch: composed` in an operator's row, the rule is the function of this module with the
operator's name, or else the operator's own CompositeExplicitAutograd kernel. The function takes the
operator's arguments. For invalid arguments it returns NotImplemented; then the operator runs for
the first entry and raises the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._generated import calls
from ...dispatch.keys import CompositeExplicitAutograd
from ...structured.layers import recurrent
from ..operators import Entry


def composed(level: Any, entry: Entry, args: Sequence[Any], argument: str) -> Any:
    """The batch rule that runs an operator as a composition of other operators, on tensors of the
    level."""
    if entry.kind == "inplace":
        return NotImplemented
    form = _FORMS.get(entry.operator.short_name)
    if form is not None:
        return form(*args)
    kernel: Any = entry.operator.kernels[CompositeExplicitAutograd][0]
    return kernel.function(0, *args)


def take(self: Any, index: Any) -> Any:
    return calls.index_Tensor(self.reshape(-1), (index,))


def put(self: Any, index: Any, source: Any, accumulate: bool) -> Any:
    if index.numel() != source.numel():
        return NotImplemented
    places = (index.reshape(-1),)
    made = calls.index_put(self.reshape(-1), places, source.reshape(-1), accumulate)
    return made.reshape(self.shape)


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


_OF_ALL = (take, put, rot90, channel_shuffle, _rnn_layer, _rnn_layer_backward)
_FORMS = {f.__name__: f for f in _OF_ALL}
