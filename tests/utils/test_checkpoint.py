"""gt.utils.checkpoint: equal gradients without saved tensors; gt.utils._pytree."""

from __future__ import annotations

import gc
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ref

import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.utils import _pytree
from gputensor.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential

DEVICES = ["cpu", *(["cuda"] if gt.cuda.is_available() else [])]
Point = namedtuple("Point", "x y")


def net() -> Any:
    gt.manual_seed(2)
    layers = [m for _ in range(4) for m in (gt.nn.Linear(6, 6), gt.nn.Tanh(), gt.nn.Dropout(0.4))]
    return gt.nn.Sequential(*layers)


def gradients(model: Any, forward: Any) -> list[Any]:
    gt.manual_seed(5)
    x = gt.rand(3, 6, requires_grad=True)
    forward(x).sum().backward()
    return [x.grad, *[p.grad for p in model.parameters()]]


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_gradients_are_the_same(use_reentrant: bool) -> None:
    plain, model, parts = net(), net(), net()
    expected = gradients(plain, plain)
    found = gradients(model, lambda x: checkpoint(model, x, use_reentrant=use_reentrant))
    pieces = gradients(parts, lambda x: checkpoint_sequential(parts, 3, x))
    for a, b, c in zip(expected, found, pieces):
        assert bool((a == b).all()) and bool((a == c).all())


def test_nothing_is_kept_for_the_derivative() -> None:
    kept: list[Any] = []

    def function(x: Any) -> Any:
        y = x.exp()
        kept.append(ref(y))
        return y.sin()

    x = gt.rand(4, requires_grad=True)
    out = checkpoint(function, x)
    gc.collect()
    assert kept[0]() is None
    out.sum().backward()
    assert len(kept) == 2 and x.grad is not None
    assert bool(gt.allclose(x.grad, x.exp().cos() * x.exp()))


def test_another_run_must_be_the_same() -> None:
    runs: list[int] = []

    def changes(x: Any) -> Any:
        runs.append(1)
        return x.exp() if len(runs) > 1 else x.exp().sin()

    out = checkpoint(changes, gt.rand(2, requires_grad=True))
    with pytest.raises(errors.AutogradError, match="as many tensors"):
        out.sum().backward()
    for bad in (lambda: checkpoint(3), lambda: checkpoint(len, determinism_check="all"),
                lambda: checkpoint_sequential([len], 2, [])):  # fmt: skip
        with pytest.raises(errors.GpuTensorError):
            bad()


def test_the_second_run_ends_after_the_last_saved_tensor() -> None:
    steps: list[str] = []

    def function(x: Any) -> Any:
        y = x.exp()
        steps.append("exp")
        y = y.sin() + 1
        steps.append("end")
        return y

    for early_stop, expected in ((True, ["exp"]), (False, ["exp", "end"])):
        x = gt.ones(2, requires_grad=True)
        out = checkpoint(function, x, early_stop=early_stop)
        steps.clear()
        out.sum().backward()
        assert steps == expected and gt.allclose(x.grad, (x.exp().cos() * x.exp()).detach())


def test_the_last_part_of_a_sequence_runs_once() -> None:
    runs = [0] * 4

    def part(n: int) -> Any:
        def function(x: Any) -> Any:
            runs[n] += 1
            return x.sin()

        return function

    x = gt.ones(2, requires_grad=True)
    checkpoint_sequential([part(n) for n in range(4)], 2, x).sum().backward()
    assert runs == [2, 2, 1, 1]


def test_each_run_has_a_context() -> None:
    entered: list[str] = []

    @contextmanager
    def block(name: str) -> Iterator[None]:
        entered.append(name)
        yield

    x = gt.ones(2, requires_grad=True)
    out = checkpoint(gt.exp, x, context_fn=lambda: (block("first"), block("second")))
    assert entered == ["first"]
    out.sum().backward()
    assert entered == ["first", "second"]


@pytest.mark.parametrize("device", DEVICES)
def test_both_runs_draw_and_cast_alike_on_every_device(device: str) -> None:
    def function(x: Any) -> Any:
        drawn.append(gt.nn.functional.dropout(x, 0.5))
        return (drawn[-1] @ x).sin()

    drawn: list[Any] = []
    x = gt.rand(8, 8, device=device, requires_grad=True)
    with gt.autocast(device, dtype=gt.bfloat16):
        out = checkpoint(function, x)
    gt.rand(3, device=device)
    drawn_between = gt.rand(2, device=device)
    gt.manual_seed(0)
    out.float().sum().backward()
    assert bool((drawn[0] == drawn[1]).all()) and out.dtype == gt.bfloat16
    after = gt.rand(2, device=device)
    gt.manual_seed(0)
    assert bool((after == gt.rand(2, device=device)).all()) and drawn_between is not None


def test_tensors_saved_again_are_compared() -> None:
    def changes(x: Any) -> Any:
        runs.append(1)
        return (x[: 3 - len(runs)].exp() if x.requires_grad else x).sum()

    for option in ("default", "none"):
        runs: list[int] = []
        out = checkpoint(changes, gt.rand(2, requires_grad=True), determinism_check=option)
        if option == "default":
            with pytest.raises(CheckpointError, match=r"number 0 was .*float32 of shape \(2,\)"):
                out.backward()
        else:
            out.backward()
            assert len(runs) == 2
    with pytest.raises(errors.GpuTensorError, match="determinism_check"):
        checkpoint(len, [], determinism_check="other")


def test_containers_are_taken_apart_and_put_together() -> None:
    value = {"a": [1, (2, Point(3, None))], "b": OrderedDict(c=4), "d": deque([5]),
             "e": defaultdict(list, f=6)}  # fmt: skip
    leaves, spec = _pytree.tree_flatten(value)
    assert leaves == [1, 2, 3, None, 4, 5, 6] and spec.num_leaves == 7
    again = _pytree.tree_unflatten(leaves, spec)
    assert again == value and type(again["a"][1][1]) is Point
    assert _pytree.tree_structure(again) == _pytree.tree_structure(value) and spec != 3
    assert again["e"]["new"] == []
    doubled = _pytree.tree_map(lambda x, y: (x or 0) + (y or 0), value, value)
    assert _pytree.tree_leaves(doubled) == [2, 4, 6, 0, 8, 10, 12]
    assert _pytree.tree_map_only(int, str, [1, 2.0]) == ["1", 2.0]
    assert _pytree.tree_any(lambda x: x == 6, value) and not _pytree.tree_all(bool, value)
    assert _pytree.tree_leaves([1, [2]], is_leaf=lambda x: x == [2]) == [1, [2]]
    assert repr(_pytree.tree_structure([1])) == "TreeSpec(list, None, [*])"
    for bad in (lambda: _pytree.tree_unflatten([1], spec),
                lambda: _pytree.tree_map(len, [1], (2,)),
                lambda: _pytree.register_pytree_node(list, len, len)):  # fmt: skip
        with pytest.raises(errors.GpuTensorError):
            bad()


def test_containers_match_as_in_pytorch() -> None:
    def pair(a: Any, b: Any) -> Any:
        return a, b

    assert _pytree.tree_map(pair, {"a": 1, "b": 2}, {"b": 3, "a": 4}) == {"a": (1, 4), "b": (2, 3)}
    assert _pytree.tree_map(pair, {"a": 1}, OrderedDict(a=2)) == {"a": (1, 2)}
    assert _pytree.tree_map(pair, deque([1], 3), deque([2])) == deque([(1, 2)])
    assert _pytree.tree_map_only(lambda x: x == 1, str, [1, 2]) == ["1", 2]
    assert _pytree.tree_map_only(int | str, repr, [1, "a", 2.0]) == ["1", "'a'", 2.0]
    spec = _pytree.tree_structure({"a": [1, 2]})
    assert spec.flatten_up_to({"a": [[1], (2,)]}) == [[1], (2,)]
    assert hash(spec) == hash(_pytree.tree_structure({"a": [3, 4]})) and spec.num_nodes == 4
    assert spec.unflatten([5, 6]) == {"a": [5, 6]} and spec.children()[0] == spec.child(0)
    assert len(_pytree.tree_leaves(gt.rand(2, 3).max(0))) == 2
    for other in ({"b": [1, 2]}, {"a": [1]}, {"a": (1, 2)}, 3):
        with pytest.raises(errors.GpuTensorError):
            spec.flatten_up_to(other)


def test_classes_may_become_containers() -> None:
    class Box:
        def __init__(self, held: Any) -> None:
            self.held = held

    try:
        _pytree.register_pytree_node(
            Box, lambda b: ([b.held], None), lambda parts, _: Box(*parts), serialized_type_name="x"
        )
        assert _pytree.tree_map(lambda x: x + 1, Box(2)).held == 3
    finally:
        _pytree.SUPPORTED_NODES.pop(Box, None)
