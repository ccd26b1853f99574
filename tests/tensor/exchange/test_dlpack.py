"""DLPack without PyTorch: all dtypes and layouts through capsules and back, freeing of memory."""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import dtype as dt
from gputensor.core import errors
from gputensor.tensor import dlpack

LAYOUTS = [
    lambda x: x, lambda x: x.transpose(0, 2), lambda x: x[:, 1:], lambda x: x[1, ::2, 1],
    lambda x: x[0, 0, 0],
    lambda x: x[:, 0:0], lambda x: x.unsqueeze(1).expand(2, 5, 3, 4), lambda x: x.as_strided((1,
    3), (99, 1)),
]  # fmt: skip


def numbers(element):
    flat = np.arange(24) % (2 if element is dt.bool_ else 100)
    return gt.asarray(flat.astype(element.np)).reshape(2, 3, 4)


class Producer:
    """Exports capsules like another library, in the given DLPack version."""

    def __init__(self, tensor, max_version):
        self.tensor, self.version = tensor, max_version

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None):
        return self.tensor.__dlpack__(max_version=self.version, dl_device=dl_device, copy=copy)


@pytest.mark.parametrize("element", dt.ALL, ids=lambda d: d.name)
def test_round_trip_shares_and_keeps_strides(element):
    for version in (None, (0, 8), (1, 0), (1, 2)):
        for look in LAYOUTS:
            check_round_trip(look(numbers(element)), version)


def check_round_trip(x, version):
    y = gt.from_dlpack(Producer(x, version))
    assert (y.dtype, y.shape, y.stride()) == (x.dtype, x.shape, x.stride())
    assert y.data_ptr() == x.data_ptr()
    assert y.tolist() == x.tolist()
    if x.numel():
        x.fill_(1)
        assert y.tolist() == x.tolist()


@pytest.mark.parametrize(
    "element", [d for d in dt.ALL if d is not dt.bfloat16], ids=lambda d: d.name
)
def test_numpy_takes_and_gives(element):
    x = numbers(element).transpose(0, 2)
    array = np.from_dlpack(x)
    assert array.dtype == element.np and array.strides == x._geometry.stride_bytes
    assert array.__array_interface__["data"][0] == x.data_ptr()
    back = gt.from_dlpack(array)
    assert back.stride() == x.stride() and back.data_ptr() == x.data_ptr()
    assert back.dtype is element


def capsule_flags(capsule):
    name = dlpack.get_name(capsule)
    managed = dlpack.STRUCTS[name].from_address(dlpack.get_pointer(capsule, name))
    return name, managed.flags if name == b"dltensor_versioned" else None


def test_version_and_flags():
    x = gt.arange(3)
    assert capsule_flags(x.__dlpack__()) == (b"dltensor", None)
    assert capsule_flags(x.__dlpack__(max_version=(0, 8))) == (b"dltensor", None)
    assert capsule_flags(x.__dlpack__(max_version=(1, 0))) == (b"dltensor_versioned", 0)
    assert capsule_flags(x.__dlpack__(max_version=(1, 0), copy=True))[1] == dlpack.IS_COPIED
    assert capsule_flags(x.__dlpack__(max_version=(1, 0), copy=False))[1] == 0
    assert x.__dlpack_device__() == (1, 0)


def test_read_only_is_passed_on():
    array = np.arange(3.0)
    array.flags.writeable = False
    x = gt.from_numpy(array)
    assert capsule_flags(x.__dlpack__(max_version=(1, 0)))[1] == dlpack.READ_ONLY
    with pytest.raises(errors.ExchangeError, match="clone"):
        x.__dlpack__()
    y = gt.from_dlpack(x)
    assert not y.numpy().flags.writeable and y.data_ptr() == x.data_ptr()
    with pytest.raises(ValueError):
        y.fill_(1)
    assert gt.from_dlpack(array).tolist() == [0.0, 1.0, 2.0]  # NumPy's own read-only capsule
    assert gt.from_dlpack(x, copy=True).numpy().flags.writeable


def test_copy_and_device_keywords():
    x = gt.arange(4)
    assert gt.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    assert gt.from_dlpack(x, copy=False).data_ptr() == x.data_ptr()
    assert gt.from_dlpack(x, device="cpu").data_ptr() == x.data_ptr()
    assert gt.from_dlpack(x, device="meta").is_meta
    with pytest.raises(errors.ExchangeError, match="device"):
        gt.from_dlpack(x, device="meta", copy=False)
    with pytest.raises(BufferError, match="dl_device"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="stream"):
        x.__dlpack__(stream=3)
    assert x.__dlpack__(stream=-1, dl_device=(1, 0)) is not None


def test_a_capsule_is_taken_once():
    capsule = gt.arange(3).__dlpack__()
    assert gt.from_dlpack(capsule).tolist() == [0, 1, 2]
    with pytest.raises(errors.ExchangeError, match="that is not consumed yet"):
        gt.from_dlpack(capsule)


# --- lifetimes ------------------------------------------------------------------------------------


def buffer_of(x):
    """Return a weak reference to the memory, which dies when the memory is freed."""
    return weakref.ref(x._get_storage().data)


@pytest.mark.parametrize("version", [None, (1, 0)], ids=str)
def test_consumer_keeps_memory_alive_and_frees_it(version):
    x = gt.arange(100)
    memory = buffer_of(x)
    y = gt.from_dlpack(Producer(x, version))
    z = y[3:5]
    del x, y
    gc.collect()
    assert memory() is not None and z.tolist() == [3, 4]
    del z
    gc.collect()
    assert memory() is None


@pytest.mark.parametrize("version", [None, (1, 0)], ids=str)
def test_unused_capsule_frees(version):
    x = gt.arange(100)
    memory = buffer_of(x)
    capsule = x.__dlpack__(max_version=version)
    del x
    gc.collect()
    assert memory() is not None
    del capsule
    gc.collect()
    assert memory() is None


@pytest.mark.parametrize("version", [None, (1, 0)], ids=str)
def test_failing_import_leaves_the_capsule_to_its_producer(version):
    x = gt.arange(100)
    memory = buffer_of(x)
    capsule = x.__dlpack__(max_version=version)
    name = dlpack.get_name(capsule)
    dlpack.STRUCTS[name].from_address(dlpack.get_pointer(capsule, name)).tensor.lanes = 2
    with pytest.raises(errors.ExchangeError, match="dtype"):
        gt.from_dlpack(capsule)
    assert dlpack.get_name(capsule) == name
    del x, capsule
    gc.collect()
    assert memory() is None


def test_deleter_runs_once_and_when_the_last_view_goes():
    freed = []
    array = np.arange(6.0)
    shape, strides = (ctypes.c_int64 * 1)(6), (ctypes.c_int64 * 1)(1)

    @dlpack.Deleter
    def deleter(address):
        freed.append(address)

    managed = dlpack._ManagedVersioned(
        major=1, minor=0, deleter=ctypes.cast(deleter, ctypes.c_void_p).value
    )
    managed.tensor = dlpack._DLTensor(
        data=array.ctypes.data, device_type=1, ndim=1, code=2, bits=64, lanes=1, shape=shape,
        strides=strides,
        byte_offset=8,
    )  # fmt: skip
    shape[0] = 5
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    capsule = make(ctypes.addressof(managed), b"dltensor_versioned", None)
    x = gt.from_dlpack(capsule)
    view = x[1:3]
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]  # byte_offset counts
    del x, capsule
    gc.collect()
    assert not freed and view.tolist() == [2.0, 3.0]
    del view
    gc.collect()
    assert freed == [ctypes.addressof(managed)]


def test_nothing_leaks():
    x = gt.arange(10).reshape(2, 5).t()
    keeper = x._get_storage().data
    for version in (None, (1, 0)):
        gt.from_dlpack(Producer(x, version))
        x.__dlpack__(max_version=version)
    gc.collect()
    before = sys.getrefcount(keeper)
    for _ in range(50):
        for version in (None, (1, 0)):
            gt.from_dlpack(Producer(x, version))
            x.__dlpack__(max_version=version)
            np.from_dlpack(x)
    gc.collect()
    assert sys.getrefcount(keeper) == before


# --- refusals -------------------------------------------------------------------------------------


class Old:
    """A producer from before DLPack 1.0: no keywords but stream."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


def test_producers_before_version_1():
    assert gt.from_dlpack(Old(np.arange(3))).tolist() == [0, 1, 2]


@pytest.mark.parametrize("make, error, says", [
    (lambda: gt.from_dlpack(np.arange(5)[::-1]), BufferError, "negative strides"),
    (lambda: gt.from_dlpack([1, 2]), TypeError, "__dlpack__"),
    (lambda: gt.empty(2, device="meta").__dlpack__(), BufferError, "meta"),
    (lambda: gt.empty(2, device="meta").__dlpack_device__(), BufferError, "meta"),
])  # fmt: skip
def test_refusals(make, error, says):
    with pytest.raises(error, match=says) as caught:
        make()
    assert isinstance(caught.value, errors.GpuTensorError)
    assert "\n" not in str(caught.value)
