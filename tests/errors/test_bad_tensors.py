"""Bad tensors for every operand of every operator: sizes, dtypes, devices, indices out of range.

The call works, or raises one clear error and changes nothing.

On CUDA the calls are repeated with every memory access checked. GPUTENSOR_BAD_VALUES=all makes
every call.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gputensor as gt

from ..harness import bad_values, cases, tier
from ..harness.cases import CALLABLE, OPS, OPS_OF, Case
from ..harness.hostile import TENSORS, TOO_MANY_BINS, exchanged, tensors_in
from ..rows import Row

# One of this number of calls is made. The choice covers all tensors in turn.
STRIDE = tier.pick({"cpu": 23, "meta": 53, "cuda:0": 83}, {"cpu": 5, "meta": 11, "cuda:0": 17})
if os.environ.get("GPUTENSOR_BAD_VALUES") == "all":
    STRIDE = dict.fromkeys(STRIDE, 1)
FAMILIES = sorted({op.family for op in OPS})
# Families whose kernels compute addresses from an operand's elements.
OF_PLACES = """ctc embedding gather loss margin pad pool rearrange sampling scatter search segment
    unpool upsample""".split()


def _calls(row: Row, device: str) -> Iterator[tuple[Case, Any, Callable[[], Any]]]:
    """Yield (case, callable, function that makes its arguments) for each replaced tensor."""
    good = sorted(cases.one_of_each_form(row), key=lambda case: -len(case.sample.args))[:2]
    for case in good:
        first = case.build(device)
        whole = (first.args, first.kwargs)
        forms = [op for op in OPS_OF[row.name] if cases.takes(op, *whole)]
        for op in forms:
            for path in tensors_in(whole):
                for name, make in TENSORS.items():
                    if row.name == "bincount" and name in TOO_MANY_BINS:
                        continue

                    def build(op: Any = op, path: Any = path, make: Any = make) -> Any:
                        built = case.build(device)
                        args, kwargs = exchanged((built.args, built.kwargs), path, make)
                        return built, lambda: cases.operator_of(op)(*args, **kwargs)

                    yield case, f"{op.name} with {name} at {path}", build


def _sweep(family: str, device: str) -> None:
    faults, made, number = [], 0, 0
    for row in CALLABLE:
        if OPS_OF[row.name][0].family != family or device == "meta" and row.no_meta:
            continue
        for case, what, build in _calls(row, device):
            number += 1
            if number % STRIDE[device]:
                continue
            try:
                built, run = build()
            except gt.GpuTensorError:  # there is no such bad tensor
                continue
            made += 1
            _, fault = bad_values.try_one(run, [b.tensor for b in built.built], built.built)
            # The device detects an index out of range only after other elements have been written.
            if fault and not ("wrote" in fault and "an index is out of range" in fault):
                faults.append(f"{what} of {case}: {fault}")
    assert not faults, f"{len(faults)} of {made}\n" + "\n".join(faults[:20])
    assert made or number < 2 * STRIDE[device]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("family", FAMILIES)
def test_on_the_host(family: str, device: str) -> None:
    _sweep(family, device)


@pytest.mark.full
@pytest.mark.parametrize("family", OF_PLACES)
def test_on_cuda(family: str) -> None:
    if not gt.cuda.is_available():
        pytest.skip(f"no CUDA device ({gt.cuda.unavailable_reason()})")
    if not gt.cuda.is_emulated():
        pytest.skip("an index out of range ends a GPU's context")
    _sweep(family, "cuda:0")


@pytest.mark.full
@pytest.mark.emulator
def test_no_kernel_goes_outside_of_its_memory() -> None:
    """Runs in a separate process, in which every kernel is built with the check."""
    if not gt.cuda.is_available() or not gt.cuda.is_emulated():
        pytest.skip("the emulator has the check")
    checked = {**os.environ, "GPUTENSOR_EMULATOR_SANITIZE": "memory"}
    command = [sys.executable, "-m", "pytest", "-q", "--tier", "full", __file__, "-k", "on_cuda"]
    found = subprocess.run(command, env=checked, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout[-3000:]


def test_a_kernel_built_for_checks_runs_without_them() -> None:
    if not gt.cuda.is_available() or not gt.cuda.is_emulated():
        pytest.skip("the emulator has the check")
    call: Any = lambda x: gt.flip(x.to(gt.float64), (0,)).cpu().tolist()  # noqa: E731
    made = gt.ones(7, dtype=gt.float16, device="cuda")
    with gt.cuda.emulator_settings(sanitize="memory"):
        assert call(made) == [1] * 7
    assert call(gt.zeros(7, dtype=gt.float16, device="cuda")) == [0] * 7


def test_families_are_there() -> None:
    assert set(OF_PLACES) <= set(FAMILIES) and len(TENSORS) >= 40
