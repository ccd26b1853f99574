"""Short cuts of composite operators: registrations, modes and traces of the inner operators still
take effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gputensor as gt
from gputensor import dispatch
from gputensor.dispatch import dispatcher
from gputensor.library import Library
from gputensor.tensor.make import CPU_KEYS

from ...harness import tier
from .test_shortcuts import Program, outcome, taken, turned, turned_on

__all__ = ["turned_on"]  # a fixture

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "stack([a, b])": lambda a, b: gt.stack([a, b]),
    "stack([a, a], 1)": lambda a, b: gt.stack([a, a], 1),
    "stack([a, a], True)": lambda a, b: gt.stack([a, a], True),
    "cat([a, b])": lambda a, b: gt.cat([a, b]),
    "a[mask]": lambda a, b: a[gt.tensor([True, False, True, True])],
    "a[b > 1]": lambda a, b: a[b > 1],
    "a[index]": lambda a, b: a[gt.tensor([0, -1, 1])],
    "a[index too large]": lambda a, b: a[gt.tensor([0, 4])],
    "a.softmax(0)": lambda a, b: a.softmax(0),
    "log_softmax(a, -1)": lambda a, b: gt.log_softmax(a, -1),
    "softmax(a, True)": lambda a, b: gt.softmax(a, True),
    "softmax in double": lambda a, b: gt.softmax(a, 0, dtype=gt.float64),
    "a.var()": lambda a, b: a.var(),
    "a.var(0)": lambda a, b: a.var(0),
    "a.var((0,), correction=0.5)": lambda a, b: a.var((0,), correction=0.5),
    "a.var([0], True, True)": lambda a, b: a.var([0], True, True),
    "a.std(0, False)": lambda a, b: a.std(0, False),
    "a.std()": lambda a, b: a.std(),
    "var.correction": lambda a, b: gt.ops.aten.var.correction(a, [0], correction=1),
    "a.norm()": lambda a, b: a.norm(),
    "norm(a, 3)": lambda a, b: gt.norm(a, 3),
    "linalg.vector_norm": lambda a, b: gt.linalg.vector_norm(a, dim=0, keepdim=True),
    "dot": lambda a, b: gt.dot(a, b),
    "tril": lambda a, b: a.expand(2, 3, 4).tril(1) if a.shape == (4,) else a.tril(),
    "triu": lambda a, b: a.expand(3, 4).triu(),
    "sigmoid": lambda a, b: a.sigmoid(),
    "a.max(0)": lambda a, b: a.max(0),
    "a.chunk(2)": lambda a, b: a.chunk(2),
    "a.split(3)": lambda a, b: a.split(3),
    "a.unbind(0)": lambda a, b: a.unbind(0),
    "a.sort(0)": lambda a, b: a.sort(0),
    "gradients": lambda a, b: gt.autograd.grad(
        [
            a.var(0),
            a.std(),
            a.softmax(0)[0],
            gt.stack([a, b])[0, 1],
            a[gt.tensor([1])][0],
            a.norm(),
            gt.linalg.vector_norm(a),
            gt.dot(a, b),
            a.expand(4, 4).tril()[2, 1],
        ],
        a,
    ),
}


class Composed(Program):
    calls = CALLS
    operators = (
        "stack", "cat", "unsqueeze", "copy_", "index.Tensor", "nonzero", "unbind.int", "_softmax",
        "softmax.int", "var.dim", "var.correction", "std.correction",
        "norm.Scalar", "linalg_vector_norm", "dot", "tril", "where.self_out", "split.Tensor",
        "chunk",
    )  # fmt: skip

    def _values(self, x: Any) -> str | None:
        """Read views too: the reads before decide which of them have an array."""
        if x._keys & ~CPU_KEYS or not x.is_cpu:
            return None
        return repr(x._get_array().tolist())


@pytest.mark.parametrize("first", range(0, tier.pick(3, 99), 3))
def test_no_call_differs_for_them(first: int) -> None:
    for seed in range(first, first + 3):
        with turned(False):
            expected = outcome(seed, Composed)
        with turned(True):
            assert outcome(seed, Composed) == expected, seed


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda a: a.softmax(0), "softmax.int"),
        (lambda a: gt.log_softmax(a, 0), "log_softmax.int"),
        (lambda a: a.var(0), "var.dim"),
        (lambda a: a.var(), "var"),
        (lambda a: a.var(0, correction=0), "var.correction"),
        (lambda a: a.std(0), "std.dim"),
        (lambda a: a.norm(), "linalg_vector_norm"),
        (lambda a: gt.linalg.vector_norm(a), "linalg_vector_norm"),
        (lambda a: gt.dot(a, a), "dot"),
        (lambda a: a.view(2, 2).tril(), "tril"),
    ],
)
def test_a_composite_leaves_one(turned_on: None, call: Any, name: str) -> None:
    a = gt.arange(4.0)
    with turned(False):
        expected = call(a)
    for _ in range(4):
        assert gt.equal(call(a), expected)
    assert taken(name) == 1
    short = dispatcher.find(f"aten::{name}").table.short
    seen: list[Any] = []
    for key, function in [*short.items()]:
        short[key] = lambda *given, of=function: seen.append(of(*given)) or seen[-1]
    assert call(a) is seen[-1] and gt.equal(seen[-1], expected)


@pytest.mark.parametrize("name", ["var", "std", "norm", "softmax"])
@pytest.mark.parametrize("dim", [(), (0,), (1,), (-1, True)])
def test_few_results_of_many_elements(turned_on: None, name: str, dim: Any) -> None:
    x = gt.arange(3.0 * (1 << 16)).view(3, 1 << 16) / 1e5
    if name == "norm":
        dim = ("fro", *dim)
    if name == "softmax":
        dim = dim[:1] or (0,)
    found = [getattr(x, name)(*dim) for _ in range(5)]
    assert all(gt.equal(one, found[0]) for one in found)


def test_a_layout_that_somebody_else_chose_is_not_remembered(turned_on: None) -> None:
    a = gt.arange(6.0).view(2, 3)
    lib = Library("aten", "IMPL")
    with pytest.warns(gt.core.errors.OverrideWarning):
        lib.impl("cat", lambda tensors, dim=0: gt.zeros(7), "CompositeExplicitAutograd")
    assert [gt.stack([a, a]).shape for _ in range(4)] == [(7,)] * 4
    lib._destroy()
    for _ in range(4):
        assert gt.stack([a, a]).tolist() == [a.tolist()] * 2 and gt.cat([a, a]).shape == (4, 3)


WATCHED = {
    "nonzero": lambda a: a[a > 1], "unbind.int": lambda a: a[a > 1],
    "unsqueeze": lambda a: gt.stack([a, a]), "cat": lambda a: gt.stack([a, a]),
    "_softmax": lambda a: a.softmax(0),
    "var.correction": lambda a: a.var(0), "std.correction": lambda a: a.std(),
    "linalg_vector_norm": lambda a: a.norm(), "empty_like": lambda a: a.view(2, 2).t().contiguous(),
    "split.Tensor": lambda a: a.chunk(2)[1],
    "mm": lambda a: gt.mv(a.view(2, 2), a[:2]),
    "mul.Tensor": lambda a: gt.outer(a, a),
    "add.Tensor": lambda a: gt.addr(a, a, a), "diagonal": lambda a: gt.trace(a.view(2, 2)),
    "flip": lambda a: a.view(2, 2).rot90(), "slice.Tensor": lambda a: a.diff(),
    "clone": lambda a: a.scatter(0, gt.tensor([2]), 7.0),
}  # fmt: skip


@pytest.mark.parametrize("name", WATCHED)
@pytest.mark.filterwarnings("ignore::gputensor.core.errors.OverrideWarning")
def test_who_registers_or_traces_a_part_sees_it(turned_on: None, name: str) -> None:
    call, a = WATCHED[name], gt.arange(4.0)
    operator = dispatcher.find(f"aten::{name}")
    expected = [call(a).tolist() for _ in range(5)][0]
    seen: list[Any] = []

    def watched(key_set: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(name)
        rest = key_set & dispatch.keys.below("ADInplaceOrView")
        return operator.redispatch(rest, *args, **kwargs)

    lib = Library("aten", "IMPL")
    lib.impl(name, watched, "ADInplaceOrView", with_keyset=True)
    try:
        assert call(a).tolist() == expected and seen
    finally:
        lib._destroy()
    assert call(a).tolist() == expected
    with dispatch.trace() as lines:
        assert call(a).tolist() == expected
    assert any(operator.qualified_name in line for line in lines)


def test_parameters_of_a_converted_module_are_plain(turned_on: None) -> None:
    for convert in (lambda m: m.double(), lambda m: m.to(gt.float16)):
        module = convert(gt.nn.Linear(3, 3))
        assert module.weight._keys is gt.empty(3)._keys
    with gt.inference_mode():
        data = gt.ones(3)
    module.bias.data = data
    assert module.bias._keys == gt.ones(3)._keys
