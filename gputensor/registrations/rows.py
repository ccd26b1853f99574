"""Functions that the rows of `_generated/<family>.py` call. One row registers one operator:

    impl(_ops.view, "CPU, CUDA, Meta", native.view, tracks, ViewBackward0)

A row lists the operator's own kernel, followed by the kernels at higher dispatch keys. A dump of a
dispatch table shows the row's file and line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..autograd.node import Node
from ..core.device import AUTOCAST_DEVICES
from ..dispatch.dispatcher import register_kernel
from ..dispatch.keys import key
from ..dispatch.operator import Operator, caller_site
from ..structured import forms, library
from ..makers import autocast, autograd, backend_select, further, inplace_or_view

AUTOGRAD = key("Autograd")
IMPLICIT = key("CompositeImplicitAutograd")
EXPLICIT = key("CompositeExplicitAutograd")

# Either a node class, or a function that registers a kernel. The function is called with the
# operator, and with the file and line of the row.
Rule = Callable[[Operator, str], None] | type[Node]

# For each operator that was registered by `bind`: (kernel factory, loop). Fusion reads this table.
bound: dict[Operator, tuple[Any, str]] = {}


def impl(operator: Operator, keys: str, kernel: Any, *rules: Rule, loop: str = "") -> None:
    """Register a kernel at one or several keys. If `keys` is empty, only devices from other
    packages have kernels.

    loop: the stub's op for devices from other packages, if it differs from the operator's name.
    """
    site = caller_site()
    for name in filter(None, keys.split(", ")):
        register_kernel(operator, key(name), kernel, "native", site)
        if name == "CUDA" and not _is_of_a_library(kernel):
            further.offer(kernel.__module__, (operator, loop, kernel, site))
    _apply(rules, operator, site)


def _is_of_a_library(kernel: Any) -> bool:
    """Return True for a kernel that calls NumPy or CuPy, which devices from other packages cannot
    use. A module of such kernels defines the name BY_LIBRARY."""
    return kernel.__module__ == library.__name__ or hasattr(
        sys.modules[kernel.__module__], "BY_LIBRARY"
    )


def bind(operator: Operator, factory: Any, loop: str, *rules: Rule) -> None:
    """Register the kernel that a family's factory makes: one kernel for all devices, or a pair of
    the CPU's kernel and the kernel of all other devices.
    """
    site = caller_site()
    bound[operator] = (factory, loop)
    made = factory(operator, loop)
    cpu, others = made if type(made) is tuple else (made, made)
    register_kernel(operator, key("CPU"), cpu, "native", site)
    register_kernel(operator, key("CUDA"), others, "native", site)
    register_kernel(operator, key("Meta"), others, "native", site)
    further.offer(factory.__module__, (operator, loop, others, site))
    _apply(rules, operator, site)


def copied(kind: type[Node]) -> type[Node]:
    """Return the node class of an operator that copies a view, such as view_copy. It is a subclass
    of the view's node class `kind` and has the same derivative."""
    space = {"__slots__": (), "__module__": kind.__module__}
    return type(f"{kind.__name__}_copy", (kind,), space)


def forwards(operator: Operator, of: Operator) -> None:
    """Register a kernel of `operator` that calls `of`, an operator with the same arguments. Rows
    use this for overloads and for operators with several names."""

    def forward(key_set: int, *args: Any) -> Any:
        return of.table[key_set](key_set, *args)

    register_kernel(operator, IMPLICIT, forward, "native", caller_site())


def out_of(operator: Operator, of: Operator, count: int = 1) -> None:
    """Register the kernels of an out form that calls `of` and copies its `count` results."""
    site = caller_site()
    register_kernel(operator, EXPLICIT, forms.out(of, count), "native", site)
    _apply((counts, refuses_out), operator, site)


def _apply(rules: tuple[Rule, ...], operator: Operator, site: str) -> None:
    for rule in rules:
        if isinstance(rule, type):
            register_kernel(operator, AUTOGRAD, autograd.records(rule), "maker", site)
        else:
            rule(operator, site)


# --- rules ----------------------------------------------------------------------------------------


def _rule(name: str, make: autograd.Maker) -> Rule:
    at = key(name)

    def rule(operator: Operator, site: str) -> None:
        register_kernel(operator, at, make, "maker", site)

    return rule


selects: Rule = _rule("BackendSelect", backend_select.selects)
counts: Rule = _rule("ADInplaceOrView", inplace_or_view.counts)
tracks: Rule = _rule("ADInplaceOrView", inplace_or_view.tracks)
replays: Rule = _rule("ADInplaceOrView", inplace_or_view.replays)
refuses_out: Rule = _rule("Autograd", autograd.refuses_out)
refuses_resize: Rule = _rule("Autograd", autograd.refuses_resize)


def passes(operator: Operator, site: str) -> None:
    """Register a fallthrough at the Autograd keys, for an operator without differentiable results.

    The keys of devices from other packages use the fallback.
    """
    register_kernel(operator, AUTOGRAD, None, "fallthrough", site)


def casts(everywhere: str = "", **policies: str) -> Rule:
    """Return the rule for autocast. everywhere: the policy of all device types. policies: a policy
    for each device type, such as `casts(CPU="fp32")`."""
    chosen = policies or dict.fromkeys(AUTOCAST_DEVICES, everywhere)

    def rule(operator: Operator, site: str) -> None:
        for device, policy in chosen.items():
            at = f"Autocast{device}"
            register_kernel(operator, key(at), autocast.casts(policy), "maker", site)
            autocast.ship(at, operator.qualified_name, policy)

    return rule
