"""One layer of an LSTM, a GRU or an RNN, in one direction, over all time steps.

On the CPU, the products with the input are computed for all steps at once, and one call of the
library computes all steps; f16 and bf16 are computed in f32 and rounded once. On other devices, and
for LSTMs with projections, each step is composed of operators: structured/layers/recurrent.py. The
order and the names of the gates are PyTorch's. Source: aten/src/ATen/native/RNN.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._generated import calls
from ..core import errors
from ..core.device import CPU
from ..core.dtype import dtype
from ..core.geometry import contiguous_geometry
from ..kernels import stub
from ..structured import arguments
from ..structured.layers import recurrent
from ..structured.layers.precision import FLOAT, HALVES, cast, wide
from ..structured.layers.recurrent import GATES, GRU, LSTM, Five, How, Operands, Saved, Slopes
from ..tensor.make import allocate
from ..tensor.tensor import Tensor

_LOOPS = {
    (of, bits): stub.compiled("recurrent", f"{of} {bits}")
    for of in ("steps", "slopes")
    for bits in ("f32", "f64")
}
_product_of_halves = stub.compiled("matmul", "product_of_halves")
_KINDS = {"rnn_tanh": 0, "rnn_relu": 1, LSTM: 2, GRU: 3}


# --- checks ---------------------------------------------------------------------------------------


def _check_kinds(op: str, operands: Operands) -> None:
    input = operands.input
    arguments.check_is_floating(op, "input", input)
    for arg, x in zip(operands._fields[1:], operands[1:]):
        if x is not None:
            arguments.check_alike(op, "input", input, arg, x)


def _check_sizes(op: str, operands: Operands, how: How) -> None:
    weight, gates = operands.weight_hh._geometry, GATES[how.mode]
    rows, out = weight.sizes if weight.ndim == 2 else (0, 0)
    hidden, rest = divmod(rows, gates)
    if not hidden or rest or out != hidden and operands.weight_hr is None:
        rule = f"be ({gates} * hidden, hidden)"
        raise errors.wrong_shape(op, "weight_hh", rule, operands.weight_hh)
    batch = max(how.sizes)
    wanted = {
        "weight_ih": (rows, operands.input._geometry.sizes[-1]), "bias_ih": (rows,),
        "bias_hh": (rows,), "weight_hr": (out, hidden), "hx": (batch, out), "cx": (batch, hidden),
    }  # fmt: skip
    for arg, sizes in wanted.items():
        arguments.check_sizes(op, sizes, **{arg: getattr(operands, arg)})


def _checked(op: str, operands: Operands, mode: str, reverse: Any, batch_sizes: Any) -> How:
    if mode not in GATES:
        raise errors.must(op, "mode", f"be one of {', '.join(GATES)}", mode)
    for arg in ("weight_hr", "cx"):
        if mode != LSTM and getattr(operands, arg) is not None:
            raise errors.must(op, arg, "be None but for an LSTM", getattr(operands, arg))
    _check_kinds(op, operands)
    rows = arguments.sizes(op, batch_sizes, "batch_sizes")
    sizes = operands.input._geometry.sizes
    if len(sizes) != (2 if rows else 3):
        rule = "have three dimensions, or two with batch_sizes"
        raise errors.wrong_shape(op, "input", rule, operands.input)
    how = recurrent.how_of(operands.input, mode, arguments.boolean(op, "reverse", reverse), rows)
    if not how.sizes:
        raise errors.wrong_shape(op, "input", "have a step", operands.input)
    if rows and (sum(rows) != sizes[0] or sorted(rows, reverse=True) != list(rows)):
        rule = f"fall, and have the sum {sizes[0]}"
        raise errors.must(op, "batch_sizes", rule, batch_sizes)
    _check_sizes(op, operands, how)
    return how


# --- forward --------------------------------------------------------------------------------------


def _rnn_layer(key_set: int, *args: Any) -> Five:
    *given, mode, reverse, batch_sizes, train = args
    op, operands = "_rnn_layer", Operands(*given)
    how = _checked(op, operands, mode, reverse, batch_sizes)
    train = arguments.boolean(op, "train", train)
    made = _by_library(operands, how, train) if _is_of_the_library(operands) else None
    return made or recurrent.forward(operands, how, train)


def _is_of_the_library(operands: Operands) -> bool:
    input = operands.input
    return input._device is CPU and operands.weight_hr is None and input._geometry.numel > 0


def _new(of: dtype, *sizes: int) -> Tensor:
    return allocate(contiguous_geometry(sizes, of), CPU)


def _arrays(*tensors: Tensor | None) -> list[Any]:
    return [None if x is None else x._get_array() for x in tensors]


def _dense(x: Tensor | None) -> Tensor | None:
    if x is None or x._geometry.is_contiguous and x._geometry.dtype not in HALVES:
        return x
    return calls.contiguous(wide(x))


def _state(x: Tensor | None, of: dtype, *sizes: int) -> Tensor:
    """Return a dense copy of the state x. If x is None, return zeros."""
    made = _new(of, *sizes)
    array = made._get_array()
    array[...] = 0 if x is None else wide(x)._get_array()
    return made


def _loop(of: str, operands: Operands) -> tuple[Any, dtype]:
    """Return the compiled loop `of`, or None if there is none for these operands. Also return the
    dtype of the computation."""
    given = operands.input._geometry.dtype
    computed = FLOAT if given in HALVES else given
    return _LOOPS.get((of, computed.short)), computed


def _of_input(operands: Operands, dense: Operands, how: How) -> Tensor:
    """Return the contribution of the input to the gates. For half types it is in f32."""
    if operands.input._geometry.dtype not in HALVES:
        return recurrent.of_input(dense, how)
    rows, weight = recurrent.flat(operands.input), operands.weight_ih
    made = _new(FLOAT, rows._geometry.sizes[0], weight._geometry.sizes[0])
    _product_of_halves(rows._get_array(), weight._get_array().T, made._get_array())
    bias = recurrent.input_bias(dense, how)
    return made if bias is None else made + bias


def _by_library(operands: Operands, how: How, train: bool) -> Five | None:
    """Return the results of `_rnn_layer`, or None if no compiled loop supports these operands."""
    loop, of = _loop("steps", operands)
    if loop is None:
        return None
    dense = Operands(*[_dense(x) for x in operands])  # type: ignore[arg-type]
    hidden, batch = operands.weight_hh._geometry.sizes[1], max(how.sizes)
    gates = _of_input(operands, dense, how)
    rows = gates._geometry.sizes[0]
    is_lstm, is_gru = how.mode == LSTM, how.mode == GRU
    output = _new(of, rows, hidden) if is_lstm or is_gru else gates
    hy = _state(operands.hx, of, batch, hidden)
    cy = _state(operands.cx, of, batch, hidden) if is_lstm else None
    cells = _new(of, rows, hidden) if train and (is_lstm or is_gru) else None
    bias = dense.bias_hh if is_gru else None
    arrays = _arrays(gates, dense.weight_hh, bias, output, hy, cy, cells)
    sizes = np.array(how.sizes, np.int64)
    if not loop(*arrays, sizes, _KINDS[how.mode], int(how.reverse)):
        return None
    if operands.input._geometry.ndim == 3:
        output = calls.view(output, (len(how.sizes), batch, hidden))
    to = operands.input._geometry.dtype
    none = _new(to, 0)
    made = [cast(x, to) for x in (output, hy, none if cy is None else cy)]
    return made[0], made[1], made[2], *((none, none) if cells is None else (gates, cells))


# --- backward -------------------------------------------------------------------------------------


def _rnn_layer_backward(key_set: int, *args: Any) -> tuple[Tensor | None, ...]:
    of_output, of_hy, of_cy, *rest = args
    output, gates, cells, mode, reverse, batch_sizes, wanted = rest[8:]
    op, operands, saved = "_rnn_layer_backward", Operands(*rest[:8]), Saved(output, gates, cells)
    how = _checked(op, operands, mode, reverse, batch_sizes)
    grads = of_output, of_hy, of_cy
    _check_saved(op, operands, how, saved, grads)
    if _is_of_the_library(operands):
        found = _slopes_by_library(operands, how, saved, grads, wanted)
        if found is not None:
            dense = Operands(*[_dense(x) for x in operands])  # type: ignore[arg-type]
            made = recurrent.of_operands(dense, how, found, wanted)
            to = operands.input._geometry.dtype
            return tuple([None if x is None else cast(x, to) for x in made])
    made = recurrent.backward(operands, how, saved, grads, wanted)
    return tuple([None if x is None else calls.contiguous(x) for x in made])


def _check_saved(
    op: str, operands: Operands, how: How, saved: Saved, grads: Sequence[Tensor | None]
) -> None:
    (rows, out), batch, steps = operands.weight_hh._geometry.sizes, max(how.sizes), sum(how.sizes)
    hidden, lead = rows // GATES[how.mode], operands.input._geometry.sizes[:-1]
    keeps = how.mode in (LSTM, GRU)
    wanted = {
        "output": (saved.output, (*lead, out)), "grad_output": (grads[0], (*lead, out)),
        "grad_hy": (grads[1], (batch, out)), "grad_cy": (grads[2], (batch, hidden)),
        "gates": (saved.gates, (steps, rows) if keeps else (0,)),
        "cells": (saved.cells, (steps, hidden) if keeps else (0,)),
    }  # fmt: skip
    for arg, (x, sizes) in wanted.items():
        if x is not None:
            arguments.check_device(op, "input", operands.input, arg, x)
            arguments.check_sizes(op, sizes, **{arg: x})


def _slopes_by_library(
    operands: Operands, how: How, saved: Saved, grads: Sequence[Tensor | None],
    wanted: Sequence[bool],
) -> Slopes | None:  # fmt: skip
    loop, of = _loop("slopes", operands)
    if loop is None:
        return None
    (count, hidden), batch = operands.weight_hh._geometry.sizes, max(how.sizes)
    rows, is_lstm, is_gru = sum(how.sizes), how.mode == LSTM, how.mode == GRU
    dh = _state(grads[1], of, batch, hidden)
    dc = _state(grads[2], of, batch, hidden) if is_lstm else None
    given, hx = _new(of, rows, count), _state(operands.hx, of, batch, hidden)
    of_hidden = _new(of, rows, count) if is_gru else None
    previous = _new(of, rows, hidden) if wanted[2] else None
    cx = _state(operands.cx, of, batch, hidden) if is_lstm else None
    gates, cells = (saved.gates, saved.cells) if is_lstm or is_gru else (None, None)
    dense = [_dense(x) for x in (gates, cells, operands.weight_hh, saved.output)]
    arrays = _arrays(*dense, hx, cx, _dense(grads[0]), dh, dc, given, of_hidden, previous)
    sizes = np.array(how.sizes, np.int64)
    if not loop(*arrays, sizes, _KINDS[how.mode], int(how.reverse)):
        return None
    first = (dh,) if dc is None else (dh, dc)
    hiddens = given if of_hidden is None else of_hidden
    return Slopes(given, hiddens, dh if previous is None else previous, first, None)
