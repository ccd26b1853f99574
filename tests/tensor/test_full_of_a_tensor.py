"""The fill value of a new tensor may be a tensor of one element."""

from __future__ import annotations

import pytest

import gputensor as gt
from gputensor.core import errors


def test_full_takes_a_tensor_of_one_element() -> None:
    three = gt.tensor(3)
    assert gt.full((2,), three).tolist() == [3, 3] and gt.full((2,), three).dtype is gt.int64
    assert gt.full_like(gt.ones(2), gt.tensor(2.5)).tolist() == [2.5, 2.5]
    assert gt.ones(1).new_full((2,), three).dtype is gt.float32
    with pytest.raises(errors.GpuTensorError):
        gt.full((2,), gt.ones(2))
