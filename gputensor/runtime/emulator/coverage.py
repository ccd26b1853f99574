"""The part of CUDA C++ that the emulator covers: the tables of the documentation, and errors for
constructs that are not covered.

A construct that is not covered has no declaration in the shim, so g++ rejects the line that uses
it. `explain` puts our error text before g++'s.
"""

from __future__ import annotations

import os
import re

from . import headers

# Maps a group to (constructs, note). The tests compile every word of the constructs.
COVERED: dict[str, tuple[str, str]] = {
    "built-ins": ("threadIdx blockIdx blockDim gridDim warpSize", ""),
    "functions": (
        "__global__ __device__ __host__ __forceinline__ __noinline__ __launch_bounds__ "
        "__restrict__ __grid_constant__ templates extern-C",
        "kernels with any list of by-value parameters",
    ),
    "memory": (
        "__shared__ extern-__shared__ __constant__ __device__-variables __align__ local-arrays",
        "shared memory starts poisoned; variables of device memory are one set per device",
    ),
    "barriers": (
        "__syncthreads __syncthreads_count __syncthreads_and __syncthreads_or __syncwarp "
        "__threadfence __threadfence_block __threadfence_system",
        "a divergent one is an error that names who waits where",
    ),
    "warp": (
        "__shfl_sync __shfl_up_sync __shfl_down_sync __shfl_xor_sync __ballot_sync __any_sync "
        "__all_sync __match_any_sync __match_all_sync __reduce_add_sync __reduce_min_sync "
        "__reduce_max_sync __reduce_and_sync __reduce_or_sync __reduce_xor_sync __activemask",
        "a missing lane is an error; lanes run one after the other between these",
    ),
    "cooperative groups": (
        "this_thread_block tiled_partition thread_block_tile coalesced_threads this_grid sync "
        "thread_rank size num_threads meta_group_rank meta_group_size labeled_partition "
        "binary_partition shfl shfl_up shfl_down shfl_xor any all ballot match_any match_all "
        "reduce plus less greater bit_and bit_or bit_xor inclusive_scan exclusive_scan",
        "tiles of 1 to 32 threads; the grid's rank and size, not its barrier",
    ),
    "atomics": (
        "atomicAdd atomicSub atomicExch atomicMin atomicMax atomicInc atomicDec atomicCAS "
        "atomicAnd atomicOr atomicXor",
        "CUDA's overloads, also _block and _system; 16-bit CAS; half types",
    ),
    "math": (
        "sqrtf rsqrtf expf logf powf sinf cosf sincosf sinpif cospif tanhf erff erfinvf normcdff "
        "lgammaf fmaf hypotf rhypotf norm3df fminf fmaxf min max abs fabs floor ceil round rint "
        "lrint isnan isinf isfinite signbit __expf __logf __sinf __fdividef __fmaf_rn __fadd_rd "
        "__fmul_rz __fdiv_ru __fsqrt_rn __saturatef", "by libm, not to libdevice's last bit",
    ),
    "conversions": (
        "__float2int_rn __float2int_rz __double2ll_rd __int2float_rn __float_as_int "
        "__int_as_float __double_as_longlong __hiloint2double", "",
    ),
    "integers": (
        "__clz __clzll __popc __ffs __brev __byte_perm __funnelshift_l __funnelshift_r __mulhi "
        "__umulhi __mul24 __umul24 __sad __usad __hadd __rhadd __vadd2 __vadd4 __dp4a", "",
    ),
    "vector types": (
        "char4 uchar2 short2 int2 int3 uint4 float2 float4 double2 longlong2 dim3", "",
    ),
    "half types": (
        "__half __half2 __nv_bfloat16 __nv_bfloat162 __hfma __hfma2 __hadd2 __hmul2_rn __hadd_sat "
        "__hfma_relu __hmax __hmax2 __hmin_nan __habs2 __heq2 __hbgt2 __hltu __hne2_mask hexp "
        "h2sqrt htanh __float2half_rz __float2bfloat16_rd __half2int_rn __ushort2half_rn "
        "__bfloat162ll_rz __lowhigh2highlow __lows2half2 __high2bfloat162",
        "ours: CUDA's names for conversions, arithmetic, comparisons, math and atomicAdd, of one "
        "and of pairs; each operation rounds once",
    ),
    "loads and stores": (
        "__ldg __ldca __ldcg __ldcs __ldlu __ldcv __stcg __stcs __stwb __stwt", "",
    ),
    "others": ("printf assert __trap clock clock64 __nanosleep __builtin_assume pragma-unroll", ""),
}  # fmt: skip

# Maps the name of a construct in messages to the identifiers by which a use of the construct is
# recognised.
NOT_COVERED: dict[str, str] = {
    "inline PTX": "asm __asm __asm__",
    "textures and surfaces": (
        "texture tex1D tex2D tex3D tex1Dfetch tex1DLayered tex2DLayered tex2DLod tex2Dgather "
        "texCubemap cudaTextureObject_t cudaSurfaceObject_t surf1Dread surf1Dwrite surf2Dread "
        "surf2Dwrite surf3Dread surf3Dwrite surface"
    ),
    "tensor cores (wmma)": "nvcuda wmma mma.h",
    "asynchronous copies and barriers": (
        "__pipeline_memcpy_async __pipeline_commit __pipeline_wait_prior cuda_pipeline.h "
        "cuda/barrier cuda/pipeline memcpy_async cooperative_groups/memcpy_async.h"
    ),
    "libcu++, CUB and Thrust": "cuda/ cub/ thrust/ cuda cub thrust",
    "clusters": "cluster_group this_cluster __cluster_dims__",
    "barriers of the whole grid": "grid_group::sync this_multi_grid",
    "groups larger than a warp, barriers in two steps": (
        "tiles-of-more-than-32-threads barrier_arrive barrier_wait invoke_one invoke_one_broadcast"
    ),
    "the device's heap": "malloc free new delete __nv_aligned_device_malloc",
    "launches from a kernel, or host code, which #ifndef __CUDACC_RTC__ leaves out": (
        "<<< cudaLaunchDevice cudaDeviceSynchronize cudaMalloc cudaMemcpy cudaFree cudaError_t"
    ),
    "managed memory": "__managed__",
    "address spaces": "__isShared __isGlobal __isLocal __isConstant __cvta_generic_to_shared",
    "unsynchronised warp functions": "__shfl __shfl_up __shfl_down __shfl_xor __any __all __ballot",
    "8-bit and 4-bit floats": "cuda_fp8.h cuda_fp6.h cuda_fp4.h __nv_fp8_e4m3 __nv_fp8_e5m2",
    "cuRAND and cuComplex": "curand_kernel.h curand_init cuComplex.h cuCmulf",
}

_ERROR = re.compile(r"^(\S+?):(\d+):(?:(\d+):)? (?:fatal )?error: (.*)$", re.MULTILINE)
_USED_BY = re.compile(r"^(\S+?):(\d+):(?:\d+:)? +required from ", re.MULTILINE)
_SUGGESTION = re.compile(r"; did you mean .*")
_OPERATOR = re.compile(r"\boperator (new|delete)\b")
_QUOTED = re.compile(r"['‘]([^'’]+)['’]|(\S+\.h(?:pp)?|\S+/\S+): No such file")
_LINE_MARK = re.compile(r'[ \t]*#[ \t]*line[ \t]+(\d+)(?:[ \t]+"([^"]*)")?')
_PREFIX = "gputensor_not_covered_"


def named(word: str) -> tuple[str, str] | None:
    """Return the uncovered construct to which a word of g++'s error message refers, and its
    group."""
    word = word.removeprefix(_PREFIX)
    operator = _OPERATOR.search(word)
    bare = operator[1] if operator else word.split("(")[0].strip()
    for group, words in NOT_COVERED.items():
        for known in words.split():
            if bare == known or known.endswith("/") and bare.startswith(known):
                return bare, group
            if "::" in known and known in word:
                return known, group
            if "-" in known and known.replace("-", " ") == bare:
                return bare, group
    return None


def explain(log: str, unit: str) -> str:
    """Return g++'s log, preceded by a sentence about the first construct that the emulator does not
    cover."""
    unlinked = _unlinked(log)
    if unlinked is not None:
        return f"{unlinked}\n{log}"
    for match in _ERROR.finditer(log):
        file, line, message = match[1], int(match[2]), _SUGGESTION.sub("", match[4])
        words = [a or b for a, b in _QUOTED.findall(message)]
        if "<<<" in _line_of(unit, file, line):
            words.append("<<<")
        for word in words:
            found = named(word)
            if found is not None:
                file, line = _place_of_use(log, match)
                name, why = found
                return f"{file}:{line}: '{name}' is not covered by the emulator ({why})\n{log}"
    return log


_UNDEFINED = re.compile(r"([^\s:]+):(\d+): undefined reference to `([^']+)'")


def _unlinked(log: str) -> str | None:
    """Return a sentence about a function or variable that is declared but not defined, or None."""
    match = _UNDEFINED.search(log)
    if match is None:
        return None
    name = re.sub(r"\(anonymous namespace\)::|\bv\d+::|\bc_linkage::", "", match[3])
    place = f"{os.path.basename(match[1])}:{match[2]}"
    return f"{place}: '{name}' is declared and not defined; one text is all that is linked"


def _place_of_use(log: str, error: re.Match[str]) -> tuple[str, int]:
    """Return the file and line of an error in the user's text. For an error in one of our headers,
    return the file and line of the user's text that led to the error."""
    places = [error, *reversed(list(_USED_BY.finditer(log, 0, error.start())))]
    own = (m for m in places if not headers.is_ours(m[1]))
    place = next(own, error)
    return os.path.basename(place[1]), int(place[2])


def _line_of(unit: str, file: str, line: int) -> str:
    """Return the line of the translation unit that corresponds to a line of a file, according to
    the `#line` marks."""
    at_file, at_line = "", 0
    for text in unit.splitlines():
        mark = _LINE_MARK.match(text)
        if mark is not None:
            at_file, at_line = mark[2] or at_file, int(mark[1])
            continue
        if at_file == file and at_line == line:
            return text
        at_line += 1
    return ""


def tables() -> str:
    """Return both tables as Markdown, as the documentation shows them."""
    lines = ["| covered | constructs | |", "|---|---|---|"]
    for group, (words, note) in COVERED.items():
        lines.append(f"| {group} | {_code(words)} | {note} |")
    lines += [
        "", "| not covered: a compile error with its name and line | among them |", "|---|---|",
    ]  # fmt: skip
    for group, words in NOT_COVERED.items():
        lines.append(f"| {group} | {_code(words)} |")
    return "\n".join(lines)


def _code(words: str) -> str:
    return " ".join(f"`{word.replace('-', ' ')}`" for word in words.split())
