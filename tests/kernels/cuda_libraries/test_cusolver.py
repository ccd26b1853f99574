"""kernels/cusolver.py over a replacement for CuPy that uses LAPACK."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

from gputensor.core import errors
from gputensor.kernels import lapack
from gputensor.runtime.libraries import HOST

from . import cupys
from .cusolver_stand_in import CHARS, HANDLE, NAMES, Routines, routines


class Array(np.ndarray):
    @property
    def data(self) -> Any:  # type: ignore[override]
        return types.SimpleNamespace(ptr=self.ctypes.data)


class Arrays:
    """NumPy, with arrays that have CuPy's attribute `data`."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        return found if isinstance(found, type) or not callable(found) else self.wrapped(found)

    linalg = property(
        lambda self: types.SimpleNamespace(
            svd=self.wrapped(np.linalg.svd), qr=self.wrapped(np.linalg.qr)
        )
    )

    def wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            made = function(*args, **named)
            if isinstance(made, tuple):
                return tuple([x.view(Array) for x in made])
            return np.asarray(made).view(Array)

        return call


class Library:
    is_gpu, np = True, Arrays()

    def scipy(self, part: str) -> Any:
        """The functions of `cupyx.scipy.linalg`."""
        assert part == "linalg"
        solve = self.np.wrapped(scipy.linalg.solve_triangular)
        return types.SimpleNamespace(solve_triangular=solve)

    def cusolver(self) -> Any:
        return routines(), HANDLE


GPU = Library()


def numbers(shape: tuple[int, ...], char: str) -> Array:
    random = np.random.default_rng(3)
    made = random.standard_normal(shape)
    return (
        (made + 1j * random.standard_normal(shape) if char in "FD" else made)
        .astype(char)
        .view(Array)
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_stand_in_has_the_parameters_of_cupy(name: str) -> None:
    ours = [*inspect.signature(getattr(Routines, name)).parameters][1:]
    for letter in CHARS:
        assert cupys.parameters("cusolver", f"{letter}{name}") == ours


@pytest.mark.parametrize("char", "fdFD")
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 3, 3)])
def test_lu(char: str, shape: tuple[int, ...]) -> None:
    a = numbers(shape, char)
    a[..., -1] = 0
    found = lapack.lu_factor(GPU, a.swapaxes(-1, -2))
    wanted = lapack.lu_factor.__wrapped__(HOST, a.swapaxes(-1, -2))
    for x, y in zip(found, wanted):
        np.testing.assert_array_equal(x, y)
        assert x.dtype == y.dtype
    if shape[-1] == shape[-2]:
        assert np.all(found[2] == 3), "it is singular, which nobody warns of"


@pytest.mark.parametrize("char", "fdFD")
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("batch", [(), (1,), (2, 3)])
def test_cholesky(char: str, upper: bool, batch: tuple[int, ...]) -> None:
    a = numbers((*batch, 3, 3), char)
    a = a @ a.swapaxes(-1, -2).conj() + np.eye(3, dtype=char)
    kept = np.triu(a) if upper else np.tril(a)  # nothing else is read
    if batch:
        kept[..., -1, 1, 1] = -1  # the last of each row fails at its second pivot
    found, info = lapack.cholesky(GPU, kept.view(Array), upper)
    assert info.dtype == np.int32 and info.shape == batch
    is_good = np.asarray(info) == 0
    assert is_good.sum() == (is_good.size - batch[0] if len(batch) > 1 else not batch)
    assert np.isin(info, (0, 2)).all(), "which pivot failed, as LAPACK says"
    wanted = np.linalg.cholesky(np.asarray(a)[is_good])
    found = np.asarray(found)[is_good]
    made = found.swapaxes(-1, -2).conj() if upper else found
    np.testing.assert_allclose(made, wanted, rtol=2e-5 if char in "fF" else 1e-12, atol=1e-5)


@pytest.mark.parametrize("char", "fdFD")
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3), (2, 4, 2)])
def test_least_squares(char: str, driver: str, shape: tuple[int, ...]) -> None:
    *batch, m, n = shape
    a, b = numbers(shape, char), numbers((*batch, m, 2), char)[..., ::-1, :]
    if driver != "gels":
        a[..., 1] = a[..., 0]  # without full rank
    found, rank, values = lapack.lstsq(GPU, a, b, 1e-4, driver)
    wanted = np.linalg.pinv(np.asarray(a), rcond=1e-4) @ b
    tolerance = 2e-4 if char in "fF" else 1e-9
    np.testing.assert_allclose(found[..., :n, :], wanted, rtol=tolerance, atol=tolerance)
    rest = np.linalg.norm(found[..., n:, :], axis=-2)
    if m > n:
        missed = np.linalg.norm(b - a @ wanted, axis=-2)
        if driver == "gels":
            np.testing.assert_allclose(rest, missed, rtol=tolerance, atol=tolerance)
    if driver != "gels":
        np.testing.assert_array_equal(rank, min(m, n) - (m >= n))
        singular = np.linalg.svd(np.asarray(a), compute_uv=False)
        np.testing.assert_allclose(values, singular, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("char", "fdFD")
@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_ldl(char: str, hermitian: bool, n: int) -> None:
    a = numbers((3, n, n), char)
    turned = a.swapaxes(-1, -2).conj() if hermitian else a.swapaxes(-1, -2)
    a = a + turned
    a[1] = 1 - np.eye(n) if n > 1 else 2  # zeros on the diagonal: blocks of two
    b = numbers((3, n, 2), char)[..., ::-1, :]
    on_host = lapack.ldl_factor(HOST, np.asarray(a), hermitian)
    is_complex = char in "FD"
    if hermitian and is_complex:
        with pytest.raises(errors.GpuTensorError, match="'hermitian' must be False"):
            lapack.ldl_factor(GPU, a, True)
        ld, pivots, info = (x.view(Array) for x in on_host)
    else:
        ld, pivots, info = lapack.ldl_factor(GPU, a, hermitian)
        np.testing.assert_array_equal(pivots, on_host[1])
        np.testing.assert_array_equal(ld, on_host[0])
    assert (info == 0).all() and (n == 1 or (pivots < 0).any())
    found = lapack.ldl_solve(GPU, ld, pivots, b, hermitian)
    wanted = lapack.ldl_solve(HOST, *on_host[:2], np.asarray(b), hermitian)
    tolerance = 2e-3 if char in "fF" else 1e-9
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
