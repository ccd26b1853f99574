"""Hooks of modules for backward and state, and state other than tensors."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import pytest

import gputensor as gt
from gputensor import nn


class Scaled(nn.Module):
    """Returns twice its argument; has a number as extra state."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x: gt.Tensor, other: Any = None) -> gt.Tensor:
        return x * 2

    def get_extra_state(self) -> int:
        return self.count

    def set_extra_state(self, state: int) -> None:
        self.count = state


def test_a_backward_hook_gets_the_gradients_of_arguments_and_results() -> None:
    module, seen = Scaled(), []
    handle = module.register_full_backward_hook(lambda m, given, got: seen.append((m, given, got)))
    x = gt.tensor([1.0, 2.0], requires_grad=True)
    (module(x, "text") * gt.tensor([3.0, 4.0])).sum().backward()
    ((m, given, got),) = seen
    assert m is module and given[0].tolist() == [6.0, 8.0] and given[1] is None
    assert [g.tolist() for g in got] == [[3.0, 4.0]] and x.grad.tolist() == [6.0, 8.0]
    handle.remove()
    module(x).sum().backward()
    assert len(seen) == 1


def test_hooks_replace_gradients_on_both_sides_in_their_order() -> None:
    module, order = Scaled(), []
    module.register_full_backward_hook(lambda m, given, got: (order.append(2), (given[0] + 1,))[1])
    module.register_full_backward_hook(
        lambda m, given, got: (order.append(1), (given[0] * 10,))[1], prepend=True
    )
    module.register_full_backward_pre_hook(lambda m, got: (order.append(0), (got[0] * 3,))[1])
    x = gt.tensor([1.0], requires_grad=True)
    module(x).sum().backward()
    assert x.grad.tolist() == [61.0] and order == [0, 1, 2]


def test_without_gradients_of_inputs_the_hook_comes_with_those_of_results() -> None:
    linear, seen = nn.Linear(2, 1), []
    linear.register_full_backward_hook(lambda m, given, got: seen.append((given, got[0].tolist())))
    linear(gt.ones(3, 2)).sum().backward()
    assert seen == [((None,), [[1.0]] * 3)] and linear.weight.grad.tolist() == [[3.0, 3.0]]
    linear.register_full_backward_hook(lambda m, given, got: (None,))
    linear(gt.ones(3, 2)).sum().backward()
    linear.register_full_backward_hook(lambda m, given, got: (got[0],))
    with pytest.raises(RuntimeError, match="return None"):
        linear(gt.ones(3, 2)).sum().backward()


def test_results_in_tuples_lists_and_dicts_keep_their_type() -> None:
    class Many(nn.Module):
        def __init__(self, make: Any) -> None:
            super().__init__()
            self.make = make

        def forward(self, x: gt.Tensor) -> Any:
            return self.make(x * 2, x * 3)

    x = gt.ones(1, requires_grad=True)
    for make in (lambda a, b: (a, b), lambda a, b: [a, b], lambda a, b: {"a": a, "b": b}):
        module, seen = Many(make), []
        module.register_full_backward_hook(lambda m, given, got: seen.append(got))
        found = module(x)
        assert type(found) is type(make(x, x))
        parts = list(found.values()) if isinstance(found, dict) else found
        (parts[0] + parts[1] * 5).sum().backward()
        assert [[g.item() for g in got] for got in seen] == [[1.0, 5.0]]
    module = Many(lambda a, b: "text")
    module.register_full_backward_hook(lambda m, given, got: None)
    with pytest.warns(UserWarning, match="no backward hook of Many is called"):
        assert module(x) == "text"


def test_a_handle_is_copied_and_stored_with_its_module() -> None:
    net = nn.Linear(1, 1)
    net.handle = net.register_forward_hook(_doubled)
    assert net.handle.id in net.handle.hooks_dict_ref()
    for made in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        made.handle.remove()
        assert not made._forward_hooks and len(net._forward_hooks) == 1
    left = net.handle
    del net
    gc.collect()
    assert left.hooks_dict_ref() is None
    pickle.loads(pickle.dumps(left)).remove()


def _doubled(module: Any, args: Any, result: gt.Tensor) -> gt.Tensor:
    return result * 2


def test_a_wrong_number_of_gradients_is_refused() -> None:
    module = Scaled()
    module.register_full_backward_hook(lambda m, given, got: (given[0], given[0]))
    x = gt.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match="return None or 1 gradients for grad_input"):
        module(x).sum().backward()
    assert x.grad is None


def test_second_derivatives_pass_through_hooks() -> None:
    module = Scaled()
    module.register_full_backward_hook(lambda m, given, got: (given[0] ** 2,))
    x = gt.tensor([3.0], requires_grad=True)
    (grad,) = gt.autograd.grad((module(x) ** 2).sum(), x, create_graph=True)
    assert grad.tolist() == [(8.0 * 3) ** 2]
    grad.sum().backward()  # this gradient passes through the module, and so the hook, again
    assert x.grad.tolist() == [(2 * 64.0 * 3) ** 2]


def test_a_state_has_what_a_module_keeps_beside_tensors() -> None:
    net = nn.Sequential(Scaled(), nn.Linear(1, 1))
    net[0].count = 5
    state = net.state_dict()
    assert list(state) == ["0._extra_state", "1.weight", "1.bias"] and state["0._extra_state"] == 5
    other = nn.Sequential(Scaled(), nn.Linear(1, 1))
    assert other.load_state_dict(state).missing_keys == [] and other[0].count == 5
    del state["0._extra_state"]
    with pytest.raises(RuntimeError, match="missing 0._extra_state"):
        other.load_state_dict(state)
    with pytest.raises(RuntimeError, match="unexpected _extra_state"):
        nn.Linear(1, 1).load_state_dict(nn.Linear(1, 1).state_dict() | {"_extra_state": 1})


def test_hooks_see_a_state_as_it_is_stored_and_loaded() -> None:
    net, seen = nn.Sequential(nn.Linear(1, 1)), []
    net[0].register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("pre", prefix, keep)))
    net[0].register_state_dict_post_hook(
        lambda m, state, prefix, metadata: state.pop(f"{prefix}bias")
    )
    state = net.state_dict()
    assert list(state) == ["0.weight"] and seen == [("pre", "0.", False)]
    with pytest.raises(RuntimeError, match="missing 0.bias"):
        net.load_state_dict(state)
    net.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    assert net.load_state_dict(state).missing_keys == []
    net.register_load_state_dict_post_hook(lambda m, keys: keys)
    with pytest.raises(RuntimeError, match="return None"):
        net.load_state_dict(state)


def test_a_module_is_put_at_a_path() -> None:
    net = nn.Sequential(nn.Sequential(nn.Linear(1, 1)))
    new = nn.ReLU()
    net.set_submodule("0.0", new)
    assert net[0][0] is new
    net.set_submodule("0.extra", nn.Tanh())
    assert type(net[0].extra) is nn.Tanh
    with pytest.raises(AttributeError):
        net.set_submodule("0.none", nn.Tanh(), strict=True)
    with pytest.raises(TypeError, match="'module' must be a Module"):
        net.set_submodule("0.0", 1)


def test_casts_sharing_and_compile_keep_the_module() -> None:
    net = nn.Linear(2, 2)
    assert net.type(gt.float64) is net and net.weight.dtype is gt.float64
    assert net.share_memory() is net and net.weight.is_shared() and net.compile() is None


def test_a_second_derivative_calls_no_full_backward_hook_again() -> None:
    calls: list[int] = []
    loss = gt.nn.MSELoss()
    loss.register_full_backward_hook(lambda *args: calls.append(1))
    x, y = gt.rand(3, requires_grad=True), gt.rand(3)
    (first,) = gt.autograd.grad(loss(x, y), x, create_graph=True)
    assert calls == [1]
    gt.autograd.grad(first.sum(), x)
    assert calls == [1]
    made = loss(x, y)
    made.backward(retain_graph=True)
    made.backward()
    assert calls == [1, 1, 1]
