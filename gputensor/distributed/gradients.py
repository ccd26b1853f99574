"""Data-parallel training: each gradient is replaced by its mean over all ranks, bucket by bucket.

A bucket is a flat tensor with the gradients of several parameters, which one message reduces. If
each gradient had its own message, latency would dominate. A single message for all gradients could
not start before backward has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .groups import ProcessGroup, group_of
from .shapes import operator
from .work import Future, Work, taken
from .._generated import calls
from ..autograd.modes import no_grad
from ..core import errors
from ..exchange.construct import tensor
from ..tensor.tensor import Tensor

BUCKET_BYTES = 25 << 20


class Bucket:
    """Parameters whose gradients are reduced in one message.

    reduce: starts to reduce a bucket's flat tensor over a group, and returns a Work, or a Future of
    the reduced tensor. The default computes the mean.
    """

    __slots__ = ("parameters", "missing", "flat", "work", "reduce")

    def __init__(self, parameters: list[Tensor]) -> None:
        self.parameters: list[Tensor] = parameters
        self.missing: int = len(parameters)  # number of gradients not yet computed
        self.flat: Any = None
        self.work: Work | Future | None = None
        self.reduce: Callable[[Bucket, ProcessGroup], Work | Future] = mean

    def start(self, group: ProcessGroup, counts: bool = True) -> None:
        """Start the reduction.

        Missing gradients count as zeros. With counts=False, all gradients count as zeros.
        """
        with no_grad():
            parts = [p.grad.reshape(-1) if counts and p.grad is not None
                     else calls.zeros_like(p).reshape(-1) for p in self.parameters]  # fmt: skip
            self.flat = calls.cat(parts)
            self.work = self.reduce(self, group)

    def is_completed(self) -> bool:
        """Poll the reduction. Return False if it is still running."""
        work = self.work
        return work is None or (work.done() if isinstance(work, Future) else work.is_completed())

    def _reduced(self) -> Any:
        """Wait for the reduction; return its result, a flat tensor."""
        assert self.work is not None
        found = self.work.wait()
        return found if isinstance(self.work, Future) else self.flat

    def drop(self) -> None:
        """Wait for the reduction, discard its result and leave the gradients unchanged."""
        self._reduced()
        self.flat = self.work = None

    def finish(self, is_used: list[bool]) -> None:
        """Write the means to the gradients. is_used: for each parameter, True if any rank has a
        gradient."""
        flat = self._reduced()
        with no_grad():
            parts = flat.split([p.numel() for p in self.parameters])
            for p, part, used in zip(self.parameters, parts, is_used):
                grad = p.grad
                if used and grad is None:
                    p.grad = part.view(p.shape).clone()
                elif used and grad is not None:
                    grad.copy_(part.view(p.shape))
        self.flat = self.work = None
        self.missing = len(self.parameters)


def mean(bucket: Bucket, group: ProcessGroup) -> Work:
    """Start the reduction that replaces a bucket's flat tensor by its mean over the group. Return
    the Work."""
    operator("all_reduce_")(bucket.flat, "avg", group.name)
    return taken(bucket.flat)


def buckets_of(op: str, parameters: Any, bucket_bytes: Any) -> list[Bucket]:
    """Divide parameters into buckets by dtype and device. The last parameter comes first, as in
    backward."""
    if type(bucket_bytes) is not int:
        raise errors.wrong_type(op, "bucket_bytes", "be a number of bytes", bucket_bytes)
    if bucket_bytes < 1:
        raise errors.wrong_value(op, "bucket_bytes", "be positive", bucket_bytes)
    try:
        listed = [*parameters]
    except TypeError:
        raise errors.wrong_type(op, "parameters", "be tensors", parameters) from None
    for p in listed:
        if not isinstance(p, Tensor):
            raise errors.not_a_tensor(op, "parameters", "tensors", p)
        if not p.is_leaf:
            raise errors.must(op, "parameters", "be leaves", p)
    made: list[list[Tensor]] = []
    open_: dict[Any, tuple[list[Tensor], int]] = {}
    for p in reversed(listed):
        if not p.requires_grad:
            continue
        key = p.dtype, p.device
        bucket, nbytes = open_.get(key, ([], 0))
        if not bucket or nbytes + p.nbytes > bucket_bytes:
            bucket, nbytes = [], 0
            made.append(bucket)
        bucket.append(p)
        open_[key] = bucket, nbytes + p.nbytes
    return [Bucket(bucket) for bucket in made]


def start_ready(group: ProcessGroup, buckets: list[Bucket], started: int) -> int:
    """Start the reductions of buckets, in order, and stop at the first bucket with a missing
    gradient. Poll the running reductions.

    started: the number of buckets that were started before. Returns the new number.
    """
    for bucket in buckets[started:]:
        if bucket.missing:
            break
        bucket.start(group)
        started += 1
    for bucket in buckets[:started]:
        if not bucket.is_completed():
            break
    return started


def finish(group: ProcessGroup, buckets: list[Bucket], agrees: bool = True) -> None:
    """Finish the reduction of all buckets. A gradient that is missing on all ranks stays None.

    agrees: True if the ranks must tell each other which gradients exist; False if all exist.
    """
    if not buckets:
        return
    if not agrees:
        for bucket in buckets:
            bucket.finish([True] * len(bucket.parameters))
        return
    has = [p.grad is not None for bucket in buckets for p in bucket.parameters]
    mask = tensor(has, device=buckets[0].parameters[0].device)
    operator("all_reduce_")(mask, "max", group.name)
    taken(mask).wait()
    used = iter(mask.tolist())
    for bucket in buckets:
        bucket.finish([next(used) for _ in bucket.parameters])


def shadow(group: ProcessGroup, buckets: list[Bucket], agrees: bool) -> None:
    """Take part in the other ranks' reduction with zeros. The gradients of this rank stay
    unchanged."""
    for bucket in buckets:
        bucket.start(group, counts=False)
    if agrees:
        count = sum(len(bucket.parameters) for bucket in buckets)
        mask = tensor([False] * count, device=buckets[0].parameters[0].device)
        operator("all_reduce_")(mask, "max", group.name)
        taken(mask).wait()
    for bucket in buckets:
        bucket.drop()


def average_gradients(
    parameters: Iterable[Tensor], bucket_bytes: int = BUCKET_BYTES, group: Any = None
) -> None:
    """Replace each parameter's gradient by its mean over all ranks. All ranks get bitwise equal
    results.

    All ranks must call it after backward, with the same parameters in the same order. A missing
    gradient counts as zeros. A gradient that is missing on all ranks stays None.
    """
    where = group_of("average_gradients", group)
    buckets = buckets_of("average_gradients", parameters, bucket_bytes)
    for bucket in buckets:
        bucket.start(where)
    finish(where, buckets)


class GradientAverager:
    """A helper that averages gradients as `average_gradients` does, but begins while backward is
    still running.

        averager = gt.distributed.GradientAverager(model.parameters())
        loss.backward()
        averager.wait()  # now the gradients are the means over all ranks

    The reduction of a bucket starts when its gradients are complete. The order of buckets is the
    same on all ranks, because all ranks must start their collectives in the same order.
    """

    def __init__(
        self, parameters: Iterable[Tensor], bucket_bytes: int = BUCKET_BYTES, group: Any = None
    ) -> None:
        self._group: ProcessGroup = group_of("GradientAverager", group)
        self._buckets: list[Bucket] = buckets_of("GradientAverager", parameters, bucket_bytes)
        self._started: int = 0
        self._hooks: list[Any] = []
        for bucket in self._buckets:
            for p in bucket.parameters:
                hook = p.register_post_accumulate_grad_hook(self._hook_of(bucket))
                self._hooks.append(hook)

    def _hook_of(self, bucket: Bucket) -> Any:
        def made(parameter: Tensor) -> None:
            bucket.missing -= 1
            if bucket.missing < 0 or bucket.work is not None:
                rule = "be called between two calls of backward"
                got = errors.Got("a second gradient of one parameter")
                raise errors.must("GradientAverager", "wait", rule, got)
            self._started = start_ready(self._group, self._buckets, self._started)

        return made

    def wait(self) -> None:
        """Wait until the gradients are the means over all ranks. All ranks must call it."""
        for bucket in self._buckets[self._started :]:
            bucket.start(self._group)
        self._started = 0
        finish(self._group, self._buckets)

    def remove(self) -> None:
        """Remove the hooks. Gradients computed later are not averaged."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
