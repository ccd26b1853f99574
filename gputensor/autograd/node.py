"""Node: one recorded operation, with edges to its operands' nodes and its saved values.

The nodes of operators are generated (`registrations/_generated/`). This module has AccumulateGrad,
the node at the end of every path. Saved values are in saved.py, and engine/run.py runs nodes.

Note [No cycles]
A graph must be freed with the last tensor that uses it, without the garbage collector. So a node
holds the nodes of its operands and never its result: a saved result is another tensor over the same
elements, which gets its history when unpacked. A leaf holds its AccumulateGrad weakly.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple
from weakref import ref

from .._generated import functions
from ..core import errors
from ..core.device import CPU
from ..core.geometry import Geometry
from ..tensor.tensor import Tensor
from . import anomaly
from .streams import current_stream

# An edge: (node, number of the node's output), or None if no gradient is needed.
Edge = tuple["Node", int]

_numbers = count()
# The sequence number of AccumulateGrad. It makes AccumulateGrad run before all other nodes that are
# ready.
LAST = 1 << 62


class Node:
    """One recorded operation. The engine calls the node with the gradients of the operation's
    outputs.

    edges: one for each differentiable operand. outputs: (geometry, device) of each output, to which
    gradients are fitted. sequence_nr: grows with each operation. stream: the stream of the
    operation if its device has streams. hooks: None, or a `Hooks`. trace: the Python stack of the
    operation, in anomaly mode.
    """

    # Every recorded call makes a node, and setting an attribute takes 30 ns in code that handles
    # nodes of different classes. So rarely used attributes are class attributes until they are set.
    __slots__ = ("edges", "outputs", "sequence_nr", "__dict__", "__weakref__")

    edges: tuple[Edge | None, ...]
    outputs: list[Any]
    stream: Any = None
    hooks: Hooks | Any = None
    trace: str | None = None
    _metadata: dict[Any, Any] | None = None
    # The original node, if this node is a copy with fewer edges.
    whole: Node | None = None
    # For a write to a view: the edge that the view got, whose node is held weakly.
    edge_of_view: tuple[ref[Node], int] | None = None
    # The names of the slots that hold saved tensors.
    saved: tuple[str, ...] = ()
    # makers/autograd.py makes an operator's kernel from the next five attributes. inputs: the
    # arguments that have derivatives, or None for all tensors. keep_inplace: the function that
    # saves arguments for the derivative of the in-place form, or None for `keep`. others: the slots
    # of saved results, with the numbers of the results. result_for: the edges whose derivatives
    # read the result; empty if all of them do. differentiated: the numbers of the differentiable
    # results of several results; empty if only the first is differentiable. If it is not empty,
    # `backward` takes a gradient, or None, for each result.
    inputs: tuple[str, ...] | None = None
    keep_inplace: Callable[..., None] | None = None
    others: tuple[tuple[str, int], ...] = ()
    result_for: tuple[int, ...] = ()
    differentiated: tuple[int, ...] = ()
    # True if the node runs user code, which must run in the caller's dispatch state and not in the
    # engine's.
    is_users = False

    # The engine sorts nodes by the sequence number, so a node must have a greater number than the
    # nodes at its edges, except leaves. The edges are therefore set before the number, and never
    # change.
    def __init__(self, edges: tuple[Edge | None, ...] = ()) -> None:
        self.edges = edges
        self.outputs = []
        self.sequence_nr: int = next(_numbers)
        if anomaly.is_on:
            self.trace = anomaly.stack()

    def keep(node, *args: Any) -> None:
        """Save the arguments that the derivative needs."""

    def backward(node, *grads: Any) -> Any:
        """Return the operands' gradients, given the gradients of the outputs. None means zero."""
        raise NotImplementedError

    def release(self) -> None:
        """Drop the saved tensors. The derivative cannot be computed again."""
        for name in self.saved:
            setattr(self, name, FREED)

    def check_saved(self) -> None:
        """Unpack all saved tensors to check them, even those that are not used, as PyTorch's nodes
        do."""
        for name in self.saved:
            if hasattr(self, name):
                getattr(self, name).unpack(self)

    def edge_of_result(self, number: int) -> Edge:
        """Return the edge that a saved result gets when it is unpacked."""
        node = self.whole or self
        if node.edge_of_view is not None and (of_view := node.edge_of_view[0]()) is not None:
            return of_view, node.edge_of_view[1]
        return node, number

    def zeros_for(self, grads: tuple[Any, ...]) -> list[Any]:
        """Return the gradients with zeros in place of None."""
        pairs = zip(grads, self.outputs)
        return [zeros_of(*made) if g is None and made is not None else g for g, made in pairs]

    # --- public interface ---------------------------------------------------------------------

    def name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.name()} object at {hex(id(self))}>"

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        return tuple([(None, 0) if edge is None else edge for edge in self.edges])

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict in which users may store data."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    def __getattr__(self, name: str) -> Any:
        # A name such as `_saved_self`, as in PyTorch. Its value is the tensor itself, checked as in
        # backward, or None if no derivative of this call needs it.
        if name.startswith("_saved_"):
            slot = name[1:]
            value: Any = getattr(self, slot, None) if slot in self.saved else getattr(self, slot)
            return value.unpack(self) if hasattr(value, "unpack") else value
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise errors.cannot_pickle(self.name())

    def register_hook(self, fn: Any) -> RemovableHandle:
        """Call `fn(grad_inputs, grad_outputs)` after each run of the node. A result other than None
        replaces grad_inputs."""
        return RemovableHandle(hooks_of(self).after, fn)

    def register_prehook(self, fn: Any) -> RemovableHandle:
        """Call `fn(grad_outputs)` before each run of the node. A result other than None replaces
        grad_outputs."""
        return RemovableHandle(hooks_of(self).before, fn)


class GradientEdge(NamedTuple):
    """The edge of a tensor's gradient: a node and the number of its output. `backward` and `grad`
    accept it in place of the tensor.

    ownership_token: keeps the node of a leaf alive.
    """

    node: Node
    output_nr: int
    ownership_token: Any = None


class HookDict(dict[int, Any]):
    """A dict of hooks in the order of their registration. Handles refer to this dict weakly,
    because hooks may refer to handles."""

    __slots__ = ("__weakref__",)


class Hooks:
    """Hooks of a node. tensor: maps an output's number to the hooks of the tensor at this output.
    retained: maps an output's number to a weak reference to the tensor whose `grad` is kept."""

    __slots__ = ("tensor", "retained", "before", "after")

    def __init__(self) -> None:
        self.tensor: dict[int, HookDict] = {}
        self.retained: dict[int, ref[Tensor]] = {}
        self.before: HookDict = HookDict()
        self.after: HookDict = HookDict()


def hooks_of(node: Node) -> Hooks:
    if node.hooks is None:
        node.hooks = Hooks()
    return node.hooks


class RemovableHandle:
    """A handle of one hook. The constructor adds the hook. `remove`, or the end of a `with` block,
    removes the hook.

    id: the key of the hook. hooks_dict_ref: a weak reference to the dict of hooks. A copy of the
    handle refers to the copy of the dict.
    """

    __slots__ = ("hooks_dict_ref", "id", "__weakref__")
    hooks_dict_ref: ref[HookDict]
    id: int

    def __init__(
        self, hooks: HookDict, hook: Any, op: str = "register_hook", first: bool = False
    ) -> None:
        if not callable(hook):
            raise errors.wrong_type(op, "hook", "be callable", hook)
        self.id = next(_numbers)
        while self.id in hooks:  # a file may contain hooks with any keys
            self.id = next(_numbers)
        self.hooks_dict_ref = ref(hooks)
        others = dict(hooks) if first else {}
        if first:
            hooks.clear()
        hooks[self.id] = hook
        hooks.update(others)

    def remove(self) -> None:
        hooks = self.hooks_dict_ref()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[HookDict | None, int]:
        return self.hooks_dict_ref(), self.id

    def __setstate__(self, state: tuple[HookDict | None, int]) -> None:
        hooks, self.id = state
        self.hooks_dict_ref = ref(HookDict() if hooks is None else hooks)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class AccumulateGrad(Node):
    """The node of a leaf. The engine adds the incoming gradient to `variable.grad`."""

    __slots__ = ("variable",)
    variable: Tensor
    edges: tuple[()]
    sequence_nr: int

    # The code of `Node.__init__` is inlined, because every training step makes one of these objects
    # for each parameter.
    def __init__(self, variable: Tensor) -> None:
        device = variable._device
        self.edges, self.sequence_nr, self.variable = (), LAST, variable
        self.outputs: list[Any] = [(variable._geometry, device)]
        if device is not CPU:
            self.stream: Any = current_stream(device)
        if anomaly.is_on:
            self.trace: str = anomaly.stack()


class NotImplementedNode(Node):
    """The node of an operation without a derivative. Its backward raises an error."""

    __slots__ = ("operator",)

    operator: Any  # an operator, or the text of a message

    def backward(node, *grads: Any) -> Any:
        raise errors.derivative_not_implemented(node.operator)

    def name(self) -> str:
        return "NotImplemented"


class WarnNotImplementedNode(NotImplementedNode):
    """The node of a user's operation without a derivative. In backward it issues a warning, and the
    operands get no gradient."""

    __slots__ = ()

    def backward(node, *grads: Any) -> Any:
        warnings.warn(errors.derivative_warning(node.operator), stacklevel=2)
        return (None,) * len(node.edges)

    def name(self) -> str:
        return "WarnNotImplemented"


def add_output(node: Node, result: Tensor) -> int:
    """Add an output to a node and return its number."""
    node.outputs.append((result._geometry, result._device))
    if node.stream is None and result._device is not CPU:
        node.stream = current_stream(result._device)
    return len(node.outputs) - 1


def version_of(x: Tensor) -> int:
    storage = x._storage
    return 0 if storage is None else storage.version


class _Freed:
    """A placeholder for the saved values of a node after their release."""

    __slots__ = ()

    def unpack(self, node: Node) -> Any:
        raise errors.backward_twice()


FREED = _Freed()


def zeros_of(shape: Geometry, device: Any) -> Tensor:
    return functions.zeros(shape.sizes, dtype=shape.dtype, device=device)
