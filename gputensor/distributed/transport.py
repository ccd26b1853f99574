"""Non-blocking collectives and messages of NumPy arrays by MPI.

A collective returns a Plan, with which distributed/records.py transfers the data after all ranks
agree. A message returns the Work that it started. Arrays must be in memory that MPI can read;
strided arrays are packed first and unpacked at the end. Data is transferred as bytes. This module
handles neither tensors nor devices.

Reductions: f16 and bf16 are added in f32 and rounded once. MIN and MAX of floats call NumPy, which
returns NaN on all ranks if an element is NaN. The result of MPI's own operations would depend on
the order of comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..core import errors
from ..core.dtype import of_ours
from .groups import ProcessGroup, world
from .records import HEAD, RECORD, ROOM, Plan
from .work import Work

Array = np.ndarray[Any, Any]
_BYTE = np.dtype(np.uint8)

REDUCTIONS = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor")
_BITS = frozenset(("band", "bor", "bxor"))
# Reductions of bool, as bitwise operations on 0 and 1.
_OF_BOOL = {"sum": "bor", "max": "bor", "product": "band", "min": "band"}
_MPI_NAMES = {
    "sum": "SUM", "avg": "SUM", "product": "PROD", "min": "MIN", "max": "MAX", "band": "BAND",
    "bor": "BOR", "bxor": "BXOR",
}  # fmt: skip


class Reduction(NamedTuple):
    """A reduction of one dtype, as MPI computes it.

    wide: the dtype of the computation. seen: the dtype that is passed to MPI. Both are None if they
    are the tensor's dtype."""

    op: Any
    wide: Any
    seen: Any
    is_mean: bool


@cache
def reduction(op: str, how: str, dtype: Any) -> Reduction:
    """Return the Reduction with which MPI computes the reduction `how` of a dtype.

    Raises: DtypeError if the dtype does not support the reduction, ArgumentValueError for an
    unknown reduction.
    """
    if how not in REDUCTIONS:
        raise errors.wrong_value(op, "reduce_op", f"be one of {', '.join(REDUCTIONS)}", how)
    mpi, kind = world.mpi, dtype.kind
    is_float = kind == "f" or dtype.name == "bfloat16"
    got = errors.Got(f"{how} of {dtype.name}")
    if dtype.names or dtype.itemsize == 4 and kind == "V":
        raise errors.not_computed(op, "tensor", of_ours(dtype), got)
    if how in _BITS and (is_float or kind == "c"):
        raise errors.wrong_dtype(op, "tensor", "be of integers, or bool", got)
    if how in ("min", "max") and kind == "c":
        raise errors.wrong_dtype(op, "tensor", "be of numbers that have an order", got)
    if how == "avg" and not is_float and kind != "c":
        raise errors.wrong_dtype(op, "tensor", "be of floats, or complex", got)
    if kind == "b":
        name = _MPI_NAMES[_OF_BOOL.get(how, how)]
        return Reduction(getattr(mpi, name), None, np.dtype(np.uint8), False)
    wide = np.dtype(np.float32) if is_float and dtype.itemsize == 2 else None
    if is_float and how in ("min", "max"):
        return Reduction(_extreme(how, wide or dtype), wide, None, False)
    return Reduction(getattr(mpi, _MPI_NAMES[how]), wide, None, how == "avg")


@cache
def _extreme(how: str, dtype: Any) -> Any:
    """Return an MPI operator that calls NumPy's minimum or maximum."""
    function = np.minimum if how == "min" else np.maximum

    def reduce(given: Any, into: Any, datatype: Any) -> None:
        made = np.frombuffer(into, dtype)
        function(np.frombuffer(given, dtype), made, out=made)

    return world.mpi.Op.Create(reduce, commute=True)


def _dense(array: Array) -> Array:
    return array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(array.shape)


def _apart(array: Array, out: Array | None) -> Array:
    """Return a contiguous array that does not share memory with `out`, because MPI must not read
    the memory to which it writes."""
    dense = _dense(array)
    return dense.copy() if out is not None and np.may_share_memory(dense, out) else dense


def _room(array: Array) -> Array:
    """Return contiguous memory for a result: `array` itself if it is contiguous, otherwise a new
    array, which `_put` later copies to `array`."""
    return array if array.flags.c_contiguous else np.empty(array.shape, array.dtype)


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _put(out: Array, room: Array, divide_by: int = 0) -> Any:
    """Return a function that divides the result in `room` by `divide_by`, unless it is 0, and
    copies the result to `out`. Return None if neither is necessary."""
    if not divide_by:
        return None if room is out else lambda: np.copyto(out, room, casting="unsafe")

    def finish() -> None:
        # The real and the imaginary parts are divided separately, because a division by a complex
        # number would convert infinities to NaN.
        parts = room.reshape(-1)
        parts = parts.view(parts.real.dtype)
        np.divide(parts, divide_by, out=parts)
        if room is not out:
            np.copyto(out, room, casting="unsafe")

    return finish


# --- data in records ------------------------------------------------------------------------------

_FUNCTIONS = {
    "sum": np.add, "avg": np.add, "product": np.multiply, "min": np.minimum, "max": np.maximum,
    "band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor,
}  # fmt: skip


def function_of(how: str, dtype: Any) -> Any:
    """Return the NumPy function that reduces two arrays of a dtype. For bool, the arrays are
    uint8."""
    return _FUNCTIONS[_OF_BOOL.get(how, how) if dtype.kind == "b" else how]


def _parts(room: Array, first: int, nbytes: int, dtype: Any) -> Array:
    """Return `nbytes` bytes of each record's data, from byte `first` on, as an array with one row
    for each rank."""
    shape = len(room) // RECORD, nbytes // dtype.itemsize
    return np.ndarray(shape, dtype, room, HEAD + first, (RECORD, dtype.itemsize))


def _reduced(parts: Array, how: str, r: Reduction) -> Array:
    """Reduce the rows in the order of ranks, so that all ranks get bitwise equal results. For bool,
    the rows are uint8."""
    function = _FUNCTIONS[how]
    parts = parts.astype(r.wide) if r.wide is not None else parts
    made: Array = parts[0].copy()
    for part in parts[1:]:
        function(made, part, out=made)
    if r.is_mean:
        real = made.view(made.real.dtype)
        np.divide(real, len(parts), out=real)
    return made


def _arrive_reduced(out: Array | None, how: str, r: Reduction, first: int = 0) -> Any:
    """Return a function that reduces the data of all records, from byte `first` on, into out."""

    def arrive(room: Array) -> None:
        if out is not None:
            seen, kind = r.seen or out.dtype, _OF_BOOL.get(how, how) if r.seen else how
            made = _reduced(_parts(room, first, out.nbytes, seen), kind, r)
            made = made if r.seen is None else made.view(out.dtype)
            np.copyto(out, made.reshape(out.shape), casting="unsafe")

    return arrive


def _arrive(out: Array | None, nbytes: int, first: int = 0, rank: int | None = None) -> Any:
    """Return a function that copies `nbytes` bytes of every rank's record, from byte `first` on, to
    `out`. rank: copy only this rank's record."""

    def arrive(room: Array) -> None:
        if out is not None:
            parts = _parts(room, first, nbytes, _BYTE)
            made = parts if rank is None else parts[rank]
            into = _room(out)
            _bytes(into).reshape(made.shape)[...] = made
            if into is not out:
                np.copyto(out, into)

    return arrive


# --- collectives ----------------------------------------------------------------------------------


def all_reduce(op: str, group: ProcessGroup, x: Array, out: Array, how: str) -> Plan:
    """Reduce x over all ranks into out, which may be x."""
    r = reduction(op, how, x.dtype)
    if x.nbytes <= ROOM:
        arrive = _arrive_reduced(out, how, r)
        return Plan(None, rides=_bytes(_dense(x)), arrive=arrive, held=(x, out))
    room = np.empty(x.shape, r.wide) if r.wide is not None else _room(out)
    buffer = room if r.seen is None else room.view(r.seen)
    if x is not room:
        np.copyto(room, x)
    begin = lambda: group.comm.Iallreduce(world.mpi.IN_PLACE, buffer, r.op)  # noqa: E731
    return Plan(begin, _put(out, room, group.size() if r.is_mean else 0), (buffer, x, out))


def reduce(op: str, group: ProcessGroup, x: Array, out: Array | None, how: str, dst: int) -> Plan:
    """Reduce x over all ranks into the `out` of rank dst; out is None on other ranks."""
    r = reduction(op, how, x.dtype)
    if x.nbytes <= ROOM:
        arrive = _arrive_reduced(out, how, r)
        return Plan(None, rides=_bytes(_dense(x)), arrive=arrive, held=(x, out))
    given = _apart(x if r.wide is None else x.astype(r.wide), out)
    given = given if r.seen is None else given.view(r.seen)
    room = buffer = finish = None
    if out is not None:
        room = np.empty(out.shape, r.wide) if r.wide is not None else _room(out)
        buffer = room if r.seen is None else room.view(r.seen)
        finish = _put(out, room, group.size() if r.is_mean else 0)
    begin = lambda: group.comm.Ireduce(given, buffer, r.op, dst)  # noqa: E731
    return Plan(begin, finish, (given, buffer, out))


def reduce_scatter(op: str, group: ProcessGroup, x: Array, out: Array, how: str) -> Plan:
    """Reduce x over all ranks. Part n of the result goes to the `out` of rank n."""
    r = reduction(op, how, x.dtype)
    if x.nbytes <= ROOM:
        arrive = _arrive_reduced(out, how, r, group.rank() * out.nbytes)
        return Plan(None, rides=_bytes(_dense(x)), arrive=arrive, held=(x, out))
    given = _apart(x if r.wide is None else x.astype(r.wide), out)
    given = given if r.seen is None else given.view(r.seen)
    room = np.empty(out.shape, r.wide) if r.wide is not None else _room(out)
    buffer = room if r.seen is None else room.view(r.seen)
    begin = lambda: group.comm.Ireduce_scatter_block(given, buffer, r.op)  # noqa: E731
    return Plan(begin, _put(out, room, group.size() if r.is_mean else 0), (given, buffer, out))


def all_gather(op: str, group: ProcessGroup, x: Array, out: Array) -> Plan:
    if x.nbytes <= ROOM:
        arrive = _arrive(out, x.nbytes)
        return Plan(None, rides=_bytes(_dense(x)), arrive=arrive, held=(x, out))
    given, room = _bytes(_apart(x, out)), _room(out)
    begin = lambda: group.comm.Iallgather(given, _bytes(room))  # noqa: E731
    return Plan(begin, _put(out, room), (given, room, out))


def gather(op: str, group: ProcessGroup, x: Array, out: Array | None, dst: int) -> Plan:
    if x.nbytes <= ROOM:
        arrive = _arrive(out, x.nbytes)
        return Plan(None, rides=_bytes(_dense(x)), arrive=arrive, held=(x, out))
    given = _bytes(_dense(x))
    room = None if out is None else _room(out)
    into = None if room is None else _bytes(room)
    begin = lambda: group.comm.Igather(given, into, dst)  # noqa: E731
    finish = None if out is None or room is None else _put(out, room)
    return Plan(begin, finish, (given, room, out))


def scatter(op: str, group: ProcessGroup, x: Array | None, out: Array, src: int) -> Plan:
    given = None if x is None else _bytes(_dense(x))
    if out.nbytes * group.size() <= ROOM:
        arrive = _arrive(out, out.nbytes, group.rank() * out.nbytes, src)
        return Plan(None, rides=given, arrive=arrive, held=(x, out))
    room = _room(out)
    begin = lambda: group.comm.Iscatter(given, _bytes(room), src)  # noqa: E731
    return Plan(begin, _put(out, room), (given, room, out))


def broadcast(op: str, group: ProcessGroup, x: Array, src: int) -> Plan:
    is_source = group.rank() == src
    if x.nbytes <= ROOM:
        rides = _bytes(_dense(x)) if is_source else None
        arrive = _arrive(None if is_source else x, x.nbytes, rank=src)
        return Plan(None, rides=rides, arrive=arrive, held=x)
    room = _dense(x) if is_source else _room(x)
    buffer = _bytes(room)
    begin = lambda: group.comm.Ibcast(buffer, src)  # noqa: E731
    return Plan(begin, None if is_source else _put(x, room), (buffer, room, x))


def all_to_all(
    op: str, group: ProcessGroup, x: Array, out: Array, given: Sequence[int], wanted: Sequence[int]
) -> Plan:
    """Send part n of x to rank n. given, wanted: the number of elements sent to each rank, and
    received from each rank."""
    size, dense, room = x.dtype.itemsize, _dense(x), _room(out)
    byte = world.mpi.BYTE
    begin = lambda: group.comm.Ialltoallv(  # noqa: E731
        [_bytes(dense), [n * size for n in given], byte],
        [_bytes(room), [n * size for n in wanted], byte],
    )
    return Plan(begin, _put(out, room), (dense, room, out), splits=(given, wanted))


def barrier(op: str, group: ProcessGroup) -> Plan:
    return Plan(None)


# --- messages -------------------------------------------------------------------------------------


def send(op: str, group: ProcessGroup, x: Array, dst: int, tag: int) -> Work:
    given = _bytes(_dense(x))
    request = group.comm.Isend(given, dst, tag)
    return Work(op, group, request.Test, None, given)


def receive(
    op: str, group: ProcessGroup, out: Array, src: int | None, tag: int, came_from: list[int]
) -> Work:
    """Start to receive from rank src. When the message has arrived, append the sender's rank in the
    group to `came_from`."""
    room = _room(out)
    buffer, status = _bytes(room), world.mpi.Status()
    source = world.mpi.ANY_SOURCE if src is None else src
    request = group.comm.Irecv(buffer, source, tag)
    put = _put(out, room)

    def finish() -> None:
        came_from.append(status.source)
        nbytes = status.Get_count(world.mpi.BYTE)
        if nbytes != buffer.nbytes:
            raise errors.message_differs(op, group.ranks[status.source], nbytes, buffer.nbytes)
        if put is not None:
            put()

    return Work(op, group, lambda: bool(request.Test(status)), finish, (buffer, room, out))
