"""scatter with a number on the emulator: one launch, any dtype and layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core.dtype import STORED
from gputensor.kernels.cuda import launch
from gputensor.runtime.emulator import settings

from .support import requires_emulator

pytestmark = [
    requires_emulator,
    pytest.mark.usefixtures("fresh_plans"),
    pytest.mark.skipif(not gt.cuda.is_emulated(), reason="compiles for the emulator"),
]


def index(rows: int, columns: int, size: int) -> Any:
    made = np.random.default_rng(1).permuted(np.tile(np.arange(size), (columns, 1)), axis=1)
    return gt.from_numpy(np.ascontiguousarray(made.T[:rows]))


def test_one_launch(launched_grids: list[Any]) -> None:
    at = index(3, 5, 7).to("cuda")
    x = gt.zeros(7, 5, device="cuda")
    for run in (
        lambda: x.scatter_(0, at, 0.5), lambda: x.scatter_(0, at, 2, reduce="add"),
        lambda: x.scatter_(0, at, 2, reduce="multiply"), lambda: x.index_fill_(0, at[0, :2], 3),
    ):  # fmt: skip
        for _ in range(4):
            launched_grids.clear()
            run()
            assert len(launched_grids) == 1


@pytest.mark.parametrize("of", STORED, ids=str)
def test_any_dtype(of: Any) -> None:
    at = index(3, 5, 7)
    value: Any = 2 - 1.5j if of.is_complex else 1.5 if of.is_floating_point else 3
    for start in (
        gt.zeros(7, 5).to(of),
        gt.zeros(5, 7).to(of).t(),
        gt.zeros(7, 11).to(of)[:, 1::2],
    ):
        found = start.to("cuda").scatter(0, at.to("cuda"), value)
        wanted = start.scatter(0, at, value)
        assert found.cpu().view(-1).tolist() == wanted.contiguous().view(-1).tolist()


@pytest.mark.parametrize(
    "of", [gt.float16, gt.bfloat16, gt.float32, gt.int8, gt.int64, gt.complex64]
)
def test_numbers_are_rounded_and_combined_as_on_the_cpu(of: Any) -> None:
    at, start = index(3, 5, 7), (gt.arange(35.0).view(7, 5) / 3).to(of)
    for value in (0.1, 3, -7) if of.is_floating_point else (3, -7):
        for reduce in ("add", "multiply"):
            found = start.to("cuda").scatter(0, at.to("cuda"), value, reduce=reduce)
            assert gt.equal(found.cpu(), start.scatter(0, at, value, reduce=reduce))
        found = start.to("cuda").index_fill(0, gt.tensor([0, -1], device="cuda"), value)
        assert gt.equal(found.cpu(), start.index_fill(0, gt.tensor([0, -1]), value))


def test_repeated_calls_with_other_numbers() -> None:
    at = index(3, 5, 7).to("cuda")
    x = gt.zeros(7, 5, device="cuda")
    for value in (1.0, 1.0, 1.0, 2.0, 1.0, -0.0):
        assert x.scatter_(0, at, value).gather(0, at).eq(value).all()


def test_several_launches_and_no_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "MAX_NUMEL", 4)
    at, x = index(3, 5, 7), gt.zeros(7, 5)
    assert gt.equal(x.to("cuda").scatter(0, at.to("cuda"), 2).cpu(), x.scatter(0, at, 2))
    assert gt.equal(x.to("cuda").scatter(0, at[:0].to("cuda"), 2).cpu(), x)
    assert gt.zeros(0, device="cuda").index_fill(0, at[0, :0].to("cuda"), 1).shape == (0,)


def test_checks_of_memory() -> None:
    with settings.emulator_settings(sanitize="all", schedule="random", seed=1):
        gt.zeros(7, 5, device="cuda").scatter_(0, index(3, 5, 7).to("cuda"), 2.0)
