"""`_repr_html_`: values, properties, and a picture for tensors that look like images."""

from __future__ import annotations

import base64
import html
import io
from typing import Any

import numpy as np
import pytest

import gputensor as gt


def picture(x: Any) -> Any:
    """Return the shown pixels, read by another library; None if there is no picture."""
    _, found, rest = x._repr_html_().partition("data:image/png;base64,")
    if not found:
        return None
    image = pytest.importorskip("PIL.Image")
    return np.asarray(image.open(io.BytesIO(base64.b64decode(rest.partition('"')[0]))))


def test_values_and_facts() -> None:
    x = gt.ones(2, 3, requires_grad=True).t()
    text = x._repr_html_()
    assert f"<pre>{html.escape(repr(x))}</pre>" in text and "shape <code>[3, 2]</code>" in text
    for fact in ("dtype <code>float32", "device <code>cpu", "strides [1, 3]", "requires_grad"):
        assert fact in text
    assert "grad_fn=<" not in text


def test_pictures() -> None:
    colours = gt.arange(3 * 9 * 10, dtype=gt.uint8).reshape(3, 9, 10)
    assert np.array_equal(picture(colours), np.moveaxis(colours.numpy(), 0, -1))
    assert np.array_equal(picture(colours[0]), colours[0].numpy())
    assert np.array_equal(picture(colours[:1] > 4), 255 * (colours[0].numpy() > 4))
    grey = gt.linspace(0, 1, 81).reshape(1, 9, 9)
    assert np.array_equal(picture(grey), np.rint(grey[0].numpy() * 255).astype(np.uint8))
    assert picture(gt.zeros(3, 800, 400, dtype=gt.uint8)).shape == (160, 80, 3)


@pytest.mark.parametrize("x", [
    gt.rand(9, 9), gt.rand(3, 9, 9) + 1, gt.full((3, 9, 9), float("nan")), gt.rand(2, 9, 9),
    gt.rand(3, 4, 4), gt.ones(3, 9, 9, dtype=gt.int64), gt.empty(3, 9, 9, device="meta"),
    gt.ones(3),
], ids=map(str, range(8)))  # fmt: skip
def test_what_is_no_image_has_no_picture(x: Any) -> None:
    assert picture(x) is None
