"""Rows of kernels/*/ternary: three inputs, some of which may be numbers, and a scalar."""

from __future__ import annotations

from typing import Any

import numpy as np


from gputensor.core import errors
from gputensor.core.dtype import COMPLEX, FLOATING, bfloat16, float16, float32, float64, int8, int64

from . import Fails, Row, S, T


def triples(*values: str, numbers: tuple[Any, ...] = (), **kwargs: Any) -> list[S]:
    """Return triples of operands: of equal sizes, broadcast, 0-d, empty, in other layouts; the
    third may be a number."""
    a, b, c = values
    made = [
        ((2, 3), (2, 3), (2, 3)), ((), (), ()), ((0, 3), (3,), ()),
        ((2, 3), (3,), (2, 1)), ((2, 3, 4, 5), (3, 1, 1), (2, 3, 4, 5)),
    ]  # fmt: skip
    samples = [S(T(*x, values=a), T(*y, values=b), T(*z, values=c), **kwargs) for x, y, z in made]
    turned = T(2, 3, values=b, layout="transposed"), T(2, 3, values=c, layout="transposed")
    samples.append(S(T(2, 3, values=a), *turned, **kwargs))
    return samples + [S(T(2, 3, values=a), T(2, 3, values=b), n, **kwargs) for n in numbers]


def _mixed(**kwargs: Any) -> list[S]:
    """Return operands of different dtypes, with and without dimensions."""
    nonzero = [T(2, 3, values="nonzero", dtype=of) for of in (float64, float32)]
    return [
        S(T(2, 3), *nonzero, **kwargs),
        S(T(2, 3), T(2, 3, values="nonzero", dtype=float16), T(dtype=float64, values="nonzero")),
    ]


def _divides_integers(operands: Any, kwargs: Any, compute: Any) -> bool:
    return all(of.category < FLOATING for _, of in operands[1:])


def _scales_by_complex(operands: Any, kwargs: Any, compute: Any) -> bool:
    return type(kwargs.get("value")) is complex and compute.category != COMPLEX


def _bounds() -> list[S]:
    return [
        S(T(2, 3, values="any"), 1), S(T(2, 3), 0.5), S(T(2, 3), T(3)), S(T(), T(2)),
        S(T(0, 3), T()),
    ]  # fmt: skip


def _bounded(self: Any, min: Any = None, max: Any = None) -> Any:
    raised = self if min is None else np.maximum(self, min)
    return raised if max is None else np.minimum(raised, max)


def _by_bounds(args: Any, kwargs: Any) -> str | None:
    """With one bound the operator is a maximum or minimum, which supports bools; with both it is a
    clamp."""
    return "promoted_real" if sum(x is not None for x in args) == 2 else None


def _finite(self: Any, nan: Any = 0, posinf: Any = None, neginf: Any = None) -> Any:
    if self.dtype.kind not in "fc":
        return self
    high, low = (x if x is None else np.real(x) for x in (posinf, neginf))
    return np.nan_to_num(self, nan=np.real(nan), posinf=high, neginf=low)


ROWS = [
    Row(
        "addcdiv",
        triples("exact", "exact", "nonzero")
        + triples("exact", "exact", "nonzero", value=2)[:2]
        + _mixed(value=-0.5),
        lambda self, a, b, value=1: self + value * (a / b),
        refuses=_divides_integers,
        ulp=4,
        device_ulp=8,
        why="three roundings, and a complex quotient is ten; libraries scale it differently",
        errors=(
            Fails(
                S(T(2), T(2), T(2)), errors.DtypeError, "addcdiv: 'tensor2' must be floating", int64
            ),
        ),
    ),
    Row(
        "addcmul",
        triples("exact", "exact", "exact")
        + triples("exact", "exact", "exact", value=2)[:2]
        + _mixed(value=3)
        + [S(T(2, 3), T(2, 3), T(2, 3), value=2j)],
        lambda self, a, b, value=1: self + value * a * b,
        refuses=_scales_by_complex,
        ulp={float16: 1, bfloat16: 1, float32: 4},
        device_ulp=4,
        why="three roundings, of sums that may cancel in part",
        errors=(
            Fails(S(T(2), T(2), T(2), value="2"), TypeError, "addcmul: 'value' must be a number"),
            Fails(S(T(2), T(2), T(3)), errors.ShapeError, "addcmul: 'tensor2' must broadcast"),
        ),
    ),
    Row(
        "clamp",
        [
            S(T(2, 3, values="any"), 1, 3),
            S(T(2, 3), 0.5),
            S(T(2, 3), None, 1),
            S(T(), 2, 1),
            S(T(0, 3), T(3), T(0, 3)),
            S(T(2, 3, values="any"), T(3), T(2, 1)),
            S(T(2, 3), T(2, 3, layout="transposed")),
            S(T(2, 3), None, T(2, 3, dtype=float64)),
        ],
        _bounded,
        zeros_equal=True,
        numbers_meet=True,
        rule=_by_bounds,
        errors=(
            Fails(S(T(2)), errors.ArgumentError, "clamp: 'min' must be given"),
            Fails(S(T(2), 1j), errors.DtypeError, "clamp: 'self' must be real"),
            Fails(S(T(2), 0, "1"), TypeError, "clamp: 'max' must be a number"),
            Fails(S(T(2), 0, 300), RuntimeError, "clamp: 'max' must be in the range", int8),
        ),
    ),
    Row("clamp_max", _bounds(), lambda x, high: _bounded(x, None, high), zeros_equal=True),
    Row("clamp_min", _bounds(), lambda x, low: _bounded(x, low), zeros_equal=True),
    Row(
        "_larger_backward",
        triples("exact", "any", "any") + [S(T(2, 3), T(2, 3), 1), S(T(2, 3), 1, T(2, 3))],
        lambda grad, x, y: np.where(x < y, 0, np.where(x == y, grad / 2, grad)),
    ),
    Row(
        "lerp",
        triples("exact", "exact", "exact", numbers=(0.25, 0.75, 2)),
        lambda self, end, weight: self + weight * (end - self),
        out="same",
        ulp=8,
        device_ulp=8,
        why="three roundings, from the nearer end",
        errors=(
            Fails(
                S(T(2), T(2, dtype=float64), 0.5),
                errors.DtypeError,
                "lerp: 'end' must be float32",
                float32,
            ),
        ),
    ),
    Row(
        "nan_to_num",
        [
            S(T(2, 3, values="any", dtype=float64)),
            S(T(2, 3, 4, 5), 1.5, 2.5),
            S(T(2, 3), 0.5),
            S(T(3, 2), posinf=2.0),
            S(T(0, 3)),
            S(T(2, 3, values="any"), 0.5, 7.0, neginf=-7.0),
            S(T(), posinf=1.0),
        ],
        _finite,
        out="same",
        errors=(
            Fails(S(T(2), "0"), TypeError, "nan_to_num: 'nan' must be a number", float32),
            Fails(S(T(2), 1j), TypeError, "nan_to_num: 'nan' must be a number", float32),
        ),
    ),
]
