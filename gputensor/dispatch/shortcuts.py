"""Short cuts: a repeated call goes directly from the public function to the kernel's loop.

Note [Short cuts]
`a + b` of plain tensors passes a table, the Autograd kernel, the table again, and the plans of the
backend's kernel. These steps are half of the call's cost. A kernel with a plan may store a function
that does the whole call. It is stored on the operator's table, under the operands' geometries. The
public function, native code's calls (codegen/emit/gather.py) and `op(x)` look there first. The
kernel stores it when a plan is used again, so a shape that is used once costs nothing extra. A
short cut first checks that the call is the plain case, in which the kernels in between would do
nothing. Otherwise it returns None. In the plain case,

- every operand has the plain keys of its device,
- the thread's state is the state outside of every block (`tls.PLAIN`), or the same state below
  autograd,
- the operands have no autograd history, or autograd only records a node, which the short cut then
  does itself (`recording`),
- the other arguments (dims, dtypes, bounds) equal those for which the short cut was made.

The table makes the other checks once, at the first call with plain keys (`_open`): only
makers' kernels and fallthroughs are above the backend's kernel, no trace or profile is on, and the
kernel that stores short cuts is that backend kernel. Short cuts are stored on the table, so any
registration, removal, wrapping of kernels or change of the default dtype drops them. The table
opens for each device separately. If operands of two devices have one geometry, either short cut may
be found.

Short cuts of a composite kernel skip the operators that the kernel calls: `contiguous` calls
`clone`, which calls `empty_like` and `copy_`. The kernel declares these operators with `jumps`. Its
short cuts are stored only if each of their tables leads a plain call directly to the expected
kernel. When an operator's table is swapped, the tables of operators that skip it are swapped too
(`dispatcher._swap`).
A built-in kernel may also do the work of small operators inline, at every call (`x[mask]`,
`stack`), if `comes_straight` is true for each of these operators. GPUTENSOR_SHORTCUTS=0 disables
short cuts; this changes only the cost of calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, TypeGuard

from ..core.device import CPU as CPU_DEVICE, device
from . import backend_select, families, keys, tls
from .operator import Operator, Table, opening

# A short cut: (operands) -> the result, or None if the call is not the plain case.
ShortCut = Callable[..., Any]

VARIABLE = "GPUTENSOR_SHORTCUTS"
is_on = os.environ.get(VARIABLE) != "0"
BOUND = 1 << 12


def plain(tensor_keys: int) -> int:
    """Return the key set of a call of plain tensors in a thread without an active guard or mode."""
    include, keep = tls.PLAIN
    return (tensor_keys | include) & keep


# _OPENING maps the key set of a call to pairs (device type, key set of plain calls). A table may
# store short cuts after its first call with a key set in _OPENING. Short cuts are allowed for a
# device type if calls with the pair's key set lead directly to a kernel. _OPENING contains the key
# sets of calls with tensors (also below autograd) and of factories without tensors. Kernels of
# other devices have no short cuts.
CPU = plain(backend_select.TENSOR_KEYS["cpu"])
CUDA = plain(backend_select.TENSOR_KEYS["cuda"])
FACTORY = plain(0)
# The key set of CPU tensors in a block of `gt.fuse`.
FUSED = CPU | tls.FUSING[0]
# The key sets of plain calls below ADInplaceOrView.
BELOW = CPU & keys.BELOW_ADINPLACEORVIEW
BELOW_CUDA = CUDA & keys.BELOW_ADINPLACEORVIEW
_OPENING = {
    CPU: (("cpu", CPU),), BELOW: (("cpu", CPU),),
    CUDA: (("cuda", CUDA),), BELOW_CUDA: (("cuda", CUDA),),
    FACTORY: (("cpu", FACTORY), ("cuda", FACTORY)),
}  # fmt: skip
# A function that returns True if, in a block of `gt.fuse`, an operator on these operands runs
# immediately and is not recorded.
in_block: list[Callable[..., bool]] = [lambda *operands: False]
# Key sets of CPU calls -> the corresponding key sets of CUDA calls.
_ON_CUDA = {CPU: CUDA, BELOW: BELOW_CUDA}

# A step that a short cut skips: an operator, the key set of its call, and the kernel that must run.
# A kernel is given as text if this module must not import it: `copy.copy_` is a kernel of
# native/copy.py, `structured.forms.copy.<locals>.kernel` one of structured/forms.py.
Step = tuple["Operator", int, Callable[..., Any] | str]
_jumps: dict[Callable[..., Any], Callable[[], tuple[Step, ...]]] = {}
# Maps an operator to the operators whose short cuts skip it. Guarded by the dispatcher's lock.
jumped: dict[Operator, set[Operator]] = {}


def jumps(kernel: Callable[..., Any], over: Callable[[], tuple[Step, ...]]) -> None:
    """Declare the operators that a kernel's short cuts skip. over: a function that returns the
    skipped Steps. It is called before the first short cut is stored."""
    _jumps[kernel] = over


def learner(table: Table, key_set: int, place: str = "cpu") -> Callable[..., Any] | None:
    """Return the backend or composite kernel that a plain call reaches directly. Return None if a
    kernel at a higher key would do work before. place: the device type, for factories."""
    rest = key_set
    while rest >> keys.N_BACKENDS:
        key = keys.highest(rest)
        kernel, _ = table.slot(key)
        if kernel is None:
            return None
        if kernel.convention == "native":
            function = kernel.function
            return function if function not in _jumps or _leads(table, function, place) else None
        # For plain operands, a kernel with the convention "maker" only counts writes, and short
        # cuts also count them. If a user registered a fallthrough at ADInplaceOrView, writes must
        # not be counted, so no short cut is allowed.
        counts_nothing = kernel.is_fallthrough and key.functionality == "ADInplaceOrView"
        if kernel.convention not in ("maker", "fallthrough") or (
            counts_nothing and kernel is not table.fallbacks.get(key)
        ):
            return None
        is_chosen = key.functionality == "BackendSelect" and kernel.convention == "maker"
        rest = backend_select.DENSE_KEYS[place] if is_chosen else keys.without_highest(rest)
    return None


def _open(ways: tuple[tuple[str, int], ...], table: Table) -> None:
    """Allow short cuts to be stored and used, if this table can have them."""
    for place, plain in ways:
        found = learner(table, plain, place)
        if found is not None and table.learners.get(place) is not found:
            table.learners = {**table.learners, place: found}
            table.short = {}
            # Drop the plans, so that the next call of each kind makes its plan and its short cut
            # again.
            table.plans.clear()


if is_on:
    opening.update({key_set: partial(_open, ways) for key_set, ways in _OPENING.items()})


def _leads(table: Table, kernel: Any, place: str) -> bool:
    """True if each operator that short cuts of `kernel` skip would run the kernel that its Step
    names."""
    with families.lock:
        for operator, key_set, there in _jumps[kernel]():
            operator.table.settle()
            jumped.setdefault(operator, set()).add(table.operator)
            if place == "cuda":
                key_set = _ON_CUDA.get(key_set, key_set)
            found = learner(operator.table, key_set, place)
            if found is None or found is not there and _name(found) not in _names(there):
                return False
    return True


def comes_straight(operator: Operator, kernel: Callable[..., Any], place: str = "cpu") -> bool:
    """True if a plain call of the operator on a device type leads directly to `kernel`. In this
    case a composite kernel may do the work of `kernel` itself, without a call of the operator.
    False before the first plain call of the operator."""
    table = operator.table
    return table.learners.get(place) is kernel and operator.redispatch_table is table


def is_plain_thread() -> bool:
    """True if this thread has no active guard or mode. AutoDispatchBelowADInplaceOrView does not
    count."""
    now = tls.state.get()
    return now is tls.PLAIN or now is tls.BELOW


_PACKAGE = __name__.partition(".")[0]


def _name(kernel: Callable[..., Any]) -> str:
    return f"{kernel.__module__}.{kernel.__qualname__}"


def _names(there: Callable[..., Any] | str) -> tuple[str, str]:
    return f"{_PACKAGE}.native.{there}", f"{_PACKAGE}.{there}"


# The value that `begin` (see `recording`) returns if the operands need the full dispatch.
LONG = object()


def recording(
    table: Table, behind: tuple[Any, ...] | None = (), place: str = "cpu"
) -> tuple[Any, Any] | None:
    """Return (begin, finish) for a short cut whose operands may require grad. Return None if there
    can be no short cut. begin(*operands) returns a node or None; finish(result, node) sets the
    result's history. behind: the arguments after the operands. If it is None, begin takes all
    arguments of the call. place: the device type of the operands."""
    kernel, _ = table.slot(_AUTOGRAD[place])
    if kernel is None or kernel.is_fallthrough:
        return _nothing, None
    find = getattr(kernel.function, "recording", None)
    found: tuple[Any, Any] | None = find and find(table, behind)
    return found


# Maps a device type to its Autograd key.
_AUTOGRAD = {"cpu": keys.runtime_key("AutogradCPU"), "cuda": keys.runtime_key("AutogradCUDA")}


def _nothing(*operands: Any) -> None:
    """The `begin` function of operators whose results have no history."""


def learn(
    table: Table, kernel: Callable[..., Any], key: Any, found: ShortCut, at: device = CPU_DEVICE
) -> None:
    """Store a short cut on an operator's table if plain calls lead to `kernel`. at: the operands'
    device.

    table: the operator's table, read before the inputs of the short cut. If the operator has a new
    table by now, the stored entry is never read.
    """
    if table.learners.get(at.type) is kernel:
        if len(table.short) >= BOUND:
            table.forget()
        if at is not CPU_DEVICE:
            vars(found)["at"] = at
        before = table.short.get(key)
        if before is not None and getattr(before, "at", CPU_DEVICE) is not at:
            found = _of_several(before, found, at)
        table.short[key] = found


def left(table: Table, key: Any, at: device = CPU_DEVICE) -> ShortCut | None:
    """Return the short cut stored for operands of this device, or None."""
    found = table.short.get(key)
    if found is None or getattr(found, "at", CPU_DEVICE) is at:
        return found
    several: dict[device, ShortCut] = getattr(found, "by_device", {})
    return several.get(at)


def _of_several(before: Any, found: ShortCut, at: device) -> ShortCut:
    """Return a short cut for operands of equal geometry on several devices. It tries the short cut
    of each device, which returns None for operands of another device."""
    by_device = {getattr(before, "at", CPU_DEVICE): before} | getattr(before, "by_device", {})
    by_device.pop(None, None)
    by_device[at] = found
    shorts = tuple(by_device.values())

    def short(*operands: Any) -> Any:
        for one in shorts:
            made = one(*operands)
            if made is not None:
                return made
        return None

    vars(short).update(at=None, by_device=by_device)
    return short


class Seen:
    """A memo entry of a call that may get a short cut. short: the table's dict of short cuts when
    the entry was last used. If the table has another dict, the short cut must be stored again."""

    __slots__ = ("value", "short")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.short: Any = None


def is_due(known: Seen | None, table: Table) -> TypeGuard[Seen]:
    """Return True if a call was seen before and its short cut is not on the table. Kernels that
    test this at every call contain the test inline."""
    return known is not None and known.short is not table.short
