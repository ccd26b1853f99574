"""`gt.fuse(recompute=True)`: values that only backward needs are recomputed if that moves fewer
bytes.

Note [Computed again]
Backward refers to a pending tensor only by its storage, and this reference is no reason to store
the value. When the recording of such a value runs and nothing else refers to the value, it moves
to another recording, with the steps that compute it from operands in memory. There it is pending
like any value: reading it, writing to its operands, or the end of the block stores it. When
backward records an operator that reads the value, the value's steps are recorded again with that
operator, so that backward's chain computes it. At most `LONGEST` arithmetic operators are
recomputed, and they read no more bytes than a store and a load would move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from sys import getrefcount
from typing import Any
from weakref import ref

from ...autograd.history import gradient_edge
from ...autograd.node import Node
from ...autograd.saved import SavedResult, SavedTensor, seen_from
from ...tensor.storage import Storage
from ...tensor.tensor import Tensor
from . import recorder
from .pending import Pending
from .recording import Recording, lock

LONGEST = 8
# Loops of arithmetic operators. Running them again costs less than a store and a load.
_CHEAP = frozenset(
    """abs add add_alpha addcdiv addcmul bitwise_and bitwise_not bitwise_or bitwise_xor clamp
    clamp_max clamp_min copy div eq ge gt isfinite isinf isnan isneginf isposinf le lerp
    logical_and logical_not logical_or logical_xor lt mul ne neg reciprocal relu sqrt sub sub_alpha
    where""".split()
)


class _Operand(SavedTensor):
    """An operand saved for backward, whose elements may be pending."""

    __slots__ = ("__weakref__",)

    def unpack(self, node: Node) -> Any:
        """Return the saved tensor, or recompute it. Raises: AutogradError if it was written to."""
        x = super().unpack(node)
        again = _recorded_again(x)
        return x if again is None else seen_from(again, gradient_edge(x), node)


class _Result(SavedResult):
    """An operator's own output, saved for backward."""

    __slots__ = ("__weakref__",)

    def unpack(self, node: Node) -> Any:
        x = super().unpack(node)
        again = _recorded_again(self.tensor)
        return x if again is None else seen_from(again, (node.whole or node, self.number), node)


def keep(x: Tensor, number: int | None) -> SavedTensor | None:
    """Return an object that autograd/saved.py saves in place of a pending tensor. Return None if
    the tensor is not pending or must not be recomputed."""
    now, storage = recorder.current.get(), x._storage
    if now is None or now.trace is not None or type(x) is not Tensor:
        return None
    with lock:
        if type(storage) is not Pending or storage._array.recorder is not now:
            return None
        kept: Any = _Operand() if number is None else _Result()
        kept.tensor, kept.version = x, storage.version
        if number is not None:
            kept.number = number
        storage._array.saved += (ref(kept),)
        found: SavedTensor = kept
        return found


def split(
    held: Recording, wanted: list[tuple[int, Pending]]
) -> tuple[list[tuple[int, Pending]], list[tuple[int, Pending]]]:
    """Split the wanted values of a recording into values to store and values to recompute."""
    of, counts = _saved_tensors(held)
    held_elsewhere = set()  # a set of step numbers; several storages may wait for one result
    for number, storage in wanted:
        theirs = of.get(id(storage), [])
        if getrefcount(storage) != _HELD + len(theirs) or any([
            getrefcount(x) != _LISTED + counts[id(x)] for x in theirs
        ]):  # fmt: skip
            held_elsewhere.add(number)
    stored: dict[int, Any] = {}
    for number in sorted({number for number, _ in wanted}):
        if number in held_elsewhere or _steps(held, number, stored) is None:
            stored[number] = None
    stores = [one for one in wanted if one[0] in stored]
    return stores, [one for one in wanted if one[0] not in stored]


def _saved_tensors(held: Recording) -> tuple[dict[int, list[Tensor]], Counter[int]]:
    """Return two dicts. The first maps the id of a storage to the tensors over this storage that
    nodes hold. The second maps the id of a tensor to the number of nodes that hold the tensor.
    `split` does not count the references that this function holds, because they end when it
    returns."""
    nodes = [kept.tensor for one in held.saved if (kept := one()) is not None]
    of: dict[int, list[Tensor]] = {}
    for x in {id(x): x for x in nodes}.values():
        of.setdefault(id(x._storage), []).append(x)
    return of, Counter(map(id, nodes))


def move_on(
    held: Recording, stores: list[tuple[int, Pending]], leaves: list[tuple[int, Pending]]
) -> None:
    """Move the remaining pending values of a recording to another recording. Values that were
    stored have their bytes already."""
    stored: dict[int, Any] = dict(stores)
    following = Recording(held.recorder, held.steps[leaves[0][0]][0])
    following.is_open = False
    for number, storage in leaves:
        steps = _steps(held, number, stored)
        assert steps is not None
        step = _copied(held, steps, stored, following)
        storage._array, storage._step = following, step
        following.results.append(storage)
    following.saved = held.saved
    held.recorder.pending[following] = None


def _recorded_again(x: Tensor) -> Tensor | None:
    """Record a tensor again, as a pending result. Return None if the tensor must not be
    recomputed."""
    now, storage = recorder.current.get(), x._storage
    with lock:
        if now is None or type(storage) is not Pending or x._offset:
            return None
        held, number = storage._array, storage._step
        what = held.steps[number][0]
        if held.is_open or held.recorder is not now or what.geometry is not x._geometry:
            return None
        steps = _steps(held, number, {})
        if steps is None:
            return None
        target = now.open.get(what.at)
        if target is not None and len(target.steps) + len(steps) >= recorder.LONGEST:
            target.run(f"it has {recorder.LONGEST} operators")
            # this may run the recordings that compute the operands of this tensor
            return _recorded_again(x)
        if target is None:
            target = now.opened(what)
        made: Tensor = now.made(what, (target, _copied(held, steps, {}, target)))
        return made


def _steps(held: Recording, number: int, stored: Mapping[int, Any]) -> list[int] | None:
    """Return the steps that compute a value from memory, or None if a store and a load are
    cheaper."""
    at = held.steps[number][0].at
    found: set[int] = set()
    read: dict[Any, int] = {}
    waiting = [number]
    while waiting:
        step = waiting.pop()
        if step in found:
            continue
        what, operands, _ = held.settled()[step]
        if step in stored:
            if what.at is not at or what.also is not None or what.reduces is not None:
                return None
            read[step] = what.geometry.nbytes
            continue
        if what.at is not at or what.also is not None or what.loop not in _CHEAP:
            return None
        found.add(step)
        if len(found) > LONGEST:
            return None
        for code in operands:
            if code % 3 == 1:
                waiting.append(code // 3)
            elif code % 3 == 0:
                storage, offset, shape, _ = held.inputs[code // 3]
                read[(id(storage), offset, shape)] = shape.extent * shape.dtype.itemsize
    if sum(read.values()) > 2 * held.steps[number][0].geometry.nbytes:
        return None
    return sorted(found)


def _copied(
    held: Recording, steps: list[int], stored: Mapping[int, Storage], target: Recording
) -> int:
    """Record steps in the recording `target`. Return the number of the last step in `target`."""
    read = {code for n in steps for code in held.settled()[n][1]}
    known = {
        3 * n + 1: target.input(x, 0, held.steps[n][0].geometry, None)
        for n, x in stored.items() if 3 * n + 1 in read
    }  # fmt: skip
    return target.append(held, steps, known)[3 * steps[-1] + 1] // 3


# Results of `getrefcount` when it is called in a loop, as in `split`. _LISTED: for an object to
# which only a list refers. _HELD: for a storage to which only the recording refers.
_LISTED = [getrefcount(x) for x in [object()]][0]
_HELD = _LISTED + 1
