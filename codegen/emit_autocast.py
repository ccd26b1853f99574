"""_generated/autocast.py: kernels of the Autocast keys, one per operator and policy."""

from __future__ import annotations

from .model import AUTOCAST_DEVICES, Model, Op, parameter
from .text import indent, module, wrap

DOC = """Kernels of the Autocast keys: they cast as native_functions.yaml says, and call again.

A call goes on without the key of the device whose kernel runs, so what it calls is not cast."""

IMPORTS = """{casting}
from ..core.dtype import float32 as _float32
from ..dispatch.tls import state as _state
from . import calls as _calls"""

NAMES = (
    "AUTOCAST as _AUTOCAST", "cast as _cast", "cast_any as _cast_any", "cast_list as _cast_list",
    "device_of as _device_of", "is_eligible as _is_eligible", "widest as _widest",
)  # fmt: skip


def autocast(model: Model) -> str:
    kernels = [
        "\n".join(_kernel(model, op, policy)) for op in _cast_ops(model) for policy in _policies(op)
    ]
    text = "\n".join(kernels)
    names = [
        name
        for name in NAMES
        if f"{name.split()[-1]}(" in text or f"{name.split()[-1]}[" in text or "AUTO" in name
    ]
    imports = "\n".join(wrap("from ..amp.casting import (", names, ")"))
    return module(DOC, IMPORTS.format(casting=imports), _table(model), *kernels)


def registered(model: Model) -> list[tuple[Op, str, str]]:
    """(operator, kernel's name, its keys) of every registration."""
    found = []
    for op in _cast_ops(model):
        for policy in _policies(op):
            keys = [
                f"Autocast{device}" for device, chosen in op.autocast.items() if chosen == policy
            ]
            found.append((op, _name(op, policy), ", ".join(keys)))
    return found


def _cast_ops(model: Model) -> list[Op]:
    return [op for op in model.ops if op.autocast]


def _policies(op: Op) -> list[str]:
    return list(dict.fromkeys(op.autocast.values()))


def _name(op: Op, policy: str) -> str:
    """The operator's; with the policy where it has several."""
    return op.identifier if len(_policies(op)) == 1 else f"{op.identifier}_{policy}"


def _table(model: Model) -> str:
    lines = ["# Device type -> operator -> (policy, kernel's name).", "POLICIES = {"]
    for device in AUTOCAST_DEVICES:
        lines.append(f'    "{device}": {{')
        for op in _cast_ops(model):
            if device in op.autocast:
                policy = op.autocast[device]
                lines.append(f'        "aten::{op.name}": ("{policy}", "{_name(op, policy)}"),')
        lines.append("    },")
    return "\n".join([*lines, "}"])


def _kernel(model: Model, op: Op, policy: str) -> list[str]:
    """The function. Tensors keep their names, so that the call reads as the operator's own."""
    head = wrap(f"def {_name(op, policy)}(", ["key_set", *op.parameters], "):")
    first = parameter(op.tensors[0].name)
    called, given = op.identifier, list(op.parameters)
    if policy == "fp32_set_opt_dtype":
        body = [f"if dtype is None and _is_eligible({first}, device):", "    dtype = _float32"]
    elif policy == "fp32_append_dtype":
        target = model.with_dtype(op)
        assert target is not None
        called = target.identifier
        given.append(f"_float32 if _is_eligible({first}, device) else {first}.dtype")
        body = []
    else:
        to = {"fp32": "_float32", "lower_precision_fp": "device.dtype.get()"}.get(policy)
        if to is None:
            listed = [
                f"*{parameter(a.name)}" if a.type.required.is_list else parameter(a.name)
                for a in op.tensors
            ]
            to = f"_widest(device, {', '.join(listed)})"
        body = [f"to = {to}", *(_cast(op, argument) for argument in op.tensors)]
    return [
        *head,
        f'    """{policy}"""',
        "    device = _device_of[key_set & _AUTOCAST]",
        "    include, keep = _state.get()",
        "    try:",
        "        _state.set((include, keep & ~device.key))",
        *indent([*body, *wrap(f"return _calls.{called}(", given, ")")], 8),
        "    finally:",
        "        _state.set((include, keep))",
    ]


def _cast(op: Op, argument: object) -> str:
    name, form = parameter(argument.name), argument.type  # type: ignore[attr-defined]
    function = "_cast"
    if form.required.is_list:
        function = "_cast_list"
    elif form.is_optional or op.numbers:
        function = "_cast_any"
    return f"{name} = {function}({name}, to, device)"
