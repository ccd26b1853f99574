"""A storage that grows gets a new buffer, which all its tensors must use."""

from __future__ import annotations

import gc
from unittest import mock

import gputensor as gt


def test_views_follow_a_resize() -> None:
    x = gt.zeros(4)
    view = x[1:3]
    assert view.tolist() == [0, 0]
    x.resize_(100000)
    x.fill_(7)
    assert view.tolist() == [7, 7]
    view.fill_(5)
    assert x[:4].tolist() == [7, 5, 5, 7]


def test_a_resize_of_a_view_is_seen_by_its_base() -> None:
    x = gt.zeros(4)
    view = x[2:]
    assert x.tolist() == [0, 0, 0, 0]
    view.resize_(8)
    view.fill_(3)
    assert x.tolist() == [0, 0, 3, 3]


def test_a_tensor_that_is_alone_asks_no_garbage_collector() -> None:
    """The collector would examine every object of the process, and `out=gt.empty(0)` is common."""
    with mock.patch.object(gc, "get_referrers", side_effect=AssertionError):
        out = gt.empty(0)
        gt.add(gt.ones(3), 1, out=out)
        assert out.tolist() == [2, 2, 2]
        assert gt.zeros(2).resize_(9).shape == (9,)
