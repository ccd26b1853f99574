"""Pillow: images of tensors, and tensors of images."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import gputensor as gt

from . import close, values

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

# Pillow reads the buffer, which a Python class cannot provide before Python 3.12.
HAS_BUFFERS = sys.version_info >= (3, 12)
PIXELS = (values(5, 7, 3) * 255).astype(np.uint8)


def image_of(tensor):
    return Image.fromarray(tensor if HAS_BUFFERS else tensor.numpy())


@pytest.mark.parametrize("shape", [(5, 7, 3), (5, 7), (5, 7, 4)])
def test_an_image_of_a_tensor(shape):
    pixels = (values(*shape) * 255).astype(np.uint8)
    found, expected = image_of(gt.tensor(pixels)), Image.fromarray(pixels)
    assert found.mode == expected.mode
    assert found.tobytes() == expected.tobytes()


def test_an_image_of_planes():
    planes = gt.tensor(np.ascontiguousarray(PIXELS.transpose(2, 0, 1)))
    pixels = planes.permute(1, 2, 0).contiguous()
    assert image_of(pixels).tobytes() == PIXELS.tobytes()


def test_a_tensor_of_an_image():
    image = Image.fromarray(PIXELS)
    for made in (gt.as_tensor(image), gt.asarray(image), gt.tensor(image)):
        assert made.dtype == gt.uint8
        close(made, PIXELS)


def test_resize_there_and_back():
    tensor = gt.tensor(PIXELS)
    small = gt.asarray(image_of(tensor).resize((3, 2)))
    close(small, np.asarray(Image.fromarray(PIXELS).resize((3, 2))))
