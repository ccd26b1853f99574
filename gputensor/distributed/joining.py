"""Functions with which processes join the world, form groups, and leave.

`init_process_group` imports and starts MPI. When a process ends, with or without an exception, the
others do not wait for it: see Note [Who leaves] in distributed/groups.py.
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

from . import nccl, records
from .groups import (
    BACKENDS, LEFT, GroupMember, ProcessGroup, Timeout, group_of, is_initialized,
    seconds, world,
)  # fmt: skip
from .watchdog import finish_pending
from .work import end_all, finish_all, wait_until
from ..core import errors
from ..core.arguments import flag


def init_process_group(backend: str | None = None, *, timeout: Timeout = None) -> None:
    """Join the processes of one launcher as the world. Every process must call it.

    Args:
        backend: "mpi" or None: MPI transfers tensors on the CPU and on emulated devices, NCCL
            transfers tensors on GPUs. "nccl": the same, but tensors on the CPU raise.
        timeout: seconds, or a timedelta, after which waiting for other ranks raises; by default
            30 minutes.
    Raises: DistributedError if mpi4py is missing, if there is a world already, and for "nccl" if a
        GPU or NCCL is missing.
    """
    _check_backend("init_process_group", backend)
    timeout_s = seconds("init_process_group", timeout, 1800.0)
    records.is_detailed()
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
        # Idup does not block, so `wait_until` can limit the wait.
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
    """Wait for a group's collectives, then destroy the group. By default destroy all groups."""

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
    ranks: Sequence[int] | None = None, timeout: Timeout = None, backend: str | None = None,
    sort_ranks: bool = True,
) -> Any:  # fmt: skip
    """Make a group of some ranks of the world. All members must call it, in the same order.

    sort_ranks: number the group's ranks in the order of the world; otherwise in the order of
    `ranks`.
    Returns the group, or `GroupMember.NON_GROUP_MEMBER` in a process that is not a member.
    """
    whole = group_of("new_group", None)
    chosen = whole.ranks if ranks is None else _checked_ranks(ranks, whole.size())
    chosen = sorted(chosen) if flag("new_group", "sort_ranks", sort_ranks) else chosen
    _check_backend("new_group", backend)
    timeout_s = seconds("new_group", timeout, whole.timeout_s)
    name = str(world.made)
    world.made += 1
    if whole.rank() not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    records.settle()  # Create_group waits for all members
    members = world.base.Get_group().Incl(chosen)
    # MPI guarantees tags up to 32767. Source: MPI 4.1, 9.1.2.
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


# --- leaving ------------------------------------------------------------------------------------


class _EndsAll:
    """The `sys.excepthook` in a world of several processes: print the traceback and abort all
    processes."""

    def __init__(self, before: Any) -> None:
        self.before = before

    def __call__(
        self, kind: type[BaseException], value: BaseException, trace: TracebackType | None
    ) -> None:
        said = errors.rank_ended(world.base.rank, kind.__name__)
        if self.before is sys.__excepthook__:
            # a single write, so that output of other ranks cannot come between the lines
            said = "".join([*traceback.format_exception(kind, value, trace), said])
        else:
            self.before(kind, value, trace)
        sys.stderr.flush()
        os.write(2, f"{said}\n".encode())
        end_all()


def _leave() -> None:
    """At exit, notify the other ranks and finish this rank's work."""
    if world.mpi.Is_finalized():
        return
    if world.broken:
        print(errors.rank_ended(world.base.rank, "an error"), file=sys.stderr)
        end_all()
    for rank in range(world.control.size):
        if rank != world.control.rank:
            world.control.Isend(b"\0", dest=rank, tag=LEFT)
    try:
        finish_all(None)  # MPI may use tensors that are freed at exit
        finish_pending(None)
    except errors.GpuTensorError as error:
        print(f"{error}\n{errors.rank_ended(world.base.rank, 'an error')}", file=sys.stderr)
        end_all()
