"""Short cuts of collectives that are waited for at once: past dispatcher, Work and clocks to MPI.

Those of 4 bytes take MPI 2 us and a call through the dispatcher four times that. The kernels of
distributed/operators.py leave them on their operators' tables by Note [Short cuts] in
dispatch/shortcuts.py, under (geometries, what is computed, group); the functions of
distributed/collectives.py look there, as only they know that nobody asks for a Work. A short cut
starts what the kernel starts, of the same bytes, so that ranks may go either way; it looks at no
clock until MPI was asked `_HOT` times, and then waits as everybody does, so that what is told of
lost ranks and time limits is the same. Strided tensors, dtypes that are reduced in another, and the
debug mode have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import agreement, transport
from .groups import ProcessGroup, world
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


def all_reduce(table: Table, kernel: Any, given: Tensor, group: ProcessGroup, how: str) -> None:
    """Leave one for tensors of that geometry."""
    g = given._geometry
    key = g, how, group
    if _is_known(table, key, given, group):
        return
    r = transport.reduction("all_reduce", how, g.dtype.np)
    if r.wide is not None or r.is_mean:
        return
    begin, in_place, operation, seen = group.comm.Iallreduce, world.mpi.IN_PLACE, r.op, r.seen

    def short(x: Any) -> Any:
        if not _is_plain(x, group):
            return None
        array = x._array
        if array is None:
            array = x._get_array()
        buffer = array if seen is None else array.view(seen)
        storage = x._storage
        if storage is None:
            storage = x._get_storage()
        _end(begin, (in_place, buffer, operation), "all_reduce", group, storage)
        storage.version += 1
        return x

    shortcuts.learn(table, kernel, key, short)


def broadcast(table: Table, kernel: Any, given: Tensor, group: ProcessGroup, src: int) -> None:
    """Leave one for tensors of that geometry. src: a rank in the group."""
    g = given._geometry
    key = g, src, group
    if _is_known(table, key, given, group):
        return
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
        _end(begin, ([array, nbytes, byte], src), "broadcast", group, storage)
        storage.version += 1
        return x

    shortcuts.learn(table, kernel, key, short)


def all_gather(table: Table, kernel: Any, given: Tensor, made: Tensor, group: ProcessGroup) -> None:
    """Leave one for an input and an output of these geometries."""
    g = given._geometry
    key = g, made._geometry, group
    if _is_known(table, key, given, group) or not made._geometry.is_contiguous:
        return
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
        if x._storage is storage or storage.is_shared:
            return None
        given = [array, nbytes, byte], [into, nbytes, byte]
        _end(begin, given, "all_gather_into_tensor", group, (x, storage))
        storage.version += 1
        return out

    shortcuts.learn(table, kernel, key, short)


def _is_known(table: Table, key: Any, x: Tensor, group: ProcessGroup) -> bool:
    """Whether there is a short cut, or can be none: for what NumPy hands to nobody as a buffer."""
    g = x._geometry
    has_none = x._device is not CPU or not g.is_contiguous or g.dtype.np.kind == "V"
    return key in table.short or has_none or group.backend == "nccl" or agreement.is_on()


def _is_plain(x: Any, group: ProcessGroup) -> bool:
    return (
        x._keys is CPU_KEYS and x._autograd is None and _now() is PLAIN and group.is_open
        and not world.broken
    )  # fmt: skip


def _end(
    begin: Callable[..., Any], given: tuple[Any, ...], op: str, group: ProcessGroup, held: Any
) -> None:
    """Start a request and return when it has ended. held: whose memory it reads and writes."""
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
    except BaseException:  # an interrupt: MPI still has the memory
        Work(op, group, test, None, (given, held))
        raise
    Work(op, group, test, None, (given, held)).wait()
