"""_generated/functions.py and _generated/methods.py: what users call.

Each does what it must to find out which overload is meant, then calls through the table itself: one
frame between the user and the kernel.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import docstring, gather
from .merge import MERGES, Case, Merge
from .model import Model, Op, parameter, schema
from .text import indent, module, pruned, wrap

if TYPE_CHECKING:
    from gputensor.core.schema import Argument

IMPORTS = """from ..core.arguments import NUMBERS
from ..core.arguments import checked_out as _checked_out
from ..core.arguments import coerce as _coerce
from ..core.arguments import keys_of_list as _keys_of_list
from ..core.arguments import number as _number
from ..core.arguments import sequence as _sequence
from ..core.device import device as _device
from ..core.dtype import dtype as _dtype
from ..core.errors import not_a_dtype as _not_a_dtype
from ..core.errors import not_given as _not_given
from ..core.errors import too_many as _too_many
from ..core.memory_format import contiguous_format as _contiguous_format
from ..dispatch.refusal import refuse as _refuse
from ..dispatch.tls import state as _state
from . import calls as _calls
from . import operators as _ops"""

FUNCTIONS_DOC = """Public functions, `gt.add(...)`: one per operator name, a to z.

A function reads which overload is meant from what was given, gathers the operands' keys and calls
through the operator's table. Values are checked by native code; where that fails with anything but
a sentence of the house, `_refuse` raises one if the schema knows which argument is to blame."""

METHODS_DOC = """Tensor's operators: methods, then what Python's own operators call, a to z.

As `functions.py`, without `out`."""


def functions(model: Model) -> str:
    names = model.bases("function")
    listed = wrap("__all__ = [", [f'"{name}"' for name in names], "]")
    parts = [IMPORTS + "\n\n" + "\n".join(listed)]
    parts += ["\n".join(public(model, name, "function")) for name in names]
    return module(FUNCTIONS_DOC, *pruned(parts))


def methods(model: Model) -> str:
    lines = ["class GeneratedMethods:"]
    lines += [
        '    """Base of Tensor: every operator that has a method."""',
        "",
        "    __slots__ = ()",
    ]
    for name in sorted({*model.bases("method"), *model.bases("property")}):
        variant = "method" if model.overloads(name, "method") else "property"
        lines += ["", *indent(public(model, name, variant))]
    lines += ["", "    # --- Python's operators ---"]
    for op in model.ops:
        for dunder, given in op.operators.items():
            lines += ["", *indent(_dunder(dunder, op, given))]
    lines += [
        "",
        "    # A class that defines __eq__ loses its hash; tensors are hashed by identity.",
    ]
    lines += ["    __hash__ = object.__hash__"]
    return module(METHODS_DOC, *pruned([IMPORTS, "\n".join(lines)]))


# --- one public name ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Public:
    """A public function or method: its overloads, and how they merge where there are several."""

    name: str
    variant: str
    ops: tuple[Op, ...]
    merge: Merge | None
    outs: dict[str, Op]

    @property
    def is_method(self) -> bool:
        return self.variant != "function"

    @property
    def first(self) -> Op:
        return self.ops[0]

    def find(self, overload: str) -> Op:
        return next(op for op in (*self.ops, *self.outs.values()) if op.name == overload)

    @property
    def vararg(self) -> Argument | None:
        """The list of ints that may be given as `x.view(2, 3)`; PyTorch's rule.

        Source: torch/csrc/utils/python_arg_parser.cpp, allow_varargs_intlist.
        """
        if self.merge is not None:
            return None
        positional = [
            a for a in self.first.schema.positional if not (self.is_method and a.name == "self")
        ]
        if len(positional) != 1:
            return None
        form = positional[0].type
        is_ints = form.is_list and form.size is None and form.base in ("int", "SymInt")
        return positional[0] if is_ints else None


def gathered(model: Model, name: str, variant: str) -> Public:
    ops = tuple(model.overloads(name, variant))
    outs = {}
    merge = MERGES.get(name) if len(ops) > 1 else None
    if len(ops) > 1 and merge is None:
        listed = ", ".join(op.name for op in ops)
        raise LookupError(f"codegen/merge.py: '{name}' must say how {listed} become one function")
    if variant == "function":
        outs = {op.name: out for op in ops if (out := model.out_of(op)) is not None}
        if merge is not None and merge.out is not None:
            outs[""] = model.find(merge.out.overload)
    return Public(name, variant, ops, merge, outs)


def public(model: Model, name: str, variant: str) -> list[str]:
    """The lines of one function or method."""
    it = gathered(model, name, variant)
    parameters = signature(it)
    body = docstring.lines(it.ops, parameters, is_method=it.is_method)
    body += _refused(name, _single(it) if it.merge is None else _merged(it, it.merge))
    head = ["@property"] if variant == "property" else []
    lines = [*head, *wrap(f"def {name}(", parameters, "):"), *indent(body)]
    return lines if it.is_method else input_for_self(lines)


def input_for_self(lines: Sequence[str]) -> list[str]:
    """A function's lines with PyTorch's name for its first operand; schemas and methods have
    `self`."""
    return [re.sub(r"\bself\b", "input", line) for line in lines]


def _refused(name: str, lines: Sequence[str]) -> list[str]:
    """Lines whose failure is told in one sentence. A `try` costs nothing while nothing is
    raised."""
    return [
        "try:",
        *indent(lines),
        "except Exception as error:",
        f'    _refuse(error, "{name}", locals())',
        "    raise",
    ]


def signature(it: Public) -> list[str]:
    """Parameters with their defaults."""
    if it.merge is not None:
        has_self = it.first.arguments and it.first.arguments[0].name == "self"
        found = (["self"] if has_self else []) + list(it.merge.parameters)
        keyword_only = [
            a for a in it.first.schema.keyword_only if it.first.has_options and it.name != "to"
        ]
    else:
        found = [] if it.vararg is None else ["*args"]
        if it.vararg is not None and it.is_method:
            found.insert(0, "self")
        for argument in it.first.schema.positional:
            if it.is_method and argument.name == "self" and it.vararg is None:
                found.insert(0, "self")  # where() has its condition first
            elif argument is it.vararg:
                found.append(f"{parameter(argument.name)}=None")
            elif not (it.is_method and argument.name == "self"):
                found.append(_with_default(argument))
        keyword_only = list(it.first.schema.keyword_only)
    named = [_with_default(argument) for argument in keyword_only]
    if it.first.has_options and it.name != "to":
        named.append("requires_grad=False")
    if it.outs:
        named.append("out=None")
    if named and not any(item.startswith("*") for item in found):
        found.append("*")
    return found + named


def _with_default(argument: Any) -> str:
    name = parameter(argument.name)
    return f"{name}={default(argument)}" if argument.has_default else name


# at::Reduction, which is an int in schemas.
_REDUCTIONS = {"Mean": "1", "Sum": "2"}


def default(argument: Any) -> str:
    """The default as Python text."""
    value = argument.default
    if isinstance(value, schema.Name):
        return _REDUCTIONS.get(value) or f"_{value}"
    if argument.type.base == "float" and type(value) is int:
        value = float(value)
    return repr(value)


def _single(it: Public) -> list[str]:
    op = it.first
    lines = varargs(it)
    lines += _normalised(op.arguments, it.name)
    if op.has_options:
        given = wrap(f"return _calls.{op.identifier}(", op.parameters, ").requires_grad_()")
        lines += ["if requires_grad:", *indent(given)]
    if it.name == "contiguous":
        # As THPVariable_contiguous: nothing to do is found out without a dispatch.
        lines += [
            "if memory_format is _contiguous_format and self._geometry.is_contiguous:",
            "    return self",
        ]
    out = ["if out is not None:", *indent(_call_out(it, it.outs[op.name], {}))] if it.outs else []
    lines += gather.gathered(op, between=out)
    return lines + gather.call(op, {})


def _call_out(it: Public, op: Op, arguments: Mapping[str, str]) -> list[str]:
    """The call of an out form; its own operand is checked here, the others were before."""
    given = {a.name: arguments.get(a.name, parameter(a.name)) for a in op.arguments}
    given["out"] = f'_checked_out("{it.name}", out)'
    return wrap(f"return _calls.{op.identifier}(", list(given.values()), ")")


def varargs(it: Public) -> list[str]:
    """`*args` to the list they stand for: ints, or one sequence."""
    if it.vararg is None:
        return []
    name = parameter(it.vararg.name)
    return [
        "if len(args) == 1:",
        f"    ({name},) = args",
        f"    if type({name}) is int:",
        f"        {name} = args",
        f"    elif type({name}) is not tuple:",
        f"        {name} = _sequence({name})",
        "elif args:",
        f"    {name} = args",
        f"elif {name} is None:",
        f'    raise _not_given("{it.name}", "{it.vararg.name}")',
    ]


def _normalised(arguments: Sequence[Any], name: str) -> list[str]:
    """Device strings to devices, and a dtype that is none refused."""
    lines = []
    for argument in arguments:
        at = parameter(argument.name)
        base, optional = argument.type.base, argument.type.is_optional or argument.has_default
        if base == "ScalarType":
            guard = f"{at} is not None and " if optional else ""
            lines += [f"if {guard}type({at}) is not _dtype:"]
            lines += [f'    raise _not_a_dtype("{name}", {at})']
        elif base == "Device":
            guard = f"{at} is not None and " if optional else ""
            lines += [f"if {guard}type({at}) is not _device:", f"    {at} = _device({at})"]
    return lines


def _merged(it: Public, merge: Merge) -> list[str]:
    lines = []
    options = [a for a in it.first.schema.keyword_only if it.first.has_options and it.name != "to"]
    if options:
        again = [item.partition("=")[0] for item in merge.parameters]
        again += [f"{a.name}={a.name}" for a in options]
        lines += ["if requires_grad:"]
        lines += indent(wrap(f"return {it.name}(", again, ").requires_grad_()"))
    lines += list(merge.preamble)
    named = [item.partition("=")[0] for item in merge.parameters]
    checked: dict[str, Any] = {}
    for op in it.ops:
        for argument in op.arguments:
            if argument.name in named or argument in options:
                known = checked.get(argument.name)
                checked[argument.name] = (
                    argument if known is None or argument.type.is_optional else known
                )
    for name in ("dtype", "device"):
        if name in checked:
            lines += [line.replace(f"if type({name})", f"if {name} is not None and type({name})")
                      for line in _normalised([checked[name]], it.name)]  # fmt: skip
    return lines + _cases(it, merge)


def _cases(it: Public, merge: Merge) -> list[str]:
    ops = [it.find(case.overload) for case in merge.cases]
    shared = len({tuple(a.name for a in op.tensors) for op in ops}) == 1
    lines = []
    if shared:
        out = _merged_out(it, merge)
        lines = gather.gathered(ops[-1], between=out)
    for case, op in zip(merge.cases, ops):
        body = [] if shared else gather.gathered(op)
        body += gather.call(op, case.arguments)
        lines += [f"if {case.condition}:", *indent(body)] if case.condition else body
    return lines


def _merged_out(it: Public, merge: Merge) -> list[str]:
    if not it.outs:
        return []
    cases: Sequence[Case] = merge.cases
    ops = [it.outs.get(case.overload) for case in cases]
    if merge.out is not None:
        cases, ops = (merge.out,), [it.outs[""]]
    lines = []
    for case, op in zip(cases, ops):
        if op is None:
            raise LookupError(f"codegen/merge.py: '{it.name}' has no out form of {case.overload}")
        body = _call_out(it, op, case.arguments)
        lines += [f"if {case.condition}:", *indent(body)] if case.condition else body
    return ["if out is not None:", *indent(lines)]


# --- Python's operators -------------------------------------------------------------------------


def _dunder(name: str, op: Op, written: str) -> list[str]:
    """One of Python's operators. A foreign operand gives NotImplemented, so that its own class gets
    a chance."""
    given = _given(op, written)
    if "other" not in given.values():
        body = [*gather.gathered(op), *gather.call(op, given)]
        return [f"def {name}(self):", *indent(_refused(op.base, body))]
    state = ["include, keep = _state.get()", "key_set = (key_set | include) & keep"]
    if name in ("__eq__", "__ne__"):  # arrays are compared element by element, as PyTorch's == does
        keys = "self._keys if type(other) in NUMBERS else self._keys | other._keys"
        foreign = [
            "other = self._comparable(other)",
            "if other is None:",
            "    return NotImplemented",
            "key_set = self._keys if type(other) in NUMBERS else self._keys | other._keys",
        ]
    elif op.numbers:
        keys = "self._keys if type(other) in NUMBERS else self._keys | other._keys"
        foreign = [
            "other = _number(other)",
            "if other is None:",
            "    return NotImplemented",
            "key_set = self._keys",
        ]
    else:
        keys, foreign = "self._keys | other._keys", ["return NotImplemented"]
    body = ["try:", f"    key_set = {keys}", "except AttributeError:", *indent(foreign), *state]
    return [
        f"def {name}(self, other):",
        *indent(_refused(op.base, [*body, *gather.call(op, given)])),
    ]


def _given(op: Op, written: str) -> dict[str, str]:
    """The arguments of a call that is written as `other, self, rounding_mode="floor"`."""
    text = f"_({written})"
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    found = {a.name: default(a) for a in op.arguments if a.has_default}
    given = [*zip((a.name for a in op.arguments), call.args)]
    given += [(str(word.arg), word.value) for word in call.keywords]
    return found | {name: str(ast.get_source_segment(text, value)) for name, value in given}
