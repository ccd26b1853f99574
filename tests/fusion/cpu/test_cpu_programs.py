"""CPU chains as one program of the compiled library: the eager bits for any operands, and steps
that run outside of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core.dtype import float16, float32, int8
from gputensor.fusion.cpu import programs as cpu_programs
from gputensor.kernels.compiled import library

from ..same import state_of

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="NumPy's loops run; nothing is compiled"
)
DTYPES = (
    gt.bool, gt.uint8, gt.int8, gt.int16, gt.int32, gt.int64, gt.uint32, gt.float16, gt.bfloat16,
    gt.float32, gt.float64, gt.complex64,
)  # fmt: skip


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = gt.get_num_threads()
    gt.set_num_threads(request.param)
    yield request.param
    gt.set_num_threads(before)


def values(element: Any) -> tuple[gt.Tensor, gt.Tensor]:
    """Return every pair of special numbers of arithmetic."""
    if element is gt.bool:
        found: Any = np.array([False, True])
    elif element.is_complex:
        found = np.array([0, -1j, 1 + 2j, -3.5 + 0.5j, np.inf, complex(np.nan, 1)], element.np)
    elif element.is_floating_point:
        ends = [0.0, 1e-40, 1e-7, 0.5, 1.0, 1.5, 3.0, 1 / 3, 0.1, 7.0, 6e4, np.inf]
        with np.errstate(over="ignore"):
            found = np.array([*ends, *[-x for x in ends], np.nan]).astype(element.np)
    else:
        limits = np.iinfo(element.np)
        found = np.array([0, 1, 2, 3, 7, 100, limits.max, limits.min, limits.max // 3], element.np)
    pairs = np.meshgrid(found, found)
    x, y = (np.tile(x.reshape(-1), 40) for x in pairs)
    return gt.tensor(x, dtype=element), gt.tensor(y, dtype=element)


def conditions(x: Any, y: Any) -> list[Any]:
    found = [x == y, x != y, gt.where(x == y, x, y), gt.logical_and(x, y), gt.logical_not(x)]
    found += [gt.isfinite(x), gt.isnan(x), x.to(gt.float64), x.to(gt.bool), x.to(gt.float16)]
    return found if x.is_complex() else [*found, x >= y, x > y, x <= y, x < y]


def of_bits(x: Any, y: Any) -> list[Any]:
    return [x & y, x | y, x ^ y, ~x]


def of_numbers(x: Any, y: Any) -> list[Any]:
    found = [x + y, x - y, x * y, x + 3, 2 - x, x * 3, gt.add(x, y, alpha=3), -x]
    return found if x.is_complex() else [*found, abs(x), gt.relu(x), gt.maximum(x, y)]


def of_floats(x: Any, y: Any) -> list[Any]:
    found = [x / y, x / 3, 0.1 / y, gt.reciprocal(x), gt.sqrt(x), gt.lerp(x, y, 0.3), x**2, x**y]
    found += [gt.exp(x), gt.log(y), gt.tanh(x), gt.sigmoid(y), gt.nn.functional.gelu(x)]
    found += [gt.nn.functional.silu(x), gt.addcmul(x, y, x, value=0.7), gt.clamp(x, -1, 2)]
    return found


def every(x: Any, y: Any) -> list[Any]:
    found = conditions(x, y)
    if not x.is_floating_point() and not x.is_complex():
        found += of_bits(x, y)
    if x.dtype is not gt.bool:
        found += of_numbers(x, y)
    if x.is_floating_point():
        found += of_floats(x, y)
    return found


def by_programs(function: Callable[..., Any], *args: Any) -> Any:
    """Return the function's result. Each operator of its chains must have a loop in the library."""
    explained = gt.fuse.explain(gt.fuse(function), *args)
    assert explained.chains
    for chain, _ in explained.chains:
        assert cpu_programs.stages(chain)[0].program is not None
        assert all([cpu_programs.is_known(chain, step) for step in chain.instructions]), chain
    return explained.result


@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_every_loop_has_the_bits_of_its_operator(element: Any) -> None:
    x, y = values(element)
    found = by_programs(every, x, y) if not element.is_complex else gt.fuse(every)(x, y)
    for one, other in zip(found, every(x, y), strict=True):
        assert state_of(one) == state_of(other)


def mixed(x: Any, y: Any, z: Any) -> Any:
    wide = (x * y + 1).to(gt.float16) * z
    return gt.where(wide > z, wide, z - 1) * 0.5, (x > y) | (z == 0)


@pytest.mark.parametrize("sizes", [(7,), (300, 500), (3, 40, 5, 60)])
def test_operands_of_any_layout_and_dtype(sizes: tuple[int, ...], threads: int) -> None:
    gt.manual_seed(3)
    x, y = gt.randn(sizes), gt.randint(-3, 3, sizes).to(gt.int16)
    z = gt.randn(sizes[-1:]).to(gt.float16)
    for a in (
        x,
        x.flip(-1),
        gt.randn(*sizes, 2)[..., 1],
        gt.randn(sizes[:1] + (1,) * (x.dim() - 1)),
    ):
        for b in (
            y,
            gt.tensor(2, dtype=int8),
            gt.randn(sizes[::-1]).permute(*range(x.dim())[::-1]),
        ):
            assert state_of(list(gt.fuse(mixed)(a, b, z))) == state_of(list(mixed(a, b, z)))


def test_long_chains_and_many_operands_are_several_programs() -> None:
    given = [gt.rand(1000) for _ in range(30)]

    def total(*xs: Any) -> Any:
        found = xs[0]
        for x in xs[1:]:
            found = found * 0.5 + x
        return found

    found = by_programs(total, *given)
    assert state_of(found) == state_of(total(*given))


def test_threads_change_no_bit() -> None:
    x, y = gt.rand(1 << 18), gt.rand(1 << 18)
    before, found = gt.get_num_threads(), []
    for count in (1, 2, 3):
        gt.set_num_threads(count)
        found.append(state_of(gt.fuse(lambda x, y: (x * y).exp() + y / 3)(x, y)))
    gt.set_num_threads(before)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("n", [5, 100_000])
def test_writes_to_operands(n: int) -> None:
    def inside(x: gt.Tensor, y: gt.Tensor) -> Any:
        z = x * 2
        x.add_(y)
        y.mul_(x).sub_(z)
        return z + x

    results = []
    for run in (inside, gt.fuse(inside)):
        x, y = gt.arange(n).float(), gt.ones(n)
        results.append(state_of([run(x, y), x, y]))
    assert results[0] == results[1]


def test_a_broadcast_that_is_cast_fills_its_result() -> None:
    row = gt.tensor([1.5, -2.5, 3.5])

    def cast(x: gt.Tensor) -> Any:
        wide = x.expand(40, 3).contiguous()
        return wide.to(gt.int32), wide + 1

    for x in (row, row[:1].expand(3)):
        assert state_of(list(gt.fuse(cast)(x))) == state_of(list(cast(x)))


# --- the library's programs -----------------------------------------------------------------------

_ADD = ("binary", "add", float32.code, float32.code)
_HALF = ("copy", "", 0, float16.code)


def program(*steps: Any, stored: tuple[int, ...], inputs: int = 2) -> Any:
    made = library.program((float32.code,) * inputs, stored, steps)
    assert made is not None
    return made


def test_what_a_program_does_not_expect_it_leaves_unwritten() -> None:
    run = program((*_ADD, (0, 1), ()), (*_ADD, (2, -1), ()), stored=(3,))
    x, y = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    out = np.full(8, 7, np.float32)
    assert run(out, x, y, [0.5], True) and (out == x + 1.5).all()
    out[:] = 7
    odd = np.frombuffer(b"\0" * 33, np.uint8)[1:].view(np.float32)
    for given in (
        (out, x.astype(np.float64), y, [0.5]), (out, odd, y, [0.5]), (out, x, y, ["a"]),
        (out, x[:4], y, [0.5]), (out[1:], out[:-1], y[1:], [0.5]), (out[None], x, y, [1j]),
    ):  # fmt: skip
        assert not run(*given, True)
        assert (out == 7).all()
    out.flags.writeable = False
    assert not run(out, x, y, [0.5], True) and (out == 7).all()
    with pytest.raises(TypeError, match="a program takes 3 arrays"):
        run(out, x, [0.5], True)


def test_an_operand_may_be_written_over_once_nobody_reads_it() -> None:
    late = program((*_ADD, (0, 1), ()), (*_ADD, (0, 2), ()), stored=(2, 3))
    x, y, other = np.arange(5.0, dtype=np.float32), np.ones(5, np.float32), np.zeros(5, np.float32)
    assert not late(x, other, x, y, [], True)  # step 2 reads x after the write
    assert (x == np.arange(5)).all() and not other.any()
    assert late(other, x, x, y, [], True)
    assert (other == np.arange(5) + 1).all() and (x == 2 * np.arange(5) + 1).all()


def test_there_is_no_program_of_what_the_library_has_not() -> None:
    none = [
        (("special", "digamma", float32.code, float32.code, (0,), ()),),
        ((*_ADD, (0, 5), ()),),
        ((*_ADD, (0,), ()),),
        ((*_HALF, (-1,), ()),),
        ((*_ADD, (0, 1), ()),) * 129,
    ]
    for steps in none:
        assert library.program((float32.code,) * 2, (2,), steps) is None
    assert library.program((float32.code,) * 25, (25,), ((*_ADD, (0, 1), ()),)) is None
    assert library.program((float32.code,), (0,), ((*_HALF, (0,), ()),)) is None


def test_an_operator_that_no_program_can_run_is_alone() -> None:
    """An operand without dimensions of another dtype is a number of the loop, and not rounded."""
    x, y = gt.rand(40).to(gt.bfloat16), gt.tensor(0.7)
    z = gt.rand(40).to(gt.complex64)

    def function() -> Any:
        made = x.abs().mul_(y)
        return made, z.logical_not()

    with gt.fuse():
        found = function()
    assert state_of(found) == state_of(function())
