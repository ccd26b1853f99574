"""Support of `autograd.Function` within transforms: calls of its `vmap` and `jvp`, or of a vmap
rule made from `forward`.

As for operators, the innermost level of the arguments handles the call. It unwraps its arguments
and calls the Function again, so that the outer levels handle that call. When no argument is wrapped
any more, autograd records the call.
Source: torch/_functorch/autograd_function.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._generated import functions
from ..autograd import function
from ..autograd.function import Context, Function
from ..core import errors
from ..core.dtype import FLOATING
from ..tensor.tensor import Tensor
from . import operators
from .levels import Wrapper, batched, check_alive, dual, parts_of, physical
from .operators import outside
from .vmap_level import VmapInfo, VmapLevel

Cls = type[Function]


def install() -> None:
    """Register the fallbacks of operators and the hook of `autograd.Function`, once."""
    operators.install()
    function.transform[:] = [apply]


def apply(cls: Cls, args: Sequence[Any]) -> Any:
    """Apply a Function to arguments. At least one of them is a wrapper of a level."""
    wrappers = [x for x in args if isinstance(x, Wrapper)]
    innermost = max(wrappers, key=lambda x: x.level.number)
    check_alive(innermost, cls.__name__)
    level = innermost.level
    if not level.is_vmap:
        return outside(level, _with_tangents, level, cls, args)
    if not cls.generate_vmap_rule:
        return outside(level, _by_users_rule, level, cls, args)
    if cls.vmap is not Function.vmap:
        rule = "must have vmap or generate_vmap_rule=True, not both"
        raise errors.wrong_function(f"{cls.__name__} {rule}")
    return outside(level, _by_made_rule, level, cls, args)


def _kept(made: Any, given: Sequence[Any], args: Sequence[Any]) -> Any:
    """Return the argument whose wrapper contains `made`, or None. If there is such an argument,
    forward wrote to `made` and returned it.
    """
    return next((a for a, x in zip(args, given) if x is made and a is not x), None)


def _each(output: Any, change: Any) -> Any:
    """Apply `change(index, result)` to each result of a Function: one result or a tuple."""
    if isinstance(output, tuple):
        return tuple([change(n, y) for n, y in enumerate(output)])
    return change(0, output)


# --- vmap -----------------------------------------------------------------------------------------


def _by_users_rule(level: VmapLevel, cls: Cls, args: Sequence[Any]) -> Any:
    in_dims = tuple([0 if level.owns(x) else None for x in args])
    given = [x.value if level.owns(x) else x for x in args]
    result = cls.vmap(VmapInfo(level.size, level.randomness), in_dims, *given)
    if not isinstance(result, tuple) or len(result) != 2:
        raise errors.wrong_function("vmap must return (output, out_dims)")
    output, out_dims = result

    def wrapped(n: int, y: Any) -> Any:
        dim = out_dims[n] if isinstance(out_dims, tuple) else out_dims
        if dim is None or not isinstance(y, Tensor):
            return y
        kept = _kept(y, given, args)
        return batched(level, y.movedim(dim, 0)) if kept is None else kept

    return _each(output, wrapped)


def _by_made_rule(level: VmapLevel, cls: Cls, args: Sequence[Any]) -> Any:
    is_batched = [level.owns(x) for x in args]
    given = [x.value if level.owns(x) else x for x in args]
    mapped: Any = type(cls.__name__, (_Mapped,), {"of": cls, "batch": (level, is_batched)})
    output = mapped.apply(*given)

    def wrapped(n: int, y: Any) -> Any:
        kept = _kept(y, given, args)
        if kept is not None:
            return kept
        return batched(level, y) if isinstance(y, Tensor) else y

    return _each(output, wrapped)


class _Mapped(Function):
    """A Function on whole batches. Each of its methods runs the same method of the user's Function
    `of` within a vmap.

    batch: the vmap's level, and for each argument, True if the argument has the batch.
    """

    generate_vmap_rule = True
    of: Cls
    batch: tuple[VmapLevel, list[bool]]

    @classmethod
    def _level(cls) -> VmapLevel:
        level = cls.batch[0]
        return VmapLevel(level.size, level.randomness)

    @classmethod
    def _entered(cls, level: VmapLevel, args: Sequence[Any]) -> list[Any]:
        return [batched(level, x) if has else x for x, has in zip(args, cls.batch[1])]

    @classmethod
    def forward(cls, *args: Any) -> Any:
        with cls._level() as level:
            given = cls._entered(level, args)
            output = cls.of.forward(*given)

            def whole(n: int, y: Any) -> Any:
                if not isinstance(y, Tensor):
                    return y
                written = next((a for a, x in zip(args, given) if x is y and x is not a), None)
                return physical(level, y) if written is None else written

            return _each(output, whole)

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Run the Function's setup_context with tensors of the level. ctx saves the contents of
        these wrappers."""
        own = Context()
        with cls._level() as level:
            given = cls._entered(level, inputs)
            held = dict(zip(map(id, given), inputs))

            def entered(n: int, y: Any) -> Any:
                if not isinstance(y, Tensor):
                    return y
                found = next((a for a, x in zip(given, inputs) if x is y), None)
                found = batched(level, y) if found is None else found
                held[id(found)] = y
                return found

            results = _each(output, entered)
            cls.of.setup_context(own, tuple(given), results)

            def whole(x: Any) -> Any:
                if not isinstance(x, Tensor):
                    return x
                return held[id(x)] if id(x) in held else physical(level, x)

            ctx.own = own
            ctx.has_batch = [level.owns(x) for x in own._to_save]
            ctx.has_batch_forward = [level.owns(x) for x in own._for_forward]
            ctx.save_for_backward(*[whole(x) for x in own._to_save])
            ctx.save_for_forward(*[whole(x) for x in own._for_forward])
            ctx.mark_dirty(*[whole(x) for x in own._dirty])
            ctx.mark_non_differentiable(*[whole(x) for x in own._not_differentiable])
            ctx.set_materialize_grads(own._materializes)
            ctx.shapes = [x.shape if isinstance(x, Tensor) else None for x in given]
            own._to_save = own._for_forward = own._dirty = own._not_differentiable = ()

    @classmethod
    def _context(cls, ctx: Any, level: VmapLevel, has_batch: list[bool]) -> Context:
        own: Context = ctx.own
        own.needs_input_grad = ctx.needs_input_grad
        saved = zip(ctx.saved_tensors, has_batch)
        own._at_hand = tuple([batched(level, x) if has else x for x, has in saved])
        return own

    @classmethod
    def backward(cls, ctx: Any, *grads: Any) -> Any:
        with cls._level() as level:
            own = cls._context(ctx, level, ctx.has_batch)
            given = [batched(level, g) if isinstance(g, Tensor) else g for g in grads]
            result = cls.of.backward(own, *given)
            listed = result if isinstance(result, tuple) else (result,)
            own._at_hand = None
            return tuple([
                g if not isinstance(g, Tensor) else
                _summed(physical(level, g), shape, has)
                for g, shape, has in zip(listed, ctx.shapes, cls.batch[1])
            ])  # fmt: skip

    @classmethod
    def jvp(cls, ctx: Any, *tangents: Any) -> Any:
        with cls._level() as level:
            own = cls._context(ctx, level, ctx.has_batch_forward)
            given = [
                batched(level, t) if has and isinstance(t, Tensor) else t
                for t, has in zip(tangents, cls.batch[1])
            ]
            result = cls.of.jvp(own, *given)
            own._at_hand = None
            return _each(result, lambda n, t: physical(level, t) if isinstance(t, Tensor) else t)


def _summed(gradient: Any, shape: Any, has_batch: bool) -> Any:
    """Return the gradient of an argument. If the argument has no batch, sum its gradient over the
    batch."""
    made = gradient.sum_to_size(gradient.shape[0], *shape)
    return made if has_batch else made.sum(0)


# --- forward derivatives --------------------------------------------------------------------------


def _with_tangents(level: Any, cls: Cls, args: Sequence[Any]) -> Any:
    """Apply the Function to the primals, and its `jvp` to the tangents."""
    if cls.jvp is Function.jvp:
        raise errors.wrong_function(f"{cls.__name__} must define the static method jvp")
    parts = [parts_of(level, x) if isinstance(x, Tensor) else (x, None) for x in args]
    primals = [p for p, _ in parts]
    context: Any
    if cls.setup_context is not Function.setup_context:
        output, context = cls.apply(*primals), Context()
        context.needs_input_grad = tuple([t is not None for _, t in parts])
        cls.setup_context(context, tuple(primals), output)
    elif any(isinstance(p, Wrapper) for p in primals):
        rule = "must define the static method setup_context, as transforms are nested"
        raise errors.wrong_function(f"{cls.__name__} {rule}")
    else:
        output, context = cls._run(primals)
    context._at_hand = context._for_forward
    found = cls.jvp(context, *[_tangent(context, p, t) for p, t in parts])
    context._at_hand = None
    tangents = found if isinstance(found, tuple) else (found,)
    if len(tangents) != (len(output) if isinstance(output, tuple) else 1):
        raise errors.wrong_function("jvp must return a tangent, or None, for each output")

    def paired(n: int, y: Any) -> Any:
        t = tangents[n]
        if not isinstance(y, Tensor) or t is None:
            return y
        if t.shape != y.shape:
            rule = f"jvp must return tangents of the outputs' sizes, {list(y.shape)}"
            raise errors.wrong_function(rule)
        kept: Any = _kept(y, primals, args)
        if kept is None:
            return dual(level, y, t)
        kept.tangent = t
        return kept

    return _each(output, paired)


def _tangent(context: Any, primal: Any, tangent: Any) -> Any:
    """Return the tangent that `jvp` gets for an argument. If ctx materializes tangents, zeros
    replace a tangent that is None."""
    if tangent is not None or not context._materializes or not isinstance(primal, Tensor):
        return tangent
    return functions.zeros_like(primal) if primal._geometry.dtype.category >= FLOATING else None
