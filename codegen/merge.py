"""Merging of the overloads of one public name into one function, and the choice of the overload.

The choice depends first on which arguments are given, then on their types. Both rules are derived
from the schemas, or from a row's `signature` if the Python signature differs. Overloads with fewer
parameters are tried first. An overload matches if all given arguments are among its parameters and
all its required parameters are given. If several overloads match, the type of an argument decides.
Each parameter of the merged function has one position. An overload may have another parameter at
this position; then the argument is moved to its own name. For example, a tensor in the position of
`dim` in max(x, y) is `other`, and in randint(3, (2,)) `high` and `size` are each one position too
early. If an optional parameter follows a moved one (`to`), positional arguments are received as
`*args`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .model import OPTIONS, Op, default, parameter
from .text import indent

if TYPE_CHECKING:
    from gputensor.core.schema import Argument

# Maps a type to the test that a value has this type. Values of types that are not listed fail all
# tests.
TESTS = {
    "bool": "type({}) is bool",
    "str": "type({}) is str",
    "ScalarType": "type({}) in _DTYPES",
    "Tensor": 'hasattr({}, "_keys")',
    "list": "isinstance({}, (tuple, list))",
}


@dataclass(frozen=True)
class Case:
    """One branch of a merged function: call `overload` if `condition` is true. An empty condition
    is always true.

    arguments: schema name -> expression, for arguments that are not simply passed by name.
    """

    condition: str
    overload: str
    arguments: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Merge:
    """A merged function. parameters: the parameters before `out` and the options. preamble: lines
    before the cases, which assign positional arguments to names. forms: each overload's parameters,
    for an error message."""

    parameters: tuple[str, ...]
    cases: tuple[Case, ...]
    preamble: tuple[str, ...]
    forms: tuple[str, ...]


def merged(ops: Sequence[Op], *, is_method: bool) -> Merge:
    """Merge several overloads into one function.

    Raises: LookupError if two of them cannot be distinguished.
    """
    made = _Overloads(ops, is_method).merge()
    conditions = [case.condition for case in made.cases]
    if "" in conditions[:-1] or len({*conditions}) < len(conditions):
        listed = " and ".join(op.name for op in ops)
        raise LookupError(f"'{ops[0].base}': nothing tells {listed} apart; say 'signature'")
    return made


def vararg(op: Op, *, is_method: bool) -> Argument | None:
    """Return the parameter that takes a list of ints and, by PyTorch's rule, may be passed as in
    `x.view(2, 3)`. Return None if there is no such parameter.

    Source: torch/csrc/utils/python_arg_parser.cpp, allow_varargs_intlist.
    """
    positional = [a for a in op.taken.positional if not (is_method and a.name == "self")]
    if len(positional) != 1:
        return None
    form = positional[0].type
    is_ints = form.is_list and form.size is None and form.base in ("int", "SymInt")
    return positional[0] if is_ints else None


def spread(base: str, listed: Argument, others: Sequence[Argument] = ()) -> list[str]:
    """Return lines that convert `*args` to a list of ints. others: the only parameters of other
    overloads. If a single argument has the type of such a parameter, the lines assign it to this
    parameter."""
    name = parameter(listed.name)
    lines = ["if len(args) == 1:", f"    ({name},) = args", f"    if type({name}) is int:"]
    lines.append(f"        {name} = args")
    for a in others:
        lines.append(f"    elif {TESTS[_class(a)].format(name)}:")
        lines.append(f"        {parameter(a.name)}, {name} = {name}, None")
    lines += [f"    elif type({name}) is not tuple:", f"        {name} = _sequence({name})"]
    lines += ["elif args:", f"    {name} = args"]
    lacks = " and ".join(f"{parameter(a.name)} is None" for a in (listed, *others))
    return [*lines, f"elif {lacks}:", f'    raise _errors.not_given("{base}", "{listed.name}")']


class _Overloads:
    """The overloads of a name, in the order in which they are tried, and their parameters.

    arguments, positional: by overload. places: the names of the positional parameters, taken from
    the overload with the most parameters. names: the names of all parameters. awaited: parameters
    that must be given but may be None (`int? to`). Their default `...` means that they were not
    given, and another overload is selected.
    """

    def __init__(self, ops: Sequence[Op], is_method: bool) -> None:
        self.ops = sorted(ops, key=self._order)
        self.base, self.is_method = ops[0].base, is_method
        hidden = {"self"} if is_method else set()
        if all(op.has_options for op in ops):
            hidden |= set(OPTIONS)
        self.hidden = hidden
        self.arguments = {
            op.name: [a for a in op.taken.arguments if a.name not in hidden] for op in ops
        }
        self.positional = {
            op.name: [a for a in op.taken.positional if a.name not in hidden] for op in ops
        }
        self.longest = max((self.positional[op.name] for op in self.ops), key=len)
        self.places = [a.name for a in self.longest]
        listed = [a.name for op in ops for a in self.arguments[op.name]]
        self.names = list(dict.fromkeys([*self.places, *listed]))
        self.awaited: set[str] = set()

    @staticmethod
    def _order(op: Op) -> tuple[int, int, int]:
        """Return the sort key. The first criterion is fewer parameters, the second is more
        parameters whose type a test can recognise, the third is more required parameters."""
        told = sum(_class(a) in TESTS for a in op.taken.arguments)
        return len(op.taken.arguments), -told, -len(_needs(op.taken.arguments))

    def argument(self, op: Op, name: str) -> Argument | None:
        return next((a for a in self.arguments[op.name] if a.name == name), None)

    def uses(self, name: str) -> list[Argument]:
        return [a for op in self.ops if (a := self.argument(op, name)) is not None]

    def merge(self) -> Merge:
        preamble, takes_args = self._preamble()
        found = ["self"] if self.is_method else []
        found += ["*args"] if takes_args else []
        places = [] if takes_args else self.places
        may_lack = False
        for name in places:
            may_lack = may_lack or self.default(name) != ""
            found.append(f"{parameter(name)}={self.default(name) or None}" if may_lack else name)
        rest = [name for name in self.names if name not in places]
        found += ["*"] if rest and not takes_args else []
        found += [f"{parameter(name)}={self.default(name) or None}" for name in rest]
        cases = [self._case(op, self.ops[n + 1 :]) for n, op in enumerate(self.ops)]
        forms = dict.fromkeys(", ".join(a.name for a in self.arguments[op.name]) for op in self.ops)
        return Merge(tuple(found), tuple(cases), tuple(preamble), tuple(forms))

    def default(self, name: str) -> str:
        """Return the parameter's default, or "" if all overloads require the parameter at the same
        position.

        The result is None instead of the overloads' defaults if the code must test whether an
        argument was given.
        """
        if name in self.awaited:
            return "..."
        uses = self.uses(name)
        values = list(dict.fromkeys(default(a) for a in uses if a.has_default))
        is_shared = len(uses) == len(self.ops)
        if is_shared and not values and self._has_one_place(name):
            return ""
        is_plain = len(values) == 1 and (is_shared or values[0] in ("None", "False", "()"))
        return values[0] if is_plain else "None"

    def _has_one_place(self, name: str) -> bool:
        lists = [[a.name for a in listed] for listed in (*self.positional.values(), self.longest)]
        return len({names.index(name) for names in lists if name in names}) <= 1

    # -- from positions to names ----------------------------------------------------------------

    def _preamble(self) -> tuple[list[str], bool]:
        """Return (lines, takes_args). The lines assign positional arguments to the parameters of
        their overload. takes_args: True if positional arguments are received as `*args`."""
        owns = list(self.positional.values())
        for op in self.ops:
            listed = vararg(op, is_method=self.is_method)
            if listed is None:
                continue
            others = [own for own in owns if own != [listed]]
            if all(
                len(own) == 1 and own[0].name != listed.name and _class(own[0]) in TESTS
                for own in others
            ):
                return spread(self.base, listed, [own[0] for own in others]), True
        moved = [own for own in map(self._own, self.ops) if self._moves(own)]
        moved = [own for n, own in enumerate(moved) if own not in moved[:n]]
        tail = self._tail()
        if moved and not all(map(self._has_one_place, tail)):
            return self._by_the_first(tail), True
        tests = [found for own in moved for found in self._tests(own)]
        lines = []
        for number, (test, names, values) in enumerate(tests):
            lines += [f"{'elif' if number else 'if'} {test}:"]
            lines += [f"    {', '.join(names)} = {', '.join(values)}"]
        return lines, False

    def _own(self, op: Op) -> list[Argument]:
        return self.positional[op.name]

    def _moves(self, own: Sequence[Argument]) -> list[int]:
        """Return the positions at which the names in `own` differ from the names of the merged
        function's parameters."""
        return [k for k, a in enumerate(own) if a.name != self.places[k]]

    def _tests(self, own: Sequence[Argument]) -> list[tuple[str, list[str], list[str]]]:
        """Return (test, names, values) tuples: a test that selects the overload with parameters
        `own`, and the assignment of moved arguments."""
        moves, found = self._moves(own), []
        told = [k for k in moves if _class(own[k]) != _class(self.longest[k])]
        for k in told[:1]:
            test = _test(own[k], self.longest[k], parameter(self.places[k]))
            if _class(own[k]) == "Tensor" and own[k] is own[-1] and k + 1 < len(self.places):
                # Without this test, a tensor in place of a number would select this overload.
                test = f"{test} and {self._lacks(k + 1)}"
            found.append((test, *self._assignment(own, moves)))
        first = moves[0]
        if first not in told and first + 1 < len(self.places):
            found.append((self._lacks(first + 1), *self._assignment(own, [first])))
        return found

    def _lacks(self, place: int) -> str:
        """Return the test that no argument was given at a position of the longest parameter
        list."""
        behind = self.longest[place]
        if behind.type.is_optional and not behind.has_default:
            self.awaited.add(behind.name)
        return f"{parameter(behind.name)} is {self.default(behind.name) or None}"

    def _assignment(self, own: Sequence[Argument], moves: list[int]) -> tuple[list[str], list[str]]:
        values = {own[k].name: parameter(self.places[k]) for k in moves}
        left = [self.places[k] for k in moves]
        names = [name for name in self.names if name in values or name in left]
        return list(map(parameter, names)), [values.get(name, "None") for name in names]

    def _tail(self) -> list[str]:
        """Return the optional parameters with which the lists of positional parameters of all
        overloads end."""
        ends = [own[::-1] for own in self.positional.values() if own]
        tail: list[str] = []
        for arguments in zip(*ends):
            if len({a.name for a in arguments}) > 1 or not all(a.has_default for a in arguments):
                break
            tail.insert(0, arguments[0].name)
        return tail

    def _by_the_first(self, tail: list[str]) -> list[str]:
        """Return lines that assign `*args` to names. The type of the first argument selects the
        overload."""
        heads: dict[str, list[Argument]] = {}
        for own in self.positional.values():
            head = own[: len(own) - len(tail)]
            if head and len(head) > len(heads.get(_class(head[0]), [])):
                heads[_class(head[0])] = head
        order = [*TESTS, *heads]
        lines, word = ["first, *rest = args"], "if"
        for kind in sorted(heads, key=order.index):
            test = TESTS.get(kind)
            lines.append(f"{word} {test.format('first')}:" if test else "else:")
            lines.append(f"    {parameter(heads[kind][0].name)} = first")
            lines += indent([line for a in heads[kind][1:] for line in _next(a.name)])
            word = "elif"
        lines += [line for name in tail for line in _next(name)]
        most = max(map(len, heads.values())) + len(tail)
        lines += ["if rest:", f'    raise _errors.too_many("{self.base}", {most})']
        return ["if args:", *indent(lines)]

    # -- the choice -----------------------------------------------------------------------------

    def _case(self, op: Op, later: Sequence[Op]) -> Case:
        conditions = list(dict.fromkeys(self._conditions(op, later)))
        if len(conditions) > 1:
            conditions = [f"({text})" if " or " in text else text for text in conditions]
        return Case(" and ".join(conditions), op.name, self._filled(op))

    def _conditions(self, op: Op, later: Sequence[Op]) -> list[str]:
        own = [a.name for a in self.arguments[op.name]]
        needs = _needs(self.arguments[op.name])
        rivals = [o for o in later if all(n in own for n in _needs(self.arguments[o.name]))]
        found = []
        for name in needs:
            is_shared = len(self.uses(name)) == len(self.ops)
            if not is_shared and any(name not in _needs(self.arguments[o.name]) for o in rivals):
                found.append(f"{parameter(name)} is not None")
        for name in self.names:
            if name not in own:
                value, at = self.default(name), parameter(name)
                found.append(f"not {at}" if value in ("False", "()") else f"{at} is None")
        for other in rivals:
            if all(self.argument(other, name) is not None for name in needs):
                found += self._told(op, other)
        return found

    def _told(self, op: Op, other: Op) -> list[str]:
        """Return the type tests that distinguish two overloads, or an empty list."""
        pairs = [(a, b) for a in self.arguments[op.name] if (b := self.argument(other, a.name))]
        pairs = [(a, b) for a, b in pairs if _class(a) != _class(b)]
        needed = [(a, b) for a, b in pairs if not (a.type.is_optional and b.type.is_optional)]
        tests = [_test(a, b, parameter(a.name)) for a, b in needed[:1] or pairs]
        return [" or ".join(tests)] if tests else []

    def _filled(self, op: Op) -> dict[str, str]:
        """Return a dict from arguments of the overload to expressions that the call passes. The
        dict contains arguments for which the Python function has no parameter, and arguments whose
        default differs from the parameter's."""
        found = {}
        for a in op.arguments:
            taken = self.argument(op, a.name)
            if taken is None and a.name not in self.hidden:
                found[a.name] = default(a) if a.has_default else "None"
            elif taken is not None and taken.has_default:
                name, own = parameter(a.name), default(taken)
                if self.default(a.name) == "None" != own:
                    found[a.name] = f"{own} if {name} is None else {name}"
        return found


def _needs(arguments: Sequence[Argument]) -> list[str]:
    """Return the names of the parameters that must be given and may not be None."""
    return [a.name for a in arguments if not a.has_default and not a.type.is_optional]


def _class(argument: Argument) -> str:
    """Return the key of TESTS for a parameter's type: "list", or the name of the base type."""
    form = argument.type.required
    return "list" if form.is_list else str(form.base)


def _test(one: Argument, other: Argument, name: str) -> str:
    """Return a test that is true for values of the first type and false for values of the second
    type."""
    is_list_or_one = one.type.required.is_list and one.type.required.size is not None
    if _class(one) in TESTS and not is_list_or_one:
        test = TESTS[_class(one)].format(name)
        may_be_none = one.type.is_optional and not other.type.is_optional
        return f"{name} is None or {test}" if may_be_none else test
    opposite = TESTS[_class(other)].format(name)
    may_be_left_out = f"{name} is not None and " if not other.type.is_optional else ""
    return f"{may_be_left_out}not {opposite}"


def _next(name: str) -> list[str]:
    return ["if rest:", f"    {parameter(name)}, *rest = rest"]
