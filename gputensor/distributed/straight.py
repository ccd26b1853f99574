"""Short cuts of synchronous collectives: they call MPI without the dispatcher, a Work or a timeout.

A collective of 4 bytes takes 2 us in MPI, and four times as long through the dispatcher. The
kernels of distributed/operators.py store short cuts on their operators' tables (Note [Short cuts]
in dispatch/shortcuts.py) under (geometries, reduction or root, group). The functions of
distributed/collectives.py look them up, because only these functions receive `async_op`. A short
cut sends the same messages as the kernel (Note [A record first] in distributed/records.py), so
ranks with and without a short cut can take part in one collective. If MPI has not finished after
`_HOT` polls, the short cut makes a Work, which continues the collective and reports lost ranks and
timeouts. Strided tensors, dtypes that are reduced in a wider dtype, and the debug mode have no
short cuts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import records, transport
from .groups import ProcessGroup, world
from .records import HEAD, RECORD, ROOM, Agreement, Plan
from .work import Work, _broken
from ..core import errors
from ..core.device import CPU
from ..dispatch import shortcuts
from ..dispatch.operator import Table
from ..dispatch.tls import PLAIN, state
from ..tensor.make import CPU_KEYS
from ..tensor.tensor import Tensor

_HOT = (None,) * 200
_now = state.get
Array = records.Array


class _Records:
    """Memory for the records of one call, and views of it.

    given, parts: the data space of the sent record and of each received record, as arrays of the
    operand's shape; None and empty if the operand does not fit into a record.
    """

    __slots__ = ("sent", "room", "digests", "arguments", "given", "parts")

    def __init__(self, what: str, group: ProcessGroup, shape: Any, dtype: Any, fits: bool) -> None:
        n, byte = group.size(), world.mpi.BYTE
        self.sent, self.room = records.buffers(what, n)
        self.digests: Array = self.room.view(np.uint64)[:: RECORD // 8]
        self.arguments: Any = [self.sent, RECORD, byte], [self.room, RECORD, byte]
        self.given: Any = np.ndarray(shape, dtype, self.sent, HEAD) if fits else None
        offsets = range(HEAD, n * RECORD, RECORD) if fits else ()
        self.parts: list[Array] = [np.ndarray(shape, dtype, self.room, at) for at in offsets]


class _Way:
    """One collective for operands of one geometry. Its calls differ only in their arrays."""

    __slots__ = ("op", "group", "what", "shape", "dtype", "fits", "plan_of", "spare", "begin",
                 "own", "size")  # fmt: skip

    def __init__(
        self, op: str, group: ProcessGroup, what: str, like: Any, plan_of: Callable[..., Plan]
    ) -> None:
        """like: the operand's geometry. plan_of: a function that makes the Plan for arrays."""
        self.op, self.group, self.what, self.plan_of = op, group, what, plan_of
        self.shape, self.dtype = like.sizes, like.dtype.np
        self.fits: bool = like.nbytes <= ROOM
        self.spare: list[_Records] = []
        self.begin: Any = group.comm.Iallgather
        self.own: int = int.from_bytes(records.head_of(what)[:8], "little")
        self.size: int = group.size()

    def take(self) -> _Records:
        """Return records that are not in use by another call."""
        try:
            return self.spare.pop()
        except IndexError:
            kind = np.dtype(np.uint8) if self.dtype.kind == "b" else self.dtype
            return _Records(self.what, self.group, self.shape, kind, self.fits)

    def exchange(self, of: _Records, arrays: Any, held: Any) -> bool:
        """Exchange the records of one call with all ranks. Return True if all records arrived and
        are equal. If MPI has not finished after `_HOT` polls, complete the collective by a Work and
        return False.

        arrays: arguments of `plan_of`. held: owners of the arrays' memory. Raises: DistributedError
        if calls differ.
        """
        try:
            test = self.begin(*of.arguments).Test
        except world.mpi.Exception as reason:
            raise _broken(self.op, errors.mpi_failed(self.op, reason)) from None
        is_here = False
        try:
            for _ in _HOT:
                if test():
                    is_here = True
                    break
        except world.mpi.Exception as reason:
            raise _broken(self.op, errors.mpi_failed(self.op, reason)) from None
        # after an interrupt, a Work continues the collective: MPI still uses the memory, and the
        # other ranks continue
        except BaseException:
            self.hand_over(of, test, arrays, held)
            raise
        if not is_here:
            self.hand_over(of, test, arrays, held).wait()
            return False
        if of.digests.tolist().count(self.own) != self.size:
            raise records.difference(self.op, self.group, of.room)  # type: ignore[misc]
        return True

    def hand_over(self, of: _Records, test: Any, arrays: Any, held: Any) -> Work:
        """Return a Work that continues the collective after its record was sent."""
        plan = self.plan_of(*arrays)
        made = Agreement(self.op, self.group, self.what, plan._replace(held=(plan.held, held)))
        made.sent, made.room, made.record = of.sent, of.room, test
        return records.resume(made)


def all_reduce(
    table: Table, kernel: Any, given: Tensor, group: ProcessGroup, how: str, what: str
) -> None:
    """Store a short cut for tensors with the geometry of `given`."""
    g = given._geometry
    key = g, how, group
    if _is_known(table, key, given, group):
        return
    r = transport.reduction("all_reduce", how, g.dtype.np)
    if r.wide is not None or r.is_mean:
        return
    plan_of = lambda x: transport.all_reduce("all_reduce", group, x, x, how)  # noqa: E731
    way = _Way("all_reduce", group, what, g, plan_of)
    function, seen, ranks = transport.function_of(how, g.dtype.np), r.seen, group.size()
    begin, in_place, operation = group.comm.Iallreduce, world.mpi.IN_PLACE, r.op

    def short(x: Any) -> Any:
        if not _is_plain(x, group):
            return None
        array = x._array
        if array is None:
            array = x._get_array()
        storage = x._storage
        if storage is None:
            storage = x._get_storage()
        of = way.take()
        buffer = array if seen is None else array.view(seen)
        if way.fits:
            of.given[...] = buffer
            if way.exchange(of, (array,), storage):
                parts = of.parts
                if ranks == 2:
                    function(parts[0], parts[1], buffer)
                elif ranks > 2:
                    function(parts[0], parts[1], buffer)
                    for part in parts[2:]:
                        function(buffer, part, buffer)
                way.spare.append(of)
        elif way.exchange(of, (array,), storage):
            way.spare.append(of)
            _end(begin, (in_place, buffer, operation), "all_reduce", group, storage)
        storage.version += 1
        return x

    shortcuts.learn(table, kernel, key, short)


def broadcast(
    table: Table, kernel: Any, given: Tensor, group: ProcessGroup, src: int, what: str
) -> None:
    """Store a short cut for tensors with the geometry of `given`. src: a rank in the group."""
    g = given._geometry
    key = g, src, group
    if _is_known(table, key, given, group):
        return
    plan_of = lambda x: transport.broadcast("broadcast", group, x, src)  # noqa: E731
    way, is_source = _Way("broadcast", group, what, g, plan_of), group.rank() == src
    begin, byte, nbytes = group.comm.Ibcast, world.mpi.BYTE, g.nbytes

    def short(x: Any) -> Any:
        if not _is_plain(x, group):
            return None
        array = x._array
        if array is None:
            array = x._get_array()
        storage = x._storage
        if storage is None:
            storage = x._get_storage()
        of = way.take()
        if way.fits and is_source:
            of.given[...] = array
        if way.exchange(of, (array,), storage):
            if not way.fits:
                way.spare.append(of)
                _end(begin, ([array, nbytes, byte], src), "broadcast", group, storage)
            else:
                if not is_source:
                    array[...] = of.parts[src]
                way.spare.append(of)
        storage.version += 1
        return x

    shortcuts.learn(table, kernel, key, short)


def all_gather(
    table: Table, kernel: Any, given: Tensor, made: Tensor, group: ProcessGroup, what: str
) -> None:
    """Store a short cut for inputs and outputs of these geometries."""
    g = given._geometry
    key = g, made._geometry, group
    if _is_known(table, key, given, group) or not made._geometry.is_contiguous:
        return
    op = "all_gather_into_tensor"
    plan_of = lambda x, out: transport.all_gather(op, group, x, out)  # noqa: E731
    way, whole = _Way(op, group, what, g, plan_of), (group.size(), *g.sizes)
    begin, byte, nbytes = group.comm.Iallgather, world.mpi.BYTE, g.nbytes

    def short(x: Any, out: Any) -> Any:
        if not _is_plain(out, group) or x._keys is not CPU_KEYS or x._autograd is not None:
            return None
        array, into = x._array, out._array
        if array is None:
            array = x._get_array()
        if into is None:
            into = out._get_array()
        storage = out._storage
        if storage is None:
            storage = out._get_storage()
        if x._storage is storage or storage.may_alias:
            return None
        of = way.take()
        if way.fits:
            of.given[...] = array
        if way.exchange(of, (array, into), (x, storage)):
            if not way.fits:
                way.spare.append(of)
                arguments = [array, nbytes, byte], [into, nbytes, byte]
                _end(begin, arguments, op, group, (x, storage))
            else:
                rows = into.reshape(whole)
                for place, part in enumerate(of.parts):
                    rows[place] = part
                way.spare.append(of)
        storage.version += 1
        return out

    shortcuts.learn(table, kernel, key, short)


def _is_known(table: Table, key: Any, x: Tensor, group: ProcessGroup) -> bool:
    """Return True if a short cut exists or cannot exist. For example, dtypes of kind V have no
    short cuts, because their arrays have no buffer."""
    g = x._geometry
    has_none = x._device is not CPU or not g.is_contiguous or g.dtype.np.kind == "V"
    return key in table.short or has_none or group.backend == "nccl" or records.is_detailed()


def _is_plain(x: Any, group: ProcessGroup) -> bool:
    return (
        x._keys is CPU_KEYS and x._autograd is None and _now() is PLAIN and group.is_open
        and not group.queue and not world.broken
    )  # fmt: skip


def _end(
    begin: Callable[..., Any], given: tuple[Any, ...], op: str, group: ProcessGroup, held: Any
) -> None:
    """Start a request and wait for it. held: owners of the memory that the request reads and
    writes."""
    try:
        test = begin(*given).Test
    except world.mpi.Exception as reason:
        raise _broken(op, errors.mpi_failed(op, reason)) from None
    try:
        for _ in _HOT:
            if test():
                return
    except world.mpi.Exception as reason:
        raise _broken(op, errors.mpi_failed(op, reason)) from None
    except BaseException:  # wait even after an interrupt, because MPI still uses the memory
        Work(op, group, test, None, (given, held))
        raise
    Work(op, group, test, None, (given, held)).wait()
