"""`gt.distributed`: collectives and process groups, as in PyTorch, for programs that run one
process for each device.

Start a program with `mpiexec -n 4 python PROGRAM`; see docs/usage/scaling.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import lazy
from ..core.errors import DistributedError

if TYPE_CHECKING:
    from .collectives import (
        ReduceOp as ReduceOp, all_gather as all_gather,
        all_gather_into_tensor as all_gather_into_tensor, all_reduce as all_reduce,
        all_to_all_single as all_to_all_single, barrier as barrier, broadcast as broadcast,
        gather as gather, reduce as reduce, reduce_scatter as reduce_scatter,
        reduce_scatter_tensor as reduce_scatter_tensor, scatter as scatter,
        wait_tensor as wait_tensor,
    )  # fmt: skip
    from .gradients import (
        GradientAverager as GradientAverager, average_gradients as average_gradients,
    )  # fmt: skip
    from .groups import (
        GroupMember as GroupMember, ProcessGroup as ProcessGroup, get_backend as get_backend,
        get_global_rank as get_global_rank, get_group_rank as get_group_rank,
        get_process_group_ranks as get_process_group_ranks, get_rank as get_rank,
        get_world_size as get_world_size, is_available as is_available,
        is_initialized as is_initialized, is_mpi_available as is_mpi_available,
    )  # fmt: skip
    from .joining import (
        destroy_process_group as destroy_process_group, init_process_group as init_process_group,
        new_group as new_group,
    )  # fmt: skip
    from .messages import (
        P2POp as P2POp, batch_isend_irecv as batch_isend_irecv, irecv as irecv, isend as isend,
        recv as recv, send as send,
    )  # fmt: skip
    from .nccl import is_nccl_available as is_nccl_available
    from .sharding import redistribute as redistribute
    from .work import Work as Work

__all__ = ["DistributedError"]
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
