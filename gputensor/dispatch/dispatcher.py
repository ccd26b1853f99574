"""The dictionary of all operators, and all functions that change it.

The path of a call, with the file of each step:
 1. `a + b` runs Tensor.__add__ in `_generated/families/binary.py`, which `families.py` loads. The
    method collects the operands' key sets and applies the keys of this thread or task (`tls.py`).
 2. It looks up the key set in the operator's table (`operator.py`) and calls the kernel found there
    with (key_set, *arguments). `precedence.py` chooses the kernel of a set on its first use.
 3. A factory function passes a kernel of `makers/backend_select.py`: `device=` becomes a backend
    key.
 4. A differentiable operator passes a kernel of `makers/autograd.py`, which records a node if an
    operand requires grad. An operator that writes or returns a view then passes a kernel of
    `makers/inplace_or_view.py`, which increments the version or records the base of the view.
 5. The kernel at the backend's key is in `native/<family>.py`. It finds the plan (`iterator/`) and
    allocates the output.
 6. It runs the loop that `kernels/stub.py` has bound for the device: a NumPy loop of
    `kernels/cpu/<family>.py`, or a launch of `kernels/cuda/<family>.cu` through `runtime/`.
`tests/dispatch/test_call_path.py` checks these steps.

Each function that changes operators first checks its arguments, under `lock`, and then replaces
whole objects, so that a failed call changes nothing. See Note [Tables are swapped whole].
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ..core import errors
from . import families, keys, shortcuts
from .keys import AliasKey, DispatchKey
from .operator import Operator, Pending, Table, called, caller_site
from .registered import Definition, Kernel, Key

if TYPE_CHECKING:
    from ..core.schema import FunctionSchema

lock = families.lock
_operators: dict[str, Operator] = {}
# Operators that have no registrations but are still referenced. A new registration of the name uses
# the same object again.
_unused: WeakValueDictionary[str, Operator] = WeakValueDictionary()
# Fallbacks that exist from the start of the process; the first call adds more. Source:
# aten/src/ATen/core/VariableFallbackKernel.cpp and BackendSelectFallbackKernel.cpp. At the autograd
# keys, operators without an autograd kernel fall through. AutocastPrivateUse1 has no fallback, so
# that the author of a device can install one.
_PASSED = ("BackendSelect", "ADInplaceOrView", "AutocastCPU", "AutocastCUDA")
_fallbacks: Mapping[DispatchKey, Kernel] = {
    key: Kernel(None, "fallthrough", caller_site(1))
    for key in (*map(keys.runtime_key, _PASSED), *keys.Autograd.keys)
}
# Functions that wrap all kernels while a trace or a profile is on, innermost first. Each item is a
# pair of functions (table, key, kernel) -> kernel: the first wraps kernels reached by calls, the
# second wraps kernels reached by redispatches.
Wrap = Callable[["Table", DispatchKey, Callable[..., Any]], Callable[..., Any]]
_wraps: tuple[tuple[Wrap, Wrap], ...] = ()
# A list with one element: the number of tables replaced so far. Code that caches results of several
# tables compares the number to detect changes.
generation = [0]
# Functions that are called with the operator after each definition and after its removal. ops.py
# uses one to update its names.
definition_hooks: list[Callable[[Operator], None]] = []


class Handle:
    """A handle that undoes one registration. `remove` may be called twice, and handles may be
    removed in any order."""

    __slots__ = ("_undo",)

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo: Callable[[], None] | None = undo

    @property
    def is_active(self) -> bool:
        """False once the registration was removed."""
        return self._undo is not None

    def remove(self) -> None:
        """Undo the registration. The newest of the remaining registrations then takes effect."""
        with lock:
            undo, self._undo = self._undo, None
            if undo is not None:
                undo()


# --- operators ----------------------------------------------------------------------------------


def find(qualified_name: str) -> Operator:
    """Return the defined operator of a full name such as `aten::add.Tensor`. Raises: DispatchError
    if it has no schema."""
    operator = get(qualified_name)
    if operator is None or operator.definition is None:
        raise errors.operator_not_found(qualified_name, operator)
    return operator


# Copies and pickles of an operator store its name. `find` then returns the operator itself.
copyreg.pickle(Operator, lambda operator: (find, (operator.qualified_name,)))


def get(qualified_name: str) -> Operator | None:
    """Return the operator of this name, with or without a schema. Return None if nothing is
    registered under the name."""
    if not isinstance(qualified_name, str):
        rule = "be an operator's name"
        raise errors.wrong_type("dispatch", "name", rule, qualified_name)
    qualified_name = qualified_name.removesuffix(".default")
    families.complete(qualified_name)
    operator = _operators.get(qualified_name)
    if operator is not None:
        _settle(operator)
    return operator


def qualified(name: str) -> str:
    """Return the full name of an operator, given a name such as `abs`, `add.Tensor` or
    `mylib::scale`. Without a namespace, the name is in `aten`, where our operators are."""
    return name if "::" in name else f"aten::{name}"


def operators() -> list[Operator]:
    """Return every operator with a schema or a kernel, including operators of families that are not
    loaded yet."""
    families.complete_all()
    found = list(_operators.values())
    for operator in found:
        _settle(operator)
    return found


def overloads(name: str) -> list[Operator]:
    """Return all overloads of an operator name such as `aten::add`, with or without a schema."""
    families.complete(name)
    found = [operator for operator in _operators.values() if operator.name == name]
    for operator in found:
        _settle(operator)
    return found


def _get_or_make(qualified_name: str) -> Operator:
    """Return the operator with this name. If there is none, make one, which `_commit` later
    registers."""
    qualified_name = qualified_name.removesuffix(".default")
    families.complete(qualified_name)
    operator = _operators.get(qualified_name) or _unused.get(qualified_name)
    if operator is None:
        name, _, overload = qualified_name.partition(".")
        operator = Operator(name, overload)
    return operator


def _commit(operator: Operator) -> None:
    """Publish the operator's new state. Forget the operator if it has no registrations left."""
    _swap(operator)
    name = operator.qualified_name
    if operator.definition is None and not operator.kernels:
        _operators.pop(name, None)
        _unused[name] = operator
    else:
        _operators[name] = operator


def _swap(operator: Operator) -> None:
    """Replace the operator's table by one made from its current registrations. See Note [Tables are
    swapped whole]."""
    generation[0] += 1
    if not families.is_complete(operator.qualified_name):
        operator.table = Pending(operator, "table", _settle)
        operator.redispatch_table = Pending(operator, "redispatch_table", _settle)
    elif _wraps:
        operator.table = Table(operator, _fallbacks, _chained(0))
        operator.redispatch_table = Table(operator, _fallbacks, _chained(1))
    else:
        operator.table = operator.redispatch_table = Table(operator, _fallbacks)
    for jumper in shortcuts.jumped.pop(operator, ()):
        _swap(jumper)


def _settle(operator: Operator) -> None:
    """Load the kernels that a call of the operator may need, and install a complete table."""
    if isinstance(operator.table, Pending):
        with lock:
            families.begin()
            families.complete(operator.qualified_name)
            _swap(operator)


def _chained(which: int) -> Wrap:
    chosen = [pair[which] for pair in _wraps]

    def wrap(table: Table, key: DispatchKey, kernel: Callable[..., Any]) -> Callable[..., Any]:
        for one in chosen:
            kernel = one(table, key, kernel)
        return kernel

    return wrap


def _swap_all() -> None:
    for operator in (*_operators.values(), *_unused.values()):
        _swap(operator)


# --- registration -------------------------------------------------------------------------------


def define(
    schema_text: str, tags: tuple[str, ...] = (), site: str | None = None,
    alias_analysis: str = "FROM_SCHEMA", numbers: tuple[str, ...] = (),
    parsed: FunctionSchema | None = None,
) -> Operator:  # fmt: skip
    """Define the operator of `schema_text`, which includes the namespace, and return it.

    numbers: Tensor arguments that accept Python numbers.

    parsed: the parsed schema, if the caller has it. Otherwise the text is parsed on first use of
    the schema; `python -m codegen --check` proves that schemas of generated operators parse.
    Raises: RegistrationError if the operator is already defined, even by the same text, or if a
    kernel registered before does not accept its arguments.
    """
    with lock:
        operator = _get_or_make(schema_text[: schema_text.index("(")])
        site = site or caller_site()
        definition = Definition(schema_text, site, tags, alias_analysis, numbers, parsed)
        if operator.definition is not None:
            raise errors.defined_twice(operator, definition.site)
        for key, stack in operator.kernels.items():
            for kernel in stack:
                _check_signature(operator, definition, kernel, key)
        families.note(lambda: undefine(operator) if operator.definition is definition else None)
        operator.definition = definition
        _commit(operator)
    for hook in definition_hooks:
        hook(operator)
    return operator


def undefine(operator: Operator) -> None:
    """Remove the schema of an operator. Its kernels stay registered for a later definition."""
    with lock:
        operator.definition = None
        _commit(operator)
    for hook in definition_hooks:
        hook(operator)


def undefining(operator: Operator) -> Handle:
    """Return a handle that removes the present schema, unless another schema has replaced it."""
    definition = operator.definition

    def undo() -> None:
        if operator.definition is definition:
            undefine(operator)

    return Handle(undo)


def register_kernel(
    operator: Operator | str, key: Key, function: Callable[..., Any] | None,
    convention: str = "native", site: str | None = None,
) -> Handle:  # fmt: skip
    """Make `function` the newest kernel of the operator at `key`; return a handle that removes it.

    The operator need not be defined yet. convention: see `Kernel`.
    Raises: RegistrationError if the function does not accept the schema's arguments.
    """
    kernel = Kernel(function, convention, site or caller_site())
    with lock:
        target = _get_or_make(operator) if isinstance(operator, str) else operator
        families.complete(target.qualified_name)
        if target.definition is not None:
            _check_signature(target, target.definition, kernel, key)

        def undo() -> None:
            rest = tuple(k for k in target.kernels.get(key, ()) if k is not kernel)
            others = {k: stack for k, stack in target.kernels.items() if k is not key}
            target.kernels = {**others, key: rest} if rest else others
            _commit(target)

        handle = _noted(undo)
        target.kernels = {**target.kernels, key: (kernel, *target.kernels.get(key, ()))}
        _commit(target)
    return handle


def _noted(undo: Callable[[], None]) -> Handle:
    """Return a handle that removes a registration.

    The registration is also removed if it belongs to a family that fails to load.
    """
    handle = Handle(undo)
    families.note(handle.remove)
    return handle


def register_behind(
    name: str, key: Key, function: Callable[..., Any] | None, convention: str
) -> None:
    """Call `register_kernel` for a built-in operator as soon as its family has loaded."""
    site = caller_site()
    families.behind(name, lambda: register_kernel(name, key, function, convention, site))


def _check_signature(operator: Operator, definition: Definition, kernel: Kernel, key: Key) -> None:
    if kernel.convention not in ("native", "fallthrough"):
        from .boxing import kernel_signature

        kernel_signature.check(operator, definition, kernel, key)


def register_fallback(
    key: Key, function: Callable[..., Any] | None, convention: str = "boxed",
    site: str | None = None,
) -> Handle:  # fmt: skip
    """Register a fallback for `key` in all present and future operators. If `key` is an alias,
    register the fallback for each key of the alias.

    Raises: RegistrationError, without any change, if one of the keys has a fallback already.
    """
    targets = key.keys if isinstance(key, AliasKey) else (key,)
    kernel = Kernel(function, convention, site or caller_site())
    families.begin()
    global _fallbacks
    with lock:
        for target in targets:
            if target in _fallbacks:
                raise errors.fallback_twice(target, _fallbacks[target].site, kernel.site)

        def undo() -> None:
            global _fallbacks
            _fallbacks = {k: f for k, f in _fallbacks.items() if f is not kernel}
            _swap_all()

        handle = _noted(undo)
        _fallbacks = {**_fallbacks, **dict.fromkeys(targets, kernel)}
        _swap_all()
    return handle


def replace_fallback(key: Key, function: Callable[..., Any], convention: str) -> Handle:
    """Replace the fallback of `key` in one step. Removing the returned handle restores the previous
    fallback."""
    targets = key.keys if isinstance(key, AliasKey) else (key,)
    kernel = Kernel(function, convention, caller_site())
    families.begin()
    global _fallbacks
    with lock:
        before = {target: _fallbacks[target] for target in targets}
        _fallbacks = {**_fallbacks, **dict.fromkeys(targets, kernel)}
        _swap_all()

    def undo() -> None:
        global _fallbacks
        _fallbacks = {**_fallbacks, **before}
        _swap_all()

    return _noted(undo)


def refresh(operator: Operator) -> None:
    """Compute an operator's slots again. Call `refresh` after a change of state that the functions
    which make its kernels read."""
    with lock:
        _swap(operator)


def forget_plans() -> None:
    """Replace the table of each operator that was called by a new table without plans."""
    with lock:
        generation[0] += 1
        for operator in tuple(called):
            _swap(operator)


def add_wraps(call: Wrap, redispatch: Wrap) -> Handle:
    """Wrap every kernel in functions, for a trace or a profile. Removing the returned handle
    removes the wrappers."""
    global _wraps
    pair = (call, redispatch)
    _set_wraps(lambda wraps: (*wraps, pair))
    return Handle(lambda: _set_wraps(lambda wraps: tuple(w for w in wraps if w is not pair)))


def _set_wraps(
    change: Callable[[tuple[tuple[Wrap, Wrap], ...]], tuple[tuple[Wrap, Wrap], ...]],
) -> None:
    global _wraps
    with lock:
        _wraps = change(_wraps)
        plans = [(operator, operator.table.plans) for operator in _operators.values()]
        _swap_all()
        # The plans are still valid. They are kept, so that a profile does not measure how plans are
        # made.
        for operator, kept in plans:
            operator.table.plans = kept


def is_wrapped() -> bool:
    """Return True while a trace or a profile is on."""
    return bool(_wraps)


def fallbacks() -> Mapping[DispatchKey, Kernel]:
    """Return a dict: key -> the kernel for operators that have no kernel of their own at this
    key."""
    families.begin()
    return _fallbacks
