"""Replays: calls of a fused function without its Python. See Note [What is replayed].

The key of a replay: the geometry of each tensor, given or read from outside, and the type and value
of every other argument or outside value. A replay also requires that the tensors are on the same
devices, that their keys are the plain ones, that autograd records nothing, that the thread is
outside of every block, and that nothing was registered since. So a kernel, a trace, a profile, a
mode or another default dtype between two calls makes the Python run again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from ...dispatch import dispatcher, tls
from ...dispatch.backend_select import TENSOR_KEYS
from ...tensor.tensor import Tensor
from . import guards
from ..block import Fusing
from .purity import LATER, Impure, Outside, is_constant, key_of
from ..record.recorder import current
from .trace import Trace, Unlike

# The maximum number of plans of a function; when it is reached, all are dropped.
_BOUND = 1 << 7
# Consecutive calls without a replay after which a function is no longer traced.
_TRIES = 1 << 5
_state, _PLAIN, _generation = tls.state, tls.PLAIN, dispatcher.generation


class Plan:
    """A replayable call. run(arguments): returns the call's result, or None if the Python must
    run."""

    __slots__ = ("run", "_found")

    def __init__(self, *found: Any) -> None:
        """found: the trace, its result, the number of arguments given by name, the values that the
        function reads from outside, and the dispatcher's generation."""
        self._found = found
        self.run: Callable[[Any], Any] = self._first

    def _first(self, given: Any) -> Any:
        """Most calls occur once, so the plan's function is made at the second call."""
        trace, made, n_named, outside, generation = self._found
        values = [*given, *outside.given()]
        self.run = guards.compiled(trace, made, values, n_named, outside, generation)
        return self.run(given)


def _never(args: Any) -> None:
    """Stands for the plan used last until there is one."""


class Replays:
    """A function in `gt.fuse`, and its plans. why: the reason why the last call that ran the Python
    cannot be replayed, as a clause after "it"; None if it can."""

    __slots__ = (
        "function", "outside", "plans", "generation", "why", "last", "_tries",
    )  # fmt: skip
    outside: Outside | None
    why: str | None

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.outside, self.why, self._tries = None, None, 0
        self.plans: dict[Any, Plan] = {}
        self.generation = -1
        # The `run` of the plan used last, because most calls repeat the previous one.
        self.last: list[Callable[[Any], Any]] = [_never]

    def fused(self) -> Callable[..., Any]:
        """The function within a block of `gt.fuse` around each call that is not replayed."""
        last, found = self.last, self.found

        @functools.wraps(self.function)
        def fused(*args: Any, **kwargs: Any) -> Any:
            if kwargs or (made := last[0](args)) is None:
                return found(args, kwargs)
            return made

        vars(fused)["_replays"] = self
        return fused

    def found(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call by its plan, or by the function's Python if there is no plan."""
        if self.plans and self.outside is not None:
            given = (*args, *kwargs.values())
            plan = self.plans.get(_key(given + self.outside.given(), kwargs))
            if plan is not None and (made := plan.run(given)) is not None:
                if not kwargs:
                    self.last[0] = plan.run
                return made
        return self.run(args, kwargs)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function's Python, and make a plan if the next call of this kind can skip it."""
        found = self._watch(args, kwargs)
        if found is None:
            with Fusing():
                return self.function(*args, **kwargs)
        key, trace, outside = found
        generation = _generation[0]
        with Fusing():
            recorder = current.get()
            if recorder is not None:
                recorder.watch(trace)
            else:
                trace.refuse("runs eagerly")
            result = self.function(*args, **kwargs)
        self.why = trace.why
        if self.why is None:
            try:
                made = trace.result(result)
            except Unlike as error:
                self.why = str(error)
        if self.why is not None:
            self._tries += 1
        elif generation == self.generation == _generation[0]:
            if len(self.plans) >= _BOUND:
                self.plans.clear()
            plan = Plan(trace, made, len(kwargs), outside, generation)
            self._tries, self.plans[key] = 0, plan
        return result

    def _watch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return (the plan's key, a trace, outside values), or None if no plan is kept."""
        if _state.get() is not _PLAIN:
            self.why = "is called within a block that changes what operators do"
            return None
        if self.generation != _generation[0]:
            # Read its code again, because a method of Tensor may have been replaced.
            self.generation, self._tries, self.outside = _generation[0], 0, None
            self.plans.clear()
        if dispatcher.is_wrapped():
            self.why = "is called while a trace or a profile is on"
            return None
        if self._tries >= _TRIES:
            return None
        outside = self._look_outside()
        if outside is None:
            return None
        values = (*args, *kwargs.values(), *outside.given())
        for x in values:
            if type(x) is Tensor:
                self.why = _unlike(x)
            elif not is_constant(x) or outside.formats and type(x) in (str, tuple):
                self.why = f"is given a {type(x).__name__}"
            if self.why is not None:
                self._tries += 1
                return None
        return _key(values, kwargs), Trace([x for x in values if type(x) is Tensor]), outside

    def _look_outside(self) -> Outside | None:
        """Return the function's outside values. If they cannot be determined, return None and set
        `why`."""
        self.why = None
        if self.outside is not None and self.outside.is_as_it_was():
            return self.outside
        self.plans.clear()
        self._tries += 1
        try:
            self.outside = Outside(self.function)
        except Impure as error:
            self.outside, self.why = None, str(error)
        return self.outside


def _unlike(x: Tensor) -> str | None:
    if x._keys != TENSOR_KEYS.get(x._device.type):
        return "is given a tensor of another kind"
    if x._autograd is not None and not guards.is_unrecorded(x):
        return "is given a tensor that autograd knows"
    return None


def _key(values: tuple[Any, ...], kwargs: Iterable[str]) -> Any:
    """The key of a plan. kwargs: the names of arguments."""
    return (*map(key_of, values), *kwargs)


def replays_of(function: Callable[..., Any]) -> Replays | None:
    """The replays of a fused function, or new ones for a plain function; None for generators,
    coroutines and callables that are no Python function."""
    found: Replays | None = getattr(function, "_replays", None)
    if found is None and type(function) is FunctionType and not function.__code__.co_flags & LATER:
        found = Replays(function)
    return found
