"""Rows of kernels/*/random: numbers from Philox4x64-10, seeded with 7 by the harness.

The references compute the numbers in float64 from words of NumPy's Philox;
tests/random_numbers/test_random.py tests moments and distributions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import (
    ALL, COMPLEX, FLOATING, bool_, complex64, from_numpy, float32, float64, int8, int64,
)  # fmt: skip

from . import DEVICE, Fails, Row, S, T

FLOATS = tuple(d for d in ALL if d.category >= FLOATING)
REAL_FLOATS = tuple(d for d in ALL if d.category == FLOATING)
REAL = tuple(d for d in ALL if d.category != COMPLEX)
# The number of bits used of each 64-bit word; the dtype represents them exactly.
_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}


def words(count: int) -> np.ndarray:
    counter = np.array([2**64 - 1] * 4, np.uint64)
    source = np.random.Philox(key=np.array([7, 0], np.uint64), counter=counter)
    return source.random_raw(count).astype(np.uint64)


def _filled(size: Any, of: Any, make: Any) -> np.ndarray:
    """make(count, real dtype) returns float64, for the elements or for the parts of complex
    elements."""
    count = math.prod(size)
    if of.category == COMPLEX:
        parts = _filled((count, 2), of.to_real, make).astype(np.float64)
        return (parts[:, 0] + 1j * parts[:, 1]).astype(of.np).reshape(size)
    return make(count, of).astype(of.np).reshape(size)


def uniform(size: Any, of: Any, from_: float = 0, to: float = 1) -> np.ndarray:
    def make(count: int, of: Any) -> np.ndarray:
        bits = _BITS[of.name]
        unit = (words(count) >> np.uint64(64 - bits)).astype(np.float64) * 2.0**-bits
        return unit * (to - from_) + from_

    return _filled(size, of, make)


def _upper(words: np.ndarray, bits: int) -> np.ndarray:
    return (words >> np.uint64(64 - bits)).astype(np.int64)


def _is_wide(of: Any) -> bool:
    return of is float64 or of.category < FLOATING


def normal(size: Any, of: Any, mean: float = 0, std: float = 1) -> np.ndarray:
    std = std / math.sqrt(2) if of.category == COMPLEX else std

    def make(count: int, of: Any) -> np.ndarray:
        drawn = words(count + count % 2)
        bits, kind = ((53, 53), np.float64) if _is_wide(of) else ((30, 24), np.float32)
        unit = (_upper(drawn[::2], bits[0]) + 1).astype(kind) * 2.0 ** -bits[0]
        turn = kind(2 * math.pi * 2.0 ** -bits[1])
        angle = (_upper(drawn[1::2], bits[1]).astype(kind) * turn).astype(np.float64)
        radius = np.sqrt(-2 * np.log(unit.astype(np.float64))) * std
        both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
        return both.reshape(-1)[:count] + mean

    return _filled(size, of, make)


def _inside(count: int, of: Any) -> np.ndarray:
    bits, kind = (53, np.float64) if _is_wide(of) else (31, np.float32)
    unit = (_upper(words(count), bits) | 1).astype(kind) * kind(2.0**-bits)
    return np.minimum(unit, kind(1) - np.finfo(kind).epsneg).astype(np.float64)


def _by(make: Any) -> Any:
    """Return the reference of an in-place operator with the result `make(numbers inside (0, 1),
    *args)`."""

    def ref(self: np.ndarray, *args: float) -> np.ndarray:
        of = from_numpy(self.dtype)
        return _filled(self.shape, of, lambda count, of: make(_inside(count, of), *args))

    return ref


def _cauchy(self: np.ndarray, median: float = 0.0, sigma: float = 1.0) -> np.ndarray:
    """Use the angle rounded to the dtype, because near a pole the tangent magnifies the rounding
    error."""

    def make(count: int, of: Any) -> np.ndarray:
        kind = np.float64 if _is_wide(of) else np.float32
        angle = (_inside(count, of).astype(kind) - kind(0.5)) * kind(np.pi)
        return median + sigma * np.tan(angle.astype(np.float64))

    return _filled(self.shape, from_numpy(self.dtype), make)


def integers(size: Any, of: Any, low: int, high: Any) -> np.ndarray:
    high = int(high)
    drawn = [low + int(word) % (high - low) for word in words(math.prod(size))]
    whole = np.array([bool(x) if of is bool_ else x for x in drawn], object)  # not through f64
    return whole.astype(of.np).reshape(size)


def _random_(self: np.ndarray, *bounds: int) -> np.ndarray:
    of = from_numpy(self.dtype)
    if not bounds and of.category == FLOATING:
        bounds = (2 ** (_BITS[of.name]) + 1,)
    elif not bounds:
        bounds = (2 if of is bool_ else int(np.iinfo(of.np).max) + 1,)
    low, high = bounds if len(bounds) == 2 else (0, bounds[0])
    return integers(self.shape, of, low, high)


def chosen(size: Any, p: Any, of: Any) -> np.ndarray:
    return (_upper(words(math.prod(size)), 53) * 2.0**-53 < p).astype(of.np).reshape(size)


def _bernoulli(self: np.ndarray, p: Any = None) -> np.ndarray:
    of = from_numpy(self.dtype)
    if isinstance(p, float):
        return chosen(self.shape, p, of)
    p = np.broadcast_to(np.asarray(self if p is None else p), self.shape)
    unit = uniform(self.shape, float64 if p.dtype == np.float64 else float32)
    return (unit < p.astype(unit.dtype)).astype(self.dtype)


INTEGER = "must be floating or complex"
LIBM = "logarithms, roots and angles have each library's last bits, in float32 for 16-bit floats"
_CLOSE: Any = {"ulp": 16, "device_ulp": 16, "why": LIBM, "refuses_expanded": True}
FILLED = [T(2, 3), T(), T(0, 3), T(2, 3, 4, 5)]


def _fills(*args: Any) -> list[S]:
    """Return samples of an in-place operator: each of the sizes, and one sample with these
    arguments."""
    return [S(x) for x in FILLED] + [S(T(2, 3), *args)] * bool(args)


def refused(op: str, *args: Any, message: str, of: Any = None) -> Fails:
    return Fails(S(T(2), *args), errors.GpuTensorError, f"{op}: {message}", of)


def _multinomial(
    self: np.ndarray, num_samples: int, replacement: bool = False, generator: Any = None
) -> np.ndarray:
    """Draw by the smallest of exponential numbers; with replacement, by positions in the running
    sums."""
    wide = self.astype(np.float64)
    if replacement and num_samples > 1:
        sizes = (*self.shape[:-1], num_samples)
        of = float64 if self.dtype == np.float64 else float32
        sums = np.cumsum(wide, -1)
        drawn = uniform(sizes, of) * sums[..., -1:]
        return (drawn[..., None] >= sums[..., None, :]).sum(-1)
    rate = _filled(self.shape, from_numpy(self.dtype), lambda n, of: -np.log(_inside(n, of)))
    return np.argsort(-wide / rate, -1, kind="stable")[..., :num_samples]


ROWS = [
    Row(
        "bernoulli_",
        [S(T(2, 3)), S(T(2, 3), 0.25), S(T(3, 4), T(4, values="positive", dtype=float32))],
        lambda self, p=0.5: _bernoulli(self, p),
        dtypes=REAL,
        refuses_expanded=True,
        errors=(
            refused("bernoulli_", -0.5, message="'p' must be in"),
            Fails(
                S(T(2), T(3, dtype=float32)), errors.ArgumentError, "bernoulli_: 'p' must broadcast"
            ),
        ),
    ),
    Row(
        "bernoulli",
        [S(T(2, 3, values="positive")), S(T(0, 3)), S(T(2, 3), 0.3)],
        _bernoulli,
        out="own",
        dtypes=REAL_FLOATS,
        refuses_expanded=True,
        errors=(refused("bernoulli", 1.5, message="'p' must be in"),),
    ),
    Row(
        "cauchy_",
        _fills(0.0, 2.0),
        _cauchy,
        dtypes=REAL_FLOATS,
        **_CLOSE,
        errors=(refused("cauchy_", 0.0, -1.0, message="'sigma' must be above 0"),),
    ),
    Row(
        "exponential_",
        _fills(2.0),
        _by(lambda u, rate=1.0: -np.log(u) / rate),
        dtypes=REAL_FLOATS,
        **_CLOSE,
        errors=(refused("exponential_", -1.0, message="'lambd' must be above 0"),),
    ),
    Row(
        "geometric_",
        [S(x, 0.3) for x in FILLED],
        _by(lambda u, p: np.ceil(np.log(u) / math.log1p(-p))),
        dtypes=REAL[1:],
        refuses_expanded=True,
        errors=(
            refused("geometric_", 1.0, message=r"'p' must be in \(0, 1\)"),
            refused("geometric_", 0.5, message="'self' must be real", of=complex64),
        ),
    ),
    Row(
        "log_normal_",
        _fills(0.5, 0.25),
        lambda self, mean=1.0, std=2.0: np.exp(
            normal(self.shape, float64 if self.dtype == np.float64 else float32, mean, std).astype(
                np.float64
            )
        ).astype(self.dtype),
        dtypes=REAL_FLOATS,
        **_CLOSE,
        errors=(refused("log_normal_", 0.0, 0.0, message="'std' must be above 0"),),
    ),
    Row(
        "multinomial",
        [
            S(T(3, 4, values="positive"), 2),
            S(T(5, values="positive"), 1),
            S(T(2, 3, values="positive"), 7, replacement=True),
            S(T(3, values="positive"), 1, True, generator=None),
        ],
        _multinomial,
        dtypes=(float32, float64),
        out="same",
        result=lambda args, kwargs, of: int64,
        errors=(
            refused("multinomial", 3, message="'num_samples' must be at most 2"),
            refused("multinomial", 0, message="'num_samples' must be positive"),
            Fails(S(T(2), 1), errors.DtypeError, "multinomial: 'self' must be floating", int64),
            Fails(S(T(), 1), errors.ShapeError, "multinomial: 'self' must have one or two"),
        ),
    ),
    Row(
        "normal_",
        _fills(0.0, 2.0),
        lambda self, *a: normal(self.shape, from_numpy(self.dtype), *a),
        dtypes=FLOATS,
        **_CLOSE,
        errors=(refused("normal_", 0.0, -1.0, message="'std' must not be negative"),),
    ),
    Row(
        "normal",
        [
            S(T(2, 3), T(3, values="positive")),
            S(T(2, 3), 0.5),
            S(1.0, T(2, values="positive")),
            S(0.0, 2.0, (2, 3), device=DEVICE),
        ],
        out="own",
        dtypes=REAL_FLOATS,
        result=lambda args, kwargs, of: float32 if args[2:] else of,
        errors=(refused("normal", -1.0, message="'std' must not be negative"),),
    ),
    Row(
        "random_",
        [S(x) for x in FILLED] + [S(T(2, 3), 2), S(T(5), 0, 2)],
        _random_,
        dtypes=REAL,
        refuses_expanded=True,
        errors=(
            refused("random_", 2, 2, message="'from' must be below to"),
            refused("random_", 0, 200, message="'to' must stay within what int8 holds", of=int8),
            refused("random_", message="'self' must be real", of=complex64),
        ),
    ),
    Row(
        "uniform_",
        _fills(2.0, 4.0),
        lambda self, *a: uniform(self.shape, from_numpy(self.dtype), *a),
        dtypes=FLOATS,
        refuses_expanded=True,
        errors=(
            Fails(
                S(T(2, 3, layout="expanded")),
                errors.ArgumentError,
                "uniform_: 'self' must not hold one memory",
            ),
            refused("uniform_", 2.0, 1.0, message="'from' must not be above to"),
            refused("uniform_", message=f"'self' {INTEGER}", of=int64),
        ),
    ),
]
