"""`DistributedDataParallel`: all ranks train one module, each rank on its own batches.

Source: torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/reducer.cpp.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .._generated.functions import cat
from ..autograd import is_grad_enabled, no_grad
from ..core import errors
from ..core.arguments import flag, real
from ..distributed.collectives import ReduceOp, all_reduce, broadcast
from ..distributed.gradients import Bucket, buckets_of, finish, mean, shadow, start_ready
from ..distributed.groups import ProcessGroup, group_of
from ..distributed.work import Work
from ..exchange.construct import tensor
from ..tensor.tensor import Tensor
from ..nn.modules.module import Module
from ..nn.parameter import is_lazy
from .data_parallel import place
from .hooks import reduction
from .uneven import Uneven

_NAME = "DistributedDataParallel"
# Options of PyTorch that are not supported, because they would change the reduced values or the
# time of the reduction.
_ABSENT = (
    "delay_all_reduce_named_params", "param_to_hook_all_reduce", "mixed_precision", "device_mesh",
)  # fmt: skip


class DistributedDataParallel(Module):
    """A wrapper of a module. After backward, the module's gradients are their means over all ranks.

        model = gt.nn.parallel.DistributedDataParallel(model)

    The constructor copies rank 0's parameters and buffers to all ranks. Each forward with gradients
    copies the buffers again. Gradients are reduced bucket by bucket while backward runs. Backward
    returns after the last reduction. Names of parameters and buffers begin with `module.`.

    Args:
        device_ids: None, or a list of the one device of the module. Inputs are not moved.
        output_device, dim, gradient_as_bucket_view, check_reduction: accepted without effect.
        broadcast_buffers: copy rank 0's buffers in each forward with gradients.
        process_group: the ranks, by default all.
        bucket_cap_mb: size of a bucket in MiB, by default 25.
        find_unused_parameters: if an output does not depend on a parameter, the parameter's
            gradient counts as zeros. A parameter that no rank uses keeps its gradient. Without this
            option, a parameter without a gradient raises an error in the next forward.
        static_graph: accepted; implies find_unused_parameters=True.
        init_sync: copy parameters and buffers of rank 0 in the constructor.
    Raises: DistributedError without a process group, or if parameters differ between ranks.
    """

    module: Module
    process_group: ProcessGroup
    broadcast_buffers: bool
    find_unused_parameters: bool
    gradient_as_bucket_view: bool
    static_graph: bool
    device_ids: list[Any] | None
    require_backward_grad_sync: bool
    require_forward_param_sync: bool

    def __init__(
        self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False,
        check_reduction: bool = False, gradient_as_bucket_view: bool = False,
        static_graph: bool = False, delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None, mixed_precision: Any = None, device_mesh: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        group = group_of(_NAME, process_group)
        given = (
            delay_all_reduce_named_params, param_to_hook_all_reduce, mixed_precision, device_mesh
        )  # fmt: skip
        for name, value in zip(_ABSENT, given):
            if value is not None:
                raise errors.must(_NAME, name, "be None", value, kind=errors.AbsentError)
        for name, value in {
            "broadcast_buffers": broadcast_buffers, "init_sync": init_sync,
            "find_unused_parameters": find_unused_parameters, "static_graph": static_graph,
            "gradient_as_bucket_view": gradient_as_bucket_view,
        }.items():  # fmt: skip
            flag(_NAME, name, value)
        _check_devices(device_ids, _trained(module))
        size = real(_NAME, "bucket_cap_mb", 25 if bucket_cap_mb is None else bucket_cap_mb)
        if not size > 0:
            raise errors.wrong_value(_NAME, "bucket_cap_mb", "be positive", bucket_cap_mb)
        self.module, self.process_group = module, group
        self.device_ids = None if device_ids is None else [*device_ids]
        self.broadcast_buffers, self.static_graph = broadcast_buffers, static_graph
        self.find_unused_parameters = find_unused_parameters or static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        _check_same(module, group)
        if init_sync:
            for p in module.parameters():
                broadcast(p.detach(), group=group, group_src=0)
            _broadcast(module.buffers(), group)
        self._bucket_bytes: int = max(1, int(min(size, 2**20) * 2**20))
        self._reducer: _Reducer = self._new_reducer()
        self._comm_hook: tuple[Any, Any] | None = None
        self._uneven: Uneven | None = None

    def _new_reducer(self) -> _Reducer:
        return _Reducer(
            self.module, self._bucket_bytes, self.process_group, self.find_unused_parameters
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes except the group and the reducer. An unpickled module makes new
        ones."""
        left = "process_group", "_reducer"
        return {name: value for name, value in vars(self).items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        vars(self).update(process_group=group_of(_NAME, None))
        vars(self).update(_reducer=self._new_reducer())
        if self._comm_hook is not None:
            self._reducer.use_hook(*self._comm_hook)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module. A backward from its output reduces gradients."""
        reduces = self.require_backward_grad_sync and is_grad_enabled()
        self._reducer.check_ended()
        syncs, source = self.require_forward_param_sync and self.broadcast_buffers, 0
        if self._uneven is not None:
            self._uneven.begin(reduces, syncs)
            self._reducer.scale, source = self._uneven.scale, self._uneven.active[0]
        if syncs:
            _broadcast(self.module.buffers(), self.process_group, source)
        output = self.module(*inputs, **kwargs)
        self.require_forward_param_sync = reduces
        self._reducer.begin(output if reduces else None)
        return output

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within the block, each rank accumulates its own gradients without a reduction.

        The first backward after the block reduces the sums.
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Replace the computation of means by `hook(state, bucket)`. May be called once.

        hook: receives a GradBucket and returns a Future of the tensor that replaces its gradients,
            such as `all_reduce(..., async_op=True).get_future()`. parallel/hooks.py has examples.
        """
        if not callable(hook):
            raise errors.wrong_type(_NAME, "hook", "be a function", hook)
        if self._comm_hook is not None:
            raise errors.must(_NAME, "hook", "be registered once", hook)
        self._comm_hook = state, hook
        self._reducer.use_hook(*self._comm_hook)

    @contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        """Train in the block with a different number of batches on each rank.

        A rank that leaves the block takes part in the other ranks' reductions with zeros. At the
        end it receives the parameters and buffers of a rank that had the most batches. In the
        block, do not use other groups or collectives of your own: ranks would wait for each other
        for ever.

        divide_by_initial_world_size: True for means over all ranks, False for means over the ranks
            that still have batches.
        throw_on_early_termination: raise on all ranks as soon as one rank has no more batches.
        """
        options = {
            "divide_by_initial_world_size": divide_by_initial_world_size, "enable": enable,
            "throw_on_early_termination": throw_on_early_termination,
        }  # fmt: skip
        for name, value in options.items():
            flag("join", name, value)
        if self._uneven is not None:
            raise errors.must("join", "module", "not be inside another join", errors.Got(_NAME))
        if not enable:
            yield
            return
        self._uneven = uneven = Uneven(
            self.process_group, next(self.module.parameters()).device,
            divide_by_initial_world_size, throw_on_early_termination,
        )  # fmt: skip
        try:
            yield
            self._follow(uneven)
        finally:
            self._uneven, self._reducer.scale = None, 1.0

    def _follow(self, uneven: Uneven) -> None:
        """Take part in the other ranks' steps. At the end, copy the parameters of a rank that had
        the most batches."""
        while (step := uneven.next()) is not None:
            reduces, syncs = step
            self._reducer.scale = uneven.scale
            if syncs:
                _broadcast(self.module.buffers(), self.process_group, uneven.active[0])
            if reduces:
                self._reducer.shadow()
        held = [p.detach() for p in self.module.parameters()]
        _broadcast([*held, *self.module.buffers()], self.process_group, uneven.last())


class _Reducer:
    """The object that starts the reduction of each bucket when the bucket's gradients are complete.
    After it has started the last bucket, it waits for all buckets.

    Buckets are started in the same order on all ranks: from the last parameter to the first.
    """

    def __init__(
        self, module: Module, bucket_bytes: int, group: ProcessGroup, finds_unused: bool
    ) -> None:
        self._group, self._finds_unused = group, finds_unused
        self._names = {id(p): name for name, p in module.named_parameters()}
        self._buckets: list[Bucket] = buckets_of(_NAME, module.parameters(), bucket_bytes)
        # _missing: the ids of parameters that have no gradient yet. _is_awaited: True after
        # a forward until its backward ends. _began: True once backward has computed a gradient.
        self._missing: set[int] = set()
        self._is_awaited = False
        self._began = False
        self._started = 0
        self.scale = 1.0  # the factor of the means; see Uneven.scale
        for bucket in self._buckets:
            bucket.reduce = self._mean
            for p in bucket.parameters:
                p.register_post_accumulate_grad_hook(self._hook_of(bucket))

    def _mean(self, bucket: Bucket, group: ProcessGroup) -> Work:
        if self.scale != 1:
            bucket.flat.mul_(self.scale)
        return mean(bucket, group)

    def use_hook(self, state: Any, hook: Any) -> None:
        """Reduce the buckets by a communication hook."""
        count = len(self._buckets)
        for n, bucket in enumerate(self._buckets):
            bucket.reduce = reduction(state, hook, n, n + 1 == count)

    def shadow(self) -> None:
        """Take part in a backward of the other ranks, with gradients of zero."""
        shadow(self._group, self._buckets, self._finds_unused)

    def check_ended(self) -> None:
        """Raise an error if the last backward left a parameter without a gradient."""
        if not (self._is_awaited and self._began):
            return
        names = [name for key, name in self._names.items() if key in self._missing]
        self._is_awaited = False
        raise errors.must(
            _NAME, "find_unused_parameters",
            "be True where an output does not depend on all parameters",
            errors.Got(f"no gradient of {', '.join(names[:8])}"), kind=errors.DistributedError,
        )  # fmt: skip

    def begin(self, output: Any) -> None:
        """Expect gradients of all parameters on which `output` depends. If `output` is None, expect
        no gradients.
        """
        self._is_awaited = output is not None
        if output is None:
            return
        every = {id(p) for bucket in self._buckets for p in bucket.parameters}
        self._missing = every & _used(output) if self._finds_unused else every
        for bucket in self._buckets:
            bucket.missing = sum(id(p) in self._missing for p in bucket.parameters)
        self._started, self._began = 0, False
        # If this rank expects no gradients, start now, because other ranks may have gradients.
        if not self._missing:
            self._go_on()

    def _hook_of(self, bucket: Bucket) -> Any:
        def made(parameter: Tensor) -> None:
            if not self._is_awaited:
                return
            if id(parameter) not in self._missing:
                rule = "get one gradient in a backward, from an output of the last forward"
                got = errors.Got(self._names[id(parameter)])
                raise errors.must(_NAME, "parameters", rule, got, kind=errors.DistributedError)
            self._missing.discard(id(parameter))
            self._began = True
            bucket.missing -= 1
            self._go_on()

        return made

    def _go_on(self) -> None:
        """Start the reduction of each bucket whose gradients are complete. When all reductions have
        started, wait for the means."""
        self._started = start_ready(self._group, self._buckets, self._started)
        if self._started == len(self._buckets):
            self._is_awaited = False
            finish(self._group, self._buckets, agrees=self._finds_unused)


def _used(output: Any) -> set[int]:
    """Return the ids of all leaves on which an output, or the outputs in a container, depend."""
    leaves: set[int] = set()
    seen: set[int] = set()
    nodes: list[Any] = [x.grad_fn for x in _tensors(output) if x.grad_fn is not None]
    leaves.update(id(x) for x in _tensors(output) if x.is_leaf)
    while nodes:
        node = nodes.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        variable = getattr(node, "variable", None)
        if variable is not None:
            leaves.add(id(variable))
        nodes += [following for following, _ in node.next_functions if following is not None]
    return leaves


def _tensors(found: Any) -> Iterator[Tensor]:
    if isinstance(found, Tensor):
        yield found
    elif isinstance(found, dict):
        for one in found.values():
            yield from _tensors(one)
    elif isinstance(found, (list, tuple)):
        for one in found:
            yield from _tensors(one)
    elif hasattr(found, "__dataclass_fields__"):
        yield from _tensors([*vars(found).values()])


def _trained(module: Any) -> list[Tensor]:
    """Return the parameters to train. Raises: ArgumentError for a module without parameters to
    train, or with lazy parameters or buffers whose sizes are not known yet."""
    if not isinstance(module, Module):
        raise errors.wrong_type(_NAME, "module", "be a Module", module)
    if any(is_lazy(x) for x in (*module.parameters(), *module.buffers())):
        rule, remedy = "have sizes of all parameters", "call it once before"
        raise errors.must(_NAME, "module", rule, errors.Got("a lazy module"), remedy=remedy)
    trained = [p for p in module.parameters() if p.requires_grad]
    if not trained:
        raise errors.wrong_value(_NAME, "module", "have a parameter to train", module)
    return list(trained)


def _check_devices(device_ids: Any, trained: list[Any]) -> None:
    """Raise an error unless `device_ids` is None or a list of one device on which all trained
    parameters are."""
    if device_ids is None:
        return
    if not isinstance(device_ids, (list, tuple)) or len(device_ids) != 1:
        raise errors.wrong_value(_NAME, "device_ids", "be a list of one device", device_ids)
    wanted = place(_NAME, device_ids[0])
    for p in trained:
        if p.device != wanted:
            rule = f"be the module's device, {p.device}"
            raise errors.wrong_value(_NAME, "device_ids", rule, device_ids)


def _check_same(module: Module, group: ProcessGroup) -> None:
    """Raise an error on all ranks unless parameters and buffers have equal names, shapes and
    dtypes."""
    held = [*module.named_parameters(), *module.named_buffers()]
    text = repr([(name, tuple(x.shape), str(x.dtype), x.requires_grad) for name, x in held])
    digest = zlib.crc32(text.encode())
    found = tensor([digest, -digest], device=next(module.parameters()).device)
    all_reduce(found, ReduceOp.MAX, group)
    most, least = found.tolist()
    if most != -least:
        rule = "have parameters and buffers of the same names, sizes and dtypes on all ranks"
        raise errors.must(_NAME, "module", rule, errors.Got("others"), kind=errors.DistributedError)


def _broadcast(tensors: Iterable[Tensor], group: ProcessGroup, source: int = 0) -> None:
    """Copy the tensors of rank `source` to all ranks, with one message for each dtype and
    device."""
    kinds: dict[Any, list[Tensor]] = {}
    for x in tensors:
        kinds.setdefault((x.dtype, x.device), []).append(x)
    with no_grad():
        for xs in kinds.values():
            flat = cat([x.reshape(-1) for x in xs])
            broadcast(flat, group=group, group_src=source)
            if group.rank() != source:
                for x, part in zip(xs, flat.split([x.numel() for x in xs])):
                    x.copy_(part.view(x.shape))
