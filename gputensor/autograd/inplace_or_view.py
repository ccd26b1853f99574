"""Views and in-place operators: who looks at whose elements, and what a write does to histories.

Note [Views]
A view keeps `(base, creation, version, replay)`: the first tensor of the chain, which is no view
itself; how the view was made, see Note [How a view was made]; the version of the storage then; and
a function that makes the view again from its base, None where `as_strided` does, which is wherever
the view only moves over the same elements. Of most views all this is plain: the base has no
history, and the view was made while operations were recorded. Then the base alone stands in
`_autograd`.

A write to a view is a write to its base. So the base's new history is a CopySlices, which sends the
gradient of the part that was written through the operator's own node and the rest past it; and
every view of the base, seeing that the version has moved on, replaces its history by one that is
made from the base's. Source: torch/csrc/autograd/variable.cpp, rebase_history and
VariableHooks::grad_fn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._generated import calls
from ..core import errors
from ..dispatch import tls
from ..dispatch.tls import state as _state
from ..tensor.tensor import Tensor
from . import variable
from .modes import (
    DEFAULT, INFERENCE_MODE, MULTI_OUTPUT_NODE, NO_GRAD_MODE, above_autograd, grad_mode, left,
    set_mode,
)  # fmt: skip
from .node import Edge, Node, add_output

Replay = Callable[[Tensor], Tensor]

# A tensor without it was made in inference mode: no versions, no histories.
_TRACKED = tls.AD_INPLACE_OR_VIEW


# --- making views; called by generated kernels ----------------------------------------------------


def track_view(
    source: Tensor, result: Tensor, replay: Replay | None = None, creation: int | None = None
) -> Tensor:
    """Note that `result` is a view of `source`. replay: makes it from source where as_strided
    cannot."""
    if result is source or result._storage is not source._storage:
        return result  # a mode, or the handler of a subclass, answered with something else
    creation = grad_mode.get() if creation is None else creation
    known = source._autograd
    if not creation and replay is None and (known is None or type(known) is Tensor):
        result._autograd = source if known is None else known
        return result
    view = variable.view_of(source)
    version = result._storage.version  # type: ignore[union-attr]
    if not source._keys & _TRACKED:
        return result  # of an inference tensor: never tracked
    if view is None:
        result._autograd = (source, creation, version, replay)
        return result
    base, before, _, made_by = view
    if made_by is not None or replay is not None:
        replay = _chain(source, made_by, result, replay)
    result._autograd = (base, creation or before, version, replay)
    return result


def _chain(source: Tensor, made_by: Replay | None, result: Tensor, replay: Replay | None) -> Replay:
    first, second = made_by or _strided_like(source), replay or _strided_like(result)
    return lambda base: second(first(base))


def _strided_like(x: Tensor) -> Replay:
    shape, offset = x._geometry, x._offset
    return lambda base: calls.as_strided(base, shape.sizes, shape.strides, offset)  # type: ignore[no-any-return]


def track_views(source: Tensor, results: Any) -> Any:
    """`track_view` for an operator that returns a list of views."""
    creation = grad_mode.get() or MULTI_OUTPUT_NODE
    for x in results:
        track_view(source, x, None, creation)
    return results


def bump_version(x: Tensor) -> None:
    """Count a write. Raises: AutogradError for an inference tensor outside inference mode."""
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
    """Raise if an operator that is being recorded must not write to self."""
    view = variable.view_of(self)
    if view is not None:
        _check_creation(view, "is being modified inplace")
        if variable.requires_grad(self) and variable.is_leaf(view[0]):
            raise errors.view_of_leaf_modified()
    if variable.requires_grad(self) and variable.is_leaf(self):
        raise errors.leaf_modified()


def _check_creation(view: Any, what: str) -> None:
    creation = view[1]
    if creation == DEFAULT:
        return
    made = {
        NO_GRAD_MODE: "created in no_grad mode", INFERENCE_MODE: "created in inference mode",
        MULTI_OUTPUT_NODE: "one of several that a function returned",
    }.get(creation, "created inside a custom Function, or an input that it returned as it was")  # fmt: skip
    raise errors.view_modified(made, what)


def rebase_history(self: Tensor, node: Node) -> Tensor:
    """Make `node` the history of a tensor that it wrote to, and of what the tensor is a view of."""
    view = variable.view_of(self)
    if view is None:
        before = variable.history(self)
        after = (node, add_output(node, self))
        variable.with_edge(self, after)
        variable.move_retained(self, before, after)
        return self
    base = view[0]
    add_output(node, self)
    before = variable.history(base)
    edge = (CopySlices(base, self, view[3], node), 0)
    variable.with_edge(base, edge)
    variable.move_retained(base, before, edge)
    # The view's own history follows now, and not when someone asks; it may have been made anew for
    # this version already, from the history that its base had before.
    variable.meta_of(self).version = -1
    variable.history(self)
    return self


def reshape_history(self: Tensor, node: Node) -> Tensor:
    """The same where only the geometry of self was changed: its base keeps its history.

    Source: torch's kernels of `inplace_view` operators set the history of the view alone.
    """
    before = variable.history(self)
    after = (node, add_output(node, self))
    variable.with_edge(self, after)
    variable.move_retained(self, before, after)
    return self


def regenerate(x: Tensor) -> Edge | None:
    """The history of a view whose base has been written to: made again from the base's."""
    meta = variable.meta_of(x)
    base, _, _, replay = meta.view
    _check_creation(meta.view, "its base or another view of its base has been modified inplace")
    before = meta.edge
    state, mode = _state.get(), grad_mode.get()
    try:
        try:
            _state.set(above_autograd[state])
            set_mode(DEFAULT)
            made = (replay or _strided_like(x))(base)
        finally:
            _state.set(state)
    finally:
        left(grad_mode.set(mode))
    known = made._autograd
    edge = known.edge if type(known) is variable.AutogradMeta else None
    if edge is None and replay is None:
        node = _CutOff((None,))
        edge = (node, add_output(node, x))
    variable.with_edge(x, edge)
    if edge is not None:
        variable.move_retained(x, before, edge)
    return edge  # type: ignore[no-any-return]


class _CutOff(Node):
    """The history of a view that had one, and whose base has none any more: it leads nowhere.

    PyTorch makes the node of as_strided over the base as it is, whether that requires grad or not.
    """

    __slots__ = ()

    def backward(node, grad: Any) -> Any:  # noqa: N805
        return (None,)

    def name(self) -> str:
        return "AsStridedBackward0"


class CopySlices(Node):
    """The history of a base after a write to one of its views, by `node`.

    The gradient of the base is copied; the view's part of it goes through `node` and is replaced.
    """

    __slots__ = ("node", "base", "view", "replay")

    is_users = False

    def __init__(self, base: Tensor, view: Tensor, replay: Replay | None, node: Node) -> None:
        super().__init__((variable.gradient_edge(base), *node.edges[1:]))
        self.node, self.replay = node, replay
        self.base, self.view = (base._geometry, base._offset), (view._geometry, view._offset)
        add_output(self, base)

    def backward(node, grad: Any) -> Any:  # noqa: N805
        (base, start), (view, offset) = node.base, node.view
        whole = calls.empty_strided(base.sizes, base.strides, grad.dtype, None, grad.device, None)
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
