"""Paths for large operands, beyond the samples of rows: parts on threads, bits of f16."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt

# More elements than any family computes in one thread, and not a multiple of a part.
SHAPE = (301, 1013)


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = gt.get_num_threads()
    gt.set_num_threads(2)
    yield
    gt.set_num_threads(before)


def _numbers(dtype: str, nans: float = 0.0) -> np.ndarray:
    random = np.random.default_rng(0)
    x = random.integers(-40, 40, SHAPE).astype(dtype)  # with many equal elements
    if nans:
        x[random.random(SHAPE) < nans] = np.nan
        x[7] = np.nan
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
@pytest.mark.parametrize("dim", [0, 1])
def test_places_by_partition_are_those_of_a_stable_sort(dtype: str, dim: int) -> None:
    x = _numbers(dtype, nans=0.0 if dtype == "int64" else 0.3)
    order = np.argsort(x, dim, kind="stable")
    given = gt.from_numpy(x)
    for k in (1, 100, 270):
        assert np.array_equal(gt.kthvalue(given, k, dim)[1].numpy(), np.take(order, k - 1, dim))
        if 4 * k < SHAPE[dim]:
            first = np.take(order, np.arange(k), dim)
            assert np.array_equal(gt.topk(given, k, dim, largest=False)[1].numpy(), first)
    flipped = SHAPE[dim] - 1 - np.argsort(np.flip(x, dim), dim, kind="stable")
    largest = np.take(np.flip(flipped, dim), np.arange(50), dim)
    assert np.array_equal(gt.topk(given, 50, dim)[1].numpy(), largest)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("dim", [(0,), (1,), (0, 1)])
def test_extremes_of_16_bits_find_nan_of_either_sign(dtype: str, dim: Any) -> None:
    x = _numbers("float32")
    x[3, 5], x[9, 5], x[11] = np.nan, -np.nan, -np.inf
    given = gt.from_numpy(x).to(getattr(gt, dtype))
    for op, of in ((gt.amax, np.max), (gt.amin, np.min)):
        assert np.array_equal(op(given, dim).float().numpy(), of(x, dim), equal_nan=True)
        whole = op(given[20:], dim).float().numpy()
        assert np.array_equal(whole, of(x[20:], dim))


@pytest.mark.parametrize("dim", [0, 1, (0, 1)])
def test_moments_and_norms(dim: Any) -> None:
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32) + 3
    wide, given = x.astype(np.float64), gt.from_numpy(x)
    spread, mean = gt.var_mean(given, dim, correction=1)
    assert np.allclose(spread.numpy(), wide.var(dim, ddof=1), rtol=1e-5)
    assert np.allclose(mean.numpy(), wide.mean(dim), rtol=1e-5)
    length = np.sqrt((wide * wide).sum(dim))
    assert np.allclose(gt.linalg.vector_norm(given, dim=dim).numpy(), length, rtol=1e-6)


def test_layer_and_group_norm_and_softmax() -> None:
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    weight = np.linspace(0.5, 2, SHAPE[1], dtype=np.float32)
    rows = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    found = gt.nn.functional.layer_norm(gt.from_numpy(x), [SHAPE[1]], gt.from_numpy(weight))
    assert np.allclose(found.numpy(), rows * weight, atol=1e-5)
    images = x[:, :1012].reshape(43, 7 * 4, 253)
    groups = images.reshape(43 * 7, 1012)
    scale = np.arange(28, dtype=np.float32)
    groups = (groups - groups.mean(1, keepdims=True)) / np.sqrt(groups.var(1, keepdims=True) + 1e-5)
    wanted = groups.reshape(images.shape) * scale[:, None]
    found = gt.nn.functional.group_norm(gt.from_numpy(images.copy()), 7, gt.from_numpy(scale))
    assert np.allclose(found.numpy(), wanted, atol=1e-4)
    powers = np.exp(x.astype(np.float64))
    for dim in (0, 1):
        wanted = powers / powers.sum(dim, keepdims=True)
        assert np.allclose(gt.softmax(gt.from_numpy(x), dim).numpy(), wanted, rtol=1e-5)


@pytest.mark.parametrize("dim", [0, 1])
def test_running_extremes_give_the_last_of_equal_elements(dim: int) -> None:
    x = _numbers("float32", nans=0.001)
    values, places = gt.cummax(gt.from_numpy(x), dim)
    wanted = np.maximum.accumulate(x, dim)
    assert np.array_equal(values.numpy(), wanted, equal_nan=True)
    shape = (-1, 1) if dim == 0 else (1, -1)
    is_new = (x == wanted) | np.isnan(x)
    numbers = np.where(is_new, np.arange(SHAPE[dim]).reshape(shape), 0)
    assert np.array_equal(places.numpy(), np.maximum.accumulate(numbers, dim))


def test_histograms_and_searches() -> None:
    x = np.random.default_rng(0).random(SHAPE, np.float32)
    given = gt.from_numpy(x)
    counts, edges = gt.histogram(given, 37)
    assert np.array_equal(counts.numpy(), np.histogram(x, edges.numpy())[0])
    assert gt.histc(given, 37).sum() == x.size
    ordered = np.sort(x, 1)
    places = gt.searchsorted(gt.from_numpy(ordered), given, right=True).numpy()
    assert all(np.array_equal(p, s.searchsorted(v, "right")) for p, s, v in zip(places, ordered, x))
    found = gt.bucketize(given, edges).numpy()
    assert np.array_equal(found, np.searchsorted(edges.numpy(), x))
    few = gt.from_numpy(x[0, :3])
    assert np.array_equal(gt.isin(given, few, invert=True).numpy(), ~np.isin(x, x[0, :3]))
    assert int(gt.count_nonzero(given > 0.5)) == np.count_nonzero(x > 0.5)


def test_pdist_over_its_parts() -> None:
    x = np.random.default_rng(0).standard_normal((90, 301)).astype(np.float32)
    apart = [np.linalg.norm(x[r + 1 :] - x[r], axis=1) for r in range(89)]
    assert np.allclose(gt.pdist(gt.from_numpy(x)).numpy(), np.concatenate(apart), rtol=1e-5)
