"""Mixed calls of tensors and NumPy arrays, by the table in docs/usage/interop.md."""

from __future__ import annotations

import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt

ARITHMETIC = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow,
]  # fmt: skip
COMPARISONS = [
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv]
ARRAY = np.array([2.0, 5.0], np.float64)
DATA = [2.0, 3.0]


@pytest.fixture(params=["cuda", "meta"])
def elsewhere(request: pytest.FixtureRequest) -> gt.Tensor:
    if request.param == "cuda" and not gt.cuda.is_available():
        pytest.skip("needs a CUDA device, emulated or not")
    return gt.tensor(DATA).to(request.param)


@pytest.mark.parametrize("op", [*ARITHMETIC, *COMPARISONS], ids=lambda op: op.__name__)
def test_with_an_array_on_either_side(op: Callable[..., Any]) -> None:
    x, theirs = gt.tensor(DATA), gt.tensor(ARRAY)
    for found, wanted in ((op(x, ARRAY), op(x, theirs)), (op(ARRAY, x), op(theirs, x))):
        assert type(found) is gt.Tensor and found.dtype is wanted.dtype
        assert found.tolist() == wanted.tolist()


def test_with_a_matrix_on_either_side() -> None:
    x, array = gt.rand(2, 3), np.ones((3, 2), np.float32)
    assert (x @ array).shape == (2, 2) and type(array @ x) is gt.Tensor


@pytest.mark.parametrize("op", IN_PLACE, ids=lambda op: op.__name__)
def test_in_place_writes_the_left_operand(op: Callable[..., Any]) -> None:
    x, array = gt.tensor(DATA), ARRAY.copy()
    wanted = op(np.array(DATA), ARRAY).tolist()
    assert op(x, ARRAY) is x and x.tolist() == pytest.approx(wanted)
    wanted = op(ARRAY.copy(), np.array(DATA)).tolist()
    assert op(array, gt.tensor(DATA)) is array and array.tolist() == pytest.approx(wanted)


MIXED: list[Callable[[Any, Any], Any]] = [
    *ARITHMETIC, *IN_PLACE, *[lambda x, a, op=op: op(a, x) for op in ARITHMETIC],
    lambda x, a: operator.iadd(a.copy(), x), lambda x, a: np.sin(x), lambda x, a: np.add(a, x),
    lambda x, a: np.mean(x), lambda x, a: np.concatenate([a, x]), lambda x, a: np.percentile(x, 3),
    lambda x, a: np.sin(a, out=x), lambda x, a: np.asarray(x), lambda x, a: np.where(a > 0, a, x),
]  # fmt: skip
COMPARED: list[Callable[[Any, Any], Any]] = [
    *COMPARISONS, *[lambda x, a, op=op: op(a, x) for op in COMPARISONS],
    lambda x, a: np.isfinite(x), lambda x, a: np.array_equal(a, x),
]  # fmt: skip


@pytest.mark.parametrize("mix", [*MIXED, *COMPARED])
def test_other_devices_are_refused(mix: Callable[..., Any], elsewhere: gt.Tensor) -> None:
    with pytest.raises(gt.GpuTensorError) as raised:
        mix(elsewhere, ARRAY)
    if elsewhere.device.type == "cuda":
        assert ".cpu()" in str(raised.value)
        assert elsewhere.tolist() == DATA
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    assert ARRAY.tolist() == [2, 5]


@pytest.mark.parametrize("mix", MIXED)
def test_no_gradient_is_lost(mix: Callable[..., Any]) -> None:
    x = gt.tensor(DATA, requires_grad=True)
    with pytest.raises(gt.GpuTensorError, match=r"\.detach\(\)"):
        mix(x * 1, ARRAY)
    with gt.no_grad():
        mix(x * 1, ARRAY)


@pytest.mark.parametrize("mix", COMPARED)
def test_comparisons_have_no_gradient_to_lose(mix: Callable[..., Any]) -> None:
    x = gt.tensor(DATA, requires_grad=True)
    found, wanted = mix(x, ARRAY), mix(x.detach(), ARRAY)
    assert type(found) is type(wanted) and np.array_equal(found, wanted)


@pytest.mark.parametrize("element", [gt.float16, gt.float32, gt.float64, gt.int32], ids=str)
@pytest.mark.parametrize("op", [operator.add, operator.mul, operator.sub, operator.eq])
def test_a_number_of_numpy_is_a_number(op: Callable[..., Any], element: Any) -> None:
    x = gt.tensor(DATA).to(element)
    for number in (np.float32(2), np.float64(2), np.int8(2), np.bool_(True)):
        plain = number.item()
        if plain is True and op is operator.sub:
            continue
        for found, wanted in ((op(number, x), op(plain, x)), (op(x, number), op(x, plain))):
            assert found.dtype is wanted.dtype and found.tolist() == wanted.tolist()


def test_a_number_of_numpy_goes_anywhere(elsewhere: gt.Tensor) -> None:
    assert (np.float64(2) * elsewhere).device == elsewhere.device
    x = gt.tensor(DATA, requires_grad=True)
    (np.float64(2) * x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2, 2]


def test_lists_are_foreign_but_to_numpy() -> None:
    x = gt.tensor(DATA)
    assert (x == DATA) is False
    for mixed in (lambda: x + DATA, lambda: DATA + x):  # type: ignore[operator]
        with pytest.raises(TypeError):
            mixed()
    assert np.add(x, DATA).tolist() == [4, 6]


def test_lazy_views() -> None:
    x = gt.tensor([1 + 2j, 3j]).conj()
    assert np.exp(x).tolist() == pytest.approx(x.clone().exp().tolist())
    with pytest.raises(gt.GpuTensorError, match=r"\.clone\(\)"):
        np.fft.fft(x)


def test_bfloat16() -> None:
    x = gt.tensor(DATA, dtype=gt.bfloat16)
    for found in (np.sin(x), np.cbrt(x), np.transpose(x)):
        assert found.dtype is gt.bfloat16


class Foreign:
    """An array of another library, with host memory."""

    def __init__(self, data: list[float]) -> None:
        self.array = np.array(data)

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("op", COMPARISONS, ids=lambda op: op.__name__)
def test_other_arrays_are_never_just_unequal(op: Callable[..., Any]) -> None:
    x, other = gt.tensor(DATA), Foreign(DATA)
    for mixed in (lambda: op(x, other), lambda: op(other, x)):
        with pytest.raises(TypeError, match=r"use gputensor\.asarray"):
            mixed()
    with pytest.raises(TypeError):
        x + other  # type: ignore[operator]


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    x = gt.tensor(DATA)
    for mixed in (lambda: x == torch.ones(2), lambda: torch.ones(2) == x):
        with pytest.raises(TypeError, match=r"use gputensor\.asarray"):
            mixed()


class CuPysArray(Foreign):
    """CuPy passes `array + tensor` to NumPy's ufunc. Its implementation of that protocol accepts
    only CuPy arrays."""

    def __array_ufunc__(self, *given: Any, **options: Any) -> Any:
        return NotImplemented

    def __add__(self, other: Any) -> Any:
        return np.add(self, other)

    __radd__ = None


@pytest.fixture
def cupys(monkeypatch: pytest.MonkeyPatch) -> CuPysArray:
    module = types.ModuleType("cupy")
    module.ndarray = CuPysArray  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", module)
    return CuPysArray([2.0, 5.0])


def test_cupy_on_either_side(cupys: CuPysArray) -> None:
    x = gt.tensor(DATA)
    for found in (x + cupys, cupys + x):
        assert type(found) is gt.Tensor and found.tolist() == [4, 8]
    assert (x == cupys).tolist() == [True, False]
    kept = x
    x += cupys
    assert x is kept and x.tolist() == [4, 8]
    assert np.cbrt(gt.ones(2)).dtype is gt.float32
    with pytest.raises(TypeError):
        np.cbrt(x, out=cupys)  # type: ignore[call-overload]


def test_cupy_loses_no_gradient(cupys: CuPysArray) -> None:
    x = gt.tensor(DATA, requires_grad=True)
    for mixed in (lambda: x + cupys, lambda: cupys + x):
        with pytest.raises(gt.GpuTensorError, match=r"\.detach\(\)"):
            mixed()
