"""Collectives of tensors between GPUs by NCCL, through CuPy's `NcclCommunicator`.

The functions have the interface of distributed/transport.py. Our kernels pack the operands on the
current stream. NCCL works on its own stream, which waits for the current stream by an event.
`Work.wait` makes the stream that is current at that time wait for NCCL's stream, and unpacks the
results there. Before a launch the hosts agree on the call (distributed/records.py). No host waits
for a GPU. distributed/watchdog.py reports collectives that never end. Data is transferred as bytes;
distributed/nccl/reductions.py prepares reductions.

Note [One seam to NCCL] All calls of NCCL use the module that `runtime.cuda().nccl()` returns:
CuPy's NCCL module, or None on emulated devices. Tests replace it by an object with the signatures
of CuPy's class, which transfers emulated memory by MPI, in the order of the emulator's streams.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from ... import runtime
from ..._generated import calls
from ...core import errors, memory_format as formats
from ...runtime import capture
from ...tensor.tensor import Tensor
from .. import records
from . import reductions
from ..groups import ProcessGroup
from .reductions import reduction as reduction
from ..watchdog import OnStream, watching
from ..work import Work, _broken, wait_until

_UNIQUE_ID_BYTES = 128  # Source: nccl.h, NCCL_UNIQUE_ID_BYTES.

# _local.batch: the calls collected in this thread's current block of `coalesced`, or None.
_local = threading.local()


def unavailable_reason() -> str | None:
    """Return the reason why NCCL is not available for this process's GPUs, or None if it is
    available."""
    device_runtime = runtime.cuda()
    if not device_runtime.is_available():
        return str(device_runtime.unavailable_reason())
    try:
        return None if _found() is not None else "devices are emulated"
    except ImportError as reason:
        return str(reason)


def is_nccl_available() -> bool:
    """Return True if the backend "nccl" is available. It needs GPUs and NCCL, or emulated devices,
    which use MPI instead."""
    device_runtime = runtime.cuda()
    is_emulated = device_runtime.is_available() and device_runtime.is_emulated
    return bool(is_emulated or unavailable_reason() is None)


@cache
def _found() -> Any:
    return runtime.cuda().nccl()


def library(op: str) -> Any:
    """Return CuPy's module of NCCL, or None for emulated devices. Raises: DistributedError if NCCL
    is missing."""
    try:
        return _found()
    except ImportError as reason:
        raise errors.needs_nccl(op, reason) from None


class Communicator:
    """The NCCL communicator of a group on one device, with the stream on which its calls run."""

    __slots__ = ("nccl", "stream", "index", "library")

    def __init__(self, op: str, group: ProcessGroup, index: int) -> None:
        self.library: Any = library(op)
        self.index: int = index
        # MPI sends NCCL's unique id and waits for all ranks. If a rank is lost, a wait for MPI ends
        # by a timeout, but a wait for NCCL never ends.
        records.settle()
        name = bytearray(_UNIQUE_ID_BYTES)
        if group.rank() == 0:
            name[:] = bytes(self.library.get_unique_id())
        wait_until(group.comm.Ibcast(name, 0).Test, op, group)
        wait_until(group.comm.Ibarrier().Test, op, group)
        device_runtime = runtime.cuda()
        before = device_runtime.exchange_device(index)
        try:
            make = self.library.NcclCommunicator
            self.nccl: Any = make(group.size(), bytes(name), group.rank())
        except self.library.NcclError as reason:
            raise _broken(op, errors.nccl_failed(op, reason)) from None
        finally:
            device_runtime.exchange_device(before)
        self.stream: Any = device_runtime.Stream(index)


def communicator(op: str, group: ProcessGroup, x: Tensor) -> Communicator:
    """Return the group's communicator. The first collective creates it, on all ranks."""
    index = x._device.index or 0
    found: Communicator | None = group.nccl
    if found is None:
        found = group.nccl = Communicator(op, group, index)
    if found.index != index:
        raise errors.another_device(op, group.name, found.index, index)
    return found


def close(group: ProcessGroup) -> None:
    """Destroy the group's NCCL communicator. All work queued on it must have ended."""
    found, group.nccl = group.nccl, None
    if found is not None:
        found.nccl.destroy()


# --- starting a call ------------------------------------------------------------------------------

Call = Callable[[Any, int], None]  # arguments: NCCL's communicator, a stream's handle


def _start(
    op: str, group: ProcessGroup, x: Tensor, call: Call | None, finish: Callable[[], None] | None,
    held: tuple[Any, ...],
) -> Work:  # fmt: skip
    """Launch a call, or add it to the current batch. call: None if there is no data to transfer."""
    by = communicator(op, group, x)
    current = runtime.cuda().current_stream(by.index)
    if capture.of(current) is not None:
        raise errors.capture_refused(op, "all ranks would have to capture it, and replay together")
    work = OnStream(op, group, finish, held, by)
    batch = getattr(_local, "batch", None)
    if batch is None:
        _launch(op, group, by, [(call, work)])
    else:
        batch.append((call, work))
    return work


def _launch(
    op: str, group: ProcessGroup, by: Communicator, batch: list[tuple[Call | None, OnStream]]
) -> None:
    device_runtime = runtime.cuda()
    by.stream.wait_stream(device_runtime.current_stream(by.index))
    before = device_runtime.exchange_device(by.index)
    try:
        with watching([work for _, work in batch], by.stream):
            by.library.groupStart()
            try:
                for call, _ in batch:
                    if call is not None:
                        call(by.nccl, by.stream.ptr)
            finally:
                by.library.groupEnd()
    except by.library.NcclError as reason:
        raise _broken(op, errors.nccl_failed(op, reason)) from None
    finally:
        device_runtime.exchange_device(before)


@contextmanager
def coalesced(op: str, group: ProcessGroup) -> Iterator[None]:
    """Collect the block's calls and launch them together at its end. If the block raises, launch
    none."""
    batch: list[tuple[Call | None, OnStream]] = []
    _local.batch = batch
    try:
        yield
    finally:
        _local.batch = None
    if batch:
        _launch(op, group, batch[0][1].by, batch)


# --- layouts --------------------------------------------------------------------------------------


def _dense(x: Tensor) -> Tensor:
    if x._geometry.is_contiguous:
        return x
    return calls.clone(x, memory_format=formats.contiguous_format)


def _room(x: Tensor) -> Tensor:
    """Return contiguous memory for a result: x itself, or a new tensor that `_put` later copies to
    x."""
    if x._geometry.is_contiguous:
        return x
    return calls.empty_like(x, memory_format=formats.contiguous_format)


def _put(out: Tensor, room: Tensor) -> Callable[[], None] | None:
    if room is out:
        return None
    return lambda: reductions.put(out, room)


def _of(x: Tensor, element: int = 0) -> int:
    """Return the address of an element of a contiguous tensor."""
    return x._address() + element * x._geometry.dtype.itemsize


# --- collectives ----------------------------------------------------------------------------------


def all_reduce(op: str, group: ProcessGroup, x: Tensor, out: Tensor, how: str) -> Work:
    """Reduce x over all ranks into out, which may be x."""
    r = reduction(op, how, x._geometry.dtype.np)
    lib = library(op)
    if r.encode is not None:
        sent = room = r.encode(x)
    else:
        sent = _dense(x)
        room = sent if x is out else _room(out)
    given = _of(sent), _of(room), sent._geometry.numel * r.parts, r.dtype_of(lib), r.op_of(lib)
    finish = _put(out, room) if r.decode is None else _decoded(r, out, room)
    call = None if not given[2] else lambda nccl, stream: nccl.allReduce(*given, stream)
    return _start(op, group, x, call, finish, (sent, room, out))


def _decoded(r: reductions.Reduction, out: Tensor, room: Tensor) -> Callable[[], None]:
    return lambda: reductions.put(out, r.decode(room))  # type: ignore[misc]


def reduce(op: str, group: ProcessGroup, x: Tensor, out: Tensor | None, how: str, dst: int) -> Work:
    """Reduce x over all ranks into the `out` of rank dst; out is None on other ranks."""
    r = reduction(op, how, x._geometry.dtype.np)
    lib = library(op)
    sent = _dense(x) if r.encode is None else r.encode(x)
    room = sent if out is None or r.encode is not None else _room(out)
    numel = sent._geometry.numel * r.parts
    given = _of(sent), _of(room), numel, r.dtype_of(lib), r.op_of(lib), dst
    finish = None
    if out is not None:
        finish = _put(out, room) if r.decode is None else _decoded(r, out, room)
    call = None if not numel else lambda nccl, stream: nccl.reduce(*given, stream)
    return _start(op, group, x, call, finish, (sent, room, out))


def _apart(sent: Tensor, room: Tensor, place: int) -> Tensor:
    """Return `sent`, or a copy if NCCL must not read `sent` while it writes to `room`.

    If both share memory, NCCL requires that `sent` is the rank's own part of `room`, at `place`.
    Source: NCCL's User Guide, In-place Operations.
    """
    if sent._storage is not room._storage or _of(sent) == place:
        return sent
    return calls.clone(sent)


def reduce_scatter(op: str, group: ProcessGroup, x: Tensor, out: Tensor, how: str) -> Work:
    """Reduce x over all ranks. Part n of the result goes to the `out` of rank n."""
    r = reduction(op, how, x._geometry.dtype.np)
    lib = library(op)
    sent = _dense(x) if r.encode is None else r.encode(x)
    room = _room(out)
    if r.encode is not None:
        room = calls.empty_like(
            out, dtype=sent._geometry.dtype, memory_format=formats.contiguous_format
        )
    sent = _apart(sent, room, _of(room) - group.rank() * room._geometry.nbytes)
    numel = out._geometry.numel * r.parts
    given = _of(sent), _of(room), numel, r.dtype_of(lib), r.op_of(lib)
    finish = _put(out, room) if r.decode is None else _decoded(r, out, room)
    call = None if not numel else lambda nccl, stream: nccl.reduceScatter(*given, stream)
    return _start(op, group, x, call, finish, (sent, room, out))


def all_gather(op: str, group: ProcessGroup, x: Tensor, out: Tensor) -> Work:
    nbytes, room = x._geometry.nbytes, _room(out)
    sent = _apart(_dense(x), room, _of(room) + group.rank() * nbytes)
    given = _of(sent), _of(room), nbytes, library(op).NCCL_UINT8
    call = None if not given[2] else lambda nccl, stream: nccl.allGather(*given, stream)
    return _start(op, group, x, call, _put(out, room), (sent, room, out))


def broadcast(op: str, group: ProcessGroup, x: Tensor, src: int) -> Work:
    is_source = group.rank() == src
    room = _dense(x) if is_source else _room(x)
    given = _of(room), _of(room), x._geometry.nbytes, library(op).NCCL_UINT8, src
    call = None if not given[2] else lambda nccl, stream: nccl.broadcast(*given, stream)
    return _start(op, group, x, call, None if is_source else _put(x, room), (room, x))


def gather(op: str, group: ProcessGroup, x: Tensor, out: Tensor | None, dst: int) -> Work:
    sent = _dense(x)
    nbytes, n = x._geometry.nbytes, group.size()
    given = [nbytes if rank == dst else 0 for rank in range(n)]
    room = None if out is None else _room(out)
    wanted = [0 if room is None else nbytes] * n
    finish = None if out is None or room is None else _put(out, room)
    call = _exchange(op, sent, given, sent if room is None else room, wanted)
    return _start(op, group, x, call, finish, (sent, room, out))


def scatter(op: str, group: ProcessGroup, x: Tensor | None, out: Tensor, src: int) -> Work:
    room = _room(out)
    nbytes, n = out._geometry.nbytes, group.size()
    sent = room if x is None else _dense(x)
    given = [0 if x is None else nbytes] * n
    wanted = [nbytes if rank == src else 0 for rank in range(n)]
    call = _exchange(op, sent, given, room, wanted)
    return _start(op, group, out, call, _put(out, room), (sent, room, out))


def all_to_all(
    op: str, group: ProcessGroup, x: Tensor, out: Tensor, given: Sequence[int],
    wanted: Sequence[int],
) -> Work:  # fmt: skip
    """Send part n of x to rank n. given, wanted: the number of elements sent to each rank, and
    received from each rank."""
    size, sent, room = x._geometry.dtype.itemsize, _dense(x), _room(out)
    to, by = [n * size for n in given], [n * size for n in wanted]
    return _start(
        op, group, x, _exchange(op, sent, to, room, by), _put(out, room), (sent, room, out)
    )


def _exchange(
    op: str, sent: Tensor, given: Sequence[int], room: Tensor, wanted: Sequence[int]
) -> Call:
    """Return a call that sends `given` bytes to each rank and receives `wanted` bytes from each."""
    byte, at, into = library(op).NCCL_UINT8, _of(sent), _of(room)

    def call(nccl: Any, stream: int) -> None:
        source, to = at, into
        for rank, (n, m) in enumerate(zip(given, wanted)):
            if n:
                nccl.send(source, n, byte, rank, stream)
            if m:
                nccl.recv(to, m, byte, rank, stream)
            source, to = source + n, to + m

    return call


def send(op: str, group: ProcessGroup, x: Tensor, dst: int, tag: int) -> Work:
    _check_tag(op, tag)
    sent, byte = _dense(x), library(op).NCCL_UINT8
    given = _of(sent), x._geometry.nbytes, byte, dst
    call = None if not given[1] else lambda nccl, stream: nccl.send(*given, stream)
    return _start(op, group, x, call, None, (sent,))


def receive(
    op: str, group: ProcessGroup, out: Tensor, src: int | None, tag: int, came_from: list[int]
) -> Work:
    """Start to receive from rank src. Append src, a rank in the group, to `came_from`."""
    _check_tag(op, tag)
    if src is None:
        raise errors.must(op, "src", "be given between GPUs, where NCCL takes from one rank", src)
    came_from.append(src)
    room = _room(out)
    given = _of(room), out._geometry.nbytes, library(op).NCCL_UINT8, src
    call = None if not given[1] else lambda nccl, stream: nccl.recv(*given, stream)
    return _start(op, group, out, call, _put(out, room), (room, out))


def _check_tag(op: str, tag: int) -> None:
    if tag:
        raise errors.wrong_value(op, "tag", "be 0 between GPUs, as NCCL knows no tags", tag)
