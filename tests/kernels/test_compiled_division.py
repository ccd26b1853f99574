"""Integer quotients and rests of the compiled loops: exact, whatever the numbers' sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gputensor.core import dtype as dtypes
from gputensor.kernels import stub
from gputensor.kernels.compiled import library

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)
INTEGERS = [
    dtypes.uint8, dtypes.int8, dtypes.uint16, dtypes.int16, dtypes.uint32, dtypes.int32,
    dtypes.uint64, dtypes.int64,
]  # fmt: skip
OPS = ("div_floor", "div_trunc", "remainder", "fmod")
_random = np.random.default_rng(0)


def _no_call(*operands: Any) -> None:
    raise AssertionError("the library hands the call over")


def _exact(op: str, a: int, b: int) -> int:
    if b == 0:
        return 0
    down = a // b
    whole = down + 1 if op in ("div_trunc", "fmod") and down < 0 and down * b != a else down
    return whole if op.startswith("div") else a - whole * b


def _numbers(of: Any, bits: int) -> np.ndarray:
    """Ends of the range, numbers about powers of two, and others of so many bits."""
    least, most = int(np.iinfo(of).min), int(np.iinfo(of).max)
    near = [s * (1 << k) + d for k in range(bits) for s in (-1, 1) for d in (-1, 0, 1)]
    drawn = [int(x) % (1 << bits) - (1 << bits - 1) * (least < 0) for x in
             _random.integers(0, 1 << 62, 900, dtype=np.uint64)]  # fmt: skip
    ends = [least, most, least + 1] if bits == 8 * np.dtype(of).itemsize else []
    kept = [x for x in [0, 1, 2, 3, 7, *near, *drawn, *ends] if least <= x <= most]
    return np.array(kept, of)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("of", INTEGERS, ids=lambda d: d.short)
def test_quotients_are_exact(op: str, of: dtypes.dtype) -> None:
    loop, by_number = (
        library.bind("binary", f"{op}_unchecked", (of, by), of, of, _no_call) for by in (of, int)
    )
    assert loop is not None and by_number is not None
    for bits in {8 * of.itemsize, min(8 * of.itemsize, 50)}:
        some = _numbers(of.np, bits)
        for other in (_random.permutation(some), _random.permutation(some[:40].repeat(99))):
            a, b = some[: other.size], other[: some.size]
            found = loop(a, b, np.empty_like(a))
            wrap = 1 << 8 * of.itemsize
            exact = np.array([_exact(op, int(x), int(y)) % wrap for x, y in zip(a, b)], object)
            np.testing.assert_array_equal(found.astype(object) % wrap, exact)
            for number in (7, -3, 1, -1, int(some[-1])):
                if np.iinfo(of.np).min <= number:
                    one = np.full_like(a, number)
                    np.testing.assert_array_equal(
                        by_number(a, number, np.empty_like(a)), loop(a, one, one.copy())
                    )


@pytest.mark.parametrize("op", OPS)
def test_zero_is_refused_and_nothing_is_written(op: str) -> None:
    of = dtypes.int64
    loop, by_number = (stub.cpu_loop("binary", op, (of, by), of, of) for by in (of, int))
    out, ones = np.full(3, 5), np.ones(3, np.int64)
    for divide, by in ((loop, np.array([1, 0, 1])), (by_number, 0)):
        with pytest.raises(ZeroDivisionError):
            divide(ones, by, out)
    assert (out == 5).all()
    loop(ones * 7, ones * 2, out)
    assert (out == (1 if op in ("fmod", "remainder") else 3)).all()
