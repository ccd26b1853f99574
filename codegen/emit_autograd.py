"""_generated/derivatives.py, a node class per derivative, and _generated/autograd.py, which
records.

A formula of the YAML becomes a line of code as it stands, but for what it asks of an operand beyond
its elements (`self.shape`, `geometry(self)`): that is asked when the operation is recorded, so that
the operand need not be kept.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from .model import Model, Op, parameter
from .text import WIDTH, indent, module, wrap

NODES_DOC = """The derivatives: a node class for each formula of native_functions.yaml.

`backward` gives a gradient for each differentiable operand, in the order of the schema."""

NODES_IMPORTS = """from ..autograd.formulas import (
{formulas}
)
from ..autograd.node import FREED as _FREED
from ..autograd.node import Node as _Node"""

FORMULAS = (
    "abs_backward", "as_strided_backward", "cat", "cat_backward", "conj", "copy_backward",
    "diagonal_backward", "div_other_backward", "div_self_backward", "extremum_backward",
    "log_softmax_backward", "mean_backward", "nll_loss_backward", "nll_loss_double_backward",
    "permute_backward", "repeat_backward", "scaled", "select_backward", "slice_backward",
    "softmax_backward",
    "softmax_double_backward", "stack", "sum_backward", "sum_to_size", "threshold_backward",
    "unfold_backward", "view_as_complex", "view_as_real", "where", "zeros_like",
)  # fmt: skip

KERNELS_DOC = """Kernels of the Autograd keys: they record what has a derivative, then go on below.

A kernel looks first whether autograd knows its operands at all."""

KERNELS_IMPORTS = """from ..autograd.formulas import geometry as _geometry
from ..autograd.formulas import shapes as _shapes
from ..autograd.inplace_or_view import rebase_history as _rebase_history
from ..autograd.inplace_or_view import reshape_history as _reshape_history
from ..autograd.modes import below_autograd as _below_autograd
from ..autograd.saved import save as _save
from ..autograd.saved import save_result as _save_result
from ..autograd.variable import check_constant as _check_constant
from ..autograd.variable import check_out as _check_out
from ..autograd.variable import check_resize as _check_resize
from ..autograd.variable import record as _record
from ..autograd.variable import record_inplace as _record_inplace
from ..autograd.variable import record_unary as _record_unary
from ..autograd.variable import set_histories as _set_histories
from ..autograd.variable import set_history as _set_history
from ..core.arguments import NUMBERS
from ..dispatch.keys import below as _below
from ..dispatch.tls import state as _state
from ..tensor.tensor import Tensor as _Tensor
from . import calls as _calls
from . import derivatives as _nodes
from . import operators as _ops

_BELOW = _below("AutogradOther")"""

# Node classes are numbered as PyTorch's derivatives.yaml numbers the overloads; where ours are
# fewer.
NODE_NAMES = {
    "div.Tensor_mode": "DivBackward2", "fill_.Scalar": "FillBackward2",
    "fill_.Tensor": "FillBackward3",
    "copy_": "CopyBackwards", "nll_loss_forward": "NllLossBackward0",
}  # fmt: skip

# What a formula may ask of an operand at the time of the call.
_ASKED = re.compile(r"\b(?:(\w+)\.(shape|dtype|device|numel\(\))|(geometry|shapes)\((\w+)\))")


def recorded(model: Model) -> list[Op]:
    """Operators with a kernel at the Autograd keys."""
    return [op for op in model.ops if not op.is_implicit and _role(op)]


def passed_over(model: Model) -> list[Op]:
    """Operators that no Autograd kernel serves, nor a composite that is made of others."""
    return [op for op in model.ops if not op.is_implicit and not _role(op)]


def _role(op: Op) -> str:
    if op.derivatives:
        return "differentiable"
    if op.kind == "out":
        return "out"
    return "resize" if op.kind == "inplace" and op.family == "resize" else ""


def derivatives(model: Model) -> str:
    names = node_names(model)
    parts = ["\n".join(_node_class(op, names[op.name])) for op in model.ops if _own_formula(op)]
    used = set(re.findall(r"\w+", "\n".join(parts)))
    listed = wrap("", [name for name in FORMULAS if name in used], "")
    imports = NODES_IMPORTS.format(formulas="\n".join(indent(_lines(listed))))
    return module(NODES_DOC, imports, *parts)


def autograd(model: Model) -> str:
    names = node_names(model)
    kernels = ["\n".join(_kernel(op, names)) for op in recorded(model)]
    return module(KERNELS_DOC, KERNELS_IMPORTS, *kernels)


def _lines(listed: Sequence[str]) -> list[str]:
    return [line.strip() for line in listed if line.strip()]


def node_names(model: Model) -> dict[str, str]:
    """Operator -> the name of its node class; in-place forms share that of the functional one."""
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    for op in model.ops:
        if not op.derivatives:
            continue
        if not _own_formula(op):
            names[op.name] = names[op.source.name]  # type: ignore[union-attr]
            continue
        camel = "".join(part.capitalize() for part in op.base.strip("_").split("_"))
        number = counts.get(camel, 0)
        counts[camel] = number + 1
        names[op.name] = NODE_NAMES.get(op.name, f"{camel}Backward{number}")
    return names


def _own_formula(op: Op) -> bool:
    return bool(op.derivatives) and (op.source is None or not op.source.derivatives)


# --- node classes -------------------------------------------------------------------------------


class _Formula:
    """The derivative of one operand: its text, and what it takes from the call.

    asked: name of a value -> expression over the arguments. tensors: operands whose elements it
    needs. values: other arguments. others: results but the first, by name, with their number.
    """

    def __init__(self, op: Op, text: str) -> None:
        tensors = {argument.name for argument in op.tensors}
        self.asked: dict[str, str] = {}

        def ask(match: re.Match[str]) -> str:
            name, what, function, argument = match.groups()
            operand = name or argument
            if operand not in tensors:
                return match[0]
            made = f"{operand}_{(what or function).removesuffix('()')}"
            self.asked[made] = f"_{match[0]}" if function else match[0]
            return made

        self.text = _ASKED.sub(ask, text)
        tree = ast.parse(self.text, mode="eval")
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        known = [a for a in op.arguments if parameter(a.name) in names and a.name not in self.asked]
        self.tensors = [a.name for a in known if a.type.has_tensor]
        self.values = [a for a in known if not a.type.has_tensor]
        self.has_result = "result" in names
        self.others = {
            made.name: number
            for number, made in enumerate(op.schema.returns)
            if number and made.name in names
        }


def _formulas(op: Op) -> dict[str, _Formula]:
    """By operand, in the schema's order."""
    return {
        a.name: _Formula(op, op.derivatives[a.name])
        for a in op.arguments
        if a.name in op.derivatives
    }


def _saved(op: Op) -> list[str]:
    """Slots that hold tensors."""
    formulas = _formulas(op).values()
    found = [f"saved_{name}" for f in formulas for name in f.tensors]
    found += ["saved_result" for f in formulas if f.has_result]
    found += [f"saved_{name}" for f in formulas for name in f.others]
    return list(dict.fromkeys(found))


def _kept(op: Op) -> dict[str, str]:
    """Slot -> expression over the call's arguments, for what is not a tensor."""
    found: dict[str, str] = {}
    for formula in _formulas(op).values():
        for name, expression in formula.asked.items():
            found[f"saved_{name}"] = expression
        for argument in formula.values:
            name = parameter(argument.name)
            is_list = argument.type.required.is_list
            found[f"saved_{name}"] = (
                f"tuple({name}) if type({name}) is list else {name}" if is_list else name
            )
    return found


def _node_class(op: Op, name: str) -> list[str]:
    formulas = _formulas(op)
    saved, kept = _saved(op), list(_kept(op))
    slots = [*saved, *kept]
    listed = wrap(
        "__slots__ = (", [f'"{slot}"' for slot in slots], ",)" if len(slots) == 1 else ")"
    )
    if len(slots) == 1:
        listed = [f'__slots__ = ("{slots[0]}",)']
    lines = [f'"""Of {op.name}."""', "", *(listed if slots else ["__slots__ = ()"])]
    if saved:
        comma = "," if len(saved) == 1 else ""
        lines.append("saved = (" + ", ".join(f'"{slot}"' for slot in saved) + f"{comma})")
    grads = "*grads" if _returns_list(op) else "grad"
    lines += ["", f"def backward(node, {grads}):"]
    body = ["grads = node.zeros_for(grads)"] if grads == "*grads" else []
    takes_list = any(a.type.required.is_list for a in op.tensors if a.name in formulas)
    if len(formulas) == 1:
        (formula,) = formulas.values()
        body += _unpacked(formula)
        body.append(f"return {formula.text}" if takes_list else f"return ({formula.text},)")
    else:
        results = [f"grad_{operand}" for operand in formulas]
        body.append(f"{' = '.join(results)} = None")
        for number, (result, formula) in enumerate(zip(results, formulas.values())):
            body.append(f"if node.edges[{number}] is not None:")
            body += indent([*_unpacked(formula), f"{result} = {formula.text}"])
        body.append(f"return {', '.join(results)}")
    lines += indent(body)
    if saved:
        # written out: every backward calls it, and a loop over names costs 200 ns
        lines += ["", "def release(node):", *indent([f"node.{slot} = _FREED" for slot in saved])]
    return [f"class {name}(_Node):", *indent(lines)]


def _unpacked(formula: _Formula) -> list[str]:
    tensors = [*formula.tensors, *(["result"] if formula.has_result else []), *formula.others]
    lines = [f"{name} = node.saved_{name}.unpack(node)" for name in tensors]
    lines += [f"{name} = node.saved_{name}" for name in formula.asked]
    return lines + [f"{parameter(a.name)} = node.saved_{parameter(a.name)}" for a in formula.values]


def _returns_list(op: Op) -> bool:
    return op.schema.returns[0].type.required.is_list


# --- kernels --------------------------------------------------------------------------------------


def _kernel(op: Op, names: dict[str, str]) -> list[str]:
    head = wrap(f"def {op.identifier}(", ["key_set", *op.parameters], "):")
    role = _role(op)
    if role == "differentiable":
        body = [*_constants(op), *_recording(op, names[op.name])]
    else:
        operands = [a.name for a in op.tensors]
        given = [f"*{a.name}" if a.type.required.is_list else a.name for a in op.tensors]
        check = wrap("_check_out(", [f'"{op.base}"', *given], ")")
        if role == "resize":
            check = [f'_check_resize("{op.base}", {", ".join(given)})']
        body = [
            *_condition("if not ", _is_plain(op, operands)), *indent(check), "key_set &= _BELOW"
        ]  # fmt: skip
        body += _redispatch(op, "return ")
    return [*head, *indent(body)]


def _is_plain(op: Op, operands: Sequence[str]) -> str:
    """The test that autograd knows none of these operands. Numbers are known by their type."""
    tests = []
    for argument in op.tensors:
        name = argument.name
        if name not in operands:
            continue
        if argument.type.required.is_list:
            tests.append(f"all([x._autograd is None for x in {name}])")
        elif name in op.kernel_numbers:
            tests.append(
                f"({name}._autograd is None if type({name}) is _Tensor else type({name}) in "
                f"NUMBERS)"
            )
        else:
            tests.append(f"{name}._autograd is None")
    return " and ".join(tests)


def _condition(head: str, test: str, last: str = "") -> list[str]:
    """`if test last:`, a part a line where it is long. last: as `or x is None`."""
    line = f"{head}{test} {last}".rstrip() + ":" if head == "if " else f"{head}({test}):"
    if len(line) <= WIDTH - 4:
        return [line]
    first, *others = test.split(" and ")
    rest = [f"and {part}" for part in others] + ([last] if last else [])
    return [f"{head}(", *indent([first, *rest]), "):"]


def _redispatch(op: Op, lead: str) -> list[str]:
    head = f"{lead}_ops.{op.identifier}.redispatch_table[key_set]("
    return wrap(head, ["key_set", *op.parameters], ")")


def _constants(op: Op) -> list[str]:
    """What refuses to be differentiated by operands that have no formula, as PyTorch does."""
    lines = []
    for argument in op.tensors:
        name = argument.name
        if name not in op.derivatives:
            given = f"{name} is not None and " if argument.type.is_optional else ""
            lines += [
                f"if {given}{name}._autograd is not None:",
                f'    _check_constant("{op.base}", "{name}", {name})',
            ]
    return lines


def _recording(op: Op, node: str) -> list[str]:
    formulas = _formulas(op)
    is_inplace = op.kind == "inplace"
    operands = list(formulas)
    given = [
        f"*{a.name}" if a.type.required.is_list else a.name
        for a in op.tensors
        if a.name in formulas
    ]
    test = _is_plain(op, operands)
    record = "_record_inplace" if is_inplace else "_record"
    if given == ["self"] and not is_inplace:
        record = "_record_unary"
    recorded = f"(node := {record}(_nodes.{node}, {', '.join(given)})) is None"
    lines = _condition("if ", test, f"or {recorded}")
    lines += indent(["key_set &= _BELOW", *_redispatch(op, "return ")])
    lines += _keep(op, formulas, is_inplace)
    lines += [
        "key_set &= _BELOW",
        "state = _state.get()",
        "try:",
        "    _state.set(_below_autograd[state])",
        *indent(_redispatch(op, "result = ")),
        "finally:",
        "    _state.set(state)",
    ]
    if any(formula.has_result for formula in formulas.values()):
        lines.append("node.saved_result = _save_result(result)")
    others = {
        name: number for formula in formulas.values() for name, number in formula.others.items()
    }
    lines += [f"node.saved_{name} = _save(result[{number}])" for name, number in others.items()]
    setter = "_set_histories" if _returns_list(op) else "_set_history"
    if is_inplace:
        setter = "_reshape_history" if "inplace_view" in op.tags else "_rebase_history"
    if len(op.schema.returns) > 1:
        return [*lines, "_set_history(result[0], node)", "return result"]
    return [*lines, f"return {setter}(result, node)"]


def _keep(op: Op, formulas: dict[str, _Formula], is_inplace: bool) -> list[str]:
    """Lines that give a node what its formulas need; each tensor only where a formula will run."""
    lines = []
    needed: dict[str, list[int]] = {}
    for number, formula in enumerate(formulas.values()):
        for name in formula.tensors:
            needed.setdefault(name, []).append(number)
    for name, numbers in needed.items():
        # what an in-place operator overwrites is kept as a copy
        what = "_calls.clone(self)" if is_inplace and name == "self" else name
        line = f"node.saved_{name} = _save({what})"
        if len(numbers) == len(formulas):
            lines.append(line)
        else:
            test = " or ".join(f"node.edges[{number}] is not None" for number in numbers)
            lines += [f"if {test}:", f"    {line}"]
    return lines + [f"node.{slot} = {expression}" for slot, expression in _kept(op).items()]
