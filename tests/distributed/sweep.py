"""`python -m tests.distributed.sweep FILE`: bad values for every argument of gt.distributed, in a
world of one process; write the results. tests/distributed/test_bad_values.py starts it.

In a new process, because MPI can start only once in a process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gputensor as gt
import gputensor.distributed as dist

from ..harness import bad_values
from ..harness.bad_values import VALUES

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def _x() -> Any:
    return gt.ones(2, 3)


def _of(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[[], Call]:
    """Return a valid call; each `_x` among the arguments is a new tensor in each call, also in a
    list."""

    def given(value: Any) -> Any:
        if isinstance(value, list):
            return [given(v) for v in value]
        return value() if value is _x else value

    return lambda: (function, tuple(map(given, args)), {k: given(v) for k, v in kwargs.items()})


def _init(backend: Any = None, timeout: Any = 60) -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group(backend, timeout=timeout)


def _new_group(ranks: Any, timeout: Any, backend: Any) -> None:
    group = dist.new_group(ranks, timeout, backend)
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        dist.destroy_process_group(group)


def _leaf() -> Any:
    x = gt.ones(2, requires_grad=True)
    x.sum().backward()
    return x


def _averager(parameters: Any, bucket_bytes: Any, group: Any) -> None:
    dist.GradientAverager(parameters, bucket_bytes, group).remove()


GOOD: dict[str, Callable[[], Call]] = {
    "init_process_group": _of(_init, None, 60),
    "new_group": _of(_new_group, [0], 60, "mpi"),
    "all_reduce": _of(dist.all_reduce, _x, "sum", None, False),
    "broadcast": _of(dist.broadcast, _x, 0, None, False),
    "all_gather_into_tensor": _of(dist.all_gather_into_tensor, _x, _x, None, False),
    "all_gather": _of(dist.all_gather, [_x], _x, None, False),
    "reduce_scatter_tensor": _of(dist.reduce_scatter_tensor, _x, _x, "sum", None, False),
    "reduce_scatter": _of(dist.reduce_scatter, _x, [_x], "sum", None, False),
    "all_to_all_single": _of(dist.all_to_all_single, _x, _x, [2], [2], None, False),
    "reduce": _of(dist.reduce, _x, 0, "sum", None, False),
    "gather": _of(dist.gather, _x, [_x], 0, None, False),
    "scatter": _of(dist.scatter, _x, [_x], 0, None, False),
    "barrier": _of(dist.barrier, None, False),
    "wait_tensor": _of(dist.wait_tensor, _x),
    "redistribute": _of(dist.redistribute, _x, 0, 1, None),
    "average_gradients": lambda: (dist.average_gradients, ([_leaf()], 64, None), {}),
    "GradientAverager": lambda: (_averager, ([_leaf()], 64, None), {}),
    "get_backend": _of(dist.get_backend, None),
    "get_rank": _of(dist.get_rank, None),
    "get_world_size": _of(dist.get_world_size, None),
    "get_process_group_ranks": _of(dist.get_process_group_ranks, None),
    "get_global_rank": lambda: (dist.get_global_rank, (dist.GroupMember.WORLD, 0), {}),
    "get_group_rank": lambda: (dist.get_group_rank, (dist.GroupMember.WORLD, 0), {}),
    "Work.wait": lambda: (dist.all_reduce(_x(), async_op=True).wait, (30.0,), {}),
    "ops.all_reduce": lambda: _operator("all_reduce", _x(), "sum"),
    "ops.all_reduce_": lambda: _operator("all_reduce_", _x(), "sum"),
    "ops.all_reduce_coalesced": lambda: _operator("all_reduce_coalesced", [_x()], "sum"),
    "ops.all_gather_into_tensor": lambda: _operator("all_gather_into_tensor", _x(), 1),
    "ops.reduce_scatter_tensor": lambda: _operator("reduce_scatter_tensor", _x(), "sum", 1),
    "ops.all_to_all_single": lambda: _operator("all_to_all_single", _x(), [2], [2]),
    "ops.broadcast": lambda: _operator("broadcast", _x(), 0),
    "ops.wait_tensor": lambda: (gt.ops._c10d_functional.wait_tensor.default, (_x(),), {}),
}
# In a world of one process there is no receiver, so every call raises.
REFUSED: dict[str, Callable[[], Call]] = {
    "send": _of(dist.send, _x, 0, None, 0), "isend": _of(dist.isend, _x, 0, None, 0),
    "recv": _of(dist.recv, _x, 0, None, 0), "irecv": _of(dist.irecv, _x, 0, None, 0),
    "P2POp": _of(dist.P2POp, dist.isend, _x, 0, None, 0, None),
    "batch_isend_irecv": _of(dist.batch_isend_irecv, []),
}  # fmt: skip
# Names without arguments, names that are not called, and names tested above under another name.
LEFT_OUT = """destroy_process_group is_available is_initialized is_mpi_available is_nccl_available
    DistributedError GroupMember ProcessGroup ReduceOp Work""".split()


def _operator(name: str, *args: Any) -> Call:
    world = dist.GroupMember.WORLD
    assert world is not None
    return getattr(gt.ops._c10d_functional, name).default, (*args, world.name), {}


def sweep() -> tuple[list[str], int]:
    """Return the faults, and the number of calls."""
    faults, made = [], 0
    for name, make in {**GOOD, **REFUSED}.items():
        if not dist.is_initialized():
            _init()
        if name in GOOD:
            function, args, kwargs = make()
            function(*args, **kwargs)
        for value, spoil in VALUES.items():
            arguments = [f"#{n}" for n in range(len(make()[1]))]
            for number, argument in enumerate(arguments):
                if value == "None" and name in ("recv", "irecv") and number == 1:
                    continue  # it would wait for a message from any rank
                if not dist.is_initialized():
                    _init()
                function, args, kwargs = make()
                args = tuple(spoil() if n == number else x for n, x in enumerate(args))
                tensors = [x for x in args if isinstance(x, gt.Tensor)]

                def call(function: Any = function, args: Any = args) -> Any:
                    found = function(*args)
                    return found.wait() if isinstance(found, dist.Work) else found

                _, fault = bad_values.try_one(call, tensors)
                made += 1
                if fault is not None:
                    faults.append(f"{name} with {value} for {argument}: {fault}")
    return faults, made


def main(file: Path) -> None:
    _init()
    faults, made = sweep()
    known = {*GOOD, *REFUSED, *LEFT_OUT}
    names = [n for n in dir(dist) if not n.startswith("_") and callable(getattr(dist, n))]
    missing = [n for n in names if n not in known]
    file.write_text(json.dumps({"faults": faults, "made": made, "missing": missing}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
