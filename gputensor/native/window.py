"""Windows of signals (such as hann_window), and short-time Fourier transforms: stft, istft.

They are composed of other operators. Source: ATen/native/TensorFactories.cpp, SpectralOps.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._generated import calls, functions
from ..core import errors
from ..core.arguments import real
from ..core.device import CPU
from ..core.dtype import FLOATING, float64
from ..dispatch import defaults
from ..dispatch.keys import BATCHED
from ..structured import arguments
from ..structured.forms import Kernel, given
from ..tensor.tensor import Tensor

# --- windows --------------------------------------------------------------------------------------

Shape = Callable[[Tensor, float], Tensor]


def _window(
    key_set: int, op: str, shape: Shape, window_length: Any, periodic: bool, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    """Make a window. shape(positions, last) computes the window in float64 for the positions 0 to
    last; the result is rounded once."""
    n = arguments.integer(op, "window_length", window_length, least=0)
    of = defaults.get_default_dtype() if dtype is None else dtype
    if of.category != FLOATING:
        raise errors.wrong_dtype(op, "dtype", "be floating", of)
    if n < 2:
        return calls.ones((n,), of, layout, device, pin_memory)
    count = n + 1 if periodic else n
    places = functions.arange(count, dtype=float64, device=device)
    made = calls.narrow(shape(places, count - 1), 0, 0, n)
    return calls.to_dtype(made, of)


def _cosines(*factors: float) -> Shape:
    """Return a function `shape(places, last)` that computes the sum of factors[k] cos(2 pi k x),
    where x = places / last."""

    def shape(places: Tensor, last: float) -> Tensor:
        turns = [math.tau * k / last for k in range(1, len(factors))]
        parts = [calls.cos(places * turn) * f for turn, f in zip(turns, factors[1:])]
        made = parts[0] + factors[0]
        for part in parts[1:]:
            made = made + part
        return made

    return shape


_HANN, _BLACKMAN = _cosines(0.5, -0.5), _cosines(0.42, -0.5, 0.08)


hann_window_periodic: Kernel = given(_window, op="hann_window", shape=_HANN)
hann_window: Kernel = given(_window, op="hann_window", shape=_HANN, periodic=True)


def hamming_window_periodic_alpha_beta(
    key_set: int, window_length: Any, periodic: bool, alpha: float, beta: float, *options: Any
) -> Tensor:
    op = "hamming_window"
    shape = _cosines(real(op, "alpha", alpha), -real(op, "beta", beta))
    return _window(key_set, op, shape, window_length, periodic, *options)


hamming_window_periodic_alpha: Kernel = given(hamming_window_periodic_alpha_beta, beta=0.46)
hamming_window_periodic: Kernel = given(hamming_window_periodic_alpha_beta, alpha=0.54, beta=0.46)
hamming_window: Kernel = given(
    hamming_window_periodic_alpha_beta, periodic=True, alpha=0.54, beta=0.46
)
blackman_window_periodic: Kernel = given(_window, op="blackman_window", shape=_BLACKMAN)
blackman_window: Kernel = given(_window, op="blackman_window", shape=_BLACKMAN, periodic=True)


def _triangle(places: Tensor, last: float) -> Tensor:
    return 1 - calls.abs(places * (2 / last) - 1)


bartlett_window_periodic: Kernel = given(_window, op="bartlett_window", shape=_triangle)
bartlett_window: Kernel = given(_window, op="bartlett_window", shape=_triangle, periodic=True)


def kaiser_window_beta(
    key_set: int, window_length: Any, periodic: bool, beta: float, *options: Any
) -> Tensor:
    beta = real("kaiser_window", "beta", beta)

    def shape(places: Tensor, last: float) -> Tensor:
        x = places * (2 / last) - 1
        inner = calls.sqrt(calls.clamp_min(1 - x * x, 0)) * beta
        whole = calls.i0(calls.new_full(places, (), beta))
        return calls.i0(inner) / whole

    return _window(key_set, "kaiser_window", shape, window_length, periodic, *options)


kaiser_window_periodic: Kernel = given(kaiser_window_beta, beta=12.0)
kaiser_window: Kernel = given(kaiser_window_beta, periodic=True, beta=12.0)


# --- Fourier transforms of short parts ----------------------------------------------------------


def _lengths(op: str, n_fft: Any, hop_length: Any, win_length: Any) -> tuple[int, int, int]:
    n = arguments.integer(op, "n_fft", n_fft)
    hop = n // 4 if hop_length is None else arguments.integer(op, "hop_length", hop_length)
    size = n if win_length is None else arguments.integer(op, "win_length", win_length)
    if n < 1:
        raise errors.must(op, "n_fft", "be positive", n)
    if hop < 1:
        raise errors.must(op, "hop_length", "be positive", hop)
    if not 0 < size <= n:
        raise errors.must(op, "win_length", f"be in [1, {n}]", size)
    return n, hop, size


def _padded(op: str, window: Tensor | None, size: int, n: int, like: Tensor) -> Tensor:
    """Return the window, padded with zeros on both sides to n elements. If `window` is None, use a
    window of ones."""
    if window is None:
        window = calls.new_full(like, (size,), 1.0, dtype=like._geometry.dtype.to_real)
    elif window._geometry.sizes != (size,):
        raise errors.wrong_shape(op, "window", f"hold {size} numbers", window)
    before = (n - size) // 2
    return calls.constant_pad_nd(window, (before, n - size - before), 0) if size < n else window


def stft(
    key_set: int, self: Tensor, n_fft: Any, hop_length: Any = None, win_length: Any = None,
    window: Tensor | None = None, normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    op, given = "stft", self._geometry
    arguments.check_is_floating(op, "self", self, or_complex=True)
    if given.ndim not in (1, 2):
        raise errors.wrong_shape(op, "self", "have one or two dimensions", self)
    n, hop, size = _lengths(op, n_fft, hop_length, win_length)
    if given.sizes[-1] < n:
        raise errors.wrong_shape(op, "self", f"be at least {n} long", self)
    shape = _padded(op, window, size, n, self)
    is_complex = given.dtype.is_complex or shape._geometry.dtype.is_complex
    if return_complex is None and not is_complex:
        raise errors.must(op, "return_complex", "be given for a real signal", None)
    half = not is_complex if onesided is None else onesided
    if half and is_complex:
        raise errors.must(op, "onesided", "be False for complex numbers", onesided)
    parts = calls.mul_Tensor(calls.unfold(self, -1, n, hop), shape)
    transform = calls.fft_rfft if half else calls.fft_fft
    found = transform(parts, None, -1, "ortho" if normalized else None)
    found = calls.transpose_int(found, -2, -1)
    return calls.view_as_real(found) if return_complex is False else found


def istft(
    key_set: int, self: Tensor, n_fft: Any, hop_length: Any = None, win_length: Any = None,
    window: Tensor | None = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: Any = None, return_complex: bool = False,
) -> Tensor:  # fmt: skip
    op, given = "istft", self._geometry
    if not given.dtype.is_complex:
        raise errors.wrong_dtype(op, "self", "be complex", self)
    if given.ndim not in (2, 3) or not given.numel:
        raise errors.wrong_shape(op, "self", "have two or three dimensions, and elements", self)
    n, hop, size = _lengths(op, n_fft, hop_length, win_length)
    half = given.sizes[-2] != n if onesided is None else onesided
    bins = n // 2 + 1 if half else n
    if given.sizes[-2] != bins:
        raise errors.wrong_shape(op, "self", f"have {bins} frequencies", self)
    if half and return_complex:
        raise errors.must(op, "onesided", "be False for a complex signal", onesided)
    shape = _padded(op, window, size, n, self)
    x = self if given.ndim == 3 else calls.unsqueeze(self, 0)
    batch, _, frames = x._geometry.sizes
    scale = "ortho" if normalized else None
    x = calls.transpose_int(x, 1, 2)
    if return_complex:
        parts = calls.fft_ifft(x, None, -1, scale)
    else:
        parts = calls.fft_irfft(calls.narrow(x, -1, 0, n // 2 + 1), n, -1, scale)
    whole = n + hop * (frames - 1)
    weight = calls.expand(calls.mul_Tensor(shape, shape), (1, frames, n), False)
    made = calls.unfold_backward(calls.mul_Tensor(parts, shape), (batch, whole), 1, n, hop)
    weight = calls.unfold_backward(calls.contiguous(weight), (1, whole), 1, n, hop)
    start = n // 2 if center else 0
    end = whole - start if length is None else start + arguments.integer(op, "length", length)
    stop = min(end, whole)
    made = calls.narrow(made, 1, start, stop - start)
    weight = calls.narrow(weight, 1, start, stop - start)
    if self._device is CPU and weight._geometry.numel and not weight._keys & BATCHED:
        if calls.lt_Tensor(calls.min(calls.abs(weight)), 1e-11):
            rule = "cover each place of the signal"
            raise errors.must(op, "window", rule, errors.Got("a sum of squares of 0"))
    made = calls.div_Tensor(made, weight)
    if end > stop:
        made = calls.constant_pad_nd(made, (0, end - stop), 0)
    return made if given.ndim == 3 else calls.squeeze_dim(made, 0)
