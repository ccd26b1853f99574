"""gputensor.cuda.Kernel on the emulator: signatures, arguments, layouts, devices, variables,
reports."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.cuda import Kernel, declaration, grid_for
from gputensor.runtime.compilation import nvrtc_users

from .support import requires_emulator

ROOT = Path(__file__).parents[2]
needs_emulator = [requires_emulator, pytest.mark.emulator]

SCALE = r"""
#include <gputensor/layout.cuh>
extern "C" __global__ void dense(const float* x, float* y, float factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i];
}
extern "C" __global__ void strided(
    const float* x, Layout x_layout, float* y, Layout y_layout, float factor) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < y_layout.numel()) at(y, y_layout, i) = factor * at(x, x_layout, i);
}
extern "C" __global__ void dims(const float* x, Layout x_layout, int* told) {
  *told = x_layout.ndim;
}
template <typename T, int N = 2> __global__ void __launch_bounds__(N * 32) times(const T* x, T* y) {
  y[threadIdx.x] = x[threadIdx.x] * T(N);
}
namespace inner { __global__ void plain(int* p) { *p = 3; } }
"""


# --- declarations -------------------------------------------------------------------------------

DECLARED = {
    "const float* __restrict__ x, float *y, int n": ["const float*", "float *", "int"],
    "unsigned char dst[], unsigned int, const unsigned long long q": ["unsigned char*",
    "unsigned int", "const unsigned long long"],
    "real* x, word w, uint8_t* b, half h": ["double*", "unsigned short", "uint8_t*", "half"],
    "void": [], "": [],
}  # fmt: skip
TYPES = "#define real double\ntypedef unsigned short word;\n"


@pytest.mark.parametrize("parameters", DECLARED)
def test_a_signature_is_read(parameters):
    text = f'{TYPES}extern "C" __global__ void __launch_bounds__(64) k({parameters}) {{ }}'
    found = declaration.read(text, "k", {})
    assert [p.text for p in found.parameters] == DECLARED[parameters]
    assert found.has_c_name and found.line == 3


def test_parameters_lie_as_a_gpu_has_them():
    text = "struct P { const float* in; int n, m[3]; };\n"
    text += "__global__ void k(char c, float4 v, P p, short s, double d) {}"
    found = declaration.read(text, "k", {})
    assert [(p.offset, p.size) for p in found.parameters] == [
        (0, 1),
        (16, 16),
        (32, 24),
        (56, 2),
        (64, 8),
    ]
    assert not found.has_c_name


def test_template_arguments_and_defaults():
    found = declaration.read(SCALE, "times<double>", {})
    assert [p.text for p in found.parameters] == ["const double*", "double*"]
    with pytest.raises(
        errors.KernelError, match="say its template arguments: times<typename T, int N = 2>"
    ):
        declaration.read(SCALE, "times", {})


def test_what_is_no_kernel_names_the_kernels():
    with pytest.raises(
        errors.KernelError,
        match=r"'entry' must be a __global__ function of the text \(dense, strided, dims, times, "
        r"plain\)",
    ):
        Kernel(SCALE, "blur")
    with pytest.raises(errors.KernelError, match="'r' must be a pointer or a value"):
        Kernel("__global__ void k(int& r) {}", "k")


def test_a_given_signature_wins():
    text = "using T = UNKNOWN; __global__ void k(T* x, int n) {}"
    found = Kernel(text, "k", signature="const float* x, int n").declaration
    assert found.parameters[0].is_const and found.parameters[0].element.name == "float"


# text, entry: each writes its block's threads to out
WAYS = {
    "declared ahead": ('extern "C" __global__ void k(int* out);\nextern "C" __global__ void k(int* '
                       'out) { *out = 64; }', "k"),
    "a template declared ahead": ("template <int N> __global__ void k(int*);\ntemplate <int N> "
                                  "__global__ void k(int* out) { *out = N; }", "k<64>"),
    "an instance asked for": ("template <int N> __global__ void k(int* out) { *out = N; "
                              "}\ntemplate __global__ void k<64>(int*);", "k<64>"),
    "attributes in any place": ("__launch_bounds__(64) static __global__ void k(int* out) { *out = "
                                "64; }", "k"),
    "a limit of registers": ("__global__ void __maxnreg__(32) k(int* out) { *out = 64; }", "k"),
    "attributes of a template": ("template <int N>\n__launch_bounds__(N)\n__global__ void k(int* "
                                 "out) { *out = N; }", "k<64>"),
    "by a macro": ('#define DEFINE(NAME, T) \\\n  extern "C" __global__ void NAME##_of(T* out) { '
                   '*out = 64; }\nDEFINE(one, float)\nDEFINE(k, int)', "k_of"),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@requires_emulator
@pytest.mark.emulator
def test_ways_to_declare_a_kernel(emulated, way):
    text, entry = WAYS[way]
    kernel, out = Kernel(text, entry), np.zeros(1, np.int32)
    kernel[1, 64](out)
    assert out == 64
    assert [p.name for p in kernel.declaration.parameters] == ["out"]
    if nvrtc_is_there():
        assert kernel.report(["sm_80"])["sm_80"].registers > 0
    if "bounds" in text:
        with pytest.raises(errors.KernelError, match="'block' must have at most 64 threads"):
            kernel[1, 65](out)


def test_a_kernel_in_unreadable_words_is_named():
    with pytest.raises(
        errors.KernelError,
        match=r"must be declared in words that can be read.*\(got __global__ VOID k\(int n\)\)",
    ):
        Kernel("#define VOID void\n__global__ VOID k(int n) {}", "k")


# --- arguments ----------------------------------------------------------------------------------


@pytest.fixture(params=["tensor", "numpy", "torch"])
def given(request, emulated):
    """Functions that make and read an array of the tested library."""
    if request.param == "numpy":
        return lambda a: a, lambda a: a
    if request.param == "torch":
        torch = pytest.importorskip("torch")
        return torch.from_numpy, lambda t: t.numpy()
    return lambda a: gt.from_numpy(np.ascontiguousarray(a)).to("cuda:1"), lambda t: t.cpu().numpy()


@pytest.mark.parametrize("n", [1, 100])
@requires_emulator
@pytest.mark.emulator
def test_a_dense_kernel(given, n):
    make, read = given
    x, y = make(np.arange(n, dtype=np.float32)), make(np.zeros(n, np.float32))
    Kernel(SCALE, "dense")[grid_for(n, 32), 32](x, y, 2, n)
    assert (read(y) == 2 * np.arange(n)).all()
    Kernel(SCALE, "dense").launch(y, x, 0.5, n, grid=4, block=(32, 1), shared=0)
    assert (read(x) == np.arange(n)).all()


WRONG = {
    "dtype": (lambda x, y: (x.astype(np.float64), y, 1.0, 4), errors.DtypeError,
    "'x' must be float32, as const float\\* says \\(got f64\\[4\\] host\\)"),
    "strided": (lambda x, y: (np.ones(8, np.float32)[::2], y, 1.0, 4), errors.ArgumentValueError,
    "'x' must be contiguous, since the kernel takes no Layout of it .*strides \\(8,\\) bytes.*add "
    "a Layout"),
    "transposed": (lambda x, y: (x, np.ones((2, 3), np.float32).T, 1.0, 4),
    errors.ArgumentValueError, "'y' must be contiguous"),
    "float for int": (lambda x, y: (x, y, 1.0, 4.5), errors.ArgumentTypeError,
    "'n' must be an integer, as int says \\(got 4.5\\)"),
    "too large": (lambda x, y: (x, y, 1.0, 1 << 31), errors.ArgumentValueError,
    "'n' must be in \\[-2147483648, 2147483647\\]"),
    "text": (lambda x, y: (x, y, "1", 4), errors.ArgumentTypeError, "'factor' must be a number, as "
                                                                    "float says"),
    "number for pointer": (lambda x, y: (4, y, 1.0, 4), errors.ArgumentTypeError,
    "'x' must be an array of gputensor, CuPy, torch or NumPy"),
    "too few": (lambda x, y: (x, y, 1.0), errors.KernelError, "'args' must be 4: x, y, factor, n "
                                                              "\\(got 3\\)"),
    "two devices": (lambda x, y: (gt.ones(4, device="cuda:0"), gt.ones(4, device="cuda:1"), 1.0,
    4), errors.DeviceError, "'y' must be on the device of 'x', cuda:0 \\(got f32\\[4\\] cuda:1\\)"),
    "read-only": (lambda x, y: (x, np.broadcast_to(y, 4), 1.0, 4), errors.ArgumentValueError,
    "'y' must be writable, as float\\* is \\(got f32\\[4\\] host, read-only\\)"),
    "reversed": (lambda x, y: (x[::-1], y, 1.0, 4), errors.ArgumentValueError, "'x' must have no "
                                                                               "negative strides"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
@requires_emulator
@pytest.mark.emulator
def test_a_wrong_argument_is_refused_in_one_sentence(emulated, case):
    make, kind, sentence = WRONG[case]
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    with pytest.raises(kind, match=f"^dense: {sentence}"):
        Kernel(SCALE, "dense")[1, 32](*make(x, y))
    assert not y.any()


@requires_emulator
@pytest.mark.emulator
class TestLayouts:
    def test_strided_and_broadcast_operands(self, emulated):
        x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        wide = np.zeros((2, 4, 3, 2), np.float32)
        kernel = Kernel(SCALE, "strided")
        kernel[1, 32](x.transpose(0, 2, 1), wide[..., 1], 2.0)
        assert (wide[..., 1] == 2 * x.transpose(0, 2, 1)).all() and not wide[..., 0].any()
        rows = np.zeros((5, 4), np.float32)
        kernel[1, 32](x[0, 0], rows, 1.0)
        assert (rows == x[0, 0]).all()

    def test_views_of_a_tensor(self, emulated):
        x = gt.arange(12, device="cuda", dtype=gt.float32).reshape(3, 4)
        y = gt.zeros(4, 3, device="cuda")
        before = y._version
        Kernel(SCALE, "strided")[1, 32](x.t(), y, 1.0)
        assert (y == x.t()).cpu().numpy().all() and y._version == before + 1

    @pytest.mark.parametrize(("make", "ndim"), [
        (lambda x: x, 1), (lambda x: x.transpose(2, 0, 1), 1), (lambda x: x[:, :, ::2], 1),
        (lambda x: x[:, ::2], 2),
    ])  # fmt: skip
    def test_dimensions_are_joined(self, emulated, make, ndim):
        x, told = np.zeros((4, 6, 8), np.float32), np.zeros(1, np.int32)
        Kernel(SCALE, "dims")[1, 1](make(x), told)
        assert told == ndim

    def test_an_output_is_not_broadcast(self, emulated):
        with pytest.raises(errors.ShapeError, match=r"'y' must have the broadcast shape \[2, 4\]"):
            Kernel(SCALE, "strided")[1, 32](
                np.ones((2, 4), np.float32), np.ones(4, np.float32), 1.0
            )
        with pytest.raises(
            errors.ShapeError, match="must broadcast with the other arrays that have a Layout"
        ):
            Kernel(SCALE, "strided")[1, 32](np.ones(3, np.float32), np.ones(4, np.float32), 1.0)

    def test_over_a_tensor_iterator(self, emulated):
        text = SCALE.replace(
            "const float* x, Layout x_layout, float* y, Layout y_layout",
            "float* y, Layout y_layout, const float* x, Layout x_layout",
        )
        x, y = (
            gt.arange(6, device="cuda", dtype=gt.float32).reshape(2, 3).t(),
            gt.zeros(3, 2, device="cuda"),
        )
        it = gt.TensorIteratorConfig().add_output(y).add_input(x).build()
        Kernel(text, "strided").over(it, block=32)(3.0)
        assert (y.cpu().numpy() == 3 * x.cpu().numpy()).all()
        assert (
            grid_for(it, 4) == (2,)
            and grid_for((480, 640), (32, 8)) == (20, 60)
            and grid_for(10, 4, per_thread=2) == (2,)
        )
        with pytest.raises(
            errors.KernelError, match="must take a Layout with each of its first 2 pointers"
        ):
            Kernel(SCALE, "dense").over(it)


@requires_emulator
@pytest.mark.emulator
class TestLaunches:
    def test_templates_and_names_in_namespaces(self, emulated):
        x, y = np.arange(64, dtype=np.int16), np.zeros(64, np.int16)
        Kernel(SCALE, "times<short>")[1, 64](x, y)
        assert (y == 2 * x).all()
        with pytest.raises(errors.KernelError, match="'block' must have at most 64 threads"):
            Kernel(SCALE, "times<short, 2>")[1, 65](x, y)
        told = np.zeros(1, np.int32)
        Kernel(SCALE, "inner::plain")[1, 1](told)
        assert told == 3

    def test_types_of_numbers(self, emulated):
        text = """
        #include <cuda_fp16.h>
        #include <cuda_bf16.h>
        struct Pair { int a; double b; };
        __global__ void k(double* out, bool t, signed char c, unsigned long long u, __half h,
                          __nv_bfloat16 b, float2 v, Pair p, const float* none) {
          out[0] = t; out[1] = c; out[2] = u; out[3] = (float)h; out[4] = (float)b;
          out[5] = v.y; out[6] = p.a + p.b; out[7] = none == nullptr;
        }"""
        out = np.zeros(8)
        Kernel(text, "k")[1, 1](
            out,
            True,
            -5,
            np.uint64(1 << 63),
            0.1,
            1.01,
            (1, 2.5),
            struct.pack("i4xd", 2, 0.5),
            None,
        )
        assert out.tolist() == [
            1,
            -5,
            2.0**63,
            float(np.float16(0.1)),
            float(ml_dtypes.bfloat16(1.01)),
            2.5,
            2.5,
            1,
        ]
        with pytest.raises(errors.ArgumentTypeError, match="'p' must be the 16 bytes of a Pair"):
            Kernel(text, "k")[1, 1](out, True, -5, 0, 0.1, 1.01, (1, 2.5), b"12", None)

    def test_torch_counts_a_write_and_its_views_need_a_layout(self, emulated):
        torch = pytest.importorskip("torch")
        x, y = torch.arange(6.0).reshape(2, 3).t(), torch.zeros(3, 2)
        before = y._version
        Kernel(SCALE, "strided")[1, 32](x, y, 2.0)
        assert torch.equal(y, 2 * x) and y._version == before + 1
        with pytest.raises(
            errors.ArgumentValueError,
            match=r"'x' must be contiguous.*\(got f32\[3,2\] host with strides \(4, 12\) bytes\)",
        ):
            Kernel(SCALE, "dense")[1, 32](x, y, 2.0, 6)
        with pytest.raises(errors.DtypeError, match="'x' must be float32"):
            Kernel(SCALE, "dense")[1, 32](x.double().t(), y, 2.0, 6)

    def test_a_dim3_and_a_struct_with_a_pointer(self, emulated):
        text = """struct P { const float* p; int n; };
        __global__ void k(dim3 d, P p, float* out) {
          out[0] = d.x * 100 + d.z; out[1] = p.p[p.n];
        }"""
        x, out = gt.arange(5, dtype=gt.float32, device="cuda"), gt.zeros(2, device="cuda")
        p = np.zeros((), np.dtype([("p", "u8"), ("n", "i4")], align=True))
        p["p"], p["n"] = x.data_ptr(), 3
        Kernel(text, "k")[1, 1]((1, 2, 3), p, out)
        assert out.cpu().numpy().tolist() == [103, 3]

    def test_half_arrays_and_vectors(self, emulated):
        text = """
        #include <cuda_fp16.h>
        __global__ void k(const float2* z, __half* h, float4* v) {
          h[0] = z[1].y; v[0].w = z[0].x;
        }"""
        z, h, v = (
            np.array([1 + 2j, 3 + 4j], np.complex64),
            np.zeros(2, np.float16),
            np.zeros((2, 4), np.float32),
        )
        Kernel(text, "k")[1, 1](z, h, v)
        assert h[0] == 4 and v[0, 3] == 1
        with pytest.raises(
            errors.ArgumentValueError,
            match="'v' must be aligned to 16 bytes and a multiple of 16 bytes long",
        ):
            Kernel(text, "k")[1, 1](z, h, v.ravel()[:7])

    def test_arrays_that_share_memory_share_it_in_the_launch(self, emulated):
        x = np.arange(8, dtype=np.float32)
        Kernel(SCALE, "dense")[1, 32](x[:4], x[2:6], 1.0, 2)
        assert x.tolist() == [0, 1, 0, 1, 4, 5, 6, 7]

    def test_a_launch_goes_to_the_stream_it_is_given(self, emulated):
        x, stream = gt.ones(4, device="cuda:1"), gt.cuda.Stream(1)
        Kernel(SCALE, "dense")[1, 32, 0, stream](x, x, 2.0, 4)
        stream.synchronize()
        assert (x.cpu().numpy() == 2).all()
        with pytest.raises(errors.KernelError, match="'stream' must be of cuda:1"):
            Kernel(SCALE, "dense")[1, 32, 0, gt.cuda.Stream(0)](x, x, 2.0, 4)

    def test_variables_of_the_text_are_per_device(self, emulated):
        text = """
        __constant__ float weights[3];
        __device__ int calls = 10;
        extern "C" __global__ void k(float* out) { out[0] = weights[2]; out[1] = ++calls; }"""
        kernel = Kernel(text, "k")
        outs = [gt.zeros(2, device=f"cuda:{i}") for i in range(2)]
        for i, out in enumerate(outs):
            kernel.set("weights", np.array([0, 0, i + 5], np.float32), device=i)
            kernel[1, 1](out)
        kernel[1, 1](outs[0])
        assert outs[0].cpu().numpy().tolist() == [5, 12] and outs[1].cpu().numpy().tolist() == [
            6,
            11,
        ]
        with pytest.raises(
            errors.ArgumentValueError, match="'values' must be the 12 bytes of 'weights'"
        ):
            kernel.set("weights", np.zeros(3))
        with pytest.raises(errors.KernelError, match="must be a variable of the text"):
            kernel.set("weight", np.zeros(3, np.float32))

    def test_a_file_with_its_own_headers(self, emulated, tmp_path):
        (tmp_path / "add.cuh").write_text(
            "#pragma once\n__device__ int add(int a, int b) {\n  assert(a < 5);\n  return a + b; "
            "}\n"
        )
        (tmp_path / "main.cu").write_text(
            '#include <assert.h>\n#include "add.cuh"\n#include "add.cuh"\n__global__ void k(int* '
            "p, int n) {\n  p[0] = add(n, N);\n  p[9] = 1;\n}\n"
        )
        kernel = Kernel(tmp_path / "main.cu", "k", defines={"N": 4})
        p = np.zeros(10, np.int32)
        kernel[1, 1](p, 3)
        assert p[0] == 7
        with pytest.raises(
            errors.KernelError, match=r"^add\.cuh:3: assertion failed: a < 5 \(block"
        ):
            kernel[1, 1](p, 6)
        with (
            gt.cuda.emulator_settings(sanitize="memory"),
            pytest.raises(
                errors.KernelError,
                match=r"^main\.cu:6: wrote 4 B past 'p' \(block \(0,0,0\), thread \(0,0,0\), index "
                r"9 of 9\)$",
            ),
        ):
            kernel[1, 1](p[:9], 1)
        with pytest.raises(errors.KernelError, match="be CUDA C text or a file .*No such file"):
            Kernel(tmp_path / "gone.cu", "k")


def test_no_device_says_why(monkeypatch):
    from gputensor import runtime
    from gputensor.runtime import no_cuda

    monkeypatch.setattr(runtime, "_chosen", no_cuda.because("there is none"))
    with pytest.raises(errors.DeviceError, match="there is none"):
        Kernel(SCALE, "dense")[1, 1](np.ones(1, np.float32), np.ones(1, np.float32), 1.0, 1)


def test_a_kernel_is_not_imported_with_the_package():
    code = (
        "import sys, gputensor; print([m for m in sys.modules if m.startswith('gputensor.cuda.')])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


# --- reports and debuggers ----------------------------------------------------------------------

REPORTED = """
extern "C" __global__ void f(const float4* a, float4* b, const short* s, int* q) {
  __shared__ float t[64];
  const int i = threadIdx.x;
  t[i] = s[i];
  __syncthreads();
  b[i] = a[i];
  q[i] = t[63 - i];
}
template <class T> __global__ void g(T* p) { p[threadIdx.x] += 1; }
extern "C" __global__ void generic(
    float2** table, volatile double* q, const uint4* __restrict__ r, uint4* s) {
  __shared__ float2* p;
  p = table[threadIdx.x];
  __syncthreads();
  *p = make_float2(1, 2);
  *q = 1;
  s[0] = __ldg(r);
}
"""


@cache
def nvrtc_is_there() -> bool:
    try:
        nvrtc_users.binding()
    except errors.GpuTensorError:
        return False
    return True


def test_a_report_needs_no_gpu():
    if not nvrtc_is_there():
        pytest.skip("NVRTC is not installed")
    report = Kernel(REPORTED, "f").report(["sm_80", "sm_90"])
    row = report["sm_90"]
    assert row.shared_bytes == 256 and row.registers > 0 and row.spill_bytes == 0
    assert row.loads == {16: 1, 2: 1} and row.stores == {16: 1, 4: 1}
    assert str(report).splitlines()[0].split()[:2] == ["arch", "registers"]
    assert Kernel(REPORTED, "g<double>").report(["sm_80"])["sm_80"].loads == {8: 1}
    row = Kernel(REPORTED, "generic").report(["sm_90"])["sm_90"]
    assert (
        row.loads == {8: 1, 16: 1}
        and row.stores == {8: 2, 16: 1}
        and row.shared_loads == row.shared_stores == {8: 1}
    )
    with pytest.raises(errors.KernelError, match=r"f\.cu\(2\): error"):
        Kernel('extern "C" __global__ void f(int n) {\n int x = missing; }', "f").report(["sm_80"])


@pytest.mark.full
@requires_emulator
@pytest.mark.emulator
def test_gdb_stops_inside_a_kernel_thread(tmp_path):
    import shutil

    if shutil.which("gdb") is None:
        pytest.skip("gdb is not installed")
    blur = ROOT / "examples" / "blur" / "blur.cu"
    script = tmp_path / "run.py"
    script.write_text(
        f"import gputensor as gt, numpy as np\nk = gt.cuda.Kernel({str(blur)!r}, 'blur')\n"
        "x = np.ones((20, 40), np.float32)\nk[(2, 3), (32, 8)](x, np.empty_like(x), 40, 20)\n"
    )
    commands = [
        "set breakpoint pending on",
        "break blur.cu:24 if threadIdx.x == 5 && threadIdx.y == 2",
        "run",
        "print threadIdx",
        "print sum",
    ]
    environment = os.environ | {
        "GPUTENSOR_CUDA": "emulator",
        "GPUTENSOR_EMULATOR_DEBUG": "1",
        "PYTHONPATH": str(ROOT),
    }
    answer = subprocess.run(
        ["gdb", "-nx", "-batch", *(part for c in commands for part in ("-ex", c)), "--args",
        sys.executable, str(script)],
        env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    if "ptrace" in answer.stderr and "not permitted" in answer.stderr:
        pytest.skip("gdb may not trace processes here")
    assert "$1 = {x = 5, y = 2, z = 0}" in answer.stdout and "$2 = 16" in answer.stdout, (
        answer.stdout + answer.stderr
    )


@pytest.mark.parametrize("shared", [1.5, "8", None])
def test_shared_bytes_are_a_whole_number(shared):
    kernel = Kernel('extern "C" __global__ void k(float* x) { x[0] = 1; }', "k")
    x = np.zeros(1, np.float32)
    with pytest.raises(errors.KernelError, match="k: 'shared' must be a number of bytes"):
        kernel[1, 1, shared](x)
    with pytest.raises(errors.KernelError, match="k: 'shared' must be a number of bytes"):
        kernel.launch(x, grid=1, block=1, shared=shared)
    assert x[0] == 0
