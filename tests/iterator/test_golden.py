"""Plans against results frozen from PyTorch: the worked examples, and random layouts."""

from __future__ import annotations

import pytest

from gputensor.core import dtype as dt
from gputensor.core import errors
from gputensor.core.device import CPU
from gputensor.core.geometry import geometry
from gputensor.iterator import config, overlap, plan
from gputensor.iterator.order import dense_strides_like
from tests.golden.notation import ints, parse, rows, show

ROWS = rows("iterator.txt")
REDUCTIONS = rows("reductions.txt")
GEOMETRIES = rows("geometry.txt")
assert {int(row[0]) for row in ROWS + REDUCTIONS if row[0] != "random"} == set(range(1, 41))

CONFIGS = {
    "add": config.BINARY, "addcmul": config.BINARY.replace(cpu_scalars=0),
    "div": config.BINARY_FLOAT, "floor_divide": config.BINARY, "eq": config.COMPARISON,
    "neg": config.UNARY,
    "sin": config.UNARY_FLOAT, "where": config.WHERE, "add_": config.BINARY,
    "div_": config.BINARY_FLOAT, "copy_": config.COPY, "fill_": config.FILL, "zero_": config.FILL,
}  # fmt: skip
ERRORS = {
    "cast": (errors.DtypeError, "that the result type"),
    "shape": (errors.ShapeError, "must have the broadcast shape"),
    "broadcast": (errors.ShapeError, "must broadcast with"),
    "internal": (errors.ArgumentError, "more than once"),
    "partial": (errors.ArgumentError, "share part of its memory"),
    "dtype": (errors.DtypeError, "must be float32"),
}


def pair(x):
    return (geometry(x.sizes, x.strides, x.dtype), CPU)


def run(op, operands, out):
    """Return the plan, after the checks of an operator with and without addresses."""
    layouts = [parse(text) for text in operands]
    inputs = [pair(x) if hasattr(x, "sizes") else type(x) for x in layouts]
    outputs = [None]
    if out:
        outputs = [pair(parse(out))]
    elif op == "copy_":
        outputs = [inputs.pop(0)]
    elif op in ("fill_", "zero_"):
        outputs = [inputs.pop()]
    elif op.endswith("_"):
        outputs = [inputs[0]]
    made = plan.build(op, CONFIGS[op], tuple(outputs), tuple(inputs), default_dtype=dt.float32)
    for x in layouts:
        if out and hasattr(x, "sizes") and x.offset is not None:
            target = parse(out)
            kind = overlap.pair_overlap(
                pair(target)[0], target.offset * 4, pair(x)[0], x.offset * 4
            )
            if kind == overlap.PARTIAL:
                raise errors.partial_overlap(op, "other")
    return made


@pytest.mark.parametrize("chosen", sorted({row[1] for row in ROWS}))
def test_pointwise(chosen):
    for _, op, operands, out, result in ROWS:
        if op == chosen:
            check_pointwise(op, operands, out, result)


def check_pointwise(op, operands, out, result):
    if result.startswith("error"):
        kind, match = ERRORS[result.split()[1]]
        with pytest.raises(kind, match=match):
            run(op, operands.split(), out)
        return
    made = run(op, operands.split(), out)
    g = made.outputs[0].geometry
    assert show(g.dtype, g.sizes, g.strides) == result, (op, operands)
    expected = plan.KEEP if op.endswith("_") else plan.ALLOCATE
    if out:
        expected = plan.KEEP if parse(out).sizes == g.sizes else plan.RESIZE
    assert made.outputs[0].action == expected, (op, operands)


@pytest.mark.parametrize("number, op, operand, dims, keepdim, result", REDUCTIONS)
def test_reduction(number, op, operand, dims, keepdim, result):
    made = plan.build_reduction(
        op, pair(parse(operand)), None, ints(dims), keepdim == "True", dt.float32, dt.float32
    )
    g = made.outputs[0].geometry
    assert show(g.dtype, g.sizes, g.strides) == result


def test_dense_strides_like():
    for text, _, strides, *_ in GEOMETRIES:
        x = parse(text)
        found = dense_strides_like(geometry(x.sizes, x.strides, x.dtype))
        assert found == ints(strides.strip("()")), text
