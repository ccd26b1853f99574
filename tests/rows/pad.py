"""Rows of operators that add elements around a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, complex64, float32, float64

from . import Fails, Row, S, T

_IMAGE = T(2, 3, 4, 5)
_VOLUME = T(1, 2, 2, 3, 2)
_BACKWARD = (float32, float64, complex64, bfloat16)


def _widths(ndim: int, pad: Any) -> list[tuple[int, int]]:
    pairs = [(pad[k], pad[k + 1]) for k in range(0, len(pad), 2)]
    return [(0, 0)] * (ndim - len(pairs)) + pairs[::-1]


def _padded(self: np.ndarray, pad: Any, mode: str = "constant", value: Any = None) -> np.ndarray:
    if not self.ndim:
        return self
    kind = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}.get(mode, mode)
    widths = _widths(self.ndim, pad)
    more = {"constant_values": self.dtype.type(value or 0)} if kind == "constant" else {}
    wide = np.pad(self, [(max(a, 0), max(b, 0)) for a, b in widths], kind, **more)
    cut = [slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, wide.shape)]
    return wide[tuple(cut)]


def _mode(mode: str) -> Any:
    return lambda self, padding: _padded(self, padding, mode)


def _back(mode: str) -> Any:
    def reference(grad_output: np.ndarray, self: np.ndarray, padding: Any) -> np.ndarray:
        places = _padded(np.arange(self.size).reshape(self.shape), padding, mode)
        wide = np.complex128 if grad_output.dtype.kind == "c" else np.float64
        made = np.zeros(self.size, wide)
        np.add.at(made, places.reshape(-1), grad_output.reshape(-1).astype(wide))
        return made.astype(self.dtype).reshape(self.shape)

    return reference


def _rows(kind: str, mode: str) -> list[Row]:
    """Return (sizes, padding, sizes of the result) for 1, 2 and 3 dimensions."""
    made = []
    for n, samples in enumerate(_SAMPLES, 1):
        name = f"{kind}_pad{n}d"
        wrong = T(*[2] * n)
        fails = Fails(
            S(wrong, (1,) * (2 * n)), errors.ShapeError, f"{name}: 'self' must have {n + 1} or"
        )
        made.append(Row(
            name, [S(T(*a), p) for a, p, _ in samples], _mode(mode), out="same",
            errors=(fails, Fails(S(T(2, *[3] * n), (1,) * (2 * n + 1)), errors.ArgumentError,
                                 f"{name}: 'padding' must hold {2 * n} numbers")),
        ))  # fmt: skip
        made.append(Row(
            f"{name}_backward", [S(T(*b), T(*a), p) for a, p, b in samples], _back(mode),
            dtypes=_BACKWARD,
            errors=(Fails(S(T(*[1] * (n + 1)), T(*[3] * (n + 1)), (1,) * (2 * n)),
                          errors.ShapeError, f"{name}_backward: 'grad_output' must"),),
        ))  # fmt: skip
    return made


_SAMPLES = (
    [((2, 4), (1, 2), (2, 7)), ((1, 2, 4), (3, -1), (1, 2, 6)), ((0, 2, 3), (1, 1), (0, 2, 5))],
    [((2, 3, 4), (1, 2, 2, 0), (2, 5, 7)), ((1, 2, 3, 2), (1, 1, -1, 2), (1, 2, 4, 4))],
    [((2, 2, 3, 2), (1, 0, 2, 1, 0, 1), (2, 3, 6, 3)), ((1, 1, 2, 2, 3), (2, -1, 0, 1, 1, 0),
                                                        (1, 1, 3, 3, 4))],
)  # fmt: skip

ROWS = sorted(
    [
        Row(
            "constant_pad_nd",
            [
                S(_IMAGE, (1, 2)),
                S(_IMAGE, (0, 1, 2, 0), 3),
                S(T(2, 3), (-1, 2, 1, -1), 1),
                S(T(2, 3), (-1, 0)),
                S(T(0, 2), (1, 1, 1, 0)),
                S(T(), ()),
            ],
            lambda self, pad, value=0: _padded(self, pad, "constant", value),
            out="same",
            errors=(
                Fails(S(T(2), (1,)), errors.ArgumentError, "constant_pad_nd: 'pad' must hold 2"),
                Fails(S(T(2), (-2, -1)), errors.ArgumentError, "'pad' must leave a size"),
                Fails(S(T(2), (1, 1), "x"), TypeError, "constant_pad_nd: 'value' must be"),
            ),
        ),
        Row(
            "pad",
            [
                S(_IMAGE, (1, 2)),
                S(T(2, 3), (1, 1), "constant", 2.0),
                S(T(1, 2, 4), (2, 1), "reflect"),
                S(_IMAGE, (1, 0, 0, 1), "replicate"),
                S(_VOLUME, (1, 1, 0, 1, 1, 0), mode="circular"),
            ],
            _padded,
            errors=(
                Fails(S(T(2, 3), (1, 1), "mirror"), ValueError, "pad: 'mode' must be 'constant'"),
                Fails(S(T(2), (1, 1), "reflect"), errors.ArgumentError, "pad: 'pad' must hold"),
                Fails(S(T(2, 3), (1, 1), "reflect", 1.0), errors.ArgumentError, "'value' must be"),
            ),
        ),
        Row(
            "_pad_circular",
            [S(T(1, 2, 4), (2, 1)), S(_IMAGE, (1, 0, 0, 4)), S(T(2, 4), (-1, 2))],
            lambda self, pad: _circular(self, pad),
            errors=(
                Fails(S(T(1, 2, 4), (5, 0)), errors.ArgumentError, "'pad' must be at most size 4"),
            ),
        ),
        *_rows("reflection", "reflect"),
        *_rows("replication", "replicate"),
    ],
    key=lambda row: row.name.strip("_"),
)


def _circular(self: np.ndarray, pad: Any) -> np.ndarray:
    """Circular padding; negative padding crops first."""
    widths = _widths(self.ndim, pad)
    cut = [slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, self.shape)]
    return np.pad(self[tuple(cut)], [(max(a, 0), max(b, 0)) for a, b in widths], "wrap")
