"""Epilogues: operators that read a reduction's result, appended to the reduction's chain.

Note [A chain that goes on over results]
A reduction's result has fewer elements than its operand, so operators that read it are in another
recording. When one of the two recordings has to run and the other still waits, the steps of the
later recording are appended to the earlier one. The chain then ends with instructions that have the
layout of the result. These instructions are the chain's tail. The reduction's kernel computes them
while the result is in a register. Only CUDA's executor does this (cuda/reductions.py); on the CPU a
separate chain costs no launch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..kernels import stub
from .chain import Chain
from .record.pending import Pending

if TYPE_CHECKING:
    from .record.recording import Recording

# The maximum number of instructions in a tail. One thread runs them for each element of the
# reduction's result.
_LONGEST = 32


def join(later: Recording) -> Recording | None:
    """Append `later` to the recording whose pending results it reads, and return that recording. If
    `later` reads results of several recordings, or cannot be appended, change nothing and return
    None. The caller holds the lock. For CUDA only."""
    if stub.registered(stub.CHAIN, stub.CHAIN, "cuda") is not None:
        return None
    waits = {x[0]._array for x in later.inputs if type(x[0]) is Pending}
    first: Recording | None = waits.pop() if len(waits) == 1 else None
    if first is None or not _goes_on(first, later):
        return None
    known = {3 * n: 3 * x[0]._step + 1 for n, x in enumerate(later.inputs) if type(x[0]) is Pending}
    codes = first.append(later, range(len(later.steps)), known)
    for made in later.results:
        if type(made) is Pending and made._array is later:
            made._array, made._step = first, codes[3 * made._step + 1] // 3
            first.results.append(made)
    later.close()
    later.let_go()
    return first


def _goes_on(first: Recording, later: Recording) -> bool:
    """True if all pending operands of `later` are results of reductions, and all values of `later`
    have the layout of these results."""
    if (
        first.is_run or first.error is not None or first.recorder is not later.recorder
        or first.place is not later.place or first.saved or later.saved or later.has_copies
        or later.has_rows or len(later.steps) > _LONGEST or later.walk.numel >= first.walk.numel
    ):  # fmt: skip
        return False
    for what, *_ in later.steps:
        if what.takes_rows or what.family == "random":
            return False
    for storage, offset, shape, _ in later.inputs:
        if type(storage) is not Pending:
            continue
        what = first.steps[storage._step][0]
        if (
            what.reduces is None or what.family != "reduce" or what.feeds is not None or offset
            or shape is not what.geometry
            or (shape.sizes, shape.strides) != (later.walk.sizes, later.walk.strides)
        ):  # fmt: skip
            return False
    return True


class Tail(NamedTuple):
    """The last instructions of a chain. chain: the tail as a separate chain. takes: the inputs of
    the tail, as values of the whole chain; the last reduction's result is first, if the tail reads
    it. stores: the values that the tail stores, as values of the whole chain. head: the chain
    before the tail, which stores its own outputs and then the inputs of the tail."""

    chain: Chain
    takes: list[int]
    stores: list[int]
    head: Chain


def parted(whole: Chain) -> tuple[Chain, list[Tail]]:
    """Split a chain into its head and its tails."""
    head, tails = whole, list[Tail]()
    while (tail := _tail_of(head)) is not None:
        tails.insert(0, tail)
        head = tail.head
    return head, tails


def _tail_of(whole: Chain) -> Tail | None:
    if not whole.instructions:
        return None
    walk, later = whole.instructions[-1].what.walk, list[int]()
    for n, (what, *_) in reversed(whole.steps.items()):
        if what.walk is not walk or what.takes_rows or what.part:
            break
        later.insert(0, n)
    before = [n for n in whole.steps if n not in later]
    operands = [x for n in later for x in whole.steps[n].operands]
    read = [x for x in operands if x >= 0 and x not in later]
    reduced = [n for n in before if whole.steps[n].what.reduces is not None]
    ends = [n for n in reduced if n in read and whole.steps[n].what.feeds is None]
    # `ends` is empty if the steps that read the reductions were dropped as unneeded. The later
    # steps are still a tail if their sizes differ from the chain's and they read only inputs.
    is_alone = walk.sizes != whole.walk.sizes and not any([x in before for x in read])
    if not ends and not is_alone:
        return None
    takes = [*dict.fromkeys([*ends[-1:], *read])]
    stores = [n for n in dict.fromkeys(whole.stores) if n in later]
    of_head = dict.fromkeys([n for n in (*whole.stores, *takes) if n in before])
    head = whole.cut(range(len(whole.inputs)), before, of_head, whole.walk)
    return Tail(whole.cut(takes, later, stores), takes, stores, head)
