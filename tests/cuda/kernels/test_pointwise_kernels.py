"""Pointwise kernels for large layouts, and reductions, on the emulator: any layout, against NumPy.

Operators on tensors that are broadcast, transposed, sliced and shifted. Thresholds of
pointwise_plan.py are lowered, so that small tensors take the kernels for large ones. A first pass
collects the variants, which are compiled together, because g++ starts slowly. GPUTENSOR_FUZZ=2000
makes 2,000 cases instead of a few.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor import runtime
from gputensor.dispatch import dispatcher
from gputensor.kernels.cuda import binding, launch, module, pointwise_plan
from gputensor.runtime.emulator import settings

from ...harness import tier
from ..support import requires_emulator

pytestmark = [
    requires_emulator,
    pytest.mark.skipif(not gt.cuda.is_emulated(), reason="compiles for the emulator"),
]

FUZZ = int(os.environ.get("GPUTENSOR_FUZZ", "0"))
Case = tuple[str, Callable[..., Any], Callable[..., Any], list[Any]]


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("SMALL_BYTES", "TURNED_BYTES", "TURNED_SIDE_BYTES", "TURNED_USED", "ROW_BYTES"):
        monkeypatch.setattr(pointwise_plan, name, 0)
    dispatcher.forget_plans()
    yield
    dispatcher.forget_plans()


class View:
    """A view of a NumPy array, and the same view of a tensor with the same bytes on the device."""

    def __init__(self, rng: random.Random, sizes: tuple[int, ...], of: str) -> None:
        axes = list(range(len(sizes)))
        if rng.random() < 0.6:
            rng.shuffle(axes)
        base = [1] * len(sizes)  # sizes of the memory, in its own order
        take: list[slice] = [slice(None)] * len(sizes)
        for at, d in enumerate(axes):
            n = sizes[d]
            if rng.random() < 0.25:
                continue  # expanded
            step = 2 if rng.random() < 0.1 else 1
            before = rng.choice((0, 0, 0, 1, 4))
            base[at] = before + n * step + rng.choice((0, 0, 0, 1, 3))
            take[at] = slice(before, before + n * step, step)
        made = np.random.default_rng(rng.randrange(1 << 30)).integers(-9, 9, base)
        self.memory = (made % 2 if of == "bool" else np.abs(made) if of == "u1" else made).astype(
            of
        )
        back = [axes.index(d) for d in range(len(sizes))]
        self.array = np.broadcast_to(self.memory[tuple(take)].transpose(back), sizes)
        whole = gt.from_numpy(self.memory).to("cuda")
        self.tensor = whole[tuple(take)].permute(*back).expand(*sizes)


def some_sizes(rng: random.Random, most: int) -> tuple[int, ...]:
    sizes = [
        rng.choice((2, 3, 5, 8, 16, 31, 33, 64, 65, 130, 300)) for _ in range(rng.randint(1, 4))
    ]
    while np.prod(sizes) > most:
        k = rng.randrange(len(sizes))
        sizes[k] = max(1, sizes[k] // 2)
    return tuple(sizes)


# name, on tensors, on arrays, dtypes of the operands; a number where there is no dtype
POINTWISE: list[Case] = [
    ("neg", lambda x: -x, lambda x: -x, ["f4"]),
    ("add", lambda x, y: x + y, lambda x, y: x + y, ["f4", "f4"]),
    ("add", lambda x, y: x + y, lambda x, y: x + y, ["f2", "f2"]),
    ("add", lambda x, y: x + y, lambda x, y: x + y, ["u1", "u1"]),
    ("add", lambda x, y: x + y, lambda x, y: x + y, ["f4", "f2"]),
    ("add", lambda x, y: x + y, lambda x, y: x + y, ["i4", "i8"]),
    ("mul", lambda x, y: x * y, lambda x, y: x * y, ["c16", "c16"]),
    ("mul", lambda x: x * 3, lambda x: x * np.float64(3), ["f8"]),
    ("lt", lambda x, y: x < y, lambda x, y: x < y, ["i2", "i2"]),
    ("where", gt.where, np.where, ["bool", "f4", "f4"]),
    ("where", gt.where, np.where, ["bool", "f8", "i4"]),
    ("where", lambda m, x: gt.where(m, x, 2.0), lambda m, x: np.where(m, x, np.float32(2)),
    ["bool", "f4"]),
]  # fmt: skip


def made(seed: int, count: int, most: int) -> Iterator[tuple[Case, list[View]]]:
    rng = random.Random(seed)
    for number in range(count):
        case = POINTWISE[number % len(POINTWISE)]
        sizes = some_sizes(rng, most)
        yield case, [View(rng, sizes, of) for of in case[3]]


def compile_together(run: Callable[[], None]) -> Counter[str]:
    """Compile the kernels that `run` would launch, one text at a time. Return them by entry."""
    seen: list[launch.Launch] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch.Launch, "__call__", lambda self, *_: seen.append(self))
        run()
    cuda = runtime.cuda()
    wanted = [x for x in seen if "UNIT" in x.defines]
    for family in {x.family for x in wanted}:
        group: dict[Any, launch.Launch] = {}
        for x in wanted:
            if x.family == family:
                group.setdefault(tuple(x.defines.items()), x)
        image = cuda.compile(module.text(family), [x.defines for x in group.values()], cuda.arch(0))
        for number, x in enumerate(group.values()):
            key = ((family, x.entry, frozenset(x.defines.items())), 0)
            module._functions[key] = cuda.load(image, x.entry, 0, number)
    return Counter(x.entry.rpartition("_")[2] for x in seen)


def check(case: Case, views: list[View]) -> None:
    name, on_tensors, on_arrays, _ = case
    got = on_tensors(*[v.tensor for v in views]).cpu().numpy()
    with np.errstate(all="ignore"):
        wanted = on_arrays(*[v.array for v in views])
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(
        got, wanted, err_msg=f"{name} of {[v.tensor.stride() for v in views]}"
    )


def run_all(cases: list[tuple[Case, list[View]]]) -> Counter[str]:
    def launch_them() -> None:
        for case, views in cases:
            case[1](*[v.tensor for v in views])

    ran = compile_together(launch_them)
    for case, views in cases:
        check(case, views)
    return ran


@pytest.mark.full
def test_any_layout() -> None:
    ran = run_all(list(made(1, FUZZ or tier.pick(48, 96), 6000)))
    assert ran["rows"] > ran["strided"] / 4 and ran["turned"] >= 8, ran


@pytest.mark.parametrize("schedule", tier.pick(["random"], ["reversed", "random"]))
def test_no_result_depends_on_the_order_of_threads(schedule: str) -> None:
    with settings.emulator_settings(schedule=schedule, seed=5):
        # quick: the calls of test_any_layout, whose kernels are compiled once
        run_all(list(made(*tier.pick((1, 48, 6000), (2, 24, 3000)))))


def test_large_ones_by_their_own_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    dispatcher.forget_plans()
    x = np.random.default_rng(0).normal(size=(257, 300)).astype("f4")
    a, flat = gt.from_numpy(x).to("cuda"), gt.from_numpy(x.reshape(-1)).to("cuda")
    b = gt.from_numpy(np.ascontiguousarray(x.T)).to("cuda")
    results: list[Any] = []

    def run() -> None:
        results[:] = [a + b.t(), a * a[:1], a * a[:, :1], flat[1:] + flat[:-1], a.half() + a]

    assert compile_together(run) == {"turned": 1, "rows": 4}
    run()
    y = x.reshape(-1)
    wanted = [x + x, x * x[:1], x * x[:, :1], y[1:] + y[:-1], x.astype("f2").astype("f4") + x]
    for got, expected in zip(results, wanted):
        np.testing.assert_array_equal(got.cpu().numpy(), expected)


def test_in_place_and_out() -> None:
    rng = np.random.default_rng(0)
    x, row = rng.normal(size=(70, 33)).astype("f4"), rng.normal(size=33).astype("f4")
    a, b = gt.from_numpy(x).to("cuda"), gt.from_numpy(row).to("cuda")
    target = gt.empty(33, 70, device="cuda").t()

    def run() -> None:
        a.add_(b)
        gt.mul(a, b, out=target)

    compile_together(run)
    run()
    np.testing.assert_array_equal(a.cpu().numpy(), x + row)
    np.testing.assert_array_equal(target.cpu().numpy(), (x + row) * row)


# --- reductions -----------------------------------------------------------------------------------

REDUCTIONS = [("sum", "f4"), ("sum", "u1"), ("sum", "f2"), ("sum", "c16"), ("mean", "f8"),
              ("amax", "f4"), ("amin", "i2"), ("any", "f4"), ("all", "bool")]  # fmt: skip


def reduced(seed: int, count: int) -> Counter[str]:
    """Random reductions of any layout over any dimensions, of values whose sums are exact."""
    rng, ran = random.Random(seed), Counter[str]()
    entries = binding.bind

    def counting(family: str, op: str, layout: Any) -> Any:
        bound = entries(family, op, layout)
        if family == "reduce":
            ran[bound.entry] += 1
        return bound

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binding, "bind", counting)
        for number in range(count):
            op, of = REDUCTIONS[number % len(REDUCTIONS)]
            sizes = some_sizes(rng, 20_000)
            view = View(rng, sizes, of)
            dims = tuple(sorted(rng.sample(range(len(sizes)), rng.randint(1, len(sizes)))))
            got = getattr(view.tensor, op)(dims).cpu().numpy()
            wide = view.array.astype("i8") if op == "sum" and of == "u1" else view.array
            if of == "f2":
                wide = wide.astype("f8")
            wanted = getattr(np, op)(wide, axis=dims)
            if of == "f2":
                wanted = wanted.astype("f2")
            np.testing.assert_array_equal(
                got, wanted, err_msg=f"{op} {view.tensor.stride()} over {dims}"
            )
    return ran


def test_any_reduction() -> None:
    ran = reduced(3, FUZZ or 180)
    assert min(ran["reduce_rows"], ran["reduce_columns"], ran["reduce_strided"]) >= 8, ran


@pytest.mark.parametrize("schedule", ["reversed", "random"])
def test_a_reduction_does_not_depend_on_the_order_of_threads(schedule: str) -> None:
    """Elements are fractions, so another order of additions would change the bits."""
    rng = np.random.default_rng(1)
    cases = [
        ((5000,), (0,)),
        ((7, 900), (1,)),
        ((900, 7), (0,)),
        ((9, 300, 8), (1,)),
        ((6, 40, 33), (0, 2)),
    ]
    arrays = [
        (gt.from_numpy(rng.normal(size=s).astype("f4")).to("cuda"), dims) for s, dims in cases
    ]
    plain = [x.sum(dims).cpu().numpy() for x, dims in arrays]
    with settings.emulator_settings(schedule=schedule, seed=4):
        for (x, dims), expected in zip(arrays, plain):
            assert x.sum(dims).cpu().numpy().tobytes() == expected.tobytes()


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 2), (2,)])
@pytest.mark.parametrize("op", ["amax", "amin"])
def test_nan_is_an_extreme_in_every_kernel(op: str, dims: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=(30, 9, 12)).astype("f4")
    x[3, 4, 5] = x[29, 8, 11] = x[0, 0, 0] = np.nan
    got = getattr(gt.from_numpy(x).to("cuda"), op)(dims).cpu().numpy()
    np.testing.assert_array_equal(got, getattr(np, op)(x, dims))
    assert np.isnan(got).sum() in (2, 3)


@pytest.mark.parametrize(
    ("shape", "dims"), [((40, 31), (0,)), ((40, 31), (1,)), ((3, 50, 12), (1,))]
)
def test_a_sum_does_not_depend_on_alignment(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=int(np.prod(shape)) + 3).astype("f4")
    bits = set()
    for shift in range(4):
        moved = np.concatenate([x[:shift], x[: int(np.prod(shape))]])
        at = gt.from_numpy(moved).to("cuda")[shift:].reshape(shape)
        bits.add(at.sum(dims).cpu().numpy().tobytes())
    assert len(bits) == 1


def test_the_error_of_a_sum_is_bounded_as_the_kernel_says() -> None:
    rng = np.random.default_rng(2)
    for of, eps in (("f4", 2.0**-24), ("f2", 2.0**-24), ("f8", 2.0**-53)):
        for shape, dim in (((60_000,), 0), ((3, 20_000), 1), ((20_000, 3), 0)):
            x = rng.normal(size=shape).astype(of)
            got = gt.from_numpy(x).to("cuda").sum(dim).cpu().numpy().astype("f8")
            exact, size = x.astype("f8").sum(dim), np.abs(x.astype("f8")).sum(dim)
            stored = np.spacing(np.abs(exact).astype(of)).astype("f8") / 2
            # The most additions through which an element passes: per lane, then in the tree.
            assert (np.abs(got - exact) <= (64 + 17) * eps * size + stored).all(), (of, shape)
