"""`torch.distributed` for PyTorch's programs. The backends are MPI and NCCL. Collectives for Python
objects, such as `all_gather_object`, pickle the objects.

Processes are started by mpiexec. A program that requests "gloo" gets MPI, which supports the same
tensors.
"""

from __future__ import annotations

import datetime
import os
import pickle
import typing
from typing import Any

import gputensor as gt
from gputensor import distributed
from gputensor.core import errors
from gputensor.distributed.groups import group_of
from gputensor.parallel import hooks

# Backends that programs request for tensors on the CPU, alone or together with "cuda:nccl".
_ON_CPU = ("gloo", "mpi")
_asked: dict[str, str] = {}  # maps a group's name to the backend that the program requested


def _ours(op: str, backend: Any) -> str | None:
    """Return "nccl" if NCCL is the only requested backend. Otherwise return None, which means
    MPI."""
    if backend is None:
        return None
    named = [part.rpartition(":")[2] for part in str(backend).lower().split(",")]
    if not all(name in (*_ON_CPU, "nccl") for name in named):
        rule = "be gloo, mpi or nccl, also as 'cpu:gloo,cuda:nccl'"
        raise errors.wrong_value(op, "backend", rule, backend)
    return "nccl" if named == ["nccl"] else None


def _check_size(world_size: int, rank: int) -> None:
    """Raise an error if the number of processes is not the expected number. MPI finds only
    processes that mpiexec started, so the numbers differ after a start with another launcher.
    """
    wanted = world_size if world_size >= 0 else int(os.environ.get("WORLD_SIZE", "-1"))
    found = distributed.get_world_size()
    if wanted not in (-1, found) or rank >= found:
        distributed.destroy_process_group()
        rule = f"be {found}, the number of processes that mpiexec started"
        raise errors.must(
            "init_process_group", "world_size", rule, wanted, kind=errors.DistributedError,
            remedy=f"start the program with mpiexec -n {max(wanted, rank + 1)}",
        )  # fmt: skip


def init_process_group(
    backend: Any = None, init_method: Any = None, timeout: Any = None, world_size: int = -1,
    rank: int = -1, store: Any = None, group_name: str = "", pg_options: Any = None,
    device_id: Any = None,
) -> None:  # fmt: skip
    """Join the processes that mpiexec started. MPI finds them, so `init_method` and `store` are not
    used.

    Raises: DistributedError if `world_size`, or the variable WORLD_SIZE, differs from the number of
    processes.
    """
    distributed.init_process_group(_ours("init_process_group", backend), timeout=timeout)
    _check_size(world_size, rank)
    _asked[group_of("init_process_group", None).name] = _name(backend)


def _name(backend: Any) -> str:
    return "gloo" if backend is None else str(backend).lower()


def new_group(
    ranks: Any = None, timeout: Any = None, backend: Any = None, pg_options: Any = None,
    use_local_synchronization: bool = False, group_desc: Any = None, device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:  # fmt: skip
    """Return a group of some ranks; see `gt.distributed.new_group`."""
    made = distributed.new_group(ranks, timeout, _ours("new_group", backend), sort_ranks)
    if backend is not None and made is not distributed.GroupMember.NON_GROUP_MEMBER:
        _asked[made.name] = _name(backend)
    return made


def get_backend(group: Any = None) -> str:
    """Return the backend that the program requested for the group."""
    found = group_of("get_backend", group)
    whole = group_of("get_backend", None)
    return _asked.get(found.name) or _asked.get(whole.name) or distributed.get_backend(group)


class Backend(str):
    """The names of backends, in lower case. gputensor has groups of MPI (also under the name
    "gloo") and NCCL."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    MPI = "mpi"
    UCC = "ucc"
    XCCL = "xccl"
    backend_list: typing.ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, MPI]

    def __new__(cls, name: str) -> Backend:
        return super().__new__(cls, name.lower())


class ReduceOp(distributed.ReduceOp):
    """`gt.distributed.ReduceOp` with PyTorch's attribute `RedOpType`, the type of its values."""

    RedOpType = str


# --- objects --------------------------------------------------------------------------------------


def _packed(value: Any) -> Any:
    return gt.frombuffer(bytearray(pickle.dumps(value)), dtype=gt.uint8)


def _unpacked(codes: Any) -> Any:
    return pickle.loads(codes.numpy())


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Store each rank's object in the list. Objects are pickled, so all ranks must be trusted."""
    mine = _packed(obj)
    count = distributed.get_world_size(group)
    sizes = [gt.zeros(1, dtype=gt.int64) for _ in range(count)]
    distributed.all_gather(sizes, gt.tensor([mine.numel()]), group=group)
    lengths = [int(n) for n in sizes]
    padded = gt.zeros(max(lengths), dtype=gt.uint8)
    padded[: mine.numel()] = mine
    found = [gt.zeros(max(lengths), dtype=gt.uint8) for _ in range(count)]
    distributed.all_gather(found, padded, group=group)
    object_list[:] = [_unpacked(x[:n]) for x, n in zip(found, lengths)]


def _rank(of_world: int | None, group: Any, of_group: int | None) -> int:
    """Return a rank in the world that was given as one, or as a rank in the group."""
    if of_group is not None:
        return distributed.get_global_rank(group, of_group)
    return 0 if of_world is None else of_world


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None,
    group: Any = None, group_dst: int | None = None,
) -> None:  # fmt: skip
    """Store each rank's object in the list of rank `dst`. The other ranks' lists stay unchanged."""
    found: list[Any] = []
    all_gather_object(found, obj, group)
    if distributed.get_rank() == _rank(dst, group, group_dst) and object_gather_list is not None:
        object_gather_list[:] = found


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """Replace the objects in the list by the objects of rank `src`."""
    src = _rank(src, group, group_src)
    is_source = distributed.get_rank() == src
    codes = _packed(list(object_list)) if is_source else None
    size = gt.tensor([0 if codes is None else codes.numel()])
    distributed.broadcast(size, src, group=group)
    codes = gt.zeros(int(size), dtype=gt.uint8) if codes is None else codes
    distributed.broadcast(codes, src, group=group)
    object_list[:] = _unpacked(codes)


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
    src: int | None = None, group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Send each rank its object from the list of rank `src`."""
    src = _rank(src, group, group_src)
    objects: list[Any] = [scatter_object_input_list if distributed.get_rank() == src else None]
    broadcast_object_list(objects, src, group)
    place = distributed.get_rank(group)
    scatter_object_output_list[0] = objects[0][place]


def is_backend_available(backend: str) -> bool:
    """True if a group of this backend can be made."""
    if backend.lower() == "nccl":
        return bool(distributed.is_nccl_available())
    return backend.lower() in _ON_CPU and bool(distributed.is_available())


OF_CONSTANTS: dict[str, Any] = {"default_pg_timeout": datetime.timedelta(minutes=30)}
OF_DISTRIBUTED: dict[str, Any] = {
    "init_process_group": init_process_group, "new_group": new_group, "get_backend": get_backend,
    "all_gather_object": all_gather_object, "gather_object": gather_object,
    "broadcast_object_list": broadcast_object_list, "scatter_object_list": scatter_object_list,
    "is_gloo_available": distributed.is_available, "is_backend_available": is_backend_available,
    "is_ucc_available": lambda: False, "is_xccl_available": lambda: False,
    "is_torchelastic_launched": lambda: False,
    "get_node_local_rank": lambda fallback_rank=0: int(
        os.environ.get("LOCAL_RANK", f"{fallback_rank}")
    ),
    "get_default_backend_for_device": lambda device: (
        "nccl" if gt.device(device).type == "cuda" else "gloo"
    ),
    "Backend": Backend, "ReduceOp": ReduceOp, "DistBackendError": errors.DistributedError,
    "DistNetworkError": errors.DistributedError, "DistStoreError": errors.DistributedError,
    "DistError": errors.DistributedError, "GradBucket": hooks.GradBucket,
}  # fmt: skip
