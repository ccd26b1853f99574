"""Hooks that apply to all modules, and hooks that run even after an error, against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

MODULES = ((gt, "gputensor.nn.modules.hooks"), (torch, "torch.nn.modules.module"))


def _net(t: Any) -> Any:
    net = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Tanh())
    with t.no_grad():
        for p in net.parameters():
            p.fill_(0.5)
    return net


def _all(t: Any, m: Any, log: list[Any]) -> list[Any]:
    def said(what: str) -> Callable[..., None]:
        return lambda module, *rest: log.append((what, type(module).__name__, len(rest)))

    return [
        m.register_module_forward_pre_hook(said("before")),
        m.register_module_forward_hook(said("after")),
        m.register_module_forward_hook(said("with kwargs"), with_kwargs=True),
        m.register_module_full_backward_pre_hook(said("before backward")),
        m.register_module_full_backward_hook(said("backward")),
    ]


def of_every_module(t: Any, m: Any, log: list[Any]) -> Any:
    net = _net(t)
    net[0].register_forward_pre_hook(lambda module, args: log.append("own before"))
    net[0].register_forward_hook(lambda module, args, result: log.append("own after"))
    handles = _all(t, m, log)
    x = t.ones(1, 2, requires_grad=True)
    net(x).sum().backward()
    for handle in handles:
        handle.remove()
    net(x)
    return log, x.grad.tolist()


def replaced(t: Any, m: Any, log: list[Any]) -> Any:
    net = _net(t)
    kinds = (t.nn.Linear, t.nn.Tanh)
    with m.register_module_forward_pre_hook(
        lambda module, args: (args[0] * 2,) if isinstance(module, kinds) else None
    ), m.register_module_forward_hook(
        lambda module, args, result: result + 1 if isinstance(module, kinds) else None
    ):  # fmt: skip
        return net(t.ones(1, 2)).tolist()


def registered(t: Any, m: Any, log: list[Any]) -> Any:
    def said(what: str) -> Callable[..., None]:
        return lambda module, name, value: log.append((what, type(module).__name__, name))

    def doubled(module: Any, name: str, value: Any) -> Any:
        return t.nn.Parameter(value.detach() * 2)

    handles = [
        m.register_module_parameter_registration_hook(said("parameter")),
        m.register_module_buffer_registration_hook(said("buffer")),
        m.register_module_module_registration_hook(said("module")),
    ]
    net = t.nn.Module()
    net.inner = t.nn.Linear(1, 1, bias=False)
    net.w = t.nn.Parameter(t.ones(1))
    net.register_buffer("b", t.zeros(1))
    for handle in handles:
        handle.remove()
    with m.register_module_parameter_registration_hook(doubled):
        net.v = t.nn.Parameter(t.ones(1))
    return log, net.v.tolist()


def always(t: Any, m: Any, log: list[Any]) -> Any:
    class Fails(t.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            raise KeyError("forward")

    net = Fails()
    net.register_forward_hook(lambda *given: log.append(("own", given[2])), always_call=True)
    net.register_forward_hook(lambda *given: log.append("never"))
    with m.register_module_forward_hook(
        lambda *given: log.append(("every", given[2])), always_call=True
    ), pytest.raises(KeyError):  # fmt: skip
        net(1)
    good = t.nn.Identity()
    good.register_forward_hook(lambda *given: log.append("once"), always_call=True)

    def fails(*given: Any) -> None:
        raise ValueError("hook")

    good.register_forward_hook(fails)
    good.register_forward_hook(lambda *given: log.append("behind"), always_call=True)
    with pytest.raises(ValueError, match="hook"):
        good(1)
    net.register_forward_hook(fails, always_call=True)
    with pytest.raises(KeyError), pytest.warns(UserWarning, match="raised"):
        net(1)
    return log


@pytest.mark.parametrize(
    "program", [of_every_module, replaced, registered, always], ids=lambda f: f.__name__
)
def test_programs_agree(program: Callable[..., Any]) -> None:
    ours, theirs = [program(t, import_module(name), []) for t, name in MODULES]
    assert _rounded(ours) == _rounded(theirs)


def _rounded(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [_rounded(y) for y in x]
    return round(x, 4) if isinstance(x, float) else x
