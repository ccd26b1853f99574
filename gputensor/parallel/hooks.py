"""Communication hooks of `DistributedDataParallel`: functions that reduce a bucket of gradients.

A hook is called as `hook(state, bucket)`, in the same order of buckets on all ranks. It returns a
Future of the tensor that replaces the bucket's gradients. For the hooks of this module, state is
the process group, or None for all ranks.

Source: torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import errors
from ..core.dtype import bfloat16, dtype, float16
from ..distributed.collectives import all_reduce
from ..distributed.gradients import Bucket
from ..distributed.groups import ProcessGroup, group_of
from ..distributed.work import Future
from ..tensor.tensor import Tensor

__all__ = [
    "GradBucket", "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper",
    "fp16_compress_hook", "fp16_compress_wrapper",
]  # fmt: skip
Hook = Callable[[Any, "GradBucket"], Future]


class GradBucket:
    """The gradients of several parameters, in one flat tensor."""

    def __init__(self, bucket: Bucket, index: int, is_last: bool) -> None:
        self._bucket, self._index, self._is_last = bucket, index, is_last
        self._buffer: Tensor = bucket.flat

    def index(self) -> int:
        """Return the bucket's index in the order of reductions."""
        return self._index

    def is_last(self) -> bool:
        """Return True for the bucket that is reduced last."""
        return self._is_last

    def buffer(self) -> Tensor:
        """Return the flat tensor of all gradients."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the flat tensor by a tensor with the same number of elements."""
        if not isinstance(buffer, Tensor) or buffer.numel() != self._buffer.numel():
            rule = f"be a tensor of {self._buffer.numel()} elements"
            raise errors.wrong_value("set_buffer", "buffer", rule, buffer)
        self._buffer = buffer

    def parameters(self) -> list[Tensor]:
        """Return the parameters, in the order of their gradients in the flat tensor."""
        return [*self._bucket.parameters]

    def gradients(self) -> list[Tensor]:
        """Return the parameters' gradients, as views of the flat tensor."""
        found = self.parameters()
        parts = self._buffer.split([p.numel() for p in found])
        return [part.view(p.shape) for part, p in zip(parts, found)]


def reduction(state: Any, hook: Hook, index: int, is_last: bool) -> Any:
    """Return a function for `Bucket.reduce` that calls a hook.

    Raises: TypeError, in backward, if the hook does not return a Future of a tensor that fits the
    bucket.
    """

    def reduce(bucket: Bucket, group: ProcessGroup) -> Future:
        found = hook(state, GradBucket(bucket, index, is_last))
        if not isinstance(found, Future):
            raise errors.wrong_type("register_comm_hook", "hook", "return a Future", found)
        flat = bucket.flat
        return found.then(lambda before: _checked(before.value(), flat))

    return reduce


def _checked(found: Any, flat: Tensor) -> Tensor:
    """Return the reduced gradients as a flat tensor. found: the value of a hook's future, which is
    a tensor or a list of one tensor."""
    value = found[0] if isinstance(found, (list, tuple)) and len(found) == 1 else found
    if not isinstance(value, Tensor) or value.numel() != flat.numel():
        rule = f"return a Future of a tensor of {flat.numel()} elements"
        raise errors.wrong_type("register_comm_hook", "hook", rule, found)
    return value.reshape(-1)


def _mean_of(group: Any, tensor: Tensor) -> Future:
    """Start to replace a tensor by its mean over the ranks of a group. Return a Future of the
    mean."""
    where = group_of("all_reduce", group)
    work = all_reduce(tensor.div_(where.size()), group=where, async_op=True)
    assert work is not None
    return work.get_future().then(lambda before: before.value()[0])


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Replace gradients by their means over the ranks of the process group."""
    return _mean_of(process_group, bucket.buffer())


def _compressed(kind: dtype, hook: Hook) -> Hook:
    """Return a hook that calls `hook` with gradients in another dtype, and casts the results
    back."""

    def wrapped(state: Any, bucket: GradBucket) -> Future:
        whole = bucket.buffer()
        bucket.set_buffer(whole.to(kind))

        def restore(before: Future) -> Tensor:
            bucket.set_buffer(whole)
            return whole.copy_(_checked(before.value(), whole))

        return hook(state, bucket).then(restore)

    return wrapped


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that calls `hook` with gradients cast to float16."""
    return _compressed(float16, hook)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that calls `hook` with gradients cast to bfloat16."""
    return _compressed(bfloat16, hook)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Replace gradients by their means over the ranks of the process group. The gradients are sent
    as float16."""
    return _compressed(float16, allreduce_hook)(process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Replace gradients by their means over the ranks of the process group. The gradients are sent
    as bfloat16."""
    return _compressed(bfloat16, allreduce_hook)(process_group, bucket)
