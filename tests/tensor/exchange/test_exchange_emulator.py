"""Emulated CUDA tensors print, index, save and copy like others, and never appear to be on a
GPU."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import gputensor as gt
from gputensor import cuda

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.skipif(
        not cuda.is_available() or not cuda.is_emulated(), reason="needs the emulator"
    ),
]


@pytest.fixture
def x():
    return gt.tensor([[1.0, 2.0], [3.0, 4.5]], device="cuda")


@pytest.mark.parametrize("ask", [
    lambda x: x.__dlpack__(), lambda x: x.__dlpack__(max_version=(1, 0)),
    lambda x: x.__dlpack_device__(),
    lambda x: gt.from_dlpack(x), lambda x: np.from_dlpack(x), lambda x: x.__dlpack__(dl_device=(2,
    0)),
    lambda x: x.numpy(), lambda x: np.asarray(x),
])  # fmt: skip
def test_others_are_refused_and_told_the_remedy(x, ask):
    with pytest.raises((BufferError, TypeError), match=r"use \.cpu\(\)"):
        ask(x)
    assert not hasattr(x, "__cuda_array_interface__")


def test_the_host_may_have_a_copy(x):
    assert gt.from_dlpack(x.__dlpack__(dl_device=(1, 0))).tolist() == [[1.0, 2.0], [3.0, 4.5]]
    assert x.numpy(force=True).tolist() == np.from_dlpack(x.cpu()).tolist()
    with pytest.raises(BufferError, match="copy"):
        x.__dlpack__(dl_device=(1, 0), copy=False)


def test_printing(x):
    assert repr(x) == "tensor([[1.0000, 2.0000],\n        [3.0000, 4.5000]], device='cuda:0')"
    large = gt.arange(4000, device="cuda").reshape(50, 80)
    assert repr(large).replace(", device='cuda:0'", "") == repr(large.cpu())


def test_indexing(x):
    assert x[1, ::-1].tolist() == [4.5, 3.0]
    assert x[gt.tensor(1, device="cuda")].tolist() == [3.0, 4.5]
    x[0, ::-1] = gt.tensor([7, 8])
    x[1] = gt.tensor(5.0, device="cuda")
    assert x.tolist() == [[8.0, 7.0], [5.0, 5.0]]


@pytest.mark.parametrize("duplicate", [
    lambda v: pickle.loads(pickle.dumps(v)), copy.deepcopy,
    lambda v: gt.load(io.BytesIO(saved(v))),
], ids=["pickle", "deepcopy", "save"])  # fmt: skip
def test_copies_return_to_their_device(x, duplicate):
    a, b = duplicate((x, x[1]))
    assert a.device == b.device == x.device and a.untyped_storage() is b.untyped_storage()
    assert a.tolist() == x.tolist() and a.data_ptr() != x.data_ptr()
    a[1] = 0
    assert b.tolist() == [0.0, 0.0]


def saved(value):
    file = io.BytesIO()
    gt.save(value, file)
    return file.getvalue()


def test_map_location(x):
    assert gt.load(io.BytesIO(saved(x)), map_location="cpu").device.type == "cpu"
    assert gt.load(io.BytesIO(saved(x.cpu())), map_location="cuda").device == x.device
    with pytest.raises(RuntimeError, match="use map_location='cpu'"):
        gt.load(io.BytesIO(saved(x)), map_location={"cuda:0": "cuda:9"})


def test_construction():
    assert gt.tensor([1, 2], device="cuda").dtype is gt.int64
    assert gt.asarray(np.arange(3), device="cuda").tolist() == [0, 1, 2]
    assert gt.tensor([1, 2], pin_memory=True).tolist() == [1, 2]


def test_pinned_memory():
    x = gt.arange(4.0)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and pinned[1:].is_pinned() and pinned.storage().is_pinned()
    assert not x.is_pinned() and not pinned.cuda().is_pinned() and pinned.pin_memory() is pinned
    assert pinned.cuda(non_blocking=True).tolist() == x.tolist()
    for make in (gt.empty, gt.zeros, gt.rand, lambda n, **of: gt.full((n,), 1, **of)):
        assert make(3, pin_memory=True).is_pinned() and make(0, pin_memory=True).numel() == 0
    for call in (pinned.cuda().pin_memory, lambda: gt.zeros(2, device="cuda", pin_memory=True)):
        with pytest.raises(RuntimeError, match="CPU"):
            call()


def test_both_sides_of_a_construction():
    gt.testing.assert_close(gt.tensor([1.0], device="cuda"), gt.tensor([1.0]), check_device=False)
