"""A replacement for CuPy's NCCL module that uses MPI on emulated memory.

It has the signatures of CuPy's class, runs in the order of the emulator's streams and checks NCCL's
rules. Connections between GPUs and the bits of NCCL's sums are not tested.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gputensor.distributed import work
from gputensor.runtime import cuda_emulator

# nccl.h, ncclDataType_t and ncclRedOp_t
NCCL_INT8, NCCL_UINT8, NCCL_INT32, NCCL_UINT32, NCCL_INT64, NCCL_UINT64 = range(6)
NCCL_FLOAT16, NCCL_FLOAT32, NCCL_FLOAT64, NCCL_BFLOAT16 = range(6, 10)
NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG = range(5)
_DTYPES = [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64]
_DTYPES += [np.float16, np.float32, np.float64]
_OPS = ["SUM", "PROD", "MAX", "MIN", "SUM"]

Begin = Callable[[], list[Any]]  # starts, and returns requests
_depth = 0
_calls: list[tuple[NcclCommunicator, int, Begin, list[Callable[[], None]]]] = []
seen: list[str] = []  # the recorded calls, for tests


class NcclError(RuntimeError):
    pass


def get_unique_id() -> bytes:
    return b"\1" * 128


def groupStart() -> None:
    global _depth
    _depth += 1


def groupEnd() -> None:
    global _depth
    _depth -= 1
    if _depth == 0:
        calls, _calls[:] = [*_calls], []
        if calls:
            _queue(calls)


def _queue(calls: Any) -> None:
    comm, stream = calls[0][0], calls[0][1]
    assert all(c[0] is comm and c[1] == stream for c in calls)
    queue = cuda_emulator.external_stream(comm._device, stream).queue

    def run() -> None:
        requests = [request for _, _, begin, _ in calls for request in begin()]
        while not all([request.Test() for request in requests]):
            if comm.aborted:
                raise NcclError("aborted")
            time.sleep(1e-4)  # there may be fewer cores than ranks
        for *_, after in calls:
            for action in after:
                action()

    cuda_emulator.devices.scheduler.add(queue, run)


class NcclCommunicator:
    def __init__(self, ndev: int, commId: bytes, rank: int, config: Any = None) -> None:
        # NCCL finds other ranks by the id; here the communicator's caller identifies them.
        self._comm = sys._getframe(1).f_locals["group"].comm.Dup()
        assert (self._comm.size, self._comm.rank, len(commId)) == (ndev, rank, 128)
        assert commId == get_unique_id()
        self._device = cuda_emulator.current_device()
        self.aborted = False

    def _add(self, name: str, stream: int, begin: Begin, *after: Callable[[], None]) -> None:
        assert cuda_emulator.current_device() == self._device
        assert stream, "it works on a stream of its own"
        seen.append(name)
        groupStart()
        _calls.append((self, stream, begin, [*after]))
        groupEnd()

    def _array(self, ptr: int, count: int, datatype: int) -> Any:
        dtype = np.dtype(_DTYPES[datatype])
        assert count > 0, "nothing is moved"
        assert ptr % dtype.itemsize == 0
        cuda_emulator.memory.check_range(
            "nccl", "buffer", ptr, count * dtype.itemsize, self._device
        )
        room: Any = (ctypes.c_char * (count * dtype.itemsize)).from_address(ptr)
        return np.frombuffer(room, dtype)

    def _op(self, datatype: int, op: int) -> Any:
        from mpi4py import MPI

        dtype = _DTYPES[datatype]
        assert dtype is not np.float16, "NCCL would round at every rank"
        is_float = dtype in (np.float32, np.float64)
        assert op != NCCL_AVG or is_float
        assert op not in (NCCL_MAX, NCCL_MIN) or not is_float, "NCCL would drop NaN"
        return getattr(MPI, _OPS[op])

    def _mean(self, ptr: int, count: int, datatype: int, op: int) -> Callable[[], None]:
        def divide() -> None:
            if op == NCCL_AVG:
                made = self._array(ptr, count, datatype)
                np.divide(made, self._comm.size, out=made)

        return divide

    def allReduce(
        self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, stream: int
    ) -> None:
        given = self._op(datatype, op)

        def begin() -> list[Any]:
            into = self._array(recvbuf, count, datatype)
            if sendbuf != recvbuf:
                into[...] = self._array(sendbuf, count, datatype)
            from mpi4py import MPI

            return [self._comm.Iallreduce(MPI.IN_PLACE, into, given)]

        mean = self._mean(recvbuf, count, datatype, op)
        self._add("allReduce", stream, begin, mean)

    def reduce(
        self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, root: int,
        stream: int,
    ) -> None:  # fmt: skip
        given, is_root = self._op(datatype, op), self._comm.rank == root

        def begin() -> list[Any]:
            source = self._array(sendbuf, count, datatype).copy()
            into = self._array(recvbuf, count, datatype) if is_root else None
            return [self._comm.Ireduce(source, into, given, root)]

        mean = self._mean(recvbuf, count, datatype, op if is_root else NCCL_SUM)
        self._add("reduce", stream, begin, mean)

    def broadcast(
        self, sendbuff: int, recvbuff: int, count: int, datatype: int, root: int, stream: int
    ) -> None:
        assert sendbuff == recvbuff
        self._add("broadcast", stream, lambda: [
            self._comm.Ibcast(self._array(recvbuff, count, datatype), root)
        ])  # fmt: skip

    def bcast(self, buff: int, count: int, datatype: int, root: int, stream: int) -> None:
        self.broadcast(buff, buff, count, datatype, root, stream)

    def reduceScatter(
        self, sendbuf: int, recvbuf: int, recvcount: int, datatype: int, op: int, stream: int
    ) -> None:
        given = self._op(datatype, op)

        def begin() -> list[Any]:
            # NCCL accepts messages in parts, MPI does not
            source = self._array(sendbuf, recvcount * self._comm.size, datatype).copy()
            into = self._array(recvbuf, recvcount, datatype)
            return [self._comm.Ireduce_scatter_block(source, into, given)]

        mean = self._mean(recvbuf, recvcount, datatype, op)
        self._add("reduceScatter", stream, begin, mean)

    def allGather(self, sendbuf: int, recvbuf: int, count: int, datatype: int, stream: int) -> None:
        self._add("allGather", stream, lambda: [self._comm.Iallgather(
            self._array(sendbuf, count, datatype).copy(),
            self._array(recvbuf, count * self._comm.size, datatype),
        )])  # fmt: skip

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        self._add("send", stream, lambda: [
            self._comm.Isend(self._array(sendbuf, count, datatype), peer)
        ])  # fmt: skip

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        self._add("recv", stream, lambda: [
            self._comm.Irecv(self._array(recvbuf, count, datatype), peer)
        ])  # fmt: skip

    def abort(self) -> None:
        self.aborted = True

    def destroy(self) -> None:
        assert not _calls
        self._comm.Free()

    def check_async_error(self) -> None:
        if self.aborted:
            raise NcclError("aborted")

    def device_id(self) -> int:
        return self._device

    def rank_id(self) -> int:
        return int(self._comm.rank)

    def size(self) -> int:
        return int(self._comm.size)


def install() -> None:
    """Make NCCL available on emulated devices."""
    # A GPU works while its host waits for other ranks; the emulator works only when it is polled.
    cuda_emulator.start()
    work._give_way = cuda_emulator.devices.scheduler.drain_all  # type: ignore[attr-defined]
    cuda_emulator.nccl = lambda: sys.modules[__name__]  # type: ignore[assignment]
