"""Fourier transforms: the standard's extension `xp.fft`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import gputensor as gt
from gputensor import Tensor, device, dtype

from ..core import lazy

Norm: TypeAlias = Literal["backward", "ortho", "forward"]


def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The Fourier transform along one axis."""
    return gt.fft.fft(x, n, axis, norm)


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: dtype | None = None, device: device | str | None = None
) -> Tensor:
    """The frequencies of fft's result, for samples at distance `d`."""
    return gt.fft.fftfreq(n, d, dtype=dtype, device=device)


def fftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:  # fmt: skip
    """The Fourier transform along several axes, or along all axes for None."""
    return gt.fft.fftn(x, s, axes, norm)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Move the frequency 0 to the middle of each axis."""
    return gt.fft.fftshift(x, axes)


def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The real Fourier transform of a signal that is Hermitian in time."""
    return gt.fft.hfft(x, n, axis, norm)


def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of fft."""
    return gt.fft.ifft(x, n, axis, norm)


def ifftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:  # fmt: skip
    """The inverse of fftn."""
    return gt.fft.ifftn(x, s, axes, norm)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of fftshift."""
    return gt.fft.ifftshift(x, axes)


def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of hfft."""
    return gt.fft.ihfft(x, n, axis, norm)


def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of rfft; its result is real."""
    return gt.fft.irfft(x, n, axis, norm)


def irfftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:  # fmt: skip
    """The inverse of rfftn; its result is real."""
    return gt.fft.irfftn(x, s, axes, norm)


def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Fourier transform of a real signal; returns the non-negative frequencies."""
    return gt.fft.rfft(x, n, axis, norm)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: dtype | None = None, device: device | str | None = None
) -> Tensor:
    """The frequencies of rfft's result, for samples at distance `d`."""
    return gt.fft.rfftfreq(n, d, dtype=dtype, device=device)


def rfftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:  # fmt: skip
    """Apply rfft along the last of the axes, then fft along the others."""
    return gt.fft.rfftn(x, s, axes, norm)


__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft",
    "irfft", "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
