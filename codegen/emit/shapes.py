"""Text of makers/_generated/shapes.py: a kernel function for each schema shape that occurs.

Passing arguments as `*args` takes a sixth of the time of a small call (bench/host/overhead.py). So
makers use the functions of this module, which have exactly the needed arguments. For shapes that it
lacks they use a general function.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..model import Model, Op
from ..text import condition, indent, joined, Line, module, wrap
from . import kernels

DOC = """Kernels of Autocast, Autograd, ADInplaceOrView and BackendSelect by the shape of a schema.

gputensor/makers chooses among them when a slot is computed. The letters are those of Note [Shapes]
in makers/autograd.py; other names contain the number of arguments."""

IMPORTS = """from ...amp.casting import AUTOCAST, cast, cast_any, cast_list, device_of, widest
from ...autograd import anomaly
from ...autograd.history import AutogradMeta, accumulator
from ...autograd.inplace_or_view import bump_version, track_view, track_views
from ...autograd.modes import below_autograd, grad_mode
from ...autograd.node import _numbers
from ...autograd.variable import check_constant
from ...core.arguments import NUMBERS, keys_of_list
from ...dispatch.backend_select import DENSE_KEYS, default_device
from ...dispatch.keys import BELOW_ADINPLACEORVIEW, below, functionality_bit
from ...dispatch.tls import state, unrecorded
from ...tensor.tensor import Tensor

BELOW_AUTOGRAD = below("AutogradOther")
TRACKED = functionality_bit("ADInplaceOrView")
get, put = state.get, state.set
mode, new = grad_mode.get, object.__new__"""

NAMES = "abcdefghijkmnp"
# Policies that cast operands. All other policies choose the dtype of the computation.
_CASTING = {"lower_precision_fp", "fp32", "promote"}


def shapes(model: Model) -> str:
    selected, counted, tracked, refused, recorded = (set[tuple[str, int]]() for _ in range(5))
    begun = {shape_of(op) for op in model.ops if _begins_by_itself(op)}
    cast = {shape_of(op, ()) for op in model.ops if _CASTING.intersection(op.autocast.values())}
    for op in model.ops:
        n = len(op.arguments)
        places = [number for number, a in enumerate(op.arguments) if a.is_write]
        if op.is_factory:
            device = [a.name for a in op.arguments].index("device")
            selected.add((f"selects_{device}_of_{n}", device))
        if op.is_implicit:
            continue
        if places:
            if len(places) == 1:
                counted.add((f"counts_{places[0]}_of_{n}", places[0]))
        elif kernels.is_view(op) and not op.replay:
            is_list = op.schema.returns[0].type.required.is_list
            tracked.add((f"tracks_{'views' if is_list else 'view'}_{n}", n))
        if op.derivatives:
            recorded.add((shape_of(op), n))
        elif op.kind == "out" or op.kind == "inplace" and "reads_storage" in op.tags:
            refused.add((shape_of(op), n))
    parts = [
        *(_selects(name, place) for name, place in sorted(selected)),
        *(_counts(name, place) for name, place in sorted(counted)),
        *(_tracks(name, n) for name, n in sorted(tracked)),
        *(_refuses(shape) for shape, _ in sorted(refused)),
        *(_records(shape) for shape, _ in sorted(recorded)),
        *(_begins(shape) for shape in sorted(begun)),
        *(_casts(shape) for shape in sorted(cast)),
    ]
    return module(DOC, IMPORTS, *map(joined, parts))


def shape_of(op: Op, differentiable: Iterable[str] | None = None) -> str:
    """Return the shape of an operator's schema; see Note [Shapes] in makers/autograd.py.

    differentiable: the arguments that have a derivative, or an empty iterable if it does not
    matter, as for a cast.
    """
    derivatives = op.derivatives if differentiable is None else differentiable
    inputs = derivatives or [a.name for a in op.tensors]
    letters = ""
    for a in op.arguments:
        if not a.type.has_tensor or str(a.type.required) == "Tensor?[]":
            letters += "V"
        elif a.type.required.is_list:
            letters += "L"
        elif a.name not in inputs:
            plain = "M" if a.name in op.kernel_numbers else "C"
            letters += "O" if a.type.is_optional else plain
        else:
            is_number = a.name in op.kernel_numbers
            plain, optional = ("N", "Q") if is_number else ("T", "P")
            letters += optional if a.type.is_optional else plain
    return letters


def _maker(name: str, closed: Iterable[str], n: int, body: list[str]) -> list[str]:
    given = ", ".join(["key_set", *NAMES[:n]])
    return [
        *wrap(f"def {name}(", ["operator", *closed], "):"),
        f"    def kernel({given}):",
        *indent(body, 8),
        "    return kernel",
    ]


def _go_on(lead: str, n: int) -> str:
    return f"{lead}operator.redispatch_table[key_set]({', '.join(['key_set', *NAMES[:n]])})"


def _selects(name: str, place: int) -> list[str]:
    device, n = NAMES[place], int(name.rpartition("_")[2])
    return _maker(name, (), n, [
        f"if {device} is None:",
        f"    {device} = default_device()",
        f"key_set = DENSE_KEYS[{device}.type]",
        _go_on("return ", n),
    ])  # fmt: skip


def _counts(name: str, place: int) -> list[str]:
    x, n = NAMES[place], int(name.rpartition("_")[2])
    return _maker(name, (), n, [
        "key_set &= BELOW_ADINPLACEORVIEW",
        _go_on("result = ", n),
        f"storage = {x}._storage",
        f"if storage is not None and {x}._keys & TRACKED:",
        "    storage.version += 1",
        "else:",
        f"    bump_version({x})",
        "return result",
    ])  # fmt: skip


def _tracks(name: str, n: int) -> list[str]:
    body = ["key_set &= BELOW_ADINPLACEORVIEW"]
    if "views" in name:
        return _maker(name, (), n, [*body, _go_on("result = ", n), "return track_views(a, result)"])
    return _maker(name, (), n, [
        *body,
        _go_on("result = ", n),
        "if a._autograd is None and not unrecorded:",
        "    result._autograd = a",
        "    return result",
        "return track_view(a, result)",
    ])  # fmt: skip


def _plain(shape: str) -> str:
    """Return the condition that no operand has an autograd history. Numbers are recognised by their
    type."""
    tests = {
        "T": "{0}._autograd is None",
        "N": "({0}._autograd is None if type({0}) is Tensor else type({0}) in NUMBERS)",
        "P": "({0} is None or {0}._autograd is None)",
        "Q": 'getattr({0}, "_autograd", None) is None',
        "L": "all([x._autograd is None for x in {0}])",
    }
    return " and ".join(
        tests[letter].format(name) for letter, name in zip(shape, NAMES) if letter in tests
    )


def _given(shape: str) -> str:
    """Return the text of an argument list with the operands that may have a gradient."""
    stars = {"T": "", "N": "", "P": "", "Q": "", "L": "*"}
    return ", ".join(stars[letter] + name for letter, name in zip(shape, NAMES) if letter in stars)


def _unless(shape: str) -> Line:
    """Return `if not (test):` for the test that no operand has a history."""
    return Line("if not (", _plain(shape).split(" and "), "):", "and")


def _refuses(shape: str) -> list[str]:
    n = len(shape)
    return _maker(f"refuses_{shape}", ["check"], n, [
        _unless(shape),
        f"    check(operator.short_name, {_given(shape)})",
        "key_set &= BELOW_AUTOGRAD",
        _go_on("return ", n),
    ])  # fmt: skip


# Tests that an argument is a tensor, by the letter of the argument, which has no derivative. The
# test comes before the test for an autograd history, because numbers and None have no attribute for
# the history.
_CONSTANT = {"C": "", "M": "type({}) not in NUMBERS and ", "O": "{} is not None and "}


def _records(shape: str) -> list[str]:
    n = len(shape)
    body = ["key_set &= BELOW_AUTOGRAD"]
    for number, (letter, name) in enumerate(zip(shape, NAMES)):
        if letter in _CONSTANT:
            is_there = _CONSTANT[letter].format(name)
            body += [
                f"if {is_there}{name}._autograd is not None:",
                f"    check_constant(operator, {number}, {name})",
            ]
    *tests, last = _plain(shape).split(" and ")
    tests.append(f"{last} or (node := record(kind, {_given(shape)})) is None")
    body += [condition(tests), "    " + _go_on("return ", n)]
    body += [
        f"keep(node, {', '.join(NAMES[:n])})",
        "before = get()",
        "try:",
        "    put(below_autograd[before])",
        "    " + _go_on("result = ", n),
        "finally:",
        "    put(before)",
        "return finish(result, node)",
    ]
    return _maker(f"records_{shape}", ["kind", "record", "keep", "finish"], n, body)


def _begins_by_itself(op: Op) -> bool:
    """Return True if a short cut may record the operator without the full dispatch. The operator
    must make one new tensor from tensors, and its other arguments cannot have a history."""
    is_one = op.kind == "functional" and len(op.schema.returns) == 1
    return bool(op.derivatives and is_one and re.fullmatch("[TNC]{1,3}V*", shape_of(op)))


def _begins(shape: str) -> list[str]:
    """Return the function by which a short cut records a call before it runs the loop. The function
    does the work of `record` and `keep` in one frame. It calls `otherwise` for operands that are
    neither results of recorded calls nor leaves, such as some views."""
    count = len(shape.rstrip("V"))
    operands, behind = NAMES[:count], NAMES[count : len(shape)]
    given = ", ".join(operands)
    body = ["if mode():", "    return None"]
    for number, (letter, x) in enumerate(zip(shape, operands)):
        if letter == "C":
            body += [
                f"if {x}._autograd is not None:",
                f"    check_constant(operator, {number}, {x})",
            ]
            continue
        is_number = f"None if type({x}) in NUMBERS else " if letter == "N" else ""
        body += [
            f"to_{x}, known = None, {is_number}{x}._autograd",
            "if known is not None:",
            "    if type(known) is AutogradMeta and (",
            f"        known.view is None or known.version == {x}._storage.version",
            "    ):",
            f"        to_{x}, own = known.edge, known.own",
            f"        if to_{x} is None:",
            "            if own is not None and own.requires_grad:",
            f"                to_{x} = (accumulator({x}, own), 0)",
            "            elif known.view is not None:",
            f"                return otherwise({given})",
            "    elif type(known) is not Tensor or known._autograd is not None:",
            f"        return otherwise({given})",
        ]
    edges = [f"to_{x}" for letter, x in zip(shape, operands) if letter != "C"]
    lines = [
        f"if {' and '.join(f'{edge} is None' for edge in edges)}:",
        "    return None",
        "node = new(kind)",
        f"node.edges = ({', '.join(edges)}{',' if len(edges) == 1 else ''})",
        "node.sequence_nr = next(_numbers)",
        "if anomaly.is_on:",
        "    node.trace = anomaly.stack()",
        f"keep(node, {', '.join([*operands, *behind])})",
        "return node",
    ]
    closed = ", ".join(["operator", "kind", "keep", "behind", "otherwise"])
    unpacked = f"{', '.join(behind)}{',' if len(behind) == 1 else ''} = behind"
    return [
        f"def begins_{shape}({closed}):",
        *([f"    {unpacked}"] if behind else []),
        f"    def begin({given}):",
        *indent([*body, *lines], 8),
        "    return begin",
    ]


def _casts(shape: str) -> list[str]:
    casters = {"T": "cast", "N": "cast_any", "P": "cast_any", "Q": "cast_any", "L": "cast_list"}
    keys = {
        "T": "{0}._keys", "L": "keys_of_list({0})", "P": "(0 if {0} is None else {0}._keys)",
        "N": "(0 if type({0}) in NUMBERS else {0}._keys)", "Q": 'getattr({0}, "_keys", 0)',
    }  # fmt: skip
    operands = [(letter, name) for letter, name in zip(shape, NAMES) if letter in casters]
    bits = " | ".join(keys[letter].format(name) for letter, name in operands)
    given = ", ".join(["key_set", *NAMES[: len(shape)]])
    return _maker(f"casts_{shape}", ["fixed", "is_widest"], len(shape), [
        "device = device_of[key_set & AUTOCAST]",
        "include, keep = before = get()",
        "keep &= ~device.key",
        "try:",
        "    put((include, keep))",
        f"    to = widest(device, {_given(shape)}) if is_widest else fixed or device.dtype.get()",
        *(f"    {name} = {casters[letter]}({name}, to, device)" for letter, name in operands),
        f"    key_set = ({bits} | include) & keep",
        f"    return operator.table[key_set]({given})",
        "finally:",
        "    put(before)",
    ])  # fmt: skip
