"""Chains that are one program: rows, NumPy's loops within, operands of other layouts, and what is
done again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.fusion import native, native_program, native_whole

from .same import state_of

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not on PATH")
Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("GPUTENSOR_FUSE", raising=False)
    before = gt.get_num_threads()
    gt.set_num_threads(2)
    yield
    gt.set_num_threads(before)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What programs answer: whether NumPy's loops have to do it again."""
    found: list[bool] = []
    run = native_program.Program.run

    def seen(*args: Any) -> bool:
        found.append(run(*args))
        return found[-1]

    monkeypatch.setattr(native_program.Program, "run", seen)
    return found


def check(function: Function, *args: Any) -> None:
    expected = state_of(function(*args))
    fused = gt.fuse(function, native=True)
    for _ in range(2):
        assert state_of(fused(*args)) == expected


# --- rows -----------------------------------------------------------------------------------------


def layer_norm(x: Any, y: Any) -> Any:
    centered = x - x.mean(-1, True)
    variance = (centered * centered).mean(-1, True)
    return centered / (variance + 1e-5).sqrt() * y + y


def masked_softmax(x: Any, y: Any) -> Any:
    scaled = gt.where(y > 0.5, x * 0.125, -1e9)
    powers = (scaled - scaled.amax(-1, True)).exp()
    return powers / powers.sum(-1, True)


def of_the_ends(x: Any, y: Any) -> Any:
    z = x * y + 1
    return z.sum(-1), z.mean(-1, True), z.amin(-1), z.amax(-1, True)


def log_sum(x: Any, y: Any) -> Any:
    most = (x * y).amax(-1, True)
    total = (x * y - most).exp().sum(-1, True)
    return total.log() + most, x - (total.log() + most)


def with_a_row_beside(x: Any, y: Any) -> Any:
    scale = y[..., :1]
    z = x * scale + y
    return (z - z.amin(-1, True) * scale) * 2, z.mean(-1)


ROWS: list[Function] = [layer_norm, masked_softmax, of_the_ends, log_sum, with_a_row_beside]


@pytest.mark.parametrize(
    ("function", "element"),
    [*[(f, gt.float32) for f in ROWS], (layer_norm, gt.float64), (of_the_ends, gt.float64)],
    ids=lambda x: getattr(x, "__name__", str(x)),
)
@pytest.mark.parametrize(
    "sizes", [(1000, 300), (40, 16_384), (3, 130, 137), (5000, 16), (900, 129), (70, 4099)], ids=str
)
def test_rows_have_the_bits_of_the_operators(
    function: Function, element: Any, sizes: tuple[int, ...], answers: list[bool]
) -> None:
    x, y = (gt.rand(sizes, dtype=element) * 2 - 0.5 for _ in "xy")
    check(function, x, y)
    assert answers and not any(answers)


@pytest.mark.parametrize("function", ROWS, ids=lambda f: f.__name__)
def test_rows_with_what_has_no_one_answer(function: Function, answers: list[bool]) -> None:
    x, y = gt.rand(600, 300) - 0.5, gt.rand(600, 300)
    x[3], x[8, ::2] = 0.0, -0.0  # the greatest may be either
    x[5, 7], x[200, 1], y[9, 9] = float("nan"), float("inf"), -float("nan")
    check(function, x, y)
    assert any(answers)


def test_rows_of_other_layouts() -> None:
    for view in (
        lambda x: x.view(300, 400).t(), lambda x: x.view(400, 300)[:, ::2],
        lambda x: x.view(20, 60, 100).permute(1, 0, 2), lambda x: x.view(20, 60, 100)[:, :, 1:],
        lambda x: x.view(8000, 15), lambda x: x.view(400, 300)[::2],
    ):  # fmt: skip
        for function in ROWS:
            check(function, view(gt.rand(120_000)), view(gt.rand(120_000)))


def test_a_short_sum_of_everything_is_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "FROM", 1)
    for size in (16, 100, 255, 300):
        check(lambda x: (x * 3 + 1).sum(), gt.rand(size))
        check(lambda x: (x * 3 + 1).sum(0), gt.rand(size))


def test_a_row_that_is_too_long_is_left_to_the_blocks() -> None:
    check(of_the_ends, gt.rand(3, 100_000), gt.rand(3, 100_000))
    check(lambda x: (x * 2 + 1).sum(), gt.rand(300, 400))
    check(lambda x: (x * 2 + 1).sum(0), gt.rand(300, 400))


# --- sums of everything ---------------------------------------------------------------------------


@pytest.mark.parametrize("element", [gt.float32, gt.float64], ids=str)
@pytest.mark.parametrize("sizes", [(70_001,), (333, 1001), (1 << 17,), (1033, 2047)], ids=str)
def test_sums_of_everything(element: Any, sizes: tuple[int, ...]) -> None:
    x, y = (gt.rand(sizes, dtype=element) - 0.25 for _ in "xy")
    check(lambda: ((x - y) * (x - y)).mean())
    check(lambda: ((x * y + 1).sum(), (x * x).sum(), (x - y).mean()))

    def kept() -> Any:
        z = (x * y + 1).exp()
        return z.sum(), z, z * 2, (z * x).mean()

    check(kept)
    x[0] = float("nan")
    check(kept)


def test_a_sum_of_everything_is_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[bool] = []
    run = native_program.Program.run_sums
    monkeypatch.setattr(
        native_program.Program, "run_sums", lambda *args: ran.append(run(*args)) or ran[-1]
    )
    x = gt.rand(300, 400)
    check(lambda: (x * 2 + 1).mean())
    assert ran == [False, False]


# --- NumPy's loops --------------------------------------------------------------------------------


@pytest.mark.parametrize("element", [np.float32, np.float64], ids=lambda x: x.__name__)
@pytest.mark.parametrize("name", sorted(native.UFUNCS))
def test_numpys_loop_of_a_tile_is_that_of_all(element: Any, name: str) -> None:
    ufunc, limits = getattr(np, name), np.finfo(element)
    random = np.random.default_rng(0)
    x = np.concatenate([random.standard_normal(7001) * s for s in (0.1, 1, 10, 1e4)]).astype(
        element
    )
    x[::97], x[5::113], x[7::511], x[3::700] = 0, -0.0, np.inf, limits.tiny / 4
    given = [x, random.permutation(x)][: ufunc.nin]
    found = native_program.inner_loop(ufunc, gt.float32 if element is np.float32 else gt.float64)
    assert found is not None and found[0]
    with np.errstate(all="ignore"):
        whole = ufunc(*given)
        for size in (1, 3, 8, 17, 100, 2048):
            parts = [ufunc(*[y[at : at + size] for y in given]) for at in range(0, 30 * size, size)]
            assert np.concatenate(parts).tobytes() == whole[: len(np.concatenate(parts))].tobytes()


def test_numpys_loops_within_a_program(answers: list[bool]) -> None:
    def function(x: Any, y: Any) -> Any:
        z = gt.exp(x * 0.5 - y) + gt.tanh(y * y * 0.25)
        w = gt.log(z * z + 1) * gt.sin(x) - gt.cos(y * 2).floor()
        return w, gt.pow(z + 3, y), gt.atan2(w, z) + 1

    for element in (gt.float32, gt.float64):
        for sizes in ((100_001,), (333, 301), (40_000,)):
            check(function, gt.rand(sizes, dtype=element), gt.rand(sizes, dtype=element))
    assert answers and not any(answers)


def test_numpys_loops_at_odd_addresses() -> None:
    odd = np.zeros(4 * 50_000 + 1, np.uint8)[1:].view(np.float32)
    odd[...] = np.arange(50_000) % 100
    check(lambda x: (x.exp() + 1) * 2 + (x * 0.5).tanh(), gt.from_numpy(odd))


# --- layouts and casts ----------------------------------------------------------------------------


def planes(x: Any, scale: Any) -> Any:
    return (x.permute(0, 3, 1, 2).to(gt.float32) * scale + scale).contiguous()


def mixed(x: Any, scale: Any) -> Any:
    x = x.permute(0, 3, 1, 2)
    return gt.clamp((x[:, :1] * scale + x[:, 1:2] * 0.5) - x[:, -1:], 0, 255).to(gt.uint8)


@pytest.mark.parametrize("function", [planes, mixed], ids=lambda f: f.__name__)
@pytest.mark.parametrize("channels", [3, 4])
def test_packed_pixels_are_read_where_they_lie(
    function: Function, channels: int, answers: list[bool]
) -> None:
    pixels = gt.randint(0, 256, (3, 90, 101, channels)).to(gt.uint8)
    check(function, pixels, gt.rand(channels, 1, 1) if function is planes else gt.rand(3, 1, 1))
    assert answers and not any(answers)


@pytest.mark.parametrize("to", [gt.uint8, gt.int32, gt.int64], ids=str)
@pytest.mark.parametrize("element", [gt.float32, gt.float64], ids=str)
def test_casts_within_and_beyond_the_range(to: Any, element: Any, answers: list[bool]) -> None:
    function = lambda x: (x * 1.5 + 0.25).to(to)  # noqa: E731
    x = gt.rand(60_000, dtype=element) * 100
    check(function, x)
    assert answers and not any(answers)
    for far in (1e10, -1e10, 1e30, float("nan"), float("inf"), -float("inf"), 2.0**31, -1.0):
        x[777] = far
        check(function, x)
    assert any(answers)


def test_an_integer_has_no_zero_with_a_sign() -> None:
    x = gt.rand(60_000) * 4 - 2
    check(lambda x: (x * 1.0).to(gt.int32).to(gt.float64) * 2, x)
    check(lambda x: (x * 20).to(gt.int64) * 3.0 - 1, x)
    check(lambda x: (x.abs() * 100).to(gt.uint8).to(gt.float32) * -1, x)
    few = gt.fuse(lambda x: (x * 1.0).to(gt.int32).to(gt.float64) * 2, native=True)
    for _ in range(4):
        assert state_of(few(x[:90])) == state_of((x[:90] * 1.0).to(gt.int32).to(gt.float64) * 2)


def test_bounds_and_what_lies_on_them() -> None:
    x = gt.rand(60_000) * 4 - 2
    x[::3], x[1::3] = 0.0, -0.0
    for bounds in ((0, 1), (-0.0, 0.0), (None, 0.0), (0.0, None), (1, -1), (float("nan"), 1)):
        check(lambda x, bounds=bounds: gt.clamp(x * 1.0 + 0, *bounds) * 2, x)


# --- what is no whole program ---------------------------------------------------------------------


def test_a_result_where_an_operand_lies_is_left_to_the_blocks() -> None:
    def function(x: Any, y: Any) -> Any:
        x.mul_(2).add_(y)
        x /= x.sum(-1, True) + 1
        return x * 2, x.mean(-1)

    for nan in (False, True):
        x, y = gt.rand(300, 400), gt.rand(300, 400)
        if nan:
            x[7, 7] = float("nan")
        one, other = x.clone(), x.clone()
        expected = state_of((function(one, y), one))
        assert state_of((gt.fuse(function, native=True)(other, y), other)) == expected


def test_programs_between_other_operators(answers: list[bool]) -> None:
    def function(x: Any, y: Any) -> Any:
        z = (x * y + 1).sigmoid()
        z = (z - z.mean(-1, True)) * x
        return z.sigmoid() * 2 - y, z.sum(-1), z.sum(), z.softmax(-1) * 2 + 1

    for sizes in ((300, 400), (2000, 99), (40, 5000)):
        x, y = gt.rand(sizes), gt.rand(sizes)
        check(function, x, y)
    assert answers and not any(answers)
    x[1, 1] = float("nan")
    check(function, x, y)


def test_whose_kernel_is_somebody_elses_is_no_part_of_it() -> None:
    x = gt.rand(300, 400)
    found = gt.fuse.explain(gt.fuse(lambda: layer_norm(x, x), native=True))
    (chain, _), *more = found.chains
    assert not more and native_whole.found_of(chain) is not None
    assert "mean of each row" in str(found)
