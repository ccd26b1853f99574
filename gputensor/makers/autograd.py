"""Kernels of the Autograd keys: they record a node and redispatch.

A kernel first checks whether an operand requires grad. The rest of its work depends on the schema
and on the node's class, which saves the values that the derivative needs.

Note [Shapes]
One letter for each argument: T a tensor, N a tensor or a number, P an optional tensor, Q a tensor,
number or None, L a list of tensors; C a tensor without a derivative, M a tensor without a
derivative or a number, O a tensor without a derivative or None; V any other argument, including
lists of indices, which may contain None and are never differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._generated import shapes
from ..autograd.inplace_or_view import rebase_history, reshape_history
from ..autograd.node import Node
from ..autograd.saved import save, save_result
from ..autograd.variable import (
    check_constant, check_out, check_resize, record, record_inplace, record_unary, set_histories,
    set_history,
)  # fmt: skip
from ..core.schema import Argument
from ..dispatch.operator import Table

Function = Callable[..., Any]
Maker = Callable[[Table, int], Function]


def shape_of(table: Table, inputs: tuple[str, ...] | None = None) -> str:
    """Return the shape of an operator, one letter for each argument: see Note [Shapes]. inputs: the
    arguments that have derivatives."""
    definition, signature = table.definition, table.signature
    numbers = () if definition is None else definition.numbers
    return "".join([_letter(a, inputs, numbers) for a in signature.schema.arguments])


def _letter(argument: Argument, inputs: tuple[str, ...] | None, numbers: tuple[str, ...]) -> str:
    if not argument.type.has_tensor or str(argument.type.required) == "Tensor?[]":
        return "V"
    if argument.type.required.is_list:
        return "L"
    if inputs is not None and argument.name not in inputs:
        plain = "M" if argument.name in numbers else "C"
        return "O" if argument.type.is_optional else plain
    plain, optional = ("N", "Q") if argument.name in numbers else ("T", "P")
    return optional if argument.type.is_optional else plain


# --- recording ------------------------------------------------------------------------------------


def records(kind: type[Node]) -> Maker:
    """Return the maker of kernels that record nodes of class `kind`."""

    def make(table: Table, key_set: int) -> Function:
        schema = table.signature.schema
        shape = shape_of(table, kind.inputs)
        recorder: Function = record_unary if shape.strip("VCO") == "T" else record
        keep, finish = kind.keep, _finish(table, kind)
        if schema.kind == "inplace":
            recorder, keep = record_inplace, kind.keep_inplace or kind.keep
        made: Callable[..., Function] = vars(shapes)[f"records_{shape}"]
        return made(table.operator, kind, recorder, keep, finish)

    # Short cuts read this attribute: see Note [Short cuts] in dispatch.
    vars(make)["recording"] = lambda table, behind: _recording(table, kind, behind)
    return make


def _recording(table: Table, kind: type[Node], behind: tuple[Any, ...] | None) -> Any:
    """Return two functions for short cuts: the kernel's work before and after the redispatch.
    Return None if the kernel does more than make a node and attach it to the result. behind: the
    arguments after the operands, or None if the first function takes all arguments."""
    shape, schema = shape_of(table, kind.inputs), table.signature.schema
    if schema.kind == "functional" and shape.strip("V") == "L":

        def begin_list(tensors: Any) -> Any:
            node = record(kind, *tensors)
            if node is not None:
                kind.keep(node, tensors, *(behind or ()))
            return node

        return begin_list, _finish(table, kind)
    if schema.kind != "functional" or shape.strip("TNCV" if behind is not None else "TNCVPQOM"):
        return None
    takes_all, behind = behind is None, behind or ()
    recorder: Function = record_unary if shape.strip("VC") == "T" else record
    keep, differentiated = kind.keep, [n for n, letter in enumerate(shape) if letter in "TNPQ"]
    constants = [n for n, letter in enumerate(shape) if letter in "COM"]

    def begin(*operands: Any) -> Any:
        node = recorder(kind, *operands)
        if node is not None:
            keep(node, *operands, *behind)
        return node

    def begin_some(*operands: Any) -> Any:
        args = (*operands, *behind)
        for n in constants:
            if getattr(args[n], "_autograd", None) is not None:
                check_constant(table.operator, n, args[n])
        node = recorder(kind, *[args[n] for n in differentiated])
        if node is not None:
            keep(node, *args)
        return node

    count = len(shape) - len(behind)
    is_whole = differentiated == list(range(count))
    otherwise, finish = begin if is_whole else begin_some, _finish(table, kind)
    made: Any = vars(shapes).get(f"begins_{shape}")
    if made is None or count != len(shape.rstrip("V")) or takes_all:
        return otherwise, finish
    return made(table.operator, kind, keep, behind, otherwise), finish


def _finish(table: Table, kind: type[Node]) -> Function:
    """Return a function that attaches the node to the result."""
    schema = table.signature.schema
    finish: Function = set_history
    if schema.kind == "inplace":
        is_view = "inplace_view" in table.operator.tags
        finish = reshape_history if is_view else rebase_history
    elif len(schema.returns) > 1:
        finish = _some_of_several(kind) if kind.differentiated else _first_of_several(kind)
    elif schema.returns[0].type.required.is_list:
        finish = set_histories
    saves_all = "saved_result" in kind.saved and not kind.others
    return _with_result(finish, kind.result_for) if saves_all else finish


def _with_result(finish: Function, readers: tuple[int, ...]) -> Function:
    """Wrap `finish` for operators whose derivative needs the result. readers: see Node."""

    def keep_result(result: Any, node: Any) -> Any:
        node.saved_result = save_result(result)
        return finish(result, node)

    def keep_if_read(result: Any, node: Any) -> Any:
        edges = node.edges
        is_read = any([edges[n] is not None for n in readers])
        return (keep_result if is_read else finish)(result, node)

    return keep_if_read if readers else keep_result


def _first_of_several(kind: type[Node]) -> Function:
    """Return a function that attaches the node to the first of several results. The derivative may
    need the other results."""

    def finish(result: Any, node: Node) -> Any:
        for slot, number in kind.others:
            setattr(node, slot, save(result[number]) if number else save_result(result[0]))
        set_history(result[0], node)
        return result

    return finish


def _some_of_several(kind: type[Node]) -> Function:
    """Return a function that attaches the node to the results whose gradients are read by a
    derivative formula."""

    def finish(result: Any, node: Node) -> Any:
        for slot, number in kind.others:
            setattr(node, slot, save_result(result[number], number))
        return set_histories(result, node, kind.differentiated)

    return finish


# --- operators that cannot be recorded ------------------------------------------------------------


def refuses_out(table: Table, key_set: int) -> Function:
    """Make the kernel of an out form, which raises an error if autograd would have to record the
    call."""
    made: Function = vars(shapes)[f"refuses_{shape_of(table)}"](table.operator, check_out)
    return made


def refuses_resize(table: Table, key_set: int) -> Function:
    """Make the kernel of an operator that changes a tensor's sizes or storage. The kernel raises an
    error if autograd would have to record the call."""
    made: Function = vars(shapes)[f"refuses_{shape_of(table)}"](table.operator, check_resize)
    return made
