"""Hooks on tensors, nodes and accumulated gradients; retain_grad."""

from __future__ import annotations

import gc
import weakref

import pytest

import gputensor as gt


def leaf(*values: float):
    return gt.tensor([float(v) for v in values], requires_grad=True)


def test_tensor_hooks_see_and_replace_the_gradient() -> None:
    x = leaf(1, 2)
    y = x * 3
    first = y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: None)
    x.register_hook(lambda g: g + 1)
    y.sum().backward()
    assert x.grad.tolist() == [31, 31]
    first.remove()
    first.remove()
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [4, 4]


def test_hooks_that_return_something_else() -> None:
    x = leaf(1)
    x.register_hook(lambda g: 3)
    with pytest.raises(TypeError, match="hook"):
        (x * 1).sum().backward()
    with pytest.raises(RuntimeError, match="require grad"):
        gt.ones(1).register_hook(print)


def test_a_handle_is_a_context_manager() -> None:
    x = leaf(1)
    with x.register_hook(lambda g: g * 5):
        (x * 1).sum().backward()
    (x * 1).sum().backward()
    assert x.grad.item() == 6


def test_node_hooks() -> None:
    x, w = leaf(2), leaf(5)
    y = x * w
    seen = []
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    y.grad_fn.register_hook(lambda grads, behind: seen.append((len(grads), behind[0].item())))
    y.grad_fn.register_hook(lambda grads, behind: (grads[0] + 1, grads[1]))
    y.sum().backward()
    assert seen == [(2, 2)] and x.grad.item() == 11 and w.grad.item() == 4


def test_post_accumulate_grad_hooks() -> None:
    x = leaf(1, 2)
    seen = []

    def step(p):
        seen.append(p.grad.tolist())
        p.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * 2).sum().backward()
    assert seen == [[2, 2]] and x.grad is None
    with pytest.raises(RuntimeError, match="leaf"):
        (x * 2).register_post_accumulate_grad_hook(step)


def test_retain_grad() -> None:
    x = leaf(1, 2)
    y = x * 3
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    y.sum().backward()
    assert y.grad.tolist() == [2, 2]
    x.retain_grad()
    with pytest.raises(RuntimeError, match="require grad"):
        gt.ones(1).retain_grad()


def test_retain_grad_follows_a_write() -> None:
    x = leaf(1, 2)
    y = x.clone()
    y.retain_grad()
    before = []
    y.register_hook(lambda g: before.append(g.tolist()))
    y.mul_(2)
    y.sum().backward()
    assert y.grad.tolist() == [1, 1] and before == [[2, 2]]


def test_hooks_of_outputs_by_their_number() -> None:
    x = leaf(1, 2)
    a, b = x.unbind()
    a.register_hook(lambda g: g * 3)
    (a + b).backward()
    assert x.grad.tolist() == [3, 1]


def test_hooks_run_in_grad_too() -> None:
    x = leaf(1)
    x.register_hook(lambda g: g * 7)
    y = x * 2
    y.register_hook(lambda g: g * 3)
    assert gt.autograd.grad(y.sum(), x)[0].item() == 42
    y = x * 2
    y.register_hook(lambda g: g * 3)
    assert gt.autograd.grad(y.sum(), y)[0].item() == 3


def test_a_hook_that_removes_itself_keeps_nothing_alive() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf(1)
        y = x * 2
        handles = []
        handles.append(y.register_hook(lambda g: handles[0].remove()))
        node = weakref.ref(y.grad_fn)
        y.sum().backward()
        del y
        assert node() is None
    finally:
        gc.enable()


REPLACEMENTS = {
    "dtype": (lambda g: g.double(), RuntimeError, "has changed the type of value"),
    "sizes": (lambda g: gt.ones(1), RuntimeError, "has changed the size of value"),
    "device": (lambda g: g.to("meta"), RuntimeError, "has changed the type of value"),
    "number": (lambda g: 2.0, TypeError, "must return Tensors or None"),
}


@pytest.mark.parametrize("name", REPLACEMENTS)
@pytest.mark.parametrize("place", ["tensor", "leaf", "before", "after"])
def test_what_a_hook_may_not_change(name: str, place: str) -> None:
    replace, kind, says = REPLACEMENTS[name]
    x = leaf(1, 2)
    y = x * leaf(3, 4)
    if place == "tensor":
        y.register_hook(replace)
    elif place == "leaf":
        x.register_hook(replace)
    elif place == "before":
        y.grad_fn.register_prehook(lambda grads: (replace(grads[0]),))
    else:
        y.grad_fn.register_hook(lambda grads, behind: (replace(grads[0]), grads[1]))
    with pytest.raises(kind, match=says):
        y.sum().backward()
    assert x.grad is None


def test_a_nodes_hook_returns_as_many_gradients_as_there_were() -> None:
    for register in ("register_prehook", "register_hook"):
        for returned, kind in (((), RuntimeError), ((None,) * 3, RuntimeError), ([], TypeError)):
            y = leaf(1) * leaf(2)
            getattr(y.grad_fn, register)(lambda *grads, made=returned: made)
            with pytest.raises(kind, match="hook '<lambda>'"):
                y.sum().backward()


def test_a_hook_is_callable() -> None:
    y = leaf(1) * 2
    for register in (y.register_hook, y.grad_fn.register_hook, y.grad_fn.register_prehook,
                     leaf(1).register_post_accumulate_grad_hook):  # fmt: skip
        with pytest.raises(TypeError, match="'hook' must be callable"):
            register(5)


def test_hooks_of_a_frozen_leaf() -> None:
    """As in PyTorch, its hooks and its node's hooks run, and nothing is accumulated."""
    x, log = leaf(1), []
    x.register_hook(lambda g: log.append("tensor"))
    x.register_post_accumulate_grad_hook(lambda x: log.append("accumulated"))
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    node.register_prehook(lambda grads: log.append("before"))
    node.register_hook(lambda grads, behind: log.append(("after", behind[0].item())))
    x.requires_grad_(False)
    y.sum().backward()
    assert x.grad is None and log == ["tensor", "before", ("after", 2)]
