"""_generated/register.py: which kernel serves which operator, one literal line per registration."""

from __future__ import annotations

from . import check_kernels, emit_kernels
from .model import DEVICES, Model, Op
from .text import module

DOC = """Every registration of gputensor's own kernels; `install` runs once, when gputensor is imported."""

HEAD = '''from typing import Any

from ..dispatch.dispatcher import register_kernel as _register_kernel
from ..dispatch.keys import key as _key
from ..dispatch.operator import caller_site as _caller_site
from ..native import {families}
from . import backend_select, inplace_or_view
from . import operators as _ops'''

HELPERS = '''def impl(operator: Any, keys: str, kernel: Any) -> None:
    """Register a kernel at one key or several; the table dump shows the calling line."""
    site = _caller_site()
    for name in keys.split(", "):
        _register_kernel(operator, _key(name), kernel, "native", site)


def bind(operator: Any, factory: Any, loop: str) -> None:
    """Register what a family's factory makes of a loop: a kernel for all devices, or (CPU's, others')."""
    site = _caller_site()
    made = factory(operator, loop)
    cpu, others = made if type(made) is tuple else (made, made)
    _register_kernel(operator, _key("CPU"), cpu, "native", site)
    _register_kernel(operator, _key("CUDA"), others, "native", site)
    _register_kernel(operator, _key("Meta"), others, "native", site)'''


def register(model: Model) -> str:
    lines = ["def install() -> None:"]
    for family in model.families():
        lines.append(f"    # --- {family} ---")
        for op in model.ops:
            if op.family == family:
                lines += [f"    {line}" for line in _lines(op)]
    lines.append("    # --- BackendSelect ---")
    for op in emit_kernels.selected(model):
        lines.append(f'    impl(_ops.{op.identifier}, "BackendSelect", backend_select.{op.identifier})')
    lines.append("    # --- ADInplaceOrView ---")
    for op in emit_kernels.versioned(model):
        lines.append(f'    impl(_ops.{op.identifier}, "ADInplaceOrView", inplace_or_view.{op.identifier})')
    head = HEAD.format(families=", ".join(sorted(_used(model))))
    return module(DOC, head, HELPERS, "\n".join(lines))


def _used(model: Model) -> set[str]:
    return {op.family for op in model.ops if _lines(op)}


def _lines(op: Op) -> list[str]:
    if op.dispatch is None:
        if check_kernels.defines(op.family, op.identifier):
            return [f'impl(_ops.{op.identifier}, "{", ".join(DEVICES)}", {op.family}.{op.identifier})']
        return [f'bind(_ops.{op.identifier}, {op.family}.{op.kernel_factory}, "{op.loop}")']
    found = []
    for name in op.natives:
        keys = ", ".join(key for key, value in op.dispatch.items() if value == name)
        found.append(f'impl(_ops.{op.identifier}, "{keys}", {op.family}.{name})')
    return found
