"""gt.tensor, the default dtype and finfo/iinfo against PyTorch's."""

from __future__ import annotations

import random

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import dtype as dt

from ...harness.ids import without_address

torch = pytest.importorskip("torch", reason="the oracle is PyTorch")

pytestmark = pytest.mark.oracle

NUMBERS = [
    0,
    1,
    -1,
    255,
    -129,
    70000,
    2**31,
    2**62,
    2**64 - 1,
    True,
    False,
    0.5,
    -1.7,
    1e30,
    65520.0,
    1e-8,
    3.0,
    1j,
    2 - 0.5j,
]


def as_theirs(data):
    """Return the same data with PyTorch's tensors in it."""
    if isinstance(data, gt.Tensor):
        return torch.from_dlpack(data)
    return [as_theirs(d) for d in data] if isinstance(data, list) else data


def outcome(call):
    try:
        return call(), None
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        return None, error


def check(data, element=None):
    theirs, their_error = outcome(
        lambda: torch.tensor(
            as_theirs(data), dtype=None if element is None else getattr(torch, element.name)
        )
    )
    ours, error = outcome(lambda: gt.tensor(data, dtype=element))
    assert (error is None) == (their_error is None), (data, element, error, their_error)
    if error is None:
        assert repr(ours) == repr(theirs).replace("torch.", "gputensor."), (data, element)
        assert repr(ours.tolist()) == repr(theirs.tolist()), (data, element)


def random_data(rng, numbers):
    depth = rng.randrange(0, 4)
    sizes = [rng.choice([0, 1, 2, 3]) for _ in range(depth)]

    def build(level):
        if level == depth:
            return rng.choice(numbers)
        return [build(level + 1) for _ in range(sizes[level])]

    return build(0)


@pytest.mark.parametrize("numbers", [
    [1, 2, -3], [1, 2.5], [True, False], [True, 3], [1.5, 2j], [0.1, -0.0], NUMBERS[:6], [True,
    0.5, 7],
], ids=str)  # fmt: skip
def test_inferred_dtype(numbers):
    rng = random.Random(str(numbers))
    for _ in range(80):
        check(random_data(rng, numbers))


@pytest.mark.parametrize("element", dt.ALL, ids=lambda d: d.name)
def test_given_dtype(element):
    for number in NUMBERS:
        # PyTorch rejects floats for uint64, and some uint64 numbers that it could represent;
        # gputensor accepts them.
        if element is dt.uint64 and isinstance(number, (float, bool)):
            continue
        check([number], element)
        check(number, element)


@pytest.mark.parametrize("data", [
    [], [[]], [[], []], [[1], []], [[1, 2], [3]], [1, [2]], [[1], 2], [[1, 2], 3], ["a"], "a", None,
    [None], [1, None], {1: 2}, {1, 2}, object(), b"ab", range(3), (1, (2,)), ((1, 2), [3, 4.0]),
    np.float32(1), np.float64(1), np.int8(3), np.bool_(True), [np.float32(1)], [np.float64(1), 2],
    [np.int8(1)],
    [np.float16(1), np.float32(2)], [np.arange(3), np.arange(3)], [[np.arange(2.0)],
    [np.arange(2.0)]],
    np.arange(6).reshape(2, 3).T, np.array(5), np.array([1, 2], np.uint16),
], ids=without_address(lambda d: str(d).replace("\n", "")))  # fmt: skip
@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy.ndarrays")
def test_odd_data(data):
    check(data)


def test_tensors_in_lists():
    check([gt.tensor(1), gt.tensor(2.5)])
    check([gt.tensor([1]), gt.tensor([3])])
    check([[gt.tensor(True)], [2]])


@pytest.mark.parametrize(
    "default", [dt.float16, dt.bfloat16, dt.float32, dt.float64], ids=lambda d: d.name
)
def test_default_dtype(default):
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, default.name))
    gt.set_default_dtype(default)
    try:
        for data in ([1.5, 2], [], 3.25, [1j] if default.itemsize >= 4 else [1.0], [True], [1]):
            check(data)
        a, t = gt.tensor([1, 2]) + 0.5, torch.tensor([1, 2]) + 0.5
        assert a.dtype.name == str(t.dtype).removeprefix("torch.")
        assert repr(gt.finfo()) == repr(torch.finfo())
    finally:
        torch.set_default_dtype(before)
        gt.set_default_dtype(dt.float32)


@pytest.mark.parametrize(
    "element", [d for d in dt.ALL if d.category >= dt.FLOATING], ids=lambda d: d.name
)
def test_finfo(element):
    ours, theirs = gt.finfo(element), torch.finfo(getattr(torch, element.name))
    assert repr(ours) == repr(theirs)
    for name in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
        assert getattr(ours, name) == getattr(theirs, name), name


@pytest.mark.parametrize(
    "element", [d for d in dt.ALL if d.category == dt.INTEGER], ids=lambda d: d.name
)
def test_iinfo(element):
    ours, theirs = gt.iinfo(element), torch.iinfo(getattr(torch, element.name))
    for name in ("bits", "max", "min", "dtype"):
        assert getattr(ours, name) == getattr(theirs, name), name


def test_ranges_of_integers_between_floats():
    """Compare lengths and elements. PyTorch divides by zero if a step below 1 is truncated to 0."""
    random.seed(28)
    bounds = (3.1, -0.9, 2.1, 2.0, 0.5, 1.0, 3, 0, -3, 7, 7.999, -7.5, 250.0)
    steps = (1, -1, 1.5, 2.0, -2.1, 3, 7.999)
    for _ in range(400):
        start, end, step = random.choice(bounds), random.choice(bounds), random.choice(steps)
        if (end - start) * step < 0:
            continue
        for name in ("int64", "int32", "int16", "int8", "uint8"):
            calls = (
                lambda m: m.arange(start, end, step, dtype=getattr(m, name)),
                lambda m: m.arange(start, end, step, out=m.empty(0, dtype=getattr(m, name))),
            )
            for call in calls:
                theirs, error = outcome(lambda: call(torch))
                if error is None:
                    assert call(gt).tolist() == theirs.tolist(), (name, start, end, step)


def test_a_logspace_of_one_element():
    for name in ("int64", "int8", "uint8", "bool"):
        for start in (0.5, -0.9, 3.1, 2, -1.5):
            for base in (10.0, 2.0, 0.5, 1.0):
                element = getattr(torch, name)
                theirs, error = outcome(lambda: torch.logspace(start, 3, 1, base, dtype=element))
                element = getattr(gt, name)
                ours, refused = outcome(lambda: gt.logspace(start, 3, 1, base, dtype=element))
                what = name, start, base
                assert (error is None) == (refused is None), what
                assert error is not None or ours.tolist() == theirs.tolist(), what
