"""Text of the public callables of an operator: its function, its method, and special methods such
as `__add__`.

A callable selects the overload and calls through the dispatch table itself, so that there is only
one frame between the user's call and the kernel.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..merge import Merge, merged, spread, vararg
from ..model import OPTIONS, Model, Op, default, parameter
from ..text import condition, indent, Line, WIDTH, wrap
from . import docstring, gather

if TYPE_CHECKING:
    from gputensor.core.schema import Argument


def functions(model: Model, base: str) -> list[list[str]]:
    """Return the function of a public name as a block of lines, or no block if `gt` does not have
    the name."""
    if base in (aliases := model.aliases("function")):
        return [[f"{base} = {aliases[base]}"]]
    return [public(model, base, "function")] if base in model.bases("function") else []


def methods(model: Model, base: str) -> list[list[str]]:
    """Return the method or property of a public name, and the operator's special methods such as
    `__add__`."""
    aliases = model.aliases("method")
    blocks = [[f"Tensor_{base} = Tensor_{aliases[base]}"]] if base in aliases else []
    for variant in ("method", "property"):
        if base in model.bases(variant):
            blocks.append(_alias(model, base) if variant == "method" else [])
            blocks[-1] = blocks[-1] or public(model, base, variant)
    for op in model.named(base):
        blocks += [_dunder(op, name) for name in op.operators]
    return blocks


def _alias(model: Model, base: str) -> list[str]:
    """Return `Tensor_t = t` if method and function have equal parameters and code, otherwise no
    lines."""
    if base not in model.bases("function"):
        return []
    function, method = (gathered(model, base, variant) for variant in ("function", "method"))
    same = not function.outs and (function.ops, function.vararg) == (method.ops, method.vararg)
    return [f"Tensor_{base} = {base}"] if same and signature(function) == signature(method) else []


def faces(op: Op) -> list[list[str]]:
    """Return the functions of gt.nn.functional that the row lists in `nn`. If a parameter after the
    first is a tensor or a list, the decorator `declares` states the types of all parameters."""
    found = []
    own = op.nn_types
    for name, taken in op.nn:
        parameters = [next(iter(own)), *taken]
        values = {item: value for item, _, value in (text.partition("=") for text in parameters)}
        given = [_nn_argument(name, item, own[item], values) for item in own if item in values]
        writes, body = (
            wrap(f"return call_{called}(", given, ")") for called in (f"{op.base}_", op.identifier)
        )
        if "inplace" in values:
            test = f'if inplace is not False and _flag("{name}", "inplace", inplace):'
            body = [test, *indent(writes), *body]
        body = writes if name.endswith("_") else body
        body = [*_tuples({item: own[item] for item in values if item in own}), *body]
        types = {item: nn_type(item, own.get(item), value) for item, value in values.items()}
        decorator: list[Any] = []
        if any("Tensor" in text or "[]" in text for text in list(types.values())[1:]):
            declared = [f'{item}="{text}"' for item, text in types.items()]
            decorator = wrap("@_declares(", [f'"{name}"', *declared], ")")
        else:
            body = _refused(op.base, f"nn_{name}", body)
        lines = [*docstring.of_nn(op, name, parameters), *body]
        head = wrap(f"def nn_{name}(", parameters, "):")
        found.append(input_for_self([*decorator, *head, *indent(lines)]))
    return found


def nn_type(name: str, kind: Any, default: str) -> str:
    """Return the type of a parameter of a gt.nn.functional function, as text for `declares`."""
    if name == "reduction":
        return "str"
    if kind is None:
        return "bool" if default in ("True", "False") else "bool?"
    plain, end = kind.required, "?" if default == "None" else ""
    base: str = plain.base.replace("SymInt", "int")
    if plain.is_list:
        return f"{base}{end}|{base}[]{end}" if plain.size else f"{base}[]{end}"
    return base + end


def _nn_argument(function: str, name: str, kind: Any, given: Mapping[str, str]) -> str:
    """Return the expression that the gt.nn.functional function `function` passes to the operator
    for the parameter `name`."""
    if name == "reduction":
        old = [item for item in ("size_average", "reduce") if item in given]
        return f'_reduction("{function}", {", ".join([name, *old])})'
    if name == "training":
        return f'_flag("{function}", "training", training)'
    is_list = kind.is_list and given[name] == "None"
    return f"() if {name} is None else {name}" if is_list else name


# --- one public name ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Public:
    """A public function or method: its overloads and, if there are several, their merge."""

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
        """The parameter that is a list of ints and may be passed as in `x.view(2, 3)`, or None."""
        return None if self.merge is not None else vararg(self.first, is_method=self.is_method)

    @property
    def options(self) -> list[Argument]:
        """The options (dtype, layout, device, pin_memory) if all overloads have them, otherwise an
        empty list."""
        if not all(op.has_options for op in self.ops):
            return []
        return [a for a in self.first.schema.keyword_only if a.name in OPTIONS]

    @property
    def takes_requires_grad(self) -> bool:
        """True if the function takes `requires_grad=`. One factory among its overloads is
        sufficient, as for linspace."""
        return all(op.has_options for op in self.ops) and any(
            op.takes_requires_grad for op in self.ops
        )


def gathered(model: Model, name: str, variant: str) -> Public:
    ops = tuple(model.overloads(name, variant))
    merge = merged(ops, is_method=variant != "function") if len(ops) > 1 else None
    outs = {}
    if variant == "function":
        outs = {op.name: out for op in ops if (out := model.out_of(op)) is not None}
    return Public(name, variant, ops, merge, outs)


def public(model: Model, name: str, variant: str) -> list[str]:
    """Return the lines of one function or method."""
    it = gathered(model, name, variant)
    parameters = signature(it)
    body = docstring.lines(it.ops, parameters, is_method=it.is_method)
    function = f"Tensor_{name}" if it.is_method else name
    merged = _single(it) if it.merge is None else _merged(it, it.merge)
    # A parameter with the function's name would hide the function.
    is_hidden = any(item.partition("=")[0] == function for item in parameters)
    own = f'globals()["{function}"]' if is_hidden else function
    if "*old" in parameters:
        body.append(f'if old: return _in_old_order("{name}", {own}, locals())')
    body += _refused(name, own, [*_by_numpy_names(it), *merged])
    head = ["@property"] if variant == "property" else []
    lines = [*head, *wrap(f"def {function}(", parameters, "):"), *indent(body)]
    return lines if it.is_method else input_for_self(lines)


def input_for_self(lines: Sequence[str]) -> list[str]:
    """Return a function's lines with `input`, PyTorch's name for the first operand, in place of
    `self`."""

    def change(text: str) -> str:
        return re.sub(r"\bself\b", "input", text)

    return [line.mapped(change) if isinstance(line, Line) else change(line) for line in lines]


def _refused(name: str, function: str, lines: Sequence[str]) -> list[str]:
    """Return a function's lines in a `try`. Its handler explains a failure, or repeats the call
    with 0-d tensors replaced by numbers. A `try` takes no time if there is no failure."""
    head = "except Exception as error:"
    given = ["error", f'"{name}"', function, "locals()"]
    body = wrap("return _refuse(", given, ")")
    fits = len(f"{head} {body[0]}") <= WIDTH - 4
    return ["try:", *indent(lines), *([f"{head} {body[0]}"] if fits else [head, *indent(body)])]


def signature(it: Public) -> list[str]:
    """Return the parameters with defaults, followed by NumPy's names for some of them: `axis` for
    `dim`, and `keepdims` for `keepdim`."""
    listed = _own_parameters(it)
    if not (second := numpy_names(listed)):
        return listed
    if "dim" in listed:
        listed[listed.index("dim")] = "dim=None"
    star = [] if any(item.startswith("*") for item in listed) else ["*"]
    return [*listed, *star, *(f"{name}=None" for name in second)]


def _has_old_order(op: Op) -> bool:
    """True if the function also takes its scalars positionally, before a tensor: `x.add_(2, y)` is
    `x.add_(y, alpha=2)`. Source: PyTorch's tools/autograd/deprecated.yaml. It lists all functions
    of tensors with keyword-only scalars that are methods too."""
    scalars = {str(a.type) for a in op.schema.keyword_only}
    operands = {str(a.type).partition("(")[0] for a in op.schema.positional}
    return scalars == {"Scalar"} and operands == {"Tensor"} and "method" in op.variants


def numpy_names(parameters: Sequence[str]) -> dict[str, str]:
    """Return a dict from NumPy's name to our name, for parameters that the function accepts under
    both names.

    Source: torch/csrc/utils/python_arg_parser.cpp, numpy_compatibility_arg_names. `dim` has no
    NumPy name if a required parameter follows it.
    """
    names = [item.partition("=")[0] for item in parameters]
    if "dim" not in names or "*args" in names:
        return {}
    behind = parameters[names.index("dim") + 1 :]
    behind = behind[: behind.index("*")] if "*" in behind else behind
    if not all("=" in item for item in behind):
        return {}
    return {"axis": "dim", **({"keepdims": "keepdim"} if "keepdim" in names else {})}


def _by_numpy_names(it: Public) -> list[str]:
    """Return lines that read arguments under NumPy's names and assign them to our names."""
    listed = _own_parameters(it)
    names = numpy_names(listed)
    lines = []
    if "axis" in names:
        may_lack = "dim=None" in listed or "dim" in listed
        given = f'_axis("{it.name}", dim, axis)' if may_lack else "axis"
        if "dim" in listed:
            lines += ["if axis is not None:", f"    dim = {given}"]
            lines += ["elif dim is None:", f'    raise _errors.not_given("{it.name}", "dim")']
        else:
            lines.append(f"dim = dim if axis is None else {given}")
    if "keepdims" in names:
        lines.append("keepdim = keepdim if keepdims is None else keepdims")
    return lines


def _own_parameters(it: Public) -> list[str]:
    if it.merge is not None:
        found, keyword_only = list(it.merge.parameters), it.options
    else:
        found = [] if it.vararg is None else ["*args"]
        if it.vararg is not None and it.is_method:
            found.insert(0, "self")
        for argument in it.first.schema.positional:
            if it.is_method and argument.name == "self" and it.vararg is None:
                found.insert(0, "self")  # the schema of where() has the condition first
            elif argument is it.vararg:
                found.append(f"{parameter(argument.name)}=None")
            elif not (it.is_method and argument.name == "self"):
                found.append(_with_default(argument))
        keyword_only = list(it.first.schema.keyword_only)
    named = [_with_default(argument) for argument in keyword_only]
    if it.takes_requires_grad:
        named.append("requires_grad=False")
    if it.outs:
        named.append("out=None")
    if named and not any(item.startswith("*") for item in found):
        found.append("*old" if _has_old_order(it.first) else "*")
    return found + named


def _with_default(argument: Any) -> str:
    name = parameter(argument.name)
    return f"{name}={default(argument)}" if argument.has_default else name


def _single(it: Public) -> list[str]:
    op = it.first
    lines = [] if it.vararg is None else spread(it.name, it.vararg)
    lines += _normalised(op.arguments, it.name)
    lines += _tuples({parameter(a.name): a.type for a in op.arguments if a is not it.vararg})
    if op.shortcut:
        # as in THPVariable_contiguous, a call that changes nothing returns self without a dispatch
        lines += [f"if {op.shortcut}:", "    return self"]
    guards = ["alpha is _ONE"] * op.is_scaled + ["out is None"] * bool(it.outs)
    guards += ["not requires_grad"] * it.takes_requires_grad
    lines += gather.gathered(op, gather.short_cut(op, guards, made=_named(op, "made")))
    lead, end = "return ", list[str]()
    if it.takes_requires_grad:
        lead, end = "result = ", ["return result.requires_grad_() if requires_grad else result"]
    if it.outs:
        form = it.outs[op.name]
        guards.remove("out is None")
        given = [*_out_keys(it, form), *gather.short_cut(form, guards, None, form.kernel_numbers)]
        given += [*_out(form, {}, lead), *end]
        lines += ["if out is not None:", *indent(given)]
    return [*lines, *_call(op, {}, lead), *end]


def _call(op: Op, arguments: Mapping[str, str], lead: str = "return ") -> list[str]:
    """Return the call of an overload. Several results become a named tuple."""
    opened, _, closed = _named(op, " ").partition(" ")
    return gather.call(op, arguments, lead + opened, closed)


def _named(op: Op, results: str) -> str:
    """Return the expression that makes a named tuple of several results. If the operator's results
    have no names, return `results` unchanged."""
    is_tuple = op.named_results and op.is_public
    return f"Results_{op.base.rstrip('_')}({results})" if is_tuple else results


def results(model: Model, base: str) -> list[str]:
    """Return the line that defines the named tuple for an operator's results.

    Raises: LookupError if the overloads name their results differently.
    """
    ops = [op for op in model.named(base) if op.kind == "functional" and op.is_public]
    found = {op.named_results for op in ops} - {""}
    if len(found) > 1:
        raise LookupError(f"results of '{base}' must have the same names in all overloads")
    return [f'Results_{base} = _named("{base}", "{names}")' for names in found]


def _out_keys(it: Public, form: Op) -> list[str]:
    """Return lines that check `out` and add its dispatch keys to the key set."""
    count = len(form.schema.out_arguments)
    if count > 1:
        return [f'key_set |= _checked_outs("{form.base}", out, {count}) & keep']
    options = [a.name for a in it.options if a.name in ("dtype", "device")]
    given = [f'"{form.base}"', "out", *options]
    return wrap("key_set |= _checked_out(", given, ")._keys & keep")


def _out(form: Op, arguments: Mapping[str, str], lead: str = "return ") -> list[str]:
    """Return the call of an out form. Arguments that the functional form lacks get their
    defaults."""
    outs = [a.name for a in form.schema.out_arguments]
    given = {name: f"out[{n}]" for n, name in enumerate(outs)} if outs[1:] else {outs[0]: "out"}
    return _call(form, {**arguments, **given}, lead)


def _normalised(arguments: Sequence[Any], name: str, is_optional: bool = False) -> list[str]:
    """Return lines that convert device strings to devices and NumPy dtypes to ours."""
    lines = []
    for argument in arguments:
        at, base = parameter(argument.name), argument.type.base
        may_lack = is_optional or argument.type.is_optional or argument.has_default
        guard = f"{at} is not None and " if may_lack else ""
        if base == "ScalarType":
            lines += [f"if {guard}type({at}) is not _dtype:"]
            lines += [f'    {at} = _element_type("{name}", {at})']
        elif base == "Device":
            lines += [f"if {guard}type({at}) is not _device:", f"    {at} = _device({at})"]
    return lines


def _tuples(types: Mapping[str, Any]) -> list[str]:
    """Return lines that convert lists of numbers to tuples, because the keys of short cuts must be
    hashable. types: a dict from parameters to types."""
    lines = []
    for name, kind in types.items():
        if kind.required.is_list and kind.required.base in ("int", "SymInt", "float"):
            line = f"{name} = tuple({name}) if type({name}) is list else {name}"
            is_long = len(line) > WIDTH - 12  # in the body of a condition of a method
            long = [f"if type({name}) is list:", f"    {name} = tuple({name})"]
            lines += long if is_long else [line]
    return lines


def _merged(it: Public, merge: Merge) -> list[str]:
    lines = []
    if it.takes_requires_grad:
        names = [item.partition("=")[0] for item in merge.parameters if item != "*"]
        again = [name if name == "*args" else f"{name}={name}" for name in names]
        again += [f"{a.name}={a.name}" for a in it.options]
        lines += ["if requires_grad:"]
        lines += indent(wrap(f"return {it.name}(", again, ").requires_grad_()"))
    lines += list(merge.preamble)
    named = [item.partition("=")[0] for item in merge.parameters]
    checked: dict[str, Any] = {}
    for op in it.ops:
        for argument in op.arguments:
            if argument.name in named or argument in it.options:
                known = checked.get(argument.name)
                checked[argument.name] = (
                    argument if known is None or argument.type.is_optional else known
                )
    given = [checked[name] for name in ("dtype", "device") if name in checked]
    lines += _normalised(given, it.name, is_optional=True)
    return lines + _cases(it, merge)


def _cases(it: Public, merge: Merge) -> list[str]:
    ops = [it.find(case.overload) for case in merge.cases]
    # All cases share the lines that collect the key set if they have the same tensor arguments and
    # no short cuts. An overload with short cuts collects its key set after the lookup of the short
    # cut.
    shared = len({tuple(a.name for a in op.tensors) for op in ops}) == 1
    shared = shared and not any(op.short or op.leaves_short_cuts for op in ops)
    lines = gather.gathered(ops[-1]) if shared else []
    for case, op in zip(merge.cases, ops):
        form = it.outs.get(op.name)
        guards = ["alpha is _ONE"] * op.is_scaled + ["out is None"] * (form is not None)
        first = gather.short_cut(op, guards, case.arguments, made=_named(op, "made"))
        spread_out = vararg(op, is_method=it.is_method)
        lists = [a for a in op.arguments if a is not spread_out and a.name not in case.arguments]
        body = _tuples({parameter(a.name): a.type for a in lists})
        body += [] if shared else gather.gathered(op, first)
        if form is not None:
            kept = [a for a in form.arguments if a.has_default and not a.is_write]
            filled = {a.name: default(a) for a in kept if a.name not in op.parameters}
            given = [*_out_keys(it, form), *_out(form, filled | case.arguments)]
            body += ["if out is not None:", *indent(given)]
        elif it.outs:
            body = ["if out is not None:", f'    raise _errors.no_out("{it.name}")', *body]
        lines += _if(case.condition, [*body, *_call(op, case.arguments)])
    if merge.cases[-1].condition:
        lines += wrap(
            "raise _errors.no_form(", [f'"{name}"' for name in (it.name, *merge.forms)], ")"
        )
    return lines


def _if(test: str, body: list[str]) -> list[str]:
    if not test:
        return body
    return [condition(test.split(" and ")), *indent(body)]


# --- Python's operators -------------------------------------------------------------------------


def _dunder(op: Op, name: str) -> list[str]:
    """Return a special method such as `__add__`, which calls `op` with the arguments given in the
    YAML. If an equal special method exists, return an alias of it."""
    written = op.operators[name]
    if written == "self":
        return [f"Tensor_{name} = Tensor_{op.base}"]
    twin = next(other for other, given in op.operators.items() if given == written)
    if twin != name:
        return [f"Tensor_{name} = Tensor_{twin}"]
    body = _binary(op, name, _given(op, written))
    function = f"Tensor_{name}"
    return [f"def {function}(self, other):", *indent(_refused(op.base, function, body))]


def _binary(op: Op, name: str, given: Mapping[str, str]) -> list[str]:
    """Return the lines of a binary special method. The method returns NotImplemented for an operand
    of another library, so that Python tries that operand's class."""
    keys = "self._keys | other._keys"
    if op.numbers:
        keys = f"self._keys if type(other) in NUMBERS else {keys}"
        # `other` may be a NumPy array. Comparisons accept it even if self requires grad, because
        # they have no gradient that could be lost.
        is_comparison = name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
        foreign = [
            f"if (other := self._operand({op.base!r}, other, {is_comparison})) is None:",
            "    return NotImplemented",
            f"key_set = {keys}",
        ]
    else:
        foreign = [f"return self._foreign({op.base!r}, other)"]
    state = ["include, keep = _state.get()", "key_set = (key_set | include) & keep"]
    # True if the call passes its operands in order and defaults for all other arguments
    is_plain = all(given.get(a.name, a.name) in (a.name, default(a)) for a in op.arguments)
    # True if the call passes its operands in reverse order. Then `other` is usually a number.
    rest = [a for a in op.arguments if a.name not in ("self", "other")]
    is_turned = (given.get("self"), given.get("other")) == ("other", "self") and op.numbers
    first = gather.short_cut(op, arguments=given) if is_plain else []
    if is_turned and all(given.get(a.name) == default(a) for a in rest):
        first = gather.short_cut(op, arguments=given, numbers=("self",))
    lines = ["try:", *indent([*first, f"key_set = {keys}"])]
    lines += ["except AttributeError:", *indent(foreign), *state]
    return [*lines, *_call(op, given)]


def _given(op: Op, written: str) -> dict[str, str]:
    """Return a dict from argument to expression. It is parsed from a field of the YAML, such as
    `other, self, rounding_mode="floor"`. Arguments that the field lacks have their defaults."""
    text = f"_({written})"
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    found = {a.name: default(a) for a in op.arguments if a.has_default}
    given = [*zip((a.name for a in op.arguments), call.args)]
    given += [(str(word.arg), word.value) for word in call.keywords]
    return found | {name: str(ast.get_source_segment(text, value)) for name, value in given}
