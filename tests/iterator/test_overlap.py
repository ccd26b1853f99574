"""Overlap checks against a comparison of all bytes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hypothesis import given
from hypothesis import strategies as st

import gputensor as gt
from gputensor.core import dtype as dt
from gputensor.core import errors
from gputensor.core.geometry import contiguous_geometry, geometry
from gputensor.iterator import overlap
from tests.harness import tier
from tests.iterator import layouts, walks

F32 = dt.float32


def places(g):
    return [o for (o,) in walks.row_major(g.sizes, [g.strides])]


@tier.examples(300)
@given(st.integers(0, 2**32))
def test_internal_overlap_is_never_wrong(seed):
    g = geometry(*layouts.random_layout(random.Random(seed), 4), F32)
    verdict = overlap.internal_overlap(g)
    found = places(g)
    if verdict == overlap.NO:
        assert len(set(found)) == len(found)
    elif verdict == overlap.YES and g.numel:
        assert len(set(found)) < len(found)


@tier.examples(300)
@given(st.integers(0, 2**32), st.integers(0, 12))
def test_pair_overlap_is_never_wrong(seed, offset):
    rng = random.Random(seed)
    a, b = (geometry(*layouts.random_layout(rng, 3), F32) for _ in range(2))
    if rng.random() < 0.3:
        b, offset = a, 0
    verdict = overlap.pair_overlap(a, 0, b, offset * 4)
    mine, theirs = places(a), [offset + p for p in places(b)]
    if verdict == overlap.NO:
        assert not set(mine) & set(theirs)
    elif verdict == overlap.FULL:
        assert sorted(mine) == sorted(theirs)
    elif verdict == overlap.PARTIAL:
        assert set(mine) & set(theirs)
    else:
        assert not (a.is_non_overlapping_and_dense and b.is_non_overlapping_and_dense)


def test_check_begins_with_the_storage():
    whole = gt.zeros(10)
    a = whole[:5]
    overlap.check("add", whole[1:6], gt.zeros(10)[:5])
    overlap.check("add", whole[5:], a)
    overlap.check("add", whole[:5], a)
    with pytest.raises(
        errors.ArgumentError, match="^add: 'other' must not share part of its memory"
    ):
        overlap.check("add", whole[1:6], a)


def test_offsets_count_elements_of_their_own_dtype():
    four = gt.zeros(8)
    eight = four[:4].view(gt.float64)
    overlap.check("add", four[4:], eight)
    with pytest.raises(errors.ArgumentError, match="'src'"):
        overlap.check("add", four[3:7], eight, "src")


def test_an_output_that_outgrows_its_storage_is_moved():
    numbers = gt.from_numpy(np.zeros(8, np.float32))
    out = numbers.data[:0]
    assert overlap.relation(out, numbers, contiguous_geometry((4,), F32)) == overlap.PARTIAL
    small = gt.from_numpy(np.zeros(1, np.float32))
    assert overlap.relation(small, numbers, contiguous_geometry((1 << 40,), F32)) == overlap.NO
