"""Scalars that are passed positionally, before a tensor, as old programs for PyTorch do."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.core import errors

SIZES = {
    "add": [(3,), (3,)],
    "sub": [(3,), (3,)],
    "addcmul": [(3,), (3,), (3,)],
    "addcdiv": [(3,), (3,), (3,)],
    "addmm": [(2, 3), (2, 4), (4, 3)],
    "addmv": [(2,), (2, 4), (4,)],
    "addr": [(2, 3), (2,), (3,)],
    "addbmm": [(2, 3), (5, 2, 4), (5, 4, 3)],
    "baddbmm": [(5, 2, 3), (5, 2, 4), (5, 4, 3)],
}
SCALARS = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
PRODUCTS = [name for name in SIZES if name not in SCALARS]


def operands(name: str) -> list[gt.Tensor]:
    gt.manual_seed(0)
    return [gt.rand(size) + 1 for size in SIZES[name]]


@pytest.mark.parametrize("name", SIZES)
def test_one_scalar_stands_before_the_last_operands(name: str) -> None:
    x, *rest = operands(name)
    keyword = SCALARS.get(name, "beta")
    expected = getattr(gt, name)(x, *rest, **{keyword: 0.5})
    assert gt.equal(getattr(x, name)(0.5, *rest), expected)
    assert gt.equal(getattr(gt, name)(x, 0.5, *rest), expected)
    out = gt.empty_like(expected)
    assert getattr(gt, name)(x, 0.5, *rest, out=out) is out and gt.equal(out, expected)
    changed = x.clone()
    assert getattr(changed, f"{name}_")(0.5, *rest) is changed and gt.equal(changed, expected)


@pytest.mark.parametrize("name", PRODUCTS)
def test_two_scalars_are_beta_and_alpha(name: str) -> None:
    x, *rest = operands(name)
    expected = getattr(gt, name)(x, *rest, beta=0.5, alpha=3)
    assert gt.equal(getattr(x, name)(0.5, 3, *rest), expected)
    assert gt.equal(getattr(gt, name)(0.5, x, 3, *rest), expected)
    assert gt.equal(getattr(gt, name)(0.5, x, *rest), getattr(gt, name)(x, *rest, beta=0.5))


def test_a_gradient_flows_through_the_old_form() -> None:
    x, y = gt.ones(3, requires_grad=True), gt.ones(3, requires_grad=True)
    x.add(2, y).sum().backward()
    assert x.grad.tolist() == [1] * 3 and y.grad.tolist() == [2] * 3


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("change", ["an operand", "a scalar", "a keyword"])
def test_too_many_arguments_are_refused(name: str, change: str) -> None:
    x, *rest = operands(name)
    before = x.tolist()
    named: dict[str, Any] = {}
    given: list[Any] = [0.5, *rest]
    if change == "an operand":
        given.append(rest[0])
    elif change == "a scalar":
        given = [0.5, 2, 3, *rest]
    else:
        named[SCALARS.get(name, "beta")] = 3
    with pytest.raises(errors.ArgumentTypeError, match=f"{name}_: takes {len(rest) + 1} posit"):
        getattr(x, f"{name}_")(*given, **named)
    assert x.tolist() == before
