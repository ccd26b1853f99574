"""_generated/register.py: which kernel serves which operator, one literal line per registration."""

from __future__ import annotations

from . import check_kernels, emit_autocast, emit_autograd, emit_kernels
from .model import DEVICES, Model, Op
from .text import indent, module, wrap

DOC = """Every registration of our own kernels; `install` runs once, when gputensor is imported."""

HEAD = """from typing import Any

from ..dispatch.dispatcher import register_kernel as _register_kernel
from ..dispatch.keys import key as _key
from ..dispatch.operator import caller_site as _caller_site
{families}
from . import autocast, autograd, backend_select, inplace_or_view
from . import operators as _ops"""

HELPERS = '''def impl(operator: Any, keys: str, kernel: Any) -> None:
    """Register a kernel at one key or several; the table dump shows the calling line."""
    site = _caller_site()
    for name in keys.split(", "):
        _register_kernel(operator, _key(name), kernel, "native", site)
        if name == "CUDA":
            _note(operator, kernel.__module__, "", kernel, site)


def pass_over(operator: Any) -> None:
    """Let calls go past the autograd keys, where others have none and say so."""
    _register_kernel(operator, _key("Autograd"), None, "fallthrough", _caller_site())


def bind(operator: Any, factory: Any, loop: str) -> None:
    """Register what a family's factory makes: a kernel for all devices, or (CPU's, others')."""
    site = _caller_site()
    made = factory(operator, loop)
    cpu, others = made if type(made) is tuple else (made, made)
    _register_kernel(operator, _key("CPU"), cpu, "native", site)
    _register_kernel(operator, _key("CUDA"), others, "native", site)
    _register_kernel(operator, _key("Meta"), others, "native", site)
    _note(operator, factory.__module__, loop, others, site)


# family -> (operator, loop or "", kernel for every device but the CPU, site of its registration):
# what gputensor/devices/backend.py registers for a further device.
further: dict[str, list[tuple[Any, str, Any, str]]] = {}


def _note(operator: Any, module: str, loop: str, kernel: Any, site: str) -> None:
    further.setdefault(module.rpartition(".")[2], []).append((operator, loop, kernel, site))'''


def register(model: Model) -> str:
    lines = ["def install() -> None:"]
    for family in model.families():
        lines.append(f"    # --- {family} ---")
        for op in model.ops:
            if op.family == family:
                lines += indent(_own(op))
    for key, module_name, ops in (
        ("BackendSelect", "backend_select", emit_kernels.selected(model)),
        ("ADInplaceOrView", "inplace_or_view", emit_kernels.versioned(model)),
        ("Autograd", "autograd", emit_autograd.recorded(model)),
    ):
        lines.append(f"    # --- {key} ---")
        for op in ops:
            lines += indent(_impl(op, key, f"{module_name}.{op.identifier}"))
    lines.append("    # --- Autocast ---")
    for op, kernel, keys in emit_autocast.registered(model):
        lines += indent(_impl(op, keys, f"autocast.{kernel}"))
    lines.append("    # --- Autograd has nothing to do: no result has a derivative ---")
    for op in emit_autograd.passed_over(model):
        lines.append(f"    pass_over(_ops.{op.identifier})")
    families = sorted({op.family for op in model.ops if _own(op)})
    imports = "\n".join(wrap("from ..native import (", families, ")"))
    return module(DOC, HEAD.format(families=imports), HELPERS, "\n".join(lines))


def _own(op: Op) -> list[str]:
    """Registrations of the operator's own kernels; none where a backend brings one."""
    if op.dispatch is None:
        if check_kernels.defines(op.family, op.identifier):
            return _impl(op, ", ".join(DEVICES), f"{op.family}.{op.identifier}")
        kernel = f"{op.family}.{op.kernel_factory}"
        return wrap("bind(", [f"_ops.{op.identifier}", kernel, f'"{op.loop}"'], ")")
    found = []
    for name in op.natives:
        keys = ", ".join(key for key, value in op.dispatch.items() if value == name)
        found += _impl(op, keys, f"{op.family}.{name}")
    return found


def _impl(op: Op, keys: str, kernel: str) -> list[str]:
    return wrap("impl(", [f"_ops.{op.identifier}", f'"{keys}"', kernel], ")")
