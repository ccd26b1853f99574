"""NVRTC's options on the emulator, and errors for sources that do not compile."""

from __future__ import annotations

import numpy as np
import pytest

from gputensor.core import errors
from gputensor.cuda import Kernel, emulator_settings
from gputensor.runtime.emulator import nvrtc_options

from .support import requires_emulator

pytestmark = [requires_emulator, pytest.mark.emulator]


def text_of(body: str, head: str = "") -> str:
    return f'{head}\nextern "C" __global__ void k(float* x) {{ {body} }}\n'


def run(text: str, options: tuple[str, ...] = (), **defines: object) -> float:
    x = np.zeros(1, np.float32)
    Kernel(text, "k", options=options, defines=defines)[1, 1](x)
    return float(x[0])


@pytest.mark.parametrize(
    "options",
    [("-DX=3",), ("-D", "X=3"), ("--define-macro=X=3",), ("-DX=5", "-UX", "-DX=3"), ("-D X=3",)],
)
def test_macros(emulated, options):
    assert run(text_of("x[0] = X;"), options) == 3


def test_defines_win_over_options_and_a_bare_macro_is_1(emulated):
    assert run(text_of("x[0] = X;"), ("-DX=3",), X=4) == 4
    assert run(text_of("x[0] = X;"), ("-DX",)) == 1


def test_macros_reach_the_declaration(emulated):
    text = 'extern "C" __global__ void k(T* x) { x[0] = 2; }'
    x = np.zeros(1, np.float64)
    Kernel(text, "k", options=("-DT=double",))[1, 1](x)
    assert x[0] == 2


@pytest.mark.parametrize("included", ['"own.h"', "<own.h>", '"sub/inner.h"'])
def test_folders_of_headers(emulated, tmp_path, included):
    (tmp_path / "sub").mkdir()
    (tmp_path / "own.h").write_text(
        "#pragma once\n__device__ inline float own(float v) { return v * 2; }\n"
    )
    (tmp_path / "sub" / "inner.h").write_text('#include "../own.h"\n#include <own.h>\n')
    head = f"#include {included}\n#include {included}"
    for options in ((f"-I{tmp_path}",), ("-I", str(tmp_path)), (f"--include-path={tmp_path}",)):
        assert run(text_of("x[0] = own(4);", head), options) == 8


def test_an_edited_header_is_read_again(emulated, tmp_path):
    for value in (3, 4):
        (tmp_path / "own.h").write_text(f"#define VALUE {value}\n")
        assert run(text_of("x[0] = VALUE;", "#include <own.h>"), (f"-I{tmp_path}",)) == value
        source = Kernel(
            text_of("x[0] = VALUE;", "#include <own.h>"), "k", options=(f"-I{tmp_path}",)
        ).source
        assert f"#define VALUE {value}" in source.text  # these are in NVRTC's cache key, too


def test_the_language(emulated):
    templated = text_of(
        "auto f = []<class T>(T v) { return v; }; x[0] = f(2) + (__cplusplus > 201703);"
    )
    assert run(templated, ("--std=c++20",)) == 3
    assert run(text_of("x[0] = __cplusplus > 201703;"), ("-std", "c++17")) == 0


def test_what_changes_no_result_is_taken(emulated):
    assert run(text_of("x[0] = 2;"), ("-lineinfo", "--maxrregcount=32", "-fmad=false")) == 2


@pytest.mark.parametrize(
    "option",
    ["--use_fast_math", "-ftz=true", "-fmad=true", "--nosuch", "-std=c++11", "-arch=sm_90"],
)
def test_other_options_are_refused(emulated, option):
    with pytest.raises(
        errors.KernelError,
        match=r"^k: 'options' must (be among|ask for) .* where CUDA is emulated \(got ",
    ):
        run(text_of("x[0] = 2;"), (option,))


def test_words_apart():
    asked = nvrtc_options.parse(
        ["-I", "a", "-Ib", "--include-path c", "-DX", "-DY=1=2", "-U", "Z", "-g"]
    )
    assert asked == (("a", "b", "c"), {"X": "1", "Y": "1=2", "Z": None}, None, ("-g",))


# --- texts ----------------------------------------------------------------------------------------

WRONG = {
    "a function without a body": (text_of("x[0] = foo(1);", "extern __device__ float foo(float);"),
    r"k\.cu:2: 'foo\(float\)' is declared and not defined"),
    "a variable without a place": (text_of("x[0] = table[1];",
    "extern __device__ float table[4];"), r"k\.cu:2: 'table' is declared and not defined"),
    "a function of the host": (text_of("_exit(3);", "#include <unistd.h>"),
    r"'_exit' is a function of the host, which a kernel cannot call"),
    "a variable that code initialises": (text_of("x[0] = v.x;", "struct A { int x; __device__ A() "
                                                                "{ x = 1 / *(volatile int*)8; } "
                                                                "};\n__device__ A v;"),
                                                                r"k\.cu:2.*constant initializer"),
    "another": (text_of("__builtin_exit(3);"), r"'exit' is a function of the host, which a kernel "
                                               r"cannot call"),
    "a header that is missing": (text_of("", '#include "nosuch.h"'), r"nosuch\.h"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_text_that_does_not_become_a_kernel(emulated, case):
    text, said = WRONG[case]
    with pytest.raises(errors.KernelError, match=said):
        run(text)


@pytest.mark.parametrize("text", [["a", "b"], None, 3, b"text", np.zeros(3)])
def test_what_is_no_text(text):
    with pytest.raises(errors.ArgumentTypeError, match="'text_or_path' must be a str or a path"):
        Kernel(text, "k")


@pytest.mark.parametrize("options", ["-DX", (3,), [None]])
def test_what_is_no_list_of_options(options):
    with pytest.raises(errors.ArgumentTypeError, match="'options' must be a list of str"):
        Kernel(text_of(""), "k", options=options)


@pytest.mark.parametrize("header", ["cstdint", "stdint.h", "cstddef"])
def test_names_of_std(emulated, header):
    body = "std::uint32_t a = 1; std::int64_t b = 2; std::size_t c = 3; uint8_t d = 4;"
    body += " x[0] = a + b + c + d;"
    assert run(text_of(body, f"#include <{header}>")) == 10


# --- documented rules -----------------------------------------------------------------------------


@pytest.mark.parametrize("type_", ["int", "unsigned", "long long", "unsigned char"])
@pytest.mark.parametrize("operator", ["/", "%"])
def test_integer_division_by_zero(emulated, type_, operator):
    text = (
        f'extern "C" __global__ void k(float* x, {type_} a, {type_} b) {{ x[0] = a {operator} b; }}'
    )
    x = np.zeros(1, np.float32)
    Kernel(text, "k")[1, 1](x, 10, 0)  # as on a GPU: no trap
    with emulator_settings(sanitize="overflow"):
        with pytest.raises(errors.KernelError, match=r"^k\.cu:1: integer division by zero \(block"):
            Kernel(text, "k")[1, 1](x, 10, 0)


@pytest.mark.parametrize("mode", ["", "writes", "all"])
@pytest.mark.parametrize("type_", ["float", "int", "double"])
def test_a_local_that_only_some_paths_set_is_garbage(emulated, mode, type_):
    text = f'extern "C" __global__ void k(float* x, int c) {{ {type_} v; if (c) v = 3; x[0] = v; }}'
    x = np.zeros(1, np.float32)
    with emulator_settings(sanitize=mode):
        Kernel(text, "k")[1, 1](x, 0)
        assert x[0] < -1e6
        Kernel(text, "k")[1, 1](x, 1)
        assert x[0] == 3


SHARED = """
template <int N> __device__ float sum(const float* x) {
  __shared__ float part[N];
  part[threadIdx.x] = x[threadIdx.x];
  return part[threadIdx.x] + part[0];
}
__device__ float unused(const float* x) {
  __shared__ float much[10000];
  much[0] = x[0];
  return much[0];
}
extern "C" __global__ void too_much(float* x) {
  __shared__ float s[20000];
  s[threadIdx.x] = 1;
  x[0] = s[0];
}
extern "C" __global__ void by_parts(float* x) {
  __shared__ float s[8000];
  s[threadIdx.x] = 1;
  x[0] = s[0] + sum<5000>(x);
}
extern "C" __global__ void enough(float* x) {
  __shared__ float s[12288];
  s[threadIdx.x] = 1;
  x[0] = s[0];
}
extern "C" __global__ void another(float* x) {
  __shared__ float s[10000];
  s[threadIdx.x] = 1;
  x[0] = s[0];
}
"""


@pytest.mark.parametrize(("entry", "nbytes"), [("too_much", 80000), ("by_parts", 52000)])
def test_static_shared_memory_is_bounded_as_on_a_gpu(emulated, entry, nbytes):
    said = rf"{entry} declares {nbytes} bytes of static shared memory, where a GPU has 49152"
    for _ in range(2):  # also when it comes from the cache
        with pytest.raises(errors.KernelError, match=said):
            Kernel(SHARED, entry)[1, 32](np.zeros(32, np.float32))


@pytest.mark.parametrize("entry", ["enough", "another"])
def test_kernels_of_one_text_share_no_bound(emulated, entry):
    x = np.zeros(32, np.float32)
    Kernel(SHARED, entry)[1, 32](x)
    assert x[0] == 1


def test_every_table_has_rows():
    assert WRONG
