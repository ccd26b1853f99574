"""Devices as values: valid indices, and PyTorch's device types for which no backend is
registered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt


@pytest.mark.parametrize("index", [True, 1.0, np.float64(1), np.bool_(True)])
def test_what_equals_an_index_and_is_none(index: Any) -> None:
    assert gt.device("cuda", 1).index == 1
    with pytest.raises(gt.GpuTensorError, match=r"'index' must be an integer in \[0, 127\]"):
        gt.device("cuda", index)


def test_an_index_of_numpy() -> None:
    assert gt.device("cuda", np.int64(101)) is gt.device("cuda:101")
    assert type(gt.device("cuda", np.int64(102)).index) is int


def test_device_types_of_pytorch_are_values_that_hold_no_tensor() -> None:
    mps = gt.device("mps")
    assert mps is gt.device("mps") and mps != gt.device("mps", 0) and mps != gt.device("cpu")
    assert (str(mps), repr(gt.device("xpu:1"))) == ("mps", "device(type='xpu', index=1)")
    x = gt.ones(2)
    for use in (lambda: gt.ones(2, device=mps), lambda: gt.rand(2, device="hpu"),
                lambda: gt.tensor([1], device=mps), lambda: x.to(mps), lambda: gt.Generator(mps),
                lambda: gt.nn.Linear(1, 1).to(mps)):  # fmt: skip
        with pytest.raises(RuntimeError, match="no device .no backend is registered"):
            use()
    with pytest.raises(gt.GpuTensorError, match="must be one of cpu, cuda"):
        gt.device("nonsense")
