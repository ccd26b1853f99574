"""gt.autograd.graph against torch.autograd.graph: edges, and hooks of several gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle


def _leaves(t: Any) -> tuple[Any, Any]:
    return t.arange(1.0, 4.0).requires_grad_(), t.full((3,), 2.0, requires_grad=True)


def all_of_several(t: Any) -> Any:
    a, b = _leaves(t)
    c, d = a * b, a * b
    log: list[Any] = []
    graph = t.autograd.graph
    handle = graph.register_multi_grad_hook(
        (a, b, c, d), lambda grads: log.append([None if g is None else g.tolist() for g in grads])
    )
    c.sum().backward(retain_graph=True)
    c.sum().backward(inputs=(a,), retain_graph=True)
    (c.sum() + d.sum()).backward(inputs=(b,), retain_graph=True)
    handle.remove()
    c.sum().backward()
    return log


def the_first(t: Any) -> Any:
    a, b = _leaves(t)
    c = (a * b).exp()
    log: list[Any] = []
    t.autograd.graph.register_multi_grad_hook(
        (a, c, t.ones(2)), lambda grad: log.append(grad.tolist()), mode="any"
    )
    c.sum().backward(retain_graph=True)
    c.sum().backward()
    return log


def nested(t: Any) -> Any:
    a, b = _leaves(t)
    log: list[Any] = []

    def hook(grads: Any) -> None:
        log.append([None if g is None else g.tolist() for g in grads])
        if len(log) == 1:
            with t.enable_grad():
                other = (a * 3).sum()
            other.backward(inputs=(a,))

    t.autograd.graph.register_multi_grad_hook((a, a * 1), hook)
    t.autograd.graph.register_multi_grad_hook((a, b), hook)
    (a * b).sum().backward()
    return log, a.grad.tolist()


def edges(t: Any) -> Any:
    a, b = _leaves(t)
    c = a * b
    d = c.sin().sum()
    graph, grad = t.autograd.graph, t.autograd.grad
    middle, leaf, end = (graph.get_gradient_edge(x) for x in (c, a, d))
    found = [
        *grad(d, middle, retain_graph=True), *grad(d, (leaf, b), retain_graph=True),
        *grad((end,), (a,), grad_outputs=(t.ones(()),), retain_graph=True),
        *grad(c, a, t.ones(3), retain_graph=True),
    ]  # fmt: skip
    d.backward(inputs=(a,), retain_graph=True)
    t.autograd.backward(end, t.ones(()))
    return [x.tolist() for x in (*found, a.grad, b.grad)], middle.output_nr


def written_to(t: Any) -> Any:
    a, b = _leaves(t)
    with t.autograd.graph.allow_mutation_on_saved_tensors():
        c = a * 2
        d = (c * c * b).sum()
        c.sin_()
        d.backward()
    return a.grad.tolist(), b.grad.tolist()


def versions(t: Any) -> Any:
    x, y = t.ones(2), t.ones(3)
    view = x[:1]
    t.autograd.graph.increment_version(x)
    t.autograd.graph.increment_version((x, y))
    return x._version, view._version, y._version


@pytest.mark.parametrize(
    "program", [all_of_several, the_first, nested, edges, written_to, versions],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_programs_agree(program: Callable[[Any], Any]) -> None:
    assert _rounded(program(gt)) == _rounded(program(torch))


def _rounded(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [_rounded(y) for y in x]
    return round(x, 4) if isinstance(x, float) else x


@pytest.mark.parametrize("t", [gt, torch], ids=["ours", "theirs"])
def test_what_is_refused(t: Any) -> None:
    graph = t.autograd.graph
    with pytest.raises(RuntimeError):
        graph.get_gradient_edge(t.ones(2))
    with pytest.raises((RuntimeError, ValueError)):
        graph.register_multi_grad_hook((t.ones(2, requires_grad=True),), print, mode="some")
    a, _ = _leaves(t)
    with pytest.raises(RuntimeError):
        t.autograd.backward(graph.get_gradient_edge(a.sin()))
    c = (a * a).sum()
    with t.no_grad():
        graph.increment_version(a)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        c.backward()
