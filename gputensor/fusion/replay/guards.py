"""Generate the Python function of a replayed call.

It checks with `is` that a call matches the traced one, does the call's work (statements.py), and
builds the result. Interpreted checks, with loops and dictionaries, would take a third of the time
of eight NumPy loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd.modes import DEFAULT, grad_mode
from ...core.device import CPU
from ...dispatch import dispatcher, tls
from ...dispatch.backend_select import TENSOR_KEYS
from ...tensor.make import is_plain
from ...tensor.tensor import Tensor
from .. import running
from . import statements
from .purity import MISSING, Outside, attribute, key_of
from .trace import Trace

Replay = Callable[[Any], Any]


def is_unrecorded(x: Tensor) -> bool:
    """True if autograd records nothing for an operand."""
    return is_plain(x) or grad_mode.get() != DEFAULT


def compiled(
    trace: Trace, made: Any, values: list[Any], n_named: int, outside: Outside, generation: int
) -> Replay:
    """Return a traced call as a function of its arguments, which returns the call's result, or None
    if the function's Python must run. values: the call's arguments, and the tensors that it reads
    from outside. n_named: how many arguments were given by name."""
    wanted = sorted(n for n in _all_numbers(made) if n >= trace.n_given)
    work = statements.Statements(trace, wanted, values)
    names: dict[str, Any] = {
        **work.names,
        "Tensor": Tensor, "is_unrecorded": is_unrecorded, "state": tls.state.get,
        "PLAIN": tls.PLAIN, "generation": dispatcher.generation, "watchers": running.watchers,
        "MISSING": MISSING, "attribute": attribute, "key_of": key_of,
    }  # fmt: skip
    count = len(values) - len(outside.tensors)
    lines = _outside(outside, count - n_named, generation, names)
    given = "".join([f"x{n}, " for n in range(count)]) or "() "
    lines += ["try:", f"    {given}= values", "except ValueError:", "    return None"]
    for n, (where, name) in enumerate(outside.tensors, count):
        names[f"w{n}"] = where
        get = f"w{n}.get({name!r})" if type(where) is dict else f"attribute(w{n}, {name!r})"
        lines.append(f"x{n} = {get}")
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
    found: Replay = names["replay"]
    return found


def _all_numbers(made: Any) -> set[int]:
    """Return the numbers of the tensors in a result. See `Trace.result`."""
    if type(made) is int:
        return {made}
    parts = made.values() if type(made) is dict else made[1:] if type(made) is tuple else ()
    return set().union(*[_all_numbers(x) for x in parts])


def _outside(outside: Outside, count: int, generation: int, names: dict[str, Any]) -> list[str]:
    """Return statements that leave the function if the thread, the dispatcher or the function's
    outside values have changed. count: the number of arguments given by position."""
    names["then"] = generation
    asked = ["generation[0] != then", "state() is not PLAIN", "watchers"]
    own, code = outside.attributes[0][0], outside.code
    # A call that passes all arguments does not read the defaults.
    unread = ["__defaults__"] * (count >= code.co_argcount)
    unread += ["__kwdefaults__"] * (not code.co_kwonlyargcount)
    for n, (found, name, value) in enumerate(outside.attributes):
        if found is own and name in unread:
            continue
        names.update({f"a{n}": found, f"b{n}": value})
        read = f"a{n}.{name}" if name != "cell_contents" else f"attribute(a{n}, {name!r})"
        asked.append(f"{read} is not b{n}")
    for n, (where, name, value) in enumerate(outside.items):
        names.update({f"i{n}": where.get, f"j{n}": value})
        asked.append(f"i{n}({name!r}, MISSING) is not j{n}")
    return [f"if {' or '.join(asked)}:", "    return None"]


def _of_tensor(n: int, x: Tensor, names: dict[str, Any]) -> str:
    """Return a condition in source form: true if the tensor differs in kind from the traced one, or
    needs a gradient. A tensor with the CPU's keys needs no test of its device, because there is one
    CPU.
    """
    names[f"k{n}"], names[f"p{n}"] = TENSOR_KEYS[x._device.type], x._device
    place = "" if x._device is CPU else f" or x{n}._device is not p{n}"
    return (
        f"x{n}._keys is not k{n} and x{n}._keys != k{n}{place}"
        f" or x{n}._autograd is not None and not is_unrecorded(x{n})"
    )


def _expression(made: Any, places: list[int], names: dict[str, Any]) -> str:
    """Return an expression in source form for the call's result. See `Trace.result`."""
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
