"""x[index] and x[index] = value: views, copies, and the number of dispatches of a call."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import gputensor as gt
from gputensor.dispatch import trace


@pytest.fixture
def x():
    return gt.arange(24).reshape(2, 3, 4)


def hops(call):
    with trace() as lines:
        call()
    return [line for line in lines if line.startswith("[call]")]


def test_reversed_reverses_the_first_dimension(x):
    assert reversed(x).tolist() == x.tolist()[::-1]
    assert reversed(gt.tensor(3)).item() == 3


def test_int_and_slice_are_one_dispatch_call(x):
    assert len(hops(lambda: x[1])) == 1
    assert len(hops(lambda: x[1:])) == 1
    assert len(hops(lambda: x[:, 1])) == 1
    assert len(hops(lambda: x[0, 1])) == 2


@pytest.mark.parametrize("index, sizes, strides, offset", [
    (1, (3, 4), (4, 1), 12),
    (-1, (3, 4), (4, 1), 12),
    (np.int64(1), (3, 4), (4, 1), 12),
    (slice(1, None), (1, 3, 4), (12, 4, 1), 12),
    (slice(None), (2, 3, 4), (12, 4, 1), 0),
    (slice(None, None, 2), (1, 3, 4), (24, 4, 1), 0),
    (..., (2, 3, 4), (12, 4, 1), 0),
    ((), (2, 3, 4), (12, 4, 1), 0),
    (None, (1, 2, 3, 4), (24, 12, 4, 1), 0),
    ((..., None), (2, 3, 4, 1), (12, 4, 1, 1), 0),
    ((0, ..., 2), (3,), (4,), 2),
    ((slice(None), 1, slice(1, 3)), (2, 2), (12, 1), 5),
    ((1, None, 2, 3), (1,), (12,), 23),
    (slice(5, 2), (0, 3, 4), (12, 4, 1), 24),
])  # fmt: skip
def test_views(x, index, sizes, strides, offset):
    view = x[index]
    assert (view.shape, view.stride(), view.storage_offset()) == (sizes, strides, offset)
    assert view.untyped_storage() is x.untyped_storage() and view is not x


def test_zero_dim_tensors_are_ints_and_bools(x):
    one = gt.tensor(1)
    assert x[one].data_ptr() == x[1].data_ptr()
    assert x[:, one, one:].tolist() == [[5, 6, 7], [17, 18, 19]]
    assert x[gt.tensor(True)].shape == (1, 2, 3, 4)
    assert x[gt.tensor(2, dtype=gt.int16) - 1].tolist() == x[1].tolist()


PAIR = [gt.tensor([0, 1]), gt.tensor([1, 2])]


@pytest.mark.parametrize("index", [
    [slice(None), slice(1, 2)], [None, 0], [..., 1], [0, slice(None)], [[0, 1], [1, 0]],
    [gt.tensor(0), gt.tensor(1)], PAIR, [range(2), range(2)], [np.array([0, 1]), 2],
    [[True, False]], [[0, 1], slice(None), [1, 3]],
], ids=str)  # fmt: skip
def test_a_list_of_items_counts_as_a_tuple(x, index):
    with pytest.warns(UserWarning, match="counts as a tuple"):
        got = x[index]
    assert got.tolist() == x[tuple(index)].tolist()
    y, z = x.clone(), x.clone()
    with pytest.warns(UserWarning, match="counts as a tuple"):
        y[index] = 7
    z[tuple(index)] = 7
    assert y.tolist() == z.tolist()


@pytest.mark.parametrize("index", [[0, 1], [np.int64(1)], [True, False], [[0, 1]] * 32], ids=str)
def test_other_lists_are_arrays(x, index):
    assert x[index].tolist() == x[gt.tensor(np.array(index))].tolist()


def test_bools_copy(x):
    assert x[True].shape == (1, 2, 3, 4) and x[False].shape == (0, 2, 3, 4)
    assert x[True].data_ptr() != x.data_ptr()
    assert x[1, True].tolist() == [x[1].tolist()]
    x[True] = 5
    x[False] = 9
    assert x.sum().item() == 5 * 24


def test_negative_steps_flip(x):
    flipped = x[::-1, :, ::-2]
    assert flipped.tolist() == x.numpy()[::-1, :, ::-2].tolist()
    assert min(flipped.stride()) >= 0 and flipped.data_ptr() != x.data_ptr()
    assert x[1:1:-1].shape == (0, 3, 4)


@pytest.mark.parametrize("index, value", [
    (slice(None, None, -1), [[0], [1], [2]]),
    ((0, slice(None, None, -1)), [1, 2, 3, 4]),
    ((slice(2, 0, -1), slice(None, None, -2)), [[1, 2], [3, 4]]),
    ((slice(None, None, -1), 1), [7, 8, 9]),
    ((slice(None, None, -1), 1), [7]),
    ((..., slice(None, None, -1)), [1, 2, 3, 4]),
], ids=str)  # fmt: skip
def test_negative_steps_write_as_numpy_does(index, value):
    ours, array = gt.zeros(3, 4, dtype=gt.int64), np.zeros((3, 4), np.int64)
    ours[index] = gt.tensor(value)
    array[index] = value
    assert ours.tolist() == array.tolist()


def test_reversing_in_place():
    x = gt.arange(5)
    x[::-1] = x
    assert x.tolist() == [4, 3, 2, 1, 0]


class Number(enum.IntEnum):
    THREE = 3


@pytest.mark.parametrize("value, stored", [
    (2, 2), (True, 1), (2.9, 2), (np.float32(3), 3), (np.int8(4), 4), (np.bool_(True), 1),
    (Number.THREE, 3),
    (gt.tensor(5), 5), (gt.tensor([[6.7]]), 6), (gt.tensor(7, dtype=gt.uint8), 7),
], ids=repr)  # fmt: skip
def test_values_are_broadcast_and_cast(value, stored):
    x = gt.zeros(2, 3, dtype=gt.int64)
    x[1] = value
    assert x.tolist() == [[0, 0, 0], [stored] * 3]


def test_writes_move_the_version_of_the_storage(x):
    row, before = x[0], x._version
    row[1] = 5
    x[1] = row
    assert x._version == row._version == before + 2


def test_one_element(x):
    x[1, 2, 3] = -1
    assert x[1, 2, 3].item() == -1 and x.tolist()[1][2][3] == -1


def test_empty_view_beyond_the_end_of_the_storage(x):
    assert x[2:, 3:, 4:].tolist() == []


def test_meta():
    x = gt.empty(2, 3, device="meta")
    assert x[0, ::2].shape == (2,) and x[:, ::-1].shape == (2, 3)
    x[0] = 1


MADE_OF = "tensors, arrays, ranges or lists of ints or bools"


@pytest.mark.parametrize(
    "index, error, says",
    [
        (5, IndexError, "[-2, 1] (got 5)"),
        ((0, 0, 4), IndexError, "[-4, 3] (got 4)"),
        ((0, 0, 0, 0), IndexError, "at most 3 ints, slices and indices (got 4 for i64[2,3,4] cpu)"),
        (([0], [0], [0], [0]), IndexError, "(got 4 for i64[2,3,4] cpu)"),
        ([0, 2], IndexError, "'index' must be in [-2, 1] at dimension 0 (got 2)"),
        ((0, [0], [-5]), IndexError, "must be in [-4, 3] at dimension 1 (got -5)"),
        (([0, 1], [0, 1, 2]), IndexError, "must broadcast together (got [2], [3])"),
        (gt.tensor([True, False, True]), IndexError, "must have sizes [2], those of self"),
        (([[0], [0, 1]],), IndexError, MADE_OF),
        (([0, slice(None)],), IndexError, MADE_OF),
        ([0.5], IndexError, MADE_OF),
        (np.zeros(2), IndexError, "(got ndarray)"),
        (gt.tensor([1.0]), IndexError, "(got f32[1] cpu)"),
        (gt.tensor(1.0), IndexError, "(got f32[] cpu)"),
        (gt.tensor([1], dtype=gt.int16), IndexError, "int64, int32, bool or uint8 (got i16[1]"),
        ((..., 0, ...), IndexError, "at most one Ellipsis, and tensors"),
        ("a", IndexError, "(got 'a')"),
        (1.0, IndexError, "(got 1.0)"),
        (slice(None, None, 0), ValueError, "'step' must not be zero"),
        (slice(1.5), TypeError, "'slice' must be made of ints"),
    ],
    ids=str,
)
def test_refused_indices(x, index, error, says):
    for call in (lambda: x[index], lambda: x.__setitem__(index, 1)):
        with pytest.raises(error) as caught:
            call()
        assert says in str(caught.value) and "\n" not in str(caught.value)
    assert x._version == 0


@pytest.mark.parametrize(
    "value, error, says",
    [
        ([1, 2], TypeError, "must be a number or a tensor (got list)"),
        (np.ones(4), TypeError, "(got ndarray); use gputensor.asarray(...)"),
        (None, TypeError, "(got NoneType)"),
        ("a", TypeError, "(got str)"),
        (gt.ones(3), RuntimeError, "3"),
        (gt.ones(2, 4), RuntimeError, "4"),
        (1j, RuntimeError, "must be real for i64"),
    ],
    ids=str,
)
def test_refused_values(x, value, error, says):
    with pytest.raises(error) as caught:
        x[0, 1] = value
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_zero_dim_tensors_have_nothing_to_index():
    x = gt.tensor(3)
    for index in (0, slice(None), (0,), (slice(None), 1)):
        with pytest.raises(IndexError):
            x[index]
    assert x[...].item() == x[()].item() == 3 and x[None].shape == (1,)


def test_take_along_dim_counts_from_the_end() -> None:
    """PyTorch uses an index out of range modulo the size; gputensor raises."""
    x = gt.arange(6).reshape(2, 3)
    assert gt.take_along_dim(x, gt.tensor([[-1], [0]]), 1).tolist() == [[2], [3]]
    for beyond in (3, -4):
        with pytest.raises(IndexError):
            gt.take_along_dim(x, gt.tensor([[beyond], [0]]), 1)


@pytest.mark.parametrize("index", [(..., gt.zeros(0, dtype=gt.bool)), (None, np.zeros(0, bool)),
    (slice(None), gt.zeros(0, 4, dtype=gt.bool))], ids=["last", "new", "two"])  # fmt: skip
def test_an_empty_mask_of_a_dimension_with_elements_is_refused(x, index):
    before = x.tolist()
    with pytest.raises(IndexError, match="'mask' must have sizes"):
        x[index]
    with pytest.raises(IndexError, match="'mask' must have sizes"):
        x[index] = 7
    assert x.tolist() == before


@pytest.mark.parametrize("index, sizes, strides", [
    (True, (1, 4, 3, 2), (24, 1, 4, 12)),
    ((slice(None), True), (4, 1, 3, 2), (1, 12, 4, 12)),
    ((..., True), (4, 3, 2, 1), (1, 4, 12, 1)),
    ((True, 0), (1, 3, 2), (6, 1, 3)),
    (False, (0, 4, 3, 2), (24, 1, 4, 12)),
])  # fmt: skip
def test_a_bool_lays_its_copy_out_as_pytorch(x, index, sizes, strides):
    turned = x.permute(2, 1, 0)
    made = turned[index]
    assert (made.shape, made.stride()) == (sizes, strides)
    assert made.data_ptr() != x.data_ptr()
    wanted = (turned[0] if sizes[1:] == (3, 2) else turned).reshape(-1).tolist()
    assert made.reshape(-1).tolist() == wanted[: made.numel()]
