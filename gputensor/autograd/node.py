"""Node: one recorded operation, with edges to those it came from and what its derivative needs.

The nodes of operators are generated (`_generated/autograd.py`); AccumulateGrad, at the end of every
path, and the tensors that a node saves stand here. Who runs them is engine.py.

Note [No cycles]
A graph must die with the last tensor that uses it, the garbage collector off. So a node holds the
nodes before it and never a tensor that it made: a saved result is another view of the same
elements, and gets its history when it is unpacked. A leaf holds its AccumulateGrad weakly.
"""

from __future__ import annotations

import threading
import warnings
from contextvars import ContextVar
from itertools import count
from typing import Any
from weakref import ref

from ..core import errors
from ..core.arguments import NUMBERS
from ..core.device import CPU
from ..core.geometry import Geometry
from ..dispatch import tls
from ..tensor.tensor import Tensor, view_of
from . import anomaly
from .modes import DEFAULT, NO_GRAD_MODE, above_autograd, grad_mode, left, set_mode
from .streams import current_stream

# (node, number of the output of its operation); None where no gradient is wanted.
Edge = tuple["Node", int]

_numbers = count()
_new = object.__new__
# AccumulateGrad runs as soon as it can.
LAST = 1 << 62


class Node:
    """One recorded operation; called with the gradients of its outputs by the engine.

    edges: one for each differentiable operand. outputs: (geometry, device) of each output, that
    gradients are fitted to. sequence_nr: grows with each operation. stream: the one it ran on,
    where its device has streams. hooks: None, or a `Hooks`. trace: the Python stack of the
    operation, in anomaly mode.
    """

    # What few nodes have is an attribute of the class until it is set: a node is made by every
    # recorded call, and a store costs 30 ns where classes differ.
    __slots__ = ("edges", "outputs", "sequence_nr", "__dict__", "__weakref__")

    edges: tuple[Edge | None, ...]
    outputs: list[tuple[Geometry, Any]]
    stream: Any = None
    hooks: Hooks | None = None
    trace: str | None = None
    _metadata: dict[Any, Any] | None = None
    # Slots that hold saved tensors.
    saved: tuple[str, ...] = ()
    # User code runs in it, so it must see the thread's own state and not the engine's.
    is_users = False

    def __init__(self, edges: tuple[Edge | None, ...] = (), sequence_nr: int | None = None) -> None:
        self.edges = edges
        self.outputs = []
        self.sequence_nr = next(_numbers) if sequence_nr is None else sequence_nr
        if anomaly.is_on:
            self.trace = anomaly.stack()

    def backward(node, *grads: Any) -> Any:  # noqa: N805 - `self` is an operand in the formulas
        """The gradients of the operands from those of the outputs; None stands for zero."""
        raise NotImplementedError

    def release(self) -> None:
        """Let go of the saved tensors; the derivative cannot be taken again."""
        for name in self.saved:
            setattr(self, name, FREED)

    def check_saved(self) -> None:
        """Unpack what was saved although nothing is asked of it: PyTorch's nodes always do."""
        for name in self.saved:
            if hasattr(self, name):
                getattr(self, name).unpack(self)

    def zeros_for(self, grads: tuple[Any, ...]) -> list[Any]:
        """The gradients with zeros in place of None."""
        from .formulas import zeros_of

        pairs = zip(grads, self.outputs)
        return [zeros_of(*made) if g is None and made is not None else g for g, made in pairs]

    # --- what users see -----------------------------------------------------------------------

    def name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.name()} object at {hex(id(self))}>"

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        return tuple([(None, 0) if edge is None else edge for edge in self.edges])

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for the user's own notes."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    def __getattr__(self, name: str) -> Any:
        # `_saved_self`, as PyTorch names it: the tensor itself, checked as in backward
        if name.startswith("_saved_"):
            value = getattr(self, name[1:])
            return value.unpack(self) if hasattr(value, "unpack") else value
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise errors.cannot_pickle(self.name())

    def register_hook(self, hook: Any) -> RemovableHandle:
        """Call `hook(grad_inputs, grad_outputs)` after each run; what it returns replaces the
        first."""
        return RemovableHandle(hooks_of(self).after, hook)

    def register_prehook(self, hook: Any) -> RemovableHandle:
        """Call `hook(grad_outputs)` before each run; what it returns replaces them."""
        return RemovableHandle(hooks_of(self).before, hook)


class HookDict(dict[int, Any]):
    """Hooks in the order of their registration; a handle holds it weakly, as hooks hold handles."""

    __slots__ = ("__weakref__",)


class Hooks:
    """Hooks of a node. tensor: output number -> hooks of the tensor that it made; retained: output
    number -> weak reference to the tensor whose `grad` is kept."""

    __slots__ = ("tensor", "retained", "before", "after")

    def __init__(self) -> None:
        self.tensor: dict[int, HookDict] = {}
        self.retained: dict[int, ref[Tensor]] = {}
        self.before = HookDict()
        self.after = HookDict()


def hooks_of(node: Node) -> Hooks:
    if node.hooks is None:
        node.hooks = Hooks()
    return node.hooks


class RemovableHandle:
    """Takes a hook away again; also as a context manager."""

    __slots__ = ("_hooks", "id", "__weakref__")

    def __init__(self, hooks: HookDict, hook: Any) -> None:
        if not callable(hook):
            raise errors.must(
                "register_hook", "hook", "be callable", hook, kind=errors.ArgumentTypeError
            )
        self.id = next(_numbers)
        self._hooks = ref(hooks)
        hooks[self.id] = hook

    def remove(self) -> None:
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class AccumulateGrad(Node):
    """Adds the gradient to `variable.grad`."""

    __slots__ = ("variable",)

    def __init__(self, variable: Tensor) -> None:
        super().__init__((), LAST)
        self.variable = variable
        add_output(self, variable)


class NotImplementedNode(Node):
    """Stands for an operation without a derivative: it fails when its derivative is asked for."""

    __slots__ = ("operator",)

    def backward(node, *grads: Any) -> Any:  # noqa: N805
        raise errors.derivative_not_implemented(node.operator)

    def name(self) -> str:
        return "NotImplemented"


class WarnNotImplementedNode(NotImplementedNode):
    """The same for an operation of others: it warns, and its operands get no gradient."""

    __slots__ = ()

    def backward(node, *grads: Any) -> Any:  # noqa: N805
        warnings.warn(errors.derivative_warning(node.operator), stacklevel=2)
        return (None,) * len(node.edges)

    def name(self) -> str:
        return "WarnNotImplemented"


def add_output(node: Node, result: Tensor) -> int:
    """Tell a node of an output; returns its number."""
    node.outputs.append((result._geometry, result._device))
    if node.stream is None and result._device is not CPU:
        node.stream = current_stream(result._device)
    return len(node.outputs) - 1


# --- saved tensors --------------------------------------------------------------------------------


def version_of(x: Tensor) -> int:
    storage = x._storage
    return 0 if storage is None else storage.version


class SavedTensor:
    """An operand that a derivative needs, and the version it had."""

    __slots__ = ("tensor", "version")

    tensor: Tensor
    version: int

    def unpack(self, node: Node) -> Any:
        """The tensor. Raises: AutogradError if it has been written to."""
        x = self.tensor
        storage = x._storage
        if (0 if storage is None else storage.version) != self.version:
            raise errors.saved_tensor_modified(x, _origin(x), version_of(x), self.version)
        return x


class SavedResult(SavedTensor):
    """The same of an output. See Note [No cycles]."""

    __slots__ = ("number",)

    def unpack(self, node: Node) -> Any:
        x = self.tensor
        if version_of(x) != self.version:
            made = f"output {self.number} of {node.name()}"
            raise errors.saved_tensor_modified(x, made, version_of(x), self.version)
        if grad_mode.get() != DEFAULT:
            return x
        from .variable import with_edge

        return with_edge(view_of(x, x._geometry, x._offset), (node, self.number))


class SavedNumber:
    """A Python number, or None, where a tensor might stand."""

    __slots__ = ("number",)

    def __init__(self, number: Any) -> None:
        self.number = number

    def unpack(self, node: Node) -> Any:
        return self.number


class _Freed:
    """In place of what a node let go of."""

    __slots__ = ()

    def unpack(self, node: Node) -> Any:
        raise errors.backward_twice()


FREED = _Freed()
_PLAIN = NUMBERS | {type(None)}


def save(x: Any) -> Any:
    """An operand as a node keeps it."""
    if type(x) in _PLAIN:
        return SavedNumber(x)
    if not x._keys & _plain:
        if not x._keys & tls.AD_INPLACE_OR_VIEW:
            raise errors.inference_tensor_saved()
        if saved_hooks.get():
            return _packed(x, None)
    saved = _new(SavedTensor)
    storage = x._storage
    saved.tensor, saved.version = x, 0 if storage is None else storage.version
    return saved


def save_result(x: Tensor, number: int = 0) -> Any:
    """An output as the node that made it keeps it."""
    kept = view_of(x, x._geometry, x._offset)
    if not _plain and saved_hooks.get():
        return _packed(kept, number)
    saved = _new(SavedResult)
    saved.tensor, saved.version, saved.number = kept, kept._storage.version, number  # type: ignore[union-attr]
    return saved


# --- hooks of saved tensors, see graph.py ---------------------------------------------------------

# (pack, unpack, whose), innermost last.
saved_hooks: ContextVar[tuple[Any, ...]] = ContextVar("gputensor_saved_tensors_hooks", default=())
# The key that tensors must have to be saved as they are: none has it while any thread has hooks.
_plain = tls.AD_INPLACE_OR_VIEW
_watching = 0


def watch_saved(more: int) -> None:
    """Look for hooks whenever a tensor is saved, while somebody has any."""
    global _plain, _watching
    with _watch:
        _watching += more
        _plain = 0 if _watching else tls.AD_INPLACE_OR_VIEW


_watch = threading.Lock()


class PackedTensor:
    """What a user's pack hook made of a saved tensor, and what the tensor's history was."""

    __slots__ = ("packed", "unpack_hook", "edge", "number", "tensor")

    def unpack(self, node: Node) -> Any:
        from .variable import with_edge

        before = tls.state.get()
        try:
            tls.state.set(above_autograd[before])  # user code counts writes and tracks views
            x = self.unpack_hook(self.packed)
        finally:
            tls.state.set(before)
        if not isinstance(x, Tensor):
            raise errors.must(
                "unpack_hook", "result", "be a Tensor", x, kind=errors.ArgumentTypeError
            )
        edge = self.edge if self.number is None else (node, self.number)
        if edge is None or grad_mode.get() != DEFAULT:
            return x
        return with_edge(view_of(x, x._geometry, x._offset), edge)


def _packed(x: Tensor, number: int | None) -> PackedTensor:
    """number: of the output that x is; None for an operand, which keeps its own history."""
    from .variable import gradient_edge

    pack, unpack, _ = saved_hooks.get()[-1]
    saved = PackedTensor()
    saved.unpack_hook, saved.number = unpack, number
    saved.edge = gradient_edge(x) if number is None else None
    version, mode = version_of(x), grad_mode.get()
    try:
        set_mode(NO_GRAD_MODE)
        saved.packed = pack(x)
    finally:
        left(grad_mode.set(mode))
    if version_of(x) != version:
        raise errors.pack_hook_wrote()
    return saved


def _origin(x: Tensor) -> str:
    meta = x._autograd
    edge = getattr(meta, "edge", None)
    return "" if edge is None else f"output {edge[1]} of {edge[0].name()}"
