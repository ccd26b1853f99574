"""Padding of large tensors, which is done edge by edge, has the elements of small ones."""

from __future__ import annotations

import numpy as np
import pytest

import gputensor as gt
from gputensor.native import pad

PADS = [(1, 2), (0, 3, 2, 0), (-1, 2, 1, -1), (1, 1, 0, 0, 2, 1), (-2, 0, 3, 3)]


@pytest.mark.parametrize("pads", PADS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_edges_are_filled(
    pads: tuple[int, ...], device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device == "cuda" and not gt.cuda.is_available():
        pytest.skip("there is no CUDA device")
    x = gt.arange(60.0, device=device).view(3, 4, 5)
    found = gt.constant_pad_nd(x, pads, 7)
    monkeypatch.setattr(pad, "_MANY", 0)
    again = gt.constant_pad_nd(x, pads, 7)
    assert gt.equal(again, found) and again.stride() == found.stride()
    if min(pads) >= 0:
        pairs = [*zip(pads[::2], pads[1::2])][::-1]
        wanted = np.pad(x.cpu().numpy(), [(0, 0)] * (3 - len(pairs)) + pairs, constant_values=7)
        assert (found.cpu().numpy() == wanted).all()
