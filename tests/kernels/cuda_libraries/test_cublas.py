"""kernels/cublas.py over a replacement for CuPy's interface of cuBLAS that uses NumPy."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.as_torch import stand_ins
from gputensor.core import errors
from gputensor.core.dtype import dtype
from gputensor.core.geometry import Geometry, geometry
from gputensor.kernels import cublas

from . import cublas_stand_in, cupys
from .cublas_stand_in import HANDLE, NAMES

DTYPES = [gt.float32, gt.float64, gt.float16, gt.bfloat16, gt.complex64, gt.complex128]
# Layouts of a matrix, as functions of an array of one more row and column of (columns, rows).
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "row-major": lambda x: x.swapaxes(-1, -2)[..., :-1, :-1].copy(order="C"),
    "column-major": lambda x: x[..., :-1, :-1].copy(order="C").swapaxes(-1, -2),
    "a part of rows": lambda x: x.swapaxes(-1, -2).copy(order="C")[..., :-1, 1:],
    "a part of columns": lambda x: x[..., 1:, :-1].swapaxes(-1, -2),
    "every other": lambda x: np.repeat(x.swapaxes(-1, -2), 2, -1)[..., :-1, :-2:2],
    "one row many times": lambda x: np.broadcast_to(
        x[..., :-1, :1].copy().swapaxes(-1, -2), x.swapaxes(-1, -2)[..., :-1, :-1].shape
    ),
}

DENSE = [*LAYOUTS][:4]


def made(of: dtype, batch: tuple[int, ...], rows: int, columns: int, layout: str, seed: int) -> Any:
    random = np.random.default_rng(seed)
    x = random.integers(-4, 5, (*batch, columns + 1, rows + 1)).astype(of.np)
    if of.np.kind == "c":
        x += 1j * random.integers(-4, 5, x.shape)
    return LAYOUTS[layout](x)


def geometry_of(of: dtype, x: Any) -> Geometry:
    return geometry(x.shape, tuple([by // x.itemsize for by in x.strides]), of)


@pytest.mark.parametrize("name", NAMES)
def test_the_stand_in_has_the_parameters_of_cupy(name: str) -> None:
    ours = [*inspect.signature(getattr(cublas_stand_in, name)).parameters]
    assert cupys.parameters("cublas", name) == ours


@pytest.mark.parametrize("of", DTYPES, ids=str)
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1), (1, 1, 1)])
def test_products(of: dtype, batch: tuple[int, ...], sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    for number, (first, second) in enumerate(itertools.product(DENSE, DENSE)):
        third = ("row-major", "a part of rows")[number % 2]
        a, b = made(of, batch, m, k, first, 1), made(of, batch, k, n, second, 2)
        out = made(of, batch, m, n, third, 3)
        alpha, beta = [(1, 0), (2, 1), (1, 1), (-1, 0.5)][number % 4]
        wide = np.result_type(of.np if of.np.kind == "c" else np.float64)
        x, y, z = (v.astype(wide) for v in (a, b, out))
        wanted = (alpha * (x @ y) + beta * z).astype(of.np)
        out[...] = np.nan if beta == 0 else z
        run = cublas.product(*(geometry_of(of, v) for v in (out, a, b)))
        run(cublas_stand_in, HANDLE, *(v.ctypes.data for v in (out, a, b)), alpha, beta)
        np.testing.assert_array_equal(out, wanted, f"{first}, {second}")
        out[...] = np.nan if beta == 0 else z
        cublas.on_host(None, out, of, a, b, alpha, beta)
        np.testing.assert_array_equal(out, wanted, f"{first}, {second}")


@pytest.mark.parametrize("of", DTYPES, ids=str)
def test_precisions(of: dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cublas, "_precision", "highest")
    flags: Any = stand_ins.cuda_backend["matmul"]
    one = np.ones((1, 1), of.np)
    run = cublas.product(*[geometry_of(of, one)] * 3)
    cublas_stand_in.used.clear()
    for precision in ("highest", "high", "medium"):
        cublas.set_precision(precision)
        assert flags.allow_tf32 is (precision != "highest")
        run(cublas_stand_in, HANDLE, *[one.ctypes.data] * 3, 1, 0)
    wide = 70 if of in (gt.float64, gt.complex128) else 68
    fast = 77 if of in (gt.float32, gt.complex64) else wide
    assert cublas_stand_in.used == [wide, fast, fast]
    flags.allow_tf32 = False
    assert cublas.get_precision() == "highest"
    with pytest.raises(errors.ArgumentValueError, match="be one of highest, high, medium"):
        cublas.set_precision("low")


def test_operands_are_copied_only_if_they_must_be() -> None:
    for layout in LAYOUTS:
        x = made(gt.float32, (), 3, 4, layout, 1)
        found = cublas.form(geometry_of(gt.float32, x))
        assert (found is not None) == (layout in DENSE), layout
        if found is not None:
            assert found[0] == (layout in ("column-major", "a part of columns")), layout
