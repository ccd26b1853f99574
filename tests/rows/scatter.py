"""Rows of kernels/*/scatter: writes of elements by index."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import ALL, bool_, complex128, float32, int16, int32, int64

from . import Fails, Row, S, T
from .gather import at, key

_AT = {
    "add": np.add.at, "sum": np.add.at, "mean": np.add.at, "multiply": np.multiply.at,
    "prod": np.multiply.at, "amax": np.maximum.at, "amin": np.minimum.at,
}  # fmt: skip


def _wide(x: Any) -> np.ndarray:
    """Convert narrow floats to float64; the result is rounded once."""
    x = np.asarray(x)
    return x.astype(np.float64) if x.dtype.kind in "fV" else x.copy()


def _combine(x: np.ndarray, places: Any, values: Any, how: str, include_self: bool) -> np.ndarray:
    made, values = _wide(x), _wide(values)
    if not include_self:
        kind = made.dtype.kind
        low, high = (-np.inf, np.inf) if kind == "f" else (0, 0)
        if kind in "iu":
            low, high = np.iinfo(made.dtype).min, np.iinfo(made.dtype).max
        if kind == "b":
            low, high = False, True
        made[places] = {"prod": 1, "amax": low, "amin": high}.get(how, 0)
    if how == "mean" and made.dtype.kind in "biu":
        made, values = made.astype(np.int64), values.astype(np.int64)
    _AT[how](made, places, values)
    if how == "mean":
        counts = np.full(made.shape, int(include_self))
        np.add.at(counts, places, 1)
        counts = np.maximum(counts, 1)
        made = made / counts if made.dtype.kind in "fc" else made // counts
    return made


def _put(x: np.ndarray, indices: Any, values: np.ndarray, accumulate: bool = False) -> np.ndarray:
    if accumulate:
        return _combine(x, key(indices), values, "add", True)
    made = x.copy()
    made[key(indices)] = values
    return made


def _masked_put(x: np.ndarray, mask: np.ndarray, indices: Any, values: np.ndarray) -> np.ndarray:
    return _put(x, indices, np.where(mask, values, 0).astype(values.dtype), True)


def _grid(x: np.ndarray, dim: int, index: np.ndarray) -> tuple[Any, ...]:
    places = list(np.indices(np.atleast_1d(index).shape, sparse=True))
    places[dim] = np.atleast_1d(index)
    return tuple(places)


def _scatter(
    x: np.ndarray, dim: int, index: np.ndarray, src: Any, reduce: str | None = None,
    include_self: bool = True,
) -> np.ndarray:  # fmt: skip
    if not index.size:
        return x
    given = np.atleast_1d(x)
    places = _grid(given, dim, index)
    if isinstance(src, np.ndarray):
        src = np.atleast_1d(src)[tuple([slice(n) for n in np.atleast_1d(index).shape])]
    if reduce is None:
        made = given.copy()
        made[places] = np.asarray(src).astype(x.dtype)
    else:
        made = _combine(given, places, np.asarray(src).astype(x.dtype), reduce, include_self)
    return made.reshape(x.shape)


def _slices(dim: int, index: np.ndarray) -> tuple[Any, ...]:
    return (*(slice(None),) * dim, np.atleast_1d(index))


def _add_slices(x: np.ndarray, dim: int, index: np.ndarray, source: Any, *, alpha: Any = 1) -> Any:
    return _combine(x, _slices(dim, index), _wide(source) * np.asarray(alpha).astype(x.dtype)
                    if alpha != 1 else source, "add", True)  # fmt: skip


def _set_slices(x: np.ndarray, dim: int, index: np.ndarray, source: Any) -> np.ndarray:
    made = x.copy()
    made[_slices(dim, index)] = np.asarray(source).astype(x.dtype)
    return made


def _reduce_slices(
    x: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, reduce: str, *,
    include_self: bool = True,
) -> np.ndarray:  # fmt: skip
    return _combine(x, _slices(dim, index), source, reduce, include_self)


def _put_flat(
    x: np.ndarray, index: np.ndarray, source: np.ndarray, accumulate: bool = False
) -> Any:
    flat = x.reshape(-1)
    made = _put(flat, [index.reshape(-1)], source.reshape(-1), accumulate)
    return made.reshape(x.shape)


def _into_index(x: np.ndarray, src: np.ndarray, dim: int, index: int) -> np.ndarray:
    made = x.copy()
    np.moveaxis(made, dim, 0)[index] = src
    return made


def _into_slice(
    x: np.ndarray, src: np.ndarray, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> np.ndarray:
    made = x.copy()
    np.moveaxis(made, dim, 0)[start:end:step] = np.moveaxis(src, dim, 0)
    return made


def _unfolded(grad: np.ndarray, sizes: Any, dim: int, size: int, step: int) -> np.ndarray:
    made = np.zeros(sizes, np.float64 if grad.dtype.kind in "fV" else grad.dtype)
    dim %= len(sizes)
    for number, start in enumerate(range(0, sizes[dim] - size + 1, step)):
        part = np.moveaxis(made, dim, 0)[start : start + size]
        part += np.moveaxis(np.moveaxis(grad, dim, 0)[number], -1, 0)
    return made


_REAL = tuple([of for of in ALL if not of.is_complex])
# Write to each place once, because on a device two writes to one place have no order.
_PLACES = [
    S(T(3, 4), 0, at(1, 4), T(1, 4)),
    S(T(2, 3), 1, at(2, 1, dtype=int32), T(3, 2)),
    S(T(3), 0, at(), T()),
    S(T(2, 3), 1, at(2, 0), T(2, 3)),
]
_MANY = [
    S(T(3, 4), 0, at(5, 4), T(5, 4)),
    S(T(3, 2, 4, 5), 0, at(4, 1, 3, 5, layout="transposed"), T(4, 2, 3, 5)),
    S(T(3), 0, at(), T()),
]


def _reductions(samples: list[S], names: str) -> list[S]:
    return [
        S(*samples[number % len(samples)].args, reduce, include_self=number % 2 == 0)
        for number, reduce in enumerate(f"{names} {names}".split())
    ]


def _other_dtype(op: str, arg: str, *args: Any) -> Fails:
    message = f"{op}: '{arg}' must be float32, as self is"
    return Fails(S(T(3), *args), errors.DtypeError, message, float32)


_SLICES = [
    S(T(3, 4), 0, at(1), T(1, 4)),
    S(T(2, 3, 4), 1, at(), T(2, 1, 4)),
    S(T(3), 0, at(), T()),
    S(T(3, 4), 0, at(0), T(0, 4)),
]
_MEAN = "one division, of sums that are exact"

ROWS = [
    Row(
        "index_add",
        [
            S(T(3, 4), 0, at(5), T(5, 4)),
            S(T(2, 3, 4), 1, at(4), T(2, 4, 4), alpha=2),
            S(T(3), 0, at(), T()),
        ],
        _add_slices,
        out="same",
        errors=(
            _other_dtype("index_add", "source", 0, at(2), T(2, dtype=int16)),
            Fails(
                S(T(3, 3), 0, at(2), T(3, 3)),
                errors.ShapeError,
                "index_add: 'source' must have a slice for each index",
            ),
        ),
    ),
    Row(
        "index_copy",
        _SLICES,
        _set_slices,
        out="same",
        errors=(_other_dtype("index_copy", "source", 0, at(2), T(2, dtype=int16)),),
    ),
    Row(
        "index_fill",
        [
            S(T(3, 4), 0, at(5), 1),
            S(T(2, 3, 4), 1, at(), True),
            S(T(3, 4), 0, at(2), T(dtype=int64)),
            S(T(3), 0, at(0), T(dtype=float32)),
        ],
        _set_slices,
        out="same",
        errors=(
            Fails(
                S(T(2), 0, at(1), T(2)),
                errors.ArgumentError,
                "index_fill: 'value' must be a number or a 0-d tensor",
            ),
        ),
    ),
    Row(
        "index_put",
        [
            S(T(5, 4), [None, at()], T(5)),
            S(T(3, 4, 3), [at(1), None, at(1)], T(1, 4)),
            S(T(3, 4), [at(2, 2)], T(4), True),
            S(T(3, 4, 3), [at(5), None, at(5)], T(5, 4), True),
            S(T(0, 4), [None, at(2)], T(0, 2)),
        ],
        _put,
        out="same",
        errors=(
            _other_dtype("index_put", "values", [at(2)], T(dtype=int16)),
            Fails(
                S(T(3, 4), [at(2)], T(3)),
                errors.ShapeError,
                r"index_put: 'values' must broadcast to the places that are written, \[2, 4\]",
            ),
        ),
    ),
    Row(
        "_index_put_impl_",
        [S(T(3, 4), [at(2)], T(4), True), S(T(3, 4), [None, at(1)], T(3, 1))],
        _put,
        refuses_expanded=True,
    ),
    Row(
        "index_reduce",
        _reductions(
            [S(T(3, 4), 0, at(5), T(5, 4)), S(T(2, 3, 4), 1, at(4), T(2, 4, 4))],
            "prod mean amax amin",
        ),
        _reduce_slices,
        dtypes=_REAL,
        out="same",
        ulp=1,
        device_ulp=1,
        why=_MEAN,
        errors=(
            Fails(
                S(T(3), 0, at(2), T(2), "sum"),
                errors.ArgumentError,
                "index_reduce: 'reduce' must be one of prod, mean, amax, amin",
            ),
        ),
    ),
    Row(
        "put",
        [
            S(T(3, 4), at(1, 1), T(1)),
            S(T(3, 4), at(2, 3), T(6), True),
            S(T(3), at(), T(1)),
            S(T(3), at(0), T(0)),
        ],
        _put_flat,
        out="same",
        errors=(
            _other_dtype("put", "source", at(2), T(2, dtype=int16)),
            Fails(
                S(T(3), at(2), T(3)),
                errors.ShapeError,
                "put: 'source' must have a value for each index, 2",
            ),
        ),
    ),
    Row(
        "scatter",
        [
            *_PLACES,
            S(T(3, 4), 0, at(2, 4), 1),
            S(T(3), 0, at(), True),
            *[S(*sample.args, reduce="add") for sample in _MANY[:1]],
            S(T(3, 4), 0, at(5, 4), T(5, 4), reduce="multiply"),
            S(T(3, 4), 0, at(5, 4), 1, reduce="add"),
        ],
        _scatter,
        # there is no atomic product of c128
        dtypes=tuple([of for of in ALL if of is not complex128]),
        out="same",
        errors=(
            _other_dtype("scatter", "src", 0, at(2), T(2, dtype=int16)),
            Fails(
                S(T(3, 4), 0, at(2, 4), T(1, 4)),
                errors.ShapeError,
                "scatter: 'index' must be no longer than src at dimension 0, 1",
            ),
            Fails(
                S(T(3), 0, at(2), T(2), reduce="mean"),
                errors.ArgumentError,
                "scatter: 'reduce' must be 'add' or 'multiply'",
            ),
        ),
    ),
    Row(
        "scatter_add",
        _MANY,
        lambda x, dim, index, src: _scatter(x, dim, index, src, "add"),
        out="same",
        errors=(_other_dtype("scatter_add", "src", 0, at(2), T(2, dtype=int16)),),
    ),
    Row(
        "scatter_reduce",
        _reductions(_MANY, "sum prod mean amax amin"),
        lambda x, dim, index, src, reduce, *, include_self=True: _scatter(
            x, dim, index, src, reduce, include_self
        ),
        dtypes=_REAL,
        out="same",
        ulp=1,
        device_ulp=1,
        why=_MEAN,
        errors=(
            Fails(
                S(T(3), 0, at(2), T(2), "add"),
                errors.ArgumentError,
                "scatter_reduce: 'reduce' must be one of sum, prod, mean, amax, amin",
            ),
        ),
    ),
    Row(
        "select_scatter",
        [S(T(3, 4), T(4), 0, 1), S(T(2, 3, 4), T(2, 3), -1, -1), S(T(3), T(), 0, 0)],
        _into_index,
        out="same",
        errors=(
            Fails(
                S(T(3, 4), T(3), 0, 1),
                errors.ShapeError,
                r"select_scatter: 'src' must have the sizes of what it replaces, \[4\]",
            ),
        ),
    ),
    Row(
        "slice_scatter",
        [S(T(3, 4), T(3, 4)), S(T(3, 4), T(3, 2), 1, 0, 4, 2), S(T(5), T(0), 0, 3, 3)],
        _into_slice,
        out="same",
        errors=(
            Fails(
                S(T(3), T(2)),
                errors.ShapeError,
                r"slice_scatter: 'src' must have the sizes of what it replaces, \[3\]",
            ),
        ),
    ),
    Row(
        "unfold_backward",
        [S(T(3, 3), (7,), 0, 3, 2), S(T(2, 3, 3, 2), (2, 3, 4), -1, 2, 1)],
        _unfolded,
        out="same",
        errors=(
            Fails(
                S(T(3, 3), (9,), 0, 3, 2),
                errors.ShapeError,
                r"unfold_backward: 'grad_in' must have sizes \[4, 3\]",
            ),
        ),
    ),
    Row("_unsafe_index_put", [S(T(3, 4), [at(2)], T(4), True)], _put),
    Row(
        "_unsafe_masked_index_put_accumulate",
        [S(T(3, 4), T(2, dtype=bool_), [at(2), at(2)], T(2))],
        _masked_put,
    ),
]
