"""The compiled loops of family norm against NumPy's in f64, over dtypes, layouts and sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import norm as numpys
from gputensor.kernels.cpu.quiet import run

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

DTYPES = {np.float32: 4e-6, np.float64: 1e-13, np.float16: 4e-3, ml_dtypes.bfloat16: 3e-2}
EPS = 1e-5
_random = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = gt.get_num_threads()
    yield
    gt.set_num_threads(before)


def _numbers(sizes: Any, of: Any) -> np.ndarray:
    return (_random.standard_normal(sizes) * 2 + 3).astype(of)


def _computed(of: Any) -> Any:
    return np.float64 if of is np.float64 else np.float32


def _wide(x: Any) -> Any:
    return x.astype(np.float64) if isinstance(x, np.ndarray) else x


def _gapped(x: np.ndarray) -> np.ndarray:
    """Return the same elements with gaps between the slices of dimension 0."""
    room = np.full((len(x), 2, *x.shape[1:]), 9, x.dtype)
    room[:, 1] = x
    return room[:, 1]


def _compare(op: str, of: Any, inputs: list[Any], outs: list[Any], room: float = 1.0) -> None:
    """Run the loop, and NumPy's loop in f64. outs: arrays, or None for results that are not
    needed."""
    loop = getattr(stub.cpu("norm"), op)
    assert loop is not getattr(numpys, op)
    run(loop, *inputs, *outs)
    plain = [None if out is None else np.empty(out.shape) for out in outs]
    run(getattr(numpys, op), *map(_wide, inputs), *plain)
    for found, expected in zip(outs, plain):
        if found is None or not expected.size:
            continue
        scale = DTYPES[of] * room * (1 + np.abs(expected).max())
        np.testing.assert_allclose(_wide(found), expected, atol=scale)


@pytest.mark.parametrize("of", DTYPES, ids=lambda t: t.__name__)
def test_rows(of: Any) -> None:
    compute = _computed(of)
    for sizes in [(1, 1), (3, 1), (1, 7), (5, 64), (300, 100), (40, 1100), (3, 9000)]:
        for kind in (of, compute):
            for has_scale, has_shift in ((True, True), (False, True), (False, False)):
                by = _numbers((1, sizes[1]), kind) if has_scale else None
                more = _numbers((1, sizes[1]), kind) if has_shift else None
                for layout in (np.array, _gapped, np.asfortranarray):
                    x, out = layout(_numbers(sizes, of)), np.empty(sizes, of)
                    mean, rstd = np.empty((2, len(x)), kind)
                    run(stub.cpu("norm").normalized, x, by, more, EPS, out, mean, rstd)
                    plain = np.empty(sizes), np.empty(len(x)), np.empty(len(x))
                    run(numpys.normalized, _wide(x), _wide(by), _wide(more), EPS, *plain)
                    for found, expected in zip((out, mean, rstd), plain):
                        scale = DTYPES[of] * (1 + np.abs(expected).max()) * (sizes[1] > 1 or 400)
                        np.testing.assert_allclose(_wide(found), expected, atol=scale)


@pytest.mark.parametrize("of", DTYPES, ids=lambda t: t.__name__)
def test_groups(of: Any) -> None:
    for sizes in [(2, 3, 5), (6, 1, 40), (4, 8, 49), (2, 2, 5000)]:
        x, out, compute = _numbers(sizes, of), np.empty(sizes, of), _computed(of)
        by, more = _numbers((2, *sizes[:2], 1), compute)
        _compare("normalized", of, [x, by, more, EPS], [out, *np.empty((2, len(x)), compute)])
        grad, samples = _numbers(sizes, of), len(x) // 2
        whole = (samples, 2, *sizes[1:])
        statistics = [_wide(x).mean((1, 2)), 1 / _wide(x).std((1, 2))]
        for weight in (None, _numbers(2 * sizes[1], compute)):
            given = [grad.reshape(whole), x.reshape(whole)]
            given += [s.astype(compute) for s in statistics]
            for wanted in ((1, 1, 1), (1, 0, 0), (0, 1, 0)):
                outs = [np.empty(whole, of), *np.empty((2, 2 * sizes[1]), compute)]
                outs = [out if keeps else None for out, keeps in zip(outs, wanted)]
                _compare("grouped_backward", of, [*given, weight], outs, 30)


@pytest.mark.parametrize("of", DTYPES, ids=lambda t: t.__name__)
def test_gradients_of_rows(of: Any) -> None:
    compute = _computed(of)
    for sizes in [(3, 7), (1, 64), (700, 33), (70, 1100), (3, 9000)]:
        x = _numbers(sizes, of)
        statistics = [(_wide(x).mean(1)).astype(compute), (1 / _wide(x).std(1)).astype(compute)]
        for weight in (None, _numbers(sizes[1], compute)):
            for layout in (np.array, _gapped, np.asfortranarray):
                for wanted in ((1, 1, 1), (1, 0, 0), (0, 1, 1), (1, 0, 1)):
                    outs = [np.empty(sizes, of), *np.empty((2, sizes[1]), compute)]
                    outs = [out if keeps else None for out, keeps in zip(outs, wanted)]
                    given = [layout(_numbers(sizes, of)), layout(x), *statistics, weight]
                    _compare("normalized_backward", of, given, outs, 30)


CHANNELS = [(2, 3, 1), (1, 1, 9), (3, 4, 5), (2, 70, 49), (300, 5, 1), (1000, 300, 1), (2, 3, 5000)]


@pytest.mark.parametrize("of", DTYPES, ids=lambda t: t.__name__)
def test_channels(of: Any) -> None:
    compute = _computed(of)
    for sizes in CHANNELS:
        x, channels = _numbers(sizes, of), sizes[1]
        for by, more in ((None, None), _numbers((2, channels), compute)):
            for layout in (np.array, _gapped):
                out, found = np.empty(sizes, of), list(np.empty((3, channels), compute))
                _compare("channels_normalized", of, [layout(x), by, more, EPS], [out, *found], 2)
                given = [found[0], found[1] + 1, EPS, by, more]
                _compare("channels_scaled", of, [layout(x), *given], [layout(out)], 2)


@pytest.mark.parametrize("of", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("are_found", [False, True])
def test_gradients_of_channels(of: Any, are_found: bool) -> None:
    compute = _computed(of)
    for sizes in CHANNELS:
        x, grad = _numbers(sizes, of), _numbers(sizes, of)
        mean = _wide(x).mean((0, 2)).astype(compute)
        rstd = (1 / (_wide(x).std((0, 2)) + 0.1)).astype(compute)
        for weight in (None, _numbers(sizes[1], compute)):
            for wanted in ((1, 1, 1), (1, 0, 0), (0, 1, 1)):
                outs = [np.empty(sizes, of), *np.empty((2, sizes[1]), compute)]
                outs = [out if keeps else None for out, keeps in zip(outs, wanted)]
                given = [_gapped(grad), _gapped(x), mean, rstd, weight, are_found]
                _compare("channels_backward", of, given, outs, 30)


def test_a_large_mean_costs_no_more_than_two_units_in_its_last_place() -> None:
    x = (_random.standard_normal((64, 500)) + 1e4).astype(np.float32)
    exact = (_wide(x) - _wide(x).mean(1)[:, None]) / _wide(x).std(1)[:, None]
    out, mean, rstd = np.empty_like(x), np.empty(64, np.float32), np.empty(64, np.float32)
    run(stub.cpu("norm").normalized, x, None, None, 0.0, out, mean, rstd)
    np.testing.assert_allclose(out, exact, atol=2 * np.spacing(np.float32(1e4)))


def test_bits_do_not_depend_on_threads() -> None:
    x, grad = _numbers((301, 1013), np.float32), _numbers((301, 1013), np.float32)
    weight, found = _numbers(1013, np.float32), []
    planes = x[:300, :1000].reshape(30, 50, 200), grad[:300, :1000].reshape(30, 50, 200)
    for threads in (1, 2, 3):
        gt.set_num_threads(threads)
        loops, made = stub.cpu("norm"), []

        def room(*sizes: int) -> np.ndarray:
            made.append(np.empty(sizes, np.float32))
            return made[-1]

        by = weight[None]
        run(loops.normalized, x, by, by, EPS, room(301, 1013), room(301), room(301))
        outs = room(301, 1013), room(1013), room(1013)
        run(loops.normalized_backward, grad, x, *made[1:3], weight, *outs)
        for y, g in (planes, (x[:, :, None], grad[:, :, None])):
            n = y.shape[1]
            outs = room(*y.shape), room(n), room(n), room(n)
            run(loops.channels_normalized, y, None, None, EPS, *outs)
            statistics = outs[1], outs[3], None, True
            run(loops.channels_backward, g, y, *statistics, room(*y.shape), room(n), room(n))
        found.append(made)
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other))
