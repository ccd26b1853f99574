"""All kernel variants compiled by NVRTC, without a GPU: no errors and no spills.

All variants for sm_80; on other architectures one variant per entry and item size. Variants of a
family are compiled as one program, each in a namespace, because a program's start costs more than a
kernel. As a script it prints the register table: python -m tests.cuda.compile.test_compile [sm_80].
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from gputensor.kernels.cuda import module, variants
from gputensor.runtime.compilation import kernel_cache
from gputensor.runtime.compilation import nvrtc as runtime_nvrtc

try:
    from cupy.cuda import nvrtc

    nvrtc.getVersion()
    REASON = ""
except Exception as error:  # cupy raises errors of many classes if parts of CUDA are missing
    nvrtc, REASON = None, f"NVRTC is not usable: {type(error).__name__}"

requires_nvrtc = pytest.mark.skipif(bool(REASON), reason=REASON)

OPTIONS = ("--std=c++17", "-fmad=false", "--ptxas-options=-v")
ARCHITECTURES = ("sm_70", "sm_90", "sm_100", "sm_120")
# The most registers an entry may take on sm_80. With 64 registers, four blocks of 256 threads fit
# on an SM.
# Sums of bytes by rows and columns have sixteen accumulators of 64 bits. The strided sinc of c128
# takes 70 registers, so three blocks fit.
REGISTERS = {
    "special_contiguous": 80, "special_strided": 80,
    "activation_contiguous": 56, "activation_strided": 80,
    "unary_contiguous": 56, "unary_strided": 72, "binary_contiguous": 56, "binary_strided": 80,
    "comparison_contiguous": 48, "comparison_strided": 80, "where_contiguous": 56,
    "where_strided": 80, "where_cast": 80, "fill_contiguous": 40, "fill_strided": 48,
    "copy_contiguous": 40, "copy_strided": 56, "copy_cast": 64, "copy_packed": 40,
    "copy_affine": 64,
    "range_strided": 72, "random_contiguous": 64, "reduce_rows": 128,
    "reduce_columns": 128, "reduce_strided": 64, "reduce_cast": 80, "matmul_strided": 128,
    "argreduce_strided": 64, "softmax_rows": 128, "softmax_strided": 64, "loss_elements": 40,
    "loss_sums": 40, "loss_parts": 40, "gather_strided": 80, "scatter_strided": 80,
    "nonzero_elements": 40, "nonzero_sums": 40, "nonzero_parts": 56,
    "ternary_contiguous": 72, "ternary_strided": 96, "scan_strided": 128,
    "moments_rows": 104, "moments_columns": 72, "moments_strided": 64, "moments_parts": 56,
    "dropout_contiguous": 40, "dropout_strided": 40, "triangle_rows": 64, "triangle_strided": 64,
    "criterion_contiguous": 64, "criterion_strided": 80,
}  # fmt: skip

# Functors that the compiler does not inline: registers that a call saves to memory count as
# spilled.
CALLED = ("special",)

_MANGLED = re.compile(r" '_ZN\d+v(\d+)_\d+([a-z_]+)E")
_FACTS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")


def program(family: str, group: Sequence[variants.Defines]) -> str:
    """Return the family's text with the body once per variant; variant i is in namespace v<i>_."""
    once, body = module.text(family).split(module.BODY)
    # C names would collide between namespaces; mangled names differ by variant.
    body = body.replace('extern "C" ', "")
    defined = sorted(set(re.findall(r"^#define (\w+)", body, re.MULTILINE)))
    parts = [once]
    for number, defines in enumerate(group):
        parts += [f"#define {name} {value}\n" for name, value in defines.items()]
        parts += [f"namespace v{number}_ {{\n", body, f"\n}}  // namespace v{number}_\n"]
        parts += [f"#undef {name}\n" for name in {*defined, *defines}]
    return "".join(parts)


def compiled(family: str, group: Sequence[variants.Defines], arch: str) -> list[dict[str, Any]]:
    """Return one record per kernel: entry, defines, registers, stack, spills."""
    made = nvrtc.createProgram(program(family, group), f"{family}.cu", (), ())
    try:
        nvrtc.compileProgram(made, (*OPTIONS, f"-arch={arch}"))
    except nvrtc.NVRTCError:
        pytest.fail(f"{family} for {arch}:\n{nvrtc.getProgramLog(made)}")
    log = nvrtc.getProgramLog(made)
    nvrtc.destroyProgram(made)
    records = []
    for block in log.split("Compiling entry function")[1:]:
        name = _MANGLED.match(block)
        assert name, block
        stack, stores, loads = map(int, _FACTS.search(block).groups())
        records.append({
            "entry": name[2], "defines": group[int(name[1])], "stack": stack,
            "spills": stores + loads,
            "registers": int(_USED.search(block)[1]),
        })  # fmt: skip
    return records


@cache
def whole_group(family: str, dims: int) -> tuple[dict[str, Any], ...]:
    group = variants.group(family, dims)
    return tuple(compiled(family, group, "sm_80")) if group else ()


def representatives(family: str) -> list[variants.Defines]:
    """Return one variant per entry and item size."""
    found: dict[tuple[str, str], variants.Defines] = {}
    for defines in variants.group(family):
        size = re.sub(r"[a-z]+", "", defines["SCALAR"])
        found.setdefault((defines["LAYOUT"], size), defines)
    return list(found.values())


@pytest.mark.full
@requires_nvrtc
@pytest.mark.parametrize("family", variants.FAMILIES)
def test_every_variant_compiles_without_spills(family: str) -> None:
    group, records = variants.group(family), whole_group(family, variants.FEW_DIMS)
    assert len(records) == len(group)
    for record in records:
        assert not record["spills"] or family in CALLED, record
        assert record["registers"] <= REGISTERS[record["entry"]], record


@pytest.mark.full
@requires_nvrtc
@pytest.mark.parametrize("family", variants.FAMILIES)
def test_layouts_of_many_dimensions_compile(family: str) -> None:
    group = [v | {"DIMS": str(variants.MANY_DIMS)} for v in representatives(family) if "DIMS" in v]
    if not group:
        pytest.skip("no entry has dimensions")
    for record in compiled(family, group, "sm_80"):
        assert not record["spills"] or family in CALLED, record


@pytest.mark.full
@requires_nvrtc
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("family", variants.FAMILIES)
def test_other_architectures(family: str, arch: str) -> None:
    if int(arch[3:]) not in nvrtc.getSupportedArchs():
        pytest.skip(f"this NVRTC, {nvrtc.getVersion()}, does not know {arch}")
    group = representatives(family)
    records = compiled(family, group, arch)
    assert len(records) == len(group)
    assert family in CALLED or not any(record["spills"] for record in records)


@pytest.mark.full
@requires_nvrtc
@pytest.mark.parametrize("family", variants.FAMILIES)
def test_a_bare_file_compiles(family: str) -> None:
    """It compiles with its defaults, as in an editor, and messages name the file and its line."""
    made = nvrtc.createProgram(module.text(family), "kernel.cu", (), ())
    nvrtc.compileProgram(made, ("--std=c++17", "-arch=sm_80"))
    nvrtc.destroyProgram(made)
    wrong = module.text(family).replace(module.BODY, module.BODY + "\nwrong;")
    made = nvrtc.createProgram(wrong, "kernel.cu", (), ())
    with pytest.raises(nvrtc.NVRTCError):
        nvrtc.compileProgram(made, ("--std=c++17", "-arch=sm_80"))
    assert f"{family}.cu(" in nvrtc.getProgramLog(made)
    nvrtc.destroyProgram(made)


@pytest.mark.full
@requires_nvrtc
def test_contiguous_entries_move_sixteen_bytes_at_a_time() -> None:
    for family in ("unary", "binary", "comparison", "where", "fill", "copy", "random"):
        for defines in variants.group(family):
            if defines["LAYOUT"] != "CONTIGUOUS" or defines["SCALAR"] in ("f64", "c128", "w128"):
                continue
            if family == "random" and defines["SCALAR"] != "f32":
                continue
            made = nvrtc.createProgram(program(family, [defines]), "kernel.cu", (), ())
            nvrtc.compileProgram(made, ("--std=c++17", "-fmad=false", "-arch=compute_80"))
            text = nvrtc.getPTX(made).decode()
            nvrtc.destroyProgram(made)
            wide = re.findall(r"(?:ld|st)\.global\S*\.(?:v4\.[ufb]32|v2\.[ufb]64)", text)
            assert wide, (family, defines)
            break


@pytest.mark.full
@requires_nvrtc
@pytest.mark.parametrize("family", [f for f in variants.FAMILIES if f != "copy"])
def test_what_may_work_in_place_reads_no_memory_as_constant(family: str) -> None:
    """`ld.global.nc` may read values from before the kernel, or values that the kernel wrote.
    copy_row and similar kernels may use it: their dst does not overlap src, or is the same elements
    one by one.
    The tables of CUDA's own sine and cosine are constant.
    """
    group = representatives(family)
    made = nvrtc.createProgram(program(family, group), "kernel.cu", (), ())
    nvrtc.compileProgram(made, (*OPTIONS[:2], "-arch=compute_90"))
    text = nvrtc.getPTX(made).decode()
    nvrtc.destroyProgram(made)
    assert text.count(".visible .entry") == len(group)
    for body in re.split(r"\.(?:entry|func)\b", text):  # each one numbers its own registers
        tables = re.findall(r"mov\.u64\s+(%rd\d+), __cudart_", body)
        sums = re.findall(r"add\.s64\s+(%rd\d+), (%rd\d+), ", body)
        read = re.findall(r"ld\.global\S*\.nc\S*[^[]*\[(%rd\d+)", body)
        assert {*read} <= {*tables, *(to for to, start in sums if start in tables)}


@requires_nvrtc
@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_an_image_ends_where_its_elf_file_does(arch: str, monkeypatch, tmp_path) -> None:
    """CuPy removes the last byte of NVRTC's output, so the restored byte must equal it."""
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_cache, "_known", {})
    for family in ("fill", "reduce"):
        defines = variants.group(family)[0]
        elf = runtime_nvrtc.compile_cubin(nvrtc, module.text(family), defines, arch)
        segments, sections = struct.unpack_from("<QQ", elf, 0x20)
        segment, n_segments, section, n_sections = struct.unpack_from("<4H", elf, 0x36)
        # The last byte belongs to a table of 64-bit numbers, none of which is 2^56 or more.
        ends = segments + segment * n_segments, sections + section * n_sections
        assert elf.startswith(b"\x7fELF") and len(elf) == max(ends)


@requires_nvrtc
def test_ptx_is_text_with_one_zero_behind_it(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_cache, "_known", {})
    text = module.text("fill")
    image = runtime_nvrtc.compile_cubin(nvrtc, text, variants.group("fill")[0], "compute_90")
    assert b".entry fill_contiguous" in image and image.index(b"\0") == len(image) - 1


def test_the_lists_are_not_empty() -> None:
    for family in variants.FAMILIES:
        assert variants.group(family) and representatives(family)


def print_table(arch: str) -> None:
    """Print registers by entry: number of variants, least, most, and the variant with the most."""
    for family in variants.FAMILIES:
        records = compiled(family, variants.group(family), arch)
        for entry in dict.fromkeys(r["entry"] for r in records):
            used = sorted((r for r in records if r["entry"] == entry), key=lambda r: r["registers"])
            stack = max(r["stack"] for r in used)
            print(
                f"{entry:24}{len(used):4} variants  {used[0]['registers']:3} to "
                f"{used[-1]['registers']:3} registers  stack {stack:3}  {used[-1]['defines']}"
            )


if __name__ == "__main__":
    import sys

    print_table(sys.argv[1] if len(sys.argv) > 1 else "sm_80")
