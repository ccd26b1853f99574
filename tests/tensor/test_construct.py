"""gt.tensor without PyTorch: a table of dtypes and values, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors

CUDA = pytest.param(
    "cuda",
    marks=pytest.mark.skipif(not gt.cuda.is_available(), reason="no CUDA device, nor the emulator"),
)


@pytest.mark.parametrize("data, dtype, shape", [
    (1, "int64", ()), (1.0, "float32", ()), (True, "bool", ()), (1j, "complex64", ()), ([],
    "float32", (0,)),
    ([[1, 2], [3, 4]], "int64", (2, 2)), ([1, 2.5], "float32", (2,)), ([True, 2], "int64", (2,)),
    ([1, 1j], "complex64", (2,)),
    ([[], []], "float32", (2, 0)), (((1,), [2]), "int64", (2, 1)), (range(3), "int64", (3,)),
    (np.float64(1), "float64", ()), ([np.int8(1), np.int8(2)], "int8", (2,)), (np.zeros((2, 3),
    np.float16), "float16", (2, 3)),
    ([np.arange(2), np.arange(2)], "int64", (2, 2)), ([np.int8(1), 2.5], "float32", (2,)),
], ids=str)  # fmt: skip
def test_inferred_dtype_and_shape(data, dtype, shape):
    x = gt.tensor(data)
    assert (x.dtype.name, x.shape) == (dtype, shape) and x.is_contiguous()


@pytest.mark.parametrize("data, dtype, values", [
    ([1.7, -1.7], "int64", [1, -1]), ([-1], "uint8", [255]), ([2**64 - 1], "uint64", [2**64 - 1]),
    ([0.0, 0.5], "bool", [False, True]),
    ([1e300], "float32", [float("inf")]), ([65520.0], "float16", [float("inf")]), ([1],
    "complex128", [1 + 0j]), ([2**70], "float64", [2.0**70]),
    ([3, True], "bfloat16", [3.0, 1.0]),
], ids=str)  # fmt: skip
def test_given_dtype(data, dtype, values):
    x = gt.tensor(data, dtype=getattr(gt, dtype))
    assert x.dtype.name == dtype and x.tolist() == values


def test_it_always_copies():
    array = np.arange(3)
    x = gt.tensor(array)
    y = gt.tensor(x)
    array[0] = x[1] = 9
    assert x.tolist() == [0, 9, 2] and y.tolist() == [0, 1, 2]
    assert gt.tensor(np.arange(3)[::-1]).tolist() == [2, 1, 0]
    assert gt.tensor(y, dtype=gt.float32).tolist() == [0.0, 1.0, 2.0]


def test_devices():
    assert gt.tensor([1, 2], device="meta").is_meta
    with gt.device("meta"):
        assert gt.tensor([1]).is_meta
    assert gt.tensor(gt.empty(2, device="meta")).is_meta


def test_default_dtype():
    plain = gt.tensor([1.5])
    total = gt.tensor([1, 2]) + 0.5  # a plan that must not outlive the change
    gt.set_default_dtype(gt.float64)
    try:
        assert gt.get_default_dtype() is gt.float64
        assert gt.tensor([1.5]).dtype is gt.float64 and gt.tensor([1j]).dtype is gt.complex128
        assert (gt.tensor([1, 2]) + 0.5).dtype is gt.float64 and gt.finfo().bits == 64
    finally:
        gt.set_default_dtype(gt.float32)
    assert plain.dtype is total.dtype is (gt.tensor([1, 2]) + 0.5).dtype is gt.float32
    for wrong in (gt.int64, gt.complex64, "float32", None):
        with pytest.raises(TypeError, match="floating-point dtype"):
            gt.set_default_dtype(wrong)


def test_limits():
    assert repr(gt.finfo(gt.float32)) == (
        "finfo(resolution=1e-06, min=-3.40282e+38, max=3.40282e+38, eps=1.19209e-07, "
        "smallest_normal=1.17549e-38, tiny=1.17549e-38, dtype=float32)"
    )
    assert gt.finfo(gt.complex128) == gt.finfo(gt.float64) and gt.finfo(gt.bfloat16).eps == 2**-7
    assert (gt.iinfo(gt.uint64).max, gt.iinfo(gt.int8).min, gt.iinfo(gt.int16).bits) == (
        2**64 - 1,
        -128,
        16,
    )
    for make in (
        lambda: gt.finfo(gt.int8),
        lambda: gt.iinfo(gt.float32),
        lambda: gt.iinfo(gt.bool),
        lambda: gt.finfo("x"),
    ):
        with pytest.raises(TypeError):
            make()


@pytest.mark.parametrize("data, options, error, says", [
    ([[1, 2], [3]], {}, ValueError, "length 2 at dim 1 (got 1)"),
    ([[1], 2], {}, ValueError, "length 1 at dim 1 (got 2)"),
    ([1, [2]], {}, ValueError, "dim 1"),
    ("a", {}, TypeError, "made of numbers"),
    ([None], {}, TypeError, "NoneType"),
    ({1: 2}, {}, TypeError, "dict"),
    (np.array(["a"]), {}, TypeError, "dtype"),
    ([300], {"dtype": gt.uint8}, RuntimeError, "range of uint8 (got 300)"),
    ([-1], {"dtype": gt.uint64}, RuntimeError, "range of uint64 (got -1)"),
    ([float("nan")], {"dtype": gt.int32}, RuntimeError, "range of int32 (got nan)"),
    ([2**63], {}, RuntimeError, "range of int64"),
    ([10**400], {"dtype": gt.float64}, RuntimeError, "range of float64"),
    ([1j], {"dtype": gt.float32}, TypeError, "complex"),
    ([gt.arange(2)], {}, RuntimeError, "one element"),
    ([1], {"dtype": "float32"}, TypeError, "gputensor dtype"),
    ([1], {"requires_grad": True}, RuntimeError, "floating point"),
], ids=str)  # fmt: skip
def test_refusals(data, options, error, says):
    with pytest.raises(error) as caught:
        gt.tensor(data, **options)
    assert says in str(caught.value) and isinstance(caught.value, errors.GpuTensorError)
    assert "\n" not in str(caught.value)


class Column:
    """Like a column of a table: an array, a sequence and a mapping at once, with indices from 5."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.values.flags.writeable = False

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, key):
        return self.values[key - 5]

    def keys(self):
        return range(5, 5 + len(self.values))


@pytest.mark.parametrize(
    "values", [[1, 2, 3], [1.5, 2.5], [True, False], [[1, 2], [3, 4]]], ids=str
)
def test_what_has_an_array_is_copied(values):
    made = gt.tensor(Column(values))
    assert made.tolist() == values and made.dtype == gt.asarray(np.asarray(values)).dtype
    made.fill_(1)  # a copy, because the source may be read-only
    assert gt.tensor(Column(values), dtype=gt.float16).dtype is gt.float16
    assert gt.as_tensor(Column(values)).tolist() == values
    assert gt.tensor(Column(values), device="meta").is_meta


# Lengths of PyTorch 2.13: int64 uses rounded bounds, narrower integers the given bounds.
RANGES = [
    ((3.1,), [0, 1, 2], [0, 1, 2, 3]),
    ((-0.9, 2.1, 2.0), [0], [0, 2]),
    ((0, 7, 1.5), [0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4]),
    ((-0.5, -3.9, -1), [0, -1, -2], [0, -1, -2, -3]),
]


@pytest.mark.parametrize("bounds, of_int64, of_int32", RANGES, ids=str)
@pytest.mark.parametrize("device", ["cpu", "meta", CUDA])
def test_ranges_of_integers_between_floats(bounds, of_int64, of_int32, device):
    whole = (0, *bounds, 1) if len(bounds) == 1 else bounds
    for dtype, wanted in ((gt.int64, of_int64), (gt.int32, of_int32), (gt.int8, of_int32)):
        made = gt.arange(*bounds, dtype=dtype, device=device)
        out = gt.arange(*whole, out=gt.empty(0, dtype=dtype, device=device))
        for x in (made, out):
            assert x.dtype is dtype and x.shape == (len(wanted),)
            assert device == "meta" or x.tolist() == wanted


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8", "bool", "float32"])
def test_a_logspace_of_one_element_cuts_after_the_power(dtype):
    element = getattr(gt, dtype)
    wanted = gt.tensor([2.0**2.5], dtype=element)
    assert gt.logspace(2.5, 9, 1, 2.0, dtype=element).tolist() == wanted.tolist()
    out = gt.empty(0, dtype=element)
    assert gt.logspace(2.5, 9, 1, 2.0, out=out).tolist() == wanted.tolist()
    assert gt.logspace(2.5, 9, 1, 2.0, dtype=element, device="meta").shape == (1,)
    with pytest.raises(errors.ArgumentError, match="'start' must be real"):
        gt.logspace(2j, 9, 1, 2.0, dtype=element)


def test_a_logspace_of_one_element_must_fit():
    with pytest.raises(
        errors.NumberRangeError, match="logspace: 'start' must be in the range of int16"
    ):
        gt.logspace(7, 0, 1, dtype=gt.int16)


def test_asarray_and_requires_grad() -> None:
    x = gt.ones(2, requires_grad=True)
    assert gt.asarray(x) is x and gt.asarray(x, copy=True).requires_grad
    left = gt.asarray(x, requires_grad=False)
    assert not left.requires_grad and left.data_ptr() == x.data_ptr() and x.requires_grad
    made = gt.asarray(np.ones(2), requires_grad=True)
    assert made.requires_grad and made.is_leaf
    assert not gt.asarray([1.0]).requires_grad


def test_cpu_takes_a_memory_format() -> None:
    x = gt.ones(1, 2, 3, 4)
    made = x.cpu(memory_format=gt.channels_last)
    assert made.is_contiguous(memory_format=gt.channels_last) and x.cpu() is x


@pytest.mark.parametrize("make", [
    lambda **k: gt.zeros(2, 3, **k), lambda **k: gt.ones((2, 3), **k),
    lambda **k: gt.full((2, 3), 5, **k),
], ids=["zeros", "ones", "full"])  # fmt: skip
def test_factories_write_to_out(make: Any) -> None:
    out = gt.empty(2, 3, dtype=gt.int16)
    assert make(out=out) is out and out.tolist() == make().tolist()
    assert make(out=out, dtype=gt.int16, device="cpu") is out
    for wrong in ({"dtype": gt.float64}, {"device": "meta"}):
        before = out.fill_(3).tolist()
        with pytest.raises(gt.GpuTensorError, match="'out' must be o"):
            make(out=out, **wrong)
        assert out.tolist() == before
