"""Saved tensors: the values that a derivative needs. They are unpacked when the derivative runs.

See Note [No cycles] in node.py.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from collections.abc import Callable
from typing import Any
from weakref import ref

from .._generated import calls
from ..core import errors
from ..core.arguments import NUMBERS, number_in
from ..dispatch import tls
from ..tensor.make import view_of
from ..tensor.tensor import Tensor
from .history import gradient_edge, with_edge
from .modes import DEFAULT, NO_GRAD_MODE, above_autograd, grad_mode, left, set_mode
from .node import Node, version_of

_new = object.__new__


class SavedTensor:
    """An operand that a derivative needs, and its version at the time of saving."""

    __slots__ = ("tensor", "version")

    tensor: Tensor
    version: int

    def unpack(self, node: Node) -> Any:
        """Return the tensor. Raises: AutogradError if it has been written to."""
        x = self.tensor
        storage = x._storage
        if (0 if storage is None else storage.version) != self.version:
            raise errors.saved_tensor_modified(x, _origin(x), version_of(x), self.version)
        return x


class SavedResult(SavedTensor):
    """A saved output. See Note [No cycles]."""

    __slots__ = ("number",)

    number: int

    def unpack(self, node: Node) -> Any:
        x = self.tensor
        if version_of(x) != self.version:
            made = f"output {self.number} of {node.name()}"
            raise errors.saved_tensor_modified(x, made, version_of(x), self.version)
        return seen_from(x, node.edge_of_result(self.number), node)


class SavedNumber:
    """A Python number, or None, in the place of a saved tensor."""

    __slots__ = ("number",)

    def __init__(self, number: Any) -> None:
        self.number: Any = number

    def unpack(self, node: Node) -> Any:
        return self.number


class SavedList:
    """A list of operands that may contain None, such as the indices of `x[i, :, j]`."""

    __slots__ = ("saved",)

    def __init__(self, operands: Any) -> None:
        self.saved: list[Any] = [save(x) for x in operands]

    def unpack(self, node: Node) -> Any:
        return [one.unpack(node) for one in self.saved]


_PLAIN = NUMBERS | {type(None)}


def save(x: Any) -> Any:
    """Return an operand in the form in which a node saves it."""
    if type(x) is Tensor and x._keys & _plain:  # this is by far the most frequent case
        storage, saved = x._storage, _new(SavedTensor)
        saved.tensor, saved.version = x, 0 if storage is None else storage.version
        return saved
    if type(x) in _PLAIN:
        return SavedNumber(x)
    if type(x) is list or type(x) is tuple:
        return SavedList(x)
    if not x._keys & _plain:
        if not x._keys & tls.AD_INPLACE_OR_VIEW:
            raise errors.inference_tensor_saved()
        if saved_hooks.get():
            return _packed(x, None)
        if keepers.get() and (kept := keepers.get()[-1](x, None)) is not None:
            return kept
    saved = _new(SavedTensor)
    storage = x._storage
    saved.tensor, saved.version = x, 0 if storage is None else storage.version
    return saved


def save_number(x: Any) -> Any:
    """Return the form in which a node saves a number that is not a plain Python number. For a 0-d
    tensor, return its number, because the tensor may be written to before the derivative runs.
    Return an int unchanged, because it may be a `capture.Place`, the address of a seed.

    See Note [Random numbers of a graph].
    """
    found = x if isinstance(x, int) else number_in(x)
    return x if found is None else found


def save_copy(x: Any) -> Any:
    """Save a copy of an operand that is about to be overwritten."""
    return save(calls.clone(x, None))


def save_result(x: Tensor, number: int = 0) -> Any:
    """Save one of a node's outputs for the derivative of this node."""
    kept = view_of(x, x._geometry, x._offset)
    kept._array = x._array
    if not _plain:
        if saved_hooks.get():
            return _packed(kept, number)
        if keepers.get() and (own := keepers.get()[-1](x, number)) is not None:
            return own
    saved = _new(SavedResult)
    saved.tensor, saved.version, saved.number = kept, kept._storage.version, number
    return saved


# --- activations that are recomputed ------------------------------------------------------------

# An activation of at least this many bytes is not saved for the matrix product that reads it, but
# recomputed.
LARGE = 1 << 20


def save_or_recompute(x: Tensor) -> Any:
    """Save an operand of a matrix product. For a large activation, save only the activation's
    input.

    The activation's node saves this input anyway. Computing the activation again costs little
    compared with the product's gradients.
    """
    if type(x) is Tensor and x._geometry.nbytes >= LARGE and x._keys & _plain:
        edge = gradient_edge(x)
        node = None if edge is None else edge[0]
        while node is not None and type(node).__name__ in _RESHAPED:
            node = node.edges[0][0] if node.edges[0] is not None else None
        compute = _AGAIN.get(type(node).__name__)
        if compute is not None and type(getattr(node, "saved_self", None)) is SavedTensor:
            return SavedActivation(x, node, compute)
    return save(x)


class SavedActivation:
    """A saved activation that is computed again from its input. sizes: the activation's sizes."""

    __slots__ = ("input", "compute", "sizes", "storage", "version")

    def __init__(self, x: Tensor, node: Any, compute: Callable[[Any], Any]) -> None:
        self.input: SavedTensor = node.saved_self
        self.compute = compute(node)
        self.sizes = x._geometry.sizes
        self.storage = ref(x._get_storage())
        self.version = version_of(x)

    def unpack(self, node: Node) -> Tensor:
        """Return the activation. Raises: AutogradError if it, or its input, has been written to."""
        made: Tensor = calls.reshape(self.compute(self.input.unpack(node)), self.sizes)
        storage = self.storage()
        if storage is not None and storage.version != self.version:
            raise errors.saved_tensor_modified(made, "", storage.version, self.version)
        return made


def _gelu(node: Any) -> Callable[[Tensor], Tensor]:
    approximate = node.saved_approximate
    return lambda x: calls.gelu(x, approximate)


_AGAIN: dict[str, Callable[[Any], Callable[[Tensor], Tensor]]] = {
    "GeluBackward0": _gelu, "SiluBackward0": lambda node: calls.silu,
}  # fmt: skip
_RESHAPED = frozenset(("ReshapeAliasBackward0", "ViewBackward0", "UnsafeViewBackward0"))


# --- hooks of saved tensors, see graph.py ---------------------------------------------------------

# The hooks that are set: (pack, unpack, owner), innermost last.
saved_hooks: ContextVar[tuple[Any, ...]] = ContextVar("gputensor_saved_tensors_hooks", default=())
# Functions that are called if there are no hooks. Arguments: the tensor, and its number among the
# node's outputs, or None for an operand. Result: an object to save instead of the tensor, or None.
keepers: ContextVar[tuple[Callable[[Tensor, int | None], Any], ...]] = ContextVar(
    "gputensor_keepers_of_saved_tensors", default=()
)
# A tensor with this key is saved without a search for hooks. While any thread has hooks, this is 0,
# so no tensor has the key.
_plain = tls.AD_INPLACE_OR_VIEW
_watching = 0


def watch_saved(more: int) -> None:
    """Add `more` to the number of hooks that are set. `save` looks for hooks while this number is
    not 0."""
    global _plain, _watching
    with _watch:
        _watching += more
        _plain = 0 if _watching else tls.AD_INPLACE_OR_VIEW


_watch = threading.Lock()


class PackedTensor:
    """The result of a user's pack hook for a saved tensor, and the tensor's history."""

    __slots__ = ("packed", "unpack_hook", "edge", "number", "tensor")

    packed: Any
    unpack_hook: Callable[[Any], Any]
    edge: Any
    number: int | None

    def unpack(self, node: Node) -> Any:
        before = tls.state.get()
        try:
            # the hook is user code, so count writes and track views while it runs
            tls.state.set(above_autograd[before])
            x = self.unpack_hook(self.packed)
        finally:
            tls.state.set(before)
        if not isinstance(x, Tensor):
            raise errors.wrong_type("unpack_hook", "result", "be a Tensor", x)
        edge = self.edge if self.number is None else node.edge_of_result(self.number)
        return seen_from(x, edge, node)


def seen_from(x: Tensor, edge: Any, node: Node) -> Tensor:
    """Return the tensor that a derivative gets for x, a tensor that was saved without its history.

    A user's derivative gets the tensor with its history. A built-in derivative gets it with its
    history only while the derivative is recorded.
    """
    if edge is None or (grad_mode.get() != DEFAULT and not node.is_users):
        return x
    return with_edge(view_of(x, x._geometry, x._offset), edge)


def _packed(x: Tensor, number: int | None) -> PackedTensor:
    """Save x in packed form. number: the number of x among the node's outputs, or None for an
    operand, which keeps its own history."""
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
    edge = getattr(x._autograd, "edge", None)
    return "" if edge is None else f"output {edge[1]} of {edge[0].name()}"
