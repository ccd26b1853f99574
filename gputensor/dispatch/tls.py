"""The dispatch keys that the current thread or task adds to and removes from every call.

`state` is (include, keep): a call's keys are (keys of its arguments | include) & keep, so exclusion
takes precedence. It is a ContextVar, so it belongs to one thread or async task. Reading it takes 19
ns; a threading.local attribute takes 54 ns.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from ..core.guard import Guard
from . import keys

ALL = keys.BACKEND_MASK | keys.FUNCTIONALITY_MASK
DEFAULT_INCLUDE = keys.key_set(("BackendSelect", "ADInplaceOrView"))
AUTOCAST = keys.key_set(("AutocastCPU", "AutocastCUDA", "AutocastPrivateUse1"))
AD_INPLACE_OR_VIEW = keys.functionality_bit("ADInplaceOrView")
AUTOGRAD = keys.functionality_bit("Autograd") | keys.functionality_bit("AutogradOther")

# Values of `state` outside of every block, below autograd, and in a block of `gt.fuse`. A state
# that equals one of these tuples is always the tuple itself, so that short cuts can compare with
# `is`. Code that restores a state calls `same`, which returns the tuple.
PLAIN = (DEFAULT_INCLUDE, ALL & ~AUTOCAST)
BELOW = (DEFAULT_INCLUDE, ALL & ~AUTOCAST & ~(AUTOGRAD | AD_INPLACE_OR_VIEW))
FUSING = (DEFAULT_INCLUDE | keys.FUSE, PLAIN[1])
_OWN = {x: x for x in (PLAIN, BELOW, FUSING)}

state: ContextVar[tuple[int, int]] = ContextVar("gputensor_dispatch", default=PLAIN)


def same(found: tuple[int, int]) -> tuple[int, int]:
    return _OWN.get(found, found)


class _Guard(Guard):
    """A guard that changes the state for a block. When the block ends, the guard undoes only its
    own changes.

    Blocks may therefore end in any order. A guard is also a decorator. It belongs to the thread or
    task that entered it, so make one for each block.
    """

    __slots__ = ("_include", "_exclude", "_allow", "_changed")

    def __init__(self, include: int = 0, exclude: int = 0, allow: int = 0) -> None:
        self._include, self._exclude, self._allow = include, exclude, allow
        # For each entered block, the bits it set and the bits it cleared, in `include` and in
        # `keep`.
        self._changed: list[tuple[tuple[int, int], tuple[int, int]]] = []

    def _wanted(self, include: int, keep: int) -> tuple[int, int]:
        # Excluding a key removes only its functionality: excluding AutogradCPU keeps the CPU bit
        # (keys.py).
        keep = (keep | self._allow) & ~(self._exclude & keys.FUNCTIONALITY_MASK)
        return include | self._include, keep

    def _again(self) -> Any:
        again = object.__new__(type(self))
        again._include, again._exclude, again._allow = self._include, self._exclude, self._allow
        again._changed = []
        return again

    def __enter__(self) -> None:
        self._enter()

    def _enter(self) -> None:
        include, keep = state.get()
        included, kept = self._wanted(include, keep)
        self._changed.append(
            ((included & ~include, include & ~included), (kept & ~keep, keep & ~kept))
        )
        try:
            state.set(same((included, kept)))
        except BaseException:
            self.__exit__()
            raise

    def _found(self) -> Any:
        return self._changed[-1], len(self._changed) - 1

    def _put_back(self, found: Any) -> None:
        include, keep = state.get()
        ((set_there, cleared_there), (set_here, cleared_here)), depth = found
        state.set(same((include & ~set_there | cleared_there, keep & ~set_here | cleared_here)))
        del self._changed[depth:]


class IncludeDispatchKeys(_Guard):
    """`with IncludeDispatchKeys("Meta"):` adds these keys to every call in the block.

    added: a key set, a key, its name, or several of these. An alias adds nothing, as in PyTorch. If
    a key makes a backend's kernel run on operands of another device, the kernel works on the
    operands' device.
    """

    def __init__(self, added: keys.Keys) -> None:
        super().__init__(include=keys.bits_of(added, expand=False))


class ExcludeDispatchKeys(_Guard):
    """`with ExcludeDispatchKeys("Conjugate"):` removes these keys from every call; exclusion takes
    precedence over inclusion."""

    def __init__(self, taken: keys.Keys) -> None:
        super().__init__(exclude=keys.bits_of(taken))


class AllowDispatchKeys(_Guard):
    """`with AllowDispatchKeys(...):` cancels the exclusion of these keys in the block. Autocast
    enables its own key in this way."""

    def __init__(self, allowed: keys.Keys) -> None:
        super().__init__(allow=keys.bits_of(allowed))


class AutoDispatchBelowAutograd(_Guard):
    """A guard: calls in the block skip the autograd keys."""

    def __init__(self) -> None:
        super().__init__(exclude=AUTOGRAD)


class AutoDispatchBelowADInplaceOrView(_Guard):
    """A guard: calls in the block skip the autograd keys and ADInplaceOrView."""

    def __init__(self) -> None:
        super().__init__(exclude=AUTOGRAD | AD_INPLACE_OR_VIEW)


class Mode(Guard):
    """The base class of context managers that handle the calls in their block, such as
    DispatchMode. _mode_stack: the active modes of this thread or task, innermost last. _mode_bit:
    the key that is included while a mode is active. Its kernel calls the modes."""

    _mode_stack: ContextVar[Any]
    _mode_bit: int

    def _found(self) -> Any:
        """Return the stack without the innermost entry of this object."""
        modes = self._mode_stack.get()
        at = len(modes) - 1
        while modes[at] is not self:
            at -= 1
        return modes[:at] + modes[at + 1 :]

    def _put_back(self, found: Any) -> None:
        self._mode_stack.set(found)
        if not found:
            include, keep = state.get()
            state.set(same((include & ~self._mode_bit, keep)))


class InferenceMode(Guard):
    """A guard: calls in the block record no history. They skip the autograd keys, and by default
    ADInplaceOrView.

    enabled: False ends an outer inference mode for the block. Tensors made in the block have no
    autograd keys (`keys.tensor_keys`). Each block restores the previous mode, even if blocks end in
    an unusual order. Source: c10/core/InferenceMode.h.
    """

    __slots__ = ("_enabled", "_before")

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled
        self._before: list[tuple[int, int]] = []

    def _again(self) -> InferenceMode:
        return InferenceMode(self._enabled)

    def __enter__(self) -> None:
        self._enter()

    def _enter(self) -> None:
        include, keep = state.get()
        self._before.append((include & AD_INPLACE_OR_VIEW, keep & AUTOGRAD))
        if self._enabled:
            inference_blocks.append(True)
            changed = (include & ~AD_INPLACE_OR_VIEW, keep & ~AUTOGRAD)
        else:
            changed = (include | AD_INPLACE_OR_VIEW, keep | AUTOGRAD)
        try:
            state.set(same(changed))
        except BaseException:
            self.__exit__()
            raise

    def _found(self) -> Any:
        is_on = not state.get()[0] & AD_INPLACE_OR_VIEW
        return self._before[-1], len(self._before) - 1, is_on

    def _put_back(self, found: Any) -> None:
        (included, kept), depth, _ = found
        include, keep = state.get()
        state.set(same((include & ~AD_INPLACE_OR_VIEW | included, keep & ~AUTOGRAD | kept)))
        del self._before[depth:]

    def _count(self, found: Any) -> None:
        if found[2] and inference_blocks:
            inference_blocks.pop()


# This list is not empty while any thread is in inference mode, even if blocks end in an unusual
# order. While the list is empty, making a tensor skips the check of the mode (10 ns instead of 30
# each, bench/host/overhead.py).
inference_blocks: list[bool] = []

# This list is not empty while any thread is in a non-default grad mode or in a DispatchMode, in
# which view operators may return tensors that are not views. While the list is empty, the fast path
# skips the check (25 ns of a view's 700, bench/host/overhead.py). autograd/modes.py maintains it.
unrecorded: list[int] = []


def is_inference_mode() -> bool:
    """True within `with InferenceMode():`."""
    return not state.get()[0] & AD_INPLACE_OR_VIEW


def keys_now(tensor_keys: int) -> int:
    """Return the keys of a new tensor. In inference mode they do not include the autograd keys."""
    return tensor_keys & ~(AUTOGRAD | AD_INPLACE_OR_VIEW) if is_inference_mode() else tensor_keys


def included() -> keys.KeySet:
    """Return the keys that the current thread or task adds to every call."""
    return keys.KeySet(state.get()[0])


def excluded() -> keys.KeySet:
    """Return the keys that the current thread or task removes from every call. A functionality is
    removed for all backends."""
    taken = ALL & ~state.get()[1]
    return keys.KeySet(taken | keys.BACKEND_MASK if taken else 0)
