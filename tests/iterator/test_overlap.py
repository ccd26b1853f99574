"""Overlap verdicts against the bytes themselves."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputensor.core import dtype as dt
from gputensor.core import errors
from gputensor.core.geometry import contiguous_geometry, geometry
from gputensor.iterator import overlap
from tests.iterator import layouts, walks

F32 = dt.float32


def places(g):
    return [o for (o,) in walks.row_major(g.sizes, [g.strides])]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_internal_overlap_is_never_wrong(seed):
    g = geometry(*layouts.random_layout(random.Random(seed), 4), F32)
    verdict = overlap.internal_overlap(g)
    found = places(g)
    if verdict == overlap.NO:
        assert len(set(found)) == len(found)
    elif verdict == overlap.YES and g.numel:
        assert len(set(found)) < len(found)


@settings(max_examples=300, deadline=None)
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
    g = contiguous_geometry((5,), F32)
    overlap.check("add", "one", 1, g, "other", 0, g)
    overlap.check("add", None, 1, g, None, 0, g)
    overlap.check("add", "one", 5, g, "one", 0, g)
    overlap.check("add", "one", 0, g, "one", 0, g)
    with pytest.raises(
        errors.ArgumentError, match="^add: 'other' must not share part of its memory"
    ):
        overlap.check("add", "one", 1, g, "one", 0, g)


def test_offsets_count_elements_of_their_own_dtype():
    four, eight = contiguous_geometry((4,), F32), contiguous_geometry((2,), dt.float64)
    overlap.check("add", "one", 4, four, "one", 0, eight)
    with pytest.raises(errors.ArgumentError, match="'src'"):
        overlap.check("add", "one", 3, four, "one", 0, eight, "src")
