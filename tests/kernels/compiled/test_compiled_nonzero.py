"""The compiled loops of family nonzero have the results of NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import nonzero

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

DTYPES = [
    gt.bool, gt.uint8, gt.int8, gt.uint16, gt.int16, gt.uint32, gt.int32, gt.uint64, gt.int64,
    gt.float16, gt.bfloat16, gt.float32, gt.float64, gt.complex64, gt.complex128,
]  # fmt: skip
SIZES: list[tuple[int, ...]] = [
    (), (0,), (1,), (7,), (513,), (4096,), (4097,), (20_001,), (0, 5), (3, 0), (100, 90),
    (3, 4, 5000), (5000, 1, 3), (2, 3, 4, 5, 6, 7),
]  # fmt: skip
_random = np.random.default_rng(0)


def _mask(sizes: Any, share: float) -> np.ndarray:
    return np.asarray(_random.random(sizes) < share)


def _layouts(x: np.ndarray) -> list[np.ndarray]:
    room = np.zeros(tuple([2 * n for n in x.shape[::-1]]), x.dtype)
    view = room[(..., *[slice(None, None, 2)] * x.ndim)].transpose()
    view[...] = x
    return [x, view]


@pytest.mark.parametrize("of", DTYPES, ids=lambda d: d.short)
def test_no_dtype_is_left_to_numpy(of: Any) -> None:
    assert library.function("nonzero", f"find {of.short}")
    assert library.function("nonzero", f"count {of.short}")
    if not of.is_complex:
        assert library.function("random", f"bernoulli {of.short}")


@pytest.mark.parametrize("of", DTYPES, ids=lambda d: d.short)
def test_nonzero_finds_what_numpy_finds(of: Any) -> None:
    for sizes in SIZES:
        for share in (0.0, 0.001, 0.5, 1.0):
            made = np.where(_mask(sizes, share), np.asarray(3, of.np), np.asarray(0, of.np))
            if of.category >= gt.float32.category:
                made[_mask(sizes, 0.1)] = of.np.type(-0.0)
                made[_mask(sizes, 0.01)] = of.np.type(np.nan)
            for x in _layouts(made):
                found, wanted = stub.cpu("nonzero").nonzero(x), nonzero.nonzero(x)
                assert found.shape == wanted.shape and (found == wanted).all()
                assert stub.cpu("nonzero").nonzero_count(x) == wanted.shape[1]


@pytest.mark.parametrize("of", [np.int8, np.float16, np.float32, np.int64, np.complex128])
def test_masks_pick_and_put_what_numpy_does(of: Any) -> None:
    for sizes in SIZES:
        for share in (0.0, 0.001, 0.5, 1.0):
            made = np.asarray(_random.integers(-99, 99, sizes)).astype(of)
            for x, mask in zip(_layouts(made), _layouts(_mask(sizes, share))):
                picked = nonzero.selected(x, mask)
                assert stub.cpu("nonzero").selected(x, mask).tobytes() == picked.tobytes()
                values = np.arange(picked.size + 3).astype(of)[: picked.size + 1][::-1]
                wanted, found = x.copy(), x.copy()
                assert stub.cpu("nonzero").put(found, mask, values) == 0
                assert nonzero.put(wanted, mask, values) == 0
                assert (found == wanted).all()
                for put in (stub.cpu("nonzero").put, nonzero.put):
                    assert put(found, mask, values[: max(0, picked.size - 1)]) == picked.size
                    assert (found == wanted).all()


def test_operators_in_all_layouts_and_numbers_of_threads() -> None:
    before, x = gt.get_num_threads(), gt.randn(300, 200)
    wanted = x.numpy()
    try:
        for count in (1, 2, 3):
            gt.set_num_threads(count)
            for a, b in ((x, wanted), (x.t(), wanted.T), (x[::2, 1:], wanted[::2, 1:])):
                assert (a[a > 0].numpy() == b[b > 0]).all()
                assert (gt.masked_select(a, a > 0).numpy() == b[b > 0]).all()
                assert (gt.nonzero(a > 0).numpy() == np.argwhere(b > 0)).all()
                made = a.clone().masked_scatter_(a > 0, -a.abs().reshape(-1))
                expected = b.copy()
                expected[b > 0] = -np.abs(b).reshape(-1)[: (b > 0).sum()]
                assert (made.numpy() == expected).all()
    finally:
        gt.set_num_threads(before)
    found = gt.nonzero(x > 0)
    assert found.stride() == (1, len(found))
    assert found.untyped_storage().nbytes() == 16 * len(found)
    found[0] = 7
    assert found[0].tolist() == [7, 7]
