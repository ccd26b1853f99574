"""The derivatives of a family: one autograd node class for each formula in native_functions.yaml.

The text of a formula is copied into the class, with one exception: properties of operands
(`self.shape`, `geometry(self)`) are read when the operation is recorded, so that the operand itself
need not be saved. The method `keep` reads and saves them; a kernel of makers/autograd.py calls it.

Operands that share a formula get their gradients from one call. Its argument `grad_input_mask`
marks the gradients that are needed, as in PyTorch's derivatives.yaml.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..model import MASK, Model, Op, parameter
from ..text import WIDTH, indent, wrap

if TYPE_CHECKING:
    from gputensor.core.schema import Type

# Base types of schemas whose values are numbers.
_NUMERIC = ("Scalar", "float", "int", "SymInt")


def node_names(model: Model) -> dict[str, str]:
    """Return a dict from each operator to the name of its node class. An in-place form uses the
    class of its functional form. The copy of a view uses a class with the suffix `_copy`, which is
    made when the copy is registered.

    The numbers in the names follow PyTorch's derivatives.yaml. If we lack some of PyTorch's
    overloads, the field `node` gives the name.
    """
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    for op in model.ops:
        if not op.derivatives:
            continue
        if op.source is not None and not has_own_formula(op):
            names[op.name] = names[op.source.name] + ("" if op.kind == "inplace" else "_copy")
            continue
        camel = "".join(part.title() for part in op.base.strip("_").split("_"))
        camel = camel.removesuffix("Forward")
        number = counts.get(camel, 0)
        counts[camel] = number + 1
        names[op.name] = op.node or f"{camel}Backward{number}"
    return names


def has_own_formula(op: Op) -> bool:
    return bool(op.derivatives) and (op.source is None or not op.source.derivatives)


@dataclass
class Nodes:
    """A family's node classes, and the names that they import from
    `gputensor.autograd.formulas`."""

    classes: list[list[str]] = field(default_factory=list)
    formulas: set[str] = field(default_factory=set)


def nodes(model: Model, family: str) -> Nodes:
    names = node_names(model)
    found = Nodes()
    # Maps the content of a class to (name, `keep`) of the first class with this content. Later
    # classes with the same content become subclasses of the first class.
    known: dict[tuple[str, ...], tuple[str, list[str]]] = {}
    for op in model.ops:
        if op.family == family and has_own_formula(op):
            name, head, body, keep = names[op.name], _head(op), _body(op), _keeps(model, op)
            before, kept = known.setdefault((*head, *body), (name, keep))
            base = "_Node"
            if before != name:
                base, head, body = before, ["__slots__ = ()"], []
                keep = keep if keep != kept else []
            opened = f"class {name}({base}):  # {op.name}"
            opened = opened if len(opened) <= WIDTH else f"class {name}({base}):"
            renamed = [f"class {other}({name}): pass" for other in op.number_nodes.values()]
            found.classes.append([opened, *indent([*head, *keep, *body]), *renamed])
            found.formulas |= names_of_formulas(op)
    return found


class _Asking(ast.NodeTransformer):
    """Transformer that replaces properties of operands in a formula, such as `self.shape`, by
    names. asked: maps a name to the expression that the name replaces."""

    def __init__(self, operands: Collection[str]) -> None:
        self.operands = operands
        self.asked: dict[str, str] = {}

    def visit(self, node: ast.AST) -> Any:
        match node:
            case ast.Attribute(
                ast.Name(operand), "shape" | "dtype" | "device" | "_geometry" as what
            ):
                asked = ast.unparse(node)
            case ast.Call(ast.Attribute(ast.Name(operand), "numel" as what), []):
                asked = ast.unparse(node)
            case ast.Call(ast.Name("geometry" | "shapes" as what), [ast.Name(operand)]):
                asked = f"_{ast.unparse(node)}"
            case _:
                return self.generic_visit(node)
        if operand not in self.operands:
            return self.generic_visit(node)
        name = f"{operand}_{what.lstrip('_')}"
        self.asked[name] = asked
        return ast.Name(name)


class _Placing(ast.NodeTransformer):
    """Transformer that replaces names in a formula by expressions."""

    def __init__(self, where: Mapping[str, str]) -> None:
        self.where = where

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.where.get(node.id, node.id))


class _Formula:
    """The derivative for one operand: its text, and the values that it needs from the call.

    asked: name -> the expression over the arguments that gives its value. tensors: the operands
    whose elements the formula reads. values: the other arguments that the formula reads. others:
    the results that the formula reads by name, with their positions."""

    def __init__(self, op: Op, text: str) -> None:
        asking = _Asking({argument.name for argument in op.tensors})
        self.tree = asking.visit(ast.parse(text, mode="eval"))
        self.asked = asking.asked
        self.used = [node for node in ast.walk(self.tree) if isinstance(node, ast.Name)]
        names = {node.id for node in self.used}
        known = [a for a in op.arguments if parameter(a.name) in names and a.name not in self.asked]
        self.tensors = [a.name for a in known if a.type.has_tensor]
        self.values = [a for a in known if not a.type.has_tensor]
        made = op.schema.returns
        is_one_of_several = len(made) > 1 and any(x.name == "result" for x in made)
        self.has_result = "result" in names and not is_one_of_several
        self.grads = _results_of_grads(self.tree, len(made)) if "grads" in names else set()
        if self.has_result and len(made) > 1:
            raise LookupError(f"{op.name}: a derivative names the results, of which it has several")
        called = [x.name or f"result{n}" for n, x in enumerate(made)]
        self.others = {x: n for n, x in enumerate(called) if x in names and len(made) > 1}

    @property
    def saved(self) -> list[str]:
        """The names of the saved tensors, which must be unpacked."""
        return [*self.tensors, *(["result"] if self.has_result else []), *self.others]

    def lines(self, head: str, tail: str, margin: int = 8) -> list[str]:
        """Return the formula between head and tail as lines. Saved values are inlined unless they
        are used twice or the line would be too long."""
        kept = [*self.asked, *(parameter(a.name) for a in self.values)]
        where = {name: f"node.saved_{name}" for name in kept}
        where |= {name: f"node.saved_{name}.unpack(node)" for name in self.saved}
        once = [n for n in where if n in kept or sum(node.id == n for node in self.used) == 1]
        for inlined in (once, kept, []):
            placing = _Placing({name: where[name] for name in inlined})
            text = ast.unparse(placing.visit(copy.deepcopy(self.tree)))
            if len(head + text + tail) <= WIDTH - margin:
                break
        first = [f"{name} = {code}" for name, code in where.items() if name not in inlined]
        return [*first, *line(head, text, tail, WIDTH - margin)]


def _formulas(op: Op) -> dict[str, _Formula]:
    """Return a dict from operand to formula, in the order of the schema."""
    return {
        a.name: _Formula(op, op.derivatives[a.name])
        for a in op.arguments
        if a.name in op.derivatives
    }


def names_of_formulas(op: Op) -> set[str]:
    """Return the free names in an operator's derivatives: functions of formulas, or operators."""
    given = {"grad", "grads", MASK, *dir(builtins)}
    found = set()
    for formula in _formulas(op).values():
        kept = {*formula.asked, *formula.saved, *(parameter(a.name) for a in formula.values)}
        found |= {node.id for node in formula.used} - given - kept
    return found


def _slots(op: Op) -> list[str]:
    """Return the slots of a node class that hold saved tensors."""
    found = [f"saved_{name}" for formula in _formulas(op).values() for name in formula.saved]
    in_order = [name for name in found if name != "saved_result"]
    return list(dict.fromkeys(in_order + [name for name in found if name == "saved_result"]))


def _kept(op: Op) -> dict[str, str]:
    """Return a dict from slot to an expression over the call's arguments, for saved values that are
    not tensors."""
    found: dict[str, str] = {}
    for formula in _formulas(op).values():
        for name, expression in formula.asked.items():
            found[f"saved_{name}"] = expression
        for argument in formula.values:
            name = parameter(argument.name)
            found[f"saved_{name}"] = _held(name, argument.type)
    return found


def _held(name: str, kind: Type) -> str:
    """Return the expression that saves an argument. Lists and tensors may change later. So a list
    is copied, and a tensor that is given in place of a number is replaced by its value."""
    if kind.required.is_list:
        return f"tuple({name}) if type({name}) is list else {name}"
    if kind.required.base in _NUMERIC:
        return f"{name} if type({name}) in _PLAIN else _kept({name})"
    return name


def _listed(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _quoted(names: Iterable[str]) -> str:
    return _listed([f'"{name}"' for name in names])


def _tuple(targets: str, names: Sequence[str]) -> list[str]:
    """Return the lines that assign the names to `targets`, as a tuple of strings."""
    if len(names) < 2:
        return [f"{targets} = {_quoted(names)}"]
    return wrap(f"{targets} = (", [f'"{name}"' for name in names], ")")


def _head(op: Op) -> list[str]:
    """Return the attributes of a node class; see autograd/node.py."""
    formulas, saved = _formulas(op), _slots(op)
    slots = (*saved, *_kept(op))
    targets = "__slots__ = saved" if saved and not _kept(op) else "__slots__"
    # an empty `__slots__` would have no effect, because Node has a __dict__
    lines = _tuple(targets, slots) if slots else []
    if saved and _kept(op):
        lines += _tuple("saved", saved)
    if len(formulas) < len(op.tensors):
        lines.append(f"inputs = {_quoted(formulas)}")
    others = [pair for formula in formulas.values() for pair in formula.others.items()]
    if others:
        pairs = [f'("saved_{name}", {number})' for name, number in dict.fromkeys(others)]
        lines.append(f"others = {_listed(pairs)}")
    readers = [str(n) for n, formula in enumerate(formulas.values()) if formula.has_result]
    if 0 < len(readers) < len(formulas):
        lines.append(f"result_for = {_listed(readers)}")
    if _differentiated(op):
        lines.append(f"differentiated = {_listed([str(n) for n in _differentiated(op)])}")
    return lines


def _body(op: Op) -> list[str]:
    """Return the methods `backward` and `release` of a node class."""
    formulas, saved = _formulas(op), _slots(op)
    is_list = op.schema.returns[0].type.required.is_list
    lines = [f"def backward(node, {'*grads' if is_list or _differentiated(op) else 'grad'}):"]
    lines += indent(["grads = node.zeros_for(grads)"] if is_list else [])
    lines += indent(_returned(op, formulas))
    if saved:
        # `release` assigns each slot without a loop. Every backward pass calls `release`, and a
        # loop over the names would cost 200 ns.
        lines += ["def release(node):"]
        emptied = [""]
        for target in [f"node.{slot} = " for slot in saved]:
            if len(emptied[-1] + target) > WIDTH - 14:
                emptied.append("")
            emptied[-1] += target
        lines += indent([f"{targets}_FREED" for targets in emptied])
    return lines


def _differentiated(op: Op) -> list[int]:
    """Return the positions of the results whose gradients a formula reads, for operators with
    several results."""
    if len(op.schema.returns) == 1:
        return []
    return sorted(set().union(*[formula.grads for formula in _formulas(op).values()]))


def _results_of_grads(tree: ast.AST, count: int) -> set[int]:
    """Return the positions of the results whose gradients a formula reads: 1 for `grads[1]`, all
    positions for `grads`."""
    picked = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "grads":
            picked.add(int(ast.unparse(node.slice)))
    asked = sum(isinstance(node, ast.Name) and node.id == "grads" for node in ast.walk(tree))
    named = ast.unparse(tree).count("grads[")
    return picked if asked == named else set(range(count))


def _returned(op: Op, formulas: dict[str, _Formula]) -> list[str]:
    """Return the last lines of `backward`. They return the gradients, if possible in one
    expression."""
    if len(formulas) == 1:
        ((name, formula),) = formulas.items()
        takes_list = any(a.type.required.is_list for a in op.tensors if a.name == name)
        head, tail = ("return ", "") if takes_list else ("return (", ",)")
        return formula.lines(head, tail)
    if op.has_joint_formula:
        mask = f"{MASK} = tuple([edge is not None for edge in node.edges])"
        return [mask, *next(iter(formulas.values())).lines("return ", "")]
    unpacked = f"{', '.join(f'to_{name}' for name in formulas)} = node.edges"
    parts = [
        formula.lines(f"None if to_{name} is None else ", ",", 12)
        for name, formula in formulas.items()
    ]
    if all(len(part) == 1 for part in parts):
        return [unpacked, "return (", *indent([line for part in parts for line in part]), ")"]
    results = [f"grad_{name}" for name in formulas]
    lines = [unpacked, f"{' = '.join(results)} = None"]
    for name, formula in formulas.items():
        lines += [f"if to_{name} is not None:", *indent(formula.lines(f"grad_{name} = ", "", 12))]
    return [*lines, f"return {', '.join(results)}"]


def line(head: str, expression: str, tail: str, room: int) -> list[str]:
    """Return head + expression + tail as a line. If it is too long and the expression is a call,
    the line may be broken between the arguments."""
    made = ast.parse(expression, mode="eval").body
    if isinstance(made, ast.Subscript) and isinstance(made.value, ast.Call):
        tail = f"[{ast.unparse(made.slice)}]{tail}"
        made = made.value
        expression = ast.unparse(made)
    if isinstance(made, ast.UnaryOp) and isinstance(made.op, ast.USub):
        head, made = f"{head}-", made.operand
        expression = ast.unparse(made)
    if len(head + expression + tail) <= room or not isinstance(made, ast.Call):
        return [head + expression + tail]
    given = [ast.unparse(argument) for argument in made.args]
    return wrap(f"{head}{ast.unparse(made.func)}(", given, f"){tail}")


# --- saved values -------------------------------------------------------------------------------


def _keeps(model: Model, op: Op) -> list[str]:
    """Return the lines of the method `keep`. If an in-place form overwrites a value that the
    derivative needs, also return the method `keep_inplace`."""
    lines = _keep(op, "keep", op.kind == "inplace")
    saves_self = any("self" in formula.tensors for formula in _formulas(op).values())
    if saves_self and any(o.source is op and o.kind == "inplace" for o in model.ops):
        lines += _keep(op, "keep_inplace", True)
    return lines


def _keep(op: Op, name: str, is_inplace: bool) -> list[str]:
    """Return a method that takes the call's arguments and saves the values that the formulas read.
    It saves a tensor only if the gradient of a formula that reads the tensor is needed. If an
    operand in `number_nodes` is a number, the method replaces the node's class."""
    formulas = _formulas(op)
    lines = []
    for argument, node in op.number_nodes.items():
        lines.append(f"if type({parameter(argument)}) in _PLAIN: node.__class__ = {node}")
    needed: dict[str, list[int]] = {}
    for number, formula in enumerate(formulas.values()):
        for operand in formula.tensors:
            needed.setdefault(operand, []).append(number)
    test = ""
    for operand, numbers in needed.items():
        save = "_save_copy" if is_inplace and operand == "self" else "_save"
        save = "_save_or_recompute" if op.activation == operand else save
        line = f"node.saved_{operand} = {save}({operand})"
        if len(numbers) == len(formulas):
            lines.append(line)
            continue
        before = test
        test = " or ".join(f"node.edges[{number}] is not None" for number in numbers)
        lines += [f"    {line}"] if test == before else [f"if {test}:", f"    {line}"]
    for slot, expression in _kept(op).items():
        line = f"node.{slot} = {expression}"
        is_long = len(line) > WIDTH - 8
        lines += [f"node.{slot} = (", f"    {expression}", ")"] if is_long else [line]
    if not lines:
        return []
    head = wrap(f"def {name}(", ["node", *op.parameters], "):")
    return [*head, *indent(lines)]
