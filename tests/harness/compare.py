"""Checks of results that raise: equal bits, or a distance in units in the last place."""

from __future__ import annotations

from typing import Any

import numpy as np

from gputensor.core.dtype import BOOL, COMPLEX, FLOATING, complex32, dtype
from gputensor.kernels.cpu.cast import readable
from gputensor.tensor.base import materialised


def to_numpy(tensor: Any) -> np.ndarray:
    return materialised(tensor.cpu())._get_array()


def cast(wide: Any, to: dtype) -> np.ndarray:
    """Round a reference to a narrower dtype; integers keep the low bits."""
    wide = np.asarray(wide)
    if wide.dtype == to.np:
        return wide
    wide = readable(wide)
    with np.errstate(all="ignore"):
        if to.category == BOOL:
            return wide != 0
        if wide.dtype.kind == "c" and to.category < COMPLEX:
            wide = wide.real
        if to is complex32:
            return as_complex32(wide)
        return wide.astype(to.np)


def as_complex32(wide: np.ndarray) -> np.ndarray:
    parts = np.stack([wide.real, wide.imag], -1).astype(np.float16)
    return parts.view(complex32.np)[..., 0]


def same(found: np.ndarray, expected: np.ndarray) -> bool:
    """Return True if dtype, sizes and bits are equal; all NaNs are equal."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    x, y = _parts(found), _parts(expected)
    if x.tobytes() == y.tobytes():
        return True
    if x.dtype.kind in "biu":
        return False
    x_is_nan, y_is_nan = np.isnan(x), np.isnan(y)
    bits = f"u{x.dtype.itemsize}"
    return bool(
        ((x.view(bits) == y.view(bits)) | x_is_nan & y_is_nan).all()
        and (x_is_nan == y_is_nan).all()
    )


def _parts(array: np.ndarray) -> np.ndarray:
    """Return a flat array of real numbers, with real and imaginary parts as separate elements."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype == complex32.np:
        return flat.view(np.float16)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def assert_same(found: np.ndarray, expected: np.ndarray, case: Any, what: str = "") -> None:
    if not same(found, expected):
        raise AssertionError(f"{case}: {what} {_difference(found, expected)}")


def _difference(found: np.ndarray, expected: np.ndarray) -> str:
    """Describe a failure: dtypes and sizes, or the first element that differs."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"got {found.dtype}{found.shape}, wanted {expected.dtype}{expected.shape}"
    for index in np.ndindex(found.shape):
        if not same(found[index], expected[index]):
            return f"got {found[index]!r} at {index}, wanted {expected[index]!r}"
    return "no element differs"


def signs_dropped(array: np.ndarray) -> np.ndarray:
    """Replace every -0.0 by 0.0."""
    array = readable(array)
    return array + array.dtype.type(0) if array.dtype.kind in "fcV" else array


def assert_within(
    found: np.ndarray, wide: Any, of: dtype, ulp: float, case: Any, of_largest: bool = False
) -> None:
    """Raise unless `found` is within `ulp` units of the reference; 0 means correctly rounded.

    The unit is the spacing at the reference's magnitude, for a complex number at its modulus; with
    `of_largest`, at the largest finite element.
    """
    expected = cast(wide, of)
    is_exact = ulp == 0 or of.category < FLOATING
    if is_exact or found.dtype != expected.dtype or found.shape != expected.shape:
        assert_same(found, expected, case)
        return
    with np.errstate(all="ignore"):
        error = _errors(found, expected, np.asarray(wide), of, of_largest)
    worst = np.unravel_index(np.argmax(error), error.shape) if error.size else ()
    if error.size and error[worst] > ulp:
        at = tuple(map(int, worst))
        raise AssertionError(
            f"{case}: got {found[at]!r} at {at}, wanted {expected[at]!r} within {ulp} ulp: "
            f"it is {error[at]:.4g} away"
        )


def _errors(
    found: np.ndarray, expected: np.ndarray, wide: np.ndarray, of: dtype, of_largest: bool
) -> np.ndarray:
    """Return the distance of each element in units; inf if only one of two is NaN."""
    kind = np.complex128 if of.category == COMPLEX else np.float64
    x, y, z = [readable(np.asarray(a)).astype(kind) for a in (found, expected, wide)]
    magnitude = np.abs(z).astype(of.to_real.np)
    if of_largest:
        magnitude = np.max(magnitude, where=np.isfinite(magnitude), initial=0)
    unit = np.spacing(magnitude).astype(np.float64)
    equal = (x == y) | np.isnan(x) & np.isnan(y)
    error = np.abs(x - z) / unit
    return np.where(equal, 0, np.where(np.isnan(error), np.inf, error))
