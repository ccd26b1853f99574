"""How processes join, form groups, and leave.

MPI is started by `init_process_group`, and nothing of it is imported before. A process that ends,
by an exception or otherwise, does not leave the others waiting: see Note [Who leaves] in
distributed/groups.py.
"""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from types import TracebackType
from typing import Any

from . import agreement, nccl, records
from .groups import (
    BACKENDS, LEFT, GroupMember, ProcessGroup, Timeout, group_of, is_initialized,
    seconds, world,
)  # fmt: skip
from .watchdog import finish_pending
from .work import end_all, finish_all, wait_until
from ..core import errors


def init_process_group(backend: str | None = None, *, timeout: Timeout = None) -> None:
    """Join the processes that one launcher started, as the world. Every process calls it.

    Args:
        backend: "mpi" or None; "nccl" refuses tensors on the CPU. MPI moves those, NCCL those on
            GPUs; on emulated devices MPI takes its place.
        timeout: seconds, or a timedelta, after which waiting for others is an error; 30 minutes
            by default.
    Raises: DistributedError without mpi4py, for a second world, and for "nccl" without a GPU
        or without NCCL.
    """
    _check_backend("init_process_group", backend)
    timeout_s = seconds("init_process_group", timeout, 1800.0)
    agreement.is_on()
    if is_initialized():
        raise errors.initialized_already()
    if backend == "nccl" and not nccl.is_nccl_available():
        raise errors.needs_nccl("init_process_group", nccl.unavailable_reason())
    try:
        mpi = import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as reason:
        raise errors.no_mpi(reason) from reason
    if world.mpi is None:
        world.mpi = mpi
        # Only now there is a way to wait that ends.
        both = [mpi.COMM_WORLD.Idup() for _ in range(2)]
        group = ProcessGroup("0", "", tuple(range(mpi.COMM_WORLD.size)), timeout_s, mpi.COMM_WORLD)
        world.control = mpi.COMM_SELF
        for _, request in both:
            wait_until(request.Test, "init_process_group", group)
        world.base, world.control = both[0][0], both[1][0]
        if world.base.size > 1:
            sys.excepthook = _EndsAll(sys.excepthook)
        atexit.register(_leave)
    comm = world.base
    name = str(world.made)
    world.made += 1
    made = ProcessGroup(name, backend or "mpi", tuple(range(comm.size)), timeout_s, comm)
    world.groups[name] = GroupMember.WORLD = made


def _check_backend(op: str, backend: Any) -> None:
    if backend is not None and (type(backend) is not str or backend not in BACKENDS):
        rule = f"be one of {', '.join(BACKENDS)}, or None"
        raise errors.wrong_value(op, "backend", rule, backend)


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Forget a group, or all of them where none is given, after what was started has ended."""

    found = group_of("destroy_process_group", group)
    finish_all(None if group is None else found)
    finish_pending(None if group is None else found)
    for closed in world.groups.values():
        if found in (closed, GroupMember.WORLD):
            closed.is_open = False
            nccl.close(closed)
    if found is GroupMember.WORLD:
        world.groups.clear()
        GroupMember.WORLD = None
    else:
        del world.groups[found.name]


def new_group(
    ranks: Sequence[int] | None = None, timeout: Timeout = None, backend: str | None = None
) -> Any:
    """A group of some ranks of the world, in their order. Every member calls it, in one order.

    Returns the group, or `GroupMember.NON_GROUP_MEMBER` in a process that is not in it.
    """
    whole = group_of("new_group", None)
    chosen = whole.ranks if ranks is None else _checked_ranks(ranks, whole.size())
    _check_backend("new_group", backend)
    timeout_s = seconds("new_group", timeout, whole.timeout_s)
    name = str(world.made)
    world.made += 1
    if whole.rank() not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    records.settle()  # the members wait for each other now
    members = world.base.Get_group().Incl(chosen)
    # Tags may be as small as 32767. Source: MPI 4.1, 9.1.2.
    comm = world.base.Create_group(members, tag=world.made % 32767)
    made = ProcessGroup(name, backend or whole.backend, tuple(chosen), timeout_s, comm)
    world.groups[name] = made
    return made


def _checked_ranks(ranks: Any, size: int) -> list[int]:
    try:
        chosen = list(ranks)
    except TypeError:
        raise errors.wrong_type("new_group", "ranks", "be a list of ranks", ranks) from None
    for r in chosen:
        if type(r) is not int:
            raise errors.wrong_type("new_group", "ranks", "be a list of ranks", ranks)
    if not chosen or len(set(chosen)) != len(chosen) or not all(0 <= r < size for r in chosen):
        rule = f"be different ranks in [0, {size - 1}], and not none"
        raise errors.wrong_value("new_group", "ranks", rule, ranks)
    return chosen


# --- the end ------------------------------------------------------------------------------------


class _EndsAll:
    """`sys.excepthook` of a world of several: the traceback, a sentence, and the end of all."""

    def __init__(self, before: Any) -> None:
        self.before = before

    def __call__(
        self, kind: type[BaseException], value: BaseException, trace: TracebackType | None
    ) -> None:
        said = errors.rank_ended(world.base.rank, kind.__name__)
        if self.before is sys.__excepthook__:
            # In one write: other ranks may have the same to say, and lines of theirs come between.
            said = "".join([*traceback.format_exception(kind, value, trace), said])
        else:
            self.before(kind, value, trace)
        sys.stderr.flush()
        os.write(2, f"{said}\n".encode())
        end_all()


def _leave() -> None:
    """At exit: MPI waits for all others then, and they are told not to wait for this one."""
    if world.mpi.Is_finalized():
        return
    if world.broken:
        print(errors.rank_ended(world.base.rank, "an error"), file=sys.stderr)
        end_all()
    for rank in range(world.control.size):
        if rank != world.control.rank:
            world.control.Isend(b"\0", dest=rank, tag=LEFT)
    try:
        finish_all(None)  # MPI uses their memory, which is about to go
        finish_pending(None)
    except errors.GpuTensorError as error:
        print(f"{error}\n{errors.rank_ended(world.base.rank, 'an error')}", file=sys.stderr)
        end_all()
