"""One layer of an LSTM, a GRU or an RNN in one direction, and its gradients, composed of operators.

The layer runs on every device and at every level of `gt.func`, and it has derivatives of any order.
A step has one row for each sequence that has not ended; `sizes` lists the number of rows of each
step. The forward pass saves the activated gates for the backward pass. An LSTM also saves the cell
states, and a GRU saves the hidden state's contribution to the new gate. Like the output, these
tensors have the sizes (rows, ...) and are ordered by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..._generated import calls
from ...tensor.tensor import Tensor
from .precision import cast, wide

LSTM, GRU, RNN_TANH, RNN_RELU = "lstm", "gru", "rnn_tanh", "rnn_relu"
# Maps the kind of cell to its number of gates. A weight has this number of rows per hidden unit.
GATES = {LSTM: 4, GRU: 3, RNN_TANH: 1, RNN_RELU: 1}

State = tuple[Tensor, ...]
Five = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


class Operands(NamedTuple):
    """The tensors of a layer. input: (L, N, I), or (rows, I) for a packed sequence. weight_hr: the
    projection of an LSTM, otherwise None. hx and cx: (N, H); None means zeros."""

    input: Tensor
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    weight_hr: Tensor | None
    hx: Tensor | None
    cx: Tensor | None


class How(NamedTuple):
    """The parameters of a layer: the kind of cell, the direction, and `sizes`, the number of rows
    of each step. The numbers differ only for packed sequences."""

    mode: str
    reverse: bool
    sizes: tuple[int, ...]

    def order(self) -> range:
        """Return the indices of the steps in the order in which they run."""
        steps = len(self.sizes)
        return range(steps - 1, -1, -1) if self.reverse else range(steps)


class _Rows:
    """The current states of the rows. The number of rows may differ from step to step. A row that
    begins takes its state from `begun`. The states of rows that have ended are kept until the last
    step."""

    __slots__ = ("begun", "ended", "now")

    def __init__(self, begun: State, rows: int) -> None:
        self.begun, self.ended = begun, list[State]()
        self.now = begun if begun[0]._geometry.sizes[0] == rows else _part(begun, 0, rows)

    def to(self, rows: int) -> State:
        have = self.now[0]._geometry.sizes[0]
        if rows < have:
            self.ended.append(_part(self.now, rows, have))
            self.now = _part(self.now, 0, rows)
        elif rows > have:
            more = _part(self.begun, have, rows)
            self.now = tuple([calls.cat(pair) for pair in zip(self.now, more)])
        return self.now

    def all(self) -> State:
        if not self.ended:
            return self.now
        return tuple([calls.cat(parts) for parts in zip(self.now, *reversed(self.ended))])


def _part(state: State, first: int, last: int) -> State:
    return tuple([calls.narrow(s, 0, first, last - first) for s in state])


def first_states(operands: Operands, how: How) -> State:
    """Return hx and, for an LSTM, cx. None is replaced by zeros."""
    rows, weight = max(how.sizes), operands.weight_hh._geometry.sizes
    hidden = weight[0] // GATES[how.mode]
    given = ((operands.hx, weight[1]), (operands.cx, hidden))[: 2 if how.mode == LSTM else 1]
    return tuple([calls.new_zeros(operands.input, (rows, n)) if x is None else x for x, n in given])


def of_input(operands: Operands, how: How) -> Tensor:
    """Return the input's contribution to the gates, (rows, ...), including the biases that are
    added to it."""
    bias, rows = input_bias(operands, how), flat(operands.input)
    turned = calls.t(operands.weight_ih)
    return calls.mm(rows, turned) if bias is None else calls.addmm(bias, rows, turned)


def input_bias(operands: Operands, how: How) -> Tensor | None:
    """Return the sum of the biases that are added to the input's contribution. For a GRU it does
    not include bias_hh."""
    first, second = operands.bias_ih, operands.bias_hh
    if second is None or how.mode == GRU:
        return first
    return second if first is None else first + second


def flat(input: Tensor) -> Tensor:
    """Return the input as the rows of all steps."""
    sizes = input._geometry.sizes
    return input if len(sizes) == 2 else calls.reshape(input, (sizes[0] * sizes[1], sizes[2]))


def _by_step(x: Tensor, how: How) -> Sequence[Tensor]:
    return calls.split_with_sizes(x, how.sizes)


# --- forward --------------------------------------------------------------------------------------


def _step(
    mode: str, given: Tensor, operands: Operands, state: State
) -> tuple[State, Sequence[Tensor], Tensor | None]:
    """Return the next state, the gates, and a third value for the backward pass: the cell state of
    an LSTM, or the hidden state's contribution to a GRU's new gate."""
    turned = calls.t(operands.weight_hh)
    if mode == GRU:
        share = calls.linear(state[0], operands.weight_hh, operands.bias_hh)
        (r, z, n), (of_r, of_z, of_n) = calls.chunk(given, 3, -1), calls.chunk(share, 3, -1)
        reset, update = calls.sigmoid(r + of_r), calls.sigmoid(z + of_z)
        new = calls.tanh(n + reset * of_n)
        return (new + update * (state[0] - new),), (reset, update, new), of_n
    both = calls.addmm(given, state[0], turned)
    if mode != LSTM:
        return (calls.tanh(both) if mode == RNN_TANH else calls.relu(both),), (), None
    i, f, g, o = calls.chunk(both, 4, -1)
    i, f, g, o = calls.sigmoid(i), calls.sigmoid(f), calls.tanh(g), calls.sigmoid(o)
    cell = calls.addcmul(f * state[1], i, g)
    hidden = o * calls.tanh(cell)
    if operands.weight_hr is not None:
        hidden = calls.linear(hidden, operands.weight_hr)
    return (hidden, cell), (i, f, g, o), cell


def forward(operands: Operands, how: How, train: bool) -> Five:
    """Return the output, the last hidden state, the last cell state, the gates, and the cell
    states.

    Tensors that this kind of layer does not have are empty. Without `train`, the gates and the cell
    states are empty too.
    """
    mode, given = how.mode, _by_step(of_input(operands, how), how)
    order = how.order()
    rows = _Rows(first_states(operands, how), how.sizes[order[0]])
    made: list[Tensor] = [given[0]] * len(order)
    gates: list[Tensor] = []
    cells: list[Tensor] = []
    for time in order:
        rows.now, parts, cell = _step(mode, given[time], operands, rows.to(how.sizes[time]))
        made[time] = rows.now[0]
        if train and cell is not None:
            gates.append(calls.cat(parts, -1))
            cells.append(cell)
    output, last = _joined(made, operands.input), rows.all()
    none = calls.new_empty(output, (0,))
    if not gates:
        return output, last[0], last[1] if mode == LSTM else none, none, none
    turn = slice(None, None, -1 if how.reverse else 1)
    kept = [wide(calls.cat(x[turn])) for x in (gates, cells)]
    return output, last[0], last[1] if mode == LSTM else none, kept[0], kept[1]


def _joined(made: Sequence[Tensor], like: Tensor) -> Tensor:
    return calls.cat(made) if like._geometry.ndim == 2 else calls.stack(made)


# --- backward -------------------------------------------------------------------------------------


class Saved(NamedTuple):
    output: Tensor
    gates: Tensor
    cells: Tensor


class Slopes(NamedTuple):
    """Gradients of a layer. given: the gradient (rows, ...) of the input's contribution to the
    gates. hidden: the gradient of the hidden state's contribution. Except for a GRU, `given` and
    `hidden` are the same tensor. previous: each row's hidden state before its step. projected: the
    gradient of the projection's weights, or None."""

    given: Tensor
    hidden: Tensor
    previous: Tensor
    first: State
    projected: Tensor | None


class _Step(NamedTuple):
    """The saved values of one step. before: the state before the step."""

    gates: Sequence[Tensor]
    cell: Tensor
    output: Tensor
    before: State


def _pulled(
    mode: str, step: _Step, grad: Tensor, of_cell: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Differentiate one step. grad: the gradient of the hidden state before a projection. Return
    four gradients: of the input's contribution, of the hidden state's contribution, of the previous
    hidden state apart from these contributions, and of the previous cell state."""
    if mode == LSTM:
        (i, f, g, o), flat = step.gates, calls.tanh(step.cell)
        assert of_cell is not None
        of_cell = of_cell + grad * o * (1 - flat * flat)
        parts = [
            of_cell * g * (i * (1 - i)), of_cell * step.before[1] * (f * (1 - f)),
            of_cell * i * (1 - g * g), grad * flat * (o * (1 - o)),
        ]  # fmt: skip
        given = calls.cat(parts, -1)
        return given, given, None, of_cell * f
    if mode == GRU:
        r, z, n = step.gates
        of_new = grad * (1 - z) * (1 - n * n)
        both = of_new * step.cell * (r * (1 - r)), grad * (step.before[0] - n) * (z * (1 - z))
        given, hidden = calls.cat((*both, of_new), -1), calls.cat((*both, of_new * r), -1)
        return given, hidden, grad * z, None
    if mode == RNN_TANH:
        given = grad * (1 - step.output * step.output)
    else:
        given = calls.threshold_backward(grad, step.output, 0)
    return given, given, None, None


def _steps(operands: Operands, how: How, saved: Saved) -> dict[int, _Step]:
    """Return a dict from the index of a step to its saved values."""
    outputs = _by_step(flat(saved.output), how)
    cells: Sequence[Tensor] = [saved.cells] * len(how.sizes)
    gates: Sequence[Sequence[Tensor]] = [()] * len(how.sizes)
    if how.mode in (LSTM, GRU):
        cells = _by_step(saved.cells, how)
        gates = [calls.chunk(x, GATES[how.mode], -1) for x in _by_step(saved.gates, how)]
    rows = _Rows(first_states(operands, how), how.sizes[how.order()[0]])
    made = {}
    for time in how.order():
        before = rows.to(how.sizes[time])
        made[time] = _Step(gates[time], cells[time], outputs[time], before)
        rows.now = (outputs[time], cells[time]) if how.mode == LSTM else (outputs[time],)
    return made


def slopes(operands: Operands, how: How, saved: Saved, grads: Sequence[Tensor | None]) -> Slopes:
    """Compute the gradients by operators, from the last step to the first. grads: the gradients of
    the output and of the last states."""
    steps, order = _steps(operands, how, saved), how.order()[::-1]
    of_output = None if grads[0] is None else _by_step(flat(grads[0]), how)
    begun = first_states(operands, how)
    last = tuple([calls.zeros_like(s) if g is None else g for s, g in zip(begun, grads[1:])])
    rows = _Rows(last, how.sizes[order[0]])
    made: dict[int, tuple[Tensor, Tensor]] = {}
    projected: Tensor | None = None
    for time in order:
        grad, *cell = rows.to(how.sizes[time])
        step = steps[time]
        if of_output is not None:
            grad = grad + of_output[time]
        if (hr := operands.weight_hr) is not None:
            raw = step.gates[3] * calls.tanh(step.cell)
            part = calls.mm(calls.t(grad), raw)
            projected = part if projected is None else projected + part
            grad = calls.mm(grad, hr)
        given, hidden, direct, of_cell = _pulled(how.mode, step, grad, *cell or (None,))
        made[time] = given, hidden
        pulled = calls.mm(hidden, operands.weight_hh)
        pulled = pulled if direct is None else pulled + direct
        rows.now = (pulled,) if of_cell is None else (pulled, of_cell)
    times = range(len(order))
    given, hidden = (calls.cat([made[t][k] for t in times]) for k in range(2))
    previous = calls.cat([steps[t].before[0] for t in times])
    return Slopes(given, hidden, previous, rows.all(), projected)


def of_operands(
    operands: Operands, how: How, found: Slopes, wanted: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """Return the gradients of all operands, in the operands' order, with None for gradients that
    are not requested."""
    given, hidden, x = found.given, found.hidden, operands.input
    made: list[Tensor | None] = [None] * len(operands)
    if wanted[0]:
        made[0] = calls.reshape(calls.mm(given, operands.weight_ih), x._geometry.sizes)
    if wanted[1]:
        made[1] = calls.mm(calls.t(given), flat(x))
    if wanted[2]:
        made[2] = calls.mm(calls.t(hidden), found.previous)
    if wanted[3]:
        made[3] = calls.sum_dim_IntList(given, (0,), False)
    if wanted[4]:
        same = made[3] if hidden is given else None
        # Gradients are accumulated in place, so each gradient needs its own memory.
        made[4] = calls.sum_dim_IntList(hidden, (0,), False) if same is None else calls.clone(same)
    made[5] = found.projected if wanted[5] else None
    made[6] = found.first[0] if wanted[6] else None
    made[7] = found.first[1] if wanted[7] else None
    kinds = [None if x is None else x._geometry.dtype for x in operands]
    return tuple([None if g is None or to is None else cast(g, to) for g, to in zip(made, kinds)])


def backward(
    operands: Operands, how: How, saved: Saved, grads: Sequence[Tensor | None],
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return the gradients of all operands, computed by operators."""
    found = _widened(operands)
    of = [None if g is None else wide(g) for g in grads]
    kept = Saved(*[wide(x) for x in saved])
    made = of_operands(found, how, slopes(found, how, kept, of), wanted)
    pairs = zip(made, operands)
    return tuple([None if g is None or x is None else cast(g, x._geometry.dtype) for g, x in pairs])


def _widened(operands: Operands) -> Operands:
    return Operands(*[None if x is None else wide(x) for x in operands])  # type: ignore[arg-type]


def how_of(input: Any, mode: str, reverse: bool, batch_sizes: Sequence[int]) -> How:
    """Return the layer's parameters. batch_sizes: empty if the input has three dimensions."""
    sizes = input._geometry.sizes
    rows = tuple(batch_sizes) if len(sizes) == 2 else (sizes[1],) * sizes[0]
    return How(mode, reverse, rows)
