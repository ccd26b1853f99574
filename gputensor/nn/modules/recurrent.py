"""RNN, LSTM and GRU, and their single steps: RNNCell, LSTMCell, GRUCell.

A layer projects all of its input at once; each step is composed of operators, so it runs on every
device and has derivatives of any order. In a packed sequence each step has one row for each
sequence that has not ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..._generated.functions import addcmul, addmm, cat, empty, stack, zeros
from ...core import errors
from ...core.arguments import flag
from ...tensor.tensor import Tensor
from .. import functional as F, init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .container import check_layers
from .module import Module

# The state between steps: the hidden state, and the cell state of an LSTM.
State = tuple[Tensor, ...]


def _rnn_tanh(of_both: Tensor, state: State) -> State:
    return (of_both.tanh(),)


def _rnn_relu(of_both: Tensor, state: State) -> State:
    return (of_both.relu(),)


def _lstm(of_both: Tensor, state: State) -> State:
    i, f, g, o = of_both.chunk(4, -1)
    cell = addcmul(f.sigmoid() * state[1], i.sigmoid(), g.tanh())
    return o.sigmoid() * cell.tanh(), cell


def _gru(of_input: Tensor, of_hidden: Tensor, state: State) -> State:
    (r, z, n), (hidden_r, hidden_z, hidden_n) = of_input.chunk(3, -1), of_hidden.chunk(3, -1)
    new = (n + (r + hidden_r).sigmoid() * hidden_n).tanh()
    return (new + (z + hidden_z).sigmoid() * (state[0] - new),)


class _Kind(Module):
    """The common part of layers and cells. gates: weight rows for each hidden unit. adds: a step
    takes the sum of what input and hidden state give, not each of them."""

    gates: ClassVar[int] = 1
    states: ClassVar[int] = 1
    adds: ClassVar[bool] = True

    def _step(self) -> Callable[..., State]:
        raise NotImplementedError

    def _learnt(self, name: str, *sizes: int, device: Any, dtype: Any) -> None:
        self.register_parameter(name, Parameter(empty(sizes, device=device, dtype=dtype)))

    def reset_parameters(self) -> None:
        """Fill with uniform numbers within 1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _nonlinear(self) -> Callable[..., State]:
        if self.nonlinearity not in ("tanh", "relu"):
            rule = "be 'tanh' or 'relu'"
            raise errors.must(type(self).__name__, "nonlinearity", rule, self.nonlinearity)
        return _rnn_tanh if self.nonlinearity == "tanh" else _rnn_relu

    def _checked(self, input: Tensor, ndims: tuple[int, ...]) -> None:
        name = type(self).__name__
        if not isinstance(input, Tensor):
            raise errors.not_a_tensor(name, "input", "a Tensor", input)
        if input.ndim not in ndims or input.shape[-1] != self.input_size:
            rule = f"have {' or '.join(map(str, ndims))} dimensions, the last of {self.input_size}"
            raise errors.wrong_shape(name, "input", rule, input)

    def _begin(self, hx: Any, sizes: Sequence[tuple[int, ...]], like: Tensor) -> State:
        """The first states: as given, or zeros."""
        if hx is None:
            return tuple([zeros(s, dtype=like.dtype, device=like.device) for s in sizes])
        given = (hx,) if self.states == 1 else hx
        is_whole = isinstance(given, (tuple, list)) and len(given) == self.states
        if not is_whole or not all(isinstance(x, Tensor) for x in given):
            rule = "be a Tensor" if self.states == 1 else "be a pair of Tensors"
            raise errors.wrong_type(type(self).__name__, "hx", rule, hx)
        for x, wanted in zip(given, sizes):
            if tuple(x.shape) != wanted:
                raise errors.wrong_shape(type(self).__name__, "hx", f"have sizes {wanted}", x)
        return tuple(given)


def _fitted(state: State, begun: State, rows: int, ended: list[State]) -> State:
    """The states of the `rows` sequences in the next step: states of ended sequences go to `ended`,
    states of beginning ones come from `begun`."""
    have = state[0].shape[0]
    if rows < have:
        ended.append(tuple([s[rows:] for s in state]))
        return tuple([s[:rows] for s in state])
    if rows > have:
        return tuple([cat([s, b[have:rows]]) for s, b in zip(state, begun)])
    return state


# --- layers ---------------------------------------------------------------------------------------


class RNNBase(_Kind):
    """Layers one above the other, each over all steps, in both directions if bidirectional.

    weight_ih_l0 (gates * hidden, input), weight_hh_l0 (gates * hidden, hidden), bias_ih_l0 and
    bias_hh_l0; with `_reverse` for the other direction; weight_hr_l0 (proj_size, hidden).
    """

    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    bidirectional: bool
    proj_size: int

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        for arg, value in (("hidden_size", hidden_size), ("num_layers", num_layers)):
            if value < 1:
                raise errors.must(name, arg, "be positive", value)
        check_layers(name, num_layers)
        if not 0 <= dropout <= 1:
            raise errors.must(name, "dropout", "be in [0, 1]", dropout)
        if not 0 <= proj_size < hidden_size or proj_size and self.states == 1:
            rule = "be less than hidden_size, and 0 but for an LSTM"
            raise errors.must(name, "proj_size", rule, proj_size)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first = bias, flag(name, "batch_first", batch_first)
        self.dropout = dropout
        self.bidirectional, self.proj_size = bidirectional, proj_size
        rows, out = self.gates * hidden_size, proj_size or hidden_size
        made: Any = {"device": device, "dtype": dtype}
        for layer, end in self._directions():
            inside = out * (1 + bidirectional) if layer else input_size
            self._learnt(f"weight_ih_l{layer}{end}", rows, inside, **made)
            self._learnt(f"weight_hh_l{layer}{end}", rows, out, **made)
            for kind in ("ih", "hh") if bias else ():
                self._learnt(f"bias_{kind}_l{layer}{end}", rows, **made)
            if proj_size:
                self._learnt(f"weight_hr_l{layer}{end}", out, hidden_size, **made)
        self.reset_parameters()

    def _directions(self) -> list[tuple[int, str]]:
        ends = ("", "_reverse") if self.bidirectional else ("",)
        return [(layer, end) for layer in range(self.num_layers) for end in ends]

    def flatten_parameters(self) -> None:
        """Does nothing: the weights need not be contiguous."""

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Return the last layer's hidden state of each step, and the last states of all layers.

        Args: input: (L, N, H), (N, L, H) with batch_first, (L, H), or a PackedSequence, which
            gives a PackedSequence. hx: (layers, N, hidden), by default zeros; a pair for an LSTM.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        self._checked(input, (2, 3))
        is_alone, swaps = input.ndim == 2, self.batch_first and input.ndim == 3
        x = input.unsqueeze(1) if is_alone else input.transpose(0, 1) if swaps else input
        if is_alone and hx is not None:
            hx = self._each_state(hx, lambda s: s.unsqueeze(1))
        x, states = self._layers(x, hx, x.shape[1], None)
        if is_alone:
            x, states = x.squeeze(1), [s.squeeze(1) for s in states]
        x = x.transpose(0, 1) if swaps else x
        return x, states[0] if self.states == 1 else tuple(states)

    def _each_state(self, hx: Any, fn: Callable[[Tensor], Tensor]) -> Any:
        return fn(hx) if self.states == 1 else tuple([fn(s) for s in hx])

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[Any, Any]:
        """hx and the last states are in the user's order of sequences."""
        self._checked(input.data, (2,))
        sizes, order, back = input.batch_sizes.tolist(), *input[2:]
        if hx is not None and order is not None:
            hx = self._each_state(hx, lambda s: s.index_select(1, order))
        x, states = self._layers(input.data, hx, sizes[0], sizes)
        if back is not None:
            states = [s.index_select(1, back) for s in states]
        made = PackedSequence(x, *input[1:])
        return made, states[0] if self.states == 1 else tuple(states)

    def _layers(
        self, x: Tensor, hx: Any, batch: int, sizes: list[int] | None
    ) -> tuple[Tensor, list[Tensor]]:
        """All layers. sizes: rows of each step where x is packed, (rows, H)."""
        count, out = len(self._directions()), self.proj_size or self.hidden_size
        shapes = [(count, batch, out), (count, batch, self.hidden_size)][: self.states]
        begun, last = self._begin(hx, shapes, x), []
        for at, (layer, end) in enumerate(self._directions()):
            if not end:
                below, found = x, []
            state = tuple([s[at] for s in begun])
            made, state = self._over(below, state, f"_l{layer}{end}", sizes)
            found.append(made)
            last.append(state)
            if end or not self.bidirectional:
                x = found[0] if len(found) == 1 else cat(found, -1)
                if self.dropout and layer < self.num_layers - 1:
                    x = F.dropout(x, self.dropout, self.training)
        return x, [stack(of) for of in zip(*last)]

    def _over(
        self, x: Tensor, state: State, name: str, sizes: list[int] | None
    ) -> tuple[Tensor, State]:
        """One layer in one direction: its hidden states, and the last state."""
        weight, project = getattr(self, f"weight_hh{name}"), None
        shift: Any = None
        hidden_shift: Any = None
        if self.bias:
            shift, hidden_shift = getattr(self, f"bias_ih{name}"), getattr(self, f"bias_hh{name}")
            shift = shift + hidden_shift if self.adds else shift
        if self.proj_size:
            project = getattr(self, f"weight_hr{name}")
        turned = weight.t()
        of_inputs = F.linear(x, getattr(self, f"weight_ih{name}"), shift)
        steps = of_inputs.unbind(0) if sizes is None else of_inputs.split(sizes)
        is_reverse, step, made = name.endswith("_reverse"), self._step(), []
        begun: State = state
        ended: list[State] = []
        if sizes is not None and is_reverse:
            state = tuple([s[: sizes[-1]] for s in state])
        for of_input in reversed(steps) if is_reverse else steps:
            if sizes is not None:
                state = _fitted(state, begun, of_input.shape[0], ended)
            if self.adds:
                state = step(addmm(of_input, state[0], turned), state)
            else:
                state = step(of_input, F.linear(state[0], weight, hidden_shift), state)
            if project is not None:
                state = (F.linear(state[0], project), *state[1:])
            made.append(state[0])
        if not made:
            raise errors.wrong_shape(type(self).__name__, "input", "have a step", x)
        if ended:
            state = tuple([cat(parts) for parts in zip(state, *reversed(ended))])
        joined = stack if sizes is None else cat
        return joined(made[::-1] if is_reverse else made), state

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False,
                 "dropout": 0.0, "bidirectional": False}  # fmt: skip
        for name, default in usual.items():
            value = getattr(self, name)
            text += f", {name}={value}" if value != default else ""
        return text


class RNN(RNNBase):
    """h = tanh(W x + b + U h + c), or relu."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        rest: Any = (bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__(input_size, hidden_size, num_layers, *rest)
        self.nonlinearity = nonlinearity
        self._nonlinear()

    def _step(self) -> Callable[..., State]:
        return self._nonlinear()


class LSTM(RNNBase):
    """Long short-term memory with input, forget, cell and output gates."""

    gates: ClassVar[int] = 4
    states: ClassVar[int] = 2

    def _step(self) -> Callable[..., State]:
        return _lstm


class GRU(RNNBase):
    """Gated recurrent unit with reset, update and new gates."""

    gates: ClassVar[int] = 3
    adds: ClassVar[bool] = False

    def _step(self) -> Callable[..., State]:
        return _gru


# --- cells ----------------------------------------------------------------------------------------


class RNNCellBase(_Kind):
    """A single step, with weight_ih, weight_hh, bias_ih and bias_hh as in a layer."""

    input_size: int
    hidden_size: int
    bias: bool

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = self.gates * hidden_size
        made: Any = {"device": device, "dtype": dtype}
        self._learnt("weight_ih", rows, input_size, **made)
        self._learnt("weight_hh", rows, hidden_size, **made)
        for name in ("bias_ih", "bias_hh"):
            if bias:
                self._learnt(name, rows, **made)
            else:
                self.register_parameter(name, None)
        self.reset_parameters()

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """The next state, of (N, H) or (H)."""
        self._checked(input, (1, 2))
        sizes = [(*tuple(input.shape)[:-1], self.hidden_size)] * self.states
        state = self._begin(hx, sizes, input)
        of_input = F.linear(input, self.weight_ih, self.bias_ih)
        of_hidden, step = F.linear(state[0], self.weight_hh, self.bias_hh), self._step()
        made = step(of_input + of_hidden, state) if self.adds else step(of_input, of_hidden, state)
        return made[0] if self.states == 1 else made

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += "" if self.bias else ", bias=False"
        kind = getattr(self, "nonlinearity", "tanh")
        return text if kind == "tanh" else f"{text}, nonlinearity={kind}"


class RNNCell(RNNCellBase):
    """A step of RNN."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity
        self._nonlinear()

    def _step(self) -> Callable[..., State]:
        return self._nonlinear()


class LSTMCell(RNNCellBase):
    """A step of LSTM."""

    gates: ClassVar[int] = 4
    states: ClassVar[int] = 2

    def _step(self) -> Callable[..., State]:
        return _lstm


class GRUCell(RNNCellBase):
    """A step of GRU."""

    gates: ClassVar[int] = 3
    adds: ClassVar[bool] = False

    def _step(self) -> Callable[..., State]:
        return _gru


__all__ = [
    "RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell",
]  # fmt: skip
