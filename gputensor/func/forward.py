"""Forward derivatives: `jvp`, `jacfwd`, `hessian`, and the level of tangents.

The forward derivative of an operator is computed from its gradient formula; the operator runs once
and is recorded for autograd. For an elementwise operator, the gradient formula applied to the
operand's tangent is the result's tangent. For other operators, the gradient formula is a linear
function of the incoming gradient. The gradient of that function with respect to the incoming
gradient is the forward derivative. The tangent of a view is the same view of the tangent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._generated import functions
from ..autograd.modes import enable_grad, is_grad_enabled
from ..core import errors
from ..core.dtype import FLOATING
from ..structured.facts import broadcast_shapes
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from . import custom_function
from .rules.batches import pointwise
from .batching import vmap
from .levels import around as levels_around
from .levels import (
    BatchedTensor, DualTensor, Level, Wrapper, batched, dual, held, is_of, parts_of, physical,
    rebuilt, shares_memory, tensors_in,
)  # fmt: skip
from .operators import Entry, call, draws, functional_of, outside
from .reverse import (
    Levels, alias, chosen, is_recorded, is_tracked_outside, jacrev, pull, settled, unit_vectors,
)  # fmt: skip
from .rules.table import rule_of

Function = Callable[..., Any]


class DualLevel(Level):
    """The level of a block of forward differentiation.

    written: maps the id of a storage to the storage, and to a tangent of all its elements. The dict
    has an entry for the storage of each tensor that has no wrapper and to which a value with a
    tangent was written. All views of this storage then have the tangent, also views made before the
    write.
    """

    written: dict[int, tuple[Any, Tensor]]

    def __init__(self) -> None:
        super().__init__()
        self.written = {}

    def has_written(self, x: Any) -> bool:
        return bool(self.written) and self.tangent_of(x) is not None

    def tangent_of(self, x: Any) -> Any:
        """Return the tangent of a tensor without a wrapper, if a value with a tangent was written
        to it."""
        if not self.written or not isinstance(x, Tensor) or self.owns(x):
            return None
        if isinstance(x, BatchedTensor):
            held = self.tangent_of(x.value)
            return None if held is None else batched(x.level, held)
        if isinstance(x, DualTensor):
            p, t = self.tangent_of(x.value), self.tangent_of(x.tangent)
            if p is None and t is None:
                return None
            return dual(x.level, functions.zeros_like(x.value) if p is None else p, t)
        found = self.written.get(id(x._storage))
        if found is None or found[1].dtype is not x.dtype:
            return None
        shape = x._geometry
        return found[1].as_strided(shape.sizes, shape.strides, x._offset)

    def _begin(self, x: Any, tangent: Any) -> None:
        """Start a tangent of zeros for the storage of `x`. It gets the same wrappers as
        `tangent`."""
        if isinstance(x, BatchedTensor):
            self._begin(x.value, physical(x.level, tangent))
        elif isinstance(x, DualTensor):
            p, t = parts_of(x.level, tangent)
            self._begin(x.value, p)
            if t is not None:
                self._begin(x.tangent, t)
        elif id(storage := x._get_storage()) not in self.written:
            count = storage.nbytes() // x.dtype.itemsize
            self.written[id(storage)] = storage, tangent.new_zeros((count,), dtype=x.dtype)

    def _entered(self, value: Any) -> Any:
        """Return an argument, wrapped at this level if a value with a tangent was written to it."""
        if isinstance(value, (list, tuple)):
            return tuple([self._entered(x) for x in value])
        t = self.tangent_of(value)
        return value if t is None else dual(self, value, t)

    def has_rule(self, entry: Entry) -> bool:
        """Return False: a forward level has no rules for composite operators, so these operators
        run as their composition."""
        return False

    def compute(self, entry: Entry, args: Sequence[Any]) -> Any:
        given = [self._entered(x) for x in args] if self.written else args
        if entry.kind == "inplace":
            return outside(self, self._inplace, entry, given, args[0])
        return outside(self, self._compute, entry, given)

    def _compute(self, entry: Entry, args: Sequence[Any]) -> Any:
        if entry.kind == "out":
            rule = "not be given where an operand has a tangent"
            raise errors.must(entry.operator.short_name, "out", rule, args[-1])
        primals = [self._primal(value) for value in args]
        if (
            entry.operator.overload == "dtype"
        ):  # view(dtype) reinterprets bytes, so its result has no tangent
            return call(entry.operator, *primals)
        if entry.schema.is_view:
            return self._view(entry, args)
        value = entry.names.get("value")  # one number for all elements, as in masked_fill
        if (
            rule_of(entry.operator)[0] is pointwise
            and _is_real(primals)
            and (value is None or self._tangent(args[value]) is None)
        ):
            return self._elementwise(entry, args, primals)
        return self._by_transposing(entry, args, primals)

    def _primal(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple([self._primal(x) for x in value])
        return held(self, value)

    def _tangent(self, value: Any) -> Any:
        return value.tangent if self.owns(value) else None

    def _view(self, entry: Entry, args: Sequence[Any]) -> Any:
        x, *rest = args
        primal = call(entry.operator, x.value, *rest)
        if x.tangent._geometry.strides != x.value._geometry.strides:
            x.tangent = _laid_out_as(x.value, x.tangent)
        # The strides among the arguments are the primal's. They may not fit the tangent.
        if entry.operator.short_name == "_reshape_alias":
            return self._paired(primal, x.tangent.reshape(rest[0]))
        return self._paired(primal, call(entry.operator, x.tangent, *rest))

    def _paired(self, primal: Any, tangent: Any) -> Any:
        if isinstance(primal, Tensor):
            return dual(self, primal, tangent)
        parts = [self._paired(p, t) for p, t in zip(primal, tangent)]
        return rebuilt(primal, parts)

    def _inplace(self, entry: Entry, args: Sequence[Any], target: Any) -> Any:
        """Compute the functional form of an in-place operator. Write the result's primal and
        tangent to `target`."""
        operator, x = entry.operator, args[0]
        if "inplace_view" in operator.tags and not self.owns(target):
            return call(operator, target, *args[1:])
        functional = functional_of(operator)
        if operator.short_name == "copy_":
            primal, tangent = parts_of(self, args[1])
        elif operator.short_name == "zero_" or functional is None and draws(operator):
            call(operator, *[self._primal(value) for value in args])
            if self.owns(x):  # the new value does not depend on operands
                x.tangent.zero_()
            return target
        elif functional is None:
            rule = "not be called where an operand has a tangent"
            raise errors.must(operator.short_name, "call", rule, x)
        else:
            primal, tangent = parts_of(self, call(functional, *self._kept(args)))
        if "inplace_view" in operator.tags:
            x.value, x.tangent, x._geometry = primal, tangent, primal._geometry
            return x
        if not self.owns(x) and tangent is not None:
            self._begin(x, tangent)
            x = self._entered(x)
        held(self, x).copy_(primal)
        if tangent is not None:
            x.tangent.copy_(tangent)
        elif self.owns(x):
            x.tangent.zero_()
        return target

    def _kept(self, args: Sequence[Any]) -> Sequence[Any]:
        """Return the arguments of an in-place operator. If autograd records the call, the first
        argument is copied, because the recorded node may save it before it is overwritten."""
        parts = [p for x in tensors_in(args) for p in parts_of(self, x) if p is not None]
        if not is_recorded(levels_around(self), parts):
            return args
        primal, tangent = parts_of(self, args[0])
        # Primal and tangent are cloned separately: the forward derivative of clone would be the
        # tangent itself.
        copied = dual(self, primal.clone(), None if tangent is None else tangent.clone())
        return (copied, *args[1:])

    def _elementwise(self, entry: Entry, args: Sequence[Any], primals: list[Any]) -> Any:
        """Compute an elementwise operator and return the result with its tangent. The tangent is
        the sum, over the operands, of the gradient formula applied to the operand's tangent."""
        around = levels_around(self)
        places = [n for n in entry.places if self._tangent(args[n]) is not None]
        sizes = broadcast_shapes(
            *[primals[n]._geometry.sizes for n in entry.places if isinstance(args[n], Tensor)]
        )
        with enable_grad():
            given, xs = list(primals), []
            for n in places:
                given[n] = alias(around, primals[n].expand(sizes))
                xs.append(given[n])
            result = call(entry.operator, *given)
        if not isinstance(result, Tensor) or result._geometry.dtype.is_complex:
            return self._by_transposing(entry, args, primals)
        tracked = _is_tracked(around, [result], xs, [args[n].tangent for n in places])
        total: Any = None
        for n, x in zip(places, xs):
            t = args[n].tangent.expand(sizes)
            (found,) = pull(around, [result], [x], [t], tracked)
            if found is not None:
                total = found if total is None else total + found
        if total is not None and total.dtype is not result.dtype:
            total = total.to(result.dtype)
        total = _apart(result, total, xs, [args[n].tangent for n in places])
        return dual(self, self._settled(entry, result, tracked, primals), total)

    def _settled(self, entry: Entry, y: Any, is_tracked: bool, primals: list[Any]) -> Any:
        """Prepare a primal result for a write to a tensor without a batch.

        Drop the result's history and the batch of an outer vmap if they come only from the aliases.
        """
        y = settled(y, is_tracked)
        if draws(entry.operator):
            return y
        operands = [x for p in primals for x in (p if isinstance(p, (list, tuple)) else (p,))]
        for level in reversed(levels_around(self)):
            if level.is_vmap:
                y = _unmapped(level, y, operands)
        return y

    def _by_transposing(self, entry: Entry, args: Sequence[Any], primals: list[Any]) -> Any:
        """Compute any operator and return each result with its tangent. The operator's gradient
        formula is linear in the incoming gradient, so the derivative of the formula with respect to
        this gradient gives the tangent."""
        around = levels_around(self)
        xs: list[Any] = []
        ts: list[Any] = []

        def tracked_operand(value: Any, primal: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return tuple([tracked_operand(v, p) for v, p in zip(value, primal)])
            t = self._tangent(value)
            if t is None or primal._geometry.dtype.category < FLOATING:
                return primal
            xs.append(alias(around, primal))
            ts.append(t)
            return xs[-1]

        with enable_grad():
            given = [tracked_operand(v, p) for v, p in zip(args, primals)]
            result = call(entry.operator, *given)
            if not isinstance(result, (Tensor, list, tuple)):
                return result
            listed = [result] if isinstance(result, Tensor) else list(result)
            ys = [y for y in listed if isinstance(y, Tensor) and is_recorded(around, [y])]
            us = [alias(around, functions.ones_like(y.detach())) for y in ys]
            gradients = pull(around, ys, xs, us, True)
        tracked = _is_tracked(around, ys, xs, ts)
        pairs = [(g, t) for g, t in zip(gradients, ts) if g is not None]
        found = pull(around, [g for g, _ in pairs], us, [t for _, t in pairs], tracked)
        made = iter(found)
        parts = []
        for y in listed:
            t = next(made) if any(y is other for other in ys) else None
            t = _apart(y, t, xs, ts)
            parts.append(dual(self, self._settled(entry, y, tracked, primals), t))
        return parts[0] if isinstance(result, Tensor) else rebuilt(result, parts)


def _apart(y: Any, tangent: Any, xs: Sequence[Any], ts: Sequence[Any]) -> Any:
    """Return the tangent of a result. Copy the tangent if it shares memory with an operand's
    tangent although the result shares no memory with the operand, because each may be written to.
    (The formula of `clone` returns the operand's tangent itself.)"""
    for x, t in zip(xs, ts):
        if tangent is not None and shares_memory(tangent, t) and not shares_memory(y, x):
            return tangent.clone()
    return tangent


def _laid_out_as(primal: Tensor, tangent: Tensor) -> Tensor:
    """Return the tangent in the primal's layout, so that both can have the same views."""
    shape = primal._geometry
    # Some elements of the primal share memory, so its layout cannot hold separate tangents for
    # them.
    if any(n > 1 and not s for n, s in zip(shape.sizes, shape.strides)):
        return tangent.contiguous()
    # `new_empty_strided` is a method of the tangent, so that within vmap the result has the
    # tangent's batch.
    return tangent.new_empty_strided(shape.sizes, shape.strides).copy_(tangent)


def _unmapped(level: Any, y: Any, operands: list[Any]) -> Any:
    """Remove the batch of a vmap from a result if no operand has this batch."""
    if not isinstance(y, Wrapper) or y.level.number < level.number:
        return y
    if y.level is level:
        has_batch = any(is_of(level, x) or level.has_written(x) for x in operands)
        is_new = level.size and not has_batch
        return y.value.select(0, 0) if is_new else y
    if isinstance(y, BatchedTensor):
        return batched(y.level, _unmapped(level, y.value, [held(y.level, x) for x in operands]))
    primals = [parts_of(y.level, x)[0] if isinstance(x, Tensor) else x for x in operands]
    return dual(y.level, _unmapped(level, y.value, primals), parts_of(y.level, y)[1])


def _is_real(values: Sequence[Any]) -> bool:
    return not any(isinstance(x, Tensor) and x._geometry.dtype.is_complex for x in values)


def _is_tracked(around: Levels, ys: Sequence[Any], xs: Sequence[Any], ts: Sequence[Any]) -> bool:
    """True if code outside of this call also differentiates the result in reverse mode."""
    return is_grad_enabled() and (is_tracked_outside(around, ys, xs) or is_recorded(around, ts))


# --- public functions ---------------------------------------------------------------------------


def jvp(
    func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """Return a function's output for `primals`, and the derivative of the output in the direction
    of `tangents`.

    primals, tangents: tuples with the same nesting.
    strict: raise an error if an output does not depend on the primals; otherwise its derivative is
    0.

    >>> gt.func.jvp(gt.sin, (gt.zeros(2),), (gt.ones(2),))
    (tensor([0., 0.]), tensor([1., 1.]))
    """
    custom_function.install()
    if not isinstance(primals, tuple) or not primals:
        raise errors.wrong_type("jvp", "primals", "be a tuple that is not empty", primals)
    given, tree = pytree.tree_flatten(primals)
    ts, form = pytree.tree_flatten(tangents)
    if form != tree:
        raise errors.wrong_value("jvp", "tangents", "be nested as the primals are", tangents)
    for x, t in zip(given, ts):
        if not isinstance(x, Tensor) or not isinstance(t, Tensor):
            raise errors.wrong_type("jvp", "primals", "hold Tensors alone", x)
        if x._geometry.sizes != t._geometry.sizes:
            rule = f"have the sizes of the primals, {list(x._geometry.sizes)}"
            raise errors.wrong_shape("jvp", "tangents", rule, t)
    level = DualLevel()
    with level:
        # A view that is made in no_grad would require grad without an edge to its base.
        plain = [x.view_as(x) if is_grad_enabled() else x.detach() for x in given]
        aliases = [dual(level, x, t) for x, t in zip(plain, ts)]
        result = func(*pytree.tree_unflatten(aliases, tree))
    aux = None
    if has_aux:
        result, aux = result
        aux = pytree.tree_map(lambda x: parts_of(level, x)[0] if isinstance(x, Tensor) else x, aux)
    outputs, form = pytree.tree_flatten(result)
    parts = []
    for y in outputs:
        if not isinstance(y, Tensor):
            raise errors.wrong_type("jvp", "func", "return Tensors", y)
        parts.append(parts_of(level, y))
        if strict and parts[-1][1] is None:
            rule = "return results that depend on the primals, with strict=True"
            raise errors.wrong_value("jvp", "func", rule, y)
    # Within no_grad, outer transforms treat the results as constants, as in PyTorch.
    if not is_grad_enabled():
        parts = [(p.detach(), None if t is None else t.detach()) for p, t in parts]
    ys = pytree.tree_unflatten([p for p, _ in parts], form)
    zeros = functions.zeros_like
    dys = pytree.tree_unflatten([zeros(p) if t is None else t for p, t in parts], form)
    return (ys, dys, aux) if has_aux else (ys, dys)


def jacfwd(
    func: Function, argnums: Any = 0, has_aux: bool = False, *, chunk_size: int | None = None,
    randomness: str = "error",
) -> Function:  # fmt: skip
    """Return a function that computes the Jacobian of `func` column by column, by forward
    derivatives.

    Returns: as for `jacrev`. It costs less if there are fewer inputs than outputs.
    """

    @functools.wraps(func)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        of, put = chosen("jacfwd", argnums, args)
        leaves, tree = pytree.tree_flatten(tuple(of))

        def column(*ts: Any) -> Any:
            tangents = pytree.tree_unflatten(list(ts), tree)
            made = jvp(lambda *xs: func(*put(xs), **kwargs), tuple(of), tangents, has_aux=has_aux)
            return made[1:] if has_aux else made[1]

        mapped = vmap(
            column, out_dims=(0, None) if has_aux else 0, chunk_size=chunk_size,
            randomness=randomness,
        )  # fmt: skip
        columns = mapped(*unit_vectors(leaves))
        columns, aux = columns if has_aux else (columns, None)
        outputs, form = pytree.tree_flatten(columns)
        counts = [x._geometry.numel for x in leaves]
        found = []
        for y in outputs:
            parts = [
                p.movedim(0, -1).reshape((*y._geometry.sizes[1:], *x._geometry.sizes))
                for x, p in zip(leaves, y.split(counts))
            ]
            of_all = pytree.tree_unflatten(parts, tree)
            found.append(of_all if isinstance(argnums, tuple) else of_all[0])
        jacobian = pytree.tree_unflatten(found, form)
        return (jacobian, aux) if has_aux else jacobian

    return differentiated


def hessian(func: Function, argnums: Any = 0) -> Function:
    """Return a function that computes the second derivatives of `func`, by forward over reverse
    differentiation.

    >>> gt.func.hessian(lambda x: (x**3).sum())(gt.ones(2))
    tensor([[6., 0.],
            [0., 6.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
