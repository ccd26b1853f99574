"""gt.utils.data: batches and their order, and failing workers."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.utils import data
from gputensor.utils.data.distributed import DistributedSampler

Pair = namedtuple("Pair", "x y")


class Items(data.Dataset[Any]):
    def __len__(self) -> int:
        return 11

    def __getitem__(self, n: int) -> Any:
        return gt.full((2,), float(n)), n


class Counted(data.IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        yield from range(first, 11, step)


class Drawn(Items):
    def __getitem__(self, n: int) -> Any:
        return random.random(), float(np.random.rand()), gt.rand(()).item()


class Raises(Items):
    def __getitem__(self, n: int) -> Any:
        if n == 7:
            raise KeyError("seven")
        return n


class Dies(Items):
    def __getitem__(self, n: int) -> Any:
        if n == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return n


class Sleeps(Items):
    def __getitem__(self, n: int) -> Any:
        time.sleep(60)


class Stops(Items):
    def __getitem__(self, n: int) -> Any:
        if n == 5:
            raise StopIteration
        return n


class Unsendable(Items):
    def __getitem__(self, n: int) -> Any:
        return lambda: n


class RaisesItsOwn(Items):
    def __getitem__(self, n: int) -> Any:
        class Local(Exception):
            pass

        raise Local("here")


class Many(data.Dataset[Any]):
    """A dataset whose requests are lists that do not fit into a pipe."""

    def __init__(self, dies: bool) -> None:
        self.dies = dies

    def __len__(self) -> int:
        return 400_000

    def __getitems__(self, indices: Any) -> Any:
        if self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return [np.zeros(100_000), len(indices)]


def numbers(loader: Any) -> list[Any]:
    return [batch[1].tolist() for batch in loader]


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_keep_their_order(workers: int) -> None:
    loader = data.DataLoader(Items(), 4, num_workers=workers)
    expected = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    assert numbers(loader) == expected and len(loader) == 3
    assert numbers(data.DataLoader(Items(), 4, drop_last=True, num_workers=workers)) == expected[:2]
    first = next(iter(loader))
    assert type(first) is tuple or type(first) is list
    assert first[0].tolist() == [[n, n] for n in (0.0, 1.0, 2.0, 3.0)]
    single = [x[1] for x in data.DataLoader(Items(), None, num_workers=workers)]
    assert single == list(range(11))
    batches = data.DataLoader(Items(), batch_sampler=[[3, 1], [2]], num_workers=workers)
    assert numbers(batches) == [[3, 1], [2]]


def test_the_order_follows_from_the_seed_and_not_from_the_workers() -> None:
    found = []
    for workers in (0, 2):
        gt.manual_seed(3)
        found.append(numbers(data.DataLoader(Items(), 4, shuffle=True, num_workers=workers)))
    assert found[0] == found[1] and sorted(sum(found[0], [])) == list(range(11))


@pytest.mark.parametrize("workers", [0, 2])
def test_iterable_datasets_are_shared_out(workers: int) -> None:
    loader = data.DataLoader(Counted(), 3, num_workers=workers, persistent_workers=workers > 0)
    for _ in range(2):
        found = [batch.tolist() for batch in loader]
        assert sorted(sum(found, [])) == list(range(11))
        assert max(map(len, found)) == 3
    del loader


def test_workers_draw_numbers_of_their_own() -> None:
    def draw() -> Any:
        gt.manual_seed(1)
        return [[x.item() for x in batch] for batch in data.DataLoader(Drawn(), 1, num_workers=2)]

    first = draw()
    assert first == draw()
    assert len({x for batch in first for x in batch}) == 33


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_processes_may_be_started_in_either_way(context: str) -> None:
    loader = data.DataLoader(Items(), 6, num_workers=1, multiprocessing_context=context)
    assert numbers(loader) == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]


def nobody_left() -> bool:
    return not multiprocessing.active_children()


def test_a_worker_that_raises_is_named() -> None:
    with pytest.raises(
        KeyError, match=r"worker 1 of the DataLoader raised KeyError(.|\n)*__getitem__"
    ):
        list(data.DataLoader(Raises(), 2, num_workers=2))
    assert nobody_left()


def test_a_worker_that_dies_is_named() -> None:
    with pytest.raises(
        RuntimeError, match="worker 1 of the DataLoader has ended with exit code -9"
    ):
        list(data.DataLoader(Dies(), 2, num_workers=2))
    assert nobody_left()


def test_a_worker_that_does_not_answer_is_given_up() -> None:
    with pytest.raises(RuntimeError, match=r"no batch for 0\.5 s"):
        list(data.DataLoader(Sleeps(), 2, num_workers=1, timeout=0.5))
    assert nobody_left()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_that_stops_ends_the_pass(workers: int) -> None:
    loader = data.DataLoader(Stops(), 2, num_workers=workers)
    assert [x.tolist() for x in loader] == [[0, 1], [2, 3]]
    assert nobody_left()


@pytest.mark.parametrize(
    "dataset, message",
    [(Unsendable(), "cannot be sent to the main process"), (RaisesItsOwn(), "Local: here")],
)
def test_what_cannot_be_pickled_is_named(dataset: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        list(data.DataLoader(dataset, None, num_workers=1))
    assert nobody_left()


@pytest.mark.full
def test_lists_of_many_indices_keep_nobody_waiting() -> None:
    options: Any = {"batch_size": 50_000, "num_workers": 2, "prefetch_factor": 4}
    loader = data.DataLoader(Many(dies=False), collate_fn=lambda x: x[1], **options)
    assert list(loader) == [50_000] * 8
    with pytest.raises(RuntimeError, match="exit code -9"):
        list(data.DataLoader(Many(dies=True), **options))
    assert nobody_left()


@pytest.mark.full
def test_two_passes_over_one_loader() -> None:
    loader = data.DataLoader(Items(), 4, num_workers=2, persistent_workers=True)
    expected = numbers(loader)
    assert [(a[1].tolist(), numbers(loader)) for a in loader] == [(x, expected) for x in expected]
    first, second = iter(loader), iter(loader)
    pairs = [(a[1].tolist(), b[1].tolist()) for a, b in zip(first, second)]
    assert pairs == [(x, x) for x in expected]
    del first, second, loader
    assert nobody_left()


LEFT = """
import os, sys, time
from gputensor.utils import data
class Items(data.Dataset):
    def __len__(self): return 1000
    def __getitem__(self, n): return os.getpid()
loader = data.DataLoader(Items(), 1, num_workers=2, persistent_workers=True)
batches = iter(loader)
print(*[next(batches).item() for _ in range(2)], flush=True)
"""


@pytest.mark.full
def test_workers_end_with_a_main_process_that_is_killed() -> None:
    code = LEFT + "time.sleep(600)"
    main = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert main.stdout is not None
    workers = [int(x) for x in main.stdout.readline().split()]
    main.kill()
    main.wait()
    main.stdout.close()
    for worker in workers:
        while is_running(worker):
            time.sleep(0.05)


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.full
def test_an_exit_within_a_pass_says_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert not any(is_running(int(x)) for x in done.stdout.split())


def test_a_pass_that_is_left_ends_its_workers() -> None:
    batches = iter(data.DataLoader(Items(), 1, num_workers=2))
    next(batches)
    del batches
    assert nobody_left()


def test_ctrl_c_leaves_nobody_behind() -> None:
    code = """
import os, signal, sys, threading, time, multiprocessing
import gputensor as gt
from gputensor.utils import data
class Slow(data.Dataset):
    def __len__(self): return 1000
    def __getitem__(self, n):
        time.sleep(0.01)
        return n
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    for n, batch in enumerate(data.DataLoader(Slow(), 2, num_workers=2)):
        if n == 3:
            os.killpg(0, signal.SIGINT)
except KeyboardInterrupt:
    print("left", multiprocessing.active_children())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, start_new_session=True
    )
    assert done.stdout == "left []\n" and "Traceback" not in done.stderr, done.stderr


def test_items_become_batches() -> None:
    made = data.default_collate([
        {"a": gt.ones(2), "b": (1, 2.0), "c": "x", "d": np.float32(3), "e": Pair(1, [True])},
        {"a": gt.zeros(2), "b": (3, 4.0), "c": "y", "d": np.float32(4), "e": Pair(2, [False])},
    ])  # fmt: skip
    assert made["a"].shape == (2, 2) and made["c"] == ["x", "y"]
    assert made["b"][0].tolist() == [1, 3] and made["b"][1].dtype is gt.float64
    assert made["d"].dtype is gt.float32 and type(made["e"]) is Pair
    assert made["e"].y[0].tolist() == [True, False]
    with pytest.raises(errors.GpuTensorError):
        data.default_collate([object(), object()])
    with pytest.raises(errors.GpuTensorError):
        data.default_collate([(1, 2), (1,)])


def test_containers_keep_their_class_in_a_batch() -> None:
    made = data.default_collate([defaultdict(list, a=1), defaultdict(list, a=2)])
    assert type(made) is defaultdict and made["a"].tolist() == [1, 2] and made["other"] == []
    assert data.default_collate([("x", 1), ("y", 2)])[0] == ("x", "y")
    assert type(data.default_convert(OrderedDict(a=np.ones(2)))) is OrderedDict


def test_datasets_are_combined() -> None:
    x = data.TensorDataset(gt.arange(4), gt.arange(4) * 2)
    assert [int(v) for v in x[3]] == [3, 6] and len(x) == 4
    both = x + data.Subset(x, [2, 0])
    assert len(both) == 6 and int(both[4][0]) == 2 and int(both[-1][0]) == 0
    assert data.StackDataset(a=[1, 2], b=[3, 4])[1] == {"a": 2, "b": 4}
    assert data.StackDataset(x, [5, 6, 7, 8]).__getitems__([2])[0][1] == 7
    assert data.StackDataset(a=x.tensors[0])[0].keys() == {"a"}
    named = data.StackDataset(a=data.Subset(x, [2, 0, 1]), b="def")
    assert [v["b"] for v in named.__getitems__([0, 2])] == ["d", "f"]
    assert int(named.__getitems__([0])[0]["a"][1]) == 4
    assert list(Counted() + Counted()) == [*range(11), *range(11)]
    parts = data.random_split(range(10), [0.7, 0.3], gt.Generator().manual_seed(1))
    assert [len(p) for p in parts] == [7, 3]
    assert sorted(n for p in parts for n in p) == list(range(10))
    for bad in (
        lambda: data.TensorDataset(gt.ones(2), gt.ones(3)), lambda: both[6],
        lambda: data.random_split(range(4), [1, 2]), lambda: data.StackDataset(),
    ):  # fmt: skip
        with pytest.raises(errors.GpuTensorError):
            bad()


def test_samplers() -> None:
    gt.manual_seed(0)
    assert sorted(data.RandomSampler(range(5))) == [0, 1, 2, 3, 4]
    assert len(list(data.RandomSampler(range(5), replacement=True, num_samples=40))) == 40
    assert sorted(data.SubsetRandomSampler([4, 2])) == [2, 4]
    assert set(data.WeightedRandomSampler([0.0, 1.0, 0.0], 9)) == {1}
    assert list(data.BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    parts = [DistributedSampler(range(7), 3, rank, seed=2) for rank in range(3)]
    assert sorted({n for part in parts for n in part}) == list(range(7))
    assert {len(list(part)) for part in parts} == {3}
    before = list(parts[0])
    parts[0].set_epoch(1)
    assert list(parts[0]) != before


@pytest.mark.parametrize(("args", "kind", "said"), [
    (([1], 0, 0), ValueError, "'num_replicas' must be positive"),
    (([1], 2, 2), ValueError, "'rank' must be below 2"),
    (([1], 2, "a"), TypeError, "'rank' must be an int"),
    (([1], 2, 0, True, "a"), TypeError, "'seed' must be an int"),
    ((3, 2, 1), TypeError, "'dataset' must have a length"),
    (([1],), RuntimeError, "there must be a process group"),
])  # fmt: skip
def test_what_a_distributed_sampler_refuses(args: Any, kind: Any, said: str) -> None:
    with pytest.raises(kind, match=said) as caught:
        DistributedSampler(*args)
    assert isinstance(caught.value, errors.GpuTensorError)
    part = DistributedSampler([1, 2], 2, 1)
    with pytest.raises(TypeError, match="'epoch' must be an int"):
        part.set_epoch("a")  # type: ignore[arg-type]
    assert part.epoch == 0


@pytest.mark.parametrize("options", [
    {"num_workers": -1}, {"timeout": -1}, {"prefetch_factor": 2}, {"persistent_workers": True},
    {"batch_size": 0}, {"batch_size": None, "drop_last": True}, {"shuffle": True, "sampler": [0]},
    {"batch_sampler": [[0]], "batch_size": 2},
])  # fmt: skip
def test_bad_options(options: Any) -> None:
    with pytest.raises(errors.GpuTensorError):
        data.DataLoader(Items(), **options)


class Faulty(data.Dataset[int]):
    def __getitem__(self, index: int) -> int:
        if index % 2:
            raise ValueError(f"item {index}")
        return index

    def __len__(self) -> int:
        return 6


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pass_continues_after_an_error(workers: int) -> None:
    batches = iter(data.DataLoader(Faulty(), num_workers=workers))
    found: list[Any] = []
    for _ in range(6):
        try:
            found.append(next(batches).tolist())
        except ValueError as error:
            found.append("item" in str(error))
    assert found == [[0], True, [2], True, [4], True]
    with pytest.raises(StopIteration):
        next(batches)


def test_types_of_items_may_be_named() -> None:
    for kind in (data.DataLoader, data.StackDataset, data.ChainDataset, data.Subset):
        assert kind[int] is not None
    assert data.DistributedSampler[int] is not None
