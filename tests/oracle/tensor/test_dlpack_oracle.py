"""DLPack with PyTorch itself, both ways, for all dtypes and many layouts."""

from __future__ import annotations

import gc
import random

import pytest

import gputensor as gt
from gputensor.core import dtype as dt

torch = pytest.importorskip("torch", reason="the oracle is PyTorch")

pytestmark = pytest.mark.oracle


def random_view(rng, element):
    sizes = [rng.choice([1, 2, 3, 5]) for _ in range(rng.randrange(0, 5))]
    x = (torch.rand(sizes) * 100).to(getattr(torch, element.name))
    if x.ndim > 1 and rng.random() < 0.5:
        x = x.permute(rng.sample(range(x.ndim), x.ndim))
    if x.ndim and rng.random() < 0.5:
        x = x[rng.randrange(0, 2) :: rng.choice([1, 2])]
    if rng.random() < 0.2:
        x = x.unsqueeze(0).expand(3, *x.shape)
    return x


@pytest.mark.parametrize("element", dt.ALL, ids=lambda d: d.name)
def test_there_and_back(element):
    rng = random.Random(element.code)
    torch.manual_seed(element.code)
    for _ in range(100):
        theirs = random_view(rng, element)
        ours = gt.from_dlpack(theirs)
        assert ours.dtype is element
        assert (tuple(ours.shape), ours.stride()) == (tuple(theirs.shape), theirs.stride())
        assert not ours.numel() or ours.data_ptr() == theirs.data_ptr()
        back = torch.from_dlpack(ours)
        assert back.dtype is theirs.dtype
        assert (back.shape, back.stride()) == (theirs.shape, theirs.stride())
        assert not ours.numel() or back.data_ptr() == theirs.data_ptr()
        assert torch.equal(back, theirs)
        legacy = torch.utils.dlpack.from_dlpack(ours.__dlpack__())
        assert legacy.stride() == theirs.stride() and torch.equal(legacy, theirs)
        assert ours.tolist() == theirs.tolist()


def test_memory_outlives_either_side():
    ours = gt.arange(1000)
    theirs = torch.from_dlpack(ours)
    again = gt.from_dlpack(theirs)
    del ours, theirs
    gc.collect()
    assert again[500:503].tolist() == [500, 501, 502]
    theirs = torch.from_dlpack(again)
    del again
    gc.collect()
    assert theirs[999] == 999


def test_writes_are_seen_on_the_other_side():
    theirs = torch.zeros(2, 3, dtype=torch.bfloat16)
    gt.from_dlpack(theirs)[1] = 2.5
    assert theirs.tolist() == [[0, 0, 0], [2.5, 2.5, 2.5]]


def test_numpy_of_both():
    theirs = torch.arange(6.0).reshape(2, 3).t()
    ours = gt.from_numpy(theirs.numpy())
    assert ours.stride() == theirs.stride() and ours.data_ptr() == theirs.data_ptr()
    assert torch.from_numpy(ours.numpy()).data_ptr() == theirs.data_ptr()
