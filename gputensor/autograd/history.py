"""The history of a tensor: the node that made it, the base of a view, and the edge for its
gradient.

`Tensor._autograd` is None for a tensor without a history. For a view without a history it is the
base or a tuple: see Note [Views]. Otherwise it is an AutogradMeta. Generated kernels check for None
first and call this module in the other cases. Recording and Tensor's attributes are in variable.py.

Note [Views]
A view keeps `(base, creation, version, replay)`. base: the first tensor of the chain of views,
which is not a view itself. creation: how the view was made, see Note [How a view was made].
version: the storage's version at that time. replay: a function that makes the view again from its
base, or None if `as_strided` can make it. `as_strided` can make every view that does not
reinterpret elements. Most views are simple: the base has no history, and the view was made while
operations were recorded. Then `_autograd` is the base.

A write to a view is a write to its base. So the base's new history is a CopySlices. It passes the
gradient of the written part through the operator's own node and leaves the rest unchanged. Every
view of the base notices the new version and replaces its history by one derived from the base's.
Source: torch/csrc/autograd/variable.cpp, rebase_history and VariableHooks::grad_fn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from .._generated import calls
from ..core import errors
from ..dispatch.tls import state as _state
from ..tensor.tensor import Tensor
from .modes import (
    DEFAULT, INFERENCE_MODE, MULTI_OUTPUT_NODE, NO_GRAD_MODE, above_autograd, grad_mode, left,
    set_mode,
)  # fmt: skip
from .node import AccumulateGrad, Edge, HookDict, Node, add_output, hooks_of

Replay = Callable[[Tensor], Tensor]
_new = object.__new__


class AutogradMeta:
    """The history of a tensor, with its gradient and the hooks that users registered.

    edge: the node that made the tensor, and the number of the node's output; None for a leaf. view:
    as in Note [Views], or None. version: the storage's version when `edge` was set, for views. own:
    an `Own`, or None if users attached nothing.
    """

    __slots__ = ("edge", "view", "version", "own")

    edge: Edge | None
    view: Any
    version: int
    own: Own | None


class Own:
    """Data that users attach to a tensor, and the node that accumulates a leaf's gradient.

    since: the leaf's version at the time when requires_grad was set.
    """

    __slots__ = (
        "requires_grad", "since", "grad", "hooks", "after_accumulate", "accumulator",
        "retains_grad",
    )  # fmt: skip
    requires_grad: bool
    retains_grad: bool

    def __init__(self) -> None:
        self.requires_grad = self.retains_grad = False
        self.since: int = 0
        self.grad: Tensor | None = None
        self.hooks: HookDict | None = None
        self.after_accumulate: HookDict | None = None
        self.accumulator: ref[AccumulateGrad] | None = None


# The history of the wrappers of gputensor.func: vmap's batches, and tensors with tangents. It has
# no edge to a node. It tells other code that a gradient may be needed.
WRAPPED = object.__new__(AutogradMeta)
WRAPPED.edge, WRAPPED.view, WRAPPED.version, WRAPPED.own = None, None, 0, Own()
WRAPPED.own.requires_grad = True


def meta_of(x: Tensor) -> AutogradMeta:
    """Return the tensor's AutogradMeta. Make one if there is none."""
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
    """Return the result of `view_of` for a tensor without an AutogradMeta."""
    known = x._autograd
    if known is None or type(known) is tuple:
        return known
    meta = known._autograd
    own = meta.own if type(meta) is AutogradMeta else None
    # The base had no history when the view was made. `history` derives the view's history again if
    # the version in the result differs from the storage's version. If the base still has no
    # AutogradMeta, the versions are equal. If the base became a leaf that requires grad, the result
    # has the base's version at that time. If a write gave the base a history, the result has -1,
    # which differs from every version.
    version = -1
    if meta is None:
        version = x._storage.version
    elif meta.edge is None and own is not None:
        version = own.since
    return (known, DEFAULT, version, None)


def own_of(x: Tensor) -> Own:
    meta = meta_of(x)
    if meta.own is None:
        meta.own = Own()
    return meta.own


def view_of(x: Tensor) -> Any:
    """Return (base, creation, version, replay) of a view, or None. See Note [Views]."""
    meta = x._autograd
    return meta.view if type(meta) is AutogradMeta else _view_of(x)


def requires_grad(x: Tensor) -> bool:
    """True if operations on x must be recorded."""
    meta = x._autograd
    if meta is None:
        return False
    if type(meta) is not AutogradMeta:
        return requires_grad(meta[0] if type(meta) is tuple else meta)
    if meta.edge is not None or meta.own is not None and meta.own.requires_grad:
        return True
    return meta.view is not None and requires_grad(meta.view[0])


def history(x: Tensor) -> Edge | None:
    """Return the edge to x's node. If x is a view and its base was written to, derive the edge
    again first."""
    meta = x._autograd
    if meta is None:
        return None
    if type(meta) is not AutogradMeta:
        view = _view_of(x)
        is_behind = view[2] != x._storage.version and requires_grad(view[0])
        return regenerate(x) if is_behind else None
    view = meta.view
    if view is not None and meta.version != x._storage.version:
        if meta.edge is not None or requires_grad(view[0]):
            return regenerate(x)
    return meta.edge


def last_history(x: Tensor) -> Edge | None:
    """Return `history`. For a view whose history cannot be derived again, return its last
    history."""
    try:
        return history(x)
    except errors.AutogradError:
        meta = x._autograd
        return meta.edge if type(meta) is AutogradMeta else None


def gradient_edge(x: Tensor) -> Edge | None:
    """Return the edge for the gradient of x, or None if x needs no gradient."""
    meta = x._autograd
    if type(meta) is not AutogradMeta or meta.view is not None or meta.edge is not None:
        edge = history(x)
        if edge is not None:
            return edge
        meta = x._autograd
    own = meta.own if type(meta) is AutogradMeta else None
    return (accumulator(x, own), 0) if own is not None and own.requires_grad else None


def accumulator(x: Tensor, own: Own) -> AccumulateGrad:
    held = own.accumulator
    if held is not None and (known := held()) is not None:
        return known
    node = AccumulateGrad(x)
    own.accumulator = ref(node)
    return node


def with_edge(x: Tensor, edge: Edge | None) -> Tensor:
    """Set the edge of x. The hooks and the gradient of x stay unchanged. Return x."""
    meta = meta_of(x)
    meta.edge = edge
    if meta.view is not None:
        meta.version = x._storage.version
    return x


def move_retained(x: Tensor, before: Edge | None, after: Edge) -> None:
    """Move the effect of `retain_grad` from a tensor's old node to its new node. Other hooks stay
    at the old node."""
    own = meta_of(x).own
    if own is not None and own.retains_grad:
        if before is not None and before[0].hooks is not None:
            before[0].hooks.retained.pop(before[1], None)
        hooks_of(after[0]).retained[after[1]] = ref(x)


def is_leaf(x: Tensor) -> bool:
    return history(x) is None


def regenerate(x: Tensor) -> Edge | None:
    """Derive the history of a view again from its base's history, after a write to the base. Return
    the new history."""
    meta = meta_of(x)
    base, _, _, replay = meta.view
    check_creation(meta.view, "its base or another view of its base has been modified inplace")
    before = meta.edge
    state, mode = _state.get(), grad_mode.get()
    try:
        try:
            _state.set(above_autograd[state])
            set_mode(DEFAULT)
            made = (replay or strided_like(x))(base)
        finally:
            _state.set(state)
    finally:
        left(grad_mode.set(mode))
    known = made._autograd
    edge = known.edge if type(known) is AutogradMeta else None
    if edge is None and replay is None:
        node = _CutOff((None,))
        edge = (node, add_output(node, x))
    with_edge(x, edge)
    if edge is not None:
        move_retained(x, before, edge)
    return edge


def strided_like(x: Tensor) -> Replay:
    shape, offset = x._geometry, x._offset
    return lambda base: calls.as_strided(base, shape.sizes, shape.strides, offset)


def check_creation(view: Any, what: str) -> None:
    creation = view[1]
    if creation == DEFAULT:
        return
    made = {
        NO_GRAD_MODE: "created in no_grad mode",
        INFERENCE_MODE: "created in inference mode",
        MULTI_OUTPUT_NODE: "one of several that a function returned",
    }.get(creation, "created inside a custom Function, or an input that it returned as it was")
    raise errors.view_modified(made, what)


class _CutOff(Node):
    """The node at the end of a view's history if the base no longer has a history.

    PyTorch makes an as_strided node over the base, even if the base does not require grad.
    """

    __slots__ = ()

    def backward(node, grad: Any) -> Any:
        return (None,)

    def name(self) -> str:
        return "AsStridedBackward0"
