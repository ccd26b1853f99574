"""Promotion against tables frozen from PyTorch, and its messages."""

from __future__ import annotations

import numpy as np
import pytest

from gputensor.core import dtype as dt
from gputensor.core import errors, promotion
from gputensor.core.device import CPU
from gputensor.core.geometry import geometry
from tests.golden.notation import DTYPES, parse, rows

ROWS = rows("promotion.txt")
DEFAULTS = ("f32", "f64", "f16", "bf16")


def operand(text):
    x = parse(text)
    return (geometry(x.sizes, x.strides, x.dtype), CPU) if hasattr(x, "sizes") else type(x)


def found(op, *args):
    try:
        return op(*args).short
    except errors.DtypeError as error:
        assert "uint64" in str(error)
        return "-"


def by_numpy(short, *pair):
    """PyTorch rejects most pairs with uint16, uint32 and uint64. NumPy has no integer dtype for one
    pair."""
    if short != "-":
        return short
    a, b = [
        x[0].dtype if isinstance(x, tuple) else promotion.number_dtype(x, dt.float32) for x in pair
    ]
    if dt.COMPLEX in (a.category, b.category):
        return a.short if a.is_complex else b.short
    promoted = np.promote_types(a.np, b.np)
    return "-" if promoted.kind == "f" else dt.from_numpy(promoted).short


@pytest.mark.parametrize("default", DEFAULTS)
def test_result_type_of_every_pair(default):
    table = {row[1]: row[2].split() for row in ROWS if row[0] == default}
    columns = table.pop("columns")
    assert len(table) == 32 and len(columns) == (36 if default == "f32" else 4)
    for text, expected in table.items():
        for column, short in zip(columns, expected):
            pair = (operand(text), operand(column))
            short = by_numpy(short, *pair)
            assert found(promotion.result_type, "add", pair, DTYPES[default]) == short, (
                text,
                column,
            )
            if column[-1] != ")":
                swapped = (pair[1], pair[0])
                assert found(promotion.result_type, "add", swapped, DTYPES[default]) == short


def test_promote_types_is_the_result_type_of_tensors_with_dimensions():
    table = {row[1]: row[2].split() for row in ROWS if row[0] == "f32"}
    columns = table.pop("columns")
    for text, expected in table.items():
        for column, short in zip(columns, expected):
            if text.endswith("(2)") and column.endswith("(2)"):
                a, b = operand(text)[0].dtype, operand(column)[0].dtype
                expected = by_numpy(short, operand(text), operand(column))
                assert found(promotion.promote_types, a, b) == expected, (a, b)


def test_can_cast():
    table = {row[1]: row[2].split() for row in ROWS if row[0] == "can_cast"}
    assert len(table) == 16
    for a, allowed in table.items():
        assert [b for b in DTYPES if promotion.can_cast(DTYPES[a], DTYPES[b])] == allowed


def test_three_classes_at_once():
    operands = (operand("u8(2)"), operand("i64()"), float)
    assert promotion.result_type("add", operands, dt.float32) is dt.float32
    assert promotion.result_type("add", operands, dt.bfloat16) is dt.bfloat16
    assert promotion.result_type("add", operands[:2], dt.float32) is dt.uint8
    assert promotion.result_type("add", (int, bool), dt.float32) is dt.int64


def test_messages():
    with pytest.raises(
        errors.DtypeError, match=r"^add: no dtype .* \(got uint64 and int8\); cast one of them$"
    ):
        promotion.promote_types(dt.uint64, dt.int8, "add")
    with pytest.raises(errors.ArgumentValueError, match="result_type: 'tensors' must hold"):
        promotion.result_type("result_type", (), dt.float32)
