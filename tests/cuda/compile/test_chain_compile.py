"""Chains compiled by NVRTC, without a GPU: no spills, and each operand is loaded or stored once."""

from __future__ import annotations

import random
import re
from types import SimpleNamespace
from typing import Any

import pytest

from gputensor.core.dtype import bool_, float16, float32, int64
from gputensor.kernels.cuda import (
    argreduce_chain_launch, binding, chain_launch, chain_source, module, reduce_chain_launch,
    rows_chain_launch,
)  # fmt: skip
from gputensor.kernels.cuda.chain_source import Body, Drawn, Step
from gputensor.kernels.cuda.rows_source import Program, Reduction

from ..kernels import chains
from . import sass
from .test_compile import OPTIONS, nvrtc, requires_nvrtc

pytestmark = [pytest.mark.full, requires_nvrtc]

N = 4096


def program(bound: Any, arch: str, **more: str) -> tuple[bytes, str]:
    """Return cubin and log of a launch's kernel."""
    made = nvrtc.createProgram(module.text(bound.family), "chain.cu", (), ())
    given = [f"-D{name}={value}" for name, value in {**bound.defines, **more}.items()]
    try:
        nvrtc.compileProgram(made, (*OPTIONS, f"-arch={arch}", *given))
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(made))
    found = nvrtc.getCUBIN(made), nvrtc.getProgramLog(made)
    nvrtc.destroyProgram(made)
    return found


def bound(body: Body, shape: tuple[int, ...], turned: int = -1) -> Any:
    """Bind a chain over dense operands; one of them is reversed."""
    walks = []
    for k, d in enumerate(body.dtypes):
        strides = [d.itemsize, d.itemsize * shape[0]][: len(shape)]
        walks.append(tuple(strides[::-1] if k == turned else strides))
    layout = SimpleNamespace(shape=shape, stride_bytes=walks)
    packing: list[Any] = []
    for made in body.drawn:
        packing += chain_launch.packers_of_stream(made.slot, 0, made.op)
    for step in body.steps:
        slots = [~n for n in step.inputs if n < 0] + list(step.scalars)
        packing += chain_launch.packers(step, slots)
    return chain_launch.bind(body, layout, packing)


@pytest.mark.parametrize("arch", ["sm_70", "sm_80", "sm_90", "sm_120"])
def test_random_chains_compile(arch: str) -> None:
    rng = random.Random(arch)
    for _ in range(4):
        body = chains.some_chain(rng, rng.randint(2, 12))
        for shape in ((100,), (N, N)):
            one = bound(body, shape)
            _, log = program(getattr(one, "at", lambda one=one: one)(), arch)
            assert "Compiling entry function" in log


@pytest.mark.parametrize("arch", ["sm_70", "sm_90"])
def test_chains_over_rows_compile_and_do_not_spill(arch: str) -> None:
    """One chain subtracts the mean from x * y and stores both; the other finds the index of the
    largest element."""
    for of in (float32, float16):
        size, walk = of.itemsize, (of.itemsize, of.itemsize * 500)
        seen, found = (0, size), Body((of, of, of), (), (2,))
        product = Body((of, of), (Step("binary", "mul", of, of, (0, 1), (), "aten::mul"),), (2,))
        times = product.steps[0]._replace(inputs=(0, 1))
        less = Step("binary", "sub", of, of, (3, 2), (), "aten::sub")
        stored = Body((of, of, of), (times, less), (4,))
        layout = SimpleNamespace(
            shape=(500, 20), stride_bytes=[seen, walk], dtypes=(of, of), common_dtype=of,
            n_reduced=1,
        )  # fmt: skip
        stage = rows_chain_launch.stage_of(binding.bind("reduce", "mean", layout))
        assert stage is not None
        mean = Reduction(product, "mean", stage.defines["SCALAR"], of, "aten::mean")
        bound = rows_chain_launch.bind(
            Program((mean,), stored, (found,)), [], (stage.lane_bits, stage.slot_bits), size,
            (500, 20), [walk, walk, walk, seen],
        )  # fmt: skip
        indices = SimpleNamespace(**{**vars(layout), "dtypes": (int64, of)})
        plain = binding.bind("argreduce", "argmax", indices)
        strides = [(0, 8), seen, walk, walk]
        search = argreduce_chain_launch.bind(plain, product, [], (500, 20), 1, strides)
        assert bound is not None and search is not None
        top = Reduction(
            product, "softmax", stage.defines["SCALAR"], float32, "aten::_softmax", True
        )
        element = Step("softmax", "softmax", of, of, (4, 2, 3), (), "aten::_softmax")
        times = product.steps[0]._replace(inputs=(0, 1))
        softmax = Body((of, of, float32, float32), (times, element), (5,))
        lanes = rows_chain_launch.lanes_of_softmax(500, size)
        made = rows_chain_launch.bind(
            Program((top,), softmax, ()), [], lanes, size, (500, 20), [walk, walk, walk]
        )
        assert made is not None
        for one in (bound.aligned, bound.unaligned, search.first, made.aligned):
            _, log = program(one, arch)
            assert "0 bytes spill stores" in log and one.entry in log


@pytest.mark.parametrize("arch", ["sm_70", "sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("op", ["mean", "amax"])
def test_what_follows_on_a_reduction_compiles_and_does_not_spill(arch: str, op: str) -> None:
    """The chain stores tanh of the result times another operand, and the result. It runs in one
    launch and after segments, over rows, columns and other layouts."""
    for of in (float32, float16):
        size = of.itemsize
        product = Body((of, of), (Step("binary", "mul", of, of, (0, 1), (), "aten::mul"),), (2,))
        tanh = Step("unary", "tanh", of, of, (0,), (), "aten::tanh")
        times = Step("binary", "mul", of, of, (2, 1), (), "aten::mul")
        follows = Body((of, of), (tanh, times), (0, 3))
        for count, in_row, in_column in [
            (500, size, size * 500), (1 << 20, size, size << 20), (1 << 20, size * 20, size),
            (500, size * 40, size * 20_000),
        ]:  # fmt: skip
            walk, kept = (in_row, in_column), (0, size)
            layout = SimpleNamespace(
                shape=(count, 20), stride_bytes=[kept, walk], dtypes=(of, of), common_dtype=of,
                n_reduced=1,
            )  # fmt: skip
            plain = binding.bind("reduce", op, layout)
            found = reduce_chain_launch.bind(
                plain, product, [], of, (count, 20), 1, [kept, walk, walk], of.code,
                reduce_chain_launch.Epilogue(follows, [(size,)] * 3),
            )  # fmt: skip
            assert found is not None and found.first is not None
            assert (found.last is None) == (plain.last is None) == (count == 500)
            end = found.last or found.first
            for one in (end.aligned, end.unaligned):
                assert one.defines["ROW_OPERANDS"] == "3"
                _, log = program(one, arch)
                assert "0 bytes spill stores" in log and one.entry in log


# (a * b + n > m ? a : b, and the product) in f32; two results with f16 and f32
MASKED = Body(
    (float32, float32),
    (
        Step("binary", "mul", float32, float32, (0, 1), (), "aten::mul.Tensor"),
        Step("binary", "add", float32, float32, (2, ~0), (), "aten::add.Scalar"),
        Step("comparison", "gt", float32, bool_, (3, ~1), (), "aten::gt.Scalar"),
        Step("where", "where", float32, float32, (4, 0, 1), (), "aten::where.self"),
        Step("unary", "tanh", float32, float32, (5,), (), "aten::tanh"),
    ),
    (6,),
)
TWO = Body(
    (float32, float16),
    (
        Step("binary", "mul", float32, float32, (0, 1), (), "aten::mul.Tensor"),
        Step("copy", "copy", float32, float16, (2,), (), "aten::_to_copy"),
    ),
    (2, 3),
)


@pytest.mark.parametrize("body", [MASKED, TWO], ids=["masked", "two results"])
@pytest.mark.parametrize("turned", [-1, 2])
def test_a_chain_moves_its_operands_once(body: Body, turned: int) -> None:
    one = bound(body, (N, N), turned).at()
    assert one.entry == ("chain_turned" if turned >= 0 else "chain_rows")
    cubin, log = program(one, "sm_90", EDGES="0", DIMS="1")
    assert "0 bytes spill stores, 0 bytes spill loads" in log
    assert int(re.search(r"Used (\d+) registers", log)[1]) <= (128 if turned >= 0 else 64)
    code = sass.instructions(cubin, one.entry)
    moved = {"LDG": 0, "STG": 0}
    for x in code:
        if x.access in moved:
            moved[x.access] += x.nbytes
    unit, outputs = int(one.defines["UNIT"]), len(body.stores)
    units = unit if turned >= 0 else int(one.defines["UNROLL"])
    sizes = [d.itemsize * unit * units for d in body.dtypes]
    assert moved == {"LDG": sum(sizes[outputs:]), "STG": sum(sizes[:outputs])}
    loads = [k for k, x in enumerate(code) if x.access == "LDG"]
    stores = [k for k, x in enumerate(code) if x.access in ("STG", "STS")]
    assert max(loads) < min(stores)


# momentum: buffer = buffer * n + grad; p = p + buffer * m
MOMENTUM = Body(
    (float32, float32, float32),
    (
        Step("binary", "mul", float32, float32, (2, ~0), (), "aten::mul.Scalar"),
        Step("binary", "add", float32, float32, (3, 1), (), "aten::add.Tensor"),
        Step("binary", "add", float32, float32, (0, 4), (1,), "aten::add.Tensor"),
    ),
    (5, 4),
)


@pytest.mark.parametrize("arch", ["sm_70", "sm_80", "sm_90", "sm_120"])
def test_a_chain_over_lists_moves_its_operands_once(arch: str) -> None:
    steps = [step._replace(op="add_alpha") if step.scalars else step for step in MOMENTUM.steps]
    body, packing = MOMENTUM._replace(steps=tuple(steps)), list[Any]()
    for step in steps:
        packing += chain_launch.packers(
            step, [~n for n in step.inputs if n < 0] + list(step.scalars)
        )  # fmt: skip
    one = chain_launch.bind_lists(body, (0, 2, 0, 1, 2), packing)
    assert one is not None and one.most >= 100
    cubin, log = program(one, arch)
    assert "0 bytes spill stores, 0 bytes spill loads" in log and "0 bytes stack frame" in log
    assert int(re.search(r"Used (\d+) registers", log)[1]) <= 64
    if arch == "sm_90":
        wide = [x for x in sass.instructions(cubin, "chain_lists") if x.nbytes == 16]
        moved = [x.access for x in wide if x.access in ("LDG", "STG")]
        unroll = int(one.defines["UNROLL"])
        assert (moved.count("LDG"), moved.count("STG")) == (3 * unroll, 2 * unroll)


@pytest.mark.parametrize("arch", ["sm_70", "sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("of", [float32, float16], ids=str)
def test_sums_of_squares_of_lists_do_not_spill(of: Any, arch: str) -> None:
    from gputensor.nn.utils import lists

    made = lists._squares(of, float32)
    for stage in (made.first, made.last):
        _, log = program(stage, arch)
        assert "0 bytes spill stores, 0 bytes spill loads" in log and "0 bytes stack" in log
    scaled = lists._scaled(of)
    _, log = program(scaled, arch)
    assert "0 bytes spill stores, 0 bytes spill loads" in log and "0 bytes stack" in log


def test_the_names_of_all_families_are_apart() -> None:
    """One text may contain any of their operators."""
    step = [Step(f, op, float32, float32, (0,), (), op) for f, op in (("unary", "neg"),)]
    text = module.composed(sorted(chain_source.FAMILIES - {"copy"}),
                           chain_source.functor(Body((float32,), tuple(step), (1,))))  # fmt: skip
    one = bound(Body((float32,), tuple(step), (1,)), (100,))
    one.family = module.keep(text)
    program(one, "sm_80")


@pytest.mark.parametrize("arch", ["sm_80", "sm_120"])
@pytest.mark.parametrize(
    "op, of", [("uniform", float32), ("normal", float16), ("bernoulli", bool_)]
)
def test_random_numbers_compile(op: str, of: Any, arch: str) -> None:
    drawn = Drawn(op, of, 0, f"aten::{op}_")
    step = Step("binary", "mul", float32, float32, (0, 1), (), "aten::mul.Tensor")
    body = Body((float32, of), (step,), (2, 1), (drawn,))
    for shape in ((100,), (N, N)):
        one = bound(body, shape)
        _, log = program(getattr(one, "at", lambda one=one: one)(), arch)
        assert "Compiling entry function" in log
