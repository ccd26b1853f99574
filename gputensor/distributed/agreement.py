"""`GPUTENSOR_DISTRIBUTED_DEBUG=detail`: before each call, all ranks exchange descriptions of it.

A timeout then names the ranks that did not make the call. Without this mode, different calls raise
an error on all ranks, too (distributed/records.py). The mode costs one message to and from each
rank for each call.
"""

from __future__ import annotations

import os
from functools import cache

import numpy as np

from ..core import errors
from .groups import ProcessGroup, world
from .records import splits_differ, unusual
from .work import wait_until

VARIABLE = "GPUTENSOR_DISTRIBUTED_DEBUG"
_SAYS = 2  # tag of these messages


@cache
def is_on() -> bool:
    value = os.environ.get(VARIABLE, "").lower()
    if value not in ("", "off", "detail"):
        raise errors.wrong_value("init_process_group", VARIABLE, "be off or detail", value)
    return value == "detail"


def check(op: str, group: ProcessGroup, what: str) -> None:
    """Raise an error unless every rank of the group makes the same call.

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

    wait_until(hear, op, group, missing=lambda: sorted(missing))
    for request in sending:
        wait_until(request.Test, op, group)
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
