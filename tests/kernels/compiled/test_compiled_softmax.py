"""The compiled loops of family softmax against NumPy in f64, over dtypes, layouts and sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu.quiet import run

from ...rows.softmax import log_softmax as log_softmax_of, softmax as softmax_of
from ..layouts import LAYOUTS

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

# The error of a sum of n terms, of exp and of rounding the result, relative to the largest term.
DTYPES = {np.float32: 2e-6, np.float64: 1e-14, np.float16: 2e-3, ml_dtypes.bfloat16: 2e-2}
SIZES: list[tuple[tuple[int, ...], int]] = [
    ((), 0), ((1,), 0), ((7,), 0), ((33,), 0), ((0, 3), 1), ((3, 0), 1), ((1, 1), 0), ((3, 5), 1),
    ((3, 5), 0), ((200, 31), 1), ((300, 33), 1), ((9, 64), 1), ((31, 200), 0), ((2, 5000), 1),
    ((5000, 2), 0), ((1500, 130), 0), ((3, 20, 7), 1), ((3, 21, 17, 9), 1), ((4, 40, 3, 5), 1),
    ((6, 1, 8), 1),
]  # fmt: skip
_random = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = gt.get_num_threads()
    yield
    gt.set_num_threads(before)


def _numbers(sizes: tuple[int, ...], of: Any) -> np.ndarray:
    return np.asarray(_random.standard_normal(sizes) * 3).astype(of)


def _softmax_backward(grad: np.ndarray, output: np.ndarray, axis: int) -> np.ndarray:
    return output * (grad - (grad * output).sum(axis, keepdims=True))


def _log_softmax_backward(grad: np.ndarray, output: np.ndarray, axis: int) -> np.ndarray:
    return grad - np.exp(output) * grad.sum(axis, keepdims=True)


REFERENCES: dict[str, tuple[int, Any]] = {
    "softmax": (1, softmax_of),
    "log_softmax": (1, log_softmax_of),
    "softmax_backward": (2, _softmax_backward),
    "log_softmax_backward": (2, _log_softmax_backward),
}


@pytest.mark.parametrize("op", REFERENCES)
@pytest.mark.parametrize("of", DTYPES, ids=lambda t: t.__name__)
def test_all_layouts_and_sizes(op: str, of: Any) -> None:
    loop = getattr(stub.cpu("softmax"), op)
    count, reference = REFERENCES[op]
    assert stub.is_compiled(loop)
    for sizes, axis in SIZES:
        given = [_numbers(sizes, of) for _ in range(count)]
        wide = [np.atleast_1d(x.astype(np.float64)) for x in given]
        if wide[0].size:
            wide[-1] = log_softmax_of(wide[-1], axis) if "log" in op else softmax_of(wide[-1], axis)
        if count == 2:
            given[1] = wide[1].reshape(sizes).astype(of)
            wide[1] = np.atleast_1d(given[1].astype(np.float64))
        else:
            wide = [np.atleast_1d(x.astype(np.float64)) for x in given]
        expected = reference(*wide, axis).reshape(sizes) if given[0].size else given[0]
        scale = 1 + np.abs(wide[0]).max(initial=0) * (sizes[axis] if sizes and count == 2 else 1)
        for layout in LAYOUTS:
            for to in (LAYOUTS[0], layout):
                out = to(np.full(sizes, 7, of))
                run(loop, *[layout(x) for x in given], axis, out)
                np.testing.assert_allclose(
                    out.astype(np.float64), expected, rtol=DTYPES[of], atol=DTYPES[of] * scale
                )


@pytest.mark.parametrize("op", REFERENCES)
@pytest.mark.parametrize("sizes, axis", [((301, 1013), 1), ((301, 1013), 0), ((5000, 10), 1)])
def test_bits_do_not_depend_on_threads_nor_on_other_rows(
    op: str, sizes: tuple[int, ...], axis: int
) -> None:
    loop, count = getattr(stub.cpu("softmax"), op), REFERENCES[op][0]
    given = [_numbers(sizes, np.float32) for _ in range(count)]
    found = []
    for threads in (1, 2, 3):
        gt.set_num_threads(threads)
        out = np.empty(sizes, np.float32)
        run(loop, *given, axis, out)
        found.append(out)
    assert all(np.array_equal(found[0], x) for x in found[1:])
    part = (slice(5, 20), slice(None))[:: 1 if axis else -1]
    some = np.empty_like(found[0][part])
    run(loop, *[x[part] for x in given], axis, some)
    assert np.array_equal(some, found[0][part])


@pytest.mark.parametrize("of", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("length", [3, 40, 1100])
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_special_values(op: str, length: int, of: Any) -> None:
    x = np.zeros((12, length), of)
    x[0] = -np.inf
    x[1, 1] = np.nan
    x[2, length - 1] = np.inf
    x[3, 1:] = -np.inf
    x[4] = -200.0
    for axis, rows in ((1, x), (0, np.ascontiguousarray(x.T))):
        out = np.empty_like(rows)
        run(getattr(stub.cpu("softmax"), op), rows, axis, out)
        found = (out if axis else out.T).astype(np.float32)
        assert np.isnan(found[:3]).all() and not np.isnan(found[3:]).any()
        assert found[3, 0] == (0 if "log" in op else 1)
        assert np.isneginf(found[3, 1:]).all() if "log" in op else not found[3, 1:].any()
        assert np.array_equal(found[4], found[5])


def test_what_underflows_is_denormal_as_exp_is() -> None:
    x = -np.linspace(0, 120, 4001, dtype=np.float32)[None]
    out = np.empty_like(x)
    run(stub.cpu("softmax").softmax, x, 1, out)
    exact = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(out, exact / exact.sum(), rtol=2e-6, atol=3e-45)
