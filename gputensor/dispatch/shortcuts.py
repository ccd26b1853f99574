"""Short cuts from a public function to the loop, past kernels that have nothing to do.

Note [Short cuts]
`a + b` of plain tensors passes a table, the kernel of Autograd, the same table again, and the plans
of its backend's kernel; half of what the call costs. A kernel that has a plan may leave on the
operator's table, under the operands' geometries, a function that does the whole of such calls: the
public function, native code's calls (codegen/gather.py) and `op(x)` itself look there first. It
does so when a plan is used again, so that shapes that come once cost nothing more. A short cut asks
itself whether a call is the plain case, in which the kernels in between would do nothing, and
returns None where it is not:

- every operand has the plain keys of its device,
- the thread's state is that outside of every block (`tls.PLAIN`), or the same below autograd,
- autograd knows nothing of the operands; or all that it does is to record a node, which the short
  cut does then (`recording`),
- what stands beside the tensors (dims, dtypes, bounds) is what it was made with.

The table asks the rest, once, when a call with plain keys first passes it (`Table._open`): nothing
but makers' kernels and fallthroughs stands above the backend's kernel, no trace or profile is on,
and what leaves short cuts is that very kernel. They lie on the table, so whatever is registered or
taken back, put around kernels or changed of the default dtype takes them away with it. It opens for
the plain calls of each device by themselves; where operands of two have one geometry, either may be
taken.

What a kernel is composed of, its short cuts jump over: `contiguous` is `clone`, that is
`empty_like` and `copy_`. It says so by `jumps`. Such short cuts are left only where each of those
tables leads a plain call straight to the kernel that was meant; and when the table of an operator
is swapped, so are those of the operators that jump over it (`dispatcher._swap`).
A kernel of ours may also do the work of small operators that it would call at once, at every call
(`x[mask]`, `stack`): where each of those operators `comes_straight` to the kernel that was meant.
GPUTENSOR_SHORTCUTS=0 turns them off; no call differs but in its cost.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeGuard

from ..core.device import CPU as CPU_DEVICE, device
from . import backend_select, families, keys, tls

if TYPE_CHECKING:
    from .operator import Operator, Table

# operands -> the result, or None where the call is not the plain case.
ShortCut = Callable[..., Any]

VARIABLE = "GPUTENSOR_SHORTCUTS"
is_on = os.environ.get(VARIABLE) != "0"
# Where a table keeps none. Nothing is ever written into it.
NONE: dict[Any, ShortCut] = {}
NOBODY: dict[str, Callable[..., Any]] = {}  # the same of learners
BOUND = 1 << 12


def plain(tensor_keys: int) -> int:
    """The key set of a call of plain tensors outside of every block."""
    include, keep = tls.PLAIN
    return (tensor_keys | include) & keep


# What a table opens at, for which devices' short cuts, and the call that must come straight to a
# kernel then: calls of tensors, also within recorded calls and derivatives, and of factories, which
# have none. Kernels of other devices leave none.
CPU = plain(backend_select.TENSOR_KEYS["cpu"])
CUDA = plain(backend_select.TENSOR_KEYS["cuda"])
FACTORY = plain(0)
FUSED = CPU | tls.FUSING[0]  # of CPU's within a block of `gt.fuse`
# What a plain call redispatches with below ADInplaceOrView.
BELOW = CPU & keys.BELOW_ADINPLACEORVIEW
OPENING = {
    CPU: (("cpu", CPU),), BELOW: (("cpu", CPU),), CUDA: (("cuda", CUDA),),
    FACTORY: (("cpu", FACTORY), ("cuda", FACTORY)),
}  # fmt: skip
_ON_CUDA = {CPU: CUDA, BELOW: CUDA & keys.BELOW_ADINPLACEORVIEW}  # what stands for them there

# An operator that is jumped over, the key set it is called with, and the kernel it must lead to:
# `copy.copy_` is that of native/copy.py, which not every module may import.
Step = tuple["Operator", int, Callable[..., Any] | str]
_jumps: dict[Callable[..., Any], Callable[[], tuple[Step, ...]]] = {}
# Operator -> those whose short cuts jump over it; guarded by the lock of all changes.
jumped: dict[Operator, set[Operator]] = {}


def jumps(kernel: Callable[..., Any], over: Callable[[], tuple[Step, ...]]) -> None:
    """Say what a kernel's short cuts jump over. over: asked when such a short cut is first due."""
    _jumps[kernel] = over


def learner(table: Table, key_set: int, place: str = "cpu") -> Callable[..., Any] | None:
    """The kernel that a plain call comes straight to: the backend's, or a composite's; None where
    something else stands in between. place: the type of device, which factories are told."""
    rest = key_set
    while rest >> keys.N_BACKENDS:
        key = keys.highest(rest)
        kernel, _ = table.slot(key)
        if kernel is None:
            return None
        if kernel.convention == "native":
            function = kernel.function
            return function if function not in _jumps or _leads(table, function, place) else None
        # A maker's kernel has nothing to do for plain operands, or a short cut does it: it counts
        # writes. So it must not count where somebody made an operator of ours fall through.
        counts_nothing = kernel.is_fallthrough and key.functionality == "ADInplaceOrView"
        if kernel.convention not in ("maker", "fallthrough") or (
            counts_nothing and kernel is not table.fallbacks.get(key)
        ):
            return None
        is_chosen = key.functionality == "BackendSelect" and kernel.convention == "maker"
        rest = backend_select.DENSE_KEYS[place] if is_chosen else keys.without_highest(rest)
    return None


def _leads(table: Table, kernel: Any, place: str) -> bool:
    """Whether what a kernel jumps over leads a plain call to the kernels that it knows."""
    with families.lock:
        for operator, key_set, there in _jumps[kernel]():
            operator.table.settle()
            jumped.setdefault(operator, set()).add(table.operator)
            if place == "cuda":
                key_set = _ON_CUDA.get(key_set, key_set)
            found = learner(operator.table, key_set, place)
            if found is None or found is not there and f"{_NATIVE}.{there}" != _name(found):
                return False
    return True


def comes_straight(operator: Operator, kernel: Callable[..., Any]) -> bool:
    """Whether a call of plain tensors on the CPU comes straight to that kernel: who is composed of
    it may then do a small one's work at once. True only after such a call has come by."""
    table = operator.table
    return table.learners.get("cpu") is kernel and operator.redispatch_table is table


def is_plain_thread() -> bool:
    """Whether this thread is outside of every block, maybe within a recorded call."""
    now = tls.state.get()
    return now is tls.PLAIN or now is tls.BELOW


_NATIVE = f"{__name__.partition('.')[0]}.native"


def _name(kernel: Callable[..., Any]) -> str:
    return f"{kernel.__module__}.{kernel.__qualname__}"


# What `begin` says of operands that only the long way can take.
LONG = object()


def recording(table: Table, behind: tuple[Any, ...] = ()) -> tuple[Any, Any] | None:
    """(begin, finish) of a short cut whose operands autograd may know, None if there is none:
    finish(result, node) makes the history of the result what begin(*operands) gave, unless that is
    None. behind: the arguments behind the operands."""
    kernel, _ = table.slot(_AUTOGRAD)
    if kernel is None or kernel.is_fallthrough:
        return _nothing, None
    find = getattr(kernel.function, "recording", None)
    found: tuple[Any, Any] | None = find and find(table, behind)
    return found


_AUTOGRAD = keys.runtime_key("AutogradCPU")


def _nothing(*operands: Any) -> None:
    """No result of the operator has a history."""


def learn(
    table: Table, kernel: Callable[..., Any], key: Any, found: ShortCut, at: device = CPU_DEVICE
) -> None:
    """Leave a short cut on an operator's table, if calls may pass by `kernel` that way. at: the
    device of its operands.

    table: the operator's from before anything was read that the short cut follows from. If it was
    swapped since, what is left there harms nobody.
    """
    if table.learners.get(at.type) is kernel:
        if len(table.short) >= BOUND:
            table.forget()
        if at is not CPU_DEVICE:
            found.at = at  # type: ignore[attr-defined]
        before = table.short.get(key)
        if before is not None and getattr(before, "at", CPU_DEVICE) is not at:
            found = _of_several(before, found, at)
        table.short[key] = found


def left(table: Table, key: Any, at: device = CPU_DEVICE) -> ShortCut | None:
    """What was left for the operands of one device, if anything was."""
    found = table.short.get(key)
    if found is None or getattr(found, "at", CPU_DEVICE) is at:
        return found
    several: dict[device, ShortCut] = getattr(found, "by_device", {})
    return several.get(at)


def _of_several(before: Any, found: ShortCut, at: device) -> ShortCut:
    """Of operands that have one geometry, on one device or another: the one that is taken."""
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

    short.at, short.by_device = None, by_device  # type: ignore[attr-defined]
    return short


class Seen:
    """What a memo holds of a call that short cuts may be left for. short: where one was left, or
    would have been; another dict than the table's says that it is due, again or for the first time.
    """

    __slots__ = ("value", "short")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.short: Any = None


def is_due(known: Seen | None, table: Table) -> TypeGuard[Seen]:
    """Whether a call was seen before and its short cut is not on the operator's table. Kernels that
    ask at every call write it out."""
    return known is not None and known.short is not table.short
