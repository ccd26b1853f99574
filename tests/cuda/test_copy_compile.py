"""The copy kernels through NVRTC, without a GPU: registers, spills, widths, instructions.

Instructions are counted on the path of whole tiles (-DEDGES=0 leaves no other), per 512 bytes of the
wider side; in PTX always, in SASS where nvdisasm is at hand. As a script it prints the table:
python -m tests.cuda.test_copy_compile.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputensor.kernels.cuda import copy_score as score
from gputensor.kernels.cuda import module, prebuilt, variants
from gputensor.runtime import nvrtc as runtime_nvrtc

from .test_compile import REASON, nvrtc, requires_nvrtc

NVDISASM = shutil.which("nvdisasm")
ARCHITECTURE = "90"
# The most registers of a thread on sm_90, spills being none.
REGISTERS = {"copy_row": 80, "copy_tile": 80, "copy_skinny": 64, "copy_pack": 80, "copy": 80}

WORD = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "w128"}
# rows, columns and threads of a tile, by item size
TILES = {
    1: (128, 128, 128),
    2: (128, 128, 256),
    4: (64, 64, 256),
    8: (32, 32, 128),
    16: (16, 16, 64),
}


class Gate:
    """A variant; bytes that a thread copies; PTX and SASS instructions per 512 bytes, at most.

    widths: bytes of every load and store of global memory, where they are all one.
    """

    def __init__(
        self, text: str, nbytes: int, ptx: float, sass: float, width: tuple[int, int] | None,
        **defines: Any,
    ) -> None:  # fmt: skip
        self.text, self.nbytes, self.ptx, self.sass, self.width = text, nbytes, ptx, sass, width
        self.defines = {name: str(value) for name, value in (defines | {"DIMS": 1}).items()}

    def __repr__(self) -> str:
        short = (f"{k}={v}" for k, v in self.defines.items() if k not in ("DIMS", "BLOCK"))
        return f"{self.text} {' '.join(short)}"


def _tile(size: int, load: int, store: int, ptx: float, sass: float, *, is_wide: bool) -> Gate:
    rows, columns, threads = TILES[size]
    width = (16, 16) if is_wide else None
    return Gate(
        "copy_tile", rows * columns * size // threads, ptx, sass, width, SRC=WORD[size], LOAD=load,
        STORE=store, TILE_ROWS=rows, TILE_COLUMNS=columns, BLOCK=threads,
    )  # fmt: skip


def _skinny(
    of: str, to: str, channels: int, from_planes: int, ptx: float, sass: float, **more: Any
) -> Gate:
    width = (16, 16) if of == to else None
    return Gate(
        "copy_skinny", 16 * channels, ptx, sass, width, SRC=of, DST=to, CHANNELS=channels,
        FROM_PLANES=from_planes, TO_PLANES=1 - from_planes, **more,
    )  # fmt: skip


GATES = [
    _tile(1, 16, 16, 50, 42, is_wide=True), _tile(2, 8, 8, 38, 34, is_wide=True),
    _tile(4, 4, 4, 45, 42, is_wide=True), _tile(8, 2, 2, 49, 45, is_wide=True),
    _tile(16, 1, 1, 49, 43, is_wide=True),
    _tile(1, 0, 16, 79, 80, is_wide=False), _tile(2, 0, 8, 74, 72, is_wide=False),
    _tile(4, 1, 4, 54, 53, is_wide=False), _tile(4, 1, 1, 95, 80, is_wide=False),
    Gate("copy_row", 64, 17, 18, (16, 16), SRC="w128", VECTOR=1, LONG=1),
    Gate("copy_row", 64, 33, 38, (16, 16), SRC="w128", VECTOR=1, LONG=0),
    Gate("copy_row", 64, 24, 24, (16, 16), SRC="u16", VECTOR=8, STEP=-1, LONG=1),
    Gate("copy_row", 64, 58, 54, (16, 16), SRC="u8", VECTOR=16, SHIFTED=1, LONG=1),
    Gate("copy_row", 64, 34, 26, (16, 8), SRC="f32", DST="f16", VECTOR=4, LONG=1),
    *[_skinny("u32", "u32", 3, p, 30, 33) for p in (0, 1)],
    *[_skinny("u16", "u16", 3, p, 39, 37) for p in (0, 1)],
    *[_skinny("u8", "u8", 3, p, 57, 54) for p in (0, 1)],
    *[_skinny("u8", "u8", 4, p, 68, 58) for p in (0, 1)],
    _skinny("u8", "f32", 3, 0, 115, 105, SCALED="BY_ROW", LOAD=16),
]  # fmt: skip


def _compile(text: str, defines: dict[str, str], arch: str) -> tuple[Any, str]:
    """(program, log) of a text as the runtime compiles it: defines before everything."""
    made = nvrtc.createProgram(module.text(text), f"{text}.cu", (), ())
    options = [*runtime_nvrtc.OPTIONS, "--ptxas-options=-v", f"-arch={arch}"]
    try:
        nvrtc.compileProgram(made, (*options, *[f"-D{k}={v}" for k, v in defines.items()]))
    except nvrtc.NVRTCError:
        pytest.fail(f"{text} {defines}:\n{nvrtc.getProgramLog(made)}")
    return made, nvrtc.getProgramLog(made)


def _ptx(gate: Gate) -> str:
    made, _ = _compile(gate.text, gate.defines | {"EDGES": "0"}, f"compute_{ARCHITECTURE}")
    text: str = nvrtc.getPTX(made).decode()
    nvrtc.destroyProgram(made)
    return text


_INSTRUCTION = re.compile(
    r"^\s+(?:@!?%p\d+ )?[a-z][\w.:]*\s.*;$|^\s+(?:ret|bar\.sync.*);", re.MULTILINE
)
_ACCESS = re.compile(r"\b(ld|st)\.global((?:\.[\w:]+)*?)(?:\.v(\d))?\.[busf](\d+)\b")


def _per_512(count: int, gate: Gate) -> float:
    return count * 16 / gate.nbytes  # a warp copies 32 * nbytes


@requires_nvrtc
@pytest.mark.parametrize("gate", GATES, ids=repr)
def test_instructions_and_widths_in_ptx(gate: Gate) -> None:
    text = _ptx(gate)
    assert _per_512(len(_INSTRUCTION.findall(text)), gate) <= gate.ptx
    found = [
        (kind, int(number or 1) * int(bits) // 8) for kind, _, number, bits in _ACCESS.findall(text)
    ]
    if gate.width is not None:
        assert set(found) == {("ld", gate.width[0]), ("st", gate.width[1])}
    assert found, "no access of global memory was found"


def _sass(gate: Gate, folder: Path) -> list[str]:
    """The instructions up to the last EXIT."""
    made, _ = _compile(gate.text, gate.defines | {"EDGES": "0"}, f"sm_{ARCHITECTURE}")
    cubin = folder / "kernel.cubin"
    cubin.write_bytes(nvrtc.getCUBIN(made) + b"\0")  # CuPy strips the last byte
    nvrtc.destroyProgram(made)
    command = [str(NVDISASM), "-c", str(cubin)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"^\s+/\*[0-9a-f]{4,5}\*/\s+(.*)$", answer, re.MULTILINE)
    return lines[: max(i for i, line in enumerate(lines) if "EXIT" in line) + 1]


@requires_nvrtc
@pytest.mark.skipif(NVDISASM is None, reason="nvdisasm is not on PATH; PTX stands for SASS")
@pytest.mark.parametrize("gate", GATES, ids=repr)
def test_instructions_in_sass(gate: Gate, tmp_path: Path) -> None:
    lines = _sass(gate, tmp_path)
    assert _per_512(len(lines), gate) <= gate.sass
    assert not any(re.search(r"\b(LDL|STL)\b", line) for line in lines)
    if gate.width == (16, 16):
        accesses = [line for line in lines if re.search(r"\b(LDG|STG)\.", line)]
        assert accesses and all(".128" in line for line in accesses)


# --- registers ------------------------------------------------------------------------------------


def _copies() -> Iterator[prebuilt.Variant]:
    """Every third of the prebuilt copies, and what only rare layouts ask for."""
    yield from list(prebuilt.copies())[::3]
    for of in ("u8", "u16", "u32"):
        size = int(of[1:]) // 8
        rows, columns, threads = TILES[size]
        yield "copy_tile", "copy_tile", {
            "SRC": of, "DST": of, "LOAD": "1", "STORE": "1", "TILE_ROWS": str(rows),
            "TILE_COLUMNS": str(columns), "BLOCK": str(threads), "DIMS": "16",
        }  # fmt: skip
        for each, threads in (score.PACK_NARROW[size], score.PACK_WIDE[size]):
            is_narrow = (each, threads) == score.PACK_NARROW[size]
            access = "1" if is_narrow else str(16 // size)
            yield "copy_pack", "copy_pack", {
                "SRC": of, "DST": of, "LOAD": access, "STORE": access, "EACH": str(each),
                "BLOCK": str(threads), "DIMS": "24",
            }  # fmt: skip
        yield (
            "copy_row",
            "copy_row",
            {"SRC": of, "DST": of, "VECTOR": "2", "DIMS": "16", "REPEAT": "1"},
        )


@requires_nvrtc
@pytest.mark.parametrize("arch", ["sm_90"])
def test_registers_and_spills(arch: str) -> None:
    count = 0
    for text, _, defines in _copies():
        made, log = _compile(text, defines, arch)
        nvrtc.destroyProgram(made)
        spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", log)
        used = [int(n) for n in re.findall(r"Used (\d+) registers", log)]
        assert spills and all(found == ("0", "0") for found in spills), (text, defines, spills)
        assert max(used) <= REGISTERS[text], (text, defines, used)
        count += 1
    assert count > 30


@requires_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
@pytest.mark.parametrize("text", variants.COPIES)
def test_a_bare_text_compiles(text: str, arch: str) -> None:
    made, log = _compile(text, {}, arch)
    nvrtc.destroyProgram(made)
    assert " 0 bytes spill stores" in log


@requires_nvrtc
@pytest.mark.parametrize("family", variants.FAMILIES)
def test_every_entry_compiles_with_its_defines_in_front(family: str) -> None:
    """As on a GPU: -D comes before the whole text, so no name in it may be that of a define."""
    seen = set()
    for defines in variants.group(family):
        if (layout := defines["LAYOUT"]) not in seen:
            seen.add(layout)
            nvrtc.destroyProgram(_compile(family, defines, "sm_90")[0])
    assert seen


def test_the_lists_are_not_empty() -> None:
    assert GATES and list(_copies())


def test_the_prebuilt_set_names_kernels_that_exist() -> None:
    found = list(prebuilt.copies())
    assert {text for text, _, _ in found} == {*variants.COPIES, "copy"}
    for text, entry, _ in found:
        assert re.search(rf"__launch_bounds__\(\w+\)\s+{entry}\(", module.text(text)), entry
    keys = [(text, *sorted(defines.items())) for text, _, defines in found]
    assert len(set(keys)) == len(keys)
    assert set(keys) < {(t, *sorted(d.items())) for t, _, d in prebuilt.everything()}


def print_table() -> None:
    """PTX instructions per 512 bytes of each gate, and its registers with edges."""
    for gate in GATES:
        made, log = _compile(gate.text, gate.defines, f"sm_{ARCHITECTURE}")
        nvrtc.destroyProgram(made)
        registers = re.search(r"Used (\d+) registers", log)[1]
        count = _per_512(len(_INSTRUCTION.findall(_ptx(gate))), gate)
        print(f"{count:6.1f} (at most {gate.ptx:3})  {registers:>3} registers  {gate}")


if __name__ == "__main__":
    print(REASON) if REASON else print_table()
