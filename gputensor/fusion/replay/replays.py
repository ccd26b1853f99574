"""Replays: calls of a fused function without its Python. See Note [What is replayed].

The key of a replay: the geometry of each tensor, given or read from outside, and the type and value
of every other argument or outside value. A replay also requires that the tensors are on the same
devices, that their keys are the plain ones, that autograd records nothing, that the thread is
outside of every block, and that nothing was registered since. So the Python runs again if a kernel,
a trace, a profile, a mode or another default dtype was set between two calls.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ...autograd.modes import DEFAULT, grad_mode
from ...core.device import CPU
from ...dispatch import dispatcher, tls
from ...dispatch.backend_select import TENSOR_KEYS
from ...tensor.make import is_plain
from ...tensor.tensor import Tensor
from .. import running
from ..block import Fusing
from ..record.recorder import current
from .purity import LATER, MISSING, Impure, Outside, found_in, is_constant, key_of
from .statements import Statements
from .trace import Trace, Unlike

# The maximum number of plans of a function; when it is reached, all are dropped.
_BOUND = 1 << 7
# After this many consecutive calls without a replay, a function is no longer traced.
_TRIES = 1 << 5
_state, _PLAIN, _generation = tls.state, tls.PLAIN, dispatcher.generation


class Replays:
    """A function in `gt.fuse`, and its plans. A plan is a function of a call's arguments. It
    returns the call's result, or None if the Python must run. Until the second call of a kind, the
    plan is only the arguments of `_compiled`, because most kinds of calls occur once. why: the
    reason why the last call that ran the Python cannot be replayed, as a clause whose subject is
    "it". None if the call can be replayed."""

    outside: Outside | None
    why: str | None

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.outside, self.why, self._tries = None, None, 0
        self.plans: dict[Any, Any] = {}
        self.generation = -1
        # The plan used last, because most calls repeat the previous one.
        self.last: list[Callable[[Any], Any]] = [lambda args: None]

    def fused(self) -> Callable[..., Any]:
        """Return a function that replays a call if there is a plan for it. Otherwise it runs the
        call's Python within a block of `gt.fuse`."""
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
            outside = self.outside.given()
            key = (*map(key_of, given + outside), *kwargs)
            plan = self.plans.get(key)
            if type(plan) is tuple:
                plan = self.plans[key] = _compiled([*given, *outside], *plan)
            if plan is not None and (made := plan(given)) is not None:
                if not kwargs:
                    self.last[0] = plan
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
            self._tries, self.plans[key] = 0, (trace, made, len(kwargs), outside, generation)
        return result

    def _watch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Prepare to trace a call. Return (the key of the plan to be made, a new trace, the
        function's `Outside`), or None if no plan can be made from this call."""
        if _state.get() is not _PLAIN:
            self.why = "is called within a block that changes what operators do"
            return None
        if self.generation != _generation[0]:
            # Read the function's code again, because a method of Tensor may have been replaced.
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
        trace = Trace([x for x in values if type(x) is Tensor])
        return (*map(key_of, values), *kwargs), trace, outside

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
    if x._autograd is not None and not _is_unrecorded(x):
        return "is given a tensor that autograd knows"
    return None


def replays_of(function: Callable[..., Any]) -> Replays | None:
    """Return the replays of a fused function, or new ones for a plain function. Return None for
    generators, coroutines and callables that are not Python functions."""
    found: Replays | None = getattr(function, "_replays", None)
    if found is None and type(function) is FunctionType and not function.__code__.co_flags & LATER:
        found = Replays(function)
    return found


def _is_unrecorded(x: Tensor) -> bool:
    """True if autograd records nothing for this operand."""
    return is_plain(x) or grad_mode.get() != DEFAULT


def _compiled(
    values: list[Any], trace: Trace, made: Any, n_named: int, outside: Outside, generation: int
) -> Callable[[Any], Any]:
    """Compile a traced call: return a function of a call's arguments. This function checks with
    `is` that the call matches the traced one, does the call's work (statements.py), and returns the
    call's result. It returns None if the fused function's Python must run. The function is
    compiled, because interpreted checks, with loops and dictionaries, would take a third of the
    time of eight NumPy loops. values: the call's arguments, and the tensors that it reads from
    outside. n_named: how many arguments were given by name."""
    wanted = sorted(n for n in _all_numbers(made) if n >= trace.n_given)
    work = Statements(trace, wanted, values)
    names: dict[str, Any] = {
        **work.names,
        "Tensor": Tensor, "is_unrecorded": _is_unrecorded, "state": tls.state.get,
        "PLAIN": tls.PLAIN, "generation": dispatcher.generation, "watchers": running.watchers,
        "MISSING": MISSING, "found_in": found_in, "key_of": key_of,
    }  # fmt: skip
    count = len(values) - len(outside.tensors)
    lines = _outside(outside, count - n_named, generation, names)
    given = "".join([f"x{n}, " for n in range(count)]) or "() "
    lines += ["try:", f"    {given}= values", "except ValueError:", "    return None"]
    for n, (where, name) in enumerate(outside.tensors, count):
        lines.append(f"x{n} = {_reading(f'w{n}', where, name, names)}")
    asked = []
    places = [n for n, x in enumerate(values) if type(x) is Tensor]
    for n, x in enumerate(values):
        if n in places:
            names[f"g{n}"] = x._geometry
            asked.append(f"type(x{n}) is not Tensor or x{n}._geometry is not g{n}")
            asked.append(_of_tensor(n, x, names))
        else:
            names.update({f"c{n}": x, f"k{n}": key_of(x)})
            asked.append(f"x{n} is not c{n} and key_of(x{n}) != k{n}")
    if asked:
        lines += [f"if {' or '.join(asked)}:", "    return None"]
    lines += [*work.lines, f"return {_expression(made, places, names)}"]
    exec("\n    ".join(["def replay(values):", *lines]), names)
    found: Callable[[Any], Any] = names["replay"]
    return found


def _all_numbers(made: Any) -> set[int]:
    """Return the numbers of the tensors in a result. See `Trace.result`."""
    if type(made) is int:
        return {made}
    parts = made.values() if type(made) is dict else made[1:] if type(made) is tuple else ()
    return set().union(*[_all_numbers(x) for x in parts])


def _outside(outside: Outside, count: int, generation: int, names: dict[str, Any]) -> list[str]:
    """Return source lines that test whether the state of the thread, the dispatcher or the
    function's outside values have changed. In that case, the lines return None from the replay.
    count: the number of arguments given by position."""
    names["then"] = generation
    asked = ["generation[0] != then", "state() is not PLAIN", "watchers"]
    own, code = outside.others[0][0], outside.code
    # A call that passes all arguments does not use the defaults.
    unread = ["__defaults__"] * (count >= code.co_argcount)
    unread += ["__kwdefaults__"] * (not code.co_kwonlyargcount)
    for n, (where, name, value) in enumerate(outside.others):
        if where is not own or name not in unread:
            names[f"b{n}"] = value
            asked.append(f"{_reading(f'a{n}', where, name, names)} is not b{n}")
    return [f"if {' or '.join(asked)}:", "    return None"]


def _reading(place: str, where: Any, name: str, names: dict[str, Any]) -> str:
    """Return an expression, as source text, that reads a value from outside. See
    `purity.Outside`."""
    names[place] = where.get if type(where) is dict else where
    if type(where) is dict:
        return f"{place}({name!r}, MISSING)"
    return f"{place}.{name}" if type(where) is FunctionType else f"found_in({place}, {name!r})"


def _of_tensor(n: int, x: Tensor, names: dict[str, Any]) -> str:
    """Return a condition, as source text. It is true if the tensor differs in kind from the traced
    one, or needs a gradient. The device of a tensor with the CPU's keys is not tested, because
    there is only one CPU.
    """
    names[f"k{n}"], names[f"p{n}"] = TENSOR_KEYS[x._device.type], x._device
    place = "" if x._device is CPU else f" or x{n}._device is not p{n}"
    return (
        f"x{n}._keys is not k{n} and x{n}._keys != k{n}{place}"
        f" or x{n}._autograd is not None and not is_unrecorded(x{n})"
    )


def _expression(made: Any, places: list[int], names: dict[str, Any]) -> str:
    """Return an expression, as source text, for the call's result. See `Trace.result`."""
    kind = type(made)
    if kind is int:
        return f"x{places[made]}" if made < len(places) else f"t{made}"
    if kind is dict:
        parts = [f"{_constant(k, names)}: {_expression(x, places, names)}" for k, x in made.items()]
        return "{" + ", ".join(parts) + "}"
    if kind is tuple:
        inner = "".join([f"{_expression(x, places, names)}, " for x in made[1:]])
        if made[0] is list:
            return f"[{inner}]"
        return f"({inner})" if made[0] is tuple else f"{_constant(made[0], names)}(({inner}))"
    return _constant(made[0], names)


def _constant(value: Any, names: dict[str, Any]) -> str:
    name = f"o{len(names)}"
    names[name] = value
    return name
