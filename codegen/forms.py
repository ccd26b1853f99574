"""Overloads that an entry of native_functions.yaml implies: the forms in its `autogen`, and the
overloads for its `scalars` and `aliases`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from . import model
from .entry import EntryError
from .model import NAMES_OF_SETS, OPTIONS, Op, schema

if TYPE_CHECKING:
    from gputensor.core.schema import FunctionSchema


def derived(entry: Op) -> Iterable[Op]:
    """Return the operators named in an entry's `autogen`. If `view_copy` is one of them, its forms,
    such as `view_copy.out`, are derived from `view_copy` and not from the entry `view`."""
    copy = None
    for name in entry.autogen:
        of = copy if copy is not None and name.partition(".")[0] == copy.base else entry
        found = derive(of, name)
        if found is None:
            forms = f"'{entry.base}_' or '{entry.base}.out'"
            raise EntryError(
                entry.line, entry.base, f"'autogen' must name its forms like {forms} (got '{name}')"
            )
        kind = "copy" if found.name.base == f"{entry.base}_copy" and of is entry else found.kind
        summary = entry.doc.partition("\n")[0]
        docs = {"inplace": f"In place: {summary}", "copy": f"{summary} A copy, row-major."}
        tags = tuple(tag for tag in of.tags if tag not in model.OF_THE_ENTRY)
        has_kernels = of.dispatch is not None and not of.loops and not of.dtypes
        follows = kind == "copy" or of.follows or has_kernels
        written = [a.name for a in found.arguments if a.is_write]
        made = Op(
            schema=found,
            line=entry.line,
            family=entry.family,
            doc=docs.get(kind, of.doc),
            variants=_variants(entry, kind),
            dispatch={_key(of, kind): kind} if follows else None,
            factory=entry.factory,
            loops=entry.loops,
            dtypes=entry.dtypes,
            derivatives=_derivatives(of, kind),
            numbers=tuple(a for a in entry.numbers if a not in written),
            python=entry.python if kind == "inplace" else {},
            tags=(*tags, "view_copy") if kind == "copy" else tags,
            device_check=entry.device_check,
            device_guard=entry.device_guard,
            python_module=entry.python_module,
            short=entry.short if kind == "inplace" else "",
            source=of,
            follows=of.identifier if follows else "",
        )
        copy = made if kind == "copy" else copy
        yield made


def _variants(entry: Op, kind: str) -> tuple[str, ...]:
    if kind != "inplace":
        return ("function",)
    return ("function", "method") if "inplace" in entry.variants else ("method",)


def forwarded(entry: Op, forms: list[Op]) -> Iterable[Op]:
    """Return the overloads named in `scalars`, then the overloads for `aliases`. An overload in
    `scalars` calls the form of the entry that has the same kind, such as the in-place form."""
    made = []
    for found in entry.scalars:
        of = next((op for op in forms if op.kind == found.kind), None)
        if of is None or len(of.arguments) != len(found.arguments):
            complaint = f"'scalars' must name overloads of its forms (got '{found.name}')"
            raise EntryError(entry.line, entry.base, complaint)
        made.append(_forward(of, found))
    yield from made
    for alias in entry.aliases:
        of_module = next((m for m in model.MODULES if alias.startswith(f"{m}_")), "")
        for op in (*forms, *made):
            if op.kind == "inplace" and of_module:
                continue
            base = f"{alias}_" if op.kind == "inplace" else alias
            name = schema.OperatorName("", base, op.schema.name.overload)
            renamed = schema.FunctionSchema(name, op.arguments, op.schema.returns)
            yield replace(
                _forward(op, renamed), numbers=op.numbers, alias_of=op.base,
                tags=tuple(tag for tag in op.tags if tag not in model.OF_THE_ENTRY),
                python_module=of_module or entry.python_module,
            )  # fmt: skip


def _forward(of: Op, found: Any) -> Op:
    """Return the overload with the schema `found`. It calls the overload `of` with the same
    positional arguments."""
    return Op(
        schema=found,
        line=of.line,
        family=of.family,
        doc=of.doc,
        variants=(),
        dispatch={model.IMPLICIT: model.FORWARD},
        tags=of.tags,
        device_check=of.device_check,
        device_guard=of.device_guard,
        python_module=of.python_module,
        source=of,
        follows=of.follows if of.is_forward else of.identifier,
    )


def _key(of: Op, kind: str) -> str:
    """Return the dispatch key of a form that calls another operator. For the in-place form of an
    implicit composite, the key is CompositeImplicitAutograd, so that autograd differentiates the
    called operator."""
    return model.IMPLICIT if of.is_implicit and kind == "inplace" else model.COMPOSITE[1]


def _derivatives(of: Op, kind: str) -> dict[str, str]:
    if kind == "copy":
        return of.derivatives
    if kind != "inplace" or of.is_implicit and not of.derivatives:
        return {}
    return of.derivatives or _zeros(of)


def _zeros(entry: Op) -> dict[str, str]:
    """Return formulas for gradients of zero, for an in-place form whose result does not depend on
    the operands."""
    return {argument.name: "zeros_like(grad)" for argument in entry.tensors}


def _copying(entry: Op, name: Any) -> FunctionSchema:
    """Return the schema of a view operator's copy: the entry's schema without aliases."""
    plain = schema.parse(re.sub(r"\(a( -> \*)?\)", "", str(entry.schema)))
    found: FunctionSchema = schema.FunctionSchema(name, plain.arguments, plain.returns)
    return found


def derive(entry: Op, name: str) -> FunctionSchema | None:
    """Return the schema of the form that has this name in the `autogen` of `entry`. Return None if
    the name is not the name of a form of the entry.

    Source: torchgen/native_function_generation.py.
    """
    base, _, overload = name.partition(".")
    arguments, returns = entry.arguments, entry.schema.returns
    if entry.gives_view and (base, overload) == (f"{entry.base}_copy", entry.schema.name.overload):
        return _copying(entry, schema.OperatorName("", base, overload))
    if entry.kind != "functional" or {str(value.type) for value in returns} != {"Tensor"}:
        return None
    written = schema.parse("x(Tensor(a!) out) -> Tensor(a!)")
    if len(returns) > 1:
        return _derive_outs(entry, name)
    if base == f"{entry.base}_" and arguments[0].name == "self":
        first = schema.Argument(written.arguments[0].type, "self")
        arguments = (first, *arguments[1:])
    elif base == entry.base and (overload.startswith("Out") or "out" in overload.split("_")):
        dropped = OPTIONS if entry.has_options else ()
        kept = tuple(argument for argument in arguments if argument.name not in dropped)
        arguments = (*kept, schema.Argument(written.arguments[0].type, "out", None, None, True))
    else:
        return None
    operator_name = schema.OperatorName("", base, overload)
    found: FunctionSchema = schema.FunctionSchema(operator_name, arguments, written.returns)
    return found


def _derive_outs(entry: Op, name: str) -> FunctionSchema | None:
    """Return the schema of an out form with several results, or None if `name` is not an out form.
    The overload name in `name` is PyTorch's."""
    base, _, overload = name.partition(".")
    if base != entry.base or not overload:
        return None
    outs, returns = [], []
    for number, value in enumerate(entry.schema.returns):
        written = schema.parse(f"x(Tensor({NAMES_OF_SETS[number]}!) x) -> Tensor").arguments[0].type
        outs.append(schema.Argument(written, value.name or f"out{number}", None, None, True))
        returns.append(schema.Return(written, value.name))
    operator_name = schema.OperatorName("", base, overload)
    arguments = (*entry.arguments, *outs)
    found: FunctionSchema = schema.FunctionSchema(operator_name, arguments, tuple(returns))
    return found
