"""Errors of distributed processes, such as missing parts, different calls and timeouts."""

from __future__ import annotations

from collections.abc import Sequence

from .base import DistributedError, GpuTensorError

_DETAIL = "GPUTENSOR_DISTRIBUTED_DEBUG=detail names the ranks that differ"


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) != 1)} {', '.join(map(str, ranks))}"


def no_mpi(reason: BaseException) -> GpuTensorError:
    return DistributedError(
        f"init_process_group: MPI must be there (got {type(reason).__name__}: {reason}); "
        "pip install 'gputensor[mpi]'"
    )


def not_initialized(op: str) -> GpuTensorError:
    return DistributedError(
        f"{op}: there must be a process group (got none); call init_process_group() first"
    )


def initialized_already() -> GpuTensorError:
    return DistributedError(
        "init_process_group: there must be no process group yet (got one); "
        "call destroy_process_group() first"
    )


def no_such_group(op: str, name: str, known: Sequence[str]) -> GpuTensorError:
    return DistributedError(
        f"{op}: 'group_name' must be one of {', '.join(known) or 'no groups'} (got {name!r})"
    )


def not_a_member(op: str, rank: int) -> GpuTensorError:
    return DistributedError(
        f"{op}: 'group' must contain this process (got rank {rank}, which is not in it)"
    )


def needs_nccl(op: str, reason: object) -> GpuTensorError:
    return DistributedError(
        f"{op}: GPUs need NCCL to communicate (got none: {reason}); "
        "pip install nvidia-nccl-cu12, or use .cpu()"
    )


def nccl_failed(op: str, reason: object) -> GpuTensorError:
    return DistributedError(
        f"{op}: the arguments of all ranks must match (got from NCCL: {reason}); {_DETAIL}"
    )


def another_device(op: str, group: str, first: int, index: int) -> GpuTensorError:
    return DistributedError(
        f"{op}: tensors of group {group!r} must be on cuda:{first}, as its first one was (got "
        f"cuda:{index}); make another group with new_group()"
    )


def ranks_differ(op: str, said: dict[int, str], differing: Sequence[int]) -> GpuTensorError:
    """Make the error for ranks that make different calls. said: the call of each rank."""
    usual = next(text for rank, text in said.items() if rank not in differing)
    others = "; ".join(f"rank {rank}: {said[rank]}" for rank in differing)
    return DistributedError(f"{op}: all ranks must make the same call ({usual}) (got {others})")


def timed_out(op: str, rank: int, seconds: float, missing: Sequence[int] | None) -> GpuTensorError:
    """Make the error for a call that has timed out. missing: the ranks that have not joined the
    call, or None if they are unknown."""
    whom = "the others" if missing is None else _ranks(missing)
    tail = f"; {_DETAIL}" if missing is None else ""
    return DistributedError(f"{op}: rank {rank} waited {seconds:g} s for {whom}{tail}")


def ranks_left(op: str, rank: int, gone: Sequence[int]) -> GpuTensorError:
    return DistributedError(f"{op}: rank {rank} waits for {_ranks(gone)}, which ended before that")


def is_broken(op: str, why: str) -> GpuTensorError:
    return DistributedError(f"{op}: the process group can no longer be used, because {why}")


def mpi_failed(op: str, reason: BaseException) -> GpuTensorError:
    return DistributedError(
        f"{op}: the arguments of all ranks must match (got from MPI: {reason}); {_DETAIL}"
    )


def message_differs(op: str, source: int, nbytes: int, wanted: int) -> GpuTensorError:
    return DistributedError(
        f"{op}: 'tensor' must have as many bytes as rank {source} sent, {nbytes} (got {wanted})"
    )


def rank_ended(rank: int, kind: str) -> str:
    """Return the text for stderr when a rank has ended."""
    return f"gputensor.distributed: rank {rank} ended with {kind}; all other ranks end, too"
