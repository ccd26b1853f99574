"""What a tensor knows of its history: `requires_grad`, `grad`, `grad_fn`, hooks; and how it is set.

`Tensor._autograd` is None while nothing is known; the base, or a tuple, of a view without a
history, see Note [Views]; else an AutogradMeta. Generated kernels look for the None first and come
here for the rest. The engine is not here.
"""

from __future__ import annotations

import warnings
from typing import Any
from weakref import ref

from ..tensor import tensor as _tensor
from ..core import errors
from ..core.arguments import NUMBERS
from ..core.device import CPU
from ..core.dtype import FLOATING
from ..dispatch import keys, tls
from ..tensor.tensor import Tensor
from . import anomaly, inplace_or_view
from .modes import DEFAULT, grad_mode
from .node import (
    AccumulateGrad, Edge, HookDict, Node, RemovableHandle, _numbers,
    add_output, hooks_of, version_of,
)  # fmt: skip
from .streams import current_stream

_new = object.__new__


class AutogradMeta:
    """The history of a tensor, and what is attached to it.

    edge: the node that made it and which of its outputs it is; None for a leaf. view: as in
    Note [Views], or None. version: of the storage when `edge` was set, for views. own: an `Own`, or
    None while the user attached nothing.
    """

    __slots__ = ("edge", "view", "version", "own")

    edge: Edge | None
    view: Any
    version: int
    own: Own | None


class Own:
    """What a user attached to a tensor, and the node that accumulates a leaf's gradient.

    since: the version at which a leaf was told to require grad.
    """

    __slots__ = (
        "requires_grad", "since", "grad", "hooks", "after_accumulate", "accumulator",
        "retains_grad",
    )  # fmt: skip

    def __init__(self) -> None:
        self.requires_grad = self.retains_grad = False
        self.since = 0
        self.grad: Tensor | None = None
        self.hooks: HookDict | None = None
        self.after_accumulate: HookDict | None = None
        self.accumulator: ref[AccumulateGrad] | None = None


def meta_of(x: Tensor) -> AutogradMeta:
    """The tensor's AutogradMeta, made if it has none."""
    known = x._autograd
    if type(known) is AutogradMeta:
        return known
    meta = _new(AutogradMeta)
    meta.edge = meta.own = None
    meta.view = _view_of(x)
    meta.version = 0 if meta.view is None else meta.view[2]
    x._autograd = meta
    return meta


def _view_of(x: Tensor) -> Any:
    """`view_of` for a tensor without an AutogradMeta."""
    known = x._autograd
    if known is None or type(known) is tuple:
        return known
    meta = known._autograd
    own = meta.own if type(meta) is AutogradMeta else None
    # The base knew no history when the view was made. If it has been given one since by a write,
    # any version before that write will do; if it became a leaf that requires grad, the one it had
    # then.
    version = -1
    if meta is None:
        version = x._storage.version  # type: ignore[union-attr]
    elif meta.edge is None and own is not None:
        version = own.since
    return (known, DEFAULT, version, None)


def own_of(x: Tensor) -> Own:
    meta = meta_of(x)
    if meta.own is None:
        meta.own = Own()
    return meta.own


def view_of(x: Tensor) -> Any:
    """(base, creation, version, replay) of a view, or None. See Note [Views]."""
    meta = x._autograd
    return meta.view if type(meta) is AutogradMeta else _view_of(x)


# --- reading --------------------------------------------------------------------------------------


def requires_grad(x: Tensor) -> bool:
    """True if operations on x are to be recorded."""
    meta = x._autograd
    if meta is None:
        return False
    if type(meta) is not AutogradMeta:
        return requires_grad(meta[0] if type(meta) is tuple else meta)
    if meta.edge is not None or meta.own is not None and meta.own.requires_grad:
        return True
    return meta.view is not None and requires_grad(meta.view[0])


def history(x: Tensor) -> Edge | None:
    """The edge to the node that made x; of a view whose base was written to, a new one."""
    meta = x._autograd
    if meta is None:
        return None
    if type(meta) is not AutogradMeta:
        view = _view_of(x)
        if view[2] != x._storage.version and requires_grad(view[0]):  # type: ignore[union-attr]
            return inplace_or_view.regenerate(x)
        return None
    view = meta.view
    if view is not None and meta.version != x._storage.version:  # type: ignore[union-attr]
        if meta.edge is not None or requires_grad(view[0]):
            return inplace_or_view.regenerate(x)
    return meta.edge


def _last_history(x: Tensor) -> Edge | None:
    """`history`; of a view that none can be made for any more, the one that it had."""
    try:
        return history(x)
    except errors.AutogradError:
        meta = x._autograd
        return meta.edge if type(meta) is AutogradMeta else None


def gradient_edge(x: Tensor) -> Edge | None:
    """Where the gradient of x goes; None if x has no use for one."""
    meta = x._autograd
    if type(meta) is not AutogradMeta or meta.view is not None or meta.edge is not None:
        edge = history(x)
        if edge is not None:
            return edge
        meta = x._autograd
    own = meta.own if type(meta) is AutogradMeta else None
    return (accumulator(x, own), 0) if own is not None and own.requires_grad else None


def accumulator(x: Tensor, own: Own) -> AccumulateGrad:
    node = None if own.accumulator is None else own.accumulator()
    if node is None:
        node = AccumulateGrad(x)
        own.accumulator = ref(node)
    return node


# --- recording; called by generated kernels -------------------------------------------------------


def any_requires_grad(*operands: Any) -> bool:
    return any([type(x) not in NUMBERS and requires_grad(x) for x in operands])


def record(kind: type[Node], *operands: Any) -> Any:
    """A node for an operation on these differentiable operands; None if it is not to be
    recorded."""
    if grad_mode.get():
        return None
    edges: list[Edge | None] = []
    is_needed = False
    for x in operands:
        edge = None
        if type(x) is Tensor or type(x) not in NUMBERS:
            meta = x._autograd
            if meta is not None:
                # Written out for what is neither leaf nor view, most operands by far.
                if type(meta) is AutogradMeta and meta.view is None and meta.edge is not None:
                    edge, is_needed = meta.edge, True
                # else autograd may know, at most, that x is a view of what it does not know
                elif type(meta) is not Tensor or meta._autograd is not None:
                    edge = gradient_edge(x)
                    is_needed = is_needed or edge is not None or requires_grad(x)
        edges.append(edge)
    if not is_needed:
        return None
    node = _new(kind)
    node.edges, node.sequence_nr = tuple(edges), next(_numbers)
    if anomaly.is_on:
        node.trace = anomaly.stack()
    return node


def record_unary(kind: type[Node], self: Tensor) -> Any:
    """`record` for an operation on one tensor that autograd knows."""
    meta = self._autograd
    if type(meta) is Tensor and meta._autograd is None or grad_mode.get():
        return None
    edge = gradient_edge(self)
    if edge is None and not requires_grad(self):
        return None
    node = _new(kind)
    node.edges, node.sequence_nr = (edge,), next(_numbers)
    if anomaly.is_on:
        node.trace = anomaly.stack()
    return node


def record_inplace(kind: type[Node], self: Tensor, *others: Any) -> Any:
    """`record` for an operator that writes to self. Raises: AutogradError where that is
    forbidden."""
    if grad_mode.get() or self._geometry.dtype.category < FLOATING:
        return None
    if not any_requires_grad(self, *others):
        return None
    inplace_or_view.check_inplace(self)
    node = record(kind, self, *others)
    node.outputs = []
    return node


def set_history(result: Any, node: Node) -> Any:
    """Make `node` the history of a new tensor; returns the tensor."""
    if result._geometry.dtype.category < FLOATING:
        return result
    meta = _new(AutogradMeta)
    view = None if result._autograd is None else view_of(result)
    meta.view, meta.own = view, None
    meta.version = 0 if view is None else view[2]
    node.outputs = [(result._geometry, result._device)]
    if result._device is not CPU and (stream := current_stream(result._device)) is not None:
        node.stream = stream
    meta.edge = (node, 0)
    result._autograd = meta
    return result


def set_histories(results: Any, node: Node) -> Any:
    """`set_history` for an operator that returns a list."""
    node.outputs = []
    for x in results:
        with_edge(x, (node, add_output(node, x)))
    return results


def with_edge(x: Tensor, edge: Edge | None) -> Tensor:
    """Give x a history; what the user attached to it stays."""
    meta = meta_of(x)
    meta.edge = edge
    if meta.view is not None:
        meta.version = x._storage.version  # type: ignore[union-attr]
    return x


def move_retained(x: Tensor, before: Edge | None, after: Edge) -> None:
    """Let `retain_grad` follow a tensor to its new node; other hooks stay with the old one."""
    own = meta_of(x).own
    if own is not None and own.retains_grad:
        if before is not None and before[0].hooks is not None:
            before[0].hooks.retained.pop(before[1], None)
        hooks_of(after[0]).retained[after[1]] = ref(x)


def check_resize(op: str, *operands: Any) -> None:
    """Raise if a tensor that requires grad is to get other sizes or another storage."""
    if any_requires_grad(*operands):
        raise errors.cannot_resize_with_grad(op)


def check_out(op: str, *operands: Any) -> None:
    """Raise if an `out=` form would have to be recorded."""
    if not grad_mode.get() and any_requires_grad(*operands):
        raise errors.out_with_grad(op)


def check_constant(op: str, arg: str, operand: Any) -> None:
    """Raise if an operand without a formula would have to be differentiated; never a silent
    zero."""
    if not grad_mode.get() and any_requires_grad(operand):
        raise errors.not_differentiable(op, arg)


# --- what Tensor's attributes do ------------------------------------------------------------------


def is_leaf(x: Tensor) -> bool:
    return history(x) is None


def grad_fn(x: Tensor) -> Node | None:
    edge = history(x)
    return None if edge is None else edge[0]


def output_nr(x: Tensor) -> int:
    edge = history(x)
    return 0 if edge is None else edge[1]


def grad(x: Tensor) -> Tensor | None:
    meta = x._autograd
    own = meta.own if type(meta) is AutogradMeta else None
    found = None if own is None else own.grad
    if found is None and not (own is not None and own.retains_grad) and not is_leaf(x):
        warnings.warn(errors.grad_of_nonleaf(), UserWarning, stacklevel=3)
    return found


def set_grad(x: Tensor, value: Any) -> None:
    if value is None:
        if type(x._autograd) is AutogradMeta and x._autograd.own is not None:
            x._autograd.own.grad = None
        return
    if not isinstance(value, Tensor):
        raise errors.must(
            "grad", "value", "be a Tensor or None", value, kind=errors.ArgumentTypeError
        )
    same = value._geometry.sizes == x._geometry.sizes and value._geometry.dtype is x._geometry.dtype
    if value is x or not same or value._device is not x._device:
        raise errors.must(
            "grad", "value", f"be another tensor like self, {errors.describe(x)}", value
        )
    own_of(x).grad = value


def set_requires_grad(x: Tensor, value: bool) -> None:
    edge = _last_history(x)
    if requires_grad(x) == value and (not value or edge is not None):
        return
    if edge is not None:
        if value:
            return
        raise errors.requires_grad_of_nonleaf()
    if value and x._geometry.dtype.category < FLOATING:
        raise errors.grad_of_integers(x)
    if value and not x._keys & tls.AD_INPLACE_OR_VIEW and not tls.is_inference_mode():
        raise errors.inference_requires_grad()
    own = own_of(x)
    own.requires_grad, own.since = bool(value), version_of(x)


def retain_grad(x: Tensor) -> None:
    if not requires_grad(x):
        raise errors.must("retain_grad", "self", "require grad", x)
    edge = _last_history(x) and history(x)
    if edge is not None:
        own_of(x).retains_grad = True
        hooks_of(edge[0]).retained[edge[1]] = ref(x)


def retains_grad(x: Tensor) -> bool:
    meta = x._autograd
    return type(meta) is AutogradMeta and meta.own is not None and meta.own.retains_grad


def base(x: Tensor) -> Tensor | None:
    view = view_of(x)
    return None if view is None else view[0]


def register_hook(x: Tensor, hook: Any) -> RemovableHandle:
    if not requires_grad(x):
        raise errors.must("register_hook", "self", "require grad", x)
    edge = history(x)
    if edge is not None:
        return RemovableHandle(hooks_of(edge[0]).tensor.setdefault(edge[1], HookDict()), hook)
    own = own_of(x)
    if own.hooks is None:
        own.hooks = HookDict()
    return RemovableHandle(own.hooks, hook)


def register_post_accumulate_grad_hook(x: Tensor, hook: Any) -> RemovableHandle:
    if not requires_grad(x) or not is_leaf(x):
        raise errors.must(
            "register_post_accumulate_grad_hook", "self", "be a leaf that requires grad", x
        )
    own = own_of(x)
    if own.after_accumulate is None:
        own.after_accumulate = HookDict()
    return RemovableHandle(own.after_accumulate, hook)


def hooks_on(x: Tensor) -> list[Any]:
    """The hooks that users registered on a tensor."""
    if x._autograd is None:
        return []
    edge = history(x)
    if edge is not None:
        hooks = edge[0].hooks
        return [] if hooks is None else [*hooks.tensor.get(edge[1], HookDict()).values()]
    meta = x._autograd
    own = meta.own if type(meta) is AutogradMeta else None
    return (
        [] if own is None else [*(own.hooks or {}).values(), *(own.after_accumulate or {}).values()]
    )


def set_data(x: Tensor, value: Any) -> None:
    """Let x have the elements, sizes and dtype of another tensor; its history and its version stay.

    Source: torch/csrc/autograd/variable.cpp, VariableHooks::set_data.
    """
    if not isinstance(value, Tensor):
        raise errors.must("data", "value", "be a Tensor", value, kind=errors.ArgumentTypeError)
    if requires_grad(x) and value._geometry.dtype.category < FLOATING:
        raise errors.data_not_differentiable(value)
    is_tracked, version = x._keys & tls.AD_INPLACE_OR_VIEW, version_of(x)
    storage = value._get_storage().twin()
    storage.version = version
    meta = x._autograd
    own = meta.own if type(meta) is AutogradMeta else None
    is_other = value._device is not x._device or value._geometry.dtype is not x._geometry.dtype
    if own is not None and is_other:
        own.accumulator = None  # what it knows of the leaf is out of date
    kept = keys.PYTHON | tls.AD_INPLACE_OR_VIEW | tls.AUTOGRAD
    x._keys = value._keys & ~kept | x._keys & kept
    if not is_tracked:
        x._keys &= ~(tls.AD_INPLACE_OR_VIEW | tls.AUTOGRAD)
    x._geometry, x._device, x._offset = value._geometry, value._device, value._offset
    x._storage, x._array = storage, None


def detach_(x: Tensor) -> Tensor:
    """Make x a leaf that does not require grad."""
    if view_of(x) is not None:
        raise errors.detach_view()
    meta = x._autograd
    if meta is not None:
        meta.edge = None
        if meta.own is not None:
            meta.own.requires_grad = False
    return x


def backward(x: Tensor, *args: Any) -> None:
    from . import engine

    engine.backward(x, *args)


def install() -> None:
    """Let Tensor's attributes find this module, which is on a higher floor than Tensor."""
    import sys

    _tensor.autograd = sys.modules[__name__]
