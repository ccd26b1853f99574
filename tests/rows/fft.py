"""Rows of native/fft.py: discrete Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import complex64, complex128, float16, float32, float64, int64

from . import DTYPE, Fails, Row, S, T

REAL, COMPLEX = (float32, float64), (complex64, complex128)
ULP = {"ulp": 512, "device_ulp": 512, "zeros_equal": True, "of_largest": True}
WHY = "sums of n terms that may cancel, in the order of a butterfly; NumPy's is another library's"
_NORMS = {True: ("backward", "ortho", "forward"), False: ("forward", "ortho", "backward")}
_SINGLE = {np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}


def _as(found: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Older versions of NumPy transform in double only. Cast the result to the operand's precision
    and set elements to 0 whose terms cancel: NumPy leaves a rounding error of double there."""
    if like.dtype.itemsize != (8 if like.dtype.kind == "c" else 4):
        return found
    size = np.abs(found)
    noise = np.max(size, initial=0, where=np.isfinite(size)) * found.size * 2.0**-52
    return np.where(size <= noise, 0, found).astype(_SINGLE.get(found.dtype, found.dtype))


def _c2c(x: np.ndarray, dim: Any, normalization: int, forward: bool) -> np.ndarray:
    function = np.fft.fftn if forward else np.fft.ifftn
    return _as(function(x, axes=dim, norm=_NORMS[forward][normalization]), x)


def _r2c(x: np.ndarray, dim: Any, normalization: int, onesided: bool) -> np.ndarray:
    function = np.fft.rfftn if onesided else np.fft.fftn
    return _as(function(x, axes=dim, norm=_NORMS[True][normalization]), x)


def _c2r(x: np.ndarray, dim: Any, normalization: int, last_dim_size: int) -> np.ndarray:
    norm = _NORMS[False][normalization]
    inner = np.fft.ifftn(x, axes=dim[:-1], norm=norm) if len(dim) > 1 else x
    return _as(np.fft.irfft(inner, last_dim_size, dim[-1], norm), x)


def _named(name: str) -> Callable[..., np.ndarray]:
    def reference(x: np.ndarray, n: Any = None, dim: int = -1, norm: Any = None) -> np.ndarray:
        return _as(np.asarray(getattr(np.fft, name)(x, n, dim, norm)), x)

    return reference


def _over_several(name: str) -> Callable[..., np.ndarray]:
    def reference(x: np.ndarray, s: Any = None, dim: Any = None, norm: Any = None) -> np.ndarray:
        dims = tuple(range(x.ndim)) if dim is None else tuple(d % x.ndim for d in dim)
        sizes = [None] * len(dims) if s is None else [None if n == -1 else n for n in s]
        rest = list(zip(dims[:-1], sizes[:-1]))
        made, is_half = x, name in ("rfftn", "ihfftn")
        if is_half or name in ("fftn", "ifftn"):
            made = getattr(np.fft, name[:-1])(made, sizes[-1], dims[-1], norm)
        inner = np.fft.fft if name in ("fftn", "rfftn", "hfftn") else np.fft.ifft
        for d, n in rest:
            made = inner(made, n, d, norm)
        if not is_half and name not in ("fftn", "ifftn"):
            made = getattr(np.fft, name[:-1])(made, sizes[-1], dims[-1], norm)
        return _as(np.asarray(made), x)

    return reference


_LEAF = [((4,), (0,)), ((2, 3, 5), (1,)), ((3, 4), (0, 1)), ((0, 4), (1,))]
_DIMS = [S(T(6)), S(T(2, 5), n=3), S(T(3, 4), n=7, dim=0), S(T(2, 4), norm="ortho")]
_DIMS.append(S(T(2, 4), norm="forward"))
_SEVERAL = [S(T(3, 4)), S(T(2, 3, 4), s=(5, -1), dim=(0, 2)), S(T(2, 4), dim=(1, 0), norm="ortho")]


def _fails(op: str) -> tuple[Fails, ...]:
    return (
        Fails(S(T(3), n=0), errors.ArgumentError, f"{op}: 'n' must be positive"),
        Fails(S(T(3), norm="no"), errors.ArgumentError, f"{op}: 'norm' must be one of backward"),
        Fails(S(T(3), dim=1), errors.IndexRangeError, rf"{op}: 'dim' must be in \[-1, 0\]"),
        Fails(S(T(3)), errors.DtypeError, f"{op}: 'self' must be f32, f64", float16),
    )


def _to_real(args: Any, kwargs: Any, of: Any) -> Any:
    return of.to_real


def _to_complex(args: Any, kwargs: Any, of: Any) -> Any:
    return of.to_complex


def _of_options(args: Any, kwargs: Any, of: Any) -> Any:
    return of if "dtype" in kwargs else float32


def _result(name: str) -> Any:
    return _to_real if name in ("irfft", "hfft") else _to_complex


def _row(name: str, of: Any) -> Row:
    samples = _DIMS if name not in ("irfft", "hfft") else [s for s in _DIMS if s.args[0].sizes]
    return Row(
        f"fft_{name}", samples, _named(name), out="same", dtypes=of, errors=_fails(name),
        result=_result(name), why=WHY, **ULP,
    )  # fmt: skip


def _rows_of_several(name: str, of: Any) -> list[Row]:
    fails = (
        Fails(S(T(3, 3), s=(3,), dim=(0, 1)), errors.ArgumentError, "'s' must have 2 sizes"),
        Fails(S(T(3, 3), dim=(0, 0)), errors.ArgumentError, "'dim' must name each"),
    )
    over_two = [S(T(3, 4)), S(T(2, 3, 4), s=(5, 3))]
    reference = _over_several(f"{name}n")

    def two(x: np.ndarray, s: Any = None, dim: Any = (-2, -1), norm: Any = None) -> np.ndarray:
        return reference(x, s, dim, norm)

    more: Any = {"out": "same", "dtypes": of, "why": WHY, "errors": fails, **ULP}
    more["result"] = _result(name)
    return [
        Row(f"fft_{name}n", _SEVERAL, reference, **more),
        Row(f"fft_{name}2", over_two, two, **more),
    ]


def _shift(function: Any) -> Callable[..., np.ndarray]:
    return lambda x, dim=None: function(x, dim)


_TAKES = {"fft": COMPLEX, "ifft": COMPLEX, "rfft": REAL, "irfft": COMPLEX, "hfft": COMPLEX,
          "ihfft": REAL}  # fmt: skip
_SHIFTED = [S(T(5)), S(T(4, 3)), S(T(4, 3), dim=(0,))]

ROWS = [
    Row(
        "_fft_c2c",
        [S(T(*sizes), dims, 0, True) for sizes, dims in _LEAF] + [S(T(4), (0,), 2, False)],
        _c2c,
        out="same",
        dtypes=COMPLEX,
        why=WHY,
        errors=(Fails(S(T(3), (0,), 0, True), errors.DtypeError, "be c64 or c128", float32),),
        **ULP,
    ),
    Row(
        "_fft_c2r",
        [S(T(*sizes), dims, 0, 2 * sizes[dims[-1]] - 1) for sizes, dims in _LEAF]
        + [S(T(4), (0,), 1, 6)],
        _c2r,
        out="same",
        dtypes=COMPLEX,
        result=_to_real,
        why=WHY,
        errors=(Fails(S(T(3), (0,), 0, 0), errors.ArgumentError, "must be positive", complex64),),
        **ULP,
    ),
    Row(
        "_fft_r2c",
        [S(T(*sizes), dims, 0, True) for sizes, dims in _LEAF] + [S(T(2, 3), (1, 0), 1, False)],
        _r2c,
        out="same",
        dtypes=REAL,
        result=_to_complex,
        why=WHY,
        errors=(
            Fails(S(T(3), (0,), 0, True), errors.DtypeError, "be f32 or f64", int64),
            Fails(S(T(3, 0), (1,), 0, True), errors.ShapeError, "have elements along", float32),
        ),
        **ULP,
    ),
    Row(
        "fft_fftfreq",
        [S(5), S(4, 0.5), S(1, dtype=DTYPE)],
        lambda n, d=1.0, dtype=None: np.fft.fftfreq(n, d).astype((dtype or float32).np),
        out="inexact",
        ulp=1,
        why="one multiplication with the rounded reciprocal",
        result=_of_options,
        dtypes=REAL,
        errors=(Fails(S(-1), errors.ArgumentError, "fftfreq: 'n' must not be negative"),),
    ),
    Row(
        "fft_rfftfreq",
        [S(5), S(4, 0.5), S(1, dtype=DTYPE)],
        lambda n, d=1.0, dtype=None: np.fft.rfftfreq(n, d).astype((dtype or float32).np),
        out="inexact",
        ulp=1,
        why="one multiplication with the rounded reciprocal",
        result=_of_options,
        dtypes=REAL,
        errors=(Fails(S(5, dtype=int64), errors.ArgumentError, "'dtype' must be floating"),),
    ),
    Row("fft_fftshift", _SHIFTED, _shift(np.fft.fftshift), dtypes=(float32, int64)),
    Row("fft_ifftshift", _SHIFTED, _shift(np.fft.ifftshift), dtypes=(float32, int64)),
    *[_row(name, of) for name, of in _TAKES.items()],
    *[row for name, of in _TAKES.items() for row in _rows_of_several(name, of)],
]
ROWS.sort(key=lambda row: row.name.strip("_"))
