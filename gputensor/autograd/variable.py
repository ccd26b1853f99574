"""A tensor's autograd attributes (`requires_grad`, `grad`, `grad_fn` and hooks), and the recording
of operations.

history.py describes histories; engine/run.py walks them.
"""

from __future__ import annotations

import warnings
from typing import Any
from weakref import ref

from ..core import errors
from ..core.arguments import NUMBERS
from ..core.device import CPU
from ..core.dtype import FLOATING
from ..dispatch import keys, tls
from ..dispatch.operator import Operator
from ..tensor.tensor import Tensor
from . import anomaly
from .history import (
    AutogradMeta, accumulator, gradient_edge, history, is_leaf, last_history, own_of, requires_grad,
    view_of, with_edge,
)  # fmt: skip
from .history import meta_of as meta_of
from .inplace_or_view import check_inplace
from .modes import DEFAULT, grad_mode
from .node import Edge, HookDict, Node, RemovableHandle, _numbers, add_output, hooks_of, version_of
from .streams import current_stream

_new = object.__new__
# Types of values that are accepted in place of a tensor.
_NOT_TENSORS = NUMBERS | {type(None)}


# --- recording; called by generated kernels -------------------------------------------------------


def any_requires_grad(*operands: Any) -> bool:
    return any([type(x) not in _NOT_TENSORS and requires_grad(x) for x in operands])


def record(kind: type[Node], *operands: Any) -> Any:
    """Return a new node for these differentiable operands, or None if nothing is recorded."""
    if grad_mode.get():
        return None
    edges: list[Edge | None] = []
    is_needed = False
    for x in operands:
        edge = None
        if type(x) is Tensor or type(x) not in _NOT_TENSORS:
            meta = x._autograd
            if meta is not None:
                # Most operands are not views, so the code of `gradient_edge` is inlined for results
                # of operations and for leaves.
                if type(meta) is AutogradMeta and meta.view is None:
                    edge, own = meta.edge, meta.own
                    if edge is None and own is not None and own.requires_grad:
                        edge = (accumulator(x, own), 0)
                    is_needed = is_needed or edge is not None
                # If this condition is false too, x has no history, and no base with a history.
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
    """Call `record` for an operation on one tensor that requires grad."""
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
    """Call `record` for an operator that writes to self. Raises: AutogradError if self must not be
    written to."""
    if grad_mode.get() or self._geometry.dtype.category < FLOATING:
        return None
    if not any_requires_grad(self, *others):
        return None
    check_inplace(self)
    node = record(kind, self, *others)
    node.outputs = []
    return node


def is_written_unrecorded(x: Tensor) -> bool:
    """True if a write to a tensor only increments its version: nothing is recorded, and the tensor
    is not a view."""
    meta = x._autograd
    return type(meta) is AutogradMeta and meta.view is None and grad_mode.get() != DEFAULT


def set_history(result: Any, node: Node) -> Any:
    """Make `node` the history of a new tensor. Return the tensor."""
    geometry, device = result._geometry, result._device
    if geometry.dtype.category < FLOATING:
        return result
    meta = _new(AutogradMeta)
    meta.own = None
    if result._autograd is None:
        meta.view, meta.version = None, 0
    else:
        meta.view = view = view_of(result)
        meta.version = 0 if view is None else view[2]
    node.outputs = [(geometry, device)]
    if device is not CPU and (stream := current_stream(device)) is not None:
        node.stream = stream
    meta.edge = (node, 0)
    result._autograd = meta
    return result


def set_histories(results: Any, node: Node, of: tuple[int, ...] | None = None) -> Any:
    """Make `node` the history of several results, which may contain None. of: the numbers of the
    differentiable results, or None for all."""
    node.outputs = []
    for x in results:
        if x is None:
            node.outputs.append(None)
            continue
        number = add_output(node, x)
        if x._geometry.dtype.category >= FLOATING and (of is None or number in of):
            with_edge(x, (node, number))
    return results


def check_resize(op: str, *operands: Any) -> None:
    """Raise an error if a tensor that requires grad is about to get other sizes or another
    storage. `set_` is allowed in no_grad."""
    if any_requires_grad(*operands) and (op != "set_" or not grad_mode.get()):
        raise errors.cannot_resize_with_grad(op)


def check_out(op: str, *operands: Any) -> None:
    """Raise an error if an `out=` form would have to be recorded."""
    if not grad_mode.get() and any_requires_grad(*operands):
        raise errors.out_with_grad(op)


def check_constant(operator: Operator, number: int, operand: Any) -> None:
    """Raise an error if an operand without a derivative formula requires grad. Zeros would be a
    wrong gradient."""
    if not grad_mode.get() and any_requires_grad(operand):
        name = operator.schema.arguments[number].name
        raise errors.not_differentiable(operator.short_name, name)


# --- attributes of Tensor -------------------------------------------------------------------------


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
        raise errors.wrong_type("grad", "value", "be a Tensor or None", value)
    same = value._geometry.sizes == x._geometry.sizes and value._geometry.dtype is x._geometry.dtype
    if value is x or not same or value._device is not x._device:
        rule = f"be another tensor like self, {errors.describe(x)}"
        raise errors.must("grad", "value", rule, value)
    own_of(x).grad = value


def set_requires_grad(x: Tensor, value: bool) -> None:
    edge = last_history(x)
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
    edge = last_history(x) and history(x)
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
        rule = "be a leaf that requires grad"
        raise errors.must("register_post_accumulate_grad_hook", "self", rule, x)
    own = own_of(x)
    if own.after_accumulate is None:
        own.after_accumulate = HookDict()
    return RemovableHandle(own.after_accumulate, hook)


def hooks_on(x: Tensor) -> list[Any]:
    """Return the hooks that users registered on a tensor."""
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
    """Give x the elements, sizes and dtype of another tensor. The history and the version of x
    stay.

    Source: torch/csrc/autograd/variable.cpp, VariableHooks::set_data.
    """
    if not isinstance(value, Tensor):
        raise errors.wrong_type("data", "value", "be a Tensor", value)
    if requires_grad(x) and value._geometry.dtype.category < FLOATING:
        raise errors.data_not_differentiable(value)
    is_tracked, version = x._keys & tls.AD_INPLACE_OR_VIEW, version_of(x)
    storage = value._get_storage().twin()
    storage.version = version
    meta = x._autograd
    own = meta.own if type(meta) is AutogradMeta else None
    is_other = value._device is not x._device or value._geometry.dtype is not x._geometry.dtype
    if own is not None and is_other:
        own.accumulator = None  # the node has the leaf's former device and dtype
    kept = keys.PYTHON | tls.AD_INPLACE_OR_VIEW | tls.AUTOGRAD
    now = value._keys & ~kept | x._keys & kept
    if not is_tracked:
        now &= ~(tls.AD_INPLACE_OR_VIEW | tls.AUTOGRAD)
    # Short cuts compare key sets by identity.
    x._keys = value._keys if now == value._keys else now
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
