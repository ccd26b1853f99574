"""Autograd for views and in-place operators: the bases of views, and the effect of writes on
histories.

See Note [Views] in history.py.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from .._generated import calls
from ..core import errors
from ..dispatch import tls
from ..tensor.tensor import Tensor
from .history import (
    Replay, check_creation, gradient_edge, history, is_leaf, meta_of, move_retained,
    requires_grad, strided_like, view_of, with_edge,
)  # fmt: skip
from .modes import MULTI_OUTPUT_NODE, grad_mode
from .node import Node, add_output


# A tensor without this key was made in inference mode. It has no version counter and no history.
_TRACKED = tls.AD_INPLACE_OR_VIEW


# --- recording views; called by generated kernels -----------------------------------------------


def track_view(
    source: Tensor, result: Tensor, replay: Replay | None = None, creation: int | None = None
) -> Tensor:
    """Record that `result` is a view of `source`. replay: a function that makes the view again, if
    as_strided cannot.
    """
    storage = result._storage  # a view shares its source's storage object
    if result is source or storage is None or storage is not source._storage:
        return result  # a mode, or a subclass's handler, returned another object
    creation = grad_mode.get() if creation is None else creation
    known = source._autograd
    if not creation and replay is None and (known is None or type(known) is Tensor):
        result._autograd = source if known is None else known
        return result
    view = view_of(source)
    version = storage.version
    if not source._keys & _TRACKED:
        return result  # a view of an inference tensor is never tracked
    if view is None:
        result._autograd = (source, creation, version, replay)
        return result
    base, before, _, made_by = view
    if made_by is not None or replay is not None:
        replay = _chain(source, made_by, result, replay)
    result._autograd = (base, creation or before, version, replay)
    return result


def _chain(source: Tensor, made_by: Replay | None, result: Tensor, replay: Replay | None) -> Replay:
    first, second = made_by or strided_like(source), replay or strided_like(result)
    return lambda base: second(first(base))


def track_views(source: Tensor, results: Any) -> Any:
    """Call `track_view` for an operator that returns a list of views."""
    creation = grad_mode.get() or MULTI_OUTPUT_NODE
    for x in results:
        track_view(source, x, None, creation)
    return results


def bump_version(x: Tensor) -> None:
    """Increment the version of x. Raises: AutogradError for an inference tensor outside inference
    mode."""
    if not x._keys & _TRACKED:
        if not tls.is_inference_mode():
            raise errors.inplace_on_inference_tensor()
        return
    storage = x._storage
    if storage is None:
        storage = x._get_storage()
    storage.version += 1


# --- writing --------------------------------------------------------------------------------------


def check_inplace(self: Tensor) -> None:
    """Raise an error if an operator that is being recorded must not write to self."""
    view = view_of(self)
    if view is not None:
        check_creation(view, "is being modified inplace")
        if requires_grad(self) and is_leaf(view[0]):
            raise errors.view_of_leaf_modified()
    if requires_grad(self) and is_leaf(self):
        raise errors.leaf_modified()


def rebase_history(self: Tensor, node: Node) -> Tensor:
    """Make `node` the history of `self`, to which the operator of `node` wrote. If `self` is a
    view, add a CopySlices node to the history of its base."""
    view = view_of(self)
    if view is None:
        before = history(self)
        after = (node, add_output(node, self))
        with_edge(self, after)
        move_retained(self, before, after)
        return self
    base = view[0]
    add_output(node, self)
    before = history(base)
    edge = (CopySlices(base, self, view[3], node), 0)
    with_edge(base, edge)
    move_retained(base, before, edge)
    # Derive the view's history now instead of on demand. Earlier code may already have derived a
    # history for this version from the base's former history.
    meta_of(self).version = -1
    if (of_view := history(self)) is not None:
        node.edge_of_view = ref(of_view[0]), of_view[1]
    return self


def reshape_history(self: Tensor, node: Node) -> Tensor:
    """Make `node` the history of a tensor whose geometry changed. If the tensor is a view, the
    history of its base stays unchanged.

    Source: PyTorch's kernels of `inplace_view` operators, which set the history of the view alone.
    """
    before = history(self)
    after = (node, add_output(node, self))
    with_edge(self, after)
    move_retained(self, before, after)
    return self


class CopySlices(Node):
    """The history of a base after a write to one of its views. `node` is the operation that wrote.

    The gradient is copied, and the view's part of it is replaced by the gradient through `node`.
    """

    __slots__ = ("node", "base", "view", "replay")
    node: Node
    replay: Replay | None

    is_users = False

    def __init__(self, base: Tensor, view: Tensor, replay: Replay | None, node: Node) -> None:
        super().__init__((gradient_edge(base), *node.edges[1:]))
        self.node, self.replay = node, replay
        self.base, self.view = (base._geometry, base._offset), (view._geometry, view._offset)
        add_output(self, base)

    def backward(node, grad: Any) -> Any:
        (base, start), (view, offset) = node.base, node.view
        # `whole` is made from the gradient, so that within vmap it has the gradient's batch
        # dimension.
        whole = calls.new_empty_strided(grad, base.sizes, base.strides, None, None, None, None)
        calls.copy_(whole, grad, False)
        if node.replay is None:
            part = calls.as_strided(whole, view.sizes, view.strides, offset - start)
        else:
            part = node.replay(whole)
        inner = list(node.node.backward(calls.clone(part)))
        if node.edges[0] is not None:
            if inner[0] is None:
                calls.zero_(part)
            else:
                calls.copy_(part, inner[0], False)
            inner[0] = whole
        return inner

    def release(self) -> None:
        self.node.release()
