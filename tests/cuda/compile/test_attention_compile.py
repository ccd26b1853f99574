"""The attention kernels compiled by NVRTC, without a GPU, and the arithmetic of their launches.

Instructions are counted in the machine code for sm_90 (sass.py).
"""

from __future__ import annotations

from struct import Struct
from typing import Any

import pytest

from gputensor.core.dtype import bfloat16, bool_, dtype, float16, float32, float64
from gputensor.kernels.cuda import attention_launch, module
from gputensor.kernels.cuda.attention_launch import Attention
from gputensor.runtime.capture import Place
from gputensor.runtime.compilation import nvrtc as runtime_nvrtc

from . import sass
from .test_compile import nvrtc, requires_nvrtc

ENTRIES = ("attention_forward", "attention_queries", "attention_keys")
FFMA = 0x223


@pytest.mark.full
@requires_nvrtc
@pytest.mark.parametrize("width", attention_launch.WIDTHS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_products_are_most_of_the_instructions(
    entry: str, width: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """A step of a product for scores has 16 multiply-adds and 8 loads of shared memory; a step of
    the products with a matrix of 32 columns has 8 and 6."""
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(tmp_path))
    defines = attention_launch.define(float32, width)
    cubin = runtime_nvrtc.compile_cubin(nvrtc, module.text("attention"), defines, "sm_90")
    bodies = _loops(sass.instructions(cubin, entry))
    products = [body for body in bodies if sum(x.operation == FFMA for x in body) >= 16]
    count = {"attention_forward": 2, "attention_queries": 3, "attention_keys": 4}[entry]
    assert len(products) >= count
    for body in products:
        ffma = sum(x.operation == FFMA for x in body)
        loads = sum(x.access == "LDS" for x in body)
        assert loads <= (0.75 if width == 32 else 0.5) * ffma, (loads, ffma)
        assert ffma >= (0.3 if width == 32 else 0.4) * len(body), (ffma, len(body))
        assert not any(x.access in ("LDL", "STL") for x in body)


def _loops(code: list[sass.Instruction]) -> list[list[sass.Instruction]]:
    """Return the bodies of the innermost loops."""
    spans = [(k + 1 + one.jump, k + 1) for k, one in enumerate(code) if one.jump < 0]
    inner = [a for a in spans if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in spans)]
    return [code[begin:end] for begin, end in inner]


def _of(**changed: Any) -> Attention:
    given = {
        "of": float32, "samples": 2, "heads": 6, "served": 3, "queries": 130, "keys": 70,
        "width": 40, "value_width": 64, "mask": None, "is_causal": False, "scale": 0.5,
    }  # fmt: skip
    return Attention(**(given | changed))


@pytest.mark.parametrize("changed, taken", [
    ({}, True), ({"width": 128}, True), ({"width": 129}, False), ({"value_width": 129}, False),
    ({"of": float16, "mask": float16}, True), ({"of": float16, "mask": bfloat16}, False),
    ({"of": bfloat16, "mask": float32}, True), ({"mask": bool_}, True), ({"of": float64}, False),
    ({"samples": 1 << 20, "queries": 1 << 20}, False),
], ids=str)  # fmt: skip
def test_what_the_kernels_take(changed: dict[str, Any], taken: bool) -> None:
    assert _of(**changed).is_taken() == taken


@pytest.mark.parametrize("widths, variant", [((1, 32), "32"), ((33, 8), "64"), ((64, 65), "128")])
def test_the_wider_row_chooses_the_variant(widths: tuple[int, int], variant: str) -> None:
    assert _of(width=widths[0], value_width=widths[1]).defines()["WIDTH"] == variant


@pytest.mark.parametrize("of, mask, kind", [
    (float32, None, 0), (float16, bool_, 1), (float32, float32, 2), (float16, float32, 2),
    (float16, float16, 3),
], ids=str)  # fmt: skip
def test_parameters_say_how_to_read_the_mask(of: dtype, mask: dtype | None, kind: int) -> None:
    params = _of(of=of, mask=mask).params(3, {"query": (4096, (8, 4, 2, 1))})
    assert len(params) == 10 * 40 + 72
    assert params[:40] == (4096).to_bytes(8, "little") + b"".join(
        n.to_bytes(8, "little") for n in (8, 4, 2, 1)
    )
    numbers = [int.from_bytes(params[k : k + 4], "little") for k in range(424, 460, 4)]
    assert numbers == [6, 3, 130, 70, 40, 64, kind, 0, 3]


@pytest.mark.parametrize("seed, kind", [(1 << 63, 1), (Place(4096), 2)], ids=str)
def test_parameters_say_where_the_seed_is(seed: int, kind: int) -> None:
    params = _of(dropout=(seed, 7, 1 << 52, 2.0)).params(3, {})
    assert Struct("<3Q").unpack(params[400:424]) == (seed, 7, 1 << 52)
    assert Struct("<ffI").unpack(params[460:]) == (0.5, 2.0, kind)
