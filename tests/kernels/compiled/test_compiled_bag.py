"""The compiled loop of embedding_bag against the composition used without the library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor._generated import calls
from gputensor.kernels.compiled import library
from gputensor.native import embedding

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)
_random = np.random.default_rng(0)
OFFSETS: list[Any] = [[0], [0, 3, 3, 9, 40], [0, 0, 50, 50], [*range(0, 50, 2)]]


def _both(monkeypatch: Any, *args: Any) -> tuple[Any, Any, bool]:
    served: list[bool] = []
    name = "_compare_bags" if args[4] == 2 else "_sum_bags"
    loop = getattr(embedding, name)

    def noted(*given: Any) -> bool:
        served.append(loop(*given))
        return served[-1]

    with monkeypatch.context() as patch:
        patch.setattr(embedding, name, noted)
        found = calls._embedding_bag(*args)
    with monkeypatch.context() as patch:
        patch.setattr(embedding, name, lambda *given: False)
        return found, calls._embedding_bag(*args), served == [True]


@pytest.mark.parametrize("of", [np.float32, np.float64])
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [-1, 3])
@pytest.mark.parametrize("offsets", OFFSETS, ids=str)
def test_the_same_bits(of: Any, mode: int, padding: int, offsets: Any, monkeypatch: Any) -> None:
    table = gt.tensor(_random.standard_normal((11, 37)).astype(of))
    at = gt.tensor(_random.integers(0, 11, 50))
    weights = gt.tensor(_random.random(50).astype(of))
    for integer in (gt.int64, gt.int32):
        starts = gt.tensor(offsets, dtype=integer)
        for by in (None, weights) if mode == 0 else (None,):
            for last in (False, True) if len(offsets) > 1 else (False,):
                found, plain, served = _both(
                    monkeypatch, table, at.to(integer), starts, False, mode, False, by, last,
                    padding,
                )  # fmt: skip
                assert served
                for x, y in zip(found, plain):
                    assert x.dtype is y.dtype
                    np.testing.assert_array_equal(x.numpy(), y.numpy())


def test_an_index_beyond_the_table_is_refused() -> None:
    table, offsets = gt.zeros(4, 3), gt.tensor([0])
    for bad in (4, -1):
        for mode in (0, 2):
            with pytest.raises(IndexError):
                calls._embedding_bag(table, gt.tensor([1, bad]), offsets, False, mode)


@pytest.mark.parametrize("is_plain", [False, True])
def test_the_first_nan_is_the_maximum(is_plain: bool, monkeypatch: Any) -> None:
    nan = float("nan")
    table = gt.tensor([[1.0, 5.0], [nan, 2.0], [3.0, 5.0], [nan, nan]])
    if is_plain:
        monkeypatch.setattr(embedding, "_compare_bags", lambda *given: False)
    at, offsets = gt.tensor([0, 2, 1, 3, 0, 2]), gt.tensor([0, 4])
    made, _, _, places = calls._embedding_bag(table, at, offsets, False, 2)
    np.testing.assert_array_equal(made.numpy(), [[nan, nan], [3.0, 5.0]])
    assert places.tolist() == [[1, 3], [2, 0]]


def test_bits_do_not_depend_on_threads() -> None:
    table = gt.tensor(_random.standard_normal((500, 64)).astype(np.float32))
    at, offsets = gt.tensor(_random.integers(0, 500, 9000)), gt.arange(0, 9000, 30)
    before, found = gt.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            gt.set_num_threads(threads)
            means, most = [calls._embedding_bag(table, at, offsets, False, k)[0] for k in (1, 2)]
            found.append(means.numpy().tobytes() + most.numpy().tobytes())
    finally:
        gt.set_num_threads(before)
    assert found[0] == found[1] == found[2]
