"""Text of registrations/_generated/<family>.py: the registrations and derivatives of a family.

Each operator has one row. The kernels that do not depend on a signature are made by
gputensor/makers when a slot of a dispatch table is computed.
"""

from __future__ import annotations

import re

from .. import check_kernels, paths
from ..model import AUTOCAST_DEVICES, DEVICES, NAMESPACE, Model, Op
from ..text import WIDTH, imported, imports, indent, joined, module, wrap
from . import nodes

# Imports that a module may need.
IMPORTED = (
    "from ...autograd.formulas.views import geometry as _geometry",
    "from ...autograd.formulas.views import shapes as _shapes",
    "from ...autograd.node import FREED as _FREED",
    "from ...autograd.node import Node as _Node",
    "from ...autograd.saved import save as _save",
    "from ...autograd.saved import save_copy as _save_copy",
    "from ...autograd.saved import save_number as _kept",
    "from ...autograd.saved import save_or_recompute as _save_or_recompute",
    "from ...core.arguments import NUMBERS as _PLAIN",
    "from ...structured import forms as _forms",
)


def kernels(model: Model, family: str) -> str:
    """Return the module of a family's registrations and derivatives."""
    names = nodes.node_names(model)
    found = nodes.nodes(model, family)
    rows = [line for op in model.ops if op.family == family for line in _row(op, names)]
    classes = [joined(lines) for lines in found.classes]
    composed = [joined(_composed(op)) for op in model.ops if op.family == family and op.composition]
    written = "\n".join([*rows, *classes])
    used = set(re.findall(r"\w+", written))
    homes = check_kernels.formulas(found.formulas)
    lines: list[str] = [imported(f"...{home}", taken) for home, taken in homes.items()]
    lines += [*imports(IMPORTED, written), imported("..rows", sorted(used & ROWS))]
    home, _, name = paths.dotted(paths.native(family)).rpartition(".")
    lines += [f"from ...{home} import {name} as native"] if "native" in used else []
    lines += ["from ..._generated import calls"] if composed else []
    is_apart = any(op.namespace != NAMESPACE for op in model.ops)
    home = f".families import {family}" if is_apart else " import operators"
    lines.append(f"from ..._generated{home} as _ops")
    install = joined(["def install() -> None:", *indent(rows)])
    where = paths.native(family).relative_to(paths.PACKAGE).as_posix()
    doc = f"Registrations of the operators of {where}, and their derivatives."
    return module(doc, joined(lines), *composed, install, *classes)


def _composed(op: Op) -> list[str]:
    """Return the source lines of a kernel that returns the expression in `dispatch`."""
    returned = nodes.line("return ", op.composition, "", WIDTH - 4)
    head = wrap(f"def _{op.identifier}(", ["key_set", *op.parameters], "):")
    return [*head, *indent(returned)]


# --- rows -----------------------------------------------------------------------------------------

# Functions of registrations/rows.py, which register an operator.
ROWS = {
    "impl", "bind", "forwards", "out_of", "selects", "counts", "tracks", "replays",
    "copied", "refuses_out", "refuses_resize", "passes", "casts",
}  # fmt: skip


def _row(op: Op, names: dict[str, str]) -> list[str]:
    # an operator of another namespace is defined in the module of its family
    prefix = "" if op.namespace == NAMESPACE else "op_"
    operator = f"_ops.{prefix}{op.identifier}"
    if op.is_forward:
        return _call("forwards", operator, f"_ops.{op.follows}")
    rules = _rules(op, names)
    if op.dispatch is None and not check_kernels.defines(op.family, op.identifier):
        return _call("bind", operator, f"native.{op.kernel_factory}", f'"{op.loop}"', *rules)
    if op.dispatch == {}:
        return _call("impl", operator, '""', "None", *rules)
    at = op.dispatch or dict.fromkeys(DEVICES, op.identifier)
    kernels = dict.fromkeys(at.values())
    rows = [
        (f'"{", ".join(key for key in at if at[key] == name)}"', _kernel(op, name))
        for name in kernels
    ]
    form = f"_forms.out({', '.join(_followed(op))})"
    if rows == [('"CompositeExplicitAutograd"', form)] and rules == ["counts", "refuses_out"]:
        return _call("out_of", operator, *_followed(op))
    lines = [line for row in rows[:-1] for line in _call("impl", operator, *row)]
    loop = [f'loop="{op.loop}"'] if op.loop != op.base.rstrip("_") and "CUDA" in at else []
    return lines + _call("impl", operator, *rows[-1], *rules, *loop)


def _kernel(op: Op, name: str) -> str:
    """Return an expression for the kernel: a function of native/<family>.py, or a kernel that is
    made from another operator's kernel."""
    if not op.follows:
        return f"_{op.identifier}" if name == op.composition else f"native.{name}"
    if check_kernels.defines(op.family, op.identifier):
        return f"native.{op.identifier}"
    return f"_forms.{name}({', '.join(_followed(op))})"


def _followed(op: Op) -> list[str]:
    """Return the arguments for `_forms.NAME(...)` or `out_of(...)` as source text: the operator
    whose kernel `op` uses and, if there are several results, their number."""
    outs = len(op.schema.returns)
    return [f"_ops.{op.follows}", *([str(outs)] if outs > 1 else [])]


def _call(function: str, *given: str) -> list[str]:
    return wrap(f"{function}(", given, ")")


def _rules(op: Op, names: dict[str, str]) -> list[str]:
    """Return the rules for kernels at the keys above the backend's, from BackendSelect to
    Autocast."""
    found = []
    if op.is_factory:
        found.append("selects")
    if not op.is_implicit:
        if any(argument.is_write for argument in op.arguments):
            found.append("counts")
        elif is_view(op):
            found.append("replays" if op.replay else "tracks")
        found.append(_autograd(op, names))
    policies = dict.fromkeys(op.autocast.values())
    if policies:
        listed = [f'{device}="{policy}"' for device, policy in op.autocast.items()]
        if len(policies) == 1 and len(listed) == len(AUTOCAST_DEVICES):
            listed = [f'"{policy}"' for policy in policies]
        found.append(f"casts({', '.join(listed)})")
    return found


def _autograd(op: Op, names: dict[str, str]) -> str:
    if op.derivatives:
        name = names[op.name]
        return f"copied({name.removesuffix('_copy')})" if name.endswith("_copy") else name
    if op.kind == "out":
        return "refuses_out"
    return "refuses_resize" if op.kind == "inplace" and "reads_storage" in op.tags else "passes"


def is_view(op: Op) -> bool:
    """Return True if the result is a differentiable view. The result of `detach` is not
    differentiable."""
    aliases = bool(op.schema.returns) and bool(op.schema.returns[0].type.aliases)
    return bool(op.derivatives) and op.kind == "functional" and aliases
