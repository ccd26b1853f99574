"""Rows of native/recurrent: layers whose steps follow each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import float32, float64, int64

from . import Fails, Row, S, T

_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
_KIND: Any = {
    "ulp": 32, "device_ulp": 64, "of_largest": True, "dtypes": (float32, float64),
    "why": "a few steps, each two sums of products and two functions of them",
}  # fmt: skip


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _step(mode: str, x: Any, h: Any, c: Any, w: Any, b: Any, hr: Any) -> tuple[Any, ...]:
    """Return (hidden state, cell state, gates, cell) of one step."""
    both = h @ w.T + (0 if b is None else b)
    if mode == "gru":
        (xr, xz, xn), (hr_, hz, hn) = np.split(x, 3, -1), np.split(both, 3, -1)
        r, z = _sigmoid(xr + hr_), _sigmoid(xz + hz)
        n = np.tanh(xn + r * hn)
        return (1 - z) * n + z * h, c, np.concatenate([r, z, n], -1), hn
    both = both + x
    if mode != "lstm":
        return np.tanh(both) if mode == "rnn_tanh" else np.maximum(both, 0), c, None, None
    i, f, g, o = np.split(both, 4, -1)
    i, f, g, o = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)
    c = f * c + i * g
    h = o * np.tanh(c)
    return h if hr is None else h @ hr.T, c, np.concatenate([i, f, g, o], -1), c


def _layer(
    x: Any, wi: Any, wh: Any, bi: Any, bh: Any, hr: Any, hx: Any, cx: Any, mode: str,
    reverse: bool, sizes: Any, train: bool,
) -> Any:  # fmt: skip
    x, wi, wh, bi, bh, hr, hx, cx = (
        None if a is None else a.astype(np.float64) for a in (x, wi, wh, bi, bh, hr, hx, cx)
    )
    steps = [x[t] for t in range(len(x))] if x.ndim == 3 else np.split(x, np.cumsum(sizes)[:-1])
    batch, hidden = len(steps[0]), len(wh) // _GATES[mode]
    h = np.zeros((batch, wh.shape[1])) if hx is None else hx.copy()
    c = np.zeros((batch, hidden)) if cx is None else cx.copy()
    output: Any = [None] * len(steps)
    gates: Any = [None] * len(steps)
    cells: Any = [None] * len(steps)
    for t in range(len(steps))[:: -1 if reverse else 1]:
        n = len(steps[t])
        given = steps[t] @ wi.T + (0 if bi is None else bi)
        h[:n], c[:n], gates[t], cells[t] = _step(mode, given, h[:n], c[:n], wh, bh, hr)
        output[t] = h[:n].copy()
    joined, none = np.stack if x.ndim == 3 else np.concatenate, np.zeros(0)
    keeps = train and mode in ("lstm", "gru")
    kept = [np.concatenate(of) if keeps else none for of in (gates, cells)]
    return [joined(output), h, c if mode == "lstm" else none, *kept]


def _sample(
    mode: str, hidden: int = 3, *, rows: tuple[int, ...] = (2, 2), sizes: Any = (),
    bias: str = "both", begun: bool = True, project: int = 0, reverse: bool = False,
    train: bool = True,
) -> S:  # fmt: skip
    G, batch = _GATES[mode] * hidden, sizes[0] if sizes else rows[1]
    out = project or hidden
    of: Any = {"values": "positive"}
    biases = [T(G, **of) if bias in ("both", end) else None for end in ("ih", "hh")]
    hx, cx = (T(batch, out), T(batch, hidden)) if begun else (None, None)
    return S(
        T(*rows, 2, **of), T(G, 2, **of), T(G, out, **of), *biases,
        T(project, hidden, **of) if project else None, hx, cx if mode == "lstm" else None, mode,
        reverse, list(sizes), train,
    )  # fmt: skip


_LAYERS = [
    _sample("lstm"),
    _sample("lstm", rows=(4,), sizes=(2, 1, 1), reverse=True, bias=""),
    _sample("lstm", project=2, begun=False),
    _sample("gru"),
    _sample("gru", rows=(3,), sizes=(2, 1), bias="", train=False),
    _sample("gru", bias="hh"),
    _sample("rnn_tanh", reverse=True, bias="hh"),
    _sample("rnn_relu", begun=False),
]


def _back(mode: str, *, packed: bool = False, project: int = 0, reverse: bool = False) -> S:
    """The gradients for any saved numbers, even if no layer computed them."""
    rows, sizes = ((3,), (2, 1)) if packed else ((2, 2), ())
    layer = _sample(mode, rows=rows, sizes=sizes, project=project, reverse=reverse)
    of: Any = {"values": "positive"}
    out, steps, keeps = project or 3, 3 if packed else 4, mode in ("lstm", "gru")
    kept = (steps, _GATES[mode] * 3), (steps, 3)
    saved = [T(*(sizes if keeps else (0,)), **of) for sizes in kept]
    return S(
        T(*rows, out), T(2, out), T(2, 3) if mode == "lstm" else None, *layer.args[:8],
        T(*rows, out, **of), *saved, *layer.args[8:11],
        [x is not None for x in layer.args[:8]],
    )  # fmt: skip


def _given(mode: str, message: str, at: int, value: Any, kind: Any = errors.ShapeError) -> Fails:
    args = list(_sample(mode).args)
    args[at] = value
    return Fails(S(*args), kind, f"_rnn_layer: {message}", float32)


ROWS = [
    Row(
        "_rnn_layer",
        _LAYERS,
        _layer,
        errors=(
            _given("lstm", r"'weight_ih' must have sizes \[12, 2\]", 1, T(12, 3)),
            _given("gru", r"'weight_hh' must be \(3 \* hidden, hidden\)", 2, T(8, 3)),
            _given("gru", r"'weight_hh' must be \(3 \* hidden, hidden\)", 2, T(9, 2)),
            _given("lstm", r"'bias_ih' must have sizes \[12\]", 3, T(11)),
            _given("gru", "'cx' must be None but for an LSTM", 7, T(2, 3), errors.ArgumentError),
            _given("lstm", r"'hx' must have sizes \[2, 3\]", 6, T(1, 3)),
            _given("lstm", "'mode' must be one of lstm, gru", 8, "sin", errors.ArgumentError),
            _given("lstm", r"'input' must have three dimensions, or two", 10, [2, 2]),
            _given("lstm", "'input' must have a step", 0, T(0, 2, 2)),
            _given("lstm", "'hx' must have input's dtype f32", 6, T(2, 3, dtype=float64),
                   errors.DtypeError),
            Fails(
                S(T(3, 2), *_sample("gru").args[1:10], [1, 2], True), errors.ArgumentError,
                "_rnn_layer: 'batch_sizes' must fall, and have the sum 3", float32,
            ),
            Fails(
                _sample("lstm"), errors.DtypeError, "_rnn_layer: 'input' must be floating", int64,
            ),
        ),
        **_KIND,
    ),
    Row(
        "_rnn_layer_backward",
        [
            _back("lstm"),
            _back("lstm", packed=True, reverse=True),
            _back("lstm", project=2),
            _back("gru", packed=True),
            _back("rnn_tanh"),
            _back("rnn_relu", reverse=True),
        ],
        None,
        checked_by="tests/nn/layers/test_recurrent.py",
        **_KIND,
    ),
]  # fmt: skip
