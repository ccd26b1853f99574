"""The operators that PyTorch computes in float8 give its bits on every device; the rest raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core.dtype import FLOAT8

FRACTIONS = FLOAT8[:4]  # float8_e8m0fnu has no sign and no zero, and PyTorch computes less in it
# Calls of the library, x with all codes, y with all codes in another order, and matrices a, b and
# c.
CALLS: dict[str, Callable[[Any, Any, Any, Any, Any, Any], Any]] = {
    "eq": lambda t, x, y, a, b, c: x == y,
    "ne": lambda t, x, y, a, b, c: x != y,
    "eq broadcast": lambda t, x, y, a, b, c: x.view(16, 16) == x.view(16, 16)[:, :1],
    "eq transposed": lambda t, x, y, a, b, c: x.view(16, 16).t() == y.view(16, 16),
    "eq a number between": lambda t, x, y, a, b, c: x == 3.3,
    "eq a large number": lambda t, x, y, a, b, c: x == 1e5,
    "ne an int": lambda t, x, y, a, b, c: x != 1,
    "eq infinity": lambda t, x, y, a, b, c: x == float("inf"),
    "eq a tensor of float32": lambda t, x, y, a, b, c: x == t.tensor(2.0, device=x.device),
    "eq_": lambda t, x, y, a, b, c: x.clone().eq_(y),
    "eq out": lambda t, x, y, a, b, c: t.eq(x, y, out=t.empty(256, device=x.device)),
    "isnan": lambda t, x, y, a, b, c: x.isnan(),
    "isreal": lambda t, x, y, a, b, c: x.isreal(),
    "equal": lambda t, x, y, a, b, c: t.tensor([t.equal(a, a.clone()), t.equal(x, y)]),
    "isclose": lambda t, x, y, a, b, c: t.isclose(x, x, 0, 0, equal_nan=True),
    "all": lambda t, x, y, a, b, c: t.stack([x.all(), x[1:100].all()]),
    "any": lambda t, x, y, a, b, c: x.view(16, 16).any(1, keepdim=True),
    "all of dims": lambda t, x, y, a, b, c: x.view(16, 16).all((0, 1)),
    "count_nonzero": lambda t, x, y, a, b, c: x.view(16, 16).count_nonzero(1),
    "sum of float32": lambda t, x, y, a, b, c: a.sum(1, dtype=t.float32),
    "mean of float64": lambda t, x, y, a, b, c: a.mean(dtype=t.float64),
    "mul": lambda t, x, y, a, b, c: x * y,
    "mul_": lambda t, x, y, a, b, c: x.clone().mul_(y),
    "mul out": lambda t, x, y, a, b, c: t.mul(x, y, out=t.empty(256, device=x.device)),
}
OF_FRACTIONS: dict[str, Callable[[Any, Any, Any, Any, Any, Any], Any]] = {
    # Without -0.0, because in PyTorch the sign of its result depends on the place in memory.
    "abs": lambda t, x, y, a, b, c: t.cat([x[1:128], x[129:]]).abs(),
    "abs_": lambda t, x, y, a, b, c: x.view(16, 16).t()[1:-1].clone().abs_(),
    "mm": lambda t, x, y, a, b, c: a @ b,
    "mm transposed": lambda t, x, y, a, b, c: b.t() @ a.t(),
    "mm out": lambda t, x, y, a, b, c: t.mm(a, b, out=t.empty_like(c)),
    "addmm": lambda t, x, y, a, b, c: t.addmm(c, a, b, beta=0.5, alpha=2),
    "addmm_": lambda t, x, y, a, b, c: c.clone().addmm_(a, b),
    "linear": lambda t, x, y, a, b, c: t.nn.functional.linear(a, b.t(), c[0]),
    "inner": lambda t, x, y, a, b, c: t.inner(a, b.t()),
}
CASES = [(name, of) for name in CALLS for of in FLOAT8] + [
    (name, of) for name in OF_FRACTIONS for of in FRACTIONS
]


def _operands(t: Any, of: gt.dtype, device: str | None) -> list[Any]:
    dtype = getattr(t, of.name)
    codes = np.arange(256, dtype=np.uint8)
    rng = np.random.default_rng(0)
    made = [t.from_numpy(x).to(device).view(dtype) for x in (codes, rng.permutation(codes))]
    # few terms with few bits, so that the order of their sum does not matter
    for sizes in ((4, 6), (6, 5), (4, 5)):
        numbers = rng.choice(np.array([0.5, 1, 2], np.float32), sizes)
        made.append(t.from_numpy(numbers).to(device).to(dtype))
    return made


def _bits(x: Any) -> tuple[str, tuple[int, ...], tuple[int, ...], bytes]:
    name = str(x.dtype).partition(".")[2]
    shape = tuple(x.shape), x.stride()
    x = x.float() if name.startswith("float8") else x
    array = np.nan_to_num(x.cpu().contiguous().numpy(), nan=-77)  # NaN has many codes
    return name, *shape, array.tobytes()


@pytest.mark.oracle
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("name", "of"), CASES, ids=lambda x: getattr(x, "name", x))
def test_results_have_pytorchs_bits(name: str, of: gt.dtype, device: str) -> None:
    torch = pytest.importorskip("torch")
    if device == "cuda" and not gt.cuda.is_available():
        pytest.skip(f"no CUDA device ({gt.cuda.unavailable_reason()})")
    call = {**CALLS, **OF_FRACTIONS}[name]
    expected = _bits(call(torch, *_operands(torch, of, None)))
    for _ in range(4):  # the later ones may take a short cut
        assert _bits(call(gt, *_operands(gt, of, device))) == expected


@pytest.mark.parametrize("of", FLOAT8, ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["isfinite", "isinf"])
def test_classes_of_numbers_are_those_of_float32(name: str, of: gt.dtype) -> None:
    """PyTorch has these functions for some of these dtypes, and treats NaN of float8_e8m0fnu as
    finite."""
    x = _operands(gt, of, None)[0]
    assert getattr(x, name)().tolist() == getattr(x.float(), name)().tolist()


def test_plans_of_float8_and_of_other_dtypes_are_kept_apart() -> None:
    for _ in range(3):
        for of in (gt.float32, gt.float8_e5m2, gt.uint8, gt.float8_e4m3fn):
            x = gt.tensor([1, 2, 4, 0]).to(of)
            assert (x * x).dtype is of and (x * x).tolist() == [1, 4, 16, 0]
            assert (x == 2).tolist() == [False, True, False, False]
            assert x.any().item() is (of is not gt.uint8) or x.any().item() == 1


def test_they_run_within_fused_functions_and_transforms() -> None:
    x = gt.arange(1, 9).to(gt.float8_e4m3fn)

    def chain(x: gt.Tensor) -> Any:
        y = x * x
        z = (y.float() * 2).to(gt.float8_e5m2)
        return (y == x).float() + z.float(), y, z, (y * x).abs() != y

    fused = gt.fuse(chain)
    for _ in range(4):
        for found, expected in zip(fused(x), chain(x)):
            assert found.dtype is expected.dtype
            assert found.float().tolist() == expected.float().tolist()
    rows = x.view(2, 4)
    assert gt.func.vmap(lambda a, b: a * b)(rows, rows).tolist() == (rows * rows).tolist()
    assert gt.func.vmap(lambda a: a == 2.0)(rows).tolist() == (rows == 2).tolist()
    m = x.to("meta")
    assert (m * m).dtype is x.dtype and (m == m).dtype is gt.bool


def test_a_product_with_a_number_is_refused() -> None:
    x = gt.ones(2, dtype=gt.float8_e5m2)
    for other in (2.0, gt.tensor(2.0), gt.ones((), dtype=gt.float8_e5m2)):
        with pytest.raises(gt.GpuTensorError, match="'other' must not be float8_e5m2"):
            x * other
        with pytest.raises(gt.GpuTensorError, match="'other' must not be float8_e5m2"):
            x.mul_(other)
    assert x.tolist() == [1, 1]


@pytest.mark.oracle
@pytest.mark.parametrize("options", [{}, {"equal_nan": True}, {"rtol": 0.1, "atol": 0.1}], ids=str)
@pytest.mark.parametrize("of", FLOAT8, ids=lambda d: d.name)
def test_assert_close_compares_bits(of: gt.dtype, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    found: list[list[str]] = []
    for t in (gt, torch):
        x = t.tensor([1.0, float("nan"), 2.0, 4.0]).to(getattr(t, of.name))
        found.append([])
        for a, b in ((x, x), (x[:1], x[:1]), (x.view(2, 2), (x * x).view(2, 2))):
            try:
                t.testing.assert_close(a, b, **options)
                found[-1].append("close")
            except AssertionError as error:
                found[-1].append(str(error))
    assert found[0] == found[1]
