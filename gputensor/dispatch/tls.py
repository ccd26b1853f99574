"""What the current thread or task adds to and takes from the key set of every call.

`state` holds (include, keep): a call's keys are (keys of its arguments | include) & keep, so that an
excluded key stays out whoever includes it. It is a ContextVar: per thread and per async task, and
reading it costs 19 ns (a threading.local attribute 54).
"""

from __future__ import annotations

from contextvars import ContextVar, Token

from . import keys

ALL = keys.BACKEND_MASK | keys.FUNCTIONALITY_MASK
DEFAULT_INCLUDE = keys.key_set(("BackendSelect", "ADInplaceOrView"))
AUTOCAST = keys.key_set(("AutocastCPU", "AutocastCUDA", "AutocastPrivateUse1"))
AD_INPLACE_OR_VIEW = keys.functionality_bit("ADInplaceOrView")
AUTOGRAD = keys.functionality_bit("Autograd") | keys.functionality_bit("AutogradOther")

state: ContextVar[tuple[int, int]] = ContextVar(
    "gputensor_dispatch", default=(DEFAULT_INCLUDE, ALL & ~AUTOCAST)
)


class _Guard:
    """Changes the state for a block; blocks nest, and leaving one restores what was before it.

    A guard belongs to the thread or task that entered it; make one for each block.
    """

    __slots__ = ("_include", "_exclude", "_allow", "_tokens")

    def __init__(self, include: int = 0, exclude: int = 0, allow: int = 0) -> None:
        self._include, self._exclude, self._allow = include, exclude, allow
        self._tokens: list[Token[tuple[int, int]]] = []

    def __enter__(self) -> None:
        include, keep = state.get()
        # Exclusion acts on functionalities: removing AutogradCPU leaves the CPU bit (keys.py).
        keep = (keep | self._allow) & ~(self._exclude & keys.FUNCTIONALITY_MASK)
        self._tokens.append(state.set((include | self._include, keep)))

    def __exit__(self, *exc: object) -> None:
        state.reset(self._tokens.pop())


class IncludeDispatchKeys(_Guard):
    """`with IncludeDispatchKeys("Meta"):` adds these keys to every call in the block.

    keys: a key set, a key, its name, or several of them.
    """

    def __init__(self, added: keys.Keys) -> None:
        super().__init__(include=keys.bits_of(added))


class ExcludeDispatchKeys(_Guard):
    """`with ExcludeDispatchKeys("Conjugate"):` takes these keys from every call; exclusion wins."""

    def __init__(self, taken: keys.Keys) -> None:
        super().__init__(exclude=keys.bits_of(taken))


class AllowDispatchKeys(_Guard):
    """Takes keys out of the excluded ones, as autocast does with its own key."""

    def __init__(self, allowed: keys.Keys) -> None:
        super().__init__(allow=keys.bits_of(allowed))


class AutoDispatchBelowAutograd(_Guard):
    """Calls in the block skip the autograd keys."""

    def __init__(self) -> None:
        super().__init__(exclude=AUTOGRAD)


class AutoDispatchBelowADInplaceOrView(_Guard):
    """Calls in the block skip the autograd keys and ADInplaceOrView."""

    def __init__(self) -> None:
        super().__init__(exclude=AUTOGRAD | AD_INPLACE_OR_VIEW)


class InferenceMode(_Guard):
    """Calls in the block record nothing: no autograd key, and no ADInplaceOrView by default.

    enabled: False ends an outer inference mode for the block. Tensors made in the block carry no
    autograd keys (`keys.tensor_keys`). Source: c10/core/InferenceMode.h.
    """

    __slots__ = ("_enabled",)

    def __init__(self, enabled: bool = True) -> None:
        super().__init__()
        self._enabled = enabled

    def __exit__(self, *exc: object) -> None:
        inference_blocks.pop()
        super().__exit__(*exc)

    def __enter__(self) -> None:
        include, keep = state.get()
        if self._enabled:
            changed = (include & ~AD_INPLACE_OR_VIEW, keep & ~AUTOGRAD)
        else:
            changed = (include | AD_INPLACE_OR_VIEW, keep | AUTOGRAD)
        self._tokens.append(state.set(changed))
        inference_blocks.append(True)


# Non-empty while any thread is in an InferenceMode block: as long as it is empty, what makes a tensor
# need not ask (10 ns instead of 30 of each, bench/overhead.py).
inference_blocks: list[bool] = []


def is_inference_mode() -> bool:
    """True within `with InferenceMode():`."""
    return not state.get()[0] & AD_INPLACE_OR_VIEW


def keys_now(tensor_keys: int) -> int:
    """The keys of a new tensor: in inference mode without those of autograd."""
    return tensor_keys & ~(AUTOGRAD | AD_INPLACE_OR_VIEW) if is_inference_mode() else tensor_keys


def included() -> keys.KeySet:
    """The keys that the current context adds."""
    return keys.KeySet(state.get()[0])


def excluded() -> keys.KeySet:
    """The keys that the current context takes away; a functionality is taken for all backends."""
    taken = ALL & ~state.get()[1]
    return keys.KeySet(taken | keys.BACKEND_MASK if taken else 0)
