"""Ranges and array parts over threads: each element once, whole rows, NumPy's results."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputensor.iterator import parallel
from gputensor.runtime import cpu

from ..harness import tier


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    before = cpu.get_num_threads()
    cpu.set_num_threads(request.param)
    yield request.param
    cpu.set_num_threads(before)


def ranges_of(shape, grain):
    found = []
    lock = threading.Lock()

    def work(begin, end):
        with lock:
            found.append((begin, end))

    parallel.for_each(shape, work, grain)
    return sorted(found)


def test_for_each_covers_the_walk_once(threads):
    for shape in [(), (1,), (7,), (3, 5), (2,) * 10, (1000,), (0, 3), (64, 20, 10)]:
        found = ranges_of(shape, 16)
        covered = [i for begin, end in found for i in range(begin, end)]
        assert covered == list(range(int(np.prod(shape)))), shape
        assert len(found) <= threads


def test_small_walks_stay_in_the_calling_thread(threads):
    caller = threading.get_ident()
    seen = []
    parallel.for_each(
        (parallel.GRAIN,), lambda begin, end: seen.append((begin, end, threading.get_ident()))
    )
    assert seen == [(0, parallel.GRAIN, caller)]


def test_ranges_begin_between_outer_dimensions():
    # Sixteen dimensions of 2, uncoalesced: a range must not begin inside the inner ones.
    shape = (2,) * 16
    block = parallel.block_size(shape, 1 << 16, 16)
    assert block == 1 << 12
    assert parallel.block_size((10,), 10, 16) == 1
    assert parallel.block_size((64, 2000, 10), 1280000, 16) == 64


@tier.examples(50)
@given(st.lists(st.integers(1, 6), max_size=6).map(tuple), st.integers(1, 40))
def test_blocks_divide_the_walk(shape, n_blocks):
    numel = int(np.prod(shape))
    block = parallel.block_size(shape, numel, n_blocks)
    assert numel % block == 0
    assert numel // block >= min(n_blocks, numel)


def test_pointwise_equals_numpy(threads):
    rng = np.random.default_rng(0)
    a = rng.random((70, 3, 900))
    cases = [
        (a, a[:, :1]),
        (a.transpose(2, 1, 0), a[0, 0, 0]),
        (a[:, :, ::3], 2.5),
        (a, rng.random(900)),
        (rng.random((70, 1, 1)), a),
        (a[:1], a),
        (np.float64(2.0), a),
        (rng.random(()), a.transpose(1, 2, 0)),
    ]
    for x, y in cases:
        expected = np.add(x, y)
        out = np.empty(expected.shape[::-1]).T
        parallel.pointwise(np.add, [x, y], (), out)
        np.testing.assert_array_equal(out, expected)


def test_pointwise_passes_parameters_before_out(threads):
    def add_scaled(x, y, alpha, out):
        np.copyto(out, x + alpha * y)

    x = np.arange(100_000.0)
    out = np.empty_like(x)
    parallel.pointwise(add_scaled, [x, x], (3,), out)
    np.testing.assert_array_equal(out, 4 * x)


def test_pointwise_of_no_elements_and_of_no_dimensions():
    out = np.empty((0, 3))
    parallel.pointwise(np.negative, [np.ones((0, 3))], (), out)
    scalar = np.empty(())
    parallel.pointwise(np.negative, [np.ones(())], (), scalar)
    assert scalar == -1


def test_pointwise_is_silent_and_hands_errors_on(threads):
    x = np.zeros(100_000)
    out = np.empty_like(x)
    parallel.pointwise(np.divide, [x, x], (), out)  # pytest turns a warning into an error
    assert np.isnan(out).all()

    def fails(x, out):
        raise ZeroDivisionError("from a part")

    with pytest.raises(ZeroDivisionError, match="from a part"):
        parallel.pointwise(fails, [x], (), out)


def test_slowest_dim():
    assert parallel.slowest_dim(np.empty((4, 5, 6)), 2) == 0
    assert parallel.slowest_dim(np.empty((4, 5, 6)).T, 2) == 2
    assert parallel.slowest_dim(np.empty((1, 5, 6)), 2) == 1
    assert parallel.slowest_dim(np.empty((1, 2, 3)), 8) == 2
