"""gt.utils against torch.utils: batches, samplers, datasets, nested containers, checkpoints."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
import gputensor.utils.checkpoint
import gputensor.utils.data.distributed
from gputensor.utils import _pytree

torch = pytest.importorskip("torch")
pytest.importorskip("torch.utils.checkpoint")
from torch.utils import _pytree as their_pytree  # noqa: E402

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
SIDES = [(gt, _pytree), (torch, their_pytree)]
Pair = namedtuple("Pair", "x y")


def plain(value: Any) -> Any:
    """Return a batch with its tensors as (dtype's name, values), and its containers' classes."""
    if isinstance(value, (gt.Tensor, torch.Tensor)):
        return str(value.dtype).partition(".")[2], value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, {name: plain(x) for name, x in value.items()}
    if isinstance(value, (list, tuple, deque)):
        return type(value).__name__, [plain(x) for x in value]
    return value


ITEMS: list[Callable[[int], Any]] = [
    lambda n: n,
    lambda n: n / 2,
    lambda n: n > 1,
    lambda n: "text" * n,
    lambda n: b"bytes",
    lambda n: (n, str(n), [n, 2.0]),
    lambda n: [str(n), n],
    lambda n: Pair(n, {"a": n}),
    lambda n: OrderedDict(a=n, b=(n,)),
    lambda n: defaultdict(list, a=n),
    lambda n: np.full((2, 3), n, np.int16),
    lambda n: np.float32(n),
    lambda n: {"a": np.arange(n, n + 2), "b": None if n < 0 else n},
]


@pytest.mark.parametrize("item", range(len(ITEMS)))
def test_batches(item: int) -> None:
    items = [ITEMS[item](n) for n in range(5)]
    found = []
    for lib, _ in SIDES:
        data = lib.utils.data
        batches = list(data.DataLoader(items, 2))
        single = list(data.DataLoader(items, None))
        whole = data.default_collate([ITEMS[item](n) for n in range(3)])
        found.append(plain([batches, single, whole]))
    assert found[0] == found[1]


def test_samplers_and_datasets() -> None:
    def told(lib: Any) -> Any:
        data = lib.utils.data
        x = data.TensorDataset(lib.arange(7), lib.arange(7) * 2)
        both = data.ConcatDataset([x, data.Subset(x, [3, 1])])
        stacked = data.StackDataset(a=both, b=list(range(9)))
        ordered = data.SequentialSampler(both)
        yield [plain(both[n]) for n in range(-9, 9)], both.cumulative_sizes
        yield plain(stacked.__getitems__([8, 0])), plain(stacked[3]), len(stacked)
        for drop in (False, True):
            batches = data.BatchSampler(ordered, 4, drop)
            yield list(batches), len(batches)
            for rank in range(3):
                for shuffle in (False, True):
                    sampler = data.distributed.DistributedSampler(
                        both, 3, rank, shuffle=shuffle, drop_last=drop
                    )
                    yield len(sampler), len(list(sampler)), shuffle or list(sampler)
        for sampler in (
            data.RandomSampler(both), data.SubsetRandomSampler([4, 2, 8]),
            data.WeightedRandomSampler([0.0, 1.0, 0.0, 2.0], 2, replacement=False),
        ):  # fmt: skip
            yield sorted(sampler), len(sampler)
        yield len(list(data.RandomSampler(both, replacement=True, num_samples=20)))
        parts = data.random_split(both, [0.5, 0.25, 0.25])
        yield [len(part) for part in parts], sorted(n for part in parts for n in part.indices)

    assert list(told(gt)) == list(told(torch))


TREES: list[Any] = [
    3,
    [],
    [1, (2, {"a": 3, "b": []})],
    OrderedDict(b=1, a=(2, None)),
    defaultdict(list, a=[1]),
    deque([1, [2]], 4),
    Pair(1, Pair(2, 3)),
]


@pytest.mark.parametrize("tree", range(len(TREES)))
def test_nested_containers(tree: int) -> None:
    def told(pytree: Any) -> Any:
        leaves, spec = pytree.tree_flatten(TREES[tree])
        yield leaves, spec.num_leaves, spec.num_nodes, spec.num_children, spec.is_leaf()
        yield pytree.tree_unflatten(leaves, spec), len(spec.children())
        yield pytree.tree_map(lambda x: [x], TREES[tree]), pytree.tree_leaves(TREES[tree])
        for other in TREES:
            yield spec == pytree.tree_structure(other)
            try:
                yield spec.flatten_up_to(other)
            except ValueError:
                yield "refused"

    assert list(told(_pytree)) == list(told(their_pytree))


def test_results_of_operators_are_containers() -> None:
    for lib, pytree in SIDES:
        found = pytree.tree_map(lambda x: x + 1, lib.tensor([[1, 4], [3, 2]]).max(0))
        assert found.values.tolist() == [4, 5] and found.indices.tolist() == [2, 1]


def test_checkpoints_that_differ_raise_the_same() -> None:
    for lib, _ in SIDES:
        runs: list[int] = []

        def changes(x: Any) -> Any:
            runs.append(1)
            return x[: 3 - len(runs)].exp().sum()

        module = lib.utils.checkpoint
        out = module.checkpoint(changes, lib.ones(2, requires_grad=True), use_reentrant=False)
        with pytest.raises(module.CheckpointError):
            out.backward()
