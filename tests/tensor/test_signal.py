"""gt.stft with the arguments of PyTorch's function, and istft, its inverse."""

from __future__ import annotations

import pytest

import gputensor as gt
from gputensor.core import errors

from ..harness import tier


@pytest.mark.parametrize("device", tier.pick(["cpu"], ["cpu", "cuda"]))
def test_a_signal_comes_back(device: str) -> None:
    x = gt.sin(gt.arange(200, device=device) / 5).reshape(2, 100)
    window = gt.hann_window(16, device=device)
    found = gt.stft(x, 16, 4, window=window, return_complex=True)
    assert found.shape == (2, 9, 26) and found.stride() == (9 * 26, 1, 9)
    back = found.istft(16, 4, window=window, length=100)
    assert gt.allclose(back, x, atol=1e-5)
    whole = gt.stft(x, 16, 4, window=window, onesided=False, normalized=True, return_complex=True)
    assert gt.allclose(whole[:, :9] * 4, found, atol=1e-5)


def test_center_lays_the_first_part_around_the_first_place() -> None:
    x = gt.arange(10.0)
    around = gt.stft(x, 4, 2, pad_mode="constant", return_complex=True)
    padded = gt.nn.functional.pad(x, (2, 2))
    assert gt.equal(around, gt.stft(padded, 4, 2, center=False, return_complex=True))
    as_pairs = gt.stft(x, 4, 2, pad_mode="constant", return_complex=False)
    assert gt.equal(as_pairs, gt.view_as_real(around))


def test_gradients_come_through() -> None:
    x = gt.ones(12, dtype=gt.float64, requires_grad=True)
    gt.stft(x, 4, 2, return_complex=True).abs().pow(2).sum().backward()
    assert x.grad is not None and x.grad.shape == (12,) and bool((x.grad > 0).all())


def test_a_window_must_cover_the_signal() -> None:
    found = gt.stft(gt.ones(32), 8, return_complex=True)
    with pytest.raises(errors.ArgumentError, match="'window' must cover"):
        gt.istft(found, 8, window=gt.zeros(8))
    with pytest.raises(errors.ShapeError, match="'window' must hold 8 numbers"):
        gt.stft(gt.ones(32), 8, window=gt.ones(5), return_complex=True)
