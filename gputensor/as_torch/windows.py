"""`torch.signal.windows`: windows for filters and spectra.

Each function returns M values of float32 or float64, with 1 in the middle. sym: True makes a
symmetric window. False makes a periodic window, which is the symmetric window of M + 1 values
without its last value. options: dtype, device, layout and requires_grad of the result.

Source: torch/signal/windows/windows.py; Harris, On the use of windows for harmonic analysis with
the discrete Fourier transform, 1978.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import gputensor as gt
from gputensor.core import errors


def _at(
    op: str, M: int, *, begin: float, step: float, requires_grad: bool = False,
    **options: Any,
) -> Any:  # fmt: skip
    """Return M points. The first is `begin`, and neighbours are `step` apart.

    Raises: ArgumentValueError if M is negative, or the dtype is not float32 or float64.
    """
    if type(M) is not int:
        raise errors.wrong_type(op, "M", "be a length", M)
    if M < 0:
        raise errors.wrong_value(op, "M", "not be negative", M)
    dtype = options.setdefault("dtype", None) or gt.get_default_dtype()
    if dtype not in (gt.float32, gt.float64):
        raise errors.wrong_value(op, "dtype", "be float32 or float64", dtype)
    options["dtype"] = dtype
    made = gt.linspace(begin, begin + (M - 1) * step, M, **options) if M else gt.empty(0, **options)
    return made.requires_grad_(requires_grad)


def _steps(M: int, sym: bool) -> int:
    """Return the number of steps between the first and the last value of a symmetric window. If
    `sym` is False, this window has M + 1 values, and the result is its first M values."""
    return max(M - 1 if sym else M, 1)


def _middle(M: int, sym: bool) -> float:
    return (M if not sym and M > 1 else M - 1) / 2


def _positive(op: str, name: str, value: float) -> None:
    if not value > 0:
        raise errors.wrong_value(op, name, "be positive", value)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any
) -> Any:
    """Return exp(-|n - center| / tau). center: by default the middle of the window. If sym is True,
    center must be None."""
    _positive("exponential", "tau", tau)
    if sym and center is not None:
        raise errors.wrong_value("exponential", "center", "be None where sym is True", center)
    center = _middle(M, sym) if center is None else center
    points = _at("exponential", M, begin=-center / tau, step=1 / tau, **options)
    return (-points.abs()).exp()


def cosine(M: int, *, sym: bool = True, **options: Any) -> Any:
    """Return sin(pi (n + 1/2) / M), half a wave."""
    step = math.pi / (M + 1 if not sym and M > 1 else max(M, 1))
    return _at("cosine", M, begin=step / 2, step=step, **options).sin()


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Any:
    """Return exp(-(n - middle)^2 / (2 std^2))."""
    _positive("gaussian", "std", std)
    step = 1 / (std * math.sqrt(2))
    points = _at("gaussian", M, begin=-_middle(M, sym) * step, step=step, **options)
    return (-(points**2)).exp()


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Any:
    """Return I0(beta sqrt(1 - x^2)) / I0(beta) for x from -1 to 1."""
    if not beta >= 0:
        raise errors.wrong_value("kaiser", "beta", "not be negative", beta)
    if M == 1:
        return _at("kaiser", M, begin=1.0, step=0.0, **options)
    points = _at("kaiser", M, begin=-1.0, step=2 / _steps(M, sym), **options)
    scale = gt.tensor(float(beta), dtype=points.dtype, device=points.device)
    return ((1 - points**2).clamp(min=0).sqrt() * scale).i0() / scale.i0()


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Any:
    """Return a triangle that begins at 0."""
    begin = 0.0 if M == 1 else -1.0
    return 1 - _at("bartlett", M, begin=begin, step=2 / _steps(M, sym), **options).abs()


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Any:
    """Return the sum of (-1)^i a_i cos(2 pi i n / (M - 1)) over the coefficients a."""
    if not isinstance(a, Iterable):
        raise errors.wrong_type("general_cosine", "a", "be numbers", a)
    weights = [*a]
    if not weights:
        raise errors.wrong_value("general_cosine", "a", "have a coefficient", weights)
    if M == 1:
        return _at("general_cosine", M, begin=1.0, step=0.0, **options)
    step = 2 * math.pi / _steps(M, sym)
    points = _at("general_cosine", M, begin=0.0, step=step, **options)
    return sum((-1) ** i * weight * (i * points).cos() for i, weight in enumerate(weights))


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Any:
    """Return `general_cosine` with the coefficients alpha and 1 - alpha."""
    return general_cosine(M, a=[alpha, 1 - alpha], sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Any:
    """Return `general_hamming` for alpha = 0.54."""
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Any:
    """Return `general_hamming` for alpha = 0.5, a cosine wave that is raised above zero."""
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Any:
    """Return `general_cosine` with Blackman's three coefficients."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Any:
    """Return `general_cosine` with Nuttall's four coefficients."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)


OF_WINDOWS: dict[str, Any] = {
    of.__name__: of for of in (
        bartlett, blackman, cosine, exponential, gaussian, general_cosine, general_hamming, hamming,
        hann, kaiser, nuttall,
    )
}  # fmt: skip
