"""SyncBatchNorm and DistributedDataParallel against one process with all batches."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np

import gputensor as gt
import gputensor.distributed as dist
from gputensor import nn
from gputensor.parallel import hooks, uneven

from ..reference import case

DDP = nn.parallel.DistributedDataParallel


def drawn(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng([seed, len(shape)]).normal(3.0, 2.0, shape).astype(np.float32)


def of(array: np.ndarray, device: str) -> Any:
    return gt.from_numpy(array.copy()).to(device)


def close(x: Any, wanted: Any, tolerance: float = 2e-5) -> None:
    found, wanted = (y.detach().cpu().numpy() for y in (x, wanted))
    np.testing.assert_allclose(found, wanted, tolerance, tolerance * np.abs(wanted).max(initial=1))


def bounds(rows: int) -> np.ndarray:
    """Return begin and end of each rank's part of a batch. Parts are uneven, and the last is
    smallest."""
    n = dist.get_world_size()
    return np.append(0, np.cumsum([rows - (n - 1), *[1] * (n - 1)]))


@case
def batch_norm_over_all_batches(device: str) -> None:
    rank = dist.get_rank()
    for seed, (shape, options, dtype) in enumerate([
        ((9, 3), {}, gt.float32), ((9, 3, 4, 2), {"momentum": None}, gt.float32),
        ((8, 2, 5), {"affine": False}, gt.float64), ((8, 2, 5), {"bias": False}, gt.float32),
        ((6, 2, 1, 2, 2), {"track_running_stats": False, "eps": 0.1}, gt.float32),
        ((9, 3, 4), {}, gt.float16),
    ]):  # fmt: skip
        kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
        made: Any = {"device": device, "dtype": dtype}
        ours = nn.SyncBatchNorm(shape[1], **options, **made)
        whole = kind[len(shape)](shape[1], **options, **made)
        for norm in (ours, whole):
            for n, p in enumerate(norm.parameters()):
                p.data.copy_(of(drawn(tuple(p.shape), 50 + n), device))
        begin, end = bounds(shape[0])[rank : rank + 2]
        tolerance = 4e-3 if dtype is gt.float16 else 2e-5
        for step in range(2):
            values, weights = (of(drawn(shape, seed + k), device).to(dtype) for k in (step, 20))
            x, y = values[begin:end].clone().requires_grad_(), values.clone().requires_grad_()
            out, wanted = ours(x), whole(y)
            assert out.dtype is dtype
            close(out, wanted[begin:end], tolerance)
            (out * weights[begin:end]).sum().backward()
            (wanted * weights).sum().backward()
            close(x.grad, y.grad[begin:end], tolerance)
            for name, kept in whole.named_buffers():
                close(dict(ours.named_buffers())[name], kept, tolerance)
            for p, q in zip(ours.parameters(), whole.parameters()):
                total = p.grad.clone()  # each rank has its own part
                dist.all_reduce(total)
                close(total, q.grad, 8 * tolerance)
                p.grad = q.grad = None
        if whole.track_running_stats:
            close(ours.eval()(values), whole.eval()(values), tolerance)


@case
def batch_norm_where_one_rank_has_nothing(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    values = of(drawn((4, 3, 2), 1), device)
    ours, whole = nn.SyncBatchNorm(3, device=device), nn.BatchNorm1d(3, device=device)
    if n == 1:
        return
    x = (values if rank == n - 1 else values[:0]).clone().requires_grad_()
    y = values.clone().requires_grad_()
    out, wanted = ours(x), whole(y)
    assert out.shape == x.shape
    (out * out * out).sum().backward()
    (wanted * wanted * wanted).sum().backward()
    if rank == n - 1:
        close(out, wanted)
        close(x.grad, y.grad, 2e-4)
    close(ours.running_var, whole.running_var)
    for call in (lambda: ours(values[:, :2]), lambda: ours(values[0, 0])):
        try:
            call()
        except gt.GpuTensorError as error:
            assert "SyncBatchNorm: 'input' must have" in str(error)
        else:
            raise AssertionError("nothing was raised")


@case
def batch_norms_are_converted(device: str) -> None:
    net = nn.Sequential(
        nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm2d(3, affine=False)),
        nn.InstanceNorm2d(3),
    ).to(device)  # fmt: skip
    weight = net[1].weight
    made = nn.SyncBatchNorm.convert_sync_batchnorm(net.eval())
    kinds = [type(x).__name__ for x in made.modules()]
    assert kinds == ["Sequential", "Conv2d", "SyncBatchNorm", "Sequential", "SyncBatchNorm",
                     "InstanceNorm2d"]  # fmt: skip
    assert made is net and net[1].weight is weight and not net[1].training
    assert net[1].weight.device == weight.device
    alone = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(4, momentum=None))
    assert type(alone) is nn.SyncBatchNorm and alone.momentum is None


class Net(nn.Module):
    """Two layers, of which the second may stay unused; and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 5)
        self.second = nn.Linear(5, 5)
        self.last = nn.Linear(5, 2)
        self.register_buffer("seen", gt.zeros(3))

    def forward(self, x: Any, with_second: bool = True) -> Any:
        hidden = self.first(x).tanh()
        if with_second:
            hidden = self.second(hidden).tanh()
        return {"out": [self.last(hidden)]}


def net(device: str, seed: int) -> Any:
    made = Net()
    for n, p in enumerate(made.parameters()):
        p.data.copy_(gt.from_numpy(drawn(tuple(p.shape), 100 * seed + n) / 8))
    return made.to(device)


def stepped(model: Any, x: Any, y: Any, **options: Any) -> None:
    optimizer = gt.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        ((model(x, **options)["out"][0] - y) ** 2).mean().backward()
        optimizer.step()


@case
def data_parallel_steps_are_those_of_one_process(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    x, y = of(drawn((4 * n, 4), 1), device), of(drawn((4 * n, 2), 2), device)
    part = slice(4 * rank, 4 * rank + 4)
    for options in (
        {}, {"bucket_cap_mb": 1e-5}, {"find_unused_parameters": True},
        {"static_graph": True, "gradient_as_bucket_view": True, "broadcast_buffers": False},
    ):  # fmt: skip
        whole = net(device, 0)
        model = DDP(net(device, rank), **options)  # rank 0's parameters are used
        assert [*model.state_dict()] == [f"module.{name}" for name in whole.state_dict()]
        stepped(whole, x, y)
        stepped(model, x[part], y[part])
        for p, q in zip(model.parameters(), whole.parameters()):
            close(p, q)
            same_bits(p)


def same_bits(x: Any) -> None:
    most, least = x.detach().clone(), x.detach().clone()
    dist.all_reduce(most, dist.ReduceOp.MAX)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    assert most.equal(least)


@case
def data_parallel_without_sync_adds_up(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    model, whole = DDP(net(device, 0)), net(device, 0)
    x = of(drawn((3 * n, 4), 3), device)
    for step in range(3):
        part = x[3 * rank + step : 3 * rank + step + 1]
        if step < 2:
            with model.no_sync():
                model(part)["out"][0].sum().backward()
        else:
            own = [p.grad.clone() for p in model.parameters()]
            model(part)["out"][0].sum().backward()
    (whole(x)["out"][0].sum() / n).backward()
    for p, q, before in zip(model.parameters(), whole.parameters(), own):
        close(p.grad, q.grad)
        if n > 1 and p.ndim > 1:
            assert not before.equal(p.grad)


@case
def data_parallel_with_unused_parameters(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    x = of(drawn((2, 4), 4 + rank), device)
    model = DDP(net(device, 0), find_unused_parameters=True, bucket_cap_mb=1e-5)
    model(x, with_second=False)["out"][0].sum().backward()
    assert model.module.second.weight.grad is None  # of nobody
    same_bits(model.module.first.weight.grad)
    model(x, with_second=rank == n - 1)["out"][0].sum().backward()
    same_bits(model.module.second.weight.grad)  # zeros on all ranks except the last
    assert model.module.second.weight.grad.abs().sum().item() > 0
    model(x)  # without a backward, there is nothing to wait for
    model(x)["out"][0].sum().backward()

    model = DDP(net(device, 0))
    model(x, with_second=False)["out"][0].sum().backward()
    try:
        model(x)
    except dist.DistributedError as error:
        assert "no gradient of second.weight, second.bias" in str(error), error
    else:
        raise AssertionError("nothing was raised")
    for work in [bucket.work for bucket in model._reducer._buckets if bucket.work is not None]:
        work.wait()


@case
def data_parallel_buffers_follow_the_first_rank(device: str) -> None:
    rank = dist.get_rank()
    made = net(device, 0)
    made.seen.fill_(float(rank + 1))
    model = DDP(made)
    assert made.seen.tolist() == [1.0] * 3
    made.seen.fill_(float(rank + 5))
    x = of(drawn((2, 4), 4), device)
    with gt.no_grad():
        model(x)
    assert made.seen.tolist() == [5.0] * 3
    made.seen.fill_(float(rank + 7))
    with gt.no_grad():  # after a forward that is not recorded they stay
        model(x)
    assert made.seen.tolist() == [7.0 + rank] * 3


@case
def copies_of_data_parallel_modules_are_reduced_by_themselves(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    model = DDP(net(device, 0), find_unused_parameters=True)
    norm = nn.SyncBatchNorm(2, process_group=dist.GroupMember.WORLD)
    assert copy.deepcopy(norm).process_group is norm.process_group
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        x = gt.full((2, 4), float(rank), device=device)
        made(x, with_second=False)["out"][0].sum().backward()
        same_bits(made.module.first.weight.grad)
        assert made.module.second.weight.grad is None
    assert all(p.grad is None for p in model.parameters()) and n == model.process_group.size()


@case
def data_parallel_refusals(device: str) -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    refused: list[tuple[Any, str]] = [
        (lambda: DDP(nn.ReLU()), "'module' must have a parameter to train"),
        (lambda: DDP(3), "'module' must be a Module"),
        (lambda: DDP(net(device, 0), device_ids=[0, 1]), "'device_ids' must be a list of one"),
        (lambda: DDP(net(device, 0), device_ids=["meta"]), "be the module's device"),
        (lambda: DDP(net(device, 0), bucket_cap_mb=0), "'bucket_cap_mb' must be positive"),
        (lambda: DDP(net(device, 0), mixed_precision=1), "'mixed_precision' must be None"),
    ]
    refused += [
        (lambda: DDP(nn.LazyLinear(2)), "'module' must have sizes of all parameters"),
        (lambda: pickle.dumps(dist.GroupMember.WORLD), "'group' must stay in its process"),
    ]
    if n > 1:
        other = nn.Linear(4, 2 + (rank == n - 1)).to(device)
        refused.append((lambda: DDP(other), "on all ranks"))
    for call, said in refused:
        try:
            call()
        except gt.GpuTensorError as error:
            assert said in str(error), error
        else:
            raise AssertionError(f"nothing was raised: {said}")
    dist.barrier()


@case
def hooks_reduce_gradients(device: str) -> None:
    """Hooks of parallel/hooks.py and of programs give the steps of one process."""
    n, rank = dist.get_world_size(), dist.get_rank()
    x, y = of(drawn((4 * n, 4), 1), device), of(drawn((4 * n, 2), 2), device)
    part = slice(4 * rank, 4 * rank + 4)
    seen: list[Any] = []

    def own(state: Any, bucket: hooks.GradBucket) -> Any:
        assert state == "state" and all(
            g.shape == p.shape for g, p in zip(bucket.gradients(), bucket.parameters())
        )
        seen.append((bucket.index(), bucket.is_last()))
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda before: [before.value()[0] / n])

    whole = net(device, 0)
    stepped(whole, x, y)
    for state, hook, tolerance in (
        (None, hooks.allreduce_hook, 2e-5), ("state", own, 2e-5),
        (dist.GroupMember.WORLD, hooks.fp16_compress_hook, 2e-2),
        (None, hooks.bf16_compress_hook, 5e-2),
        (None, hooks.fp16_compress_wrapper(hooks.allreduce_hook), 2e-2),
    ):  # fmt: skip
        model = DDP(net(device, rank), bucket_cap_mb=1e-5)
        model.register_comm_hook(state, hook)
        stepped(model, x[part], y[part])
        for p, q in zip(model.parameters(), whole.parameters()):
            close(p, q, tolerance)
            same_bits(p)
    count = len(model._reducer._buckets)
    assert seen == 3 * [(k, k == count - 1) for k in range(count)] and count > 1
    twice = copy.deepcopy(model)
    stepped(twice, x[part], y[part])
    for call, said in (
        (lambda: model.register_comm_hook(None, print), "'hook' must be registered once"),
        (lambda: DDP(net(device, 0)).register_comm_hook(None, 3), "'hook' must be a function"),
    ):  # fmt: skip
        raises(call, said)
    wrong = DDP(net(device, 0))
    wrong.register_comm_hook(None, lambda state, bucket: bucket.buffer())
    raises(lambda: wrong(x)["out"][0].sum().backward(), "'hook' must return a Future (got")


def raises(call: Any, said: str) -> None:
    try:
        call()
    except gt.GpuTensorError as error:
        assert said in str(error), error
    else:
        raise AssertionError(f"nothing was raised: {said}")


@case
def uneven_batches(device: str) -> None:
    """Rank n has n + 2 batches; means are over all ranks, or over ranks that still have a batch."""
    n, rank = dist.get_world_size(), dist.get_rank()
    x = of(drawn((n + 1, n, 3, 4), 1), device)  # by step, rank, row
    for options in ({}, {"divide_by_initial_world_size": False}, {"enable": n > 1}):
        for made in (
            {}, {"find_unused_parameters": True}, {"bucket_cap_mb": 1e-5},
            {"broadcast_buffers": False},
        ):  # fmt: skip
            model, whole = DDP(net(device, rank), **made), net(device, 0)
            optimizers = [gt.optim.SGD(m.parameters(), lr=0.01) for m in (model, whole)]
            with model.join(**options):
                for step in range(rank + 2):
                    optimizers[0].zero_grad()
                    model(x[step, rank])["out"][0].square().mean().backward()
                    optimizers[0].step()
            for step in range(n + 1):
                optimizers[1].zero_grad()
                having = range(max(0, step - 1), n)
                divisor = len(having) if "divide_by_initial_world_size" in options else n
                for k in having:
                    (whole(x[step, k])["out"][0].square().mean() / divisor).backward()
                optimizers[1].step()
            for p, q in zip(model.parameters(), whole.parameters()):
                close(p, q)
                same_bits(p)
            stepped(model, x[0, 0], x[0, 0, :, :2])  # as before


@case
def uneven_batches_may_stop_all(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    model = DDP(net(device, 0))

    def train() -> None:
        with model.join(throw_on_early_termination=True):
            for _ in range(rank + 1):
                model(gt.ones(2, 4, device=device))["out"][0].sum().backward()

    raises(train, "none left on rank 0") if n > 1 else train()
    raises(lambda: uneven.Join([]), "'joinables' must be a list of one")
    with uneven.Join([model]):
        raises(lambda: model.join().__enter__(), "'module' must not be inside another join")
        model(gt.ones(2, 4, device=device))["out"][0].sum().backward()


@case
def futures_of_collectives(device: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    x = gt.full((3,), float(rank + 1), device=device)
    future = dist.all_reduce(x, async_op=True).get_future()
    doubled = future.then(lambda before: before.value()[0] * 2)
    last = doubled.then(lambda before: before.value().sum())
    total = n * (n + 1) / 2
    assert last.wait().item() == 6 * total and last.done() and future.value()[0] is x
    y = gt.zeros(n, device=device)
    work = dist.all_gather_into_tensor(y, x[:1] * 0 + rank, async_op=True)
    future = work.get_future()
    while not future.done():
        pass
    assert future.value()[0].tolist() == [*range(n)]
    assert dist.barrier(async_op=True).get_future().wait() == []
    failing = future.then(lambda before: 1 // 0).then(lambda before: before.value())
    try:
        failing.wait()
    except ZeroDivisionError:
        pass
    else:
        raise AssertionError("nothing was raised")
