"""TensorIteratorConfig and TensorIterator over tensors in memory; loops go through ctypes."""

from __future__ import annotations

import ctypes
import random
import threading

import numpy as np
import pytest

from gputensor.core import dtype as dt
from gputensor.core import errors
from gputensor.core.device import CPU
from gputensor.core.geometry import contiguous_geometry, geometry
from gputensor.iterator import split
from gputensor.structured.tensor_iterator import TensorIteratorConfig
from gputensor.runtime import cpu
from gputensor.tensor.make import allocate, view_of
from tests.harness import helper_threads
from tests.iterator import layouts

F32 = dt.float32


def tensor(sizes, strides=None, element=F32):
    g = geometry(sizes, strides, element) if strides else contiguous_geometry(sizes, element)
    made = allocate(g, CPU)
    array = made._get_array()
    array[...] = np.arange(array.size).reshape(sizes)
    return made


def row(address, stride, size, kind):
    """Return an ndarray over `size` elements from an address on."""
    itemsize = np.dtype(kind).itemsize
    length = (size - 1) * stride + itemsize
    memory = (ctypes.c_char * length).from_address(address)
    return np.ndarray((size,), kind, memory, 0, (stride,))


def add(data, stride_bytes, size0, size1):
    """out = a + b over two dimensions, as a native loop would."""
    n = len(data)
    for j in range(size1):
        out, a, b = (
            row(data[i] + j * stride_bytes[n + i], stride_bytes[i], size0, np.float32)
            for i in range(n)
        )
        out[...] = a + b


def binary(out, a, b, **flags):
    made = TensorIteratorConfig("add").add_output(out).add_input(a).add_input(b)
    made.promote_inputs_to_common_dtype(True).cast_common_dtype_to_outputs(True)
    made.enforce_safe_casting_to_output(True)
    for name, value in flags.items():
        getattr(made, name)(value)
    return made.build()


def test_what_it_says():
    a, b = tensor((2, 3)), tensor((2, 3), (1, 2))
    it = binary(None, a, b)
    assert (it.shape, it.ndim, it.numel, it.ntensors, it.noutputs) == ((3, 2), 2, 6, 3, 1)
    assert [it.strides(i) for i in range(3)] == [(4, 12), (4, 12), (8, 4)]
    assert [it.dtype(i) for i in range(3)] == [F32] * 3
    assert it.common_dtype is F32 and it.device() is CPU
    assert it.input(0) is a and it.input(1) is b and it.tensor(0) is it.output()
    assert it.data_ptr(1) == a.data_ptr() and it.data_ptr(0) == it.output().data_ptr()
    assert it.output()._geometry is contiguous_geometry((2, 3), F32)
    assert it.can_use_32bit_indexing()
    assert not it.accumulate and it.is_final_output
    assert repr(it).startswith("TensorIterator(shape=(3, 2), strides=((4, 12)")


@pytest.mark.parametrize("n_threads", [1, 2])
def test_for_each_equals_numpy_on_random_layouts(n_threads):
    rng = random.Random(30)
    before = cpu.get_num_threads()
    cpu.set_num_threads(n_threads)
    try:
        for _ in range(150):
            sizes, strides = layouts.random_layout(rng, 4)
            a = tensor(sizes, strides)
            b = tensor(*layouts.random_broadcastable(rng, sizes))
            expected = a._get_array() + b._get_array()
            it = binary(None, a, b)
            it.for_each(add, grain=8)
            np.testing.assert_array_equal(it.output()._get_array(), expected)
    finally:
        cpu.set_num_threads(before)


def test_for_each_uses_threads_from_its_grain_on():
    before = cpu.get_num_threads()
    helper_threads.anew(2)
    try:
        seen = set()
        barrier = threading.Barrier(2, timeout=60)

        def loop(data, stride_bytes, size0, size1):
            seen.add(threading.get_ident())
            barrier.wait()

        binary(None, tensor((64,)), tensor((64,))).for_each(loop, grain=32)
        assert len(seen) == 2
    finally:
        cpu.set_num_threads(before)


def test_serial_for_each_of_a_range():
    a, b = tensor((4, 5)), tensor((4, 5), (1, 4))
    it = binary(None, a, b)
    it.output()._get_array()[...] = -1
    it.serial_for_each(add, 3, 11)
    flat = it.output()._get_array().ravel()
    expected = (a._get_array() + b._get_array()).ravel()
    np.testing.assert_array_equal(flat[3:11], expected[3:11])
    assert (flat[:3] == -1).all() and (flat[11:] == -1).all()


def test_a_number_has_memory_in_the_common_dtype():
    it = binary(None, tensor((3,)), 2)
    assert (it.strides(2), it.dtype(2), it.input(1)) == ((0,), F32, 2)
    assert ctypes.c_float.from_address(it.data_ptr(2)).value == 2.0
    it.for_each(add)
    np.testing.assert_array_equal(it.output()._get_array(), [2, 3, 4])


def test_numpy_scalars_count_as_the_python_numbers_that_they_are():
    it = binary(None, tensor((3,), element=dt.int32), np.float64(1.5))
    assert it.common_dtype is F32


def test_zero_dim_and_empty():
    it = binary(None, tensor(()), tensor(()))
    assert (it.shape, it.numel) == ((), 1)
    it.for_each(add)
    assert it.output()._get_array() == 0
    it = binary(None, tensor((0, 3)), tensor((3,)))
    it.for_each(lambda *args: pytest.fail("called for no elements"))
    assert it.numel == 0


def test_parts_with_32bit_indexing(monkeypatch):
    a, b = tensor((6, 7)), tensor((6, 7), (1, 6))
    it = binary(None, a, b)
    monkeypatch.setattr(split, "MAX_32BIT", 40)
    assert not it.can_use_32bit_indexing()
    parts = list(it.with_32bit_indexing())
    assert len(parts) > 4 and all(p.can_use_32bit_indexing() for p in parts)
    assert sum(p.numel for p in parts) == 42
    for part in parts:
        part.serial_for_each(add)
    np.testing.assert_array_equal(it.output()._get_array(), a._get_array() + b._get_array())


def test_split():
    it = binary(None, tensor((2, 5)), tensor((2, 5), (1, 2)))
    first, second = it.split(0)
    assert (it.shape, first.shape, second.shape) == ((5, 2), (2, 2), (3, 2))
    assert first.data_ptr(1) == it.data_ptr(1)
    assert second.data_ptr(1) == it.data_ptr(1) + 2 * it.strides(1)[0]
    assert second.data_ptr(2) == it.data_ptr(2) + 2 * it.strides(2)[0]
    with pytest.raises(errors.IndexRangeError, match="add: 'dim' must be a dimension"):
        it.split(2)


def test_outputs_kept_resized_and_written_in_place():
    a = tensor((2, 3))
    out = tensor((2, 3), (1, 2))
    assert binary(out, a, a).output() is out
    empty = tensor((0,))
    assert binary(empty, a, a).output() is empty
    assert empty._geometry is contiguous_geometry((2, 3), F32)
    assert empty._get_array().shape == (2, 3)
    with pytest.warns(UserWarning, match="'out' was resized"):
        binary(tensor((5,)), a, a)
    it = binary(a, a, tensor((3,)))
    assert it.data_ptr(0) == it.data_ptr(1)
    with pytest.raises(errors.ShapeError, match="'self' must have the broadcast shape"):
        small = tensor((3,))
        binary(small, small, a)


def test_partial_overlap():
    base = tensor((6,))
    five = contiguous_geometry((5,), F32)
    with pytest.raises(errors.ArgumentError, match="add: 'input 0' must not share part"):
        binary(view_of(base, five, 1), view_of(base, five, 0), 1)
    binary(view_of(base, five, 1), view_of(base, five, 0), 1, set_check_mem_overlap=False)
    binary(view_of(base, five, 0), view_of(base, five, 0), 1)


def test_flags():
    i64 = tensor((3,), element=dt.int64)
    it = binary(None, i64, i64, promote_integer_inputs_to_float=True)
    assert it.common_dtype is F32
    it = binary(None, i64, i64, declare_static_dtype=dt.bool_)
    assert (it.dtype(0), it.common_dtype) == (dt.bool_, dt.int64)
    with pytest.raises(errors.DtypeError, match="'input 1' must be int64"):
        TensorIteratorConfig().add_output(None).add_input(i64).add_input(tensor((3,))).build()
    with pytest.raises(errors.DtypeError, match="result type float32"):
        binary(i64, tensor((3,)), 1)
    t = tensor((2, 3), (1, 2))
    it = TensorIteratorConfig().enforce_linear_iteration().add_output(None).add_input(t).build()
    assert (it.shape, it.strides(1)) == ((3, 2), (8, 4))
    out = tensor((2, 3))
    it = (
        TensorIteratorConfig().resize_outputs(False).add_output(out).add_input(tensor((3,))).build()
    )
    assert it.shape == (3, 2) and it.strides(1) == (4, 0)
    fresh = TensorIteratorConfig("fill").add_output(None).declare_static_shape((4, 2))
    with pytest.raises(errors.ArgumentError, match="given a device"):
        fresh.build()
    it = fresh.declare_static_device(CPU).declare_static_dtype(dt.int16).build()
    assert (it.shape, it.output()._geometry) == ((8,), contiguous_geometry((4, 2), dt.int16))


def test_misuse():
    with pytest.raises(errors.ArgumentError, match="'output' must be added before all inputs"):
        TensorIteratorConfig().add_input(tensor((3,))).add_output(None)
    with pytest.raises(errors.ArgumentTypeError, match="'input' must be a tensor or a number"):
        TensorIteratorConfig().add_input("x")
    with pytest.raises(errors.ArgumentError, match="follow promote_inputs_to_common_dtype"):
        TensorIteratorConfig().promote_integer_inputs_to_float(True)
