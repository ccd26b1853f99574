"""Kernels whose variants are listed by the module that launches them, compiled by NVRTC without a
GPU: no errors and no spills."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from gputensor.kernels.cuda import attention_launch, module, norm_launch, variants

from .test_compile import ARCHITECTURES, OPTIONS, nvrtc, requires_nvrtc

TEXTS = {"attention": attention_launch, "norm": norm_launch}
# The most registers of a thread: 128 let two blocks of 256 run on a multiprocessor. On sm_70 one
# block of attention with rows of 128 elements runs.
REGISTERS = {
    "attention_forward": 128, "attention_queries": 208, "attention_keys": 216, "norm_rows": 128,
    "norm_rows_backward": 128, "norm_statistics": 40, "norm_merge_statistics": 40,
    "norm_gradients": 48, "norm_merge_gradients": 40, "norm_scaled": 40,
    "norm_scaled_backward": 64,
}  # fmt: skip


def _variants() -> Iterator[Any]:
    for text, launches in TEXTS.items():
        for defines in {tuple(v.items()): v for _, v in launches.listed()}.values():
            yield pytest.param(text, defines, id="-".join((text, *defines.values())))


@pytest.mark.full
@requires_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", *ARCHITECTURES])
@pytest.mark.parametrize("text, defines", list(_variants()))
def test_variants_compile_without_spills(text: str, defines: variants.Defines, arch: str) -> None:
    if int(arch[3:]) not in nvrtc.getSupportedArchs():
        pytest.skip(f"this NVRTC, {nvrtc.getVersion()}, does not know {arch}")
    options = [*OPTIONS, f"-arch={arch}", *(f"-D{k}={v}" for k, v in defines.items())]
    made = nvrtc.createProgram(module.text(text), f"{text}.cu", (), ())
    nvrtc.compileProgram(made, tuple(options))
    log = nvrtc.getProgramLog(made)
    nvrtc.destroyProgram(made)
    entries = log.split("Compiling entry function")[1:]
    names = [re.search(r"'(\w+)'", of)[1] for of in entries]
    assert {*names} == {entry for entry, _ in TEXTS[text].listed()}
    for name, of in zip(names, entries):
        assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in of, name
        is_wide = (arch, defines.get("WIDTH")) == ("sm_70", "128")
        most = 255 if is_wide else REGISTERS[name]
        assert int(re.search(r"Used (\d+) registers", of)[1]) <= most, name
        shared = re.search(r"(\d+) bytes smem", of)
        assert shared is None or int(shared[1]) < 48 << 10
