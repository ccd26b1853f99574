"""The kernel of tril and triu on the emulator: one launch, any strides, all dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.core.dtype import FLOAT8, STORED
from gputensor.kernels.cuda import launch
from gputensor.runtime.emulator import settings

from ...harness import tier
from ..support import requires_emulator

pytestmark = [
    requires_emulator,
    pytest.mark.usefixtures("fresh_plans"),
    pytest.mark.skipif(not gt.cuda.is_emulated(), reason="compiles for the emulator"),
]
DIAGONALS = (0, 1, -1, 3, -3, 100, -100)
SIZES = [(5, 7), (16, 32), (3, 4, 16), (2, 3, 9, 5), (1, 1), (40, 33)]


def layouts(x: Any) -> Iterator[Any]:
    yield x
    yield x.transpose(-1, -2)
    yield x[..., 1:]
    yield x[..., ::2, :]
    yield x.transpose(0, -1)
    yield x.unsqueeze(-3).expand(*x.shape[:-2], 3, *x.shape[-2:])
    yield x[..., :1, :].expand(*x.shape[:-2], 4, x.shape[-1])


def check(x: Any, diagonal: int) -> None:
    """Compare a tensor's triangles with those on the CPU, bit by bit."""
    for name in ("tril", "triu"):
        found, wanted = getattr(x, name)(diagonal), getattr(x.cpu(), name)(diagonal)
        assert found.stride() == wanted.stride() and gt.equal(found.cpu(), wanted), (
            x.shape, x.stride(), diagonal,
        )  # fmt: skip
        if 0 in x.stride():
            continue
        memory = gt.ones(x.untyped_storage().nbytes() // x.element_size(), device="cuda")
        place = memory.to(x.dtype).as_strided(x.shape, x.stride(), x.storage_offset())
        place.copy_(x)
        version = place._version
        assert getattr(place, f"{name}_")(diagonal) is place and place._version == version + 1
        assert gt.equal(place.cpu(), wanted) and place.stride() == x.stride()


def check_all(sizes: list[tuple[int, ...]]) -> None:
    for shape in sizes:
        whole = gt.arange(1, int(np.prod(shape)) + 1, dtype=gt.float32).reshape(shape).to("cuda")
        for x in layouts(whole):
            for diagonal in tier.pick(DIAGONALS[:5], DIAGONALS):
                check(x, diagonal)


def test_any_layout() -> None:
    check_all(SIZES)


def test_any_layout_in_several_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "MAX_NUMEL", 20)
    check_all(SIZES[:4])


@pytest.mark.parametrize("of", STORED, ids=str)
def test_any_dtype(of: Any) -> None:
    x = (gt.arange(6 * 32) % 7).reshape(2, 3, 32).to(gt.float32).to(of).to("cuda")
    for y in (x, x[..., 1:], x.transpose(-1, -2)):
        check(y, 1)


def test_bits_stay_as_they_are() -> None:
    x = gt.tensor([[np.nan, -0.0, np.inf]] * 3).to("cuda")
    assert x.tril().cpu().numpy().tobytes() == np.tril(x.cpu().numpy()).tobytes()
    assert (
        x.triu_().cpu().numpy().tobytes()
        == np.triu([[np.nan, -0.0, np.inf]] * 3).astype("f4").tobytes()
    )


def test_one_launch(launched_grids: list[Any]) -> None:
    x, rows = gt.ones(16, 32, device="cuda"), gt.ones(2, 3, 9, 5, device="cuda")
    for y in (x, x.t(), rows):
        for run in (lambda z: z.tril(), lambda z: z.triu(-1), lambda z: z.tril_(1), gt.triu):
            for _ in range(3):
                launched_grids.clear()
                run(y)
                assert len(launched_grids) == 1


@pytest.mark.parametrize("schedule", ["forward", "random"])
def test_checks_of_memory_and_races(schedule: str) -> None:
    with settings.emulator_settings(sanitize="all", schedule=schedule, seed=4):
        for x in layouts(gt.ones(3, 17, 32, device="cuda")):
            x.tril(2)
            x.clone().triu_(-2)


def test_refusals_stay() -> None:
    x = gt.ones(3, device="cuda")
    for run in (x.tril, x.tril_):
        with pytest.raises(errors.GpuTensorError, match="at least 2 dimensions"):
            run()
    with pytest.raises(errors.ArgumentError, match="tril_: 'self' must not hold one memory"):
        gt.ones(1, 3, device="cuda").expand(3, 3).tril_()
    for of in FLOAT8:
        with pytest.raises(errors.GpuTensorError, match="float8"):
            gt.zeros(3, 3, dtype=of, device="cuda").tril()
    assert gt.ones(0, 3, device="cuda").triu().shape == (0, 3)


def test_gradients_and_chains() -> None:
    x = gt.ones(4, 6, device="cuda", requires_grad=True)
    (x.tril(1) * 2).sum().backward()
    assert gt.equal(x.grad, gt.ones(4, 6, device="cuda").tril(1) * 2)
    y = x.detach() * 3
    y.requires_grad_()
    (y * 1).triu_().sum().backward()
    assert gt.equal(y.grad, gt.ones(4, 6, device="cuda").triu())
    with gt.fuse():
        found = (x.detach() + 1).tril() + 1
    assert gt.equal(found, (x.detach() + 1).tril() + 1)
