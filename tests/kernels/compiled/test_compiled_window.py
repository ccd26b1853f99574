"""The compiled pooling loops against the array functions used without the library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor._generated import calls
from gputensor.core import errors
from gputensor.kernels.compiled import library
from gputensor.native import max_pool, pool

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)
_random = np.random.default_rng(0)

# (sizes, kernel, stride, padding, dilation, ceil_mode)
CASES: list[Any] = [
    ((2, 3, 8, 9), 2, (), 0, 1, False),
    ((2, 3, 8, 9), 3, 2, 1, 1, False),
    ((2, 3, 8, 9), (3, 2), (2, 3), (1, 0), (2, 1), True),
    ((3, 11, 10), (2, 3), (1, 2), (1, 1), (2, 3), True),
    ((1, 300, 5, 4), 2, 1, 1, 1, False),
    ((2, 2, 3, 700), (1, 2), (1, 1), 0, 1, True),
    ((2, 3, 5, 6, 7), (2, 3, 2), (2, 1, 2), (1, 1, 0), (1, 2, 1), True),
    ((2, 3, 4, 4, 4), 2, (), 0, 1, False),
]


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = gt.get_num_threads()
    yield
    gt.set_num_threads(before)


def _served(monkeypatch: Any, module: Any, name: str) -> list[bool]:
    """Return the loop's result of each call."""
    found: list[bool] = []
    loop = getattr(module, name)

    def noted(*args: Any) -> bool:
        found.append(loop(*args))
        return found[-1]

    monkeypatch.setattr(module, name, noted)
    return found


def _without(monkeypatch: Any, module: Any, name: str) -> None:
    monkeypatch.setattr(module, name, lambda *args: False)


def _layouts(x: gt.Tensor) -> Iterator[gt.Tensor]:
    yield x
    yield calls.transpose_int(
        calls.clone(calls.transpose_int(x, -1, -2), gt.contiguous_format), -1, -2
    )
    if x.ndim > 3:
        form = gt.channels_last if x.ndim == 4 else gt.channels_last_3d
        yield x.contiguous(memory_format=form)


def _numbers(sizes: tuple[int, ...], of: Any) -> np.ndarray:
    x = _random.integers(-4 if np.dtype(of).kind != "u" else 0, 5, sizes).astype(of)
    if np.dtype(of).kind == "f":
        x[_random.random(sizes) < 0.1] = np.nan
        x[_random.random(sizes) < 0.3] = -np.inf
    return x


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("of", [np.float32, np.float64, np.int64, np.uint8, np.float16])
def test_maxima_and_places(case: Any, of: Any, monkeypatch: Any) -> None:
    sizes, kernel, *rest = case
    op = calls.max_pool3d_with_indices if len(sizes) == 5 else calls.max_pool2d_with_indices
    x = gt.tensor(_numbers(sizes, of))
    for given in _layouts(x):
        with monkeypatch.context() as patch:
            served = _served(patch, max_pool, "_max_pool_loop")
            values, places = op(given, kernel, *rest)
            assert served == [True]
        with monkeypatch.context() as patch:
            _without(patch, max_pool, "_max_pool_loop")
            plain, at = op(given, kernel, *rest)
        np.testing.assert_array_equal(values.numpy(), plain.numpy())
        np.testing.assert_array_equal(places.numpy(), at.numpy())
        assert values.stride() == plain.stride() and places.stride() == at.stride()


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("of", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("how", [(True, None), (False, None), (True, 7)])
def test_means(case: Any, of: Any, how: Any, monkeypatch: Any) -> None:
    sizes, kernel, stride, padding, _, ceil_mode = case
    op = calls.avg_pool3d if len(sizes) == 5 else calls.avg_pool2d
    x = gt.tensor(_random.standard_normal(sizes).astype(of))
    for given in _layouts(x):
        args = (given, kernel, stride, padding, ceil_mode, *how)
        with monkeypatch.context() as patch:
            served = _served(patch, pool, "_avg_pool_loop")
            made = op(*args)
            assert served == [True]
        with monkeypatch.context() as patch:
            _without(patch, pool, "_avg_pool_loop")
            plain = op(*args)
        assert made.stride() == plain.stride()
        np.testing.assert_allclose(
            made.numpy(), plain.numpy(), 1e-5, {2: 1e-3}.get(x.itemsize, 1e-6)
        )


# (sizes, how many windows): some overlap, some are longer than a line or a block of columns.
ADAPTED: list[Any] = [
    ((2, 3, 8, 9), (3, 4)), ((3, 11, 10), (11, 3)), ((1, 40, 7, 90), (2, 2)), ((2, 2, 3, 9), 12),
    ((1, 2, 2, 5000), (1, 3)), ((1, 1100, 3, 40), (2, 1)), ((1, 3, 100, 1), (3, 1)),
    ((2, 3, 5, 6, 7), (2, 3, 5)), ((1, 2, 9, 40, 4), (1, 2, 3)),
]  # fmt: skip


@pytest.mark.parametrize("sizes, out", ADAPTED, ids=str)
@pytest.mark.parametrize("of", [np.float32, np.float64, np.float16])
def test_means_of_as_many_windows_as_are_asked_for(
    sizes: Any, out: Any, of: Any, monkeypatch: Any
) -> None:
    op = calls._adaptive_avg_pool3d if len(sizes) == 5 else calls._adaptive_avg_pool2d
    x = gt.tensor(_random.standard_normal(sizes).astype(of))
    bits = set()
    for given in _layouts(x):
        with monkeypatch.context() as patch:
            served = _served(patch, pool, "_adaptive_loop")
            made = op(given, out)
        with monkeypatch.context() as patch:
            _without(patch, pool, "_adaptive_loop")
            plain = op(given, out)
        assert made.stride() == plain.stride()
        np.testing.assert_allclose(
            made.numpy(), plain.numpy(), 1e-5, {2: 1e-3}.get(x.itemsize, 1e-6)
        )
        if served == [True]:
            bits.add(made.contiguous().numpy().tobytes())
        channel = -4 if len(sizes) == 5 else -3
        assert served == [True] or 1 not in (given.stride(-1), given.stride(channel))
    assert len(bits) == 1


@pytest.mark.parametrize("sizes, out", [*ADAPTED, ((2, 3, 14, 14), 1), ((3, 2, 6, 70), (3, 2))])
@pytest.mark.parametrize("of", [np.float32, np.float64, np.int64, np.uint8, np.float16])
def test_maxima_of_as_many_windows_as_are_asked_for(
    sizes: Any, out: Any, of: Any, monkeypatch: Any
) -> None:
    op = calls.adaptive_max_pool3d if len(sizes) == 5 else calls.adaptive_max_pool2d
    for given in _layouts(gt.tensor(_numbers(sizes, of))):
        with monkeypatch.context() as patch:
            served = _served(patch, max_pool, "_adaptive_loop")
            found = op(given, out)
            assert served == [True]
        with monkeypatch.context() as patch:
            _without(patch, max_pool, "_adaptive_loop")
            plain = op(given, out)
        for x, y in zip(found, plain):
            np.testing.assert_array_equal(x.numpy(), y.numpy())
            assert x.stride() == y.stride()


@pytest.mark.parametrize("sizes, out", ADAPTED, ids=str)
@pytest.mark.parametrize("of", [np.float32, np.float64, np.float16])
def test_gradients_of_means_of_as_many_windows_as_are_asked_for(
    sizes: Any, out: Any, of: Any, monkeypatch: Any
) -> None:
    op: Any = calls._adaptive_avg_pool2d
    back: Any = calls._adaptive_avg_pool2d_backward
    if len(sizes) == 5:
        op, back = calls._adaptive_avg_pool3d, calls._adaptive_avg_pool3d_backward
    for x in _layouts(gt.tensor(_random.standard_normal(sizes).astype(of))):
        grad = gt.randn_like(op(x, out))
        with monkeypatch.context() as patch:
            served = _served(patch, pool, "_line")
            made = back(grad, x)
            assert served and (all(served) or not grad.is_contiguous())
        with monkeypatch.context() as patch:
            _without(patch, pool, "_line")
            plain = back(grad, x)
        assert made.stride() == plain.stride()
        np.testing.assert_allclose(
            made.numpy(), plain.numpy(), 1e-6, {2: 1e-3}.get(x.itemsize, 1e-6)
        )


@pytest.mark.parametrize("of", [gt.float32, gt.float64, gt.bfloat16])
def test_gradients_of_maxima(of: Any, monkeypatch: Any) -> None:
    for case in CASES:
        sizes, *how = case
        three = len(sizes) == 5
        op = calls.max_pool3d_with_indices if three else calls.max_pool2d_with_indices
        back = calls.max_pool3d_with_indices_backward if three else (
            calls.max_pool2d_with_indices_backward)  # fmt: skip
        for x in _layouts(gt.tensor(_random.standard_normal(sizes)).to(of)):
            values, places = op(x, *how)
            grad = gt.tensor(_random.standard_normal(values.shape)).to(of)
            with monkeypatch.context() as patch:
                served = _served(patch, max_pool, "_backward_loop")
                made = back(grad, x, *how, places)
                assert served == [True]
            with monkeypatch.context() as patch:
                _without(patch, max_pool, "_backward_loop")
                plain = back(grad, x, *how, places)
            assert made.stride() == plain.stride() and made.tolist() == plain.tolist()


@pytest.mark.parametrize("place", [-1, 16, 1 << 40])
def test_gradients_at_places_that_are_none_are_refused(place: int) -> None:
    x, places = gt.zeros(2, 4, 4), gt.zeros(2, 2, 2, dtype=gt.int64)
    places[1, 0, 1] = place
    with pytest.raises(errors.IndexRangeError):
        calls.max_pool2d_with_indices_backward(gt.ones(2, 2, 2), x, 2, (), 0, 1, False, places)


def test_bits_do_not_depend_on_threads() -> None:
    for x in _layouts(gt.tensor(_random.standard_normal((8, 32, 40, 40)).astype(np.float32))):
        found = []
        for threads in (1, 2, 3):
            gt.set_num_threads(threads)
            means = calls.avg_pool2d(x, 3, 2, 1, False, True, None)
            values, places = calls.max_pool2d_with_indices(x, 3, 2, 1, 1, False)
            parts = calls._adaptive_avg_pool2d(x, (7, 9))
            gradient = calls.max_pool2d_with_indices_backward(
                values, x, 3, 2, 1, 1, False, places
            )  # fmt: skip
            peaks = calls.adaptive_max_pool2d(x, (7, 9))
            made = (means, values, places, parts, gradient, *peaks)
            found.append([y.numpy().tobytes() for y in made])
        assert found[0] == found[1] == found[2]
