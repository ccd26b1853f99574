"""The copy kernels compiled by NVRTC, without a GPU: registers, spills, widths, instructions,
loads.

Instructions are counted in the machine code for sm_90 (sass.py) on the path of whole tiles
(-DEDGES=0 removes the others), per 512 bytes of the wider side. As a script it prints the table:
python -m tests.cuda.compile.test_copy_compile.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gputensor.kernels.cuda import copy_score as score
from gputensor.kernels.cuda import module, prebuilt, variants
from gputensor.runtime.compilation import nvrtc as runtime_nvrtc
from gputensor.runtime.device_limits import H200

from . import sass
from .test_compile import REASON, nvrtc, requires_nvrtc

NVDISASM = shutil.which("nvdisasm")
ARCHITECTURE = "sm_90"
# The most registers of a thread without spills: with 64, 1024 threads fit on an SM.
REGISTERS = {"copy_row": 64, "copy_tile": 64, "copy_skinny": 64, "copy_pack": 72, "copy": 80}

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
    """A variant; bytes that a thread copies; instructions per 512 bytes, at most.

    width: bytes of every load and store of global memory, if all are equal. flight: the least
    number of bytes that a thread loads before its first store.
    """

    def __init__(
        self, text: str, nbytes: float, most: float, width: tuple[int, int] | None, flight: int,
        **defines: Any,
    ) -> None:  # fmt: skip
        self.text, self.nbytes, self.most = text, nbytes, most
        self.width, self.flight = width, flight
        self.defines = {name: str(value) for name, value in ({"DIMS": 1} | defines).items()}

    def __repr__(self) -> str:
        short = (f"{k}={v}" for k, v in self.defines.items() if k not in ("DIMS", "BLOCK"))
        return f"{self.text} {' '.join(short)}"


# Elements of an access of TILE, by copy_score's name for it.
ELEMENTS = {score.WIDE: lambda size: 16 // size, score.WORD: lambda size: 4 // size,
            score.SHIFTED: lambda size: 0, score.SINGLE: lambda size: 1}  # fmt: skip


def _tiles() -> Iterator[Gate]:
    """Return a gate for each counted pair of accesses, with the numbers that the scores use."""
    for size, loads in score.TILE_INSTRUCTIONS.items():
        for load, stores in loads.items():
            for store, most in stores.items():
                is_shifted = load == score.SHIFTED
                flight = 64 if load == score.WIDE or is_shifted else 16
                flight = 128 if size < 4 and load == score.WIDE == store else flight
                yield _tile(size, ELEMENTS[load](size), ELEMENTS[store](size), most, flight)


def _tile(size: int, load: int, store: int, most: float, flight: int) -> Gate:
    rows, columns, threads = TILES[size]
    if not store:
        (rows, columns), threads = score.TILE_OF_SECTORS[size], 256
    return Gate(
        "copy_tile", rows * columns * size / threads, most,
        (16, 16) if load * size == store * size == 16 else None, flight, SRC=WORD[size], LOAD=load,
        STORE=store, TILE_ROWS=rows, TILE_COLUMNS=columns, BLOCK=threads,
    )  # fmt: skip


def _row(most: float, width: tuple[int, int], flight: int, **defines: Any) -> Gate:
    return Gate("copy_row", 64, most, width, flight, **defines)


def _skinny(of: str, to: str, channels: int, from_planes: int, most: float, **more: Any) -> Gate:
    is_moved = of == to
    return Gate(
        "copy_skinny", 16 * channels, most, (16, 16) if is_moved else None,
        16 * channels if is_moved else 16, SRC=of, DST=to, CHANNELS=channels,
        FROM_PLANES=from_planes, TO_PLANES=1 - from_planes, **more,
    )  # fmt: skip


def _pack(size: int, load: int, store: int) -> Gate:
    is_wide = min(load, store) * size >= (4 if size < 4 else 16)
    each, threads = (score.PACK_WIDE if is_wide else score.PACK_NARROW)[size]
    each = -(-each // max(load, store)) * max(load, store)
    return Gate(
        "copy_pack", each * size, score.PACK_INSTRUCTIONS[size][0 if is_wide else 1],
        (16, 16) if load * size == store * size == 16 else None, each * size, SRC=WORD[size],
        LOAD=load, STORE=store, EACH=each, BLOCK=threads, DIMS=4,
    )  # fmt: skip


# Kernels with 16-byte accesses on both sides may have 1.15 times a prototype's instructions: 33 31
# 36 38 34.
GATES = [
    *_tiles(),
    _row(17, (16, 16), 64, SRC="w128", VECTOR=1, LONG=1),
    _row(38, (16, 16), 64, SRC="w128", VECTOR=1, LONG=0),
    _row(22, (16, 16), 64, SRC="u16", VECTOR=8, STEP=-1, LONG=1),
    _row(52, (16, 16), 128, SRC="u8", VECTOR=16, SHIFTED=1, LONG=1),
    _row(24, (16, 8), 64, SRC="f32", DST="f16", VECTOR=4, LONG=1),
    *[_skinny("u32", "u32", 3, p, 30) for p in (0, 1)],
    *[_skinny("u16", "u16", 3, p, 34) for p in (0, 1)],
    *[_skinny("u8", "u8", 3, p, 50) for p in (0, 1)],
    *[_skinny("u8", "u8", 4, p, 55) for p in (0, 1)],
    _skinny("u8", "f32", 3, 0, 92, SCALED="BY_ROW", LOAD=16),
    *[_pack(size, 16 // size, 16 // size) for size in TILES],
    _pack(1, 1, 1), _pack(1, 4, 1), _pack(1, 1, 4), _pack(1, 16, 1), _pack(2, 1, 1),
    _pack(2, 8, 1), _pack(2, 1, 8), _pack(4, 1, 1), _pack(4, 4, 1), _pack(4, 1, 4), _pack(8, 1, 1),
]  # fmt: skip


def _compile(text: str, defines: dict[str, str], arch: str) -> tuple[Any, str]:
    """Return (program, log) of a text, compiled as the runtime does: defines come first."""
    made = nvrtc.createProgram(module.text(text), f"{text}.cu", (), ())
    options = [*runtime_nvrtc.OPTIONS, "--ptxas-options=-v", f"-arch={arch}"]
    try:
        nvrtc.compileProgram(made, (*options, *[f"-D{k}={v}" for k, v in defines.items()]))
    except nvrtc.NVRTCError:
        pytest.fail(f"{text} {defines}:\n{nvrtc.getProgramLog(made)}")
    return made, nvrtc.getProgramLog(made)


@cache
def _code(gate: Gate) -> tuple[bytes, list[sass.Instruction]]:
    """Return (cubin, instructions) of the path of whole tiles."""
    made, _ = _compile(gate.text, gate.defines | {"EDGES": "0"}, ARCHITECTURE)
    cubin = bytes(nvrtc.getCUBIN(made)) + b"\0"  # CuPy strips the last byte
    nvrtc.destroyProgram(made)
    return cubin, sass.instructions(cubin, gate.text)


def _per_512(gate: Gate) -> float:
    """Return instructions per 512 bytes; for PACK only a tile's, because its offsets are computed
    for many tiles."""
    code = _code(gate)[1]
    counted = sass.loop(code) if gate.text == "copy_pack" else code
    return len(counted) * 16 / gate.nbytes  # a warp copies 32 * nbytes


@pytest.mark.full
@requires_nvrtc
@pytest.mark.parametrize("gate", GATES, ids=repr)
def test_instructions_widths_and_flight(gate: Gate) -> None:
    code = _code(gate)[1]
    assert 0 < _per_512(gate) <= gate.most
    found = {(one.access, one.nbytes) for one in code if one.access in ("LDG", "STG")}
    if gate.width is not None:
        assert found == {("LDG", gate.width[0]), ("STG", gate.width[1])}
    assert {access for access, _ in found} == {"LDG", "STG"}
    if gate.text == "copy_pack":
        code = [one for one in code if one.access != "STS"]  # of tables, and of the first tile
    assert sass.loads_in_flight(code) >= gate.flight


def test_whole_accesses_take_few_instructions() -> None:
    for size, prototype in {1: 33, 2: 31, 4: 36, 8: 38, 16: 34}.items():
        wide = score.TILE_INSTRUCTIONS[size][score.WIDE]
        assert wide[score.WIDE] <= 1.15 * prototype


@requires_nvrtc
@pytest.mark.skipif(NVDISASM is None, reason="nvdisasm is not on PATH; nothing to compare with")
def test_sass_is_read_as_nvdisasm_reads_it(tmp_path: Path) -> None:
    widths = {"128": 16, "64": 8, "U16": 2, "U8": 1}
    for gate in GATES:
        cubin, code = _code(gate)
        (tmp_path / "kernel.cubin").write_bytes(cubin)
        command = [str(NVDISASM), "-c", str(tmp_path / "kernel.cubin")]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        lines = re.findall(r"^\s+/\*[0-9a-f]{4,5}\*/\s+(.*)$", answer, re.MULTILINE)
        wanted = [re.search(r"\b(LDG|STG|LDS|STS|LDL|STL)\b([\w.]*)", line) for line in lines]
        assert len(lines) > len(code) and "BRA" in lines[len(code)]
        for one, found in zip(code, wanted):
            assert one.access == (found and found[1]), gate
            if found is not None:
                named = [widths[part] for part in found[2].split(".") if part in widths]
                assert one.nbytes == (named or [4])[0], (gate, found[0])


# --- registers ------------------------------------------------------------------------------------


def _copies() -> Iterator[prebuilt.Variant]:
    """Return every fourth of the prebuilt copies, and variants that only rare layouts need."""
    yield from list(prebuilt.copies())[::4]
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


def _registers(text: str, defines: dict[str, str], arch: str = ARCHITECTURE) -> int:
    """Return a thread's registers. Fails if any is spilled, except for a few words in tiles of
    whole sectors."""
    made, log = _compile(text, defines, arch)
    nvrtc.destroyProgram(made)
    spills = re.findall(r"(\d+) bytes spill stores", log)
    most = 24 if defines.get("STORE") == "0" else 0
    assert spills and all(int(found) <= most for found in spills), (text, defines, spills)
    return max(int(n) for n in re.findall(r"Used (\d+) registers", log))


@pytest.mark.full
@requires_nvrtc
def test_registers_and_spills() -> None:
    count = 0
    for text, _, defines in _copies():
        used = _registers(text, defines)
        assert used <= REGISTERS[text], (text, defines, used)
        count += 1
    assert count > 25


@pytest.mark.full
@requires_nvrtc
@pytest.mark.parametrize(
    "gate", [g for g in GATES if g.text in ("copy_tile", "copy_pack")], ids=repr
)
def test_registers_are_those_that_plans_count_with(gate: Gate) -> None:
    """The registers determine an SM's loads in flight: 48 KiB if both sides use 16-byte
    accesses."""
    used = _registers(gate.text, gate.defines | ({"DIMS": "6"} if gate.text == "copy_pack" else {}))
    size, threads = {v: k for k, v in WORD.items()}[gate.defines["SRC"]], int(gate.defines["BLOCK"])
    if gate.text == "copy_tile":
        which = 2 if gate.defines["STORE"] == "0" else int(gate.width != (16, 16))
        known, shared = score.TILE_REGISTERS[size][which], gate.nbytes * threads
    else:
        is_wide = gate.most == score.PACK_INSTRUCTIONS[size][0]
        known, shared = score.PACK_REGISTERS[size][0 if is_wide else 1], 2 * gate.nbytes * threads
    is_vector = gate.width == (16, 16)
    assert used <= known
    if is_vector and (size >= 4 or gate.text == "copy_tile"):
        blocks = score.blocks_per_multiprocessor(H200, known, threads, int(shared))
        assert blocks * threads * gate.nbytes >= 48 << 10


@pytest.mark.full
@requires_nvrtc
@pytest.mark.parametrize("gate", [g for g in GATES if g.text == "copy_pack"], ids=repr)
def test_offsets_take_the_instructions_of_few_tiles(gate: Gate) -> None:
    """This holds if a run has a table, and runs have one dimension."""
    code = _code(gate)[1]
    counted = len(sass.loop(code))
    assert (len(code) - counted) / counted <= 3.7


@pytest.mark.full
@requires_nvrtc
@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_columns_that_begin_anywhere_spill_little_on_older_gpus(arch: str) -> None:
    gates = [g for g in GATES if g.defines.get("STORE") == "0"]
    assert len(gates) == 10
    for gate in gates:
        made, log = _compile(gate.text, gate.defines | {"DIMS": "4"}, arch)
        nvrtc.destroyProgram(made)
        (spilled,) = re.findall(r"(\d+) bytes spill stores", log)
        assert int(spilled) <= 64, gate


@pytest.mark.full
@requires_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
@pytest.mark.parametrize("text", variants.COPIES)
def test_a_bare_text_compiles(text: str, arch: str) -> None:
    made, log = _compile(text, {}, arch)
    nvrtc.destroyProgram(made)
    assert " 0 bytes spill stores" in log


@pytest.mark.full
@requires_nvrtc
@pytest.mark.parametrize("family", variants.FAMILIES)
def test_every_entry_compiles_with_its_defines_in_front(family: str) -> None:
    """On a GPU too, -D comes before the whole text, so no name in the text may equal that of a
    define."""
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
        assert re.search(rf"__launch_bounds__\([\w, ]+\)\s+{entry}\(", module.text(text)), entry
    keys = [(text, *sorted(defines.items())) for text, _, defines in found]
    assert len(set(keys)) == len(keys)
    assert set(keys) < {(t, *sorted(d.items())) for t, _, d in prebuilt.everything()}


def print_table() -> None:
    """Print instructions per 512 bytes of each gate, loads in flight, and registers with edges."""
    for gate in GATES:
        used = _registers(gate.text, gate.defines | {"DIMS": "4"})
        flight = sass.loads_in_flight(_code(gate)[1])
        print(f"{_per_512(gate):6.1f} ({gate.most:3})  {used:3} registers  {flight:3} B  {gate}")


if __name__ == "__main__":
    print(REASON) if REASON else print_table()
