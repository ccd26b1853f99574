"""Reverse derivatives of functions: `grad`, `vjp`, `jacrev` and functions based on them.

Note [No level for reverse derivatives] The engine of `backward` differentiates a function with
respect to new aliases of its arguments. Only the gradients of these aliases are requested, so
nested transforms cannot mix up their gradients.

Within a vmap an alias has the vmap's batch, so that each entry has its own gradient; within a
forward level it keeps its tangent. The engine works on the tensors inside these wrappers, and
`pull` wraps the results again. A level that begins later, such as the vmap of `jacrev`, wraps the
incoming gradients; the operators of the gradient formulas handle these wrappers like any others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._generated import functions
from ..autograd import engine
from ..autograd.history import gradient_edge, requires_grad
from ..autograd.modes import enable_grad, is_grad_enabled
from ..autograd.node import AccumulateGrad
from ..core import errors
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from . import custom_function
from .batching import vmap
from .operators import outside
from .levels import Level, batched, dual, levels, parts_of, physical

Levels = tuple[Level, ...]
Function = Callable[..., Any]


# --- through the levels ---------------------------------------------------------------------------


def alias(around: Levels, x: Tensor) -> Tensor:
    """Return an alias of the tensor at the levels `around`. Derivatives are computed with respect
    to this alias."""
    if not around:
        # A view that was made in no_grad requires grad but has no edge. Its alias must be a leaf.
        has_edge = requires_grad(x) and gradient_edge(x) is not None
        return x.view_as(x) if has_edge else x.detach().requires_grad_()
    below = around[:-1]
    level: Any = around[-1]
    if level.is_vmap:
        made = batched(level, alias(below, physical(level, x)))
        level.spread(made, x)
        return made
    primal, tangent = parts_of(level, x)
    # Call `alias` outside of this level. Within the level, the tangent in `DualLevel.written`
    # (forward.py) would be added again.
    return dual(level, outside(level, alias, below, primal), tangent)


def held_by(around: Levels, x: Tensor) -> list[Tensor]:
    """Return the tensors inside the wrappers that `x` has at the levels `around`."""
    if not around:
        return [x]
    below, level = around[:-1], around[-1]
    parts = (physical(level, x),) if level.is_vmap else parts_of(level, x)
    return [y for part in parts if part is not None for y in held_by(below, part)]


def is_recorded(around: Levels, xs: Sequence[Any]) -> bool:
    """True if a tensor inside the wrappers of these tensors requires grad."""
    return any(requires_grad(x) for y in xs for x in held_by(around, y))


def pull(
    around: Levels, ys: Sequence[Any], xs: Sequence[Any], vs: Sequence[Any], create: bool
) -> list[Any]:
    """Return the gradients of the aliases `xs`, given the gradients `vs` of `ys`. A missing
    gradient is None.

    around: the levels in which the aliases were made.
    """
    if not ys:
        return [None] * len(xs)
    if not around:
        return _pulled(ys, xs, vs, create)
    below, level = around[:-1], around[-1]
    if level.is_vmap:
        ys, xs, vs = ([physical(level, x) for x in group] for group in (ys, xs, vs))
        found = pull(below, ys, xs, vs, create)
        return [None if g is None else batched(level, g) for g in found]
    y, dy = zip(*[parts_of(level, x) for x in ys])
    v, dv = zip(*[parts_of(level, x) for x in vs])
    x = [parts_of(level, a)[0] for a in xs]
    primal: list[Any] = outside(level, pull, below, y, x, v, create)
    pairs = [(t, g) for t, g in zip(dy, v) if t is not None]
    pairs += [(p, g) for p, g in zip(y, dv) if g is not None]
    if not pairs:
        return primal
    tangent = outside(level, pull, below, [p for p, _ in pairs], x, [g for _, g in pairs], create)
    return [
        None if p is None and t is None else
        dual(level, functions.zeros_like(a) if p is None else p, t)
        for a, p, t in zip(x, primal, tangent)
    ]  # fmt: skip


def _pulled(ys: Sequence[Any], xs: Sequence[Any], vs: Sequence[Any], create: bool) -> list[Any]:
    pairs = [(y, v) for y, v in zip(ys, vs) if requires_grad(y)]
    if not pairs or not xs:
        return [None] * len(xs)
    given = [v if v.dtype is y.dtype else v.to(y.dtype) for y, v in pairs]
    outputs = [y for y, _ in pairs]
    options: Any = {"retain_graph": True, "create_graph": create, "allow_unused": True}
    return list(engine.grad(outputs, list(xs), given, **options))


def is_tracked_outside(around: Levels, ys: Sequence[Any], xs: Sequence[Any]) -> bool:
    """True if the graph of `ys` contains leaves, other than the aliases, that require grad."""
    own = {id(x) for a in xs for x in held_by(around, a)}
    edges = [gradient_edge(x) for y in ys for x in held_by(around, y)]
    reached = [edge[0] for edge in edges if edge is not None]
    seen = set(reached)
    for node in reached:  # a list that grows during the loop
        if type(node) is AccumulateGrad and id(node.variable) not in own:
            return True
        for edge in node.edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                reached.append(edge[0])
    return False


def settled(y: Any, is_tracked: bool) -> Any:
    """Return a result, detached unless `is_tracked`. is_tracked: True if the history of the results
    contains leaves other than the aliases."""
    return y if is_tracked or not isinstance(y, Tensor) else y.detach()


# --- public functions ---------------------------------------------------------------------------


class Pulled:
    """A function's results for aliases of its arguments, from which gradients can be computed.

    op: the name in errors. aliases: aliases of the arguments' tensors, in order.
    """

    tree: Any
    form: Any
    aliases: list[Any]
    outputs: list[Any]
    aux: Any
    is_recorded: bool
    is_tracked: bool

    def __init__(self, op: str, func: Function, args: Sequence[Any], has_aux: bool) -> None:
        custom_function.install()
        self.around: Levels = levels()
        # Within no_grad, outer transforms treat the results as constants, as in PyTorch.
        self.is_recorded = is_grad_enabled()
        leaves, self.tree = pytree.tree_flatten(tuple(args))
        for x in leaves:
            if not isinstance(x, Tensor):
                raise errors.wrong_type(op, "args", "be Tensors, as they are differentiated", x)
        with enable_grad():
            self.aliases = [alias(self.around, x) for x in leaves]
            result = func(*pytree.tree_unflatten(self.aliases, self.tree))
        self.aux = None
        if has_aux:
            if not (isinstance(result, tuple) and len(result) == 2):
                rule = "return (output, aux) with has_aux=True"
                raise errors.wrong_type(op, "func", rule, result)
            result, self.aux = result
        self.outputs, self.form = pytree.tree_flatten(result)
        for y in self.outputs:
            if not isinstance(y, Tensor):
                raise errors.wrong_type(op, "func", "return Tensors", y)
        self.is_tracked = is_tracked_outside(self.around, self.outputs, self.aliases)

    def output(self) -> Any:
        """Return the function's results in the structure in which the function returned them."""
        made = [settled(y, self.is_recorded and self.is_tracked) for y in self.outputs]
        return pytree.tree_unflatten(made, self.form)

    def further(self) -> Any:
        """Return the auxiliary results of `has_aux`."""
        leaves, form = pytree.tree_flatten(self.aux)
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        tracked = self.is_recorded and is_tracked_outside(self.around, tensors, self.aliases)
        return pytree.tree_unflatten([settled(x, tracked) for x in leaves], form)

    def pull(self, vs: Sequence[Any], create: bool | None = None) -> Any:
        """Return the gradients of all arguments, nested as the arguments are. A missing gradient is
        replaced by zeros."""
        if create is None:
            create = is_grad_enabled() and (self.is_tracked or is_recorded(levels(), vs))
        found = pull(self.around, self.outputs, self.aliases, vs, create)
        made = [
            functions.zeros_like(x.detach()) if g is None else g
            for x, g in zip(self.aliases, found)
        ]
        return pytree.tree_unflatten(made, self.tree)


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return a function's output, and a function that computes v times its Jacobian.

    has_aux: `func` returns (output, aux), and aux is returned as the third result.

    >>> y, pull = gt.func.vjp(gt.sin, gt.zeros(2))
    >>> pull(gt.ones(2))
    (tensor([1., 1.]),)
    """
    made = Pulled("vjp", func, primals, has_aux)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        vs = pytree.tree_leaves(cotangents)
        if len(vs) != len(made.outputs):
            rule = f"be {len(made.outputs)} Tensors, as the function returned"
            raise errors.wrong_value("vjp_fn", "cotangents", rule, errors.Got(f"{len(vs)}"))
        for v, y in zip(vs, made.outputs):
            if not isinstance(v, Tensor) or v._geometry.sizes != y._geometry.sizes:
                rule = f"have the sizes of the output, {list(y._geometry.sizes)}"
                raise errors.wrong_shape("vjp_fn", "cotangents", rule, v)
        return made.pull(vs, create_graph)

    return (made.output(), vjp_fn, made.further()) if has_aux else (made.output(), vjp_fn)


def grad_and_value(func: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """Return a function that computes `func`'s gradient and its value.

    func: returns one real number as a tensor; with has_aux=True, a tuple (number, aux). argnums:
    the argument to differentiate with respect to, or a tuple of several.
    Returns: (grad, value), or (grad, (value, aux)). grad is nested as the argument is.
    """

    @functools.wraps(func)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        of, put = chosen("grad", argnums, args)
        made = Pulled("grad", lambda *xs: func(*put(xs), **kwargs), of, has_aux)
        (y,) = made.outputs if len(made.outputs) == 1 else (None,)
        if y is None or y._geometry.ndim or y._geometry.dtype.is_complex:
            rule = "return one real Tensor without dimensions"
            raise errors.wrong_shape("grad", "func", rule, made.output())
        grads = made.pull([functions.ones_like(y.detach())])
        found = grads if isinstance(argnums, tuple) else grads[0]
        value = made.output()
        return found, ((value, made.further()) if has_aux else value)

    return differentiated


def grad(func: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """Return a function that computes the gradient of `func`. See `grad_and_value`.

    Returns: grad, or (grad, aux).

    >>> gt.func.grad(gt.sin)(gt.tensor(0.0))
    tensor(1.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return differentiated


def chosen(op: str, argnums: Any, args: Sequence[Any]) -> tuple[list[Any], Function]:
    """Return the arguments with these indices, and a function that replaces these arguments."""
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    for n in numbers:
        if type(n) is not int:
            raise errors.wrong_type(op, "argnums", "be an int or a tuple of ints", argnums)
        if not -len(args) <= n < len(args):
            rule = f"be the number of one of the {len(args)} positional arguments"
            raise errors.wrong_index(op, "argnums", rule, n)
    places = [n % len(args) for n in numbers]
    if len({*places}) != len(places) or not places:
        raise errors.wrong_value(op, "argnums", "name each argument once", argnums)

    def put(xs: Sequence[Any]) -> list[Any]:
        given = list(args)
        for n, x in zip(places, xs):
            given[n] = x
        return given

    return [args[n] for n in places], put


def jacrev(
    func: Function, argnums: Any = 0, *, has_aux: bool = False, chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:  # fmt: skip
    """Return a function that computes the Jacobian of `func` row by row, by reverse derivatives.

    Returns: for each output and argument a tensor whose sizes are the output's, followed by the
    argument's; with has_aux (Jacobian, aux). chunk_size: the number of rows to compute at once; by
    default all. 1 computes rows without vmap, so backward may call any operator.
    """

    @functools.wraps(func)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        of, put = chosen("jacrev", argnums, args)
        made = Pulled("jacrev", lambda *xs: func(*put(xs), **kwargs), of, has_aux)
        counts = [y._geometry.numel for y in made.outputs]
        basis = unit_vectors(made.outputs)
        rows = _rows(made, basis, chunk_size)
        leaves, tree = pytree.tree_flatten(rows if isinstance(argnums, tuple) else rows[0])
        parts = [x.split(counts) for x in leaves]
        found = [
            pytree.tree_unflatten(
                [p[n].reshape((*y._geometry.sizes, *p[n]._geometry.sizes[1:])) for p in parts], tree
            )
            for n, y in enumerate(made.outputs)
        ]
        jacobian = pytree.tree_unflatten(found, made.form)
        return (jacobian, made.further()) if has_aux else jacobian

    return differentiated


def _rows(made: Pulled, basis: Sequence[Tensor], chunk_size: int | None) -> Any:
    """Return the gradients for each entry of `basis`, stacked."""
    if chunk_size != 1 or not basis or not len(basis[0]):
        return vmap(lambda *vs: made.pull(vs), chunk_size=chunk_size)(*basis)
    rows = [made.pull(vs) for vs in zip(*[x.unbind() for x in basis])]
    return pytree.tree_map(lambda *group: functions.stack(group), *rows)


def unit_vectors(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return for each tensor a stack with one entry for each element of all tensors. An entry is 1
    at its element and 0 elsewhere."""
    counts = [x._geometry.numel for x in tensors]
    total, start = sum(counts), 0
    found = []
    for x, count in zip(tensors, counts):
        rows = functions.zeros((total, count), dtype=x.dtype, device=x.device)
        rows.narrow(0, start, count).diagonal().fill_(1)
        found.append(rows.reshape(total, *x._geometry.sizes))
        start += count
    return found


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """Return a function's output, and its derivative at `primals` as a function of tangents.

    `func` is recorded once for all calls of the derivative, so several calls cost less than several
    calls of `jvp`.
    """
    made = Pulled("linearize", func, primals, has_aux=False)
    with enable_grad():
        vs = [alias(made.around, functions.zeros_like(y.detach())) for y in made.outputs]
        gradients, _ = pytree.tree_flatten(made.pull(vs, create=True))

    def jvp_fn(*tangents: Any) -> Any:
        ts, tree = pytree.tree_flatten(tangents)
        if tree != made.tree:
            rule = "be nested as the primals are"
            raise errors.wrong_value("jvp_fn", "tangents", rule, errors.Got(repr(tree)))
        found = pull(made.around, gradients, vs, ts, made.is_tracked)
        results = [
            functions.zeros_like(y.detach()) if t is None else t
            for y, t in zip(made.outputs, found)
        ]
        return pytree.tree_unflatten(results, made.form)

    return made.output(), jvp_fn
