"""Operators of users are cast like ours of the same schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor.core.errors import ArgumentTypeError, GpuTensorError
from gputensor.dispatch import dispatcher
from gputensor.dispatch.operator import Operator
from gputensor.makers.autocast import with_dtype
from tests.harness import tier
from tests.harness.cases import OPS, Case, flat, row_name
from tests.rows import ROWS

POLICIES = gt.amp.policies("cpu") | gt.amp.policies("cuda")
OURS = {f"aten::{op.name}": op for op in OPS}


def twin_of(operator: Operator, library: gt.library.Library) -> Operator:
    """Return a user's operator with the schema and the result of ours."""
    library.define(str(operator.schema).removeprefix("aten::"))
    name = operator.qualified_name.removeprefix("aten::")
    library.impl(name, operator, "CPU")
    return dispatcher.find(f"alike::{name}")


def calls(name: str, twin: Operator) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return samples of its row that both operators accept, in dtypes that are cast, in others, and
    in mixed dtypes."""
    row = ROWS[row_name(OURS[name])]
    for sample in row.samples:
        for of in (gt.float16, gt.float32, gt.float64):
            call = Case(row, sample, of).build()
            if all(takes(one, call.args, call.kwargs) for one in (dispatcher.find(name), twin)):
                yield call.args, call.kwargs
                if of is gt.float32:
                    yield tuple(map(halved, range(99), call.args)), call.kwargs


def takes(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return True if the schema accepts the arguments. A user's operator does not accept numbers as
    tensors."""
    try:
        operator.table.signature.arrange(operator, args, kwargs)
    except ArgumentTypeError:
        return False
    return True


def halved(place: int, x: Any) -> Any:
    """Return the operands, every second one in float16."""
    if isinstance(x, (list, tuple)):
        return type(x)(map(halved, range(len(x)), x))
    is_float = isinstance(x, gt.Tensor) and x.dtype is gt.float32
    return x.half() if is_float and place % 2 else x


def outcome(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return dtypes and values of the results as text, so that NaN equals NaN."""
    try:
        with gt.autocast("cpu"):
            results = flat(operator(*args, **kwargs))
    except GpuTensorError as error:
        return type(error)
    results = results if isinstance(results, (list, tuple)) else [results]
    return [(x.real.dtype, repr(x.tolist())) for x in results]


@pytest.mark.full
def test_what_is_banned_is_refused_on_its_device_alone() -> None:
    if not gt.cuda.is_available():
        pytest.skip("no CUDA device")
    x = gt.tensor([0.25, 0.5])
    for device, banned in (("cpu", False), ("cuda", True)):
        with gt.autocast(device):
            y = x.to(device)
            if not banned:
                assert gt.nn.functional.binary_cross_entropy(y, y).item() > 0
                continue
            with pytest.raises(RuntimeError, match="binary_cross_entropy: must not be called"):
                gt.nn.functional.binary_cross_entropy(y, y)
            assert gt.nn.functional.binary_cross_entropy_with_logits(y, y).dtype is gt.float32


CAST = sorted(name for name in POLICIES if POLICIES[name] != "banned")


@pytest.mark.parametrize("name", CAST[:: tier.pick(8, 1)])
def test_a_custom_operator_is_cast_as_a_built_in_one(name: str) -> None:
    built_in, policy, met = dispatcher.find(name), POLICIES[name], set()
    with gt.library.Library("alike", "DEF") as library:
        twin = twin_of(built_in, library)
        if policy == "fp32_append_dtype":
            twin_of(with_dtype(built_in), library)
        handles = [
            gt.amp.register_policy(one.qualified_name, "cpu", policy) for one in (built_in, twin)
        ]
        try:
            for args, kwargs in calls(name, twin):
                expected = outcome(built_in, args, kwargs)
                assert outcome(twin, args, kwargs) == expected
                met |= {dtype for dtype, _ in expected} if isinstance(expected, list) else set()
        finally:
            for handle in handles:
                handle.remove()
    casts_to = gt.bfloat16 if policy == "lower_precision_fp" else gt.float32
    assert {casts_to, gt.float64} <= met or met == {gt.int64}  # a rank
