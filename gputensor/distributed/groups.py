"""Process groups: their ranks, backend and timeout.

The launcher (`mpiexec -n 4 python …`) gives each process its rank in the world. Without a launcher,
the world is this process. distributed/joining.py makes groups.
"""

from __future__ import annotations

import threading
from collections import deque
from datetime import timedelta
from importlib import util
from typing import Any

from ..core import errors

BACKENDS = ("mpi", "nccl")
LEFT = 1  # tag of the message that a process sends when it ends

Timeout = timedelta | float | None


class ProcessGroup:
    """A group of ranks, made by `init_process_group` or `new_group`.

    ranks: the members' ranks in the world, in the group's order.
    """

    __slots__ = ("name", "backend", "ranks", "timeout_s", "comm", "nccl", "is_open", "queue",
                 "advancing", "_rank")  # fmt: skip

    def __init__(
        self, name: str, backend: str, ranks: tuple[int, ...], timeout_s: float, comm: Any
    ) -> None:
        self.name: str = name
        self.backend: str = backend
        self.ranks: tuple[int, ...] = ranks
        self.timeout_s: float = timeout_s
        self.comm: Any = comm
        # nccl: the communicator, which the first collective between GPUs makes. is_open: False
        # after the group is destroyed. queue: the collectives whose data transfer has not started;
        # see Note [A record first] in distributed/records.py.
        self.nccl: Any = None
        self.is_open: bool = True
        self.queue: deque[Any] = deque()
        self.advancing: threading.Lock = threading.Lock()
        self._rank: int = comm.rank

    def rank(self) -> int:
        """This process's rank in the group."""
        return self._rank

    def size(self) -> int:
        """Number of processes in the group."""
        return len(self.ranks)

    def __deepcopy__(self, memo: Any) -> ProcessGroup:
        """Return the group itself: the copy of a module belongs to the same ranks."""
        return self

    def __reduce__(self) -> Any:
        """Raise an error, because a group exists only in its own process."""
        rule, remedy = "stay in its process", "give the ranks to new_group() there"
        raise errors.must("pickle", "group", rule, errors.Got(repr(self)), remedy=remedy,
                          kind=errors.DistributedError)  # fmt: skip

    def __repr__(self) -> str:
        return f"ProcessGroup({self.name!r}, {self.backend}, ranks={self.ranks})"


class GroupMember:
    """Constants: the group of all ranks, and the value that `new_group` returns in a process
    outside the new group."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER: Any = object()


class _World:
    """The state of all groups in this process. `world` is its only instance."""

    def __init__(self) -> None:
        # mpi: the module mpi4py.MPI. control: the communicator for messages without users' data.
        # base: the communicator from which groups are made.
        self.mpi: Any = None
        self.control: Any = None
        self.base: Any = None
        self.groups: dict[str, ProcessGroup] = {}
        self.made = 0  # the number of groups that were made, and the next group's name
        self.gone: set[int] = set()
        self.looking = threading.Lock()
        # The error of a failed call that may have succeeded on other ranks. Empty if no such call
        # failed.
        self.broken = ""

    def look_who_left(self) -> None:
        """Read the messages that processes send when they end.

        Note [Who leaves]: a process that ends sends a message to all others. Waiting processes read
        it, because the message that they wait for may never arrive. A process that ends by an
        exception prints its traceback and aborts all others. If a process is killed, mpiexec ends
        the others.
        """
        # another thread is already reading the messages
        if not self.looking.acquire(blocking=False):
            return
        try:
            status = self.mpi.Status()
            while self.control.Iprobe(source=self.mpi.ANY_SOURCE, tag=LEFT, status=status):
                self.control.Recv(bytearray(1), source=status.source, tag=LEFT)
                self.gone.add(status.source)
        finally:
            self.looking.release()


world = _World()


def is_available() -> bool:
    """Return True if mpi4py, which collectives need, is installed."""
    return util.find_spec("mpi4py") is not None


def is_initialized() -> bool:
    """Return True if there is a process group."""
    return GroupMember.WORLD is not None


def is_mpi_available() -> bool:
    """Return True if the backend "mpi" is available, which requires mpi4py."""
    return is_available()


def seconds(op: str, timeout: Timeout, otherwise: float) -> float:
    """Convert a time limit to seconds."""
    if timeout is None:
        return otherwise
    found = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise errors.wrong_type(op, "timeout", "be seconds or a timedelta", timeout)
    if not found > 0:
        raise errors.wrong_value(op, "timeout", "be positive", timeout)
    try:
        return float(found)
    except OverflowError:
        raise errors.wrong_value(op, "timeout", "be a float", timeout) from None


def group_of(op: str, group: Any) -> ProcessGroup:
    """Return the group; for None the world's group."""
    if group is None:
        whole: ProcessGroup | None = GroupMember.WORLD
        if whole is None:
            raise errors.not_initialized(op)
        return whole
    if GroupMember.WORLD is None:
        raise errors.not_initialized(op)
    if group is GroupMember.NON_GROUP_MEMBER:
        raise errors.not_a_member(op, GroupMember.WORLD._rank)
    if not isinstance(group, ProcessGroup):
        raise errors.wrong_type(op, "group", "be a process group, or None", group)
    if world.groups.get(group.name) is not group:
        raise errors.no_such_group(op, group.name, [*world.groups])
    return group


def group_named(op: str, name: str) -> ProcessGroup:
    """Return the group with this name. Operators take the name as an argument."""
    try:
        return world.groups[name]
    except KeyError:
        raise errors.no_such_group(op, name, [*world.groups]) from None


def get_rank(group: Any = None) -> int:
    """Return this process's rank in a group, by default in the world. Return -1 if the process does
    not belong to the group."""
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    return group_of("get_rank", group).rank()


def get_world_size(group: Any = None) -> int:
    """Return the number of processes in a group, by default in the world. Return -1 if this process
    does not belong to the group."""
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    return group_of("get_world_size", group).size()


def get_backend(group: Any = None) -> str:
    """Return "mpi" or "nccl"."""
    return group_of("get_backend", group).backend


def get_process_group_ranks(group: ProcessGroup | None = None) -> list[int]:
    """Return the world ranks of a group's members."""
    return [*group_of("get_process_group_ranks", group).ranks]


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Convert a rank in a group to a rank in the world."""
    found = group_of("get_global_rank", group)
    if type(group_rank) is not int or not 0 <= group_rank < found.size():
        rule = f"be a rank in [0, {found.size() - 1}]"
        raise errors.wrong_value("get_global_rank", "group_rank", rule, group_rank)
    return found.ranks[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Convert a rank in the world to a rank in a group."""
    return rank_in("get_group_rank", "global_rank", group_of("get_group_rank", group), global_rank)


def chosen_rank(op: str, arg: str, group: ProcessGroup, of_world: Any, of_group: Any) -> int:
    """Return a rank in a group. It was given either as a rank in the world or as a rank in the
    group, in the argument `group_{arg}`."""
    if of_group is None:
        return rank_in(op, arg, group, of_world)
    if of_world is not None:
        raise errors.must(op, arg, f"not be given together with group_{arg}", of_world)
    if type(of_group) is not int or not 0 <= of_group < group.size():
        rule = f"be a rank in [0, {group.size() - 1}]"
        raise errors.wrong_value(op, f"group_{arg}", rule, of_group)
    return of_group


def rank_in(op: str, arg: str, group: ProcessGroup, global_rank: Any) -> int:
    """Convert a rank in the world to a rank in a group. Raises: ArgumentValueError if it does not
    belong to the group."""
    if type(global_rank) is not int:
        raise errors.wrong_type(op, arg, "be a rank", global_rank)
    if global_rank not in group.ranks:
        rule = f"be one of the group's ranks, {', '.join(map(str, group.ranks))}"
        raise errors.wrong_value(op, arg, rule, global_rank)
    return group.ranks.index(global_rank)
