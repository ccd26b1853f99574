"""RNN, LSTM and GRU without PyTorch: a layer equals its cell applied to each step; errors."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

import gputensor as gt
from gputensor import nn
from gputensor.autograd import gradcheck, gradgradcheck
from gputensor.core import errors
from gputensor.kernels.compiled import library
from gputensor.structured.layers import recurrent
from gputensor.testing import assert_close

KINDS = [(nn.RNN, {}), (nn.RNN, {"nonlinearity": "relu"}), (nn.LSTM, {}), (nn.GRU, {})]


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


def _parts(made: Any) -> list[Any]:
    return [y for x in made for y in _parts(x)] if isinstance(made, tuple) else [made]


def _by_operators(kind: Any, net: Any, x: Any, hx: Any, sizes: Any) -> Any:
    """Return the layer's results and gradients, computed by operators only."""
    mode = {nn.LSTM: "lstm", nn.GRU: "gru"}.get(kind) or f"rnn_{net.nonlinearity}"
    results, ends = [], ("_l0", "_l0_reverse")
    for at, end in enumerate(ends):
        weights = [
            getattr(net, f"{of}{end}") for of in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        ]
        first: Any = [h[at] for h in hx] + [None] * (2 - len(hx))
        operands = recurrent.Operands(*[x, *weights, None, *first])
        how = recurrent.how_of(x, mode, bool(at), sizes)
        results.append(recurrent.forward(operands, how, True)[: 1 + len(hx)])
    (a, *last), (b, *other) = results
    return gt.cat([a, b], -1), *[gt.stack(pair) for pair in zip(last, other)]


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=str)
@pytest.mark.parametrize(("batch", "hidden"), [(1, 64), (2, 150), (5, 16), (40, 33)])
@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("dtype", [gt.float32, gt.float64], ids=str)
def test_the_loops_are_the_operators(
    kind: Any, options: Any, batch: int, hidden: int, packs: bool, dtype: Any
) -> None:
    """Compares results and gradients in both directions, with sequences of different lengths in a
    batch."""
    gt.manual_seed(0)
    net = kind(3, hidden, bidirectional=True, dtype=dtype, **options)
    sizes = [batch, max(1, batch // 2), 1] if packs else []
    x = gt.randn(sum(sizes), 3, dtype=dtype) if packs else gt.randn(4, batch, 3, dtype=dtype)
    hx = [gt.randn(2, batch, hidden, dtype=dtype) for _ in range(net.states)]
    for of in (x, *hx):
        of.requires_grad_()
    given: Any = nn.utils.rnn.PackedSequence(x, gt.tensor(sizes)) if packs else x
    made = net(given, tuple(hx) if net.states == 2 else hx[0])
    found = [made[0].data if packs else made[0], *_parts(made[1])]
    wanted = _by_operators(kind, net, x, hx, sizes)
    operands = [x, *hx, *net.parameters()]
    grads = [gt.randn_like(y) for y in found]
    bound: Any = (
        {"rtol": 1e-4, "atol": 1e-4} if dtype is gt.float32 else {"rtol": 1e-9, "atol": 1e-9}
    )
    for a, b in zip(found, wanted, strict=True):
        assert_close(a, b, **bound)
    of_found = gt.autograd.grad(found, operands, grads)
    for a, b in zip(of_found, gt.autograd.grad(wanted, operands, grads)):
        assert_close(a, b, **bound)


@pytest.mark.full
@pytest.mark.parametrize(("kind", "options"), KINDS[:1] + KINDS[2:], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_second_derivatives(kind: Any, options: Any, bias: bool) -> None:
    gt.manual_seed(0)
    net = kind(2, 3, bias=bias, dtype=gt.float64, **options)
    x = gt.randn(3, 2, 2, dtype=gt.float64, requires_grad=True)
    hx = [gt.randn(1, 2, 3, dtype=gt.float64, requires_grad=True) for _ in range(net.states)]
    weights = [w.detach().requires_grad_() for w in net.parameters()]
    names = [name for name, _ in net.named_parameters()]

    def run(x: Any, *given: Any) -> Any:
        state = given[: net.states]
        called = dict(zip(names, given[net.states :]))
        args = (x, state if net.states == 2 else state[0])
        return tuple(_parts(gt.func.functional_call(net, called, args)))

    assert gradcheck(run, (x, *hx, *weights))
    assert gradgradcheck(run, (x, *hx, *weights))


def test_projections() -> None:
    """An LSTM with projections, which has no loops, differentiated twice."""
    gt.manual_seed(0)
    net = nn.LSTM(2, 3, proj_size=2, bidirectional=True, dtype=gt.float64)
    x = gt.randn(3, 2, 2, dtype=gt.float64, requires_grad=True)
    assert gradcheck(lambda x: tuple(_parts(net(x))), (x,))
    assert gradgradcheck(lambda x: tuple(_parts(net(x))), (x,))


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=str)
@pytest.mark.parametrize("dtype", [gt.float16, gt.bfloat16], ids=str)
def test_halves_are_rounded_once(kind: Any, options: Any, dtype: Any) -> None:
    if library.choice().library is None:
        pytest.skip("operators round after each operation")
    gt.manual_seed(0)
    net, x = kind(3, 40, dtype=dtype, **options), gt.randn(6, 2, 3, dtype=dtype, requires_grad=True)
    wide, y = kind(3, 40, **options), x.detach().float().requires_grad_()
    wide.load_state_dict({name: w.float() for name, w in net.state_dict().items()})
    found, wanted = net(x)[0], wide(y)[0]
    assert found.dtype is dtype
    assert gt.equal(found, wanted.to(dtype))
    found.sum().backward()
    wanted.sum().backward()
    assert x.grad is not None and x.grad.dtype is dtype and y.grad is not None
    bound = 8 * gt.finfo(dtype).eps
    assert_close(x.grad.float(), y.grad, rtol=bound, atol=bound * float(y.grad.abs().max()))


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=str)
def test_without_gradients_nothing_is_kept(kind: Any, options: Any) -> None:
    net, x = kind(3, 20, **options), gt.randn(6, 2, 3)
    with gt.no_grad():
        found = net(x)[0]
    assert found.grad_fn is None
    assert gt.equal(found, net(x)[0].detach())


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=str)
def test_vmap_and_forward_derivatives(kind: Any, options: Any) -> None:
    gt.manual_seed(0)
    net, x = kind(3, 4, dtype=gt.float64, **options), gt.randn(5, 6, 2, 3, dtype=gt.float64)
    found = gt.vmap(lambda x: net(x)[0])(x)
    assert_close(found, gt.stack([net(part)[0] for part in x]))
    grads = gt.vmap(gt.func.grad(lambda x: net(x)[0].sum()))(x)
    assert_close(grads, gt.stack([gt.func.grad(lambda x: net(x)[0].sum())(p) for p in x]))
    tangent, step = gt.randn_like(x[0]), 1e-6
    _, slope = gt.func.jvp(lambda x: net(x)[0], (x[0],), (tangent,))
    ends = [net(x[0] + sign * step * tangent)[0] for sign in (1, -1)]
    assert_close(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-7)


def test_autocast_gives_pytorchs_dtypes() -> None:
    x, half, full = gt.randn(5, 2, 3), gt.bfloat16, gt.float32
    layers = {nn.LSTM: half, nn.GRU: full, nn.RNN: half}
    cells = {nn.LSTMCell: full, nn.GRUCell: full, nn.RNNCell: half}
    with gt.autocast("cpu", gt.bfloat16):
        for kind, dtype in layers.items():
            assert [y.dtype for y in _parts(kind(3, 4)(x))[:2]] == [dtype] * 2
        for kind, dtype in cells.items():
            assert _parts(kind(3, 4)(x[0]))[0].dtype is dtype


# There is one input, so its product with the weights has one term.
BITS = """
import hashlib, gputensor as gt
from gputensor import nn
for kind in (nn.LSTM, nn.GRU, nn.RNN):
    for batch, hidden in ((1, 256), (3, 320), (9, 130), (70, 64)):
        for threads in (1, 2, 3):
            gt.set_num_threads(threads)
            gt.manual_seed(0)
            net, x = kind(1, hidden), gt.randn(5, batch, 1)
            hx = [gt.randn(1, batch, hidden, requires_grad=True) for _ in range(net.states)]
            made = net(x, tuple(hx) if net.states == 2 else hx[0])[0]
            found = [made.detach(), *gt.autograd.grad((made * made).sum(), hx)]
            text = b"".join([y.numpy().tobytes() for y in found])
            print(kind.__name__, batch, hidden, hashlib.sha256(text).hexdigest())
"""


@pytest.mark.full
def test_bits_depend_neither_on_threads_nor_on_the_capability() -> None:
    built = library.choice().library
    if built is None:
        pytest.skip("NumPy's loops have their own order of sums")
    seen = set()
    for capability in built.capabilities():
        env = {**os.environ, "GPUTENSOR_CPU_CAPABILITY": capability}
        run = subprocess.run(
            [sys.executable, "-c", BITS], capture_output=True, text=True, check=True, env=env
        )
        seen |= set(run.stdout.split("\n")[:-1])
    assert len(seen) == 12, sorted(seen)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_gradients_that_are_accumulated_share_no_memory(kind: str) -> None:
    layer, x = getattr(nn, kind)(3, 4), gt.randn(5, 2, 3)
    layer(x)[0].sum().backward()
    once = [p.grad.clone() for p in layer.parameters()]
    layer(x)[0].sum().backward()
    for grad, p in zip(once, layer.parameters()):
        assert gt.equal(p.grad, 2 * grad)


def test_weights_are_listed_as_pytorch_lists_them() -> None:
    net = nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)
    kinds = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"]
    ends = ["l0", "l0_reverse", "l1", "l1_reverse"]
    assert net._all_weights == [[f"{kind}_{end}" for kind in kinds] for end in ends]
    assert net._flat_weights_names == [name for names in net._all_weights for name in names]
    assert net.all_weights[1][0] is net.weight_ih_l0_reverse
    assert [id(x) for x in net._flat_weights] == [id(p) for p in net.parameters()]
    assert len(nn.GRU(3, 4, bias=False).all_weights[0]) == 2
    modes = [nn.LSTM(3, 4).mode, nn.GRU(3, 4).mode, nn.RNN(3, 4, nonlinearity="relu").mode]
    assert modes == ["LSTM", "GRU", "RNN_RELU"]
