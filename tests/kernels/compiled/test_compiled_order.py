"""The compiled loops of family order have the results of NumPy's stable sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import order
from gputensor.native import order as native
from gputensor.runtime.libraries import HOST

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

DTYPES = [
    gt.uint8, gt.int8, gt.uint16, gt.int16, gt.uint32, gt.int32, gt.uint64, gt.int64, gt.float16,
    gt.bfloat16, gt.float32, gt.float64,
]  # fmt: skip
SIZES = [(0, 5), (1, 1), (3, 2), (5, 63), (5, 64), (40, 65), (7, 1000), (2, 5000)]
_random = np.random.default_rng(0)


def _rows(sizes: Any, of: Any, kind: str) -> np.ndarray:
    if kind == "constant":
        return np.full(sizes, 3).astype(of.np)
    if kind == "ascending":
        return np.broadcast_to(np.arange(sizes[1]), sizes).astype(of.np)
    if kind == "descending":
        return np.broadcast_to(np.arange(sizes[1])[::-1], sizes).astype(of.np)
    few = kind == "few"
    if of.category < gt.float32.category:
        high = min(np.iinfo(of.np).max, 1 << 62)
        return _random.integers(0, 5, sizes).astype(of.np) if few else (
            _random.integers(np.iinfo(of.np).min // 2, high, sizes).astype(of.np)
        )  # fmt: skip
    made = _random.integers(-3, 3, sizes) * 0.5 if few else _random.standard_normal(sizes) * 50
    made = np.where(_random.random(sizes) < 0.05, np.nan, made)
    made = np.where(_random.random(sizes) < 0.05, -0.0, made)
    return np.where(_random.random(sizes) < 0.02, -np.inf, made).astype(of.np)


@pytest.mark.parametrize("kind", ["many", "few", "constant", "ascending", "descending"])
@pytest.mark.parametrize("of", DTYPES, ids=lambda d: d.short)
def test_what_numpys_sort_puts_first(of: Any, kind: str) -> None:
    for sizes in SIZES:
        x, n = _rows(sizes, of, kind), sizes[1]
        for k in sorted({1, 2, n // 5, n // 2, n} - {0}):
            if k > n:
                continue
            for descending in (False, True):
                found = stub.cpu("order").first(x, k, descending)
                wanted = order.first(x, k, descending)
                assert (found[1] == wanted[1]).all()
                assert found[0].tobytes() == wanted[0].tobytes()


def _selected(op: str, x: np.ndarray, k: int = 0) -> np.ndarray:
    values, places = np.empty(len(x), x.dtype), np.empty(len(x), np.int64)
    write = stub.cpu("order").statistic(op, x.dtype)
    assert write is not None and write(values, places, x, k)
    assert values.tobytes() == np.take_along_axis(x, places[:, None], 1).tobytes()
    return places


@pytest.mark.parametrize("kind", ["many", "few", "constant", "ascending", "descending"])
@pytest.mark.parametrize("of", DTYPES, ids=lambda d: d.short)
def test_statistics_are_those_of_numpys_functions(of: Any, kind: str) -> None:
    for sizes in (*SIZES[1:], (3, 511), (2, 512), (9, 127), (9, 128), (1, 20_000)):
        x, n = _rows(sizes, of, kind), sizes[1]
        wide = x.astype(np.float32) if of is gt.bfloat16 else x
        for k in {0, 3, n // 2, n - 1} & {*range(n)}:
            wanted = native._kth(HOST, wide, 1, k)[:, 0]
            assert (_selected("kth", x, k) == wanted).all()
        for op, ignores_nan in (("median", False), ("nanmedian", True)):
            wanted = native._median(HOST, wide, 1, ignores_nan)[:, 0]
            assert (_selected(op, x) == wanted).all()
        assert (_selected("mode", x) == native._mode(HOST, wide, 1)[:, 0]).all()


def test_statistics_of_rows_of_nan() -> None:
    x = np.full((2, 200), np.nan, np.float32)
    x[1, 150] = 3
    assert _selected("median", x).tolist() == [0, 0]
    assert _selected("nanmedian", x).tolist() == [0, 150]
    assert _selected("mode", x).tolist() == [0, 150]


@pytest.mark.parametrize("kind", ["many", "few", "constant", "ascending", "descending"])
@pytest.mark.parametrize("of", DTYPES, ids=lambda d: d.short)
def test_rows_sort_as_numpys(of: Any, kind: str) -> None:
    for sizes in ((5, 1), (4, 30), (9, 511), (3, 512), (2, 5000), (1, 20_000)):
        x = _rows(sizes, of, kind)
        for descending in (False, True):
            wanted = order.first(x, sizes[1], descending)
            values, places = np.empty(sizes, x.dtype), np.empty(sizes, np.int64)
            assert stub.cpu("order").sort(x, descending, values, places)
            assert (places == wanted[1]).all() and values.tobytes() == wanted[0].tobytes()
            values[...] = 0
            assert stub.cpu("order").sort(x, descending, values, None)
            assert values.tobytes() == wanted[0].tobytes()


def test_many_short_rows_are_left_to_numpy() -> None:
    x = np.zeros((1000, 100), np.float32)
    assert not stub.cpu("order").sort(x, False, np.empty_like(x), None)


@pytest.mark.parametrize("of", [*DTYPES, gt.bool], ids=lambda d: d.short)
def test_short_rows_sort_through_the_operator(of: Any) -> None:
    x = gt.tensor(_rows((6, 40), of, "few") if of is not gt.bool else _random.random((6, 40)) < 0.5)
    x = x.to(of)
    for descending in (False, True):
        values, places = gt.sort(x, descending=descending)
        wanted = gt.sort(x.float(), descending=descending)
        assert (places == wanted[1]).all() and values.dtype is of
        assert gt.equal(values.float().nan_to_num(7), wanted[0].nan_to_num(7))


def test_sort_along_any_dimension_and_of_any_layout() -> None:
    x = gt.tensor(_rows((3, 600, 4), gt.int16, "many"))
    for given in (x, x.transpose(0, 1).contiguous().transpose(0, 1), x.permute(1, 2, 0)):
        for dim in range(3):
            for descending in (False, True):
                values, places = gt.sort(given, dim=dim, descending=descending)
                key = ~given.numpy() if descending else given.numpy()
                wanted = np.argsort(key, dim, kind="stable")
                assert (places.numpy() == wanted).all() and values.stride() == places.stride()
                assert (values.numpy() == np.take_along_axis(given.numpy(), wanted, dim)).all()
    bits = gt.tensor(_random.random(1000) < 0.5)
    assert gt.sort(bits)[0].tolist() == sorted(bits.tolist())


@pytest.mark.parametrize("of", [gt.float32, gt.int64], ids=lambda d: d.short)
def test_a_long_row_is_shared(of: Any) -> None:
    before = gt.get_num_threads()
    try:
        for sizes in ((1, 70_000), (3, 66_001)):
            x = _rows(sizes, of, "many")
            for k in (1, 100, 5000):
                for descending in (False, True):
                    wanted = order.first(x, k, descending)
                    for count in (1, 2, 3):
                        gt.set_num_threads(count)
                        found = stub.cpu("order").first(x, k, descending)
                        assert (found[1] == wanted[1]).all()
                        assert found[0].tobytes() == wanted[0].tobytes()
    finally:
        gt.set_num_threads(before)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_topk_and_kthvalue_along_any_dimension(dim: int) -> None:
    for x in (gt.randn(30, 40, 50), gt.randn(50, 40, 30).permute(2, 1, 0)):
        array = x.numpy()
        order = np.argsort(array, dim, kind="stable")
        for largest in (False, True):
            values, places = gt.topk(x, 4, dim, largest)
            wanted = np.flip(order, dim) if largest else order
            wanted = np.take(wanted, range(4), dim)
            assert (places.numpy() == wanted).all() and places.is_contiguous()
            assert (values.numpy() == np.take_along_axis(array, wanted, dim)).all()
        assert (gt.kthvalue(x, 9, dim).indices.numpy() == np.take(order, 8, dim)).all()
        middle = (x.shape[dim] - 1) // 2
        for _ in range(3):  # with and without the short cut
            assert (gt.median(x, dim).indices.numpy() == np.take(order, middle, dim)).all()


def test_mode_along_any_dimension_and_of_bool() -> None:
    x = gt.randint(0, 4, (6, 7, 9)).transpose(0, 2)
    wanted = {dim: native._mode(HOST, x.numpy(), dim) for dim in range(3)}
    for dim, places in wanted.items():
        for keepdim in (True, False, True):
            values, indices = gt.mode(x, dim, keepdim)
            shape = places.shape if keepdim else places.squeeze(dim).shape
            assert indices.shape == shape and (indices.numpy() == places.reshape(shape)).all()
            taken = np.take_along_axis(x.numpy(), places, dim)
            assert (values.numpy() == taken.reshape(shape)).all()
    values, indices = gt.mode(gt.tensor([[True, False, True], [False, True, False]]))
    assert values.tolist() == [True, False] and indices.tolist() == [2, 2]
