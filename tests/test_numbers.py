"""Calls with numbers at the limits of dtypes have equal results on all devices.

tests/oracle/test_numbers_oracle.py compares them with PyTorch. GPUTENSOR_SWEEP=all tries every
number with every call and dtype; the default is a quarter of the numbers for each.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import dtype as dtypes
from gputensor.core import errors
from gputensor.core.number_range import fits

from . import numbers as N
from .harness import tier

SIGNED = (gt.int8, gt.int16, gt.int32, gt.int64)
SIGNLESS = ("eq", "ne", "add", "sub", "mul")


@pytest.fixture
def cuda() -> str:
    if not gt.cuda.is_available():
        pytest.skip("no CUDA device and no emulator")
    return "cuda"


def _numbers(call: str, name: str) -> tuple[Any, ...]:
    if os.environ.get("GPUTENSOR_SWEEP") == "all":
        return N.NUMBERS
    return N.NUMBERS[(list(N.CALLS).index(call) + N.DTYPES.index(name)) % 4 :: 4]


@pytest.mark.parametrize("call", tier.pick(list(N.CALLS)[::4], list(N.CALLS)))
def test_devices_agree(call: str, cuda: str) -> None:
    for name in N.DTYPES:
        for v in _numbers(call, name):
            step = 1 + 2 * (v == v and v.real > 0)
            x, y = (N.tensor_of(gt, name, device, step) for device in ("cpu", cuda))
            a, b = (N.outcome(N.CALLS[call], gt, z, v) for z in (x, y))
            if isinstance(a, errors.GpuTensorError) and "must not hold 0" in str(a):
                continue  # division of integers by 0, which a device does not report
            assert N.same(a, b), f"{call} of {name} and {v!r}: {a!r} on the CPU, {b!r} on {cuda}"


@pytest.mark.parametrize("device", ["cpu", "cuda", "meta"])
@pytest.mark.parametrize("call", N.CALLS)
def test_refusals_leave_everything(call: str, device: str, request: pytest.FixtureRequest) -> None:
    if device == "cuda":
        request.getfixturevalue("cuda")
    if device == "meta" and call in ("setitem", "contains"):
        pytest.skip("asks for an element")
    for name in N.DTYPES:
        x = N.tensor_of(gt, name, device)
        before = None if device == "meta" else x.tolist()
        for v in (2**64, -(2**63) - 1, 10**400, 300, float("nan"), 1j):
            found, version = N.outcome(N.CALLS[call], gt, x, v), x._version
            if not isinstance(found, Exception):
                if not call.endswith("_") and call != "setitem":
                    continue
                x = N.tensor_of(gt, name, device)
                continue
            what = f"{call} of {name} and {v!r} on {device}"
            assert isinstance(found, errors.GpuTensorError), f"{what}: {found!r}"
            assert x._version == version, what
            assert before is None or repr(x.tolist()) == repr(before), what


@pytest.mark.parametrize("element", SIGNED, ids=str)
@pytest.mark.parametrize("op", SIGNLESS)
@pytest.mark.parametrize("layout", ["packs", "tail", "step", "rows", "turned", "mixed"])
def test_signed_numbers_beside_signless_kernels(
    op: str, element: Any, layout: str, cuda: str
) -> None:
    if layout in ("rows", "turned") and (op not in ("eq", "mul") or element.itemsize > 2):
        pytest.skip("each is compiled by itself: the narrow types alone extend their sign")
    limit = 1 << 8 * element.itemsize - 1
    array = np.arange(-3, 96 * 130 - 3).reshape(96, 130).astype(element.np)
    array[0, :6] = (-1, -limit, limit - 1, 0, 1, -2)
    x = {"tail": array[0], "step": array[0, ::2], "rows": array[:, :-2], "turned": array.T}.get(
        layout, array
    )
    f = getattr(gt, op)
    for v in (-1, -2, -limit, limit - 1, 0):
        given = gt.from_numpy(x).to(cuda)
        if layout == "turned":
            given = gt.from_numpy(array).to(cuda).t()
        out = gt.empty(x.shape, dtype=gt.bool if op in ("eq", "ne") else element)
        if layout == "mixed":
            out = out.to(gt.float64)
        wanted = f(gt.from_numpy(np.ascontiguousarray(x)), v, out=out).numpy()
        found = f(given, v, out=gt.empty_like(out, device=cuda)).cpu().numpy()
        assert np.array_equal(found, wanted), f"{op} {v}"


def test_contains_a_negative_number(cuda: str) -> None:
    for element in SIGNED:
        assert -1 in gt.tensor([-1, 3], dtype=element, device=cuda)
        assert (gt.tensor([-1, 3], dtype=element, device=cuda) == -1).tolist() == [True, False]


@pytest.mark.parametrize("element", [d for d in dtypes.ALL if d.category == 1], ids=str)
def test_edges_of_integers(element: Any) -> None:
    low, high = (int(np.iinfo(element.np).min), int(np.iinfo(element.np).max))
    for v in (low, high):
        assert fits(v, element)
        assert gt.full((2,), v, dtype=element).tolist() == [v, v]
        assert gt.tensor([v], dtype=element).tolist() == [v]
    for v in (high + 1, (low or -high) - 1, float("nan"), float("inf"), 2.0**64):
        assert not fits(v, element)
        with pytest.raises(OverflowError):
            gt.full((2,), v, dtype=element)
        with pytest.raises(
            RuntimeError, match=f"fill_: 'value' must be in the range of {element.name}"
        ):
            gt.zeros(2, dtype=element).fill_(v)


def test_an_out_is_not_resized_for_a_number_that_is_refused() -> None:
    for x, v in ((gt.tensor([1, 2]), 2**64), (gt.tensor([1.0]), 10**400)):
        out = gt.empty(0, dtype=x.dtype)
        with pytest.raises(OverflowError):
            gt.add(x, v, out=out)
        assert out.shape == (0,)


def test_a_quotient_by_what_wraps_to_zero() -> None:
    for mode in ("floor", "trunc"):
        with pytest.raises(ZeroDivisionError):
            gt.div(gt.tensor([1], dtype=gt.int8), 256, rounding_mode=mode)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_sums_in_bool_and_integers(device: str, request: pytest.FixtureRequest) -> None:
    if device == "cuda":
        request.getfixturevalue("cuda")
    for values, truth in (
        ([0.5], True),
        ([0.5, -0.5], True),
        ([float("nan")], True),
        ([1j], True),
        ([0.0], False),
        ([], False),
    ):
        x = gt.tensor(values, device=device)
        assert x.sum(dtype=gt.bool).item() is truth
        assert x.sum(0, dtype=gt.bool).item() is truth
        assert gt.sum(x, (0,), out=gt.empty((), dtype=gt.bool, device=device)).item() is truth
    wide = gt.tensor([float("nan"), 0.5, -1.5, 3e9], device=device)
    assert wide.sum(dtype=gt.int64).item() == 3 * 10**9 - 1
    assert wide.sum(dtype=gt.uint8).item() == (3 * 10**9 - 1) % 256


@pytest.mark.parametrize("place", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("scalar", [np.float64, np.float32, np.int64])
def test_products_of_halves_take_a_0d_operand_unrounded(
    place: str, name: str, scalar: Any, request: Any
) -> None:
    """This holds for a 0-d operand on the CPU. On a device the kernel rounds it when it loads it,
    as in PyTorch.

    Source: ATen/native/cpu/BinaryOpsKernel.cpp, binary_kernel_reduced_floating_vec_opmath_support.
    """
    place = request.getfixturevalue("cuda") if place == "cuda" else place
    of = getattr(gt, name)
    x = gt.tensor([1.0, 3.0, -7.0, 0.3359375, 100.0], dtype=of)
    wide, differing = x.float().numpy(), 0
    for value in (scalar(v) for v in (1.0027, 4 / 3, 257, 3001)):
        y = gt.tensor(value.item(), dtype=getattr(gt, value.dtype.name))
        for op, reference in ((gt.mul, np.multiply), (gt.div, np.divide)):
            wanted = gt.from_numpy(reference(wide, np.float32(value))).to(of).tolist()
            rounded = gt.from_numpy(reference(wide, y.to(of).float().numpy())).to(of).tolist()
            differing += wanted != rounded
            given, out = x.to(place), gt.empty(5, dtype=of, device=place)
            inplace = getattr(given.clone(), op.__name__ + "_")
            for z in (op(given, y), inplace(y), op(given, y, out=out)):
                assert z.dtype is of and z.tolist() == wanted, (op.__name__, value)
    assert differing, "no case tells rounded from unrounded"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: gt.add(1, 2), gt.tensor(3)),
        (lambda: gt.add(True, 2), gt.tensor(3)),
        (lambda: gt.sub(3, 1.5, alpha=2), gt.tensor(0.0)),
        (lambda: gt.multiply(2.0, 3), gt.tensor(6.0)),
        (lambda: gt.mul(np.float64(2), 1j), gt.tensor(2j)),
        (lambda: gt.div(1, 2), gt.tensor(0.5)),
        (lambda: gt.div(-7, 2, rounding_mode="trunc"), gt.tensor(-3)),
        (lambda: gt.floor_divide(-7, 2), gt.tensor(-4)),
        (lambda: gt.add(1, 2, out=gt.empty(())), gt.tensor(3.0)),
    ],
)
def test_functions_of_two_numbers(call, expected):
    made = call()
    assert made.dtype is expected.dtype and made.shape == () and gt.equal(made, expected)


@pytest.mark.parametrize("name", ["pow", "remainder", "maximum", "eq", "fmod"])
def test_other_functions_need_a_tensor(name):
    with pytest.raises(errors.ArgumentTypeError, match="must be a Tensor"):
        getattr(gt, name)(5, 3)
