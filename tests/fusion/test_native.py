"""Chains that g++ builds: the bits of the operators one by one, and NumPy's loops around them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.fusion import native, native_small, native_whole, running
from gputensor.fusion.native_program import Program

from . import programs
from .same import state_of

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not on PATH")
N = 300_000


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("GPUTENSOR_FUSE", raising=False)
    before = gt.get_num_threads()
    gt.set_num_threads(2)
    yield
    gt.set_num_threads(before)


def values(element: Any) -> tuple[gt.Tensor, gt.Tensor]:
    """Every pair of numbers at which arithmetic has edges."""
    if element is gt.bool:
        found = np.array([False, True])
    elif element.is_floating_point:
        limits = np.finfo(element.np)
        ends = [0.0, limits.smallest_subnormal, limits.tiny, 0.5, 1.0, 1.5, 3.0, 1e6, 1 / 3]
        ends += [limits.max, np.inf, 1 + limits.eps, 0.1, 7.0, 2.0**24, limits.tiny * 1.5]
        found = np.array([*ends, *[-x for x in ends], np.nan], element.np)
    else:
        limits = np.iinfo(element.np)
        found = np.array([0, 1, 2, 3, 7, 100, limits.max, limits.min, limits.max // 3], element.np)
    first, other = (x.reshape(-1) for x in np.meshgrid(found, found))
    repeats = -(-native.FROM // first.size)
    return gt.from_numpy(np.tile(first, repeats)), gt.from_numpy(np.tile(other, repeats))


def conditions(x: Any, y: Any) -> list[Any]:
    found = [x == y, x >= y, x > y, x <= y, x < y, x != y, gt.where(x > y, x, y)]
    found += [gt.logical_and(x, y), gt.logical_or(x, y), gt.logical_xor(x, y), gt.logical_not(x)]
    found += [gt.isfinite(x), gt.isinf(x), gt.isnan(x), x.to(gt.float64), x.to(gt.bool)]
    return found


def of_bits(x: Any, y: Any) -> list[Any]:
    return [x & y, x | y, x ^ y, ~x]


def of_numbers(x: Any, y: Any) -> list[Any]:
    found = [x + y, x - y, x * y, abs(x), x + 3, 2 - x, x * 3, gt.add(x, y, alpha=3)]
    found += [gt.sub(x, y, alpha=2), gt.relu(x), -x]
    return found


def of_floats(x: Any, y: Any) -> list[Any]:
    found = [x / y, x / 3, 0.1 / y, gt.reciprocal(x), gt.sqrt(x), gt.lerp(x, y, 0.3)]
    found += [gt.isneginf(x), gt.isposinf(x), gt.lerp(x, y, 0.75), x * 0.1 + y]
    found += [gt.addcmul(x, y, x, value=0.7), gt.addcdiv(x, y, x, value=0.7)]
    return found


def sets_of(element: Any) -> list[Callable[[Any, Any], list[Any]]]:
    """All operators of native.LOOPS that take the dtype."""
    found = [conditions]
    if not element.is_floating_point:
        found.append(of_bits)
    if element is not gt.bool:
        found.append(of_numbers)
    if element.is_floating_point:
        found.append(of_floats)
    return found


def every(x: Any, y: Any) -> list[Any]:
    return sum([operators(x, y) for operators in sets_of(x.dtype)], [])


@pytest.mark.parametrize(
    "element", [gt.bool, gt.uint8, gt.int32, gt.int64, gt.float32, gt.float64], ids=str
)
@pytest.mark.parametrize("is_redone", [False, True])
def test_every_loop_has_the_bits_of_the_operators(
    element: Any, is_redone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_redone:  # a number that is NaN is then one, whichever
        run = Program.run
        monkeypatch.setattr(Program, "run", lambda *args: run(*args) and False)
    x, y = values(element)
    expected = every(x, y)
    explained = gt.fuse.explain(gt.fuse(lambda: every(x, y), native=True))
    found = explained.result
    for chain, _ in explained.chains:
        assert native_whole.found_of(chain) is not None, chain
    for one, other in zip(found, expected):
        assert one.dtype is other.dtype
        one, other = one.numpy(), other.numpy()
        are_bits = one.view(f"V{one.itemsize}") == other.view(f"V{one.itemsize}")
        if not is_redone and one.dtype.kind == "f":
            are_bits |= np.isnan(one) & np.isnan(other)
        assert are_bits.all()


def arithmetic(x: Any, y: Any) -> Any:
    return (x * y + 1) * (x - y) * 0.5 + x * x - y


def between(x: Any, y: Any) -> Any:
    z = gt.exp(x * 0.5 - y) + gt.tanh(y * y * 0.25)
    return gt.where(z > 1.5, z * x, y - z) + 1


def of_one(x: Any, y: Any) -> Any:
    return x * y[:1] - y[1:2] / x


def in_place(x: Any, y: Any) -> Any:
    z = x + 0
    z *= y
    z += 2
    z.mul_(x).sub_(y)
    return z, z * 2


def twice(x: Any, y: Any) -> Any:
    z = x * y + 1
    return z, z - y, z * z


PROGRAMS = [arithmetic, between, of_one, in_place, twice]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("element", [gt.float32, gt.float64], ids=str)
@pytest.mark.parametrize("has_nan", [False, True])
def test_a_chain_has_the_bits_of_its_operators(
    function: Callable[..., Any], element: Any, has_nan: bool
) -> None:
    x, y = (gt.rand(N, dtype=element) * 2 - 0.5 for _ in "xy")
    if has_nan:
        x[5], x[200_001], y[200_001] = float("nan"), float("nan"), -float("nan")
    before = state_of([x, y])
    fused = gt.fuse(function, native=True)
    expected = state_of(function(x, y))
    for _ in range(3):  # of which the last is replayed
        assert state_of(fused(x, y)) == expected
    assert state_of([x, y]) == before


@pytest.mark.parametrize(
    "view", [lambda x: x.view(500, 600).t(), lambda x: x.view(500, 600)[:, ::2]]
)
def test_other_layouts(view: Callable[[Any], Any]) -> None:
    x, y = view(gt.rand(N)), view(gt.rand(N))
    assert state_of(gt.fuse(arithmetic, native=True)(x, y)) == state_of(arithmetic(x, y))


@pytest.mark.parametrize("element", [np.float32, np.float64, np.int64])
def test_elements_at_odd_addresses(element: Any) -> None:
    size = np.dtype(element).itemsize * N
    odd = np.zeros(size + 1, np.uint8)[1:].view(element)
    odd[...] = np.arange(N) % 1000
    x, y = gt.from_numpy(odd), gt.tensor(odd[::-1].copy())
    assert not x._get_array().flags.aligned
    assert state_of(gt.fuse(arithmetic, native=True)(x, y)) == state_of(arithmetic(x, y))


def test_explain_says_what_is_compiled() -> None:
    x, y = gt.rand(N), gt.rand(N)
    said = str(gt.fuse.explain(gt.fuse(between, native=True), x, y))
    assert "one loop: v2, v3" in said and "NumPy's loop of exp(v3)" in said
    assert "made<mul, f32, f32>" in said
    said = str(gt.fuse.explain(gt.fuse(lambda: (x * y + 1).sigmoid() * x + y, native=True)))
    assert "one loop: v2, v3" in said and "NumPy's: v4" in said and "one loop: v5, v6" in said
    assert "one loop" not in str(gt.fuse.explain(between, x, y))
    assert "one loop" not in str(gt.fuse.explain(gt.fuse(between, native=True), x[:9], y[:9]))


@pytest.mark.parametrize(
    "element", [gt.bool, gt.uint8, gt.int32, gt.int64, gt.float32, gt.float64], ids=str
)
@pytest.mark.parametrize("is_redone", [False, True])
def test_a_call_of_few_elements_is_one_call_of_a_loop(
    element: Any, is_redone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    build = native_small.loop

    def counted(*args: Any) -> Any:
        made = build(*args)
        assert made is not None

        def call(*arrays: Any) -> bool:
            calls.append(arrays)
            found: bool = made(*arrays)
            return found and is_redone

        return call

    monkeypatch.setattr(native_small, "loop", counted)
    x, y = (v[:400].clone() for v in values(element))
    for operators in sets_of(element):
        fused = gt.fuse(operators, native=True)
        for n in range(4):
            before = len(calls)
            found, expected = fused(x, y), operators(x, y)
            assert n < 6 or len(calls) > before, gt.fuse.explain(operators, x, y).why_not
            for one, other in zip(found, expected):
                assert one.dtype is other.dtype
                one, other = one.numpy(), other.numpy()
                are_bits = one.view(f"V{one.itemsize}") == other.view(f"V{one.itemsize}")
                if not is_redone and one.dtype.kind == "f":
                    are_bits |= np.isnan(one) & np.isnan(other)
                assert are_bits.all(), operators


def test_few_elements_of_other_layouts_and_numbers() -> None:
    def function(x: Any, y: Any, scale: float) -> Any:
        z = x * y[:1] - scale
        return z * z, z, y + 1, -z

    fused = gt.fuse(function, native=True)
    odd = np.zeros(41, np.uint8)[1:].view(np.float32)
    odd[...] = np.arange(10)
    for x in (gt.rand(10), gt.rand(5, 2).t(), gt.rand(10, 2)[:, 0], gt.rand(()), gt.tensor(odd)):
        for scale in (2.0, 0.1, float("nan"), float("inf"), 2.0):
            for _ in range(4):
                y = gt.rand(3)
                args = (x, y[:1] if x.ndim == 2 else y, scale)
                if x.ndim == 1 and x.shape[0] == 10:
                    args = (x, y[:1], scale)
                assert state_of(fused(*args)) == state_of(function(*args))


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "FROM", 1)
    monkeypatch.setattr(native, "SHORTEST", 1)
    expected = programs.run(seed, False)
    monkeypatch.setenv("GPUTENSOR_FUSE", "native")
    running._plans.clear()
    assert programs.run(seed, True) == expected


@pytest.mark.parametrize("given", [1, None, "yes"])
def test_what_is_no_bool(given: Any) -> None:
    with pytest.raises(TypeError, match="fuse: 'native' must be a bool"):
        gt.fuse(native=given)


def test_without_a_compiler_it_is_one_sentence() -> None:
    program = """
import gputensor as gt
x = gt.ones(100_000)
try:
    with gt.fuse():
        y = x * 2 + 1
    print(y)
except RuntimeError as error:
    print(error, x.sum().item())
"""
    environment = {
        **os.environ, "GPUTENSOR_FUSE": "native", "GPUTENSOR_CXX": "no-such-compiler"
    }  # fmt: skip
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    why = "fuse: compiled loops need g++, and no-such-compiler is not on PATH 100000.0\n"
    assert answer.stdout == why, answer.stderr
