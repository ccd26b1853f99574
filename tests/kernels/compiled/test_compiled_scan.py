"""The compiled loops of family scan against NumPy's, over dtypes, layouts and sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import scan as numpys
from gputensor.kernels.cpu.quiet import run

from ..layouts import LAYOUTS

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
INTEGERS = (
    np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64,
)  # fmt: skip
SIZES: list[tuple[tuple[int, ...], int]] = [
    ((1,), 0), ((70,), 0), ((2100,), 0), ((3, 0), 0), ((1, 1), 0), ((3, 5), 1), ((3, 5), 0),
    ((40, 9), 1), ((70, 65), 1), ((37, 130), 1), ((9, 600), 0), ((5, 3, 21), 1), ((2, 19, 4, 9), 1),
    ((66, 2), 0),
]  # fmt: skip
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0)
_random = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = gt.get_num_threads()
    yield
    gt.set_num_threads(before)


def _numbers(sizes: tuple[int, ...], of: Any, special: float = 0.0) -> np.ndarray:
    if of in FLOATS:
        made = _random.integers(-9, 9, sizes) * 0.25
        chosen = np.asarray(SPECIAL)[_random.integers(0, len(SPECIAL), sizes)]
        return np.where(_random.random(sizes) < special, chosen, made).astype(of)
    return np.asarray(_random.integers(0, 1 << 40, sizes)).astype(of)


def _same(found: np.ndarray, expected: np.ndarray) -> None:
    """Check that the bits are the same; NaNs may differ."""
    words = f"u{found.itemsize}"
    differs = np.ascontiguousarray(found).view(words) != np.ascontiguousarray(expected).view(words)
    assert not (differs & ((found == found) | (expected == expected))).any()


def _both(op: str, x: np.ndarray, axis: int, *outs: np.ndarray) -> list[np.ndarray]:
    """Return the arrays written to `outs`, and NumPy's results."""
    loop = getattr(stub.cpu("scan"), op)
    assert stub.is_compiled(loop)
    plain = [np.empty(out.shape, out.dtype) for out in outs]
    run(loop, x, axis, *outs)
    if x.size:
        run(getattr(numpys, op), np.array(x, order="C"), axis, *plain)
    return [*outs, *plain]


@pytest.mark.parametrize("of", (*FLOATS, *INTEGERS), ids=lambda t: t.__name__)
@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
def test_sums_and_products_have_the_bits_of_numpys(op: str, of: Any) -> None:
    for sizes, axis in SIZES:
        for special in (0.0, 0.02):
            x = _numbers(sizes, of, special)
            for layout in LAYOUTS:
                _same(*_both(op, layout(x), axis, layout(np.ones(sizes, of))))


@pytest.mark.parametrize("of", (*FLOATS, *INTEGERS, np.bool_), ids=lambda t: t.__name__)
@pytest.mark.parametrize("op", ["cummax", "cummin"])
def test_extremes_and_their_places(op: str, of: Any) -> None:
    for sizes, axis in SIZES:
        for special in (0.0, 0.05):
            x = _numbers(sizes, of, special)
            for layout in LAYOUTS:
                outs = layout(np.ones(sizes, of)), layout(np.zeros(sizes, np.int64))
                values, places, expected, at = _both(op, layout(x), axis, *outs)
                assert np.array_equal(places, at)
                kind = np.float64 if of in FLOATS else of  # zeros are equal
                np.testing.assert_array_equal(values.astype(kind), expected.astype(kind))


@pytest.mark.parametrize("of", FLOATS, ids=lambda t: t.__name__)
def test_logcumsumexp(of: Any) -> None:
    rtol = {2: 8e-3, 4: 2e-6, 8: 1e-13}[np.dtype(of).itemsize]
    for sizes, axis in SIZES:
        x = _numbers(sizes, of, 0.02) * np.asarray(9, of)
        for layout in LAYOUTS:
            found, plain = _both("logcumsumexp", layout(x), axis, layout(np.ones(sizes, of)))
            wide = np.float64
            np.testing.assert_allclose(found.astype(wide), plain.astype(wide), rtol, rtol)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_logcumsumexp_of_special_values(special: float) -> None:
    x = np.array([[-np.inf, -np.inf, 1, special, 2], [special, special, 1, 1, -np.inf]], np.float32)
    found, plain = _both("logcumsumexp", np.repeat(x, 9, 0), 1, np.empty((18, 5), np.float32))
    np.testing.assert_allclose(found, plain, 2e-7)


@pytest.mark.parametrize("op", ["cumsum", "logcumsumexp"])
@pytest.mark.parametrize("sizes, axis", [((301, 1013), 1), ((301, 1013), 0), ((3, 50000), 1)])
def test_bits_do_not_depend_on_threads(op: str, sizes: tuple[int, ...], axis: int) -> None:
    x = _random.standard_normal(sizes).astype(np.float32)
    found = []
    for threads in (1, 2, 3):
        gt.set_num_threads(threads)
        out = np.empty(sizes, np.float32)
        run(getattr(stub.cpu("scan"), op), x, axis, out)
        found.append(out)
    assert all(np.array_equal(found[0], x) for x in found[1:])


@pytest.mark.parametrize("of", [np.complex64, np.complex128])
@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
def test_complex_scans_are_numpys(op: str, of: Any) -> None:
    part = np.float32 if of is np.complex64 else np.float64
    for sizes, axis in SIZES:
        x = np.exp(1j * _random.standard_normal(sizes)).astype(of)
        for layout in LAYOUTS:
            found, plain = _both(op, layout(x), axis, layout(np.ones(sizes, of)))
            if op == "cumsum":
                _same(*[np.ascontiguousarray(y).view(part) for y in (found, plain)])
            np.testing.assert_allclose(found, plain, 1e3 * np.finfo(of).eps)


def test_complex_scan_of_elements_that_are_aligned_to_their_parts() -> None:
    room = _random.standard_normal(2 * 40 * 30 + 1)
    x = room[1:].view(np.complex128).reshape(40, 30)
    for axis in (0, 1):
        _same(*[y.view(np.float64) for y in _both("cumsum", x, axis, np.empty_like(x))])
