"""Text of the lines that collect a call's key set and call through the dispatch table.

If an operand may be a NumPy scalar, the lines catch the AttributeError of `_keys`. Other wrong
objects are rejected by the function's error handler (functions.py). A valid call has no cost
from either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..model import Op, default, parameter
from ..text import condition, indent, Line, wrap


def expression(op: Op) -> str:
    """Return the expression that ORs the key sets of an operator's Tensor arguments. Return "" if
    there are no such arguments."""
    at = {argument.name: parameter(argument.name) for argument in op.tensors}
    tensors = op.tensors
    if len(tensors) == 2 and op.numbers == (tensors[1].name,):
        first, other = at[tensors[0].name], at[tensors[1].name]
        return f"{first}._keys if type({other}) in NUMBERS else {first}._keys | {other}._keys"
    terms = []
    for argument in tensors:
        name = at[argument.name]
        if argument.type.required.is_list:
            terms.append(f"_keys_of_list({name})")
        elif argument.type.is_optional and argument.name in op.numbers:
            terms.append(f'getattr({name}, "_keys", 0)')
        elif argument.type.is_optional:
            terms.append(f"(0 if {name} is None else {name}._keys)")
        elif argument.name in op.numbers:
            terms.append(f"(0 if type({name}) in NUMBERS else {name}._keys)")
        else:
            terms.append(f"{name}._keys")
    return " | ".join(terms)


def assigned(keys: str, frame: str = "{}") -> list[str]:
    """Return `key_set = keys`, split into several lines if long. frame: the text around the
    keys."""
    line = f"key_set = {frame.format(keys)}"
    if is_conditional(keys):
        return [line]
    opening, closing = ("(", ")") if frame == "{}" else frame.split("{}")
    return [Line(f"key_set = {opening}", keys.split(" | "), closing, "|", short=line)]


def is_conditional(keys: str) -> bool:
    """Return True for `a if test else b`, which binds less tightly than `|`."""
    return re.match(r"\w+\._keys if ", keys) is not None


def call(op: Op, arguments: Mapping[str, str], lead: str = "return ", tail: str = "") -> list[str]:
    """Return the call through the dispatch table, which is indexed by `key_set`."""
    given = [arguments.get(argument.name, parameter(argument.name)) for argument in op.arguments]
    head = f"{lead}op_{op.identifier}.table[key_set]("
    return wrap(head, ["key_set", *given], f"){tail}")


def _coerced(op: Op, listed: str) -> str:
    """Return the text of the call that converts operands that are not tensors. The called function
    depends on whether the first operand may be a number."""
    if op.kind == "functional" and op.tensors[0].name in op.kernel_numbers:
        return f"_coerced_either({listed})"
    swaps = any(n.startswith("__r") and given == "self, other" for n, given in op.python.items())
    if not swaps or op.kind != "functional":
        return f"_coerced({listed})"
    tests = [f"{a.name} == {default(a)}" for a in op.arguments[2:]]
    if not tests:
        return f"_coerced_swapped({listed})"
    return f"(_coerced_swapped if {' and '.join(tests)} else _coerced)({listed})"


def short_cut(
    op: Op, guards: Sequence[str] = (), arguments: Mapping[str, str] | None = None,
    numbers: Sequence[str] | None = None, made: str = "made",
) -> list[str]:  # fmt: skip
    """Return lines that look up a short cut by the tensors' geometries and call it if there is one.
    The short cut receives all arguments except an `alpha` of 1. guards: tests that must hold before
    the lookup. arguments: a dict from an argument to the expression that is passed in its place, as
    in `call`. numbers: tensor arguments that may be numbers, if they differ from `op.numbers`.
    made: the expression to return for the result `made`."""
    if op.short:
        return _by_arguments(op, guards, arguments or {}, made)
    if not op.leaves_short_cuts:
        return []
    standing = arguments or {}
    given = {a.name: standing.get(a.name, parameter(a.name)) for a in op.arguments}
    shapes = [
        f"type({x}) if type({x}) in NUMBERS else {x}._geometry"
        if name in (op.numbers if numbers is None else numbers)
        else f"{x}._geometry"
        for name in [a.name for a in op.tensors]
        for x in [given[name]]
    ]
    opened, closed = ("(", "))") if len(shapes) > 1 else ("", ")")
    passed = [x for name, x in given.items() if not (op.is_scaled and name == "alpha")]
    lines = [
        *wrap(f"short = op_{op.identifier}.table.short.get({opened}", shapes, closed),
        *wrap("if short is not None and (made := short(", passed, ")) is not None:"),
        "    return made",
    ]
    if not guards:
        return lines
    found = [condition(guards), *indent(lines)]
    if op.is_scaled and op.kind != "out" and "alpha" not in standing:
        found += _scaled(op, given[op.tensors[0].name], given[op.tensors[1].name], guards)
    return found


def _scaled(op: Op, x: str, y: str, guards: Sequence[str]) -> list[str]:
    """Return lines that look up the short cut for two tensors and an `alpha` that is any float.

    guards: the tests for a call with alpha 1, of which the first is the test of alpha.
    """
    tests = ["type(alpha) is float", f"type({y}) not in NUMBERS", *guards[1:]]
    return [
        f"elif {' and '.join(tests)}:",
        f"    short = op_{op.identifier}.table.short.get(({x}._geometry, {y}._geometry, float))",
        f"    if short is not None and (made := short({x}, {y}, alpha)) is not None:",
        "        return made",
    ]


def _by_arguments(
    op: Op, guards: Sequence[str], standing: Mapping[str, str], made: str
) -> list[str]:
    """Return lines that look up a short cut whose key contains arguments besides the tensors. A
    call with an argument of the wrong type takes the full dispatch."""
    found_by, passed = (re.findall(r"\w+", part) for part in f"{op.short};".split(";")[:2])
    given = {a.name: standing.get(a.name, parameter(a.name)) for a in op.arguments}
    tensors = [argument.name for argument in op.tensors]
    tests, may_hash = list(guards), True
    for argument in op.arguments:
        name, kind = given[argument.name], argument.type.required
        if argument.name in tensors and kind.is_list:
            tests.append(f"type({name}) in (list, tuple)")
            may_hash = False  # the list may contain objects that are not tensors
        elif argument.name in found_by and kind.is_list:
            may_hash = False  # the short cut itself checks the list's elements
        elif argument.name in found_by and kind.base in ("ScalarType", "Device"):
            # the argument may be any object, because native code passes unchecked arguments
            may_hash = False
        elif argument.name in found_by and kind.base in _TYPES:
            tests.append(f"type({name}) is {_TYPES[kind.base]}")
        elif argument.name in found_by and kind.base == "Scalar":
            tests.append(f"type({name}) in NUMBERS")
        elif argument.name not in (*found_by, *passed):
            tests.append(f"{name} is {default(argument)}")
    many = [a.name for a in op.tensors if a.type.required.is_list]
    optional = [a.name for a in op.tensors if a.type.is_optional]
    parts = [
        f"*[x._geometry for x in {given[name]}]" if name in many  # None raises AttributeError
        else f"None if {given[name]} is None else {given[name]}._geometry" if name in optional
        else f"{given[name]}._geometry" if name in tensors else given[name]
        for name in found_by
    ]  # fmt: skip
    opened, closed = ("(", "))") if len(parts) > 1 else ("", ")")
    lines = wrap(f"short = op_{op.identifier}.table.short.get({opened}", parts, closed)
    if not may_hash:  # the key may contain a list, which cannot be hashed
        refused = "(AttributeError, TypeError)" if many else "TypeError"
        lines = ["try:", *indent(lines), f"except {refused}:", "    short = None"]
    lists = [a.name for a in op.arguments if a.name in found_by and a.type.required.is_list]
    lists = [name for name in lists if name not in many]
    first = [name for name in (*tensors, *lists) if name not in passed]
    operands = [given[name] for name in (*first, *passed)]
    taken = "if short is not None and (made := short("
    lines += [*wrap(taken, operands, ")) is not None:"), f"    return {made}"]
    if not tests:
        return lines
    return [condition(tests), *indent(lines)]


_TYPES = {"int": "int", "SymInt": "int", "bool": "bool"}


def gathered(op: Op, before: Sequence[str] = ()) -> list[str]:
    """Return lines that set `key_set` to the call's key set. before: lines that come first, such as
    the lookup of a short cut. If an operand may be a number, both parts are in one `try`, because
    an invalid operand raises AttributeError in either of them."""
    keys = expression(op)
    state = "include, keep = _state.get()"
    if not keys:
        return [*before, state, "key_set = include & keep"]
    if op.numbers:
        listed = ", ".join(parameter(a.name) for a in op.tensors)
        return [
            "try:",
            *indent([*before, *assigned(keys)]),
            "except AttributeError:",
            f"    key_set, {listed} = {_coerced(op, listed)}",
            state,
            "key_set = (key_set | include) & keep",
        ]
    return [*before, state, *assigned(f"{keys} | include", "({}) & keep")]
