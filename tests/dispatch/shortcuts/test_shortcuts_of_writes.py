"""Short cuts of writes to views, and of copies with a history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gputensor as gt
from gputensor.dispatch import dispatcher

from .test_shortcuts import taken, turned, turned_on  # noqa: F401

# A write to a view, and the operator on whose table it leaves a short cut.
WRITES: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "add_": (lambda view, y: view.add_(y), "add_.Tensor"),
    "mul_ by a number": (lambda view, y: view.mul_(2.0), "mul_.Tensor"),
    "copy_": (lambda view, y: view.copy_(y), "copy_"),
    "fill_": (lambda view, y: view.fill_(3.0), "fill_.Scalar"),
    "addcmul_": (lambda view, y: view.addcmul_(y, y), "addcmul_"),
}


def program(write: Callable[[Any, Any], Any]) -> list[Any]:
    """Write to a view before and after its base has a history."""
    base, y = gt.arange(12.0).reshape(3, 4), gt.arange(4.0) + 1
    w = gt.full((3, 4), 2.0, requires_grad=True)
    view = base[1]
    found = []
    for _ in range(4):
        write(view, y)
        found += [base.tolist(), view._version]
    base.mul_(w)
    assert view.requires_grad and view.grad_fn is not None
    write(view, y)
    found += [base.tolist(), view._version, base.grad_fn is not None]
    view.sum().backward()
    return [*found, w.grad.tolist()]


@pytest.mark.parametrize("name", WRITES)
def test_a_write_to_a_view_takes_one_until_its_base_has_a_history(
    turned_on: None,  # noqa: F811
    name: str,
) -> None:
    write, at = WRITES[name]
    with turned(False):
        expected = program(write)
    assert program(write) == expected == program(write)
    short = dispatcher.find(f"aten::{at}").table.short
    assert short
    calls = []
    for key, of in [*short.items()]:
        short[key] = lambda *given, of=of: calls.append(of(*given)) or calls[-1]
    view, y = gt.arange(12.0).reshape(3, 4)[1], gt.arange(4.0) + 1
    write(view, y)
    assert calls[-1] is view


def test_a_view_of_a_leaf_is_refused_as_ever(turned_on: None) -> None:  # noqa: F811
    y = gt.arange(4.0)
    for _ in range(3):
        gt.zeros(3, 4)[1].add_(y)
    leaf = gt.zeros(3, 4, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf[1].add_(y)


def test_a_clone_with_a_history_takes_one(turned_on: None) -> None:  # noqa: F811
    x = gt.arange(6.0).reshape(2, 3).requires_grad_()
    for _ in range(3):
        x.clone()
    assert taken("clone")
    made = x.clone()
    assert made.grad_fn is not None and not made.is_leaf and made.tolist() == x.tolist()
    (made * made).sum().backward()
    assert x.grad is not None and x.grad.tolist() == (2 * x).tolist()
    with gt.no_grad():
        assert not x.clone().requires_grad


def test_masked_scatter_takes_one_and_refuses_as_ever(turned_on: None) -> None:  # noqa: F811
    mask, source = gt.tensor([[True, False, True], [False, True, True]]), gt.arange(4.0) + 1
    for _ in range(3):
        x = gt.zeros(2, 3)
        assert x.masked_scatter_(mask, source) is x
        assert x.tolist() == [[1, 0, 2], [0, 3, 4]] and x._version == 1
    assert taken("masked_scatter_") == 1
    x = gt.arange(6.0).reshape(2, 3)
    with pytest.raises(RuntimeError, match="an element for each that is written, 6"):
        x.masked_scatter_(gt.ones(2, 3, dtype=gt.bool), source)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]] and x._version == 0
    x.masked_scatter_(mask, x.view(-1)[2:])  # the source shares memory with x
    assert x.tolist() == [[2, 1, 3], [3, 4, 5]]
    leaf = gt.zeros(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.masked_scatter_(mask, source)
    made = leaf * 1
    made.masked_scatter_(mask, source).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [[0, 1, 0], [1, 0, 0]]
