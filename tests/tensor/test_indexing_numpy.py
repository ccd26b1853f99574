"""x[index] and x[index] = value against NumPy: random indices of every kind, in every layout.

NumPy applies the basic indices first and then the advanced ones: like PyTorch, gputensor applies
ints first, while NumPy lets an int move the dimensions of advanced indices to the front.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import gputensor as gt

from ..harness import tier

COUNT = 20_000 if tier.is_full() else 1_500
pytestmark = pytest.mark.filterwarnings("ignore:index. 'index' must be bool")


def _array(rng: random.Random, n: int, shapes: list[tuple[int, ...]]) -> np.ndarray:
    sizes = rng.choice(shapes) if n else (0,)
    sizes = tuple([1 if size and rng.random() < 0.1 else size for size in sizes])
    picked = [rng.randrange(-n, n) for _ in range(math.prod(sizes))]
    return np.array(picked, np.int64).reshape(sizes)


def _mask(rng: random.Random, sizes: tuple[int, ...]) -> np.ndarray:
    held = [rng.random() < 0.5 for _ in range(math.prod(sizes))]
    return np.array(held, bool).reshape(sizes)


def _slice(rng: random.Random) -> slice:
    bounds = [rng.choice([None, rng.randint(-5, 5)]) for _ in range(2)]
    return slice(*bounds, rng.choice([None, 1, 2, -1, -2]))


def index_for(rng: random.Random, sizes: tuple[int, ...]) -> list[Any]:
    """Return a random index of ints, slices, None, an Ellipsis, bools, arrays of ints that mostly
    broadcast, and masks."""
    shape = rng.choice([(2,), (3,), (1,), (2, 3), (), (0,), (1, 2)])
    shapes = [shape, shape, shape[rng.randrange(len(shape) + 1) :]]
    items: list[Any] = []
    d, has_ellipsis = 0, False
    while d < len(sizes) and (has_ellipsis or rng.random() > 0.05):
        kind = rng.random()
        if kind < 0.06:
            items.append(None)
        elif kind < 0.1 and not has_ellipsis:
            has_ellipsis = True
            items.append(Ellipsis)
            d += rng.randint(0, len(sizes) - d)
        elif kind < 0.13:
            items.append(rng.random() < 0.7)
        elif kind < 0.25 and sizes[d]:
            items.append(rng.randrange(-sizes[d], sizes[d]))
            d += 1
        elif kind < 0.5:
            items.append(_slice(rng))
            d += 1
        elif kind < 0.8:
            items.append(_array(rng, sizes[d], shapes))
            d += 1
        else:
            end = d + rng.randint(1, min(2, len(sizes) - d))
            items.append(_mask(rng, sizes[d:end]))
            d = end
    return items


def _dims(item: Any) -> int:
    """Return the number of the array's dimensions that an item of the index consumes."""
    if isinstance(item, np.ndarray):
        return item.ndim if item.dtype == bool else 1
    return int(isinstance(item, (int, slice)) and not isinstance(item, bool))


def in_steps(items: list[Any], ndim: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Split an index into the basic part, and the part that selects from the resulting view."""
    first: list[Any] = []
    second: list[Any] = []
    for item in items:
        if isinstance(item, np.ndarray) and item.ndim == 0:
            item = int(item)
        if isinstance(item, bool):
            first.append(None)
            second.append(np.zeros(int(item), np.int64))
        elif isinstance(item, np.ndarray):
            first += [slice(None)] * _dims(item)
            second.append(item)
        elif item is Ellipsis:
            first.append(item)
            second += [slice(None)] * (ndim - sum(map(_dims, items)))
        else:
            first.append(item)
            second += [] if isinstance(item, int) else [slice(None)]
    return tuple(first), tuple(second)


def spelled(rng: random.Random, item: Any, device: str) -> Any:
    """Return an array as a list, an array or a tensor."""
    if not isinstance(item, np.ndarray):
        return item
    kind = rng.random()
    if kind < 0.25 and item.size:
        return item.tolist()
    if kind < 0.5:
        return item
    if kind < 0.6:
        return gt.tensor(item.astype(np.uint8 if item.dtype == bool else np.int32)).to(device)
    return gt.tensor(item).to(device if kind < 0.8 else "cpu")


def tensor_of(rng: random.Random, sizes: tuple[int, ...], device: str) -> tuple[Any, np.ndarray]:
    array = np.arange(math.prod(sizes), dtype=np.int64).reshape(sizes)
    order = list(range(len(sizes)))
    rng.shuffle(order)
    back = [int(d) for d in np.argsort(order)]
    x = gt.tensor(array.transpose(order).copy()).to(device)
    return (x.permute(*back) if sizes else x), array


def outcome(call: Any) -> tuple[Any, Exception | None]:
    try:
        return call(), None
    except (IndexError, ValueError, RuntimeError) as error:
        return None, error


def put(array: np.ndarray, first: Any, second: Any, value: np.ndarray) -> None:
    view = array[first]
    if isinstance(view, np.ndarray) and (np.shares_memory(view, array) or view.size == 0):
        view[second] = value
    else:  # one element
        array[first] = value


def run(count: int, device: str, seed: int) -> int:
    rng = random.Random(seed)
    compared = 0
    for _ in range(count):
        sizes = tuple([rng.choice([0, 1, 2, 3, 3, 4]) for _ in range(rng.randint(0, 4))])
        items = index_for(rng, sizes)
        first, second = in_steps(items, len(sizes))
        x, array = tensor_of(rng, sizes, device)
        given = tuple([spelled(rng, item, device) for item in items])
        index = given[0] if len(given) == 1 and not isinstance(given[0], list) else given
        wanted, refused = outcome(lambda: array[first][second])
        found, error = outcome(lambda: x[index])
        assert (error is None) == (refused is None), (sizes, items, error, refused)
        if refused is not None:
            continue
        compared += 1
        assert tuple(found.shape) == wanted.shape, (sizes, items)
        assert found.tolist() == wanted.tolist(), (sizes, items)
        _compare_put(rng, x, array, index, (first, second), wanted.shape)
    return compared


def _is_put_once(array: np.ndarray, steps: Any) -> bool:
    """True if an index selects no element twice."""
    numbers = np.arange(array.size).reshape(array.shape)
    named, refused = outcome(lambda: numbers[steps[0]][steps[1]])
    return refused is None and len(np.unique(named)) == named.size


def _compare_put(
    rng: random.Random, x: Any, array: np.ndarray, index: Any, steps: Any, sizes: tuple[int, ...]
) -> None:
    """Compare assignments of a value with the target's sizes, with only the last sizes, or with
    sizes that broadcast or do not fit."""
    taken = sizes[rng.randint(0, len(sizes)) :] if rng.random() < 0.7 else sizes
    taken = tuple([1 if rng.random() < 0.15 else n for n in taken])
    value = np.array([rng.randint(100, 200) for _ in range(math.prod(taken))]).reshape(taken)
    y, target = x.clone(), array.copy()
    _, refused = outcome(lambda: put(target, *steps, value))
    if gt.cuda.is_available() and not gt.cuda.is_emulated() and not _is_put_once(array, steps):
        return  # if an element gets several values, a GPU keeps any of them, as in PyTorch
    theirs = int(value) if not taken and rng.random() < 0.5 else gt.tensor(value).to(x.device)
    _, error = outcome(lambda: y.__setitem__(index, theirs))
    assert (error is None) == (refused is None), (array.shape, index, taken, error, refused)
    assert y.tolist() == target.tolist(), (array.shape, index, taken)


@pytest.mark.parametrize("seed", range(4))
def test_random_indices(seed: int) -> None:
    assert run(COUNT // 4, "cpu", seed) > COUNT // 6


@pytest.mark.skipif(not gt.cuda.is_available(), reason="no CUDA device, nor the emulator")
def test_random_indices_on_a_device() -> None:
    assert run(200, "cuda", 9) > 100
