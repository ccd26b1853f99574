"""Stubs: their arguments, their operators, and precedence over other kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.kernels import stub
from gputensor.makers import further

from .devices import Runtime, runs


@pytest.fixture
def acme() -> Iterator[Any]:
    with gt.backend.register("acme", runtime=Runtime()) as device:
        yield device


def to(x: Any) -> Any:
    return x.to("acme")


_BINARY = {"add": np.add, "mul": np.multiply, "sub": np.subtract}


def binary(op: str, out: Any, a: Any, b: Any, alpha: Any = 1) -> None:
    out[...] = _BINARY[op](a, alpha * b)


def test_a_kernel_receives_the_coalesced_plan(acme: Any) -> None:
    log: list[Any] = []
    acme.register_stub("binary", runs(binary, log))
    a, b = gt.arange(120).reshape(2, 3, 4, 5).float(), gt.arange(5).float()
    y = to(a).permute(0, 2, 3, 1) * to(b).view(5, 1)
    ((op, plan),) = log
    # sizes (2, 4, 5, 3), walked in a's memory order: first the dimension of 5, then all others as
    # one, along which b has stride 0
    assert (op, plan.shape) == ("mul", (5, 24))
    assert plan.stride_bytes == ((4, 20), (4, 20), (4, 0))
    assert [d.short for d in plan.dtypes] == ["f32"] * 3 and plan.common_dtype is gt.float32
    assert y.tolist() == (a.permute(0, 2, 3, 1) * b.view(5, 1)).tolist()
    assert y.stride() == (a.permute(0, 2, 3, 1) * b.view(5, 1)).stride()


def test_dense_operands_come_as_one_dimension(acme: Any) -> None:
    log: list[Any] = []
    acme.register_stub("binary", runs(binary, log))
    x = to(gt.rand(2, 3, 4).permute(2, 0, 1))
    x + x
    ((_, plan),) = log
    assert plan.shape == (24,) and plan.stride_bytes == ((4,), (4,), (4,))


def test_numbers_stay_numbers_and_scalars_follow(acme: Any) -> None:
    acme.register_stub("binary", runs(binary))
    x = gt.arange(4)
    assert (to(x) + 2).tolist() == [2, 3, 4, 5]
    assert gt.add(to(x), to(x), alpha=3).tolist() == [0, 4, 8, 12]
    assert to(x).add_(to(x)[1:2], alpha=2).tolist() == [2, 3, 4, 5]
    assert (to(x) * gt.tensor(3)).tolist() == [
        0,
        3,
        6,
        9,
    ]  # a CPU scalar beside the device's operand
    out = gt.empty(0, dtype=gt.int64, device="acme")
    assert gt.sub(to(x), 1, out=out) is out and out.tolist() == [-1, 0, 1, 2]


def test_what_all_devices_share_is_checked_before_the_kernel_runs(acme: Any) -> None:
    def never(*given: Any) -> None:
        raise AssertionError("the kernel ran")

    acme.register_stub("binary", runs(never))
    x = to(gt.arange(6))
    with pytest.raises(errors.GpuTensorError):
        x + to(gt.arange(5))
    with pytest.raises(errors.GpuTensorError):
        x + gt.arange(6)
    with pytest.raises(errors.GpuTensorError):
        x[1:].add_(x[:-1])


def test_a_plan_is_bound_once_for_a_layout(acme: Any) -> None:
    log: list[Any] = []
    acme.register_stub("binary", runs(binary, log))
    x = to(gt.arange(4))
    for _ in range(3):
        x + x
    assert len(log) == 1


@pytest.mark.parametrize("family, op, work, call", [
    ("comparison", "lt", lambda op, out, a, b: np.less(a, b, out=out), lambda x: x < 3),
    ("where", "where", lambda op, out, c, a, b: np.copyto(out, np.where(c, a, b)),
     None),
    ("fill", "fill", lambda op, out, value: out.fill(value), lambda x: x.t().fill_(7)),
    ("copy", "copy", lambda op, out, x: np.copyto(out, x, casting="unsafe"),
    lambda x: x.t().contiguous().flip(1).double()),
    ("reduce", "sum", lambda op, out, x: np.copyto(out, x.sum()), lambda x: x.sum()),
])  # fmt: skip
def test_families(acme: Any, family: str, op: str, work: Any, call: Any) -> None:
    if family == "reduce":
        # the output of a full reduction has stride 0 everywhere
        def work(op: str, out: Any, x: Any) -> None:
            out[(0,) * out.ndim] = x.sum()

    acme.register_stub(family, runs(work))
    x = gt.arange(6).reshape(2, 3).float()
    if family == "where":
        mask = gt.tensor([[True, False, True], [False, True, False]])
        found, expected = gt.where(to(mask), to(x), -1.0), gt.where(mask, x, -1.0)
    else:
        found, expected = call(to(x)), call(x)
    assert (
        found.device.type == "acme"
        and found.dtype is expected.dtype
        and found.tolist() == expected.tolist()
    )


def test_matmul_receives_strides_and_no_copy(acme: Any) -> None:
    seen: list[Any] = []

    def bind(op: str, plan: Any) -> Any:
        def launch(index: int, pointers: tuple[int, ...], scalars: tuple[Any, ...]) -> None:
            (m, n, k), strides = plan.shape, plan.stride_bytes
            out, a, b = (
                np.ndarray(s, plan.common_dtype.np, (ctypes.c_uint8 * 4096).from_address(p), 0, t)
                for s, p, t in zip(((m, n), (m, k), (k, n)), pointers, strides)
            )
            seen.append(strides)
            np.matmul(a, b, out=out)

        return launch

    acme.register_stub("matmul", bind)
    a, b = gt.rand(3, 4), gt.rand(5, 4)
    assert gt.testing.assert_close((to(a) @ to(b).t()).cpu(), a @ b.t()) is None
    assert seen == [((20, 4), (16, 4), (4, 16))]


def test_generators(acme: Any) -> None:
    def fill_range(op: str, out: Any, *scalars: Any) -> None:
        start, step = scalars
        out[...] = np.arange(out.size) * step + start

    seen, counters = [], []

    def fill_random(op: str, out: Any, *scalars: Any) -> None:
        seed, counter, *of_distribution = scalars
        assert seed == gt.acme.initial_seed()
        seen.append(op)
        counters.append(counter)
        out[...] = of_distribution

    acme.register_stub("range", runs(fill_range), "arange")
    assert gt.arange(2, 8, 2, device="acme").tolist() == [2, 4, 6]
    with pytest.raises(errors.DispatchError, match="eye: no kernel"):
        gt.eye(2, device="acme")
    acme.register_stub("random", runs(fill_random))
    assert gt.rand(2, device="acme").tolist() == [0.0, 1.0]
    assert gt.normal(4.0, 0.5, (2,), device="acme").tolist() == [4.0, 0.5]
    assert seen == ["uniform", "normal"] and counters[0] < counters[1]


# --- registration ---------------------------------------------------------------------------------


def test_a_stub_for_some_ops_leaves_the_others(acme: Any) -> None:
    acme.register_stub("binary", runs(binary), "add", "mul")
    assert acme.has_native("aten::add.out") and acme.has_native("aten::mul_.Tensor")
    assert not acme.has_native("aten::sub.Tensor")
    assert acme.has_native("add.out") and not acme.has_native("abs")  # names as in `impl`
    with pytest.raises(errors.DispatchError, match="sub: no kernel"):
        to(gt.ones(2)) - 1


def test_the_newest_serves_and_undone_in_any_order_the_newest_left(acme: Any) -> None:
    def constant(value: float) -> Any:
        return runs(lambda op, out, x: out.fill(value))

    x = to(gt.ones(2))
    first, second, third = (acme.register_stub("unary", constant(v), "exp") for v in (1, 2, 3))
    assert x.exp().tolist() == [3, 3]
    second.remove()
    assert x.exp().tolist() == [3, 3]
    third.remove()
    assert x.exp().tolist() == [1, 1]
    first.remove()
    with pytest.raises(errors.DispatchError, match="exp: no kernel"):
        x.exp()


def test_a_kernel_of_one_operator_goes_before_the_family(acme: Any) -> None:
    acme.register_stub("unary", runs(lambda op, out, x: out.fill(1)))

    @acme.impl("aten::abs")
    def abs(self: Any) -> Any:
        return gt.ones(3).to(self.device)

    assert to(gt.ones(2)).abs().shape == (3,)
    assert to(gt.ones(2)).exp().tolist() == [1, 1]


def test_an_authors_copy_from_serves_all_copies(acme: Any) -> None:
    calls: list[str] = []

    @acme.impl("aten::_copy_from")
    def _copy_from(self: Any, dst: Any, non_blocking: bool) -> Any:
        calls.append(f"{self.device} to {dst.device}")
        return dst

    x = gt.ones(2).to("acme")
    x.cpu()
    x.clone()
    assert calls == ["cpu to acme:0", "acme:0 to cpu", "acme:0 to acme:0"]


def test_a_family_that_is_not_there_is_refused() -> None:
    with pytest.raises(
        errors.GpuTensorError, match=f"'family' must be one of {', '.join(stub.families())}, or"
    ):
        gt.backend.register_stub("acme", "unarry", lambda op, plan: stub.nothing)


@pytest.mark.parametrize("family", list(stub.families()))
def test_an_op_that_is_not_there_is_refused(acme: Any, family: str) -> None:
    """Otherwise a misspelt op would be registered and never used."""
    for register in (acme.register_stub, partial(gt.backend.register_stub, "acme")):
        with pytest.raises(
            errors.GpuTensorError, match=f"'ops' must be of family '{family}', which has "
        ):
            register(family, lambda op, plan: stub.nothing, "nosuch")
    for op in stub.ops_of(family):
        acme.register_stub(family, lambda op, plan: stub.nothing, op).remove()


def test_every_op_that_native_code_asks_for_can_be_registered(acme: Any) -> None:
    for family, entries in further.entries.items():
        if family in stub.families() and family not in ("copy", "fill"):
            named = {loop or operator.short_name.rstrip("_") for operator, loop, _, _ in entries}
            assert named <= stub.ops_of(family), family


@pytest.mark.parametrize("device_type", ["cpu", "meta", "nosuch", None])
def test_a_device_type_without_stubs_is_refused(device_type: Any) -> None:
    with pytest.raises(errors.GpuTensorError, match="'device_type' must be one of cuda"):
        gt.backend.register_stub(device_type, "unary", lambda op, plan: stub.nothing)


def test_what_binds_must_be_a_function_and_return_one(acme: Any) -> None:
    with pytest.raises(errors.ArgumentTypeError, match="'bind_op' must be a function"):
        acme.register_stub("unary", 3)

    def forgot(op: str, plan: Any) -> None:
        lambda index, operands, scalars: None  # noqa: B018

    acme.register_stub("unary", forgot, "abs")
    x = to(gt.ones(2))
    with pytest.raises(
        errors.DispatchError, match="abs: the stub '.*forgot' .* must return a function .got None"
    ):
        x.abs()


def test_declared_families(acme: Any) -> None:
    gelu = gt.backend.declare_stub("gelu")
    try:
        with pytest.raises(errors.RegistrationError, match="'family' must be new"):
            gt.backend.declare_stub("gelu")
        with pytest.raises(errors.DispatchError, match="no kernel of family 'gelu'"):
            gelu.bind("gelu", "acme", None)
        undo = gelu.register("acme", lambda op, plan: lambda *given: (op, plan, given))
        assert gelu.bind("gelu", "acme", "plan")(0, (1, 2)) == ("gelu", "plan", (0, (1, 2)))
        assert gelu.bind("gelu", "meta", "plan")(0, (1, 2)) is None
        undo()
    finally:
        gelu.remove()
    with pytest.raises(errors.RegistrationError, match="'family' must be new"):
        gt.backend.declare_stub("unary")
    assert "gelu" not in stub.families() and {"unary", "binary", "matmul"} <= set(stub.families())


def test_a_stub_of_all_copies_does_not_pass_for_a_pack(acme: Any) -> None:
    """Such a stub would silently ignore the third and fourth operand, scale and bias."""
    log: list[Any] = []
    acme.register_stub("copy", lambda op, plan: log.append(op) or stub.nothing)
    x = to(gt.rand(1, 3, 2, 2))
    x.permute(0, 2, 3, 1).contiguous()
    with pytest.raises(errors.DispatchError, match="pack: no kernel of family 'copy' for device"):
        gt.layout.pack(x, scale=2.0)
    assert set(log) == {"copy"} and not stub.serves("copy", "pack", "acme")
    given: list[Any] = []

    def bind(op: str, plan: Any) -> Any:
        return lambda index, operands, scalars=(): given.append((op, operands[2:]))

    acme.register_stub("copy", bind, "pack")
    gt.layout.pack(x, scale=2.0, bias=[1.0, 2.0, 3.0])
    assert given == [("pack", ((2.0, 2.0, 2.0), (1.0, 2.0, 3.0)))]
