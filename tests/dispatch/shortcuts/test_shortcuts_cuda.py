"""Short cuts on CUDA, by the emulator: they behave as the CPU's and share tables with them."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import gputensor as gt
from gputensor import runtime
from gputensor.dispatch import dispatcher
from gputensor.dispatch.shortcuts import BELOW_CUDA, CUDA

from ...cuda.support import requires_emulator
from ...harness import tier
from .test_shortcuts import (
    CALLS,
    OPERATORS,
    Handled,
    Plain,
    Program,
    learnt,
    outcome,
    taken,
    turned,
    turned_on,
)

__all__ = ["turned_on"]  # a fixture
pytestmark = [requires_emulator, pytest.mark.emulator]


def ones(*sizes: int, **options: Any) -> Any:
    return gt.ones(*sizes, device="cuda", **options)


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda a: a + a, "add.Tensor"), (lambda a: a - 1, "sub.Tensor"),
        (lambda a: gt.mul(a, 2.5), "mul.Tensor"), (lambda a: a.exp(), "exp"),
        (lambda a: -a, "neg"), (lambda a: a < a, "lt.Tensor"),
        (lambda a: a.add_(ones(4)), "add_.Tensor"), (lambda a: a.mul_(2), "mul_.Tensor"),
        (lambda a: a.view(2, 2) * a.view(2, 2), "mul.Tensor"),
        (lambda a: a.sum(), "sum"), (lambda a: a[1:].sum(), "sum"),
        (lambda a: a.view(2, 2).amax(0), "amax"), (lambda a: a.mean((0,)), "mean.dim"),
    ],
)  # fmt: skip
def test_public_functions_take_it(turned_on: None, call: Any, name: str) -> None:
    a = ones(4)
    call(a)
    assert not taken(name)  # a shape that occurs once has no further cost
    assert learnt(lambda: call(a), name) == 1
    short = dispatcher.find(f"aten::{name}").table.short
    (key,) = short
    made = short[key]
    assert made(gt.ones(4), gt.ones(4)) is None if type(key) is tuple else made(gt.ones(4)) is None
    short[key] = lambda *operands: operands
    assert call(a)[0] is not None


def test_both_devices_have_theirs_for_one_geometry(turned_on: None) -> None:
    a, b = gt.ones(4), ones(4)
    for _ in range(4):
        a + a, b + b
    table = dispatcher.find("aten::add.Tensor").table
    short = table.short[a._geometry, a._geometry]
    on_cpu, on_cuda = short(a, a), short(b, b)
    assert on_cpu.device.type == "cpu" and on_cpu.tolist() == [2] * 4
    assert on_cuda.device == b.device and on_cuda.tolist() == [2] * 4
    assert short(a, b) is None is short(b, a) and len(table.learners) == 2


@pytest.mark.parametrize("name", ["contiguous", "clone"])
def test_copies_of_a_layout_leave_one(turned_on: None, name: str) -> None:
    x, y = gt.arange(24.0).view(2, 3, 4).to("cuda"), gt.arange(24.0).view(2, 3, 4)
    for _ in range(4):
        for at in (x, y):
            made = getattr(at.permute(2, 0, 1), name)()
            assert made.tolist() == y.permute(2, 0, 1).tolist() and made.device == at.device
            assert made._version == 0 and made.data_ptr() != at.data_ptr()
    table = dispatcher.find(f"aten::{name}").table
    for at in (x, y):
        turned = at.permute(2, 0, 1)
        short = table.short[turned._geometry]
        assert short(turned) is not None


def test_empty_like_leaves_one_beside_that_of_the_cpu(turned_on: None) -> None:
    x, y = gt.ones(2, 3), ones(2, 3)
    for _ in range(4):
        for at in (x, y):
            made = gt.empty_like(at)
            assert made.device == at.device and made.shape == at.shape and made._version == 0
    short = dispatcher.find("aten::empty_like").table.short[y._geometry]
    assert short(x).device == x.device and short(y).device == y.device
    with gt.inference_mode():
        assert short(y) is None and gt.empty_like(y).is_inference()


def test_empty_is_on_the_device_that_is_current_or_named(turned_on: None) -> None:
    if gt.cuda.device_count() < 2:
        pytest.skip("one device")
    for _ in range(4):
        for index in (0, 1):
            with gt.cuda.device(index):
                made = [gt.empty((3,), device=at) for at in ("cuda", "cuda:0", "cuda:1")]
                assert [x.device.index for x in made] == [index, 0, 1]
                assert [x._storage._data.device_index for x in made] == [index, 0, 1]
    short = dispatcher.find("aten::empty.memory_format").table.short
    assert {key[2] for key in short} == {gt.device(at) for at in ("cuda", "cuda:0", "cuda:1")}


@pytest.mark.parametrize(
    "name, key",
    [
        ("empty.memory_format", "CUDA"), ("empty_like", "AutogradCUDA"), ("copy_", "CUDA"),
        ("clone", "CUDA"), ("empty.memory_format", "BackendSelect"),
    ],
)  # fmt: skip
def test_what_a_copy_jumps_over_takes_it_away(turned_on: None, name: str, key: str) -> None:
    x = gt.arange(6.0).view(2, 3).to("cuda").t()
    assert learnt(lambda: x.contiguous(), "contiguous")
    seen = []

    def mine(*args: Any, **kwargs: Any) -> Any:
        seen.append(name)
        raise RuntimeError("seen")

    lib = gt.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lib.impl(name, mine, key)
    try:
        with pytest.raises(RuntimeError, match="seen"):
            x.contiguous()
    finally:
        lib._destroy()
    assert seen == [name] and learnt(lambda: x.contiguous(), "contiguous")


FACTORIES = [
    (lambda at: gt.arange(64, device=at), "arange"),
    (lambda at: gt.arange(0, 1, 0.125, device=at), "arange.start_step"),
    (lambda at: gt.arange(2, 9, device=at, dtype=gt.int16), "arange.start"),
    (lambda at: gt.linspace(0, 1, 5, device=at), "linspace"),
    (lambda at: gt.eye(3, device=at), "eye"), (lambda at: gt.eye(2, 3, device=at), "eye.m"),
    (lambda at: gt.zeros(2, 3, device=at), "zeros"), (lambda at: gt.ones(5, device=at), "ones"),
    (lambda at: gt.full((2, 3), 2.5, device=at), "full"),
    (lambda at: gt.full((3,), True, device=at), "full"),
    (lambda at: gt.zeros_like(gt.empty(3, device=at)), "zeros_like"),
    (lambda at: gt.ones_like(gt.empty(3, device=at)), "ones_like"),
    (lambda at: gt.rand(2, 3, device=at), "rand"), (lambda at: gt.randn(7, device=at), "randn"),
    (lambda at: gt.rand_like(gt.empty(3, device=at)), "rand_like"),
    (lambda at: gt.randint(9, (5,), device=at), "randint"),
    (lambda at: gt.randint(-3, 9, (5,), device=at), "randint.low"),
]  # fmt: skip


@pytest.mark.parametrize("call, name", FACTORIES)
def test_a_repeated_factory_builds_nothing(
    turned_on: None, monkeypatch: pytest.MonkeyPatch, call: Any, name: str
) -> None:
    gt.manual_seed(3)
    wanted = [call("cpu") for _ in range(6)]
    gt.manual_seed(3)
    made = [call("cuda") for _ in range(2)]
    assert taken(name)
    for module in ("iterator.plan", "structured.pointwise.writes"):
        monkeypatch.setattr(f"gputensor.{module}.build", None)
    monkeypatch.setattr("gputensor.kernels.stub.bind", None)
    made += [call("cuda") for _ in range(4)]
    for x, y in zip(made, wanted):
        assert x.flatten().tolist() == pytest.approx(y.flatten().tolist())
        assert x.dtype is y.dtype and x._version == 0
        assert x.device.type == "cuda" and x.stride() == y.stride()


def test_factories_tell_equal_numbers_apart(turned_on: None) -> None:
    for value in (1, True, 1.0, 0, False, 0.0, -0.0) * 3:
        x, y = gt.full((2,), value, device="cuda"), gt.full((2,), value)
        assert x.dtype is y.dtype and str(x.tolist()) == str(y.tolist())
    for end in (2, 2.0) * 3:
        assert gt.arange(end, device="cuda").dtype is gt.arange(end).dtype
    for size in ((1,), (True,), (1.0,)) * 2:
        if type(size[0]) is int:
            assert gt.ones(size, device="cuda").shape == (1,)
        else:
            with pytest.raises((TypeError, gt.GpuTensorError)):
                gt.ones(size, device="cuda")


def test_factories_follow_the_default_dtype_and_the_current_device(turned_on: None) -> None:
    for _ in range(3):
        assert gt.rand(3, device="cuda").dtype is gt.float32
        gt.set_default_dtype(gt.float64)
        try:
            assert gt.rand(3, device="cuda").dtype is gt.linspace(0, 1, 3, device="cuda").dtype
            assert gt.rand(3, device="cuda").dtype is gt.float64
        finally:
            gt.set_default_dtype(gt.float32)
        with gt.inference_mode():
            assert gt.arange(3, device="cuda").is_inference()
        if gt.cuda.device_count() > 1:
            with gt.cuda.device(1):
                assert gt.arange(3, device="cuda").device.index == 1
        assert gt.arange(3, device="cuda").device.index == 0


def test_the_position_of_a_stream_wraps_around(turned_on: None) -> None:
    from gputensor.structured.generator import default_generator

    generator = default_generator(gt.device("cuda:0"))
    for _ in range(4):
        drawn = []
        for fill in (lambda: gt.rand(6, device="cuda"), lambda: ones(6).uniform_()):
            generator.return_to((7, (1 << 64) - 1))
            drawn.append([fill().tolist() for _ in range(2)])
        assert drawn[0] == drawn[1]


def test_a_graph_draws_new_numbers_and_fills_again(turned_on: None) -> None:
    def step() -> Any:
        drawn = gt.rand(5, device="cuda"), gt.randint(100, (4,), device="cuda")
        return (*drawn, gt.arange(3, device="cuda"), gt.full((2,), 2.5, device="cuda"))

    for _ in range(4):
        step()
    graph = gt.cuda.CUDAGraph()
    gt.manual_seed(5)
    with gt.cuda.graph(graph):
        made = step()
    found = []
    for _ in range(3):
        for x in made[2:]:
            x.zero_()
        graph.replay()
        found.append([x.tolist() for x in made])
    gt.manual_seed(5)
    assert found == [[x.tolist() for x in step()] for _ in range(3)]


def picked(x: Any) -> Any:
    return gt.tensor([2, 0, 1]).to(x.device)


# call(x, y) with x, y of (3, 4), the operator, and the number of launches
LAUNCHED = [
    (lambda x, y: 1 - x, "sub.Tensor", 1), (lambda x, y: 2.5 / y, "div.Tensor", 1),
    (lambda x, y: gt.add(x, y, alpha=0.5), "add.Tensor", 1),
    (lambda x, y: x.sub_(y, alpha=0.5), "sub_.Tensor", 1),
    (lambda x, y: gt.where(x > y, x, y), "where.self", 2),
    (lambda x, y: gt.where(x > y, 0.5, y), "where.self", 2),
    (lambda x, y: x.clamp(1, 7), "clamp", 1), (lambda x, y: x.clamp(max=3), "clamp", 1),
    (lambda x, y: x.clamp_(1, 7), "clamp_", 1),
    (lambda x, y: x.lerp_(y, 0.25), "lerp_.Tensor", 1),
    (lambda x, y: gt.addcmul(x, y, y, value=0.5), "addcmul", 1),
    (lambda x, y: x.addcdiv_(y, y, value=-0.5), "addcdiv_", 1),
    (lambda x, y: gt.nn.functional.leaky_relu(x - 5, 0.1), "leaky_relu", 2),
    (lambda x, y: x.masked_fill(x > y, 0.5), "masked_fill.Scalar", 2),
    (lambda x, y: x.masked_fill(x[0] > y[0], 7), "masked_fill.Scalar", 2),
    (lambda x, y: x.masked_fill_(x > y, 0.5), "masked_fill_.Scalar", 2),
    (lambda x, y: x.__setitem__(x > y, 2), "masked_fill_.Scalar", 2),
    (lambda x, y: x.gather(0, picked(x)[:, None]), "gather", 1),
    (lambda x, y: x.index_select(0, picked(x)), "index_select", 1),
    (lambda x, y: x.scatter_(0, picked(x)[:, None], y[:, :1]), "scatter_.src", 1),
    (lambda x, y: x.scatter_(0, picked(x)[:, None], 0.5), "scatter_.value", 1),
    (lambda x, y: x.scatter(0, picked(x)[:, None], 0.5), "scatter_.value", 2),
    (lambda x, y: x.index_fill_(0, picked(x)[1:], 0.5), "index_fill_.int_Scalar", 1),
    (lambda x, y: x.index_add_(0, picked(x), y), "index_add_", 1),
    (lambda x, y: gt.cat([x, y, x]), "cat", 3), (lambda x, y: gt.cat([x, y], 1), "cat", 2),
    (lambda x, y: gt.cat([x, gt.empty(0, device=x.device), y]), "cat", 2),
    (lambda x, y: gt.stack([x, y], -1), "stack", 2), (lambda x, y: gt.stack([x, y]), "stack", 2),
    (lambda x, y: (x / 9).softmax(-1), "softmax.int", 2),
    (lambda x, y: (x / 9).log_softmax(0), "log_softmax.int", 2),
    (lambda x, y: x.argmax(-1), "argmax", 1), (lambda x, y: y.argmin(0, True), "argmin", 1),
    (lambda x, y: x.cumsum(0), "cumsum", 1), (lambda x, y: x.cumprod(-1), "cumprod", 1),
    (lambda x, y: x.to(gt.float16), "to.dtype", 1), (lambda x, y: x.double(), "to.dtype", 1),
    (lambda x, y: x.t().to(gt.float16), "to.dtype", 1),
    (lambda x, y: x.t().reshape(2, 6), "reshape", 1),
    (lambda x, y: x.t().reshape(-1), "reshape", 1),
]  # fmt: skip

# calls without a short cut
KEPT = [
    (lambda x, y: gt.nn.functional.pad(x, (1, 2, 0, 1), value=0.5), 2),
    (lambda x, y: gt.nn.functional.pad(x, (1, -2)), 2),
    (lambda x, y: gt.nn.functional.pad(y.t(), (1, 0)), 2),
    (lambda x, y: x.flip(0), 1), (lambda x, y: gt.flip(x, (0, 1)), 1),
    (lambda x, y: gt.nn.functional.nll_loss(x, picked(x)), 1),
    (lambda x, y: gt.nn.functional.nll_loss(x, picked(x), y[0], reduction="none"), 1),
    (lambda x, y: gt.nn.functional.cross_entropy(x / 9, picked(x), reduction="sum"), 3),
]  # fmt: skip


@pytest.mark.parametrize("call, count", KEPT)
def test_a_repeated_call_builds_nothing(
    turned_on: None, monkeypatch: pytest.MonkeyPatch, call: Any, count: int
) -> None:
    launches = prepared(monkeypatch, call, "")
    made = [call(*operands("cuda", n)) for n in range(3, 6)]
    assert launches() == count * len(made)
    for n, x in enumerate(made, 3):
        wanted = call(*operands("cpu", n))
        assert x.flatten().tolist() == pytest.approx(wanted.flatten().tolist())
        assert x.stride() == wanted.stride() and x.dtype is wanted.dtype


def operands(at: str, more: int) -> Any:
    x = (gt.arange(12.0) + more).view(3, 4).to(at)
    return x, (gt.arange(12.0) * 2 - 3).view(3, 4).to(at)


def prepared(
    monkeypatch: pytest.MonkeyPatch, call: Any, name: str, times: int = 4
) -> Callable[[], int]:
    """Repeat a call on CUDA, and let plans fail from then on. Return a function that returns the
    number of launches since then."""
    from gputensor.runtime.cuda_emulator import kernels

    picks = [picked(x) for x in (gt.ones(1), ones(1))]
    monkeypatch.setitem(globals(), "picked", lambda x: picks[x.device.type == "cuda"])
    for n in range(times):
        call(*operands("cuda", n))
    assert not name or taken(name)
    monkeypatch.setattr("gputensor.kernels.stub.bind", None)
    launches, launch = [], kernels.launch
    monkeypatch.setattr(kernels, "launch", lambda *of: launches.append(of) or launch(*of))
    return lambda: len(launches)


@pytest.mark.parametrize("call, name, count", LAUNCHED)
def test_a_repeated_call_builds_nothing_and_launches_once(
    turned_on: None, monkeypatch: pytest.MonkeyPatch, call: Any, name: str, count: int
) -> None:
    given = [operands("cuda", n) for n in range(8)]
    launches = prepared(monkeypatch, call, name)
    table = dispatcher.find(f"aten::{name}").table
    table[CUDA] = table[BELOW_CUDA] = None  # The call may not pass the table.
    try:
        made = [call(x, y) for x, y in given[4:]]
    finally:
        del table[CUDA], table[BELOW_CUDA]
    assert launches() == count * len(made)
    for n, x in enumerate(made, 4):
        on_cpu = operands("cpu", n)
        wanted, found = call(*on_cpu), x if x is not None else given[n][0]
        wanted = on_cpu[0] if wanted is None else wanted
        assert found.cpu().flatten().tolist() == pytest.approx(wanted.flatten().tolist())
        assert found.stride() == wanted.stride() and found._version == wanted._version
        assert found.dtype is wanted.dtype


def test_other_numbers_have_other_launches(turned_on: None) -> None:
    x, y = gt.arange(12.0).view(3, 4).to("cuda"), gt.arange(12.0).view(3, 4)
    for value in (1, 2.5, True, 1, 1.0, 0.0, -0.0, 3, 4, 5, 6, float("inf"), 1) * 3:
        for call in (
            lambda a, v=value: a.masked_fill(a > 3, v), lambda a, v=value: a.clamp(v, 9),
            lambda a, v=value: gt.where(a > 3, a, v),
            lambda a, v=value: gt.nn.functional.leaky_relu(a, v),
            lambda a, v=value: gt.addcmul(a, a, a, value=v),
        ):  # fmt: skip
            assert str(call(x).tolist()) == str(call(y).tolist())


def test_operands_may_change_places(turned_on: None) -> None:
    a, b = gt.tensor([True, False, True]), gt.tensor([False, False, True])
    for _ in range(4):
        assert a.to("cuda").masked_fill(b.to("cuda"), False).tolist() == [True, False, False]
        x = a.to("cuda")
        assert x.masked_fill(x, False).tolist() == [False] * 3
        assert gt.where(x, x, x).tolist() == a.tolist()
        assert gt.where(b.to("cuda"), a.to("cuda"), x).tolist() == a.tolist()
        y = ones(3)
        assert y.addcmul_(y, y).tolist() == [2] * 3


def test_other_dims_and_dtypes_are_other_reductions(turned_on: None) -> None:
    x, y = gt.arange(6.0).view(2, 3).to("cuda"), gt.arange(6.0).view(2, 3)
    for _ in range(4):
        for at in (x, y):
            assert at.sum(0).tolist() == [3, 5, 7] and at.sum(1).tolist() == [3, 12]
            assert at.sum((0,), True).shape == (1, 3) and at.sum().tolist() == 15
            assert at.sum(0, dtype=gt.float64).dtype is gt.float64
            assert at.sum().device == at.sum(0).device == at.device
    table = dispatcher.find("aten::sum.dim_IntList").table
    table[CUDA] = table[BELOW_CUDA] = None  # The calls may not pass the table.
    try:
        for _ in range(2):
            assert x.sum(0).tolist() == [3, 5, 7] and x.sum(1).tolist() == [3, 12]
            assert x.sum((0,), True).shape == (1, 3)
            assert x.sum(0, dtype=gt.float64).dtype is gt.float64
    finally:
        del table[CUDA], table[BELOW_CUDA]


def test_operands_at_odd_addresses_go_the_long_way(turned_on: None) -> None:
    a = gt.arange(9.0).to("cuda")
    for part in (a[1:5], a[4:8], a[3:7]):
        for _ in range(3):
            assert (part + part).tolist() == [2 * x for x in part.tolist()]
    short = dispatcher.find("aten::add.Tensor").table.short[part._geometry, part._geometry]
    assert short(a[4:8], a[4:8]) is not None and short(a[1:5], a[4:8]) is None


def test_work_goes_to_the_current_stream_and_memory_comes_from_it(turned_on: None) -> None:
    side, a, b = gt.cuda.Stream(), ones(4), ones(4)
    for _ in range(3):
        a + b
        a.add_(b)
    gt.cuda.synchronize()
    with gt.cuda.stream(side):
        made = a + b
        a.add_(b)
        assert made._storage._data.block.stream.key == side.key
    assert (a + b)._storage._data.block.stream.key == gt.cuda.current_stream().key != side.key
    side.synchronize()
    assert made.tolist() == [5] * 4 and a.tolist() == [5] * 4


def test_the_device_of_the_operands_is_used_wherever_the_thread_is(turned_on: None) -> None:
    if gt.cuda.device_count() < 2:
        pytest.skip("one device")
    a, b = ones(4), gt.ones(4, device="cuda:1")
    for _ in range(4):
        a + a, b + b, a.add_(1), b.add_(1)
    for call in (lambda: a + b, lambda: b + a, lambda: a.add_(b)):
        with pytest.raises(gt.GpuTensorError, match="all tensors must be on one device"):
            call()
    with gt.cuda.device(1):
        assert (a + a).device == a.device and (b + b).device == b.device
        assert a.add_(1).tolist() == [6] * 4 and b.add_(1).tolist() == [6] * 4


def test_a_conjugate_is_none_of_its_geometry(turned_on: None) -> None:
    a = gt.tensor([1 + 2j, 3j]).to("cuda")
    for _ in range(3):
        a + a
        a * 2
    for made in (a.conj() + a, a + a.conj()):
        assert made.tolist() == [2, 0]
    assert (a.conj() * 2).tolist() == [2 - 4j, -6j]


def test_memory_is_counted_as_ever(turned_on: None) -> None:
    a = ones(1000)
    for _ in range(3):
        a * 2
    before = gt.cuda.memory_allocated()
    count = gt.cuda.memory_stats()["allocation.all.allocated"]
    made = a * 2
    assert gt.cuda.memory_allocated() - before == 4096
    assert gt.cuda.memory_stats()["allocation.all.allocated"] == count + 1
    del made
    assert gt.cuda.memory_allocated() == before


# --- random programs ------------------------------------------------------------------------------


def order(x: Any) -> Any:
    return gt.tensor([2, 0, 1]).to(x.device)


class OnCuda(Program):
    backend = "CUDA"
    calls = {
        name: CALLS[name]
        for name in (
            "a + b", "a + 2", "2 + a", "2 - a", "2.5 / a", "add(a, b, alpha=2)",
            "add(a, b, alpha=0.5)", "a.sub(b, alpha=1e300)", "a.add_(b, alpha=0.5)",
            "a.add_(b, alpha=1e300)", "a.sub_(b, alpha=inf)", "step", "grad of 1 / a",
            "a.mul(b)", "a * 1.5", "exp(a)",
            "a < b", "a < 1", "a.add_(b)", "a += 1", "a.neg_()", "a.sum()", "a.sum(0)",
            "a.sum((0,), True)", "a.sum([0])", "sum(a, dtype=f64)", "a.mean(-1)", "a.any()",
            "where(a < b, a, b)", "where(a < b, a, 0.5)", "a.clamp(0, 2)", "a.clamp(max=1.5)",
            "lerp(a, b, 0.25)", "addcmul(a, b, b, value=3)", "gelu(a)", "a.clamp_(0, 2)",
            "a.lerp_(b, 0.5)", "a.addcmul_(b, b)", "step by another",
        )
    } | {
        "a.masked_fill(a < b, 2)": lambda a, b: a.masked_fill(a < b, 2),
        "a.masked_fill_(b > 1, 0.5)": lambda a, b: a.masked_fill_(b > 1, 0.5),
        "a.masked_fill_(a, 1)": lambda a, b: a.masked_fill_(a, 1),
        "a.gather(0, order)": lambda a, b: a.gather(0, order(a)),
        "a.index_select(0, order)": lambda a, b: a.index_select(0, order(a)),
        "a.scatter(0, order, b)": lambda a, b: a.scatter(0, order(a), b),
        "a.scatter_(0, order, 3)": lambda a, b: a.scatter_(0, order(a), 3),
        "a.t().reshape": lambda a, b: a.expand(3, 4).t().reshape(12),
        "pad": lambda a, b: gt.nn.functional.pad(a, (1, 2), value=2),
        "a.flip(0)": lambda a, b: a.flip(0),
        "cat": lambda a, b: gt.cat([a, b]), "stack": lambda a, b: gt.stack([a, b, a], -1),
        "a.clone()": lambda a, b: a.clone(),
        "a.expand(3, 4).t().contiguous()": lambda a, b: a.expand(3, 4).t().contiguous(),
        "empty(2)": lambda a, b: gt.empty((2,), device="cuda").shape,
        "empty(2, device=a.device)": lambda a, b: gt.empty((2,), device=a.device).device,
    }  # fmt: skip
    operators = (
        *OPERATORS, "clone", "contiguous", "copy_", "empty_like", "empty.memory_format",
        "where.self", "clamp", "lerp_.Tensor", "masked_fill.Scalar", "masked_fill_.Scalar",
        "where.self_out", "gather", "scatter_.value", "scalar_tensor", "slice.Tensor", "cat",
        "reshape", "_unsafe_view", "constant_pad_nd", "flip",
    )  # fmt: skip

    def __init__(self, seed: int, steps: int) -> None:
        super().__init__(seed, steps)
        with gt.inference_mode():
            inference = ones(4)
        base, leaf = gt.arange(8.0).to("cuda"), gt.arange(4.0).to("cuda").requires_grad_()
        self.operands = {
            "plain": gt.arange(4.0).to("cuda"), "other": ones(4) * 3, "grad": leaf,
            "of grad": leaf * 1, "view": base[:4], "part": base[2:6], "view of grad": leaf.view(4),
            "0-d": gt.tensor(2.0).to("cuda"), "ints": gt.arange(4).to("cuda"),
            "inference": inference, "detached": leaf.detach(), "meta": gt.ones(4, device="meta"),
            "conj": ones(4, dtype=gt.complex64).conj(), "rows": ones(3, 4), "cpu": gt.ones(4),
            "cpu number": gt.tensor(3.0), "handled": ones(4).as_subclass(Handled),
            "subclass": ones(4).as_subclass(Plain), "empty": ones(0),
            "expanded": ones(1).expand(4), "half": ones(4).half(),
        }  # fmt: skip

    def _values(self, x: Any) -> str | None:
        """Read the elements from memory without calling an operator, because modes and traces would
        receive the call."""
        if x.device.type != "cuda" or not x._geometry.numel:
            return super()._values(x)
        runtime.cuda().synchronize(x.device.index)
        return repr(ctypes.string_at(x._storage._data.ptr, x._storage.nbytes()))


@pytest.mark.parametrize("first", range(0, tier.pick(5, 25), 5))
def test_no_call_differs_for_them(first: int) -> None:
    for seed in range(first, first + tier.pick(2, 5)):
        with turned(False):
            expected = outcome(seed, OnCuda, 60)
        with turned(True):
            assert outcome(seed, OnCuda, 60) == expected, seed


@pytest.mark.full
def test_random_programs_take_some(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Callable[..., Any]] = []
    from gputensor.structured._generated import short_forms

    for name in ("unary", "binary", "with_number", "inplace", "inplace_number"):
        form = f"cuda_{name}"
        make = getattr(short_forms, form)
        monkeypatch.setattr(
            short_forms, form, lambda *of, make=make, **more: made.append(make) or make(*of, **more)
        )
    with turned(True):
        for seed in range(12):
            outcome(seed, OnCuda, 60)
    assert len(set(made)) == 5


EMPTY: dict[str, Callable[[Any, Any], Any]] = {
    "take": lambda x, i: gt.take(x, i), "index_select": lambda x, i: x.index_select(0, i),
    "scatter": lambda x, i: x.scatter(0, i[:, None], 1.0), "x[i]": lambda x, i: x[i],
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "masked_fill": lambda x, i: x.masked_fill(x > 0, 1.0), "flip": lambda x, i: x.flip(0),
    "cat": lambda x, i: gt.cat([x, x]), "softmax": lambda x, i: x.softmax(0),
    "cumsum": lambda x, i: x.cumsum(0), "tril": lambda x, i: x.tril(), "1 - x": lambda x, i: 1 - x,
    "var": lambda x, i: x.var(1), "half": lambda x, i: x.half(), "where": lambda x, i: gt.where(
        x > 0, x, 0.0), "full": lambda x, i: gt.full(x.shape, 3.0, device=x.device),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_repeated_calls_without_elements(turned_on: None, name: str) -> None:
    for sizes, count in (((2, 3), 0), ((0, 3), 0), ((3, 0), 2), ((2, 3), 2)):
        for _ in range(4):
            made = []
            for device in ("cpu", "cuda"):
                x = gt.ones(sizes, device=device)
                i = gt.zeros(count, dtype=gt.int64, device=device)
                try:
                    y = EMPTY[name](x, i)
                    made.append((tuple(y.shape), y.dtype, y.cpu().flatten().tolist()))
                except gt.GpuTensorError as error:
                    made.append(type(error))
            assert str(made[0]) == str(made[1]), (sizes, count)
