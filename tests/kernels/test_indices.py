"""Indices out of range, duplicates, many dimensions and masks, beyond the samples of rows."""

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


def _at(*indices: int, device: str = "cpu") -> Any:
    return gt.tensor(indices, dtype=gt.int64).to(device)


# name -> (call of a tensor of three elements and an index, whether -1 is the last element)
CALLS: dict[str, tuple[Any, bool]] = {
    "index": (lambda x, i: x[i], True),
    "index_put": (lambda x, i: x.index_put_((i,), x[:1]), True),
    "index_put_accumulate": (lambda x, i: x.index_put_((i,), x[:1], True), True),
    "gather": (lambda x, i: gt.gather(x, 0, i), False),
    "take": (lambda x, i: gt.take(x, i), True),
    "index_select": (lambda x, i: gt.index_select(x, 0, i), False),
    "scatter": (lambda x, i: x.scatter_(0, i, 1), False),
    "scatter_add": (lambda x, i: x.scatter_add_(0, i, x[:1].clone()), False),
    "scatter_reduce": (lambda x, i: x.scatter_reduce_(0, i, x[:1].clone(), "amax"), False),
    "index_add": (lambda x, i: x.index_add_(0, i, x[:1].clone()), False),
    "index_copy": (lambda x, i: x.index_copy_(0, i, x[:1].clone()), False),
    "index_fill": (lambda x, i: x.index_fill_(0, i, 7), True),
    "index_reduce": (lambda x, i: x.index_reduce_(0, i, x[:1].clone(), "amin"), False),
    "put": (lambda x, i: x.put_(i, x[:1].clone()), True),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wrong", [3, -1, -4, 1 << 40])
def test_an_index_out_of_range_is_named_and_nothing_is_written(name: str, wrong: int) -> None:
    call, wraps = CALLS[name]
    x = gt.tensor([1.0, 2.0, 3.0])
    if wraps and wrong == -1:
        call(x, _at(wrong))
        return
    low = -3 if wraps else 0
    rule = rf"{name.removesuffix('_accumulate')}_?: 'index' must be in \[{low}, 2\] at dimension 0"
    with pytest.raises(errors.IndexRangeError, match=rf"{rule} \(got {wrong}\)"):
        call(x, _at(wrong))
    assert x.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("name", CALLS)
def test_on_a_cuda_device_it_is_an_assertion(name: str) -> None:
    """The host does not wait for the kernel, so the call returns. No memory outside of the operands
    is accessed."""
    if not (gt.cuda.is_available() and gt.cuda.is_emulated()):
        pytest.skip("a failed assertion ends the use of a GPU in this process")
    call, _ = CALLS[name]
    x = gt.tensor([1.0, 2.0, 3.0]).to("cuda")
    with pytest.raises(errors.KernelError, match="assertion failed: .*an index is out of range"):
        call(x, _at(3, device="cuda"))
        gt.cuda.synchronize()
    assert call(x, _at(2, device="cuda")) is not None
    assert x.cpu().tolist()[:2] == [1.0, 2.0]


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_indices_that_repeat(device: str) -> None:
    x = gt.zeros(4, device=device)
    many = gt.tensor(np.arange(1000) % 3).to(device)
    ones = gt.ones(1000, device=device)
    for made in (
        gt.scatter_add(x, 0, many, ones),
        gt.index_add(x, 0, many, ones),
        gt.index_put(x, (many,), ones, True),
        x.put(many, ones, True),
    ):
        assert made.tolist() == [334.0, 333.0, 333.0, 0.0]


def test_the_last_of_several_values_stays_on_the_cpu() -> None:
    x = gt.zeros(2)
    x[[0, 0, 1, 0]] = gt.tensor([1.0, 2.0, 3.0, 4.0])
    assert x.tolist() == [4.0, 3.0]
    assert gt.scatter(x, 0, _at(1, 1), gt.tensor([5.0, 6.0])).tolist() == [4.0, 6.0]


@pytest.mark.parametrize("of", [gt.float16, gt.bfloat16])
def test_narrow_floats_are_added_up_wide(of: Any) -> None:
    """There are 2,048 ones: with consecutive additions in f16 or bf16 the sum would stop
    growing."""
    ones = gt.ones(4096, dtype=of)
    made = gt.index_add(gt.zeros(1, dtype=of), 0, gt.zeros(4096, dtype=gt.int64), ones)
    assert made.item() == 4096.0


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_many_dimensions_and_many_indices(device: str) -> None:
    array = np.arange(2**10).reshape((2,) * 10)
    x = gt.tensor(array).to(device)
    pick = [np.array([0, 1, 1])] * 2
    assert x[tuple(pick)].tolist() == array[tuple(pick)].tolist()
    turned = x.permute(9, 0, 8, 1, 7, 2, 6, 3, 5, 4)
    other = array.transpose(9, 0, 8, 1, 7, 2, 6, 3, 5, 4)
    assert turned[:, pick[0]].tolist() == other[:, pick[0]].tolist()
    small, six = gt.tensor(array.reshape(4, 4, 4, 4, 2, 2)).to(device), [np.array([1, 0, 1])] * 6
    assert small[tuple(six)].tolist() == array.reshape(4, 4, 4, 4, 2, 2)[tuple(six)].tolist()


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_masks_of_bytes_warn_and_cpu_indices_stand_beside_a_device(device: str) -> None:
    x = gt.arange(3).to(device)
    with pytest.warns(UserWarning, match="index: 'index' must be bool where it is a mask"):
        assert x[gt.tensor([1, 0, 1], dtype=gt.uint8)].tolist() == [0, 2]
    assert x[gt.tensor([2, 0])].tolist() == [2, 0]
    x[gt.tensor([True, False, False])] = 9
    assert x.tolist() == [9, 1, 2]


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_nonzero_of_many_blocks_is_in_order(device: str) -> None:
    array = np.random.default_rng(0).random((7, 3, 700)) < 0.3
    found = gt.tensor(array).to(device).nonzero()
    assert found.stride() == (1, found.shape[0])
    assert (found.cpu().numpy() == np.argwhere(array)).all()
    by_dimension = gt.nonzero(gt.tensor(array).to(device), as_tuple=True)
    assert [i.tolist() for i in by_dimension] == [i.tolist() for i in np.nonzero(array)]


def test_without_data_a_mask_has_no_sizes() -> None:
    x = gt.empty(3, 4, device="meta")
    assert x[[0, 1, 1]].shape == (3, 4)
    for call in (lambda: x[x > 0], lambda: x.nonzero(), lambda: gt.masked_select(x, x > 0)):
        with pytest.raises(NotImplementedError):
            call()


def test_gradients_through_indices() -> None:
    x = gt.ones(3, 4).requires_grad_()
    (x[[0, 0, 2], :2] * gt.tensor([1.0, 2.0])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[2, 4, 0, 0], [0] * 4, [1, 2, 0, 0]]
    y, v = (gt.zeros(3) * 1).requires_grad_(), gt.ones(2).requires_grad_()
    z = y * 2
    z[[0, 2]] = v * 3
    z.sum().backward()
    assert y.grad is not None and y.grad.tolist() == [0.0, 2.0, 0.0]
    assert v.grad is not None and v.grad.tolist() == [3.0, 3.0]
    assert z.grad_fn is not None


@pytest.mark.parametrize(
    "of", [gt.float32, gt.float16, gt.int32, gt.uint32, gt.float64], ids=lambda d: d.short
)
@pytest.mark.parametrize("sizes, dim", [((50, 300), 0), ((300, 1000), 1), ((3000,), 0)])
def test_what_is_found_without_sorting_is_what_sorting_gives(of, sizes, dim):
    """Elements repeat, and there are enough rows for several threads."""
    x = np.random.default_rng(0).integers(-9, 9, sizes).astype(of.np)  # large u32 numbers
    given, order = gt.from_numpy(x), np.argsort(x, dim, kind="stable")
    for k in (1, 7, sizes[dim]):
        assert (gt.kthvalue(given, k, dim).indices.numpy() == np.take(order, k - 1, dim)).all()
    middle = np.take(order, (sizes[dim] - 1) // 2, dim)
    assert (gt.median(given, dim).indices.numpy() == middle).all()
    assert (gt.topk(given, 5, dim, False).indices.numpy() == np.take(order, range(5), dim)).all()
    assert (gt.sort(given, dim).indices.numpy() == order).all()


@pytest.mark.parametrize("device", ["cpu", "meta", CUDA])
@pytest.mark.parametrize("dtype", [gt.uint8, gt.bool, gt.int8, gt.float32, gt.int64], ids=str)
def test_an_index_without_elements_is_of_any_dtype(dtype: Any, device: str) -> None:
    x = gt.ones(2, 3, device=device, requires_grad=True)
    index = gt.empty(0, dtype=dtype, device=device)
    found = gt.gather(x, 1, index)
    found.sum().backward()
    assert found.shape == (0,) and x.grad is not None
    assert device == "meta" or x.grad.tolist() == [[0.0] * 3] * 2
    none = gt.empty(0, device=device)
    for call in (
        lambda: gt.scatter(x, 0, index, none),
        lambda: gt.scatter(x, 0, index, 2.0),
        lambda: gt.scatter_add(x, 0, index, none),
        lambda: gt.scatter_reduce(x, 0, index, none, "amax"),
    ):
        made = call()
        assert made.shape == (2, 3) and (device == "meta" or made.tolist() == x.tolist())
