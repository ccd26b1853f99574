"""RNN, LSTM and GRU without PyTorch: a layer equals its cell applied to each step; errors."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor import nn
from gputensor.core import errors
from gputensor.testing import assert_close


@pytest.mark.parametrize(
    ("layer", "cell"), [(nn.RNN, nn.RNNCell), (nn.LSTM, nn.LSTMCell), (nn.GRU, nn.GRUCell)]
)
def test_a_layer_is_its_cell_over_the_steps(layer: Any, cell: Any) -> None:
    whole, step, x = layer(3, 4), cell(3, 4), gt.randn(5, 2, 3)
    step.load_state_dict({name[:-3]: w for name, w in whole.state_dict().items()})
    found, last = whole(x)
    state = None
    for at, row in enumerate(x):
        state = step(row, state)
        assert_close(found[at], state[0] if isinstance(state, tuple) else state)
    if not isinstance(state, tuple):
        state, last = (state,), (last,)
    for a, b in zip(last, state):
        assert_close(a[0], b)


def test_dropout_between_layers() -> None:
    gt.manual_seed(0)
    net, x = nn.GRU(3, 8, num_layers=2, dropout=0.5), gt.randn(5, 2, 3)
    assert not gt.equal(net(x)[0], net(x)[0])
    net.eval()
    assert gt.equal(net(x)[0], net(x)[0])


def test_refusals() -> None:
    with pytest.raises(errors.ArgumentError, match="'nonlinearity' must be 'tanh' or 'relu'"):
        nn.RNN(3, 4, nonlinearity="sin")
    with pytest.raises(errors.ArgumentError, match="'proj_size' must be less than hidden_size"):
        nn.GRU(3, 4, proj_size=2)
    with pytest.raises(errors.ShapeError, match="'input' must have 2 or 3 dimensions, the last"):
        nn.LSTM(3, 4)(gt.ones(5, 2, 4))
    with pytest.raises(errors.ShapeError, match=r"'hx' must have sizes \(1, 2, 4\)"):
        nn.GRU(3, 4)(gt.ones(5, 2, 3), gt.ones(1, 3, 4))
    with pytest.raises(errors.ShapeError, match="'input' must have a step"):
        nn.GRU(3, 4)(gt.ones(0, 2, 3))
