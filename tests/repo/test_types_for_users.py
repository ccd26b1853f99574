"""A user's program under mypy --strict (pyproject.toml has it check this file) and pyright
(test_types_of_pages.py): names are exported, and static types equal those at run time."""

from __future__ import annotations

from typing import assert_type

import numpy as np
import pytest

import gputensor as gt


def halves(x: gt.Tensor, device: gt.device) -> tuple[gt.Tensor, ...]:
    with gt.no_grad(), gt.autocast("cuda"):
        return gt.split(x.to(device), 2)


@gt.no_grad()
def doubled(x: gt.Tensor) -> gt.Tensor:
    return x * 2


def test_what_is_exported_has_its_type() -> None:
    x = gt.arange(4, dtype=gt.float32, device=gt.device("cpu"))
    assert_type(gt.add(x, 1, alpha=2).float() * 2 + x, gt.Tensor)
    assert_type(halves(x, gt.device("cpu")), tuple[gt.Tensor, ...])
    assert type(halves(x, gt.device("cpu"))) is tuple
    assert_type(gt.nn.functional.relu(x), gt.Tensor)
    assert_type(doubled(x), gt.Tensor)
    assert_type(gt.special.expit(x) + gt.special.erf(x), gt.Tensor)
    assert_type(gt.meshgrid(x, x, indexing="xy"), tuple[gt.Tensor, ...])
    assert_type(gt.block_diag(x, x), gt.Tensor)
    assert_type(x[1:], gt.Tensor)
    assert_type(x.norm(2), gt.Tensor)
    assert_type(gt.float, gt.dtype)
    assert_type(x.shape, gt.Size)
    assert_type(x.shape[0], int)
    assert_type(x.shape[:1], gt.Size)
    assert_type(x.is_conj(), bool)
    assert x.is_conj() is False
    total: float = x.sum().item()
    assert total == 6
    assert_type(gt.cuda.device_count(), int)
    assert issubclass(gt.GpuTensorError, Exception) and isinstance(x.double(), gt.Tensor)
    gt.testing.assert_close(x.reshape(2, 2).t()[0], gt.tensor([0.0, 2.0]))


def test_modules_have_their_constructors() -> None:
    assert_type(gt.nn.ReLU(inplace=True), gt.nn.ReLU)
    assert_type(gt.nn.ReLU().inplace, bool)
    assert_type(gt.nn.Dropout(0.1, True).p, float)
    assert_type(gt.nn.Threshold(threshold=0.0, value=1.0), gt.nn.Threshold)
    assert_type(gt.nn.CrossEntropyLoss(gt.ones(3), label_smoothing=0.1).reduction, str)
    assert_type(gt.nn.FractionalMaxPool2d(3, output_size=2), gt.nn.FractionalMaxPool2d)
    assert_type(gt.nn.ConstantPad2d(1, 0.5).value, float)
    assert_type(gt.nn.PixelShuffle(2).upscale_factor, int)
    net = gt.nn.Sequential(gt.nn.MaxPool2d(2, stride=2, ceil_mode=True), gt.nn.GELU("tanh"))
    # mypy says where one of these is taken after all, since an unused comment is an error.
    with pytest.raises(gt.GpuTensorError):
        gt.nn.MaxPool2d(stride=2)  # type: ignore[call-arg]
    with pytest.raises(gt.GpuTensorError):
        gt.nn.ReLU(slope=2)  # type: ignore[call-arg]
    assert tuple(net(gt.ones(1, 1, 4, 4)).shape) == (1, 1, 2, 2)


def test_operators_take_what_numpy_makes() -> None:
    x, array = gt.ones(4), np.ones(4, np.float32)
    assert_type(x + array, gt.Tensor)
    assert_type(x * np.float32(2) - np.int64(1), gt.Tensor)
    assert_type(x >= array, gt.Tensor)
    assert_type(x @ array, gt.Tensor)
    x += array
    assert type(x + array) is type(x @ array) is gt.Tensor and x.tolist() == [2, 2, 2, 2]
    with pytest.raises(TypeError):
        x + "2"  # type: ignore[operator]
