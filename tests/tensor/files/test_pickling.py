"""pickle, copy and deepcopy: storages shared within one pickle or copy stay shared."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import dtype as dt


def same(a, b):
    assert (a.dtype, a.shape, a.stride(), a.storage_offset()) == (
        b.dtype,
        b.shape,
        b.stride(),
        b.storage_offset(),
    )
    assert a.device == b.device
    assert a.is_meta or a.tolist() == b.tolist()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("element", dt.ALL, ids=lambda d: d.name)
def test_pickle(element, protocol):
    x = gt.asarray((np.arange(12) % 2).astype(element.np)).reshape(3, 4).t()[1:]
    back = pickle.loads(pickle.dumps(x, protocol))
    same(x, back)
    back.fill_(1)


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("duplicate", [
    lambda x, p: pickle.loads(pickle.dumps(x, p)), lambda x, p: copy.deepcopy(x),
], ids=["pickle", "deepcopy"])  # fmt: skip
def test_shared_storages(duplicate, protocol):
    x = gt.arange(6.0)
    first, second, again, other = duplicate([x, x[2:], x, gt.arange(6.0)], protocol)
    assert again is first and first.data_ptr() != x.data_ptr()
    assert second.untyped_storage() is first.untyped_storage()
    assert other.untyped_storage() is not first.untyped_storage()
    first[3] = 30
    assert second.tolist() == [2, 30, 4, 5] and x.tolist()[3] == 3


def test_out_of_band_buffers():
    buffers = []
    x = gt.arange(10000.0)
    data = pickle.dumps(x, 5, buffer_callback=buffers.append)
    assert len(data) < 1000 and len(buffers) == 1
    same(x, pickle.loads(data, buffers=buffers))
    back = pickle.loads(data, buffers=[bytes(buffers[0].raw())])
    back[0] = 5  # a read-only buffer is copied


@pytest.mark.parametrize(
    "x", [gt.tensor(3), gt.empty(0, 3), gt.empty(2, 3, device="meta")], ids=repr
)
def test_corner_cases(x):
    for back in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert back is not x
        same(x, back)


def test_copy_shares_and_deepcopy_does_not():
    x = gt.arange(4)
    assert copy.copy(x).data_ptr() == x.data_ptr()
    assert copy.deepcopy(x).data_ptr() != x.data_ptr()
    assert copy.deepcopy({"a": [x]})["a"][0].tolist() == x.tolist()


def test_dtypes_devices_and_formats_are_the_same_objects():
    for value in (gt.float32, gt.device("cuda:1"), gt.channels_last, gt.Size([1, 2])):
        back = pickle.loads(pickle.dumps(value))
        assert back == value and type(back) is type(value)
        assert isinstance(value, tuple) or back is value and copy.deepcopy(value) is value


@pytest.mark.parametrize("kind", [gt.Tensor, gt.nn.Parameter])
def test_attributes_that_a_program_sets(kind):
    x = gt.ones(2) if kind is gt.Tensor else kind(gt.ones(2))
    x.tag = {"of": [1]}
    assert not hasattr(gt.ones(2), "tag") and not hasattr(x + 1, "tag")
    for back in (pickle.loads(pickle.dumps(x)), copy.copy(x)):
        assert back.tag == x.tag and back.tolist() == [1, 1]
    if type(x) is gt.Tensor:  # a copy of a Parameter is a new Parameter, as in PyTorch
        assert copy.deepcopy(x).tag == x.tag and copy.deepcopy(x).tag is not x.tag
    del x.tag
    assert not hasattr(x, "tag")
