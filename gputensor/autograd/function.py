"""autograd.Function: the base class of operations whose derivatives are written in Python.

Source: torch/autograd/function.py and torch/csrc/autograd/custom_function.cpp, _wrap_outputs.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from .._generated import calls
from ..core import dtype as dtypes, errors
from ..core.dtype import FLOATING
from ..dispatch.keys import BATCHED, DUAL
from ..tensor.tensor import Tensor
from . import inplace_or_view, variable
from .history import gradient_edge, meta_of, requires_grad, view_of, with_edge
from .modes import DEFAULT, IN_CUSTOM_FUNCTION, NO_GRAD_MODE, grad_mode, left, no_grad, set_mode
from .node import FREED, Node, add_output
from .saved import save, save_result


_TRANSFORMED = BATCHED | DUAL
# Holds one function, which applies a Function to tensors of gt.func's transforms. gt.func sets it.
transform: list[Callable[..., Any]] = []


class Context:
    """`ctx`, which `forward` passes to `backward`. It may have any attributes.

    needs_input_grad: for each argument of forward, True if the argument's gradient is needed.
    """

    # These are class attributes until they are set, because most contexts change only a few of
    # them.
    needs_input_grad: tuple[Any, ...] = ()
    # Set only while backward runs, because context and node would otherwise form a reference cycle.
    _node: _FunctionNode | None = None
    _to_save: tuple[Any, ...] = ()
    _dirty: tuple[Tensor, ...] = ()
    _not_differentiable: tuple[Tensor, ...] = ()
    _materializes = True
    _saved: Any = ()
    _for_forward: tuple[Any, ...] = ()
    # The value of `saved_tensors` if there is no node: in `jvp`, and in rules that vmap generates.
    _at_hand: tuple[Any, ...] | None = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save arguments or results of forward for backward, which reads them as
        `saved_tensors`."""
        for x in tensors:
            if x is not None and not isinstance(x, Tensor):
                raise errors.wrong_type("save_for_backward", "tensors", "be Tensors or None", x)
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save arguments or results of forward for jvp, which reads them as `saved_tensors`."""
        for x in tensors:
            if x is not None and not isinstance(x, Tensor):
                raise errors.wrong_type("save_for_forward", "tensors", "be Tensors or None", x)
        self._for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declare the arguments to which forward writes. forward must return them. Their versions
        are incremented."""
        for x in tensors:
            if not isinstance(x, Tensor):
                raise errors.wrong_type("mark_dirty", "tensors", "be Tensors", x)
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare results that have no gradient."""
        self._not_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Choose what backward gets as the gradients of unused results: zeros if `value` is True,
        which is the default, or None if it is False."""
        self._materializes = value

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The saved tensors. Raises: AutogradError if one was written to, or if they were freed."""
        if self._at_hand is not None:
            return self._at_hand
        if self._saved is FREED:
            FREED.unpack(self._node)
        return tuple([None if s is None else s.unpack(self._node) for s in self._saved])

    # PyTorch's old name.
    saved_variables = saved_tensors


class _FunctionNode(Node):
    """The node of a custom Function. Each Function has its own subclass of _FunctionNode, named
    after the Function."""

    __slots__ = ("context", "places")

    function: ClassVar[type[Function]]
    context: Context
    places: Any

    is_users = True

    def backward(node, *grads: Any) -> Any:
        context = node.context
        given = node.zeros_for(grads) if context._materializes else list(grads)
        context._node = node
        try:
            results = node.function.backward(context, *given)
        finally:
            context._node = None
        if not isinstance(results, tuple):
            results = (results,)
        n_arguments, places = node.places
        if len(results) > n_arguments and all([r is None for r in results[n_arguments:]]):
            results = results[:n_arguments]
        if len(results) != n_arguments:
            raise errors.wrong_number_of_gradients(node.name(), n_arguments, len(results))
        return [results[place] for place in places]

    def release(self) -> None:
        if self.context._saved:
            self.context._saved = FREED

    def __repr__(self) -> str:
        return f"<{dtypes.package_name}.autograd.function.{self.name()} object at {hex(id(self))}>"

    def __getattr__(self, name: str) -> Any:
        if name == "saved_tensors":
            saved = self.context._saved
            if saved is FREED:
                FREED.unpack(self)
            return tuple([s and s.unpack(self) for s in saved])
        return super().__getattr__(name)


class Function:
    """Base class of operations whose derivatives users write. Call such an operation as
    `MyFunction.apply(x, ...)`.

    A subclass defines static methods. The forward computation is either `forward(ctx, *args)`, or
    the two methods `forward(*args)` and `setup_context(ctx, inputs, output)`. `backward(ctx,
    *grads)` returns a gradient, or None, for each argument of forward. For `gt.func`, a subclass
    may define `jvp` and `vmap`.

    generate_vmap_rule: True lets vmap make a rule of forward, setup_context, backward and jvp,
        which must work on tensors within vmap. The class then has no method vmap.
    """

    generate_vmap_rule: ClassVar[bool] = False
    _node_class: ClassVar[type[_FunctionNode]]

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise errors.wrong_function("a subclass must define the static method forward")

    @staticmethod
    def setup_context(ctx: Context, inputs: tuple[Any, ...], output: Any) -> None:
        """Save on ctx the values that backward needs. Called if forward has no argument ctx."""

    @staticmethod
    def backward(*args: Any, **kwargs: Any) -> Any:
        raise errors.wrong_function("a subclass must define the static method backward")

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Return the tangent of each output, or None, given the tangents of forward's arguments."""
        raise errors.wrong_function("a subclass must define the static method jvp")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """Return (output, out_dims) for whole batches. in_dims: the batch dimension of each
        argument, or None.

        info: an object with the attributes batch_size and randomness.
        """
        raise errors.wrong_function(
            "a subclass must define the static method vmap, or have generate_vmap_rule=True"
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward without recording, and record this function as one node."""
        if any([x._keys & _TRANSFORMED for x in args if isinstance(x, Tensor)]):
            return transform[0](cls, args)
        return cls._run(args)[0]

    @classmethod
    def _run(cls, args: Sequence[Any]) -> tuple[Any, Context]:
        """Run forward. Return the results and the context."""
        context = Context()
        places = [n for n, x in enumerate(args) if isinstance(x, Tensor)]
        inputs = [args[n] for n in places]
        node = None
        if any([requires_grad(x) for x in inputs]) and grad_mode.get() == DEFAULT:
            node = _node_class(cls)(tuple([gradient_edge(x) for x in inputs]))
            node.context, node.places = context, (len(args), places)
        context.needs_input_grad = tuple([isinstance(x, Tensor) and requires_grad(x) for x in args])
        mode = grad_mode.get()
        try:
            set_mode(mode or NO_GRAD_MODE)
            if cls.setup_context is Function.setup_context:
                output = cls.forward(context, *args)
            else:
                output = cls.forward(*args)
                cls.setup_context(context, tuple(args), output)
        finally:
            left(grad_mode.set(mode))
        outputs = output if isinstance(output, tuple) else (output,)
        _check_dirty(context, inputs, outputs)
        outputs = tuple([_wrap(context, x, inputs, node) for x in outputs])
        context._dirty = context._not_differentiable = ()
        _save(context, outputs, node)
        return (outputs if isinstance(output, tuple) else outputs[0]), context


def _node_class(function: type[Function]) -> type[_FunctionNode]:
    """Return the class of a Function's nodes. It is made at the first call."""
    if "_node_class" not in vars(function):
        namespace = {"function": function, "__slots__": (), "__module__": __name__}
        function._node_class = type(f"{function.__name__}Backward", (_FunctionNode,), namespace)
    return function._node_class


def _check_dirty(context: Context, inputs: list[Tensor], outputs: tuple[Any, ...]) -> None:
    for x in context._dirty:
        inplace_or_view.bump_version(x)
        if not any([x is made for made in outputs]):
            raise errors.dirty_not_returned()
        if not any([x is given for given in inputs]):
            warnings.warn(errors.dirty_no_input(), UserWarning, stacklevel=3)
        elif view_of(x) is not None and sum([isinstance(made, Tensor) for made in outputs]) > 1:
            raise errors.dirty_view_among_several()


def _wrap(context: Context, x: Any, inputs: list[Tensor], node: _FunctionNode | Any) -> Any:
    """Return a result of forward with its history."""
    if not isinstance(x, Tensor):
        # the result has a position among the gradients, although it has no gradient
        if node is not None:
            node.outputs.append(None)
        return x
    is_input = any([x is given for given in inputs])
    is_dirty = any([x is given for given in context._dirty])
    is_differentiable = (
        node is not None
        and x._geometry.dtype.category >= FLOATING
        and not any([x is given for given in context._not_differentiable])
    )
    if is_differentiable and is_dirty and is_input:
        inplace_or_view.check_inplace(x)
        return inplace_or_view.rebase_history(x, node)
    number = 0 if node is None else add_output(node, x)
    if not is_differentiable:
        return _constant(x, is_input, is_dirty)
    if is_input:
        x = _aliased(x)
    view = view_of(x)
    meta = meta_of(x)
    if view is not None:
        meta.view = (view[0], IN_CUSTOM_FUNCTION, x._storage.version, view[3])
    with_edge(x, (node, number))
    return x


def _constant(x: Tensor, is_input: bool, is_dirty: bool) -> Tensor:
    """Return a result x of forward that has no gradient. If x is an argument of forward, return an
    alias, or a detached tensor if x requires grad. Otherwise, detach x in place if it requires grad
    and is not a view."""
    if not requires_grad(x):
        return _aliased(x) if is_input and not is_dirty else x
    if is_input:
        return calls.detach(x)
    return x if view_of(x) is not None else variable.detach_(x)


def _aliased(x: Tensor) -> Tensor:
    """Return another view of an argument, so that the argument keeps its own history."""
    mode = grad_mode.get()
    try:
        set_mode(NO_GRAD_MODE)
        return calls.alias(x)
    finally:
        left(grad_mode.set(mode))


def _save(context: Context, outputs: tuple[Any, ...], node: _FunctionNode | None) -> None:
    """Save the tensors that forward passed to `save_for_backward`. See Note [No cycles] in node.py
    for saved results."""
    saved: list[Any] = []
    for x in context._to_save:
        numbers = [n for n, made in enumerate(outputs) if made is x]
        if x is None:
            saved.append(None)
        elif numbers and node is not None:
            saved.append(save_result(x, numbers[0]))
        else:
            saved.append(save(x))
    context._to_save, context._saved = (), saved


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `backward` method that is not differentiable."""

    @functools.wraps(fn)
    def wrapped(ctx: Context, *grads: Any) -> Any:
        with no_grad():
            results = fn(ctx, *grads)
        needs = any([isinstance(g, Tensor) and requires_grad(g) for g in grads])
        if grad_mode.get() != DEFAULT or not needs:
            return results
        listed = results if isinstance(results, tuple) else (results,)
        blocked = tuple([_blocked(x) if isinstance(x, Tensor) else x for x in listed])
        return blocked if isinstance(results, tuple) else blocked[0]

    return wrapped


def _blocked(x: Tensor) -> Tensor:
    from .node import NotImplementedNode

    node = NotImplementedNode(())
    node.operator = "a function marked once_differentiable"
    made = calls.detach(x)
    return with_edge(made, (node, add_output(node, made)))
