"""The autograd kernel of a user's operator, with or without `register_autograd`.

    formula = Formula(backward, setup_context)
    kernel = dispatcher.register_kernel(op, keys.Autograd, maker(formula), "maker")

The operator's kernel always runs below the autograd keys; its node calls the user's backward.
Without a formula, the node raises an error in backward. If the operator writes to an argument
that requires grad, the node also becomes that argument's history. (PyTorch keeps the argument's
old history, which gives a wrong gradient.) Source: torch/_library/autograd.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from ..core import errors
from ..core.schema import FunctionSchema, Type
from ..dispatch import keys, tls
from ..dispatch.operator import Operator, Table
from ..dispatch.tls import state as _state
from ..tensor.tensor import Tensor
from ..autograd import inplace_or_view, variable
from ..autograd.function import Context, _FunctionNode, _save, _wrap
from ..autograd.modes import NO_GRAD_MODE, _States, grad_mode, left, set_mode
from ..autograd.history import gradient_edge, requires_grad
from ..autograd.node import add_output

_BELOW = keys.below("AutogradOther")
# The thread's dispatch state while a kernel runs: the operators that the kernel calls skip the
# autograd keys, but writes still increment versions.
_without_autograd = _States(lambda include, keep: (include, keep & ~tls.AUTOGRAD))

_ONE = (None,)  # the value of OperatorNode.returned for one result

Maker = Callable[[Table, int], Callable[..., Any]]


class Formula:
    """The functions passed to `register_autograd`. Registration checks that the functions accept
    the arguments with which they will be called.

    backward(ctx, *grads) takes one gradient for each result. It returns one gradient for each
    positional argument, and for a list of tensors a list of gradients. setup_context(ctx, inputs,
    output) is called with these names. If the schema has keyword-only arguments, it also gets
    keyword_only_inputs, before output.
    """

    __slots__ = ("backward", "setup_context")

    def __init__(
        self, operator: Operator, backward: Callable[..., Any],
        setup_context: Callable[..., Any] | None,
    ) -> None:  # fmt: skip
        name, schema = operator.qualified_name, operator.schema
        grads = [f"grad{n}" for n in range(len(schema.returns))]
        _check_takes(name, "backward", backward, ("ctx", *grads), ())
        if setup_context is not None:
            keyword_only = ["keyword_only_inputs"] if schema.keyword_only else []
            named = ["ctx", "inputs", *keyword_only, "output"]
            _check_takes(name, "setup_context", setup_context, (), named)
        self.backward: Callable[..., Any] = backward
        self.setup_context: Callable[..., Any] | None = setup_context


def _check_takes(name: str, what: str, function: Any, positional: Any, named: Any) -> None:
    import inspect

    if not callable(function):
        raise errors.wrong_type("register_autograd", what, "be callable", function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin without a signature
        return
    try:
        signature.bind(*positional, **dict.fromkeys(named))
    except TypeError:
        takes = ", ".join(positional) or f"arguments named {', '.join(named)}"
        raise errors.formula_does_not_fit(name, what, takes, str(signature)) from None


class OperatorNode(_FunctionNode):
    """One recorded call of a user's operator."""

    __slots__ = ("operator", "formula", "lengths", "returned")

    operator: Operator
    formula: Formula | None
    # For each positional argument: -1 for a tensor, the length of a list of tensors, None for
    # others.
    lengths: tuple[int | None, ...]
    # For each result: the length of a list, or None for a single value.
    returned: tuple[int | None, ...]

    def backward(node, *grads: Any) -> Any:
        context, formula = node.context, node.formula
        if formula is None:
            raise errors.no_formula(node.operator)
        if None in grads and context._materializes:
            grads = tuple(node.zeros_for(grads))
        if len(grads) != len(node.returned) or any(node.returned):
            left, counts = iter(grads), node.returned
            grads = tuple([next(left) if n is None else [*islice(left, n)] for n in counts])
        context._node = node
        try:
            results = formula.backward(context, *grads)
        finally:
            context._node = None
        if not isinstance(results, tuple):
            results = (results,)
        if len(results) == 1 and node.lengths == (-1,):
            return results
        return list(node._by_tensor(results))

    def _by_tensor(node, results: tuple[Any, ...]) -> Iterator[Any]:
        """Return one gradient for each tensor among the arguments. Raises: AutogradError if
        backward's result does not match the arguments."""
        lengths, names = node.lengths, node.operator.table.signature.names
        if len(results) < len(lengths) or any(r is not None for r in results[len(lengths) :]):
            raise errors.wrong_number_of_gradients(node.name(), len(lengths), len(results))
        for number, (length, result) in enumerate(zip(lengths, results)):
            if length is None:
                if result is not None and not (
                    type(result) is list and not any(r is not None for r in result)
                ):
                    raise errors.gradient_for_no_tensor(node.name(), number, names[number])
            elif length < 0:
                yield result
            elif result is None:
                yield from (None,) * length
            elif isinstance(result, (list, tuple)) and len(result) == length:
                yield from result
            else:
                raise errors.gradients_of_list(node.name(), number, names[number], length, result)

    def name(self) -> str:
        operator = self.operator
        base = operator.name.replace("::", "_")
        return f"GeneratedBackwardFor_{base}_{operator.overload or 'default'}Backward"


def maker(formula: Formula | None) -> Maker:
    """Return a function that makes the autograd kernel of an operator. Register it with
    `register_kernel(op, keys.Autograd, maker(formula), "maker")`."""

    def make(table: Table, key_set: int) -> Callable[..., Any]:
        return _kernel(table, formula)

    return make


def _kernel(table: Table, formula: Formula | None) -> Callable[..., Any]:
    operator, schema = table.operator, table.signature.schema
    takes_numbers = bool(table.definition and table.definition.numbers)
    plain = tuple(
        [n for n, a in enumerate(schema.arguments) if a.type.name == "Tensor" and not takes_numbers]
    )
    others = tuple(
        [n for n, a in enumerate(schema.arguments) if a.type.has_tensor and n not in plain]
    )
    record = _recorder(table, formula)
    below, get, put = _without_autograd, _state.get, _state.set

    if len(plain) == 1 == len(schema.arguments):

        def unary(key_set: int, x: Any) -> Any:
            if x._autograd is not None:
                return record(key_set, (x,))
            key_set &= _BELOW
            state = get()
            try:
                put(below[state])
                return operator.redispatch_table[key_set](key_set, x)
            finally:
                put(state)

        return unary

    def autograd(key_set: int, *args: Any) -> Any:
        for n in plain:
            if args[n]._autograd is not None:
                return record(key_set, args)
        for n in others:
            if _is_known(args[n]):
                return record(key_set, args)
        key_set &= _BELOW
        state = get()
        try:
            put(below[state])
            return operator.redispatch_table[key_set](key_set, *args)
        finally:
            put(state)

    return autograd


def _is_known(value: Any) -> bool:
    """Return True for a tensor with autograd data, or a list that contains one."""
    if isinstance(value, (list, tuple)):
        return any([_is_known(x) for x in value])
    return getattr(value, "_autograd", None) is not None


def _recorder(table: Table, formula: Formula | None) -> Callable[[int, tuple[Any, ...]], Any]:
    """Return the kernel for calls in which an argument has autograd data. The argument need not
    require grad."""
    schema = table.signature.schema
    is_plain = all(
        not a.type.has_tensor or a.type.required.name == "Tensor" and not a.is_keyword_only
        for a in schema.arguments
    ) and [str(r.type) for r in schema.returns] == ["Tensor"]  # fmt: skip
    if is_plain and not any(a.is_write for a in schema.arguments):
        return _plain_recorder(table, formula)
    return _any_recorder(table, formula)


def _plain_recorder(table: Table, formula: Formula | None) -> Callable[[int, tuple[Any, ...]], Any]:
    """Return the kernel for operators that take no lists of tensors, return one new tensor, and
    write to no argument."""
    operator, signature = table.operator, table.signature
    arguments = signature.schema.arguments[: signature.n_positional]
    lengths = tuple([-1 if a.type.has_tensor else None for a in arguments])
    places = tuple([n for n, length in enumerate(lengths) if length is not None])
    setup = None if formula is None else formula.setup_context
    nothing, has_several = (False,) * len(lengths), len(places) > 1

    def record(key_set: int, args: tuple[Any, ...]) -> Any:
        key_set &= _BELOW
        node = None
        if not grad_mode.get():
            edges, needs = [], list(nothing)
            for n in places:
                x, edge = args[n], None
                if getattr(x, "_autograd", None) is not None:
                    edge = gradient_edge(x)
                    needs[n] = edge is not None or requires_grad(x)
                edges.append(edge)
            if True in needs:
                node, context = OperatorNode(tuple(edges)), Context()
                node.operator, node.formula, node.context = operator, formula, context
                node.lengths, node.returned, context.needs_input_grad = lengths, _ONE, tuple(needs)
        state, mode = _state.get(), grad_mode.get()
        try:
            _state.set(_without_autograd[state])
            if node is None:
                return operator.redispatch_table[key_set](key_set, *args)
            try:
                set_mode(NO_GRAD_MODE)
                result = operator.redispatch_table[key_set](key_set, *args)
                if setup is not None:
                    _set_up(setup, context, signature, args, result)
            finally:
                left(grad_mode.set(mode))
        finally:
            _state.set(state)
        # `custom_op` rejects results that are arguments, but a Library's kernel may return an
        # argument. With only one tensor argument, no `is` test is needed: this argument has
        # autograd data, so if the kernel returns it, `result._autograd` is not None.
        is_input = has_several and any([result is args[n] for n in places])
        if result._autograd is None and not is_input and not context._not_differentiable:
            # This code does the work of `_wrap` for the simple case. `set_history` adds the result
            # to the node's outputs only if its dtype is floating or complex.
            result = variable.set_history(result, node)
            if not node.outputs:
                add_output(node, result)
        else:
            result = _wrap(context, result, [args[n] for n in places if args[n] is not None], node)
        if context._to_save:
            _save(context, (result,), node)
        context._dirty = context._not_differentiable = ()
        return result

    return record


def _any_recorder(table: Table, formula: Formula | None) -> Callable[[int, tuple[Any, ...]], Any]:
    operator, signature = table.operator, table.signature
    schema = signature.schema
    n_positional = signature.n_positional
    with_tensors = [n for n, a in enumerate(schema.arguments) if a.type.has_tensor]
    written = [n for n, a in enumerate(schema.arguments) if a.is_write]
    is_out = any(n >= n_positional for n in with_tensors)

    def record(key_set: int, args: tuple[Any, ...]) -> Any:
        key_set &= _BELOW
        leaves = [x for n in with_tensors for x in _leaves(args[n])]
        is_recorded = not grad_mode.get() and any(
            [x is not None and requires_grad(x) for x in leaves]
        )
        state, mode = _state.get(), grad_mode.get()
        try:
            _state.set(_without_autograd[state])
            if not is_recorded:
                return operator.redispatch_table[key_set](key_set, *args)
            try:
                set_mode(NO_GRAD_MODE)
                if is_out:
                    raise errors.out_with_grad(operator.short_name)
                for x in _requiring(args, written):
                    inplace_or_view.check_inplace(x)
                node, context = _node(operator, formula, args, leaves, n_positional)
                result = operator.redispatch_table[key_set](key_set, *args)
                if formula is not None and formula.setup_context is not None:
                    _set_up(formula.setup_context, context, signature, args, result)
            finally:
                left(grad_mode.set(mode))
        finally:
            _state.set(state)
        for x in _requiring(args, written):
            inplace_or_view.rebase_history(x, node)
        return _with_history(schema, node, context, leaves, result)

    return record


def _requiring(args: tuple[Any, ...], written: list[int]) -> list[Tensor]:
    found = [x for n in written for x in _leaves(args[n]) if x is not None and requires_grad(x)]
    return list({id(x): x for x in found}.values())


def _leaves(value: Any) -> Any:
    """Return the tensors of one argument as a sequence, with None for omitted tensors and
    numbers."""
    if isinstance(value, (list, tuple)):
        return [x if isinstance(x, Tensor) else None for x in value]
    return (value if isinstance(value, Tensor) else None,)


def _node(
    operator: Operator, formula: Formula | None, args: tuple[Any, ...], leaves: list[Any],
    n_positional: int,
) -> tuple[OperatorNode, Context]:  # fmt: skip
    node = OperatorNode(tuple([None if x is None else gradient_edge(x) for x in leaves]))
    context = Context()
    node.operator, node.formula, node.context = operator, formula, context
    lengths: list[int | None] = []
    needs: list[Any] = []
    for argument, value in zip(operator.table.signature.schema.arguments[:n_positional], args):
        needed = [x is not None and requires_grad(x) for x in _leaves(value)]
        if not argument.type.has_tensor:
            lengths.append(None)
            needs.append(False)
        elif isinstance(value, (list, tuple)):
            lengths.append(len(value))
            needs.append(needed)
        else:
            lengths.append(-1)
            needs.append(needed[0])
    node.lengths, context.needs_input_grad = tuple(lengths), tuple(needs)
    return node, context


def _set_up(
    setup: Callable[..., Any], context: Context, signature: Any, args: tuple[Any, ...], output: Any
) -> None:
    given = signature.for_users(args)
    inputs = tuple(given[: signature.n_positional])
    if len(inputs) == len(given):
        setup(ctx=context, inputs=inputs, output=output)
    else:
        keywords = signature.keywords_of(given)
        setup(ctx=context, inputs=inputs, keyword_only_inputs=keywords, output=output)


def _with_history(
    schema: FunctionSchema, node: Any, context: Any, leaves: list[Any], result: Any
) -> Any:
    """Return the result with its history, in the structure that the kernel returned."""
    inputs = [x for x in leaves if x is not None]
    flat: list[Any] = []
    shape: list[int | None] = []
    returns = schema.returns
    # This code has no nested functions, because a recursive nested function is a reference cycle.
    # The cycle would keep the graph alive.
    given = (node, context, inputs, flat, shape)
    if len(returns) == 1:
        result = _wrapped(returns[0].type, result, *given)
    elif returns:
        result = tuple([_wrapped(r.type, x, *given) for r, x in zip(returns, result)])
    node.returned = tuple(shape)
    context._dirty = context._not_differentiable = ()
    _save(context, tuple(flat), node)
    return result


def _wrapped(type: Type, value: Any, *given: Any) -> Any:
    """Return a result with its history. Append the result's structure to `shape` and its tensors to
    `flat`."""
    node, context, inputs, flat, shape = given
    if type.name == "tuple":
        return tuple([_wrapped(part, x, *given) for part, x in zip(type.parts, value)])
    is_list = isinstance(value, (list, tuple))
    made = []
    for x in value if is_list else [value]:
        is_written = isinstance(x, Tensor) and any([x is y for y in inputs])
        made.append(x if is_written else _wrap(context, x, inputs, node))
    flat += made
    shape.append(len(made) if is_list else None)
    return made[0] if not is_list else made if isinstance(value, list) else tuple(made)
