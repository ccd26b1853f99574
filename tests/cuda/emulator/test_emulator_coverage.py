"""Documented constructs of the emulator: each one compiles and gives the right value.

A row is an expression of CUDA C and its value, for one thread or for each thread of a warp. The
documentation's table comes from coverage.py; every word in it must occur in a source of this file.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from gputensor.core import errors
from gputensor.cuda import Kernel, emulator_settings
from gputensor.runtime.compilation import nvrtc_users
from gputensor.runtime.emulator import coverage

from ..support import requires_emulator

pytestmark = [requires_emulator, pytest.mark.emulator]

F = np.float32
# expression, value; the relative tolerance is 4e-7 if the value is not an integer
SCALARS = [
    ("sqrtf(2.0f)", 2**0.5), ("rsqrtf(4.0f)", 0.5), ("expf(1.0f)", math.e), ("logf(2.0f)",
    math.log(2)),
    ("powf(2.0f, 0.5f)", 2**0.5), ("sinf(1.0f)", math.sin(1)), ("cosf(1.0f)", math.cos(1)),
    ("sinpif(0.25f)", 2**-0.5), ("sinpi(1.0)", 0), ("cospif(1.0f)", -1), ("cospi(0.5)", 0),
    ("tanhf(0.5f)", math.tanh(0.5)), ("erff(0.5f)", math.erf(0.5)),
    ("erfinvf(0.5f)", 0.4769362762), ("erfinv(-0.999)", -2.3267537655), ("erfcinv(1e-20)",
    6.6015806223),
    ("erfcx(30.0)", 0.01879588447), ("erfcx(1.0)", 0.4275835762),
    ("normcdff(1.0f)", 0.8413447461), ("normcdfinv(0.975)", 1.9599639845), ("lgammaf(5.0f)",
    math.log(24)),
    ("fmaf(2.0f, 3.0f, 4.0f)", 10), ("hypotf(3.0f, 4.0f)", 5), ("rhypotf(3.0f, 4.0f)", 0.2),
    ("norm3df(2.0f, 3.0f, 6.0f)", 7), ("fminf(1.0f, 2.0f)", 1), ("fmaxf(1.0f, 2.0f)", 2),
    ("min(3, 2)", 2), ("max(3u, 2u)", 3), ("min(-1, 2u)", 2), ("max(1.5f, 2.5)", 2.5), ("abs(-3)",
    3),
    ("abs(-1.5f)", 1.5), ("fabs(-2.0)", 2), ("floor(-1.5)", -2), ("ceil(1.2f)", 2), ("round(2.5)",
    3),
    ("rint(2.5)", 2), ("lrint(3.5)", 4), ("llroundf(-2.5f)", -3), ("isnan(NAN)", 1),
    ("isinf(INFINITY)", 1),
    ("isfinite(1.0f)", 1), ("signbit(-0.0)", 1), ("pow(2, 10)", 1024), ("pow(2.0f, 3)", 8),
    ("sqrt(16)", 4),
    ("__expf(0.0f)", 1), ("__logf(1.0f)", 0), ("__sinf(0.0f)", 0), ("__fdividef(6.0f, 3.0f)", 2),
    ("__fmaf_rn(2.0f, 3.0f, 1.0f)", 7), ("__saturatef(1.5f)", 1), ("__saturatef(-1.0f)", 0),
    ("__fadd_rd(1.0f, 1e-10f) == 1.0f", 1), ("__fadd_ru(1.0f, 1e-10f) > 1.0f", 1),
    ("__fmul_rz(1.0000001f, 1.0000001f)", float(F(1.0000001) * F(1.0000001))),
    ("__fdiv_ru(1.0f, 3.0f) - __fdiv_rd(1.0f, 3.0f) > 0.0f", 1), ("__fsqrt_rn(9.0f)", 3),
    ("__dadd_rz(1.0, 1e-20) == 1.0", 1), ("remainderf(5.0f, 3.0f)", -1), ("fmodf(5.0f, 3.0f)", 2),
    ("__float2int_rn(2.5f)", 2), ("__float2int_rz(-2.7f)", -2), ("__float2int_rz(3e9f)",
    2147483647),
    ("__float2int_rz(NAN)", 0), ("__double2ll_rd(-1.5)", -2), ("__int2float_rn(16777217)",
    16777216),
    ("__int2float_ru(16777217)", 16777218), ("__float_as_int(1.0f)", 0x3F800000),
    ("__int_as_float(0x40000000)", 2), ("__double_as_longlong(2.0) >> 52", 1024),
    ("__hiloint2double(0x3ff00000, 0)", 1), ("__clz(1)", 31), ("__clzll(1ll)", 63),
    ("__popc(255u)", 8),
    ("__popcll(~0ull)", 64), ("__ffs(8)", 4), ("__brev(1u)", 2147483648),
    ("__byte_perm(0x03020100u, 0x07060504u, 0x7531u)", 0x07050301),
    ("__funnelshift_l(0x80000000u, 1u, 1u)", 3), ("__funnelshift_r(1u, 1u, 1u)", 0x80000000),
    ("__mulhi(-1, 2)", -1), ("__umulhi(0x80000000u, 4u)", 2), ("__mul24(-3, 4)", -12),
    ("__umul24(3u, 4u)", 12),
    ("__sad(1, -2, 3u)", 6), ("__usad(1u, 5u, 1u)", 5), ("__hadd(-1, 2)", 0), ("__rhadd(1, 2)", 2),
    ("__vadd2(0x0001ffffu, 0x00010001u)", 0x00020000), ("__vadd4(0xff010203u, 0x01010101u)",
    0x00020304),
    ("__dp4a(0x01020304, 0x01010101, 1)", 11), ("__dp4a(0xff000000u, 0x02000000u, 0u)", 510),
    ("make_char4(-1, 2, 3, 4).x", -1), ("make_uchar2(1, 255).y", 255), ("make_short2(1, -2).y", -2),
    ("make_int2(1, 2).y + make_int3(1, 2, 3).z", 5), ("make_uint4(1, 2, 3, 4).w", 4),
    ("make_float2(1.5f, 2).x", 1.5), ("make_float4(1, 2, 3, 4).w", 4), ("make_double2(1, 2.5).y",
    2.5),
    ("make_longlong2(1, 1ll << 40).y", 1 << 40), ("sizeof(float3)", 12), ("alignof(float4)", 16),
    ("sizeof(longlong2)", 16), ("dim3(2, 3).z", 1), ("int4{1, 2, 3, 4}.z + short2{5, 6}.x", 8),
    ("(float)__half(0.1f)", float(np.float16(0.1))), ("__half2float(__float2half(65520.0f)) > "
                                                      "1e30f", 1),
    ("(float)(__half(0.1f) * __half(3.0f))", float(np.float16(0.1) * np.float16(3))),
    ("__low2float(__hadd2(__floats2half2_rn(1, 2), __half2half2(__half(3.0f))))", 4),
    ("(float)__hfma(__half(2.0f), __half(3.0f), __half(1.0f))", 7), ("__hlt(__half(1.0f), "
                                                                     "__half(2.0f))", 1),
    ("sizeof(__half2) + sizeof(__nv_bfloat162)", 8), ("__half_as_ushort(__half(1.0f))", 0x3C00),
    ("__bfloat162float(__float2bfloat16(1.01f))", 1.0078125), ("(float)(__nv_bfloat16(3.0f) + "
                                                               "__nv_bfloat16(1.0f))", 4),
    ("(float)__hadd_sat(__half(0.75f), __half(0.5f))", 1), ("(float)__hfma_relu(__half(-2.0f), "
                                                            "__half(3.0f), __half(1.0f))", 0),
    ("__high2float(__hmul2_rn(__floats2half2_rn(1, 3), __float2half2_rn(2.0f)))", 6),
    ("(float)__hmin_nan(__half(1.0f), __half(NAN)) == 1.0f", 0),
    ("__low2float(__hmax2(__floats2half2_rn(1, 5), __floats2half2_rn(2, 4)))", 2),
    ("(float)__hmax(__half(1.0f), __half(NAN))", 1),
    ("__high2float(__hfma2(__floats2half2_rn(1, 5), __floats2half2_rn(2, 4), "
     "__float2half2_rn(1.0f)))", 21),
    ("__high2float(__habs2(__floats2half2_rn(1, -5)))", 5),
    ("__high2float(__heq2(__floats2half2_rn(1, 2), __floats2half2_rn(0, 2)))", 1),
    ("__hbgt2(__floats2half2_rn(1, 2), __floats2half2_rn(0, 2))", 0), ("__hltu(__half(NAN), "
                                                                       "__half(1.0f))", 1),
                                                                       ("__hlt(__half(NAN), "
                                                                        "__half(1.0f))", 0),
    ("__hne2_mask(__floats2half2_rn(1, 2), __floats2half2_rn(1, 3))", 0xFFFF0000),
    ("__hne(__half(NAN), __half(1.0f))", 0),
    ("(float)hexp(__half(1.0f))", float(np.float16(math.e))),
    ("__low2float(h2sqrt(__floats2half2_rn(9, 2)))", 3),
    ("(float)htanh(__nv_bfloat16(0.5f))", float(ml_dtypes.bfloat16(math.tanh(0.5)))),
    ("(float)__float2half_rz(0.1f)", 0.0999755859375), ("(float)__float2half_ru(0.1f)",
    0.10003662109375), ("(float)__float2half_rd(-0.1f)", -0.10003662109375),
    ("(float)__float2half_rz(1e30f)", 65504), ("(float)__float2half_ru(1e-20f)", 2.0**-24),
    ("(float)__float2half_rd(-1e-20f)", -(2.0**-24)),
    ("(float)__float2bfloat16_rd(1.01f)", 1.0078125), ("(float)__float2bfloat16_ru(1.01f)",
    1.015625), ("__half2int_rn(__half(2.5f))", 2),
    ("(float)__ushort2half_rn(65535) > 1e30f", 1), ("__bfloat162ll_rz(__nv_bfloat16(-1.5f))", -1),
    ("__half2short_rz(__half(60000.0f))", 32767),
    ("__low2float(__lowhigh2highlow(__floats2half2_rn(1, 2)))", 2),
    ("__high2float(__lows2half2(__floats2half2_rn(1, 2), __floats2half2_rn(3, 4)))", 3),
    ("__low2float(__high2bfloat162(__floats2bfloat162_rn(1, 2)))", 2),
    ("(float)-(-__half(2.0f)) + (__float2half2_rn(1.0f) == __float2half2_rn(1.0f))", 3),
    ("(float)__half(1ull << 40) > 1e30f", 1), ("(float)__nv_bfloat16((size_t)3)", 3),
    ("INT_MAX", 2**31 - 1), ("FLT_MAX > 3e38f", 1), ("sizeof(uint64_t)", 8), ("M_PI", math.pi),
    ("CUDART_PI_F", math.pi),
    ("(sincosf(0.5f, &s, &c), s + c)", math.sin(0.5) + math.cos(0.5)), ("table[2]", 7),
    ("twice<int>(21)", 42), ("warpSize", 32), ("(int)sizeof(size_t)", 8),
]  # fmt: skip

# expression of thread t of 64, value as a function of t
THREADS = [
    ("threadIdx.x + blockIdx.x + blockDim.x + gridDim.x", lambda t: t + 65),
    ("__shfl_sync(~0u, t, 5)", lambda t: t // 32 * 32 + 5), ("__shfl_sync(~0u, t, 1, 8)",
    lambda t: t // 8 * 8 + 1),
    ("__shfl_up_sync(~0u, t, 1)", lambda t: t if t % 32 == 0 else t - 1),
    ("__shfl_down_sync(~0u, t, 4, 16)", lambda t: t if t % 16 >= 12 else t + 4),
    ("__shfl_xor_sync(~0u, t * 0.5, 3)", lambda t: (t ^ 3) * 0.5),
    ("__ballot_sync(~0u, t % 32 < 3)", lambda t: 7), ("__any_sync(~0u, t == 40)",
    lambda t: t >= 32),
    ("__all_sync(~0u, t < 32)", lambda t: t < 32),
    ("__match_any_sync(~0u, t % 2)", lambda t: 0xAAAAAAAA if t % 2 else 0x55555555),
    ("__match_all_sync(~0u, t / 32, &flag)", lambda t: 0xFFFFFFFF), ("flag", lambda t: 1),
    ("__reduce_add_sync(~0u, t)", lambda t: 496 + 1024 * (t // 32)), ("__reduce_min_sync(~0u, -t)",
    lambda t: -(t // 32 * 32 + 31)),
    ("__reduce_max_sync(~0u, (unsigned)t)", lambda t: t // 32 * 32 + 31), ("__reduce_and_sync(~0u, "
                                                                           "(unsigned)t | 1u)",
                                                                           lambda t: 1 | (t & 32)),
    ("__reduce_or_sync(~0u, 1u << t % 32)", lambda t: 0xFFFFFFFF), ("__reduce_xor_sync(~0u, "
                                                                    "(unsigned)t % 32)",
                                                                    lambda t: 0),
    ("__syncthreads_count(t < 10)", lambda t: 10), ("__syncthreads_and(t < 64)", lambda t: 1),
    ("__syncthreads_or(t == 63)", lambda t: 1),
    ("__activemask()", lambda t: 0xFFFFFFFF),
    ("cg::this_thread_block().thread_rank() + cg::this_grid().thread_rank()", lambda t: 2 * t),
    ("cg::this_thread_block().size() + cg::this_grid().size()", lambda t: 128),
    ("tile.thread_rank()", lambda t: t % 8), ("tile.size() + tile.num_threads()", lambda t: 16),
    ("tile.meta_group_rank() * 100 + tile.meta_group_size()", lambda t: t // 8 * 100 + 8),
    ("tile.shfl(t, 3)", lambda t: t // 8 * 8 + 3), ("tile.shfl_up(t, 1)",
    lambda t: t - (t % 8 > 0)),
    ("tile.shfl_down(t, 1)", lambda t: t + (t % 8 < 7)), ("tile.shfl_xor(t, 1)", lambda t: t ^ 1),
    ("tile.any(t % 8 == 0)", lambda t: 1), ("tile.all(t % 8 == 0)", lambda t: 0),
    ("tile.ballot(t % 8 < 2)", lambda t: 3),
    ("tile.match_any(t % 8 < 4)", lambda t: 0x0F if t % 8 < 4 else 0xF0), ("tile.match_all(1, "
                                                                           "flag)", lambda t: 255),
    ("cg::reduce(tile, t, cg::plus<int>())", lambda t: t // 8 * 64 + 28),
    ("cg::reduce(tile, t, cg::less<int>())", lambda t: t // 8 * 8), ("cg::reduce(tile, t, "
                                                                     "cg::greater<int>())",
                                                                     lambda t: t // 8 * 8 + 7),
    ("cg::reduce(tile, 1 << t % 8, cg::bit_or<int>())", lambda t: 255), ("cg::reduce(tile, t | 1, "
                                                                         "cg::bit_and<int>())",
                                                                         lambda t: t // 8 * 8 | 1),
    ("cg::reduce(tile, t % 8, cg::bit_xor<int>())", lambda t: 0),
    ("cg::labeled_partition(tile, t % 3).size()",
    lambda t: sum(u % 3 == t % 3 for u in range(t // 8 * 8, t // 8 * 8 + 8))),
    ("cg::binary_partition(tile, t % 8 < 3).thread_rank()",
    lambda t: t % 8 if t % 8 < 3 else t % 8 - 3),
    ("cg::tiled_partition(cg::this_thread_block(), 4).thread_rank()", lambda t: t % 4),
    ("cg::tiled_partition(cg::tiled_partition(cg::this_thread_block(), 16), 2).size()",
    lambda t: 2),
    ("cg::inclusive_scan(tile, t)", lambda t: sum(range(t // 8 * 8, t + 1))),
    ("cg::exclusive_scan(tile, t)", lambda t: sum(range(t // 8 * 8, t))),
    ("cg::inclusive_scan(tile, t * 5 % 8, cg::greater<int>())",
    lambda t: max(u * 5 % 8 for u in range(t // 8 * 8, t + 1))),
    ("odd_lanes(t)", lambda t: 16 if t % 2 else 0),
    ("after_sync(tile, t)", lambda t: 63 - t),
]  # fmt: skip

# statement on *p of a type, start, value afterwards; each thread of 8 does it
ATOMICS = [
    ("int", "atomicAdd(p, 2)", 1, 17), ("float", "atomicAdd(p, 0.5f)", 1, 5), ("double",
    "atomicAdd_system(p, 0.5)", 1, 5),
    ("unsigned long long", "atomicAdd_block(p, 1ull)", 0, 8), ("int", "atomicSub(p, 1)", 0, -8),
    ("unsigned", "atomicExch(p, 7u)", 0, 7),
    ("int", "atomicMin(p, -(int)threadIdx.x)", 3, -7), ("long long", "atomicMax(p, (long "
                                                                     "long)threadIdx.x)", 3, 7),
    ("unsigned", "atomicInc(p, 5u)", 0, 2), ("unsigned", "atomicDec(p, 5u)", 1, 5), ("int",
    "atomicCAS(p, 0, 9)", 0, 9),
    ("unsigned short", "atomicCAS(p, (unsigned short)0, (unsigned short)threadIdx.x)", 0, 1),
    ("int", "atomicAnd(p, ~(1 << threadIdx.x))", 0x1FF, 0x100), ("unsigned", "atomicOr(p, 1u << "
                                                                             "threadIdx.x)", 0,
                                                                             255),
    ("int", "atomicXor(p, (int)threadIdx.x)", 1, 1), ("__half", "atomicAdd(p, __half(0.5f))", 1, 5),
]  # fmt: skip

HEAD = r"""
#include <cstdint>
#include <cfloat>
#include <climits>
#include <math.h>
#include <stdio.h>
#include <assert.h>
#include <math_constants.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__constant__ int table[3] = {5, 6, 7};
__device__ unsigned hits;
template <class T> __device__ __forceinline__ T twice(T x) { return x + x; }
__host__ __device__ __noinline__ int odd_lanes(int t) {
  if (t % 2 == 0) return 0;
  cg::coalesced_group odd = cg::coalesced_threads();
  return odd.size();
}
__device__ int after_sync(const cg::thread_block_tile<8>& tile, int t) {
  extern __shared__ int dynamic[];
  __shared__ __align__(16) static volatile int own[64];
  own[t] = t;
  dynamic[t] = 0;
  tile.sync();
  __syncwarp();
  __threadfence(); __threadfence_block(); __threadfence_system();
  __syncthreads();
  return own[63 - t];
}
"""
OTHERS = r"""
extern "C" __global__ void __launch_bounds__(64, 1) others(
    const float4* __restrict__ in, float4* out, int* told, const __grid_constant__ int n) {
  const long long begin = clock64();
  const int early = clock();
  float local[4] = {1, 2, 3, 4};
#pragma unroll
  for (int i = 0; i < 4; ++i) local[i] += local[(i + n) % 4];
  __builtin_assume(n > 0);
  assert(n == 1);
  if (n == 2) __trap();
  const float4 a = __ldg(in), b = __ldca(in), c = __ldcg(in + 1), d = __ldcs(in);
  const float4 e = __ldlu(in), f = __ldcv(in);
  __stcg(out, a); __stcs(out + 1, c); __stwb(out + 2, d); __stwt(out + 3, e);
  __nanosleep(1);
  told[0] = clock64() >= begin && clock() - early >= 0;
  told[1] = (int)(local[3] + b.x + f.y);
  printf("told %d\n", told[1]);
}
"""


# Integer overloads that nvcc gets from the host's headers, and that NVRTC lacks.
BY_NVCC = {"pow(2, 10)", "sqrt(16)"}


def scalar_text(left_out: frozenset[str] | set[str] = frozenset()) -> str:
    kept = ((i, e) for i, (e, _) in enumerate(SCALARS) if e not in left_out)
    lines = "".join(f"  out[{i}] = (double)({e});\n" for i, e in kept)
    return (
        HEAD + 'extern "C" __global__ void scalars(double* out) {\n  float s, c;\n' + lines + "}\n"
    )


def thread_text() -> str:
    lines = "".join(f"  out[{i} * 64 + t] = (double)({e});\n" for i, (e, _) in enumerate(THREADS))
    begin = (
        'extern "C" __global__ void threads(double* out) {\n  const int t = threadIdx.x;\n  int '
        "flag = 0;\n"
        "  auto tile = cg::tiled_partition<8>(cg::this_thread_block());\n"
    )
    return HEAD + begin + lines + "  cg::sync(cg::this_thread_block());\n}\n"


def atomic_text() -> str:
    kernels = (
        f'extern "C" __global__ void atomic{i}({kind}* p) {{ {statement}; }}\n'
        for i, (kind, statement, _, _) in enumerate(ATOMICS)
    )
    return HEAD + "".join(kernels)


@pytest.mark.parametrize("sanitize", ["", "all"])
def test_expressions_of_one_thread(emulated, sanitize):
    out = np.zeros(len(SCALARS))
    with emulator_settings(sanitize=sanitize):
        Kernel(scalar_text(), "scalars")[1, 1](out)
    for (expression, expected), value in zip(SCALARS, out):
        assert value == pytest.approx(expected, rel=4e-7), expression


@pytest.mark.parametrize("schedule", ["forward", "random"])
def test_expressions_of_a_warp(emulated, schedule):
    out = np.zeros((len(THREADS), 64))
    with emulator_settings(schedule=schedule, sanitize="all" if schedule == "random" else ""):
        Kernel(thread_text(), "threads")[1, 64, 256](out)
    for (expression, expected), values in zip(THREADS, out):
        assert values.tolist() == [float(expected(t)) for t in range(64)], expression


@pytest.mark.full
def test_atomic_operations(emulated):
    types = {"int": "i4", "float": "f4", "double": "f8", "unsigned": "u4", "unsigned short": "u2",
             "long long": "i8", "unsigned long long": "u8", "__half": "f2"}  # fmt: skip
    text = atomic_text()
    for i, (kind, statement, start, expected) in enumerate(ATOMICS):
        p = np.array([start], types[kind])
        Kernel(text, f"atomic{i}")[1, 8](p)
        assert p[0] == expected, statement


def test_other_constructs(emulated, capfd):
    x, out, told = np.arange(8, dtype=F), np.zeros(16, F), np.zeros(2, np.int32)
    Kernel(HEAD + OTHERS, "others")[1, 1](x, out, told, 1)
    assert told.tolist() == [1, 8] and out.tolist() == [
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        0,
        1,
        2,
        3,
        0,
        1,
        2,
        3,
    ]
    assert capfd.readouterr().out == "told 8\n"


@pytest.mark.parametrize(("found", "fits"), [("12090", True), ("13000", False), (None, True)])
def test_headers_are_of_nvrtcs_own_version(found, fits, tmp_path, monkeypatch):
    """Headers of another major version need declarations that NVRTC does not have."""
    folder = tmp_path / "cuda" / "include"
    (folder / "cuda" / "std").mkdir(parents=True)
    for name in ("cuda_fp16.h", "cuda/std/type_traits"):
        (folder / name).touch()
    if found:
        (folder / "cuda_runtime_api.h").write_text(f"/* */\n#define CUDART_VERSION  {found}\n")
    monkeypatch.setattr(nvrtc_users, "binding", lambda: SimpleNamespace(getVersion=lambda: (12, 9)))
    monkeypatch.setattr(nvrtc_users.sys, "path", [])
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "cuda"))
    find = nvrtc_users.cuda_headers.__wrapped__
    assert (str(folder) in find()) is fits


def own_half_types(monkeypatch) -> None:
    """As if CUDA's headers were not installed."""
    monkeypatch.setattr(nvrtc_users, "cuda_headers", tuple)


@pytest.mark.full
@pytest.mark.parametrize(
    "text", ["scalars", "threads", "atomic3", "others", "scalars, our half types"]
)
def test_nvrtc_takes_the_same_texts(text, monkeypatch):
    """This shows that the covered constructs are CUDA's, under CUDA's names."""
    entry, _, is_ours = text.partition(",")
    texts = {
        "scalars": scalar_text(BY_NVCC),
        "threads": thread_text(),
        "atomic3": atomic_text(),
        "others": HEAD + OTHERS,
    }
    if is_ours:  # groups and math_constants.h are CUDA's own
        own_half_types(monkeypatch)
        texts[entry] = re.sub(
            r"#include <(coop|math_c).*\n|namespace cg.*\n|.*CUDART.*\n", "", texts[entry]
        )
        texts[entry] = re.sub(
            r"__host__ .*?\n}\n__device__ int after_sync.*?\n}\n", "", texts[entry], flags=re.DOTALL
        )
    try:
        nvrtc_users.binding()
    except errors.GpuTensorError as error:
        pytest.skip(str(error))
    if not is_ours and not nvrtc_users.cuda_headers():
        pytest.skip("CUDA's headers for this version of NVRTC are not installed")
    assert Kernel(texts[entry], entry).report(["sm_80"])["sm_80"].registers > 0


def test_the_table_lists_what_these_texts_use():
    texts = scalar_text() + thread_text() + atomic_text() + OTHERS
    texts += "extern-C extern-__shared__ __device__-variables local-arrays pragma-unroll templates"
    used = set(re.findall(r"[\w-]+", texts))
    used |= {word.removeprefix("make_") for word in used}
    for group, (words, _) in coverage.COVERED.items():
        assert not set(words.split()) - used, group


def test_the_documentation_shows_the_table():
    page = Path(__file__).parents[3] / "docs" / "extensions" / "kernels_without_a_gpu.md"
    assert coverage.tables() in page.read_text(), f"{page.name}: put coverage.tables() there"


# --- constructs that are not covered ------------------------------------------------------------

REFUSED = {
    'asm volatile("mov.u32 %0, 1;" : "=r"(n));': ("asm", "inline PTX"),
    "float v = tex2D<float>(0ull, 1.0f, 2.0f);": ("tex2D", "textures and surfaces"),
    "cudaTextureObject_t t = 0;": ("cudaTextureObject_t", "textures and surfaces"),
    "surf2Dwrite(1.0f, 0, 1, 2);": ("surf2Dwrite", "textures and surfaces"),
    "nvcuda::wmma::mma_sync(n, n, n, n);": ("nvcuda", "tensor cores"),
    "__pipeline_commit();": ("__pipeline_commit", "asynchronous copies"),
    "cooperative_groups::this_cluster().sync();": ("this_cluster", "clusters"),
    "cooperative_groups::this_grid().sync();": ("sync", "the whole grid"),
    "void* p = malloc(4);": ("malloc", "heap"),
    "int* p = new int[4]; n = *p;": ("new", "heap"),
    "float* p; cudaMalloc(&p, 4);": ("cudaMalloc", "host code, which #ifndef __CUDACC_RTC__ leaves "
                                                   "out"),
    "others<<<1, 1>>>(n);": ("<<<", "launches from a kernel"),
    "cooperative_groups::tiled_partition<64>(cooperative_groups::this_thread_block());":
        ("tiles of more than 32 threads", "larger than a warp"),
    "cooperative_groups::sync(cooperative_groups::this_grid());": ("grid_group::sync",
    "the whole grid"),
    "cooperative_groups::this_thread_block().barrier_arrive();": ("barrier_arrive",
    "barriers in two steps"),
    "cuda::std::array<int, 2> a;": ("cuda", "libcu"),
    "n = __shfl(n, 0);": ("__shfl", "unsynchronised"),
    "n = __isShared(&n);": ("__isShared", "address spaces"),
    "__nv_fp8_e4m3 q;": ("__nv_fp8_e4m3", "8-bit"),
    "curand_init(1, 2, 3, &n);": ("curand_init", "cuRAND"),
    "no_such_function(n);": ("no_such_function", ""),
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_not_covered_is_refused_by_name_and_line(emulated, statement):
    word, group = REFUSED[statement]
    text = '#include <cooperative_groups.h>\nextern "C" __global__ void k(int n) {\n'
    text += f"  {statement}\n}}\n"
    with pytest.raises(errors.KernelError) as found:
        Kernel(text, "k")[1, 1](1)
    said = str(found.value).splitlines()
    if group:
        assert re.match(
            rf"k\.cu:3: '.*{re.escape(word)}.*' is not covered by the emulator \(.*{group}", said[1]
        ), said
    else:
        assert any(line.startswith("k.cu:3:") and word in line for line in said)


@pytest.mark.parametrize(
    "header",
    [
        "mma.h",
        "cub/cub.cuh",
        "cuda/barrier",
        "cuda/std/array",
        "cuda/ptx",
        "cuda_pipeline.h",
        "curand_kernel.h",
        "cuda_fp8.h",
    ],
)
def test_headers_that_are_not_covered(emulated, header):
    text = f'\n#include <{header}>\nextern "C" __global__ void k(int n) {{}}\n'
    with pytest.raises(errors.KernelError, match=rf"k\.cu:2: '{re.escape(header)}' is not covered"):
        Kernel(text, "k")[1, 1](1)


def test_a_cluster_is_refused_at_its_line(emulated):
    text = '\nextern "C" __global__ void __cluster_dims__(2, 1, 1) k(int n) {}\n'
    with pytest.raises(
        errors.KernelError,
        match=r"k\.cu:2: '__cluster_dims__' is not covered by the emulator \(clusters\)",
    ):
        Kernel(text, "k")[1, 1](1)


def test_a_declaration_that_cannot_be_read_is_refused(emulated):
    text = (
        '#define VOID void\n__global__ VOID odd(int n) {}\nextern "C" __global__ void k(int n) {}\n'
    )
    with pytest.raises(
        errors.KernelError, match=r"k\.cu:2: the emulator cannot read this declaration"
    ):
        Kernel(text, "k")[1, 1](1)


UNDEFINED = {
    "out[0] = 1 << n;": (40, "shift by more bits than the type has"),
    "out[0] = (int)(n * 1e30f);": (1, "outside the range of the integer type"),
}


@pytest.mark.parametrize("statement", UNDEFINED)
def test_what_cpp_leaves_undefined_is_a_finding(emulated, statement):
    value, sentence = UNDEFINED[statement]
    text = f'extern "C" __global__ void k(int* out, int n) {{\n  {statement}\n}}\n'
    with pytest.raises(
        errors.KernelError, match=rf"k\.cu:2: .*{sentence}.* \(block \(0,0,0\), thread \(0,0,0\)\)"
    ):
        Kernel(text, "k")[1, 1](np.zeros(1, np.int32), value)
