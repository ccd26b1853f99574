"""Functions and methods without an operator: properties of tensors, dtypes and sizes, gt.norm."""

from __future__ import annotations

import math

import pytest

import gputensor as gt
from gputensor.core import errors


def test_what_a_tensor_is() -> None:
    x = gt.ones(2, 3, dtype=gt.complex64)
    assert gt.is_tensor(x) and not gt.is_tensor([1.0])
    assert gt.is_complex(x) and not gt.is_floating_point(x) and gt.is_signed(x)
    assert gt.numel(x) == 6 and x.ndimension() == 2
    assert gt.is_same_size(x, gt.zeros(2, 3)) and not x.is_same_size(gt.zeros(3, 2))
    assert gt.is_nonzero(gt.tensor([2.0])) and not gt.tensor(0).is_nonzero()
    with pytest.raises(TypeError, match="numel: 'input' must be a Tensor"):
        gt.numel([1])
    with pytest.raises(RuntimeError):
        gt.is_nonzero(x)


def test_where_dtypes_and_sizes_meet() -> None:
    assert gt.result_type(gt.tensor([1], dtype=gt.int8), 2) is gt.int8
    assert gt.result_type(gt.tensor([1]), gt.tensor(1.0, dtype=gt.float64)) is gt.float64
    assert gt.result_type(1, 2j) is gt.complex64
    assert gt.broadcast_shapes((3, 1), 4, (2, 1, 1)) == (2, 3, 4) and gt.broadcast_shapes() == ()
    with pytest.raises(errors.ArgumentError, match=r"'shapes' must broadcast with \(3,\)"):
        gt.broadcast_shapes((3,), (4,))
    with pytest.raises(TypeError, match="'tensor2' must be a Tensor or a number"):
        gt.result_type(1, "2")


def test_constants_and_the_default_device() -> None:
    assert (gt.pi, gt.e, gt.inf) == (math.pi, math.e, math.inf) and math.isnan(gt.nan)
    assert gt.ones(2)[gt.newaxis].shape == (1, 2)
    assert gt.get_default_device() == gt.device("cpu")


def test_methods_by_python_alone() -> None:
    x = gt.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.type() == "gputensor.FloatTensor" and x.type(gt.int32).dtype is gt.int32
    assert x.clone().apply_(lambda v: v * 2).tolist() == [[2, 4], [6, 8]]
    z = gt.tensor([[1 + 2j, 3j]])
    assert z.H.tolist() == [[1 - 2j], [-3j]]
    with pytest.raises(errors.ArgumentError, match="'self' must be a matrix"):
        _ = gt.ones(2, 2, 2).H
    assert f"{gt.tensor(3)} {gt.tensor(0.5):.2f}" == "3 0.50"
    assert f"{gt.tensor([1])}" == "tensor([1])"
    with pytest.raises(errors.ArgumentError, match="'self' must be on the CPU"):
        gt.ones(2, device="meta").apply_(abs)


def test_frombuffer_shares_memory() -> None:
    memory = bytearray(12)
    x = gt.frombuffer(memory, dtype=gt.float32, offset=4)
    x.fill_(1)
    assert x.shape == (2,) and memory == bytes([0, 0, 0, 0]) + b"\0\0\x80?" * 2
    with pytest.raises(errors.ArgumentError, match="frombuffer: 'buffer' must hold"):
        gt.frombuffer(bytearray(3), dtype=gt.float32)


def test_unravel_index() -> None:
    found = gt.unravel_index(gt.tensor([[5, 11]]), (3, 4))
    assert [x.tolist() for x in found] == [[[1, 2]], [[1, 3]]]
    found = gt.unravel_index(gt.tensor([3, 200], dtype=gt.uint8), (2, 300))
    assert [(x.tolist(), x.dtype) for x in found] == [([0, 0], gt.int64), ([3, 200], gt.int64)]
    with pytest.raises(errors.DtypeError, match="'indices' must be whole numbers"):
        gt.unravel_index(gt.tensor([0.5]), (3,))


def test_norm_by_name() -> None:
    x = gt.tensor([[3.0, 0.0], [0.0, 4.0]], requires_grad=True)
    assert gt.norm(x).item() == x.norm(p="fro").item() == 5.0
    assert gt.norm(x, "nuc").item() == pytest.approx(7.0)
    assert x.norm("fro", 0).tolist() == [3.0, 4.0]
    assert gt.norm(x, keepdim=True).shape == (1, 1)
    assert x.norm(1, 1, True, gt.float64).dtype is gt.float64
    out = gt.empty(0)
    assert gt.norm(x.detach(), "nuc", (0, 1), out=out) is out and out.item() == pytest.approx(7.0)
    gt.norm(x, "nuc").backward()
    assert gt.allclose(x.grad, gt.eye(2))
    with pytest.raises(errors.ArgumentError, match="'ord' must be fro, nuc"):
        gt.norm(x, "max")


def test_a_storage_says_its_size_and_address() -> None:
    x = gt.arange(6.0)
    storage = x[2:].untyped_storage()
    assert storage.nbytes() == storage.size() == len(storage) == 24
    assert storage.data_ptr() == x.data_ptr()


def test_a_tensor_stands_for_its_storage() -> None:
    x, source = gt.zeros(3), gt.arange(6.0)
    assert x.set_(source[1:], 1, [2, 2]).tolist() == [[2, 3], [4, 5]]
    assert x.untyped_storage() is source.untyped_storage()
    for wrong in (source.double(), source[::2]):
        with pytest.raises(gt.GpuTensorError, match="'source' must"):
            x.set_(wrong, 0, [1])


def test_type_takes_the_names_that_it_gives() -> None:
    x = gt.ones(2)
    for name in ("gputensor.LongTensor", "torch.LongTensor", "gputensor.DoubleTensor"):
        assert x.type(name).type().partition(".")[2] == name.partition(".")[2]
    for name in ("LongTensor", "gputensor.LongerTensor", "numpy.LongTensor", "", "a.b.LongTensor"):
        with pytest.raises(errors.ArgumentError, match="type: 'dtype' must be a dtype, or a name"):
            x.type(name)


def test_new_tensor_takes_dtype_and_device_of_its_tensor_and_copies() -> None:
    x = gt.ones(2, dtype=gt.float64, requires_grad=True)
    made = x.new_tensor([1, 2])
    assert made.dtype is gt.float64 and made.tolist() == [1.0, 2.0] and not made.requires_grad
    assert x.new_tensor([1, 2], dtype=gt.int32).dtype is gt.int32
    copied = x.new_tensor(x, requires_grad=True)
    assert copied.data_ptr() != x.data_ptr() and copied.is_leaf and copied.requires_grad
    assert x.to("meta").new_tensor([1.0]).device.type == "meta"


def test_T_reverses_all_dimensions() -> None:
    x = gt.arange(24).reshape(2, 3, 4)
    with pytest.warns(UserWarning, match=r"T: 'self' should have at most 2 dimensions \(got i64"):
        assert x.T.equal(x.permute(2, 1, 0))
    for y in (x[0], x[0, 0], x[0, 0, 0]):
        assert y.T.shape == y.shape[::-1]


def test_parts_of_complex_numbers_are_assigned() -> None:
    x = gt.tensor([1 + 2j, 3 - 4j])
    x.real, x[:1].imag = gt.tensor([5.0, 6.0]), gt.tensor([7])
    assert x.tolist() == [5 + 7j, 6 - 4j]
    y = gt.ones(2)
    y.real = gt.tensor(3.0)
    assert y.tolist() == [3, 3]
    with pytest.raises(TypeError, match="copy_: 'src' must be a Tensor"):
        x.real = 1  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="imag: 'self' must be complex"):
        y.imag = gt.ones(2)


def test_roll_takes_none_for_all_dims() -> None:
    assert gt.tensor([[1, 2], [3, 4]]).roll(1, dims=None).tolist() == [[4, 1], [2, 3]]


def test_asarray_takes_capsules() -> None:
    x = gt.ones(2)
    assert gt.asarray(x.__dlpack__()).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("p", [None, 1, -1, 2, math.inf, "fro", "nuc"])
def test_the_condition_of_a_singular_matrix_is_infinite(p: object) -> None:
    x = gt.eye(3)
    x[2, 2] = 0
    assert gt.linalg.cond(gt.stack([x, 2 * gt.eye(3)]), p).isinf().tolist() == [True, False]


def test_the_private_name_of_the_gradient() -> None:
    x = gt.ones(2, requires_grad=True)
    x._grad = gt.ones(2)
    assert x.grad is x._grad and x.grad is not None
    x._grad = None
    assert x.grad is None
