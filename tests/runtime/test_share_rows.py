"""Division of a shape into parts whole along an axis: each element once, with any threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import gputensor as gt
from gputensor.runtime import cpu


@pytest.fixture(params=[1, 3])
def threads(request):
    before = gt.get_num_threads()
    gt.set_num_threads(request.param)
    yield request.param
    gt.set_num_threads(before)


SHAPES = [
    ((500, 800), 1), ((500, 800), 0), ((300_000,), 0), ((1, 600, 1, 500), 1), ((2, 2), 0), ((), 0),
    ((0, 9), 1),
]  # fmt: skip


@pytest.mark.parametrize("shape, axis", SHAPES)
def test_parts_are_whole_along_the_axis_and_cover_the_shape(threads, shape, axis):
    seen, lock = np.zeros(shape, int), threading.Lock()

    def work(part):
        with lock:
            seen[part] += 1
            assert not shape or seen[part].shape[axis] == shape[axis]

    cpu.share_rows(shape, axis, work)
    assert (seen == 1).all()
