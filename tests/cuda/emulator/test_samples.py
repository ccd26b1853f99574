"""Sample kernels of every kind, unchanged on the emulator and compiled by NVRTC.

On the emulator each runs in three orders of threads with every access checked, without findings.
"""

from __future__ import annotations

import pytest

from gputensor.core import errors
from gputensor.cuda import Kernel, check, emulator_settings
from gputensor.runtime.compilation import nvrtc_users

from ...harness import tier
from . import samples
from ..support import requires_emulator

try:
    nvrtc_users.binding()
    NO_NVRTC = ""
except errors.GpuTensorError as error:
    NO_NVRTC = str(error)

KINDS = 11


def kernel_of(name: str) -> Kernel:
    return Kernel(samples.FOLDER / f"{name}.cu", samples.ENTRIES.get(name, name))


def test_there_are_samples():
    assert len(samples.NAMES) == KINDS and all(hasattr(samples, name) for name in samples.NAMES)


@requires_emulator
@pytest.mark.emulator
@pytest.mark.parametrize("name", tier.pick(samples.NAMES[::4], samples.NAMES))
def test_a_sample_runs_and_is_not_accused(name, emulated):
    sample = check.Check(kernel_of(name), getattr(samples, name))
    assert sample.run() > 1
    for schedule in ("forward", "reversed", "random"):
        with emulator_settings(sanitize="all", schedule=schedule, seed=5):
            sample.run(limit=3)


@pytest.mark.full
@pytest.mark.skipif(bool(NO_NVRTC), reason=NO_NVRTC)
@pytest.mark.parametrize("name", samples.NAMES)
def test_a_sample_compiles_for_gpus(name):
    text = (samples.FOLDER / f"{name}.cu").read_text(encoding="utf-8")
    if "cooperative_groups.h" in text and not nvrtc_users.cuda_headers():
        pytest.skip("CUDA's headers for this version of NVRTC are not installed")
    report = kernel_of(name).report(["sm_80", "sm_90"])
    assert [row.arch for row in report] == ["sm_80", "sm_90"]
    assert all(row.registers and not row.spill_bytes for row in report), str(report)
