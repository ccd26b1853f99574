"""The pointwise kernels for large layouts compiled by NVRTC, without a GPU.

Registers and spills on each architecture. From the PTX without edges (-DEDGES=0): access widths,
all loads before the first store, no divisions, number of instructions of a thread. No bank
conflicts in tiles in shared memory.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from gputensor.kernels.cuda import binding, module, variants

from ..kernels.kernel_arrays import SHORT, Layout
from ..support import Device, fresh_emulator, requires_emulator
from .test_compile import OPTIONS, compiled, nvrtc, requires_nvrtc

N = 4096
ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100")
# With 64 registers, four blocks of 256 threads fit on an SM. Each tile has 256 bytes of loads in
# flight.
REGISTERS = {"rows": 64, "turned": 128}


def plane(family: str, op: str, dtypes: str, *strides: tuple[int, int] | None) -> Any:
    """N x N elements; strides in elements."""
    known = [SHORT[s] for s in dtypes.split()]
    common = known[0] if family != "comparison" else known[1]
    walks = [
        None if s is None else tuple([x * d.itemsize for x in s]) for s, d in zip(strides, known)
    ]
    bound = binding.bind(family, op, Layout((N, N), walks, known, common))
    return getattr(bound, "plain", bound).at()


DENSE, PADDED, TURNED, ROW, COLUMN = (1, N), (1, 2 * N), (N, 1), (1, 0), (0, 1)
# name, launch, 16-byte loads, all loads, 16-byte stores, PTX instructions at most
KERNELS = [
    ("padded f32", ("unary", "neg", "f32 f32", DENSE, PADDED), (4, 4, 4), 92),
    ("row f32", ("binary", "add", "f32 f32 f32", DENSE, DENSE, ROW), (5, 5, 4), 122),
    ("row f16", ("binary", "add", "f16 f16 f16", DENSE, DENSE, ROW), (5, 5, 4), 355),
    ("row u8", ("binary", "add", "u8 u8 u8", DENSE, DENSE, ROW), (5, 5, 4), 356),
    ("column f32", ("binary", "mul", "f32 f32 f32", DENSE, DENSE, COLUMN), (4, 5, 4), 102),
    ("f32 and f16", ("binary", "add", "f32 f32 f16", DENSE, PADDED, PADDED), (4, 8, 4), 152),
    ("number", ("comparison", "lt", "bool f32 f32", DENSE, PADDED, None), (4, 4, 0), 125),
    ("turned f32", ("binary", "add", "f32 f32 f32", DENSE, DENSE, TURNED), (8, 8, 4), 235),
    ("turned f16", ("binary", "add", "f16 f16 f16", DENSE, DENSE, TURNED), (16, 16, 8), 1050),
    ("turned u8", ("unary", "neg", "u8 u8", DENSE, TURNED), (0, 8, 0), 675),
    ("turned f64", ("binary", "sub", "f64 f64 f64", DENSE, TURNED, DENSE), (4, 4, 2), 170),
    ("turned c128", ("binary", "add", "c128 c128 c128", DENSE, DENSE, TURNED), (2, 2, 1), 122),
    ("turned twice", ("where", "where", "f32 bool f32 f32", DENSE, TURNED, DENSE, TURNED),
     (8, 12, 4), 355),
]  # fmt: skip


@pytest.mark.full
@requires_nvrtc
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_registers(arch: str) -> None:
    launches = [plane(*k[1]) for k in KERNELS]
    for family in sorted({x.family for x in launches}):
        group = [x.defines for x in launches if x.family == family]
        records = compiled(family, group, arch)
        assert len(records) == len(group) > 0
        for record in records:
            assert not record["spills"], record
            assert record["registers"] <= REGISTERS[record["entry"].rpartition("_")[2]], record


def ptx(bound: Any) -> list[str]:
    """Return the instructions of a launch's kernel for whole units and few dimensions."""
    defines = bound.defines | {"EDGES": "0", "DIMS": "1"}
    made = nvrtc.createProgram(module.text(bound.family), "kernel.cu", (), ())
    given = [f"-D{name}={value}" for name, value in defines.items()]
    nvrtc.compileProgram(made, (*OPTIONS[:2], "-arch=compute_80", *given))
    text = nvrtc.getPTX(made).decode()
    nvrtc.destroyProgram(made)
    body = text[text.index("{", text.index(".entry")) :]
    return re.findall(r"^\s+((?:@!?%p\d+ )?[a-z][\w.:]* .*;)", body, re.MULTILINE)


@pytest.mark.full
@requires_nvrtc
@pytest.mark.parametrize(
    ("given", "accesses", "most"), [k[1:] for k in KERNELS], ids=[k[0] for k in KERNELS]
)
def test_accesses(given: Any, accesses: tuple[int, int, int], most: int) -> None:
    instructions = ptx(plane(*given))
    wide = r"(?:v4\.[ufb]32|v2\.[ufb]64)"
    loads = [i for i, x in enumerate(instructions) if re.match(r"ld\.global", x)]
    stores = [i for i, x in enumerate(instructions) if re.match(r"st\.(global|shared)", x)]
    found = (
        sum(bool(re.match(rf"ld\.global\S*\.{wide}", x)) for x in instructions), len(loads),
        sum(bool(re.match(rf"st\.global\S*\.{wide}", x)) for x in instructions),
    )  # fmt: skip
    assert found == accesses
    assert max(loads) < min(stores)
    assert not [x for x in instructions if re.match(r"ld\.global\S*\.nc", x)]  # out may be an input
    assert not [x for x in instructions if re.match(r"(div|rem)\.[us]", x)]
    assert not [x for x in instructions if ".local" in x]
    assert len(instructions) <= most


REDUCTIONS = [(op, scalar, layout) for op, scalar in (("sum", "f32"), ("amax", "f16"), ("mean",
"c128"))
              for layout in ("ROWS", "COLUMNS")]  # fmt: skip


@pytest.mark.full
@requires_nvrtc
@pytest.mark.parametrize(("op", "scalar", "layout"), REDUCTIONS)
def test_reductions_have_four_wide_loads_in_flight(op: str, scalar: str, layout: str) -> None:
    made = nvrtc.createProgram(module.text("reduce"), "kernel.cu", (), ())
    defines = {"OP": op, "SCALAR": scalar, "LAYOUT": layout, "DIMS": 8}
    given = [f"-D{name}={value}" for name, value in defines.items()]
    nvrtc.compileProgram(made, (*OPTIONS[:2], "-arch=compute_80", *given))
    text = nvrtc.getPTX(made).decode()
    nvrtc.destroyProgram(made)
    assert not re.search(r"^\s+(div|rem)\.[us]", text, re.MULTILINE)
    flights = [
        len(re.findall(r"ld\.global\S*\.v2\.u64", block))
        for block in re.split(r"^\$L\w+:", text, flags=re.MULTILINE)
    ]
    assert max(flights) == 4


@requires_emulator
@pytest.mark.parametrize("unit", [1, 2, 4, 8])
def test_tiles_have_no_bank_conflict(unit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight lanes move 16 bytes each at a time, so their cells must differ modulo 8."""
    kernel = (
        module.text("unary").split(module.BODY)[0]
        + """
    struct cells_params { u32* put; u32* ready; };
    extern "C" __global__ void cells(const cells_params p) {
      for (u32 k = 0; k < UNIT; ++k) {
        const u32 t = threadIdx.x, o = t + k * SQUARES * SQUARES;
        p.put[o] = cell_at<UNIT>(t % SQUARES * UNIT + k, t / SQUARES);
        p.ready[o] = cell_at<UNIT>(o / SQUARES, o % SQUARES);
      }
    }
    """
    )
    device = Device(fresh_emulator(monkeypatch))
    put, ready = (device.put(np.zeros(256 * unit, np.uint32)) for _ in range(2))
    device.launch(device.kernel(kernel, "cells", UNIT=unit), 1, 256, "<QQ", put, ready)
    for memory in (put, ready):
        cells = device.get(memory, np.uint32)
        assert sorted(cells) == list(range(256 * unit))
        assert all(len(set(eight)) == 8 for eight in cells.reshape(-1, 8) % 8)


def test_few_variants_are_built_together_on_the_emulator() -> None:
    """These are one operator's variants: g++ takes about two seconds for fifty."""
    for family in variants.FAMILIES:
        for defines in variants.group(family):
            assert defines in variants.group_of(family, defines)
            assert len(variants.group_of(family, defines)) <= 50
