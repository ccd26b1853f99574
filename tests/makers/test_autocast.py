"""A user's operator of the same schema is cast as one of ours."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.dispatch import dispatcher

X = gt.tensor([[1.0, 2.0], [3.0, 4.0]])
CALLS: dict[str, list[tuple[Any, ...]]] = {
    "aten::mm": [(X, X.half()), (X.double(), X.double())],
    "aten::matmul": [(X, X.half())],
    "aten::exp": [(X.half(),), (X.double(),)],
    "aten::sum": [(X.half(), None), (X.half(), gt.float64), (X.double(), None)],
    "aten::sum.dim_IntList": [(X.bfloat16(), [0], True, None)],
    "aten::cat": [([X, X.bfloat16()], 0), ([X.bfloat16()] * 2, 1)],
    "aten::stack": [([X, X.double()], 0)],
    "aten::view_as_complex": [(X.half(),)],
    "aten::addmm": [(X, X.half(), X, 1, 2), (X.double(), X.double(), X.double(), 1, 1)],
    "aten::linear": [(X, X.half(), None), (X.half(), X, X[0])],
    "aten::softmax.int": [(X.half(), 0, None), (X.half(), 1, gt.float64)],
    "aten::log_softmax.int": [(X.half(), 0, None), (X.double(), 1, None)],
    "aten::nll_loss": [(X.half(), gt.tensor([0, 1]), None, 1, -100)],
    "aten::cross_entropy_loss": [(X.half(), gt.tensor([0, 1]), None, 1, -100, 0.1)],
    "aten::mse_loss": [(X.half(), X.bfloat16(), 1)],
}


def test_every_policy_that_is_shipped_has_a_case() -> None:
    assert set(CALLS) == {*gt.amp.policies("cpu"), *gt.amp.policies("cuda")}


@pytest.mark.parametrize("name", CALLS)
def test_a_custom_operator_is_cast_as_a_built_in_one(name: str) -> None:
    built_in = dispatcher.find(name)
    policy = (gt.amp.policies("cpu") | gt.amp.policies("cuda"))[name]
    text = str(built_in.schema)
    with gt.library.Library("alike", "DEF") as library:
        custom = library.define(text[text.index("::") + 2 :] if "::" in text else text)
        name = custom if isinstance(custom, str) else str(custom)
        operator = dispatcher.find(f"alike::{built_in.qualified_name.removeprefix('aten::')}")
        library.impl(operator.qualified_name.removeprefix("alike::"), built_in, "CPU")
        handles = [
            gt.amp.register_policy(one.qualified_name, "cpu", policy)
            for one in (built_in, operator)
        ]
        try:
            for args in CALLS[built_in.qualified_name]:
                given = args[: built_in.table.signature.n_positional]
                keywords = built_in.table.signature.keywords_of(args)
                with gt.autocast("cpu"):
                    expected, result = built_in(*given, **keywords), operator(*given, **keywords)
                assert result.dtype is expected.dtype and result.tolist() == expected.tolist()
        finally:
            for handle in handles:
                handle.remove()
