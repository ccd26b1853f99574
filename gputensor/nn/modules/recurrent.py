"""RNN, LSTM and GRU, and their single steps: RNNCell, LSTMCell, GRUCell.

A layer calls one operator, `_rnn_layer`, for all steps of each direction. LSTMCell and GRUCell call
it for one step. In a packed sequence, each step has one row for each sequence that has not ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..._generated import calls
from ..._generated.functions import cat, empty, stack, zeros
from ...autograd.modes import is_grad_enabled
from ...core import errors
from ...core.arguments import flag
from ...tensor.tensor import Tensor
from .. import functional as F, init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .container import check_layers
from .module import Module

# The state between two steps: the hidden state and, for an LSTM, the cell state.
State = tuple[Tensor, ...]


class _Kind(Module):
    """Base class of layers and cells. gates: the number of weight rows for each hidden unit.
    is_lower: True if, under autocast on the CPU, results keep autocast's dtype, as in PyTorch."""

    gates: ClassVar[int] = 1
    states: ClassVar[int] = 1
    is_lower: ClassVar[bool] = True
    proj_size: int = 0
    bias: bool

    def _mode(self) -> str:
        """Return the operator's argument `mode`, which names the kind of layer."""
        raise NotImplementedError

    def _call(
        self, x: Tensor, name: str, state: Sequence[Tensor | None], reverse: bool,
        sizes: Sequence[int],
    ) -> tuple[Tensor, State]:  # fmt: skip
        """Run one direction of a layer. The names of its weights end in `name`. Return the output
        and the last state. sizes: see `_rnn_layer`."""
        weights: list[Any] = [getattr(self, f"weight_{kind}{name}") for kind in ("ih", "hh")]
        weights += [
            getattr(self, f"bias_{kind}{name}") if self.bias else None for kind in ("ih", "hh")
        ]
        weights.append(getattr(self, f"weight_hr{name}") if self.proj_size else None)
        hx, cx = state if len(state) == 2 else (*state, None)
        how = (self._mode(), reverse, sizes, is_grad_enabled())
        given: Any = (x, *weights, hx, cx, *how)
        made: Sequence[Tensor] = calls._rnn_layer(*given)[: 1 + self.states]
        if not self.is_lower and made[0].dtype is not x.dtype and x.device.type == "cpu":
            made = [y.to(x.dtype) for y in made]
        return made[0], tuple(made[1:])

    def _learnt(self, name: str, *sizes: int, device: Any, dtype: Any) -> None:
        self.register_parameter(name, Parameter(empty(sizes, device=device, dtype=dtype)))

    def reset_parameters(self) -> None:
        """Fill weights and biases with uniform numbers in [-b, b]; b is 1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _nonlinear(self) -> str:
        if self.nonlinearity not in ("tanh", "relu"):
            rule = "be 'tanh' or 'relu'"
            raise errors.must(type(self).__name__, "nonlinearity", rule, self.nonlinearity)
        return f"rnn_{self.nonlinearity}"

    def _checked(self, input: Tensor, ndims: tuple[int, ...]) -> None:
        name = type(self).__name__
        if not isinstance(input, Tensor):
            raise errors.not_a_tensor(name, "input", "a Tensor", input)
        if input.ndim not in ndims or input.shape[-1] != self.input_size:
            rule = f"have {' or '.join(map(str, ndims))} dimensions, the last of {self.input_size}"
            raise errors.wrong_shape(name, "input", rule, input)

    def _begin(self, hx: Any, sizes: Sequence[tuple[int, ...]]) -> Sequence[Tensor | None]:
        """Check the given initial states and return them. If hx is None, return None for each
        state; the operator then starts from zeros."""
        if hx is None:
            return (None,) * self.states
        given = (hx,) if self.states == 1 else hx
        is_whole = isinstance(given, (tuple, list)) and len(given) == self.states
        if not is_whole or not all(isinstance(x, Tensor) for x in given):
            rule = "be a Tensor" if self.states == 1 else "be a pair of Tensors"
            raise errors.wrong_type(type(self).__name__, "hx", rule, hx)
        for x, wanted in zip(given, sizes):
            if tuple(x.shape) != wanted:
                raise errors.wrong_shape(type(self).__name__, "hx", f"have sizes {wanted}", x)
        return tuple(given)


# --- layers ---------------------------------------------------------------------------------------


class RNNBase(_Kind):
    """A stack of recurrent layers. Each layer processes all steps, in two directions if
    `bidirectional`.

    Parameters: weight_ih_l0 (gates * hidden, input), weight_hh_l0 (gates * hidden, hidden),
    bias_ih_l0, bias_hh_l0 and weight_hr_l0 (proj_size, hidden). For the backward direction, names
    end in `_reverse`.
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

    @property
    def mode(self) -> str:
        """PyTorch's name of the kind of layer, such as "LSTM" or "RNN_TANH"."""
        return self._mode().upper()

    @property
    def all_weights(self) -> list[list[Any]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    # Names of PyTorch's attributes that programs read.

    @property
    def _all_weights(self) -> list[list[str]]:
        kinds = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if self.bias else [])]
        kinds += ["weight_hr"] if self.proj_size else []
        return [[f"{kind}_l{layer}{end}" for kind in kinds] for layer, end in self._directions()]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [weight for weights in self.all_weights for weight in weights]

    def flatten_parameters(self) -> None:
        """Do nothing, because the weights need not be contiguous."""

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Return the last layer's hidden state at each step, and the last states of all layers.

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
        """Run a packed sequence. hx and the last states have the user's order of sequences."""
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
        """Run all layers. sizes: None, or, if x is packed as (rows, H), the number of rows of each
        step."""
        count, out = len(self._directions()), self.proj_size or self.hidden_size
        shapes = [(count, batch, out), (count, batch, self.hidden_size)][: self.states]
        begun, last = self._begin(hx, shapes), list[State]()
        for at, (layer, end) in enumerate(self._directions()):
            if not end:
                below, found = x, list[Tensor]()
            state = [None if s is None else s[at] for s in begun]
            made, ended = self._call(below, f"_l{layer}{end}", state, bool(end), sizes or ())
            found.append(made)
            last.append(ended)
            if end or not self.bidirectional:
                x = found[0] if len(found) == 1 else cat(found, -1)
                if self.dropout and layer < self.num_layers - 1:
                    x = F.dropout(x, self.dropout, self.training)
        if count == 1:
            return x, [s.unsqueeze(0) for s in last[0]]
        return x, [stack(of) for of in zip(*last)]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False,
                 "dropout": 0.0, "bidirectional": False}  # fmt: skip
        for name, default in usual.items():
            value = getattr(self, name)
            text += f", {name}={value}" if value != default else ""
        return text


class RNN(RNNBase):
    """A recurrent layer: h = tanh(W x + b + U h + c), or with relu instead of tanh."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        rest: Any = (bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__(input_size, hidden_size, num_layers, *rest)
        self.nonlinearity = nonlinearity
        self._nonlinear()

    def _mode(self) -> str:
        return self._nonlinear()


class LSTM(RNNBase):
    """Long short-term memory with input, forget, cell and output gates."""

    gates: ClassVar[int] = 4
    states: ClassVar[int] = 2

    def _mode(self) -> str:
        return "lstm"


class GRU(RNNBase):
    """Gated recurrent unit with reset, update and new gates."""

    gates: ClassVar[int] = 3
    is_lower: ClassVar[bool] = False

    def _mode(self) -> str:
        return "gru"


# --- cells ----------------------------------------------------------------------------------------


class RNNCellBase(_Kind):
    """Base class of cells, which compute a single step. Parameters: weight_ih, weight_hh, bias_ih
    and bias_hh, as in a layer."""

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
        """Return the next state, (N, H) or (H)."""
        self._checked(input, (1, 2))
        is_alone = input.ndim == 1
        sizes = [(*tuple(input.shape)[:-1], self.hidden_size)] * self.states
        state = self._begin(hx, sizes)
        step = input.unsqueeze(0)
        if is_alone:
            step = step.unsqueeze(0)
            state = [None if s is None else s.unsqueeze(0) for s in state]
        _, made = self._call(step, "", state, False, ())
        if is_alone:
            made = tuple([s.squeeze(0) for s in made])
        return made[0] if self.states == 1 else made

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += "" if self.bias else ", bias=False"
        kind = getattr(self, "nonlinearity", "tanh")
        return text if kind == "tanh" else f"{text}, nonlinearity={kind}"


class RNNCell(RNNCellBase):
    """A single step of RNN."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity
        self._nonlinear()

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """Return the next state, (N, H) or (H). It is computed by separate operators, because they
        take less time than one call of a layer."""
        self._checked(input, (1, 2))
        (state,) = self._begin(hx, [(*tuple(input.shape)[:-1], self.hidden_size)])
        if state is None:
            state = zeros(
                (*tuple(input.shape)[:-1], self.hidden_size), dtype=input.dtype, device=input.device
            )
        both = F.linear(input, self.weight_ih, self.bias_ih)
        both = both + F.linear(state, self.weight_hh, self.bias_hh)
        return both.tanh() if self.nonlinearity == "tanh" else both.relu()


class LSTMCell(RNNCellBase):
    """A single step of LSTM."""

    gates: ClassVar[int] = 4
    states: ClassVar[int] = 2
    is_lower: ClassVar[bool] = False

    def _mode(self) -> str:
        return "lstm"


class GRUCell(RNNCellBase):
    """A single step of GRU."""

    gates: ClassVar[int] = 3
    is_lower: ClassVar[bool] = False

    def _mode(self) -> str:
        return "gru"


__all__ = ["RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]
