"""Devices as values: what an index may be, whichever devices were named before."""

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
