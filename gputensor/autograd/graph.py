"""`gt.autograd.graph`: hooks for tensors saved for derivatives.

    with gt.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = model(x)             # pack(tensor) is kept in each saved tensor's place
    y.backward()                 # unpack(packed) gives the tensor back

The hooks apply to the thread or task that records; backward calls `unpack` in its own thread.
Without hooks they cost nothing: saved.py checks for them together with tensors of inference mode.
Source: torch/autograd/graph.py and torch/csrc/autograd/saved_variable.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from .._generated import calls
from ..core import errors, lazy
from ..core.guard import Guard
from ..structured.transfer import land_on_host
from ..tensor.tensor import Tensor
from . import saved
from .node import Node

__all__ = ["Node", "disable_saved_tensors_hooks", "save_on_cpu", "saved_tensors_hooks"]

# Why there may be no hooks now, or None.
_forbidden: ContextVar[str | None] = ContextVar(
    "gputensor_saved_tensors_hooks_forbidden", default=None
)


class saved_tensors_hooks(Guard):
    """Save `pack_hook(tensor)` instead of each tensor in the block; `unpack_hook` restores the
    tensor.

    pack_hook must not write to the tensor; unpack_hook returns a tensor of the same elements.
    Of nested blocks the innermost applies; a write after saving is not detected.
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
    """Keep tensors saved in the block on the CPU, and copy each back when its derivative runs.

    pin_memory: in page-locked memory, for copies that do not wait.
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


class disable_saved_tensors_hooks(Guard):
    """Within the block `saved_tensors_hooks` raises `error_message`."""

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


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
