"""Rows of native/window: window functions and short-time Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import complex64, complex128, float32, float64, int64

from . import DTYPE, Fails, Row, S, T

_WHY = "a cosine or a Bessel function of a product, and a sum whose terms cancel at the ends"


def _of(shape: Any) -> Any:
    """Return a reference from NumPy's window function; a periodic window omits the last place."""

    def reference(n: int, periodic: bool = True, *factors: float, dtype: Any = None) -> Any:
        return np.ones(n) if n < 2 else shape(n + bool(periodic), *factors)[:n]

    return reference


def _hamming(n: int, alpha: float = 0.54, beta: float = 0.46) -> Any:
    return alpha - beta * np.cos(2 * np.pi * np.arange(n) / (n - 1))


def _row(name: str, shape: Any, *more: S) -> Row:
    samples = [S(7), S(6, False), S(1), S(0), S(5, dtype=DTYPE), *more]
    refusals = (
        Fails(S(-1), errors.ArgumentError, f"{name}: 'window_length' must not be negative"),
        Fails(S(3, dtype=int64), errors.DtypeError, f"{name}: 'dtype' must be floating"),
    )
    return Row(
        name, samples, _of(shape), ulp=1 << 26, why=_WHY, device_ulp=1 << 26,
        dtypes=(float32, float64), errors=refusals,
    )  # fmt: skip


def _parts(x: Any, n: int, hop: Any = None, **_: Any) -> Any:
    hop = hop or n // 4
    starts = range(0, x.shape[-1] - n + 1, hop)
    whole = np.stack([x[..., i : i + n] for i in starts], -2).astype(np.float64)
    return np.swapaxes(np.fft.rfft(whole), -1, -2)


def _signal(x: Any, n: int, hop: Any = None, **_: Any) -> Any:
    """Reconstruct a signal from rectangular windows that do not overlap."""
    parts = np.fft.irfft(np.swapaxes(x, -1, -2).astype(np.complex128), n)
    return parts.reshape(*parts.shape[:-2], -1)


ROWS = [
    _row("bartlett_window", np.bartlett),
    _row("blackman_window", np.blackman),
    _row("hamming_window", _hamming, S(5, True, 0.6), S(5, True, 0.6, 0.4)),
    _row("hann_window", np.hanning),
    Row(
        "istft",
        [S(T(3, 5), 4, 4, center=False), S(T(2, 3, 2), 4, 4, center=False)],
        _signal,
        dtypes=(complex64, complex128),
        result=lambda args, kwargs, of: of.to_real,
        ulp=64,
        device_ulp=64,
        why="a transform of four numbers",
        errors=(
            Fails(S(T(3, 5), 4), errors.DtypeError, "istft: 'self' must be complex", float32),
            Fails(S(T(4, 5), 9), errors.ShapeError, "'self' must have 5 frequencies", complex64),
            Fails(S(T(3, 5), 4, 0), errors.ArgumentError, "'hop_length' must be pos", complex64),
        ),
    ),
    _row("kaiser_window", lambda n, beta=12.0: np.kaiser(n, beta), S(5, False, 8.0)),
    Row(
        "stft",
        [
            S(T(9), 4, return_complex=True),
            S(T(2, 9), 4, 2, return_complex=True),
        ],
        _parts,
        dtypes=(float32, float64),
        result=lambda args, kwargs, of: of.to_complex,
        ulp=64,
        device_ulp=64,
        why="a transform of four numbers",
        errors=(
            Fails(S(T(9), 4), errors.ArgumentError, "'return_complex' must be given", float32),
            Fails(S(T(3), 4), errors.ShapeError, "'self' must be at least 4", float32),
            Fails(S(T(9), 4, win_length=5), errors.ArgumentError, "'win_length' must be in"),
        ),
    ),
]
