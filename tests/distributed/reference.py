"""Parts of cases: data known to every rank, layouts, NumPy's results."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

import gputensor as gt

Case = Callable[[str], None]
CASES: dict[str, Case] = {}
has_nccl = False  # True if NCCL, or its replacement, moves CUDA tensors
DTYPES = {
    "f32": gt.float32, "f64": gt.float64, "f16": gt.float16, "bf16": gt.bfloat16,
    "c64": gt.complex64, "i64": gt.int64, "i8": gt.int8, "u16": gt.uint16, "bool": gt.bool,
}  # fmt: skip
SHAPES = [(), (1,), (5,), (0, 3), (4, 6), (2, 3, 4)]


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def data(shape: tuple[int, ...], dtype: Any, seed: int, rank: int) -> np.ndarray:
    """Return small integers, so that sums are exact in every dtype."""
    random = np.random.default_rng([seed, rank, len(shape)])
    found = random.integers(0, 2 if dtype is gt.bool else 4, shape)
    if dtype is gt.complex64:
        return (found + 1j * random.integers(0, 4, shape)).astype(np.complex64)
    return np.asarray(found).astype(dtype.np)


def laid(array: np.ndarray, device: str, layout: str) -> Any:
    """Return the array as a tensor: dense, transposed, or every second element of a larger one."""
    x = gt.from_numpy(np.array(array)).to(device)
    if layout == "turned" and x.ndim > 1:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "stepped" and x.ndim:
        wide = gt.zeros(*x.shape[:-1], x.shape[-1] * 2, dtype=x.dtype, device=device)
        wide[..., ::2] = x
        return wide[..., ::2]
    return x


LAYOUTS = ("dense", "turned", "stepped")


def same(x: Any, wanted: np.ndarray) -> None:
    found = x.cpu().numpy()
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    assert found.dtype == wanted.dtype, (found.dtype, wanted.dtype)
    np.testing.assert_array_equal(
        found.astype(np.float32) if found.dtype.name == "bfloat16" else found,
        wanted.astype(np.float32) if wanted.dtype.name == "bfloat16" else wanted,
    )


def reduced(arrays: list[np.ndarray], op: str) -> np.ndarray:
    dtype = arrays[0].dtype
    if dtype == np.bool_:
        functions = {"sum": np.logical_or, "max": np.logical_or, "product": np.logical_and,
                     "min": np.logical_and, "band": np.logical_and, "bor": np.logical_or,
                     "bxor": np.logical_xor}  # fmt: skip
        return np.asarray(reduce(functions[op], arrays))
    of_op = {"sum": np.add, "avg": np.add, "product": np.multiply, "min": np.minimum,
             "max": np.maximum, "band": np.bitwise_and, "bor": np.bitwise_or,
             "bxor": np.bitwise_xor}  # fmt: skip
    wide = (
        [a.astype(np.float32) for a in arrays]
        if dtype.itemsize == 2
        and op in ("sum", "avg", "product", "min", "max")
        and dtype.name in ("float16", "bfloat16")
        else arrays
    )
    found = np.asarray(reduce(of_op[op], wide))
    if op == "avg":  # separate parts: a complex division rounds more than once
        parts = found.reshape(-1)
        parts = parts.view(parts.real.dtype)
        found = (parts / parts.dtype.type(len(arrays))).view(found.dtype).reshape(found.shape)
    return np.asarray(found).astype(dtype)


def ops_of(dtype: Any) -> list[str]:
    if dtype.is_complex:
        return ["sum", "avg"] if has_nccl else ["sum", "avg", "product"]
    if dtype.is_floating_point:
        return ["sum", "avg", "product", "min", "max"]
    if has_nccl and dtype is not gt.bool:
        return ["sum", "product", "min", "max"]
    return ["sum", "product", "min", "max", "band", "bor", "bxor"]


def everything() -> Any:
    seed = 0
    for dtype in DTYPES.values():
        for shape in SHAPES:
            layout = LAYOUTS[seed % 3]
            seed += 1
            yield seed, dtype, shape, layout
