"""Comparison of the calls of all ranks before data is transferred. All ranks raise if calls differ.

Note [A record first]
The first message of every collective is a record of fixed length: a digest of the call (operator,
dtype, sizes, reduction, root), the call as text, and space for data. All ranks receive all records.
Data that fits into the record needs no other message. Larger data follows after all records agree.
If records differ, all ranks raise the same error before anything is written, and the group stays
usable.

MPI requires that all ranks start a communicator's collectives in the same order. So each group has
a queue: a record is sent after all earlier records have arrived and the transfer of their data has
started. A thread that waits for a collective or message advances the queues of all groups, because
other ranks may wait for them.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from . import work as works
from .groups import ProcessGroup, world
from .work import Work, _broken
from ..core import errors

Array = np.ndarray[Any, Any]

# Sizes in bytes. The head has 8 bytes of digest, 1 for the text's length, and the text.
RECORD, HEAD = 256, 96
ROOM = RECORD - HEAD
_TEXT = HEAD - 9


class Plan(NamedTuple):
    """Functions and buffers that transfer the data of a collective.

    begin: starts MPI's request and returns it; None if the record contains all data. finish: is
    called after the request. held: objects whose memory MPI uses until then. rides: bytes to send
    in the record. arrive: copies the data out of all ranks' records. If the record contains all
    data, `arrive` is set on all ranks, otherwise on none. splits: the number of elements sent to
    each rank and received from each rank, if ranks may differ in these numbers.
    """

    begin: Callable[[], Any] | None
    finish: Callable[[], None] | None = None
    held: Any = None
    rides: Array | None = None
    arrive: Callable[[Array], None] | None = None
    splits: tuple[Sequence[int], Sequence[int]] | None = None


@lru_cache(1024)
def head_of(what: str) -> bytes:
    """Return the head of a record: the digest of a call and its text."""
    text = what.encode()
    digest = hashlib.blake2b(text, digest_size=8).digest()
    shown = text if len(text) <= _TEXT else text[: _TEXT - 3] + b"..."
    return (digest + bytes([len(shown)]) + shown).ljust(HEAD, b"\0")


def buffers(what: str, ranks: int) -> tuple[Array, Array]:
    """Return memory for one record to send, with its head, and for the records of all ranks."""
    sent = np.frombuffer(bytearray(_blank(what)), np.uint8)
    return sent, np.empty(ranks * RECORD, np.uint8)


@lru_cache(1024)
def _blank(what: str) -> bytes:
    return head_of(what) + bytes(ROOM)


def difference(op: str, group: ProcessGroup, room: Array) -> errors.GpuTensorError | None:
    """Return the error if records differ, otherwise None."""
    digests = room.view(np.uint64)[:: RECORD // 8].tolist()
    if digests.count(digests[0]) == len(digests):
        return None
    rows = room.reshape(-1, RECORD)
    said = {
        rank: row[9 : 9 + int(row[8])].tobytes().decode(errors="replace")
        for rank, row in zip(group.ranks, rows)
    }
    return errors.ranks_differ(op, said, unusual(dict(zip(group.ranks, digests))))


def unusual(said: dict[int, Any]) -> list[int]:
    """Return the ranks that differ from the majority. In a tie, the value of the first rank counts
    as the majority."""
    counts = Counter(said.values())
    first = next(iter(said.values()))
    usual = max(counts, key=lambda text: (counts[text], text == first))
    return [rank for rank, text in said.items() if text != usual]


def splits_differ(given: Array, wanted: Array) -> int | None:
    """Find the first pair of ranks that send and expect different numbers of elements. Return one
    rank of the pair, or None if all pairs agree. given, wanted: (n, n)."""
    for sender, receiver in np.argwhere(given != wanted.T)[:1]:
        return int(sender or receiver)
    return None


class Agreement:
    """The state of a collective until the transfer of its data has started."""

    __slots__ = ("op", "group", "what", "plan", "sent", "room", "record", "counts", "is_settled",
                 "data", "error")  # fmt: skip

    def __init__(self, op: str, group: ProcessGroup, what: str, plan: Plan) -> None:
        self.op, self.group, self.what, self.plan = op, group, what, plan
        self.sent, self.room = buffers(what, group.size())
        # record: a function that tests if all records have arrived. counts: None unless the splits
        # are sent separately; then a pair of a function that tests if all splits have arrived, and
        # the array that receives them.
        self.record: Any = None
        self.counts: tuple[Any, Array] | None = None
        # is_settled: True if the transfer of data has been started or is not needed, or if the
        # collective has failed. data: a function that tests if the data has arrived.
        self.is_settled = False
        self.data: Any = None
        self.error: errors.GpuTensorError | None = None

    def go_on(self) -> bool:
        """Run each next step whose messages have arrived. Return `is_settled`."""
        try:
            self.is_settled = self.is_settled or self._go_on()
        except world.mpi.Exception as reason:
            self.error = _broken(self.op, errors.mpi_failed(self.op, reason))
            self.is_settled = True
        return self.is_settled

    def _go_on(self) -> bool:
        if self.record is None:
            self._send()
        if not self.record():
            return False
        if self.error is None:
            self.error = difference(self.op, self.group, self.room)
        if self.error is None and self.plan.splits is not None and not self._splits_agree():
            return False
        if self.error is not None:
            return True
        if self.plan.arrive is not None:
            self.plan.arrive(self.room)
        elif self.plan.begin is not None:
            self.data = self.plan.begin().Test
        return True

    def _send(self) -> None:
        rides = self.plan.rides
        if self.plan.splits is not None and self._splits_ride():
            rides = np.array(self.plan.splits, np.int64).reshape(-1).view(np.uint8)
        if rides is not None:
            self.sent[HEAD : HEAD + rides.nbytes] = rides
        byte = world.mpi.BYTE
        into = [self.room, RECORD, byte]
        self.record = self.group.comm.Iallgather([self.sent, RECORD, byte], into).Test

    def _splits_ride(self) -> bool:
        return 16 * self.group.size() <= ROOM

    def _splits_agree(self) -> bool:
        """Return True once the splits of all ranks have arrived.

        Set the error if they do not match.
        """
        n = self.group.size()
        if self._splits_ride():
            every = np.ndarray((n, 2 * n), np.int64, self.room, HEAD, (RECORD, 8))
        else:
            if self.counts is None:
                own = np.array(self.plan.splits, np.int64).reshape(-1)
                every = np.empty((n, 2 * n), np.int64)
                self.sent = own
                self.counts = self.group.comm.Iallgather(own, every).Test, every
            is_here, every = self.counts
            if not is_here():
                return False
        odd = splits_differ(every[:, :n], every[:, n:])
        if odd is not None:
            said = {
                rank: f"{self.what} gives {row[:n].tolist()}, wants {row[n:].tolist()}"
                for rank, row in zip(self.group.ranks, every)
            }
            self.error = errors.ranks_differ(self.op, said, [self.group.ranks[odd]])
        return True

    def test(self) -> bool:
        """Return True if the data has arrived. Raise the error if the ranks' calls differ."""
        if not self.is_settled:
            record = self.record
            if record is not None and self.counts is None and not record():
                return False
            advance(self.group)
            if not self.is_settled:
                return False
        if self.error is not None:
            raise self.error
        return self.data is None or bool(self.data())

    def finish(self) -> None:
        if self.plan.arrive is None and self.plan.finish is not None:
            self.plan.finish()


def advance(group: ProcessGroup) -> None:
    """Start the collectives in the group's queue whose predecessors have been started."""
    if not group.advancing.acquire(blocking=False):  # another thread is already advancing the queue
        return
    try:
        queue = group.queue
        while queue and queue[0].go_on():
            queue.popleft()
    finally:
        group.advancing.release()


def advance_all() -> None:
    """Advance the queues of all groups."""
    for group in [*world.groups.values()]:
        if group.queue:
            advance(group)


works.meanwhile = advance_all


def start(op: str, group: ProcessGroup, what: str, plan: Plan) -> Work:
    """Start a collective. what: the call's description, equal on all ranks."""
    return resume(Agreement(op, group, what, plan))


def resume(agreement: Agreement) -> Work:
    """Append a collective to its group's queue, and start it if its turn has come. Return the Work
    of the collective."""
    made = Work(
        agreement.op, agreement.group, agreement.test, agreement.finish, agreement.plan.held
    )
    agreement.group.queue.append(agreement)
    advance(agreement.group)
    return made


def agree(op: str, group: ProcessGroup, what: str, splits: Any = None) -> None:
    """Wait until all ranks have made the same call. Raises: DistributedError if calls differ.

    splits: as in Plan.
    """
    start(op, group, what, Plan(None, splits=splits)).wait()


def settle() -> None:
    """Wait until the collectives of all groups have been started."""
    for group in [*world.groups.values()]:
        works.wait_until(partial(_is_empty, group), "settle", group)


def _is_empty(group: ProcessGroup) -> bool:
    advance(group)
    return not group.queue


# --- GPUTENSOR_DISTRIBUTED_DEBUG=detail -----------------------------------------------------------

VARIABLE = "GPUTENSOR_DISTRIBUTED_DEBUG"
_SAYS = 2  # tag of the messages that `check_detailed` sends


@cache
def is_detailed() -> bool:
    """True if all ranks exchange a description of each call before they execute the call.

    A timeout then names the ranks that did not make the call. The mode costs one message to and
    from each rank for each call."""
    value = os.environ.get(VARIABLE, "").lower()
    if value not in ("", "off", "detail"):
        raise errors.wrong_value("init_process_group", VARIABLE, "be off or detail", value)
    return value == "detail"


def check_detailed(op: str, group: ProcessGroup, what: str) -> None:
    """Raise unless every rank of the group makes the same call.

    what: the call's description, which must be equal on all ranks. For all_to_all it ends in
    `|given>wanted`: the rows that this rank sends to each rank, and the rows that it receives from
    each.
    """
    here, control = group.ranks[group.rank()], world.control
    text = f"group {group.name}: {what}".encode()
    sending = [control.Isend(text, r, _SAYS) for r in group.ranks if r != here]
    said, missing = {here: text.decode()}, set(group.ranks) - {here}
    status = world.mpi.Status()

    def hear() -> bool:
        for rank in sorted(missing):
            if control.Iprobe(rank, _SAYS, status):
                room = bytearray(status.Get_count(world.mpi.BYTE))
                control.Recv(room, rank, _SAYS)
                said[rank] = room.decode()
                missing.discard(rank)
        return not missing

    works.wait_until(hear, op, group, missing=lambda: sorted(missing))
    for request in sending:
        works.wait_until(request.Test, op, group)
    said = {rank: said[rank] for rank in group.ranks}
    differing = unusual({rank: words.partition("|")[0] for rank, words in said.items()})
    splits = [words.partition("|")[2] for words in said.values()]
    if not differing and any(splits):
        counts = np.array([[half.split(",") for half in text.split(">")] for text in splits], int)
        odd = splits_differ(counts[:, 0], counts[:, 1])
        differing = [] if odd is None else [group.ranks[odd]]
    if differing:
        shown = {rank: words.partition(": ")[2] for rank, words in said.items()}
        raise errors.ranks_differ(op, shown, differing)
