"""Sharing memory with NumPy: shared and copied arrays, errors."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import dtype as dt
from gputensor.core import errors

from ...harness.ids import without_address

ARRAYS = [
    np.arange(6.0), np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3).T, np.arange(12)[1::3],
    np.zeros((2, 0, 3)), np.array(5), np.broadcast_to(np.arange(3), (4, 3)), np.ones((3, 1, 2))[:,
    :, 1:],
    np.asfortranarray(np.ones((2, 3, 4))), np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2),
]  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.shape}{a.strides}")
def test_from_numpy_shares_and_keeps_strides(array):
    x = gt.from_numpy(array)
    assert x.shape == array.shape and x._geometry.stride_bytes == array.strides
    assert not x.numel() or x.data_ptr() == array.__array_interface__["data"][0]
    assert x.tolist() == array.tolist()
    back = x.numpy()
    assert back.strides == array.strides and back.flags.writeable == array.flags.writeable
    if array.size and array.flags.writeable:
        array.flat[0] = 7
        assert x.flatten()[0].item() == 7 and np.shares_memory(back, array)


@pytest.mark.parametrize("element", dt.ALL, ids=lambda d: d.name)
def test_every_dtype(element):
    array = np.zeros(3, element.np)
    x = gt.from_numpy(array)
    assert x.dtype is element and x.numpy().dtype == array.dtype
    x[1] = 1
    assert array[1] == 1


def test_memory_lives_as_long_as_its_last_user():
    array = np.arange(5.0)
    alive = weakref.ref(array)
    x = gt.from_numpy(array)[1:]
    del array
    gc.collect()
    assert x.tolist() == [1, 2, 3, 4]
    shared = x.numpy()
    del x
    gc.collect()
    assert shared.tolist() == [1, 2, 3, 4]
    del shared
    gc.collect()
    assert alive() is None


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")
def test_the_callers_array_is_the_callers():
    x = gt.arange(6)
    array = x.numpy()
    array.shape = (2, 3)
    assert x.shape == (6,) and (x + 1).tolist() == [1, 2, 3, 4, 5, 6]
    array = np.arange(6)
    x = gt.from_numpy(array)
    array.shape = (2, 3)
    assert (x + 1).tolist() == [1, 2, 3, 4, 5, 6]


def test_subclasses_are_read_as_plain_arrays():
    array = np.ma.masked_array([1.0, 2.0])
    assert type(gt.from_numpy(array).numpy()) is np.ndarray


def test_array_protocol():
    x = gt.tensor([[1.5, 2.5], [3.5, 4.5]]).t()
    assert np.shares_memory(np.asarray(x), x.numpy()) and np.asarray(x).strides == (4, 8)
    assert not np.shares_memory(np.array(x), x.numpy())
    assert np.asarray(x, dtype=np.int64).tolist() == [[1, 3], [2, 4]]
    assert np.shares_memory(np.asarray(x, copy=False), x.numpy())
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype=np.int64, copy=False)
    assert np.add(1, np.asarray(x)).dtype == np.float32
    assert np.array(gt.tensor(3)).shape == ()


def test_arithmetic_with_arrays_of_one_element_and_scalars():
    assert (np.float32(2) * gt.tensor([1.0, 2.0])).tolist() == [2.0, 4.0]


def test_asarray():
    array = np.arange(3)
    x = gt.from_numpy(array)
    assert gt.asarray(x) is x
    assert gt.asarray(array).data_ptr() == x.data_ptr()
    assert gt.asarray(memoryview(array)).data_ptr() == x.data_ptr()
    assert gt.asarray(x, copy=True).data_ptr() != x.data_ptr()
    assert gt.asarray(x, dtype=gt.float64).dtype is gt.float64
    assert gt.asarray([1, 2.5]).dtype is gt.float32
    assert gt.asarray(np.float64(1)).dtype is gt.float64
    assert gt.asarray(3, dtype=gt.int8).dtype is gt.int8
    assert gt.asarray(bytearray(b"ab")).tolist() == [97, 98]
    assert gt.asarray(array, device="meta").is_meta
    for make in (
        lambda: gt.asarray([1], copy=False), lambda: gt.asarray(array, copy=False,
        dtype=gt.float32),
        lambda: gt.asarray(np.int64(1), copy=False),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="copy"):
            make()


def test_read_only_arrays_stay_read_only():
    array = np.arange(3)
    array.flags.writeable = False
    x = gt.from_numpy(array)
    with pytest.raises(ValueError):
        x[0] = 5
    assert array[0] == 0 and not x.numpy().flags.writeable


def test_negative_strides_of_a_dimension_never_walked():
    assert gt.from_numpy(np.arange(3)[::-1][:1]).tolist() == [2]


@pytest.mark.parametrize("array, error, says", [
    (np.arange(3)[::-1], ValueError, r"\.copy\(\)"),
    (np.arange(3).astype(">i4"), TypeError, r"\.astype\('int32'\)"),
    (np.array([object()]), TypeError, "astype"),
    (np.array(["a"]), TypeError, "dtype"),
    (np.zeros(2, [("a", "i4"), ("b", "i1")])["a"], ValueError, "multiples of 4"),
    (np.zeros(2, "M8[s]"), TypeError, "dtype"),
    (np.zeros(2, np.longdouble), TypeError, "dtype"),
    ([1, 2], TypeError, "ndarray"),
], ids=without_address(str))  # fmt: skip
def test_refusals(array, error, says):
    with pytest.raises(error, match=says) as caught:
        gt.from_numpy(array)
    assert isinstance(caught.value, errors.GpuTensorError) and "\n" not in str(caught.value)


def test_equal_to_an_array_is_by_element():
    x = gt.tensor([1, 2])
    for other in (np.array([1, 3]), np.array([1.0, 2.5]), np.array(1), np.array([[1], [1]])):
        wanted = (np.array([1, 2]) == other).tolist()
        for found in (x == other, other == x):
            assert isinstance(found, gt.Tensor) and found.tolist() == wanted
        for found in (x != other, other != x):
            assert found.tolist() == np.logical_not(wanted).tolist()
    for other in ([1, 2], (1, 2), "a", None, range(2)):
        assert (x == other) is False and (x != other) is True
    for other in (np.array(["a", "b"]), np.array([None, 1])):  # not tensors, but arrays
        assert (x == other).tolist() == [False] * 2 and (x != other).tolist() == [True] * 2
    with pytest.raises(RuntimeError, match="must broadcast"):
        assert x == np.array([1, 2, 3])


@pytest.mark.parametrize(
    "array", [np.arange(3.0)[::-1], np.arange(3, dtype=">f4")[::-1], np.arange(6.0)[4::-2]], ids=str
)
def test_arrays_that_tensors_cannot_share_are_compared_all_the_same(array: np.ndarray) -> None:
    expected = (np.arange(len(array)) == array).tolist()
    assert (gt.arange(3) == array).tolist() == expected
    assert (gt.arange(3) != array).tolist() == [not x for x in expected]
    assert (gt.tensor(1.0) == np.array(1.0, ">f8")).shape == ()
