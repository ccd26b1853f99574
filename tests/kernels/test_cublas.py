"""kernels/cublas.py over a replacement for CuPy that uses NumPy."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.as_torch import stand_ins
from gputensor.core import errors
from gputensor.core.dtype import dtype
from gputensor.kernels import cublas

from . import cublas_stand_in
from .cublas_stand_in import HANDLE, NAMES
from .test_cusolver import Arrays

GPU = types.SimpleNamespace(
    is_gpu=True, np=Arrays(), cublas=lambda: (cublas_stand_in.routines(), HANDLE)
)
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


def made(of: dtype, batch: tuple[int, ...], rows: int, columns: int, layout: str, seed: int) -> Any:
    random = np.random.default_rng(seed)
    x = random.integers(-4, 5, (*batch, columns + 1, rows + 1)).astype(of.np)
    if of.np.kind == "c":
        x += 1j * random.integers(-4, 5, x.shape)
    x = LAYOUTS[layout](x)
    return x.view(np.int16) if of is gt.bfloat16 else x


def values(of: dtype, x: Any) -> Any:
    return np.asarray(x).view(of.np) if of is gt.bfloat16 else np.asarray(x)


@pytest.mark.parametrize("name", NAMES)
def test_the_stand_in_has_the_parameters_of_cupy(name: str) -> None:
    spec = find_spec("cupy_backends")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    files = [file for place in places for file in Path(place).glob("cuda/libs/cublas.*.so")]
    if not files:
        pytest.skip("CuPy is not installed")
    found = re.search(rf"\0{name}\((.*?)\)".encode(), files[0].read_bytes())
    assert found is not None
    ours = [*inspect.signature(getattr(cublas_stand_in, name)).parameters]
    assert [part.split()[-1] for part in found[1].decode().split(", ")] == ours


@pytest.mark.parametrize("of", DTYPES, ids=str)
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1), (1, 1, 1)])
def test_products(of: dtype, batch: tuple[int, ...], sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    pairs = [(x, y) for x in LAYOUTS for y in LAYOUTS]
    for number, (first, second) in enumerate(pairs):
        a, b = made(of, batch, m, k, first, 1), made(of, batch, k, n, second, 2)
        third = [*LAYOUTS][number % 4]
        out = made(of, batch, m, n, third, 3)
        alpha, beta = [(1, 0), (2, 1), (1, 1), (-1, 0.5)][number % 4]
        wide = np.result_type(of.np if of.np.kind == "c" else np.float64)
        x, y, z = (values(of, v).astype(wide) for v in (a, b, out))
        wanted = alpha * (x @ y) + beta * z
        if beta == 0:
            values(of, out)[...] = np.nan
        cublas.gemm(GPU, of, *(v.view(type(GPU.np.empty(0))) for v in (out, a, b)), alpha, beta)
        np.testing.assert_array_equal(values(of, out), wanted.astype(of.np), f"{first}, {second}")
        if beta == 0:
            values(of, out)[...] = np.nan
        else:
            values(of, out)[...] = z
        cublas.on_host(of, out, a, b, alpha, beta)
        np.testing.assert_array_equal(values(of, out), wanted.astype(of.np), f"{first}, {second}")


@pytest.mark.parametrize("of", DTYPES, ids=str)
def test_precisions(of: dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cublas, "_precision", "highest")
    flags: Any = stand_ins.cuda_backend["matmul"]
    operands = [np.ones((1, 1), of.np).view(type(GPU.np.empty(0))) for _ in range(3)]
    cublas_stand_in.used.clear()
    for precision in ("highest", "high", "medium"):
        cublas.set_precision(precision)
        assert flags.allow_tf32 is (precision != "highest")
        cublas.gemm(GPU, of, *operands)
    wide = 70 if of in (gt.float64, gt.complex128) else 68
    fast = 77 if of in (gt.float32, gt.complex64) else wide
    assert cublas_stand_in.used == [wide, fast, fast]
    flags.allow_tf32 = False
    assert cublas.get_precision() == "highest"
    with pytest.raises(errors.ArgumentValueError, match="be one of highest, high, medium"):
        cublas.set_precision("low")


def test_operands_are_copied_only_if_they_must_be() -> None:
    copies: list[str] = []

    class Counting(Arrays):
        def __getattr__(self, name: str) -> Any:
            if name == "array":
                copies.append(name)
            return super().__getattr__(name)

    gpu = types.SimpleNamespace(np=Counting(), cublas=GPU.cublas)
    for layout in LAYOUTS:
        copies.clear()
        a, b = made(gt.float32, (), 3, 4, layout, 1), made(gt.float32, (), 4, 5, layout, 2)
        out = np.empty((3, 5), np.float32)
        cublas.gemm(gpu, gt.float32, *(v.view(type(GPU.np.empty(0))) for v in (out, a, b)))
        assert len(copies) == (2 if layout in ("every other", "one row many times") else 0), layout
