"""Indexing against PyTorch: sizes, strides, offset and elements of thousands of random indices."""

from __future__ import annotations

import random

import numpy as np
import pytest

import gputensor as gt

from ...tensor.test_indexing_numpy import index_for

torch = pytest.importorskip("torch", reason="the oracle is PyTorch")

pytestmark = pytest.mark.oracle


def random_shape(rng):
    return tuple(rng.choice([0, 1, 2, 3, 4, 5]) for _ in range(rng.randrange(0, 5)))


def random_slice(rng, negative):
    def bound():
        return None if rng.random() < 0.4 else rng.randrange(-7, 8)

    steps = [None, 1, 1, 2, 3] + ([-1, -2, -3] if negative else [])
    return slice(bound(), bound(), rng.choice(steps))


def random_index(rng, ndim, *, negative=False):
    """Return (index for gputensor, index for PyTorch), mostly in range."""
    items, theirs = [], []
    has_bool = False
    for _ in range(rng.randrange(0, ndim + 2)):
        kind = rng.random()
        if kind < 0.35:
            n = rng.randrange(-3, 3)
            pair = (n, n)
        elif kind < 0.7:
            s = random_slice(rng, negative)
            pair = (s, s)
        elif kind < 0.8:
            pair = (None, None)
        elif kind < 0.88:
            if any(i is Ellipsis for i in theirs):
                continue  # PyTorch interprets a second Ellipsis by the number of dimensions
            pair = (Ellipsis, Ellipsis)
        elif kind < 0.93:
            n = rng.randrange(-2, 2)
            pair = (gt.tensor(n), torch.tensor(n))
        elif kind < 0.96:
            n = rng.randrange(-2, 2)
            pair = (np.int32(n), n)
        elif not has_bool:
            has_bool = True
            b = rng.random() < 0.7
            pair = rng.choice([(b, b), (gt.tensor(b), torch.tensor(b))])
        else:
            continue
        items.append(pair[0])
        theirs.append(pair[1])
    if len(items) == 1 and rng.random() < 0.5:
        return items[0], theirs[0], has_bool
    return tuple(items), tuple(theirs), has_bool


def pair_of(rng, shape):
    theirs = (
        torch.arange(max(1, int(np.prod(shape))), dtype=torch.int64)[: int(np.prod(shape))]
        .reshape(shape)
        .clone()
    )
    if theirs.ndim > 1 and rng.random() < 0.4:
        theirs = theirs.transpose(0, -1)
    return gt.from_dlpack(theirs.clone()), theirs


def outcome(call):
    try:
        return call(), None
    except (IndexError, ValueError, RuntimeError, TypeError) as error:
        return None, error


def test_get():
    rng = random.Random(1)
    compared = 0
    for _ in range(6000):
        x, t = pair_of(rng, random_shape(rng))
        index, theirs, has_bool = random_index(rng, t.ndim)
        got, error = outcome(lambda: x[index])
        expected, their_error = outcome(lambda: t[theirs])
        assert (error is None) == (their_error is None), (
            tuple(t.shape),
            theirs,
            error,
            their_error,
        )
        if error is not None:
            continue
        compared += 1
        where = (tuple(t.shape), t.stride(), theirs)
        assert tuple(got.shape) == tuple(expected.shape), where
        if got.numel():
            assert got.tolist() == expected.tolist(), where
        assert got.stride() == expected.stride(), where
        if not has_bool:
            assert got.storage_offset() == expected.storage_offset(), where
            assert got is not x
        elif got.numel():
            assert got.data_ptr() != x.data_ptr(), where
    assert compared > 2500


def _goes_backwards(item):
    return isinstance(item, slice) and item.step is not None and item.step < 0


def test_strides_of_what_arrays_pick():
    """Strides of sizes 1 and 0 are compared too, although PyTorch's iterator never uses them."""
    rng = random.Random(7)
    compared = 0
    while compared < 3000:
        sizes = tuple([rng.choice([0, 1, 1, 2, 3, 4]) for _ in range(rng.randrange(1, 5))])
        items = index_for(rng, sizes)
        if any(map(_goes_backwards, items)):
            continue  # PyTorch has no negative steps
        x, t = pair_of(rng, sizes)
        made = [isinstance(i, np.ndarray) for i in items]
        ours = tuple([gt.tensor(i) if is_array else i for i, is_array in zip(items, made)])
        theirs = tuple([torch.tensor(i) if is_array else i for i, is_array in zip(items, made)])
        got, error = outcome(lambda ours=ours, x=x: x[ours])
        wanted, refused = outcome(lambda theirs=theirs, t=t: t[theirs])
        assert (error is None) == (refused is None), (sizes, items, error, refused)
        if refused is None:
            compared += 1
            assert got.tolist() == wanted.tolist(), (sizes, items)
            assert got.stride() == wanted.stride(), (sizes, t.stride(), items)


def test_negative_steps_are_numpys():
    rng = random.Random(2)
    for _ in range(3000):
        x, t = pair_of(rng, random_shape(rng))
        index, _, has_bool = random_index(rng, t.ndim, negative=True)
        if has_bool:
            continue
        plain = index if isinstance(index, tuple) else (index,)
        plain = tuple(i.item() if isinstance(i, gt.Tensor) else i for i in plain)
        expected, their_error = outcome(lambda: t.numpy()[plain])
        got, error = outcome(lambda: x[index])
        assert (error is None) == (their_error is None), (tuple(t.shape), index, error, their_error)
        if error is None:
            assert tuple(got.shape) == expected.shape
            assert not expected.size or got.tolist() == expected.tolist(), (tuple(t.shape), index)
            assert all(s >= 0 for s in got.stride())


def random_value(rng, shape):
    """Return (value for gputensor, value for PyTorch): a number, or a tensor that broadcasts or
    almost broadcasts."""
    if rng.random() < 0.3:
        n = rng.choice([7, True, 3.0, -2])
        return n, n
    sizes = [n if rng.random() < 0.7 else 1 for n in shape]
    sizes = sizes[rng.randrange(0, len(sizes) + 1) :] if rng.random() < 0.3 else sizes
    if rng.random() < 0.2:
        sizes = [1] + sizes
    if rng.random() < 0.1:
        sizes = sizes + [3]
    dtype = rng.choice([torch.int64, torch.float32, torch.int8, torch.bool])
    value = (torch.rand(sizes) * 50).to(dtype)
    return gt.from_dlpack(value), value


def test_put():
    rng = random.Random(3)
    torch.manual_seed(3)
    compared = 0
    for _ in range(4000):
        x, t = pair_of(rng, random_shape(rng))
        index, theirs, has_bool = random_index(rng, t.ndim)
        target, error = outcome(lambda: t[theirs])
        ours, same = random_value(rng, (2,) if error else tuple(target.shape))
        if has_bool and (target is None or not target.numel() or hasattr(ours, "dtype")):
            continue  # rules of index_put: one dtype, and any value if no element is selected
        _, error = outcome(lambda: x.__setitem__(index, ours))
        _, their_error = outcome(lambda: t.__setitem__(theirs, same))
        where = (tuple(t.shape), theirs, same, error, their_error)
        assert (error is None) == (their_error is None), where
        assert x.tolist() == t.tolist(), where
        compared += error is None
    assert compared > 1500


def test_put_with_negative_steps_is_numpys():
    rng = random.Random(4)
    torch.manual_seed(4)
    for _ in range(3000):
        x, t = pair_of(rng, random_shape(rng))
        index, _, has_bool = random_index(rng, t.ndim, negative=True)
        plain = index if isinstance(index, tuple) else (index,)
        plain = tuple(i.item() if isinstance(i, gt.Tensor) else i for i in plain)
        if has_bool:
            continue
        target, error = outcome(lambda: t.numpy()[plain])
        if error is not None:
            continue
        value, same = random_value(rng, target.shape)
        if np.ndim(same) > target.ndim and not isinstance(same, int):
            continue  # NumPy does not drop leading sizes of 1 before it assigns to one element
        array = t.numpy()
        same = same.numpy() if isinstance(same, torch.Tensor) else same
        _, error = outcome(lambda: x.__setitem__(index, value))
        _, their_error = outcome(lambda: array.__setitem__(plain, same))
        assert (error is None) == (their_error is None), (
            t.shape,
            index,
            np.shape(same),
            error,
            their_error,
        )
        assert x.tolist() == t.tolist(), (t.shape, index, same)
