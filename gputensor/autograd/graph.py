"""`gt.autograd.graph`: hooks for saved tensors, and edges of the graph.

    with gt.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = model(x)             # pack(tensor) is kept in each saved tensor's place
    y.backward()                 # unpack(packed) gives the tensor back

The hooks apply to the thread or task that records; backward calls `unpack` in its own thread. While
no hooks are set, saving costs nothing extra, because one test in saved.py finds both hooks and
tensors of inference mode. Source: torch/autograd/graph.py and
torch/csrc/autograd/saved_variable.cpp.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from .._generated import calls
from ..core import errors, lazy
from ..core.guard import Guard
from ..structured.transfer import land_on_host
from ..tensor.tensor import Tensor
from . import saved
from .engine.run import running
from .history import gradient_edge
from .node import AccumulateGrad, GradientEdge, Node, RemovableHandle

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
    "get_gradient_edge", "increment_version", "register_multi_grad_hook", "save_on_cpu",
    "saved_tensors_hooks",
]  # fmt: skip

# The error message of the block that forbids hooks, or None outside such blocks.
_forbidden: ContextVar[str | None] = ContextVar(
    "gputensor_saved_tensors_hooks_forbidden", default=None
)


class saved_tensors_hooks(Guard):
    """A block in which autograd saves the result of `pack_hook(tensor)` in place of each tensor.
    `unpack_hook` restores the tensor.

    pack_hook must not write to the tensor. unpack_hook returns a tensor with the same elements. In
    nested blocks the innermost hooks apply. Writes to the tensor after it was saved are not
    detected.
    """

    __slots__ = ("pack_hook", "unpack_hook")
    pack_hook: Callable[[Tensor], Any]
    unpack_hook: Callable[[Any], Tensor]

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        for name, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
            if not callable(hook):
                raise errors.wrong_type("saved_tensors_hooks", name, "be callable", hook)
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def _enter(self) -> None:
        message = _forbidden.get()
        if message is not None:
            raise errors.AutogradError(message)
        before = saved.saved_hooks.get()
        saved.watch_saved(1)
        try:
            saved.saved_hooks.set((*before, (self.pack_hook, self.unpack_hook, self)))
        except BaseException:
            saved.saved_hooks.set(before)
            raise

    def _found(self) -> Any:
        stack = saved.saved_hooks.get()
        at = max(n for n, entry in enumerate(stack) if entry[2] is self)
        return stack[:at] + stack[at + 1 :]

    def _put_back(self, found: Any) -> None:
        saved.saved_hooks.set(found)

    def _count(self, found: Any) -> None:
        saved.watch_saved(-1)


class save_on_cpu(saved_tensors_hooks):
    """A block in which autograd saves tensors on the CPU. Each tensor is copied back when its
    derivative runs.

    pin_memory: use page-locked memory, so that the host does not wait for the copies.
    """

    __slots__ = ()

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(x: Tensor) -> Any:
            if pin_memory and x.device.type == device_type:
                return x.device, land_on_host(calls.contiguous(x))
            return x.device, x.cpu()

        def unpack(packed: Any) -> Tensor:
            place, kept = packed
            back: Tensor = kept.to(place, non_blocking=pin_memory)
            return back

        super().__init__(pack, unpack)


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """A block whose saved tensors may be written to later, because autograd saves copies of them.

    PyTorch copies only the tensors to which the program writes.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(calls.clone, _as_it_is)


def _as_it_is(packed: Any) -> Any:
    return packed


class disable_saved_tensors_hooks(Guard):
    """A block in which `saved_tensors_hooks` raises an error with `error_message`."""

    __slots__ = ("_message", "_before")

    def __init__(self, error_message: str) -> None:
        self._message = error_message
        self._before: list[str | None] = []

    def _enter(self) -> None:
        if saved.saved_hooks.get():
            raise errors.AutogradError(self._message)
        self._before.append(_forbidden.get())
        try:
            _forbidden.set(self._message)
        except BaseException:
            self.__exit__()
            raise

    def _found(self) -> Any:
        return self._before[-1], len(self._before) - 1

    def _put_back(self, found: Any) -> None:
        _forbidden.set(found[0])
        del self._before[found[1] :]


# --- edges ----------------------------------------------------------------------------------------


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the graph edge of a tensor's gradient. `gt.autograd.grad` accepts it in place of the
    tensor.

    Raises: AutogradError if the tensor does not require grad.
    """
    edge = gradient_edge(tensor)
    if edge is None:
        raise errors.must("get_gradient_edge", "tensor", "require grad", tensor)
    return GradientEdge(*edge, tensor if type(edge[0]) is AccumulateGrad else None)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Increment the version of a tensor after a write that no operator made. Derivatives that saved
    the tensor then raise an error."""
    for x in (tensor,) if isinstance(tensor, Tensor) else tuple(tensor):
        if not isinstance(x, Tensor):
            raise errors.wrong_type("increment_version", "tensor", "hold Tensors", x)
        if x.is_inference():
            raise errors.inference_version()
        x._get_storage().version += 1


class _Gradients:
    """The gradients of several tensors in one backward: the expected number, and the gradients
    computed so far."""

    __slots__ = ("expected", "found", "count")

    def __init__(self, expected: int, size: int) -> None:
        self.expected, self.count = expected, 0
        self.found: list[Tensor | None] = [None] * size


class MultiHandle:
    """A handle of several hooks. `remove`, or the end of a `with` block, removes them."""

    __slots__ = ("handles",)

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles: tuple[RemovableHandle, ...] = handles

    def remove(self) -> None:
        """Remove the hooks."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> MultiHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all"
) -> MultiHandle:
    """Register `fn`, which is called in each backward when the gradients of the tensors have been
    computed.

    Args: tensors: `fn` does not wait for tensors that do not require grad, or that the backward
    does not reach.
        fn: takes a list with each tensor's gradient or None; with "any", one gradient.
        mode: "all", or "any" to call fn with the first gradient only.
    """
    if mode not in ("all", "any"):
        raise errors.wrong_value("register_multi_grad_hook", "mode", "be 'all' or 'any'", mode)
    if not callable(fn):
        raise errors.wrong_type("register_multi_grad_hook", "fn", "be callable", fn)
    listed = list(tensors)
    nodes = [None if edge is None else edge[0] for edge in map(gradient_edge, listed)]
    runs: WeakKeyDictionary[Any, _Gradients] = WeakKeyDictionary()

    def arrived(number: int, grad: Tensor) -> None:
        run = running()
        assert run is not None
        if run not in runs:
            reached = [node for node in nodes if node is not None and run.reaches(node)]
            runs[run] = _Gradients(1 if mode == "any" else len(reached), len(listed))
        of_run = runs[run]
        of_run.count += 1
        of_run.found[number] = grad
        if of_run.count == of_run.expected:
            fn(grad if mode == "any" else of_run.found)

    handles = [
        x.register_hook(functools.partial(arrived, number))
        for number, x in enumerate(listed)
        if nodes[number] is not None
    ]
    return MultiHandle(tuple(handles))


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
