"""Process groups: who takes part, by which engine, and for how long one waits for the others.

One process has one rank of the world, which the launcher gives (`mpiexec -n 4 python …`); without
one the world is this process. What makes groups is in distributed/joining.py.
"""

from __future__ import annotations

import threading
from collections import deque
from datetime import timedelta
from importlib import util
from typing import Any

from ..core import errors

BACKENDS = ("mpi", "nccl")
LEFT = 1  # tag of the message of a process that ends

Timeout = timedelta | float | None


class ProcessGroup:
    """Ranks that work together. Made by `init_process_group` and `new_group`.

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
        self.nccl: Any = None  # distributed/nccl, once a tensor of a GPU was moved
        self.is_open: bool = True  # until it is destroyed
        # Collectives whose data has not been started: Note [A record first], distributed/records.py
        self.queue: deque[Any] = deque()
        self.advancing: threading.Lock = threading.Lock()
        self._rank: int = comm.rank

    def rank(self) -> int:
        """This process's rank in the group."""
        return self._rank

    def size(self) -> int:
        """How many processes are in it."""
        return len(self.ranks)

    def __deepcopy__(self, memo: Any) -> ProcessGroup:
        """This: copies of a module work with the same ranks."""
        return self

    def __reduce__(self) -> Any:
        """Refused: another process is of other groups."""
        rule, remedy = "stay in its process", "give the ranks to new_group() there"
        raise errors.must("pickle", "group", rule, errors.Got(repr(self)), remedy=remedy,
                          kind=errors.DistributedError)  # fmt: skip

    def __repr__(self) -> str:
        return f"ProcessGroup({self.name!r}, {self.backend}, ranks={self.ranks})"


class GroupMember:
    """What stands for groups: of the whole world, and of one that this process is not in."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER: Any = object()


class _World:
    """What this process knows of the world; one object, `world`."""

    def __init__(self) -> None:
        self.mpi: Any = None  # the module mpi4py.MPI
        self.control: Any = None  # a communicator for what is not users' data
        self.base: Any = None  # what groups are made of
        self.groups: dict[str, ProcessGroup] = {}
        self.made = 0  # groups so far: their names
        self.gone: set[int] = set()
        self.looking = threading.Lock()
        self.broken = ""  # why, once a call has failed on some ranks and may not have on others

    def look_who_left(self) -> None:
        """Note [Who leaves]: a process that ends sends every other one a message, which those read
        who wait: what they wait for may never come. One that ends by an exception ends all others
        at once, as its traceback tells the reason; and one that is killed is mpiexec's matter,
        which ends the rest."""
        if not self.looking.acquire(blocking=False):  # another thread would take the message
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
    """Whether mpi4py is installed, which collectives are made by."""
    return util.find_spec("mpi4py") is not None


def is_initialized() -> bool:
    """Whether there is a process group."""
    return GroupMember.WORLD is not None


def is_mpi_available() -> bool:
    """Whether backend "mpi" can be had: whether mpi4py is installed."""
    return is_available()


def seconds(op: str, timeout: Timeout, otherwise: float) -> float:
    """A time limit in seconds."""
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
    """The group that is meant: the world's where none is given."""
    if group is None:
        group = GroupMember.WORLD
        if group is None:
            raise errors.not_initialized(op)
        return group  # type: ignore[no-any-return]
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
    """The group of a name, which operators are given."""
    try:
        return world.groups[name]
    except KeyError:
        raise errors.no_such_group(op, name, [*world.groups]) from None


def get_rank(group: Any = None) -> int:
    """This process's rank in a group, in the world by default; -1 if it is not in it."""
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    return group_of("get_rank", group).rank()


def get_world_size(group: Any = None) -> int:
    """How many processes are in a group, in the world by default; -1 for one without this."""
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    return group_of("get_world_size", group).size()


def get_backend(group: Any = None) -> str:
    """ "mpi" or "nccl"."""
    return group_of("get_backend", group).backend


def get_process_group_ranks(group: ProcessGroup | None = None) -> list[int]:
    """The members' ranks in the world."""
    return [*group_of("get_process_group_ranks", group).ranks]


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The rank in the world of a group's member."""
    found = group_of("get_global_rank", group)
    if type(group_rank) is not int or not 0 <= group_rank < found.size():
        rule = f"be a rank in [0, {found.size() - 1}]"
        raise errors.wrong_value("get_global_rank", "group_rank", rule, group_rank)
    return found.ranks[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The rank in a group of one of the world."""
    return rank_in("get_group_rank", "global_rank", group_of("get_group_rank", group), global_rank)


def rank_in(op: str, arg: str, group: ProcessGroup, global_rank: Any) -> int:
    """A rank of the world as one of the group. Raises: ArgumentValueError if it is not in it."""
    if type(global_rank) is not int:
        raise errors.wrong_type(op, arg, "be a rank", global_rank)
    if global_rank not in group.ranks:
        rule = f"be one of the group's ranks, {', '.join(map(str, group.ranks))}"
        raise errors.wrong_value(op, arg, rule, global_rank)
    return group.ranks.index(global_rank)
