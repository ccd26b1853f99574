"""Every operator on every CUDA device has the CPU's result: layouts, dtypes and bits.

The devices are GPUs, or the emulator's two; see tests/conftest.py. If bits cannot be equal, the
operator's row has the tolerance and its reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import cycle
from typing import Any

import pytest

import gputensor as gt
from gputensor import runtime
from gputensor.core.dtype import FLOATING
from gputensor.core.errors import DtypeError, GpuTensorError

from ..harness.cases import CALLABLE, Case, cases, long_cases, some
from ..harness.compare import assert_same, assert_within, signs_dropped, to_numpy
from ..rows import Row
from .test_ops_forward import COMPUTING, LONGER


def _is_required(kind: str) -> bool:
    return os.environ.get(f"GPUTENSOR_REQUIRE_{kind}") == "1"


@pytest.fixture
def devices() -> list[str]:
    """The names of the CUDA devices; skips with the reason if there are none."""
    if not gt.cuda.is_available():
        why = f"no CUDA device: {runtime.cuda().unavailable_reason()}"
        if _is_required("CUDA") or _is_required("EMULATOR"):
            pytest.fail(f"{why}, but one is required")
        pytest.skip(why)
    if gt.cuda.is_emulated() and _is_required("CUDA"):
        pytest.fail("GPUTENSOR_REQUIRE_CUDA=1 asks for a GPU, and this is the emulator")
    return [f"cuda:{n}" for n in range(min(2, gt.cuda.device_count()))]


def placed(made: Iterable[Case], devices: list[str]) -> list[tuple[Case, str]]:
    """Each case on one device, which changes with each case."""
    return list(zip(made, cycle(devices)))


@pytest.mark.whole
@pytest.mark.parametrize("row", some(CALLABLE, 1), ids=str)
def test_as_on_the_cpu(row: Row, devices: list[str]) -> None:
    checked = 0
    for case, device in placed(cases(row, crossed=False), devices):
        if case.expected() is None:
            with pytest.raises((DtypeError, GpuTensorError)):
                case.build(device).run()
                pytest.fail(f"{case}: was not refused on {device}")
            continue
        wanted, call = case.build("cpu").run(), case.build(device)
        found = call.run()
        check(case, found, wanted, device)
        if case.op().kind == "functional":
            call.assert_unchanged()
        checked += 1
    assert checked


@pytest.mark.full
@pytest.mark.parametrize("row", some(COMPUTING, 1), ids=str)
def test_long_operands_as_on_the_cpu(row: Row, devices: list[str]) -> None:
    for case, device in placed(long_cases(row), devices):
        if case.expected() is not None:
            call = case.build(device)
            check(case, call.run(), case.build("cpu").run(), device, LONGER)
            call.assert_unchanged()


def check(case: Case, found: Any, wanted: Any, device: str, slack: int = 1) -> None:
    """Raise unless layouts and dtypes are equal, and values agree within the row's tolerance times
    `slack`."""
    if not isinstance(wanted, (gt.Tensor, list, tuple)):
        assert type(found) is type(wanted) and found == wanted, (
            f"{case}: {found} on {device}, {wanted} on the CPU"
        )
        return
    found = found if isinstance(found, (list, tuple)) else [found]
    wanted = wanted if isinstance(wanted, (list, tuple)) else [wanted]
    assert len(found) == len(wanted), str(case)
    for x, y in zip(found, wanted):
        if y is None:
            assert x is None, f"{case}: {x} on {device}, None on the CPU"
            continue
        stays = case.row.may_copy and "device" in str(case)
        assert stays or x.device == gt.device(device), f"{case}: result is on {x.device}"
        layouts = [(tuple(z.shape), z.stride(), z.dtype, z.storage_offset()) for z in (x, y)]
        assert layouts[0] == layouts[1], f"{case}: {device} {layouts[0]}, CPU {layouts[1]}"
        if case.row.ref is None:
            continue
        on_device, on_cpu = to_numpy(x), to_numpy(y)
        if case.row.zeros_equal:
            on_device, on_cpu = signs_dropped(on_device), signs_dropped(on_cpu)
        if case.row.device_ulp and x.dtype.category >= FLOATING:
            ulp = case.row.device_ulp * slack
            what = f"{case} on {device}"
            assert_within(on_device, on_cpu, x.dtype, ulp, what, case.row.of_largest)
        else:
            assert_same(on_device, on_cpu, f"{case} on {device}")
