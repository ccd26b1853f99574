"""CPU loops against PyTorch, on values for which both define a result."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from gputensor.core.dtype import (
    ALL, COMPLEX, FLOATING, INTEGER, bfloat16, bool_, dtype, float16, float32, float64, int64,
    uint8,
)  # fmt: skip
from gputensor.kernels.cpu import binary, cast, comparison, matmul, quiet, reduce, unary, where

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

# PyTorch supports few operators in these dtypes.
COMPUTED = tuple(d for d in ALL if d.name not in ("uint16", "uint32", "uint64"))


def to_torch(array: np.ndarray, of: dtype):
    if of is bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def from_torch(tensor, of: dtype) -> np.ndarray:
    assert tensor.dtype == getattr(torch, of.name), (tensor.dtype, of)
    if of is bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(of.np)
    return tensor.numpy()


def samples(of: dtype, n: int, seed: int, nonzero: bool = False) -> np.ndarray:
    random = np.random.default_rng(seed)
    if of is bool_:
        return np.ones(n, bool) if nonzero else random.integers(0, 2, n).astype(bool)
    if of.category == INTEGER:
        info = np.iinfo(of.np)
        values = random.integers(max(info.min, -100), min(info.max, 100), n)
        return np.where(values == 0, 3, values).astype(of.np) if nonzero else values.astype(of.np)
    values = random.standard_normal(n) * 8
    if of.category == COMPLEX:
        values = values + 1j * random.standard_normal(n)
        return values.astype(of.np)
    return values.astype(np.float32 if of is not float64 else np.float64).astype(of.np)


def agree(found: np.ndarray, expected: np.ndarray, ulp: float = 0) -> None:
    assert found.dtype == expected.dtype and found.shape == expected.shape
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected)
        return
    kind = np.complex128 if found.dtype.kind == "c" else np.float64
    eps = {2: 2.0**-10, 4: 2.0**-23, 8: 2.0**-52}[
        found.itemsize // (2 if found.dtype.kind == "c" else 1)
    ] * (8 if found.dtype == bfloat16.np else 1)
    np.testing.assert_allclose(
        found.astype(kind), expected.astype(kind), rtol=ulp * eps, atol=ulp * eps * 1e-3
    )


PAIRS = list(itertools.product(ALL, ALL))


@pytest.mark.parametrize(("src", "dst"), PAIRS, ids=lambda d: d.short)
def test_casts(src, dst):
    given = samples(src, 300, 1)
    if src.category > INTEGER and dst.category == INTEGER and not dst.is_signed:
        given = np.abs(given.real).astype(src.np) if src.category == COMPLEX else np.abs(given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # complex to real
        expected = from_torch(to_torch(given, src).to(getattr(torch, dst.name)), dst)
    found = quiet.run(cast.convert, given, dst.np)
    # PyTorch casts f64 to f16 through f32; gputensor rounds once
    agree(found, expected, ulp=1 if dst is float16 and src.itemsize >= 8 else 0)


@pytest.mark.parametrize("of", COMPUTED, ids=lambda d: d.short)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "maximum", "minimum", "div"])
def test_binary(op, of):
    if (of is bool_ and op == "sub") or (of.category == COMPLEX and op in ("maximum", "minimum")):
        with pytest.raises(RuntimeError):
            getattr(torch, op)(
                torch.ones(1, dtype=getattr(torch, of.name)),
                torch.ones(1, dtype=getattr(torch, of.name)),
            )
        return
    a, b = samples(of, 500, 2), samples(of, 500, 3, nonzero=op == "div")
    common = float32 if op == "div" and of.category <= INTEGER else of
    found = quiet.run(binary.bind(op, (of, of), common, common), a, b)
    expected = from_torch(getattr(torch, op)(to_torch(a, of), to_torch(b, of)), common)
    agree(found, expected, ulp=4 if of.category == COMPLEX else 0)


@pytest.mark.parametrize(
    "of", [d for d in COMPUTED if INTEGER <= d.category <= FLOATING], ids=lambda d: d.short
)
@pytest.mark.parametrize("mode", ["trunc", "floor"])
def test_division_modes(mode, of):
    a, b = samples(of, 3000, 4), samples(of, 3000, 5, nonzero=True)
    found = quiet.run(binary.bind(f"div_{mode}", (of, of), of, of), a, b)
    expected = from_torch(torch.div(to_torch(a, of), to_torch(b, of), rounding_mode=mode), of)
    if of in (float16, bfloat16):
        # PyTorch rounds some intermediate results to 16 bits; gputensor rounds once
        assert (found == expected).mean() > 0.95
    else:
        agree(found, expected)


def test_division_by_special_floats():
    values = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3.5], np.float32)
    a, b = np.repeat(values, values.size), np.tile(values, values.size)
    for mode in ("trunc", "floor"):
        found = quiet.run(binary.bind(f"div_{mode}", (float32, float32), float32, float32), a, b)
        expected = torch.div(torch.from_numpy(a), torch.from_numpy(b), rounding_mode=mode).numpy()
        if mode == "floor":  # gputensor follows the array API for infinities
            alike = np.isfinite(a) & np.isfinite(b)
            found, expected = found[alike], expected[alike]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("of", [d for d in COMPUTED if d is not bool_], ids=lambda d: d.short)
def test_numbers_and_alpha(of):
    a, b = samples(of, 200, 6), samples(of, 200, 7)
    x, y = to_torch(a, of), to_torch(b, of)
    number = 3 if of.category == INTEGER else 0.3
    half = getattr(torch, of.name)
    # On the CPU, PyTorch rounds the number of add and sub, and alpha, to 16 bits, but not the
    # number of mul and div; on CUDA it rounds none. In gputensor numbers are always f32.
    wide = (lambda t: t.float()) if of in (float16, bfloat16) else (lambda t: t)
    for op in ("add", "sub", "mul"):
        found = quiet.run(binary.bind(op, (of, type(number)), of, of), a, number)
        given = x if op == "mul" else wide(x)
        expected = from_torch(getattr(torch, op)(given, number).to(half), of)
        agree(found, expected, ulp=2 if of.category == COMPLEX else 0)
    for op in ("add", "sub"):
        found = quiet.run(binary.bind(f"{op}_alpha", (of, of), of, of), a, b, number)
        expected = from_torch(getattr(torch, op)(wide(x), wide(y), alpha=number).to(half), of)
        # PyTorch's compiler may fuse the multiplication and the addition
        agree(found, expected, ulp=0 if of.category == INTEGER else 64)
    if of is uint8:
        agree(binary.bind("add", (of, int), of, of)(a, 300), from_torch(x + 300, of))


@pytest.mark.parametrize("of", COMPUTED, ids=lambda d: d.short)
def test_comparisons(of):
    a, b = samples(of, 300, 8), samples(of, 300, 9)
    b[::3] = a[::3]
    for op in comparison.LOOPS:
        if of.category == COMPLEX and op not in ("eq", "ne"):
            continue
        loop = comparison.bind(op, (of, of), of, bool_)
        np.testing.assert_array_equal(
            loop(a, b), getattr(torch, op)(to_torch(a, of), to_torch(b, of)).numpy()
        )
        if op.startswith("logical"):  # in PyTorch for tensors only
            continue
        number = a[0].item() if of is not bfloat16 else float(a[0])
        loop = comparison.bind(op, (of, type(number)), of, bool_)
        np.testing.assert_array_equal(
            loop(a, number), getattr(torch, op)(to_torch(a, of), number).numpy()
        )
    values = np.array([5, 44], np.uint8)
    for op in (op for op in comparison.LOOPS if not op.startswith("logical")):
        np.testing.assert_array_equal(
            comparison.bind(op, (uint8, int), uint8, bool_)(values, 300),
            getattr(torch, op)(torch.from_numpy(values), 300).numpy(),
        )


@pytest.mark.parametrize("of", [d for d in COMPUTED if d is not bool_], ids=lambda d: d.short)
def test_unary_and_where(of):
    a, b = samples(of, 300, 10), samples(of, 300, 11)
    agree(unary.bind("neg", (of,), of, of)(a), from_torch(-to_torch(a, of), of))
    real = of.to_real
    agree(
        quiet.run(unary.bind("abs", (of,), of, real), a),
        from_torch(to_torch(a, of).abs(), real),
        ulp=2,
    )
    common = float32 if of.category <= INTEGER else of
    agree(
        quiet.run(unary.bind("exp", (of,), common, common), a),
        from_torch(to_torch(a, of).exp(), common), ulp=4,
    )  # fmt: skip
    condition = samples(bool_, 300, 12)
    agree(
        where.bind("where", (bool_, of, of), of, of)(condition, a, b),
        from_torch(torch.where(torch.from_numpy(condition), to_torch(a, of), to_torch(b, of)), of),
    )


@pytest.mark.parametrize("of", COMPUTED, ids=lambda d: d.short)
@pytest.mark.parametrize("op", ["sum", "mean", "amax", "amin", "any", "all"])
def test_reductions(op, of):
    if (op == "mean" and of.category <= INTEGER) or (
        op in ("amax", "amin") and of.category == COMPLEX
    ):
        return
    array = samples(of, 7 * 5 * 3, 13).reshape(7, 5, 3)
    compute, result = of, of
    if op == "sum" and of.category <= INTEGER:
        compute = result = int64
    elif op in ("any", "all"):
        result = uint8 if of is uint8 else bool_
    elif op in ("sum", "mean") and of in (float16, bfloat16):
        compute = float32
    for axes in ((0,), (1,), (0, 2), (0, 1, 2)):
        expected = from_torch(getattr(torch, op)(to_torch(array, of), dim=axes), result)
        out = np.empty(expected.shape, result.np)
        quiet.run(reduce.bind(op, of, compute, result), array, axes, None, out, False)
        agree(out, expected, ulp=32 if op in ("sum", "mean") else 0)


@pytest.mark.parametrize("of", [d for d in COMPUTED if d is not bool_], ids=lambda d: d.short)
def test_mm(of):
    a, b = samples(of, 6 * 5, 14).reshape(6, 5), samples(of, 5 * 4, 15).reshape(5, 4)
    found = quiet.run(matmul.mm, a, b, np.empty((6, 4), of.np))
    expected = from_torch(to_torch(a, of) @ to_torch(b, of), of)
    eps = 0 if of.category == INTEGER else 64
    scale = np.abs(a.astype(np.complex128)) @ np.abs(b.astype(np.complex128))
    if eps == 0:
        agree(found, expected)
    else:
        bits = {float16: 2**-10, bfloat16: 2**-7, float64: 2**-50}.get(of, 2**-20)
        kind = np.complex128
        assert (np.abs(found.astype(kind) - expected.astype(kind)) <= bits * scale.real * 2).all()
