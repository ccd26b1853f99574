"""Loops built by g++ give the bits of NumPy's; they are asked for by name, and said to be used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gputensor as gt
from gputensor.core.dtype import bfloat16, float16, float32, uint8
from gputensor.kernels.cpu import copy, copy_compiled, copy_pack
from gputensor.runtime.emulator import toolchain

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not on PATH")
DTYPES = (uint8, float16, bfloat16, float32)
HALF = (float16, bfloat16)
WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@pytest.fixture(autouse=True)
def switched_back():
    before, copy_compiled._is_on = copy_compiled._is_on, False
    yield
    copy_compiled._is_on = before


def bits(x):
    return x.view(WORDS[x.itemsize])


def both(write, dst):
    """What `write(dst)` leaves by NumPy's loops and by compiled ones."""
    found = []
    for on in (False, True):
        copy_compiled.set_compiled_loops(on)
        bits(dst)[...] = 0x5A
        write(dst)
        found.append(bits(dst).copy())
    return found


def every_value(dtype, count, seed=0):
    """Random bits, all exponents, what rounds to even, subnormal numbers, infinities, NaNs."""
    random = np.random.default_rng(seed)
    if dtype.itemsize < 4:
        return random.integers(0, 1 << 8 * dtype.itemsize, count, WORDS[dtype.itemsize]).view(
            dtype.np
        )
    words = random.integers(0, 1 << 32, count, np.uint32)
    even = np.array([0xFFFFE000, 0xFFFFF000, 0xFFFF0000, 0xFFFF8000], np.uint32)
    words[::3] &= random.choice(even, words[::3].size)
    words[1::5] = random.normal(0, 100, words[1::5].size).astype(np.float32).view(np.uint32)
    words[:6] = 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC12345, 0x80000001, 0x7F7FFFFF
    return words.view(np.float32)


@needs_compiler
@pytest.mark.parametrize("half", HALF, ids=str)
def test_every_half_is_widened_as_by_numpy(half):
    source = np.tile(np.arange(1 << 16).astype(np.uint16).view(half.np), 8)
    dst = np.empty(source.size, np.float32)
    assert copy.loops(dst, source) == "NumPy's"
    by_numpy, by_compiled = both(lambda to: copy.copy(to, source), dst)
    assert (by_numpy == by_compiled).all() and copy.loops(dst, source) == "compiled"


@needs_compiler
@pytest.mark.parametrize("half", HALF, ids=str)
def test_floats_are_rounded_as_by_numpy(half):
    words = np.arange(1 << 16, dtype=np.uint32) << 16
    ties = [words | low for low in (0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    ties.append(np.arange(0x33000000, 0x33000000 + (1 << 28), 4099, np.uint32))  # f16's edges
    source = np.concatenate([np.concatenate(ties).view(np.float32), every_value(float32, 1 << 20)])
    dst = np.empty(source.size, half.np)
    by_numpy, by_compiled = both(lambda to: copy.copy(to, source), dst)
    assert (by_numpy == by_compiled).all() and copy.loops(dst, source) == "compiled"


@needs_compiler
def test_a_transposed_cast_takes_the_loop_and_other_pairs_do_not():
    source = every_value(float32, 1 << 20).reshape(1024, 1024).T
    dst = np.empty(source.shape, np.float16)
    by_numpy, by_compiled = both(lambda to: copy.copy(to, source), dst)
    assert (by_numpy == by_compiled).all() and copy.loops(dst, source) == "compiled"
    assert copy.loops(np.empty((1024, 1024)), source) == "NumPy's"
    assert copy.loops(dst[:8], source[:8]) == "NumPy's"


def laid_out(x, layout):
    """The values of (N, C, …) `x` in memory of another layout."""
    if layout == "planes":
        return np.ascontiguousarray(x)
    if layout == "pixels":
        order = [0, *range(2, x.ndim), 1]
        dense = np.ascontiguousarray(x.transpose(order))
        return dense.transpose([order.index(d) for d in range(x.ndim)])
    if layout == "cropped":
        wide = np.zeros([n + 3 for n in x.shape], x.dtype)
        view = wide[tuple(slice(1, n + 1) for n in x.shape)]
    elif layout == "steps":
        view = np.zeros([*x.shape[:-1], 2 * x.shape[-1]], x.dtype)[..., ::2]
    else:  # backwards
        view = np.zeros(x.shape, x.dtype)[:, ::-1, ..., ::-1]
    bits(view)[...] = bits(x)
    return view


LAYOUTS = ("planes", "pixels", "cropped", "steps", "backwards")


@needs_compiler
@settings(max_examples=200, deadline=None)
@given(
    st.tuples(
        st.integers(1, 4), st.sampled_from([1, 2, 3, 4, 5, 19]), st.integers(1, 40),
        st.integers(1, 70),
    ),
    st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS), st.sampled_from(DTYPES),
    st.sampled_from(DTYPES), st.integers(0, 1 << 30), st.sampled_from([1, 7, 1 << 17]),
)  # fmt: skip
def test_pack_has_the_bits_of_numpys_loops(shape, to_layout, from_layout, to, source, seed, piece):
    random = np.random.default_rng(seed)
    x = every_value(source, max(6, int(np.prod(shape))), seed)[: int(np.prod(shape))].reshape(shape)
    x, dst = laid_out(x, from_layout), laid_out(np.empty(shape, to.np), to_layout)
    scale, bias = (random.normal(0, 3, shape[1]) * 10.0 ** random.integers(-4, 3) for _ in "ab")
    before = copy_pack._COMPILED_PIECE
    copy_pack._COMPILED_PIECE = piece
    try:
        by_numpy, by_compiled = both(lambda y: copy_pack.pack(y, x, scale, bias), dst)
    finally:
        copy_pack._COMPILED_PIECE = before
    assert (by_numpy == by_compiled).all()
    if {to_layout, from_layout} <= {"planes", "pixels"}:
        assert copy_pack.loops(dst, x) == "compiled"


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2])
def test_images_on_several_threads(threads):
    before = gt.get_num_threads()
    gt.set_num_threads(threads)
    try:
        x = every_value(uint8, 5 * 331 * 257 * 3).reshape(5, 331, 257, 3).transpose(0, 3, 1, 2)
        for to in DTYPES:
            for layout in ("planes", "pixels"):
                dst = laid_out(np.empty(x.shape, to.np), layout)
                scale, bias = np.array([0.3, 1.7, -2.0]), np.array([1.0, -70.0, 200.0])
                one, other = both(lambda y, s=scale, b=bias: copy_pack.pack(y, x, s, b), dst)
                assert (one == other).all()
    finally:
        gt.set_num_threads(before)


@needs_compiler
def test_ties_saturation_and_nan_to_bytes():
    x = np.array(
        [0.5, 1.5, 2.5, 254.5, 255.5, 1e9, -0.5, -1e9, np.inf, -np.inf, np.nan, 0.49999997]
    )
    x = np.tile(x.astype(np.float32), 40).reshape(1, 1, 1, -1)
    dst = np.empty(x.shape, np.uint8)
    by_numpy, by_compiled = both(lambda y: copy_pack.pack(y, x, np.ones(1), np.zeros(1)), dst)
    assert by_compiled[0, 0, 0, :12].tolist() == [0, 2, 2, 254, 255, 255, 0, 0, 255, 0, 0, 0]
    assert (by_numpy == by_compiled).all()


@needs_compiler
def test_explain_says_whose_loops_it_takes():
    x = gt.zeros(2, 3, 64, 64, dtype=gt.uint8)
    to = gt.zeros(2, 3, 64, 64)
    gt.set_compiled_loops(False)
    assert "on the CPU" not in str(gt.layout.explain(to, x))
    assert "on_cpu" not in gt.layout.explain(to, x).to_dict()
    gt.set_compiled_loops(True)
    said = "on the CPU: copy with NumPy's loops, pack with compiled loops"
    assert str(gt.layout.explain(to, x)).endswith(said)
    assert gt.layout.explain(to, x).to_dict()["on_cpu"] == said
    wide = gt.zeros(2, 3, 64, 64, dtype=gt.float64)
    assert "pack with NumPy's loops" in str(gt.layout.explain(wide, x))
    for sizes in ((1, 3, 4, 0), (0, 3, 4, 4), (2, 0, 4, 4)):
        empty = gt.zeros(sizes), gt.zeros(sizes, dtype=gt.uint8)
        assert gt.layout.explain(*empty).on_cpu.endswith("pack with NumPy's loops")
    large, half = gt.zeros(1 << 20), gt.zeros(1 << 20, dtype=gt.float16)
    assert "copy with compiled loops" in str(gt.layout.explain(large, half))


@needs_compiler
def test_another_cpu_finds_no_loop_of_this_one(monkeypatch):
    given = 'extern "C" int one() { return 1; }', {}, "one"
    path = toolchain.compile_loops(*given)
    assert toolchain.compile_loops(*given) == path
    monkeypatch.setattr(toolchain, "_of_this_cpu", lambda: "another")
    assert toolchain.compile_loops(*given) != path


def test_they_are_off_until_somebody_says_so(monkeypatch):
    monkeypatch.delenv(copy_compiled.VARIABLE, raising=False)
    copy_compiled._is_on = None
    assert not gt.get_compiled_loops()
    assert copy_compiled.of_pack(float32.np, uint8.np) is None
    assert copy_compiled.of_cast(float32.np, float16.np) is None


@pytest.mark.parametrize("given", [1, "1", None, 0])
def test_what_is_no_bool(given):
    with pytest.raises(TypeError, match="set_compiled_loops: 'on' must be a bool"):
        gt.set_compiled_loops(given)


def run(program, **environment):
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


PACK = """
import gputensor as gt
x = gt.zeros(1, 3, 8, 8, dtype=gt.uint8)
y = gt.full((1, 3, 8, 8), 7.0)
try:
    if {switch}: gt.set_compiled_loops(True)
    gt.layout.pack(x, scale=2.0, out=y)
except RuntimeError as error:
    print(error, float(y.min()))
else:
    print(gt.get_compiled_loops())
"""


@pytest.mark.parametrize("switch", [False, True])
def test_without_a_compiler_it_is_one_sentence_and_nothing_is_written(switch):
    op = "set_compiled_loops" if switch else copy_compiled.VARIABLE
    environment = {"GPUTENSOR_CXX": "no-such-compiler"}
    if not switch:
        environment[copy_compiled.VARIABLE] = "1"
    answer = run(PACK.format(switch=switch), **environment)
    why = f"{op}: compiled loops need g++, and no-such-compiler is not on PATH 7.0\n"
    assert answer.stdout == why, answer.stderr


@needs_compiler
def test_the_variable_switches_them_on():
    assert run(PACK.format(switch=False), **{copy_compiled.VARIABLE: "1"}).stdout == "True\n"
    assert run(PACK.format(switch=False), **{copy_compiled.VARIABLE: "0"}).stdout == "False\n"
    assert (
        "must be 0 or 1 (got 'yes')"
        in run(PACK.format(switch=False), **{copy_compiled.VARIABLE: "yes"}).stderr
    )
