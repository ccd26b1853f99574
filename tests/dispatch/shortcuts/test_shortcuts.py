"""Short cuts: when they are stored and removed, and that they change no result.

Random programs run with and without short cuts: plain and other calls, between registrations, their
removal, fallbacks, modes and guards in any order, on two threads.
"""

from __future__ import annotations

import contextvars
import itertools
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor import dispatch
from gputensor.core import errors
from gputensor.dispatch import dispatcher, keys, shortcuts
from gputensor.dispatch.tls import (
    ExcludeDispatchKeys, IncludeDispatchKeys, inference_blocks, unrecorded,
)  # fmt: skip
from gputensor.fallbacks.modes import DispatchMode
from gputensor.library import Library

from ...harness import tier


@contextmanager
def turned(is_on: bool) -> Iterator[None]:
    before, shortcuts.is_on = shortcuts.is_on, is_on
    dispatcher.forget_plans()
    try:
        yield
    finally:
        shortcuts.is_on = before
        dispatcher.forget_plans()


@pytest.fixture
def turned_on() -> Iterator[None]:
    with turned(True):
        yield


def taken(name: str) -> int:
    """Return the number of short cuts on the table."""
    return len(dispatcher.find(f"aten::{name}").table.short)


def learnt(call: Callable[[], Any], name: str) -> int:
    for _ in range(3):
        call()
    return taken(name)


# --- calls that store a short cut -----------------------------------------------------------------


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda a: a + a, "add.Tensor"),
        (lambda a: a + 1, "add.Tensor"),
        (lambda a: 1 - a, "sub.Tensor"),
        (lambda a: 2.5 / a, "div.Tensor"),
        (lambda a: gt.add(a, a), "add.Tensor"),
        (lambda a: a.mul(2.5), "mul.Tensor"),
        (lambda a: a.exp(), "exp"),
        (lambda a: gt.exp(a), "exp"),
        (lambda a: a < a, "lt.Tensor"),
        (lambda a: a.add_(a.clone()), "add_.Tensor"),
        (lambda a: a.mul_(1), "mul_.Tensor"),
        (lambda a: gt.add(a, a, out=gt.empty(4)), "add.out"),
        (lambda a: gt.mul(a, 2, out=gt.empty(4)), "mul.out"),
        (lambda a: gt.exp(a, out=gt.empty(4)), "exp.out"),
        (lambda a: gt.lt(a, a, out=gt.empty(4, dtype=gt.bool)), "lt.Tensor_out"),
        (lambda a: a.sum() + a.sum(), "add.Tensor"),  # 0-d
        (lambda a: gt.where(a < a, a, a), "where.self"),
        (lambda a: gt.where(a < a, a, 0.5), "where.self"),
        (lambda a: a.clamp(0.5, 2), "clamp"),
        (lambda a: a.clamp(max=2), "clamp"),
        (lambda a: gt.lerp(a, a, 0.5), "lerp.Tensor"),
        (lambda a: gt.addcdiv(a, a, a, value=2), "addcdiv"),
        (lambda a: gt.nn.functional.elu(a), "elu"),
        (lambda a: gt.xlogy(a, a), "xlogy.Tensor"),
        (lambda a: a.sum(), "sum"),
        (lambda a: a.sum(0), "sum.dim_IntList"),
        (lambda a: a.mean((0,), True), "mean.dim"),
        (lambda a: a.softmax(0), "_softmax"),
        (lambda a: gt.addmm(a[:1], a.view(2, 2), a.view(2, 2), alpha=2), "addmm"),
        (lambda a: a.cumsum(0), "cumsum"),
        (lambda a: a.argmax(0), "argmax"),
        (lambda a: a.clamp_(0, 2), "clamp_"),
        (lambda a: a.addcmul_(a.clone(), a.clone(), value=2), "addcmul_"),
        (lambda a: gt.nn.functional.relu6(a), "hardtanh"),  # a call of native code
        (lambda a: a.view(2, 2) * a.view(2, 2), "mul.Tensor"),  # views without a history
    ],
)
def test_a_plan_that_is_used_again_leaves_one(turned_on: None, call: Any, name: str) -> None:
    a = gt.ones(4)
    call(a)
    assert not taken(name)  # a shape that occurs once has no further cost
    assert learnt(lambda: call(a), name) == 1


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda a: a + a, "add.Tensor"), (lambda a: gt.add(a, a), "add.Tensor"),
        (lambda a: a.add(a), "add.Tensor"), (lambda a: a * 2, "mul.Tensor"),
        (lambda a: a.exp(), "exp"), (lambda a: gt.exp(a), "exp"), (lambda a: -a, "neg"),
        (lambda a: a.add_(1), "add_.Tensor"), (lambda a: a == a, "eq.Tensor"),
        (lambda a: gt.ops.aten.exp.default(a), "exp"),
        (lambda a: gt.ops.aten.mul.Tensor(a, a), "mul.Tensor"),
    ],
)  # fmt: skip
def test_public_functions_take_it(turned_on: None, call: Any, name: str) -> None:
    a = gt.ones(4)
    assert learnt(lambda: call(a), name) == 1
    short = dispatcher.find(f"aten::{name}").table.short
    (key,) = short
    short[key] = lambda *operands: operands
    assert call(a)[0] is a


def test_an_out_that_is_read_or_shared_or_resized_goes_the_long_way(turned_on: None) -> None:
    a, b, out = gt.arange(4.0), gt.ones(4), gt.empty(4)
    for _ in range(3):
        assert gt.sub(a, b, out=out) is out and out.tolist() == [-1, 0, 1, 2]
    assert taken("sub.out") == 1 and out._version == 3
    short = dispatcher.find("aten::sub.out").table.short[(a._geometry,) * 3]
    memory = gt.ones(6)
    array = np.ones(4, np.float32)
    for self, other, into in [
        (a, b, a), (a, b, b), (memory[:4], a, memory[2:]), (a, gt.from_numpy(array), out),
        (a, b, gt.from_numpy(array)), (a, b, gt.ones(4, requires_grad=True)),
        (gt.ones(4, requires_grad=True), b, out), (a, gt.ones(4).view(4), gt.ones(4).detach()),
    ]:  # fmt: skip
        version = into._version
        assert short(self, other, into) is None or into.tolist() == (self - other).tolist()
        assert (short(self, other, into) is None) == (into._version == version)
    with pytest.raises(errors.GpuTensorError, match="overlap|memory"):
        gt.sub(memory[:4], a, out=memory[2:])
    with gt.no_grad():
        view = gt.ones(4).view(4)
        assert gt.sub(a, b, out=view) is view and view.tolist() == out.tolist()


def test_other_params_have_their_own(turned_on: None) -> None:
    """Short cuts are stored for the few sets of params that programs repeat, not for each number of
    a counting loop."""
    a, (one, two) = gt.arange(4.0), (1.0, 2.0)
    for bound in (one, two):
        for _ in range(3):
            assert a.clamp(max=bound).amax().item() == bound
    short = dispatcher.find("aten::clamp").table.short
    found = short[a._geometry]
    assert found(a, None, one) is not None and found(a, None, two) is not None
    assert found(a, None, 3.0) is None and found(a, 0.0, one) is None
    for bound in range(20):
        a.clamp(max=bound * 0.1)
    assert short[a._geometry] is found
    for bound in range(20):
        for _ in range(3):
            a.clamp(max=bound / 7)
    assert getattr(short[a._geometry], "depth", 1) <= 4


@pytest.mark.parametrize("dtypes", [*itertools.permutations([None, gt.float32, gt.float64])])
def test_sums_of_other_dtypes_stand_behind_each_other(turned_on: None, dtypes: Any) -> None:
    a = gt.arange(4.0)
    for dtype in [*dtypes] * 4 + [dtype for dtype in dtypes for _ in range(4)] + [*dtypes]:
        made = a.sum() if dtype is None else a.sum(dtype=dtype)
        assert made.item() == 6 and made.dtype is (dtype or gt.float32)


def test_one_that_was_left_for_1_does_not_serve_True(turned_on: None) -> None:
    a = gt.arange(6.0).reshape(2, 3)
    assert learnt(lambda: a.amax(1), "amax") == 1
    (found,) = dispatcher.find("aten::amax").table.short.values()
    assert found(a, 1, False) is not None and found(a, True, False) is None
    dims = [0]
    assert learnt(lambda: a.sum(dims), "sum.dim_IntList") == 1
    dims[0] = 1
    assert a.sum(dims).tolist() == [3, 12]
    assert learnt(lambda: a.sum((0, 1)), "sum.dim_IntList") == 1
    (found,) = dispatcher.find("aten::sum.dim_IntList").table.short.values()
    assert found(a, tuple(range(2)), False, None) is not None


_NUMBERS = [1, 1.0, True, 0.0, -0.0, 0, 1e300, float("inf"), float("nan"), 2**60 + 1, 0.1, 0.1, 7]


@pytest.mark.parametrize("dtype", [gt.float32, gt.float64, gt.float16, gt.bfloat16, gt.int32])
def test_whatever_number_comes_next_counts_as_it_did(turned_on: None, dtype: Any) -> None:
    """A short cut keeps the last number as an element. Equal numbers may give different results
    (0.0 and -0.0)."""
    calls: list[Callable[[Any, Any], Any]] = [
        lambda a, n: a + n, lambda a, n: a * n, lambda a, n: a / n, lambda a, n: a > n,
        lambda a, n: a == n, lambda a, n: a.sub(n), lambda a, n: a[0] * n,
        lambda a, n: a.clone().mul_(n), lambda a, n: a.clone().add_(n),
    ]  # fmt: skip

    def results() -> list[Any]:
        a, found = gt.tensor([-1, 0, 3], dtype=dtype), list[Any]()
        numbers = [n for n in _NUMBERS for _ in range(3)] + random.Random(0).choices(_NUMBERS, k=99)
        for call in calls:
            for n in numbers:
                try:
                    made = call(a, n)
                    found.append((made.dtype, made.shape, made.cpu().numpy().tobytes()))
                except (errors.GpuTensorError, TypeError, OverflowError) as error:
                    found.append(str(error))
        return found

    fast = results()
    with turned(False):
        assert results() == fast


@pytest.mark.parametrize("of", [gt.add, gt.mul, gt.lt])
def test_a_number_that_nothing_holds_is_refused_as_ever(turned_on: None, of: Any) -> None:
    a = gt.ones(3, dtype=gt.int64)
    for number in (1, 1, 1, 1 << 70):
        try:
            found = of(a, number)
        except errors.GpuTensorError as error:
            assert number > 1 and str(1 << 70) in str(error)
        else:
            assert number == 1 and found.numel() == 3


def test_a_write_that_is_refused_leaves_all_as_it_was(turned_on: None) -> None:
    a = gt.ones(3, dtype=gt.int64)
    for _ in range(3):
        a.add_(1)
    version = a._version
    with pytest.raises(errors.GpuTensorError, match=str(1 << 70)):
        a.add_(1 << 70)
    assert a.tolist() == [4, 4, 4] and a._version == version


def test_operands_that_share_memory_are_refused_as_ever(turned_on: None) -> None:
    array = np.arange(8.0, dtype=np.float32)
    a, b = gt.from_numpy(array[:4]), gt.from_numpy(array[2:6])
    assert learnt(lambda: gt.ones(4).add_(gt.ones(4)), "add_.Tensor")
    with pytest.raises(errors.GpuTensorError, match="overlap|share"):
        a.add_(b)
    assert array.tolist() == [*range(8)]


# --- changes that remove them ---------------------------------------------------------------------


def test_it_goes_with_the_table(turned_on: None) -> None:
    a = gt.ones(4)
    assert learnt(lambda: a + a, "add.Tensor")
    lib = Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.OverrideWarning)
        lib.impl("add.Tensor", lambda self, other, *, alpha=1: gt.zeros(4), "CPU")
    assert (a + a).tolist() == [0] * 4 and learnt(lambda: a + a, "add.Tensor") == 0
    lib._destroy()
    assert (a + a).tolist() == [2] * 4 and learnt(lambda: a + a, "add.Tensor") == 1


def test_a_kernel_that_calls_the_old_one_is_not_passed_by(turned_on: None) -> None:
    """When the old kernel finds a plan, it must not store a short cut on the new kernel's table."""
    operator = dispatcher.find("aten::add.Tensor")
    (old, *_) = operator.kernels[keys.key("CPU")]
    calls = []

    def mine(key_set: int, *args: Any) -> Any:
        calls.append(key_set)
        assert old.function is not None
        return old.function(key_set, *args)

    a = gt.ones(4)
    handle = dispatcher.register_kernel(operator, keys.key("CPU"), mine)
    try:
        assert learnt(lambda: a + a, "add.Tensor") == 0 and len(calls) == 3
    finally:
        handle.remove()


def test_a_trace_sees_every_call_and_then_none_is_slower(turned_on: None) -> None:
    a = gt.ones(4)
    assert learnt(lambda: a + a, "add.Tensor")
    with dispatch.trace() as lines:
        a + a
    assert len(lines) == 2 and learnt(lambda: a + a, "add.Tensor") == 1


def test_the_default_dtype_is_asked(turned_on: None) -> None:
    a = gt.ones(3, dtype=gt.int64)
    assert learnt(lambda: a + 0.5, "add.Tensor")
    gt.set_default_dtype(gt.float64)
    try:
        assert (a + 0.5).dtype is gt.float64
    finally:
        gt.set_default_dtype(gt.float32)
    assert (a + 0.5).dtype is gt.float32


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda a, w: a * w, "mul.Tensor"),
        (lambda a, w: w + 1, "add.Tensor"),
        (lambda a, w: w.exp(), "exp"),
        (lambda a, w: w.clamp(0, 1), "clamp"),
        (lambda a, w: gt.where(a > 0, w, a), "where.self"),
        (lambda a, w: w.sum(0), "sum.dim_IntList"),
        (lambda a, w: gt.addmm(w, a.view(4, 1), a.view(1, 4)), "addmm"),
        (lambda a, w: w < a, "lt.Tensor"),
    ],
)
def test_it_records(turned_on: None, call: Any, name: str) -> None:
    a, w = gt.arange(4.0), gt.arange(4.0).requires_grad_()
    with turned(False):
        node = type(call(a, w).grad_fn)
    assert learnt(lambda: call(a, a), name)
    short = dispatcher.find(f"aten::{name}").table.short
    seen: list[Any] = []

    def watched(function: Any) -> Any:
        return lambda *given: seen.append(function(*given)) or seen[-1]

    for key, function in [*short.items()]:
        short[key] = watched(function)
    found = call(a, w)
    assert found is seen[-1] and type(found.grad_fn) is node
    with gt.no_grad():
        assert call(a, w) is seen[-1] and not seen[-1].requires_grad


@pytest.mark.parametrize(
    "call, name",
    [(lambda w: w.exp(), "mul.Tensor"), (lambda w: w.relu(), "threshold_backward")],
)
def test_derivatives_leave_and_take_some(turned_on: None, call: Any, name: str) -> None:
    w = gt.arange(4.0).requires_grad_()
    assert learnt(lambda: call(w).sum().backward(), name)


def test_parameters_take_them(turned_on: None) -> None:
    w, a = gt.nn.Parameter(gt.ones(4)), gt.ones(4)
    assert learnt(lambda: w * a, "mul.Tensor") == 1
    (found,) = dispatcher.find("aten::mul.Tensor").table.short.values()
    assert type(found(w, a)) is gt.Tensor and type(found(w, a).grad_fn).__name__ == "MulBackward0"


def test_steps_of_a_parameter_take_them(turned_on: None) -> None:
    w, g = gt.nn.Parameter(gt.ones(4)), gt.ones(4)

    def step(rate: float) -> None:
        with gt.no_grad():
            w.add_(g, alpha=rate)

    for rate in (-1.0, -0.5, -0.25):
        step(rate)
    (found,) = dispatcher.find("aten::add_.Tensor").table.short.values()
    version = w._version
    with gt.no_grad():
        assert found(w, g, 2.0) is w and found(w, g, 1e300) is None
        assert found(w.view(4), g, 2.0) is None
    assert w.tolist() == [1.25] * 4 and w._version == version + 1 and w.is_leaf
    assert found(w, g, 2.0) is None  # it is rejected if it is recorded
    with pytest.raises(errors.AutogradError, match="leaf"):
        w.add_(g, alpha=2.0)


def test_scaled_operands_take_them(turned_on: None) -> None:
    a, b = gt.arange(4.0), gt.ones(4)
    for _ in range(3):
        gt.add(a, b, alpha=0.5)
    (found,) = dispatcher.find("aten::add.Tensor").table.short.values()
    assert found(a, b, 2.0).tolist() == [2.0, 3.0, 4.0, 5.0]
    assert found(a, b, 1e300) is None and found(a, b.requires_grad_(), 2.0) is None
    (gradient,) = gt.autograd.grad(gt.add(a, b, alpha=0.5).sum(), b)
    assert gradient.tolist() == [0.5] * 4


def test_each_gelu_takes_its_own(turned_on: None) -> None:
    a, gelu = gt.arange(4.0), gt.nn.functional.gelu
    exact, by_tanh = gelu(a).tolist(), gelu(a, approximate="tanh").tolist()
    assert learnt(lambda: gelu(a), "gelu") == 1
    for _ in range(3):
        assert gelu(a, approximate="tanh").tolist() == by_tanh
        assert gelu(a).tolist() == exact


def test_a_tensor_in_the_place_of_a_number_leaves_none(turned_on: None) -> None:
    a = gt.tensor([1.0, float("nan"), float("inf")])
    for nan in (gt.tensor(3.0), 0.5, None):
        for _ in range(3):
            found = gt.nan_to_num(a, nan, posinf=7.0)
        assert found.tolist() == [1.0, 0.0 if nan is None else float(nan), 7.0]


def test_a_thread_is_plain_again_after_its_blocks(turned_on: None) -> None:
    a = gt.ones(4)
    with gt.inference_mode(), ExcludeDispatchKeys("Conjugate"), gt.autocast("cpu"), Mode([]):
        a + a
    gt.set_autocast_enabled("cpu", True)
    gt.set_autocast_enabled("cpu", False)
    assert learnt(lambda: a + a, "add.Tensor") == 1
    made = dispatcher.find("aten::add.Tensor").table.short[a._geometry, a._geometry](a, a)
    assert made is not None and made.tolist() == [2] * 4


def test_the_variable_turns_them_off() -> None:
    text = (
        "import gputensor as gt; from gputensor.dispatch import dispatcher\n"
        "a = gt.ones(4)\nfor _ in range(3): a + a\n"
        "print(len(dispatcher.find('aten::add.Tensor').table.short))"
    )
    for value, count in (("0", "0"), ("1", "1")):
        env = {**__import__("os").environ, shortcuts.VARIABLE: value}
        done = subprocess.run(
            [sys.executable, "-c", text], env=env, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == count


# --- random programs ------------------------------------------------------------------------------

OPERATORS = (
    "add.Tensor", "mul.Tensor", "exp", "lt.Tensor", "add_.Tensor", "neg_", "where.self", "clamp",
    "lerp.Tensor", "sum", "sum.dim_IntList", "hardtanh", "clamp_", "_softmax", "addmm", "gelu",
)  # fmt: skip
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "a + b": lambda a, b: a + b,
    "a + 2": lambda a, b: a + 2,
    "2 + a": lambda a, b: 2 + a,
    "2 - a": lambda a, b: 2 - a,
    "2.5 / a": lambda a, b: 2.5 / a,
    "grad of 1 / a": lambda a, b: gt.autograd.grad((1 / a - (3 - b)).sum(), a),
    "add(a, b)": lambda a, b: gt.add(a, b),
    "add(a, b, alpha=2)": lambda a, b: gt.add(a, b, alpha=2),
    "add(a, b, alpha=0.5)": lambda a, b: gt.add(a, b, alpha=0.5),
    "a.sub(b, alpha=1e300)": lambda a, b: a.sub(b, alpha=1e300),
    "sub(2, a, alpha=0.5)": lambda a, b: gt.sub(2, a, alpha=0.5),
    "add(a, b, alpha=True)": lambda a, b: gt.add(a, b, alpha=True),
    "a.mul(b)": lambda a, b: a.mul(b),
    "a * 1.5": lambda a, b: a * 1.5,
    "add(a, b, out=new)": lambda a, b: gt.add(a, b, out=gt.zeros(4)),
    "mul(a, 2, out=b)": lambda a, b: gt.mul(a, 2, out=b),
    "exp(a, out=b)": lambda a, b: gt.exp(a, out=b),
    "lt(a, b, out=new)": lambda a, b: gt.lt(a, b, out=gt.zeros(4, dtype=gt.bool)),
    "a.exp()": lambda a, b: a.exp(),
    "exp(a)": lambda a, b: gt.exp(a),
    "a < b": lambda a, b: a < b,
    "ops.mul(a, b)": lambda a, b: gt.ops.aten.mul.Tensor(a, b),
    "ops.exp(a)": lambda a, b: gt.ops.aten.exp.default(a),
    "ops.neg_(a)": lambda a, b: gt.ops.aten.neg_.default(a),
    "a < 1": lambda a, b: a < 1,
    "a.add_(b)": lambda a, b: a.add_(b),
    "a += 1": lambda a, b: a.__iadd__(1),
    "a.neg_()": lambda a, b: a.neg_(),
    "a.add_(b, alpha=0.5)": lambda a, b: a.add_(b, alpha=0.5),
    "a.add_(b, alpha=1e300)": lambda a, b: a.add_(b, alpha=1e300),
    "a.sub_(b, alpha=inf)": lambda a, b: a.sub_(b, alpha=float("inf")),
    "step": lambda a, b: gt.no_grad()(lambda: a.add_(b, alpha=-0.5))(),
    "scaling step": lambda a, b: gt.no_grad()(lambda: a.mul_(0.5))(),
    "step by another": lambda a, b: gt.no_grad()(lambda: a.lerp_(b, 0.5))(),
    "grad": lambda a, b: gt.autograd.grad((a * b).exp().sum(), a),
    "grad of grad": lambda a, b: gt.autograd.grad(
        gt.autograd.grad((a * a + b).relu().sum(), a, create_graph=True)[0].sum(), a
    ),
    "where(a < b, a, b)": lambda a, b: gt.where(a < b, a, b),
    "where(a < b, a, 0.5)": lambda a, b: gt.where(a < b, a, 0.5),
    "where(a, a, b)": lambda a, b: gt.where(a, a, b),
    "a.clamp(0, 2)": lambda a, b: a.clamp(0, 2),
    "a.clamp(max=1.5)": lambda a, b: a.clamp(max=1.5),
    "a.clamp(b, 2)": lambda a, b: a.clamp(b, 2),
    "lerp(a, b, 0.25)": lambda a, b: gt.lerp(a, b, 0.25),
    "lerp(a, b, b)": lambda a, b: gt.lerp(a, b, b),
    "addcmul(a, b, b)": lambda a, b: gt.addcmul(a, b, b),
    "addcmul(a, b, b, value=3)": lambda a, b: gt.addcmul(a, b, b, value=3),
    "xlogy(a, b)": lambda a, b: gt.xlogy(a, b),
    "softplus(a)": lambda a, b: gt.nn.functional.softplus(a, 2.0),
    "gelu(a)": lambda a, b: gt.nn.functional.gelu(a),
    "gelu(a) by a tanh": lambda a, b: gt.nn.functional.gelu(a, approximate="tanh"),
    "relu6(a)": lambda a, b: gt.nn.functional.relu6(a),
    "a.sum()": lambda a, b: a.sum(),
    "a.sum(0)": lambda a, b: a.sum(0),
    "a.sum((0,), True)": lambda a, b: a.sum((0,), True),
    "a.sum([0])": lambda a, b: a.sum([0]),
    "sum(a, dtype=f64)": lambda a, b: gt.sum(a, dtype=gt.float64),
    "a.mean(-1)": lambda a, b: a.mean(-1),
    "a.amax(True)": lambda a, b: a.amax(True),
    "a.amax(0)": lambda a, b: a.amax(0),
    "a.any()": lambda a, b: a.any(),
    "a.clamp_(0, 2)": lambda a, b: a.clamp_(0, 2),
    "a.lerp_(b, 0.5)": lambda a, b: a.lerp_(b, 0.5),
    "a.addcmul_(b, b)": lambda a, b: a.addcmul_(b, b),
    "addmm": lambda a, b: gt.addmm(a, b.view(4, 1), a.view(1, 4)),
    "addmm of numbers": lambda a, b: gt.addmm(a, b.view(4, 1), b.view(1, 4), beta=2, alpha=0.5),
    "a.softmax(0)": lambda a, b: a.softmax(0),
    "a.cumsum(0)": lambda a, b: a.cumsum(0),
    "a.argmax(0)": lambda a, b: a.argmax(0),
    "a + [1]": lambda a, b: a + [1],
    "a + numpy": lambda a, b: a + gt.ones(4).numpy()[0],
}


class Handled(gt.Tensor):
    """A subclass whose handler receives its operators."""

    @classmethod
    def __gputensor_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = super().__gputensor_dispatch__(op, types, args, kwargs)
        return ("handled", op.qualified_name) if isinstance(found, gt.Tensor) else found


class Plain(gt.Tensor):
    """A subclass that changes nothing."""


def operands() -> dict[str, Any]:
    with gt.inference_mode():
        inference = gt.ones(4)
    base, leaf = gt.arange(8.0), gt.arange(4.0).requires_grad_()
    array = np.arange(8.0, dtype=np.float32)
    return {
        "plain": gt.arange(4.0), "other": gt.full((4,), 3.0), "grad": leaf, "of grad": leaf * 1,
        "view": base[:4], "part": base[2:6], "view of grad": leaf.view(4), "0-d": gt.tensor(2.0),
        "ints": gt.arange(4), "bools": gt.tensor([True, False] * 2), "inference": inference,
        "detached": leaf.detach(), "conj": gt.ones(4, dtype=gt.complex64).conj(),
        "meta": gt.ones(4, device="meta"), "rows": gt.ones(3, 4), "column": gt.ones(3, 1).t(),
        "handled": gt.ones(4).as_subclass(Handled), "subclass": gt.ones(4).as_subclass(Plain),
        "numpy": gt.from_numpy(array[:4]), "overlapping": gt.from_numpy(array[2:6]),
        "empty": gt.ones(0), "expanded": gt.ones(1).expand(4), "half": gt.ones(4).half(),
    }  # fmt: skip


class Mode(DispatchMode):
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def __gputensor_dispatch__(
        self, op: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.log.append(("mode", op.qualified_name))
        return op(*args, **(kwargs or {}))


class Program:
    """One run: the result of every call, and the handlers that received it. Subclasses have other
    calls."""

    calls, operators = CALLS, OPERATORS

    backend = "CPU"

    def __init__(self, seed: int, steps: int) -> None:
        self.random, self.log = random.Random(seed), list[Any]()
        self.steps, self.operands = steps, operands()
        self.handles: list[Any] = []
        self.guards: list[Any] = []
        self.lib = Library("aten", "IMPL")
        self.wide = Library("_", "IMPL")

    def run(self) -> list[Any]:
        with ExitStack() as stack, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stack.callback(gt.set_default_dtype, gt.float32)
            stack.callback(lambda: [lib._destroy() for lib in (self.lib, self.wide)])
            stack.callback(
                lambda: [guard.__exit__(None, None, None) for guard in reversed(self.guards)]
            )
            for _ in range(self.steps):
                step = self.random.choices(
                    (self.call, self.register, self.fallback, self.undo, self.enter, self.leave,
                     self.change_default, self.trace),
                    (60, 6, 2, 8, 8, 8, 2, 2),
                )[0]  # fmt: skip
                step()
        return self.log

    def call(self) -> None:
        a, b = self.random.choices(
            sorted(self.operands), (5,) + (1,) * (len(self.operands) - 1), k=2
        )
        name = self.random.choice(sorted(self.calls))
        times = self.random.choice((1, 3))
        run = self._in_a_thread if self.random.random() < 0.1 else lambda f: f()
        for _ in range(times):
            self.log.append((name, a, b))
            run(lambda: self.log.append(self._outcome(name, self.operands[a], self.operands[b])))

    def _in_a_thread(self, function: Callable[[], None]) -> None:
        thread = threading.Thread(target=function)
        thread.start()
        thread.join()

    def _outcome(self, name: str, a: Any, b: Any) -> Any:
        try:
            found = self.calls[name](a, b)
        except Exception as error:
            return type(error).__name__, str(error).partition("(kernels are")[0]
        return [self._seen(x) for x in (found, a, b)]

    def _seen(self, x: Any) -> Any:
        if isinstance(x, tuple):
            return [self._seen(each) for each in x]
        if not isinstance(x, gt.Tensor):
            return repr(x)
        try:
            node: Any = type(x.grad_fn).__name__
            if x.grad_fn is not None:
                node = (node, [type(n).__name__ for n, _ in x.grad_fn.next_functions])
        except errors.GpuTensorError as error:
            node = str(error)
        is_inference = x.is_inference()
        return (
            type(x).__name__, x.dtype, x.shape, x.stride(), x.requires_grad, x._keys, x.device,
            node, None if is_inference else x._version, x._base is not None,
            self._values(x),
        )  # fmt: skip

    def _values(self, x: Any) -> str | None:
        return repr(x._array.tolist()) if x.is_cpu and x._array is not None else None

    def register(self) -> None:
        name = self.random.choice(self.operators)
        backend = self.backend
        key = self.random.choice(
            (backend, f"Autograd{backend}", "Autograd", "ADInplaceOrView", f"Autocast{backend}")
        )
        number = len(self.log)

        def seen(key_set: Any, *args: Any, **kwargs: Any) -> Any:
            self.log.append(("kernel", number, name, key))
            if key == backend or number % 2:
                return f"answer {number}"
            at = keys.runtime_key(f"Autograd{backend}" if key == "Autograd" else key)
            rest = key_set & keys.below(at.functionality)
            return dispatcher.find(f"aten::{name}").redispatch(rest, *args, **kwargs)

        if self.random.random() < 0.3:
            handle = self.lib.impl(name, gt.library.fallthrough_kernel, key)
        else:
            handle = self.lib.impl(name, seen, key, with_keyset=True)
        self.handles.append(handle)

    def fallback(self) -> None:
        def answer(operator: Any, *args: Any, **kwargs: Any) -> Any:
            self.log.append(("fallback", operator.qualified_name))
            with ExcludeDispatchKeys("TESTING_ONLY_GenericMode"):
                return operator(*args, **kwargs)

        try:
            self.handles.append(self.wide.fallback(answer, "TESTING_ONLY_GenericMode"))
        except errors.RegistrationError:
            self.log.append("fallback is there")

    def undo(self) -> None:
        if self.handles:
            self.handles.pop(self.random.randrange(len(self.handles))).remove()

    def enter(self) -> None:
        make = self.random.choice(
            (
                gt.no_grad, gt.enable_grad, gt.inference_mode,
                lambda: gt.autocast(self.backend.lower()),
                lambda: Mode(self.log), lambda: ExcludeDispatchKeys(f"Autograd{self.backend}"),
                lambda: IncludeDispatchKeys("TESTING_ONLY_GenericMode"),
                lambda: ExcludeDispatchKeys("Conjugate"),
            )
        )  # fmt: skip
        guard = make()
        guard.__enter__()
        self.guards.append(guard)

    def leave(self) -> None:
        if self.guards:  # in any order, except modes
            place = self.random.randrange(len(self.guards))
            self.guards.pop(place).__exit__(None, None, None)

    def change_default(self) -> None:
        gt.set_default_dtype(self.random.choice((gt.float32, gt.float64)))

    def trace(self) -> None:
        with dispatch.trace() as lines:
            self.call()
        self.log += [line.strip() for line in lines]


def outcome(seed: int, kind: type[Program] = Program, steps: int = 80) -> list[Any]:
    """Run in a separate context, because guards that are left out of order change the thread's
    state."""
    try:
        return contextvars.Context().run(lambda: kind(seed, steps).run())
    finally:
        unrecorded.clear()
        inference_blocks.clear()


@pytest.mark.parametrize("first", range(0, tier.pick(5, 50), 5))
def test_no_call_differs_for_them(first: int) -> None:
    for seed in range(first, first + 5):
        with turned(False):
            expected = outcome(seed)
        with turned(True):
            assert outcome(seed) == expected, seed
