"""Overloads with numbers, and aliases, have the results of the overload that they call."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import gputensor as gt
from codegen.load import load
from codegen.model import Op

from ..harness import tier
from ..harness.cases import ROWS, cases, operator_of, public, row_name

MODEL = load()
FORWARDS = [op for op in MODEL.ops if op.is_forward]


def root(op: Op) -> Op:
    return root(op.source) if op.source is not None else op


def arguments(op: Op, args: tuple[Any, ...]) -> dict[str, Any] | None:
    """Return a sample's arguments for this overload, by name; None if it takes other arguments."""
    declared = [a for a in op.schema.positional if not a.is_write or a.name != "out"]
    found = [2 if str(a.type) == "Scalar" else x for a, x in zip(declared, args)]
    fits = [hasattr(x, "_keys") for a, x in zip(declared, found) if str(a.type) == "Tensor"]
    if len(args) > len(declared) or not all(fits):
        return None
    return dict(zip([a.name for a in declared], found))


def is_twin(one: Any, other: Any) -> bool:
    """True for two functions with the same code, which handlers can distinguish."""
    return one is not other and one.__code__.co_code == other.__code__.co_code


def test_inplace_functions_have_the_code_of_the_methods() -> None:
    both = [op for op in MODEL.ops if op.kind == "inplace" and set(op.variants) > {"method"}]
    assert len(both) > 50
    for op in both:
        assert is_twin(getattr(gt, op.base), getattr(gt.Tensor, op.base)), op.base
    x = gt.zeros(2)
    assert gt.exp_(x) is x and gt.clamp_(x, max=0.5).tolist() == [0.5, 0.5] and x._version == 2
    with pytest.raises(TypeError, match="relu_: 'self' must be a Tensor"):
        gt.relu_(1.0)


@pytest.mark.parametrize("op", FORWARDS[:: tier.pick(3, 1)], ids=lambda op: op.name)
def test_what_it_stands_for_gives_the_same(op: Op) -> None:
    of, seen = MODEL.find(op.source.name), 0
    for case in cases(ROWS[row_name(root(op))], crossed=False):
        call = case.build("cpu")
        args = arguments(op, call.args)
        if args is None or not call.kwargs.keys() <= {a.name for a in op.arguments} or seen == 9:
            continue
        results = []
        for one in (op, of):
            given = copy.deepcopy(args)
            more = {"out": gt.empty(0, dtype=gt.float64)} if op.kind == "out" else {}
            try:
                if one is of and str(op.arguments[0].type) == "Scalar":
                    results.append(public(of)(*given.values(), **call.kwargs, **more))
                else:
                    results.append(operator_of(one)(**given, **call.kwargs, **more))
            except gt.GpuTensorError as error:
                results.append(str(error).partition(": ")[2].partition("; declaration")[0])
        mine, theirs = results
        if type(mine) is str or type(theirs) is str:
            assert mine == theirs
        else:
            assert mine.dtype is theirs.dtype and mine.shape == theirs.shape
            assert mine.tolist() == theirs.tolist() or bool((mine != mine).any())
            seen += 1
    assert seen, "no sample reaches it"


@pytest.mark.parametrize("variant", ["function", "method"])
def test_a_second_name_is_a_function_with_the_same_code(variant: str) -> None:
    names = MODEL.aliases(variant, "")
    assert names["greater" if variant == "function" else "greater_"].rstrip("_") == "gt"
    place = gt if variant == "function" else gt.Tensor
    for name, of in names.items():
        assert is_twin(getattr(place, name), getattr(place, of))
        assert getattr(place, name).__name__ == name


def test_a_number_may_come_first() -> None:
    x = gt.tensor([1.0, 2.0])
    assert gt.add(3, x).tolist() == [4.0, 5.0] == gt.add(x, 3).tolist()
    assert gt.mul(3, x).tolist() == [3.0, 6.0]
    assert gt.sub(3, x, alpha=2).tolist() == [1.0, -1.0]
    assert gt.div(3, x).tolist() == [3.0, 1.5]
    for refused in (
        lambda: gt.add(3, x, alpha=2), lambda: gt.maximum(3, 4), lambda: gt.maximum(3, x),
        lambda: gt.where(True, x, x),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            refused()
