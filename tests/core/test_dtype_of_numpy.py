"""Our dtypes and NumPy's: each accepts the other, and equal ones compare equal."""

import numpy as np
import pytest

import gputensor as gt
from gputensor.core.dtype import ALL, STORED

PLAIN = [d for d in ALL if d is not gt.bfloat16]
NEWEST = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 4)


@pytest.mark.parametrize("d", PLAIN, ids=str)
def test_numpys_dtypes_are_taken_where_ours_are(d):
    for theirs in (d.np, d.np.type):
        assert gt.zeros(2, dtype=theirs).dtype is d
        assert gt.tensor([1], dtype=theirs).dtype is d
        assert gt.asarray([1], dtype=theirs).dtype is d
        assert gt.ones(2, dtype=gt.bool).astype(theirs).dtype is d
    assert gt.ones(2).astype(d.np.str).dtype is d


@pytest.mark.parametrize("d", STORED, ids=str)
def test_equality_is_numpys(d):
    assert d == d and (d != gt.complex32 or d is gt.complex32)
    assert (d == d.np) is (d.np == d) is (d is not gt.complex32) or not NEWEST
    assert [e for e in STORED if e == d] == [d] and len({*STORED}) == len(STORED)
    assert not any(d == x for x in ("nonsense", None, object(), [1]))
    assert [gt.bool, gt.float64] == [bool, float] and [gt.float32] != [float]


@pytest.mark.skipif(not NEWEST, reason="__numpy_dtype__ is asked by NumPy 2.4 and newer")
def test_numpy_takes_ours():
    for d in PLAIN:
        assert np.zeros(2, dtype=d).dtype == d.np and np.dtype(d) == d.np
    with pytest.raises(TypeError):
        np.dtype(gt.complex32)


def test_what_numpys_code_asks_of_a_dtype():
    kinds = {d.name: d.kind for d in (gt.bool, gt.uint8, gt.int8, gt.bfloat16, gt.complex64)}
    assert list(kinds.values()) == ["b", "u", "i", "f", "c"]
    assert all(d.kind == d.np.kind and d.type is d.np.type for d in PLAIN)


def test_what_is_no_dtype_of_ours_is_refused():
    for wrong in ("f4", str, np.dtype("S3"), np.dtype(">f4"), np.str_, np.dtype("V4"), 3):
        with pytest.raises(TypeError, match="'dtype' must be a gputensor dtype"):
            gt.zeros(2, dtype=wrong)
    with pytest.raises(TypeError, match=r"got >f4"):
        gt.zeros(2, dtype=np.dtype(">f4"))


def test_pythons_types_name_dtypes():
    named = {bool: gt.bool, int: gt.int64, float: gt.float64, complex: gt.complex128}
    x = gt.ones(2)
    for kind, element in named.items():
        assert gt.zeros(2, dtype=kind).dtype is x.to(kind).dtype is x.sum(dtype=kind).dtype
        assert x.to(dtype=kind).dtype is gt.as_tensor(1, dtype=kind).dtype is element
        assert gt.promote_types(kind, gt.bool) is element and gt.can_cast(gt.bool, kind)
    assert x.view(float).dtype is gt.float64 and gt.finfo(float).bits == 64
    assert gt.nn.Linear(2, 2).to(float).weight.dtype is gt.float64
    with pytest.raises(TypeError, match="can_cast: 'to' must be a gputensor dtype"):
        gt.can_cast(gt.bool, str)


def test_astype_copies_as_numpys_does():
    x = gt.ones(2)
    assert x.astype("f4", copy=False) is x and x.astype(gt.float32) is not x
    assert x.astype(int).dtype is gt.int64
    with pytest.raises(TypeError, match="astype: 'dtype' must be a gputensor dtype"):
        x.astype("S3")


def test_what_is_like_a_tensor_is_a_tensor_or_refused():
    x = gt.ones(2)
    assert isinstance(np.empty_like(x, dtype="i4"), gt.Tensor)
    with pytest.raises(TypeError, match="empty_like: 'dtype' must be"):
        np.empty_like(x, dtype=[("a", "f4")])
