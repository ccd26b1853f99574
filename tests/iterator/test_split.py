"""32-bit pieces and 2-d steps cover a walk exactly once."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from gputensor.iterator import split
from tests.harness import tier
from tests.iterator import layouts, walks

SHAPES = st.lists(st.integers(1, 5), max_size=4).map(tuple)


def test_dim_counter_published_example():
    counter = split.DimCounter((64, 2000, 10), 1066670, 1280000)
    assert counter.values == [46, 666, 8]
    steps = []
    while not counter.is_done:
        steps.append(counter.max_2d_step())
        counter.increment(steps[-1])
    assert steps == [(18, 1), (64, 1333), (64, 2000)]
    assert counter.values == [0, 0, 0]


@tier.examples(300)
@given(SHAPES, st.data())
def test_steps_cover_a_range_in_order(shape, data):
    numel = 1
    for size in shape:
        numel *= size
    begin = data.draw(st.integers(0, numel))
    end = data.draw(st.integers(begin, numel))
    unit = []
    running = 1
    for size in shape:
        unit.append(running)
        running *= size
    counter = split.DimCounter(shape, begin, end)
    visited = []
    while not counter.is_done:
        inner, outer = counter.max_2d_step()
        assert inner >= 1 and outer >= 1
        start = sum(v * u for v, u in zip(counter.values, unit))
        row = unit[1] if len(unit) > 1 else 0
        visited += [start + j * row + i for j in range(outer) for i in range(inner)]
        counter.increment((inner, outer))
        assert all(v < n for v, n in zip(counter.values, shape))
    assert visited == list(range(begin, end))


def test_dim_counter_of_no_dimensions():
    counter = split.DimCounter((), 0, 1)
    assert counter.max_2d_step() == (1, 1)
    counter.increment((1, 1))
    assert counter.is_done


@tier.examples(200)
@given(st.integers(0, 2**32), st.integers(8, 200))
def test_pieces_cover_the_walk_once(seed, bound):
    rng = random.Random(seed)
    shape = tuple(max(n, 1) for n in layouts.random_sizes(rng, 4))
    strides = [layouts.random_strides(rng, shape) for _ in range(2)] + [None]
    known = strides[:2]
    # The real bound would need gigabytes of offsets to count.
    original, split.MAX_32BIT = split.MAX_32BIT, bound
    try:
        pieces = list(split.split_32bit(shape, strides))
        assert all(split.can_use_32bit(p.shape, strides) for p in pieces)
    finally:
        split.MAX_32BIT = original
    found = []
    for piece in pieces:
        assert piece.offset_bytes[2] is None
        found += [
            tuple(o + b for o, b in zip(offsets, piece.offset_bytes))
            for offsets in walks.offsets(piece.shape, known)
        ]
    assert sorted(found) == sorted(walks.offsets(shape, known))


def test_the_farthest_dimension_is_halved_first_and_the_outermost_wins():
    assert split.dim_to_split((4, 4), [(4, 16)]) == 1
    assert split.dim_to_split((4, 4), [(16, 4), (0, 0)]) == 0
    assert split.dim_to_split((4, 4), [(4, 4)]) == 1
    assert split.dim_to_split((4, 1), [(0, 0)]) == 0
    first, second = split.Piece((5, 3), (0, 8), False, True).halves(0, [(4, 20), (8, 40)], False)
    assert (first.shape, first.offset_bytes) == ((2, 3), (0, 8))
    assert (second.shape, second.offset_bytes) == ((3, 3), (8, 24))


def test_negative_strides_reach_as_far_as_positive_ones():
    size = 1 << 30
    assert not split.can_use_32bit((size,), [(-4,)])
    assert not split.can_use_32bit((size, 2), [(4, 4 - 4 * size)])
    assert split.can_use_32bit((size // 2,), [(-2,)])
    assert split.dim_to_split((4, 4), [(-16, 4)]) == 0
    pieces = list(split.split_32bit((size, 2), [(-4, 8)]))
    assert sum(p.shape[0] * p.shape[1] for p in pieces) == 2 * size
    assert all(split.can_use_32bit(p.shape, [(-4, 8)]) for p in pieces)


def test_halves_of_a_reduced_dimension_share_their_output():
    size = 1 << 30
    pieces = list(split.split_32bit((size, 3), [(0, 4), (4, 4 * size)], n_reduced=1))
    assert sum(p.shape[0] * p.shape[1] for p in pieces) == 3 * size
    by_output = {}
    for p in pieces:
        by_output.setdefault(p.offset_bytes[0], []).append(p)
    assert len(by_output) == 3
    for parts in by_output.values():
        assert [p.accumulate for p in parts] == [False] + [True] * (len(parts) - 1)
        assert [p.is_final for p in parts] == [False] * (len(parts) - 1) + [True]


def test_a_walk_that_fits_is_one_piece():
    (piece,) = split.split_32bit((3, 2), [(4, 12)])
    assert (piece.shape, piece.offset_bytes) == ((3, 2), (0,))
    assert (piece.accumulate, piece.is_final) == (False, True)
