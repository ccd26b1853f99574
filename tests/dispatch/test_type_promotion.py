"""The process-wide choice of promotion rules, which plans and short cuts follow."""

from __future__ import annotations

import operator
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.dispatch import defaults

OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.lt, operator.eq, gt.maximum, gt.atan2, gt.hypot, operator.and_,
    operator.lshift,
]  # fmt: skip


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gt.set_type_promotion("pytorch")


def numbers(dtype: Any, *sizes: int) -> gt.Tensor:
    return gt.ones(sizes, dtype=dtype)


@pytest.mark.parametrize("op", OPERATORS)
def test_tensors_without_dimensions_count_as_others(op: Any) -> None:
    integral = op in (operator.and_, operator.lshift)
    narrow, wide = (gt.int8, gt.int64) if integral else (gt.float32, gt.float64)
    x, zero_dim = numbers(narrow, 2), numbers(wide)
    of_pytorch, of_standard = op(x, x).dtype, op(numbers(wide, 2), numbers(wide, 2)).dtype
    for _ in range(3):  # the third call uses a short cut
        for rules, expected in (("pytorch", of_pytorch), ("array_api", of_standard)):
            gt.set_type_promotion(rules)
            assert gt.get_type_promotion() == rules
            for _ in range(3):
                assert op(x, zero_dim).dtype is op(zero_dim, x).dtype is expected
                if op.__module__ == "_operator":
                    assert op(x, 1).dtype is of_pytorch  # a number is none


def test_result_type_and_values_and_gradients_follow() -> None:
    gt.set_type_promotion("array_api")
    x, half = gt.tensor([1.0, 2.0]), gt.tensor(0.1, dtype=gt.float64)
    assert gt.result_type(x, half) is gt.float64
    np.testing.assert_array_equal((x + half).numpy(), x.numpy().astype(np.float64) + half.numpy())
    x.requires_grad_()
    (x * half).sum().backward()
    assert x.grad.dtype is gt.float32 and x.grad.tolist() == pytest.approx([0.1, 0.1])
    y = gt.ones(2)
    y += half
    assert y.dtype is gt.float32


def test_bad_values_change_nothing() -> None:
    for bad in ("numpy", None, 1):
        with pytest.raises(
            gt.GpuTensorError, match="'rules' must be one of 'pytorch', 'array_api'"
        ):
            gt.set_type_promotion(bad)  # type: ignore[arg-type]
        assert gt.get_type_promotion() == "pytorch"


@pytest.mark.full
@pytest.mark.parametrize(("value", "expected"), [("array_api", "float64"), ("", "float32")])
def test_from_outside(value: str, expected: str) -> None:
    text = "import gputensor as gt; print((gt.ones(2) + gt.ones((), dtype=gt.float64)).dtype)"
    done = subprocess.run(
        [sys.executable, "-c", text], env={**os.environ, defaults.VARIABLE: value},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert expected in done.stdout
