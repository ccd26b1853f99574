"""The fallbacks of the package: to the CPU, not implemented, without a derivative."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor import fallback
from gputensor.core import errors
from gputensor.dispatch import dispatcher, keys
from gputensor.library import Library

from ..operands import CPU, Operand, library

DEVICES = ["cuda:0", "cuda:1"]


@pytest.fixture
def ops(lib: Library) -> Any:
    """Operators that have a kernel on the CPU and none on CUDA."""
    if not gt.cuda.is_available():
        pytest.skip("the operands lie on a CUDA device")
    for schema, kernel in {
        "f(Tensor x, Tensor y) -> Tensor": lambda x, y: x + y,
        "add_one_(Tensor(a!) self, Tensor y) -> Tensor(a!)": lambda self, y: self.add_(y),
        "turned(Tensor(a) self) -> Tensor(a)": lambda self: self.t(),
        "turn_(Tensor(a!) self) -> Tensor(a!)": lambda self: self.t_(),
        "into(Tensor x, *, Tensor(a!) out) -> Tensor(a!)": lambda x, *, out: gt.add(x, 1, out=out),
        "halves(Tensor(a -> *) x) -> Tensor(a)[]": lambda x: x.chunk(2),
        "both(Tensor[] xs, Tensor?[] ys) -> (Tensor, int)": lambda xs, ys: (gt.cat(xs), len(ys)),
        "make(int n, *, Device? device=None) -> Tensor": lambda n, *, device=None: gt.ones(
            n, device=device
        ),
        "same(Tensor(a) x) -> Tensor(a)": lambda x: x,
    }.items():
        lib.define(schema)
        lib.impl(schema.partition("(")[0], kernel, "CPU")
    return getattr(gt.ops, lib.ns)


@pytest.fixture
def on() -> Iterator[None]:
    with fallback.enable_cpu_fallback("CUDA"), warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.FallbackWarning)
        yield


def arange(*sizes: int, device: str = "cuda:0") -> gt.Tensor:
    numel = 1
    for n in sizes:
        numel *= n
    return gt.arange(numel, dtype=gt.float32).reshape(sizes).to(device)


# --- on the CPU -----------------------------------------------------------------------------------


def test_off_by_default(ops: Any) -> None:
    with pytest.raises(errors.DispatchError, match="no kernel for key CUDA"):
        ops.f(arange(2), arange(2))


@pytest.mark.parametrize("device", DEVICES)
def test_results_come_back_to_the_device(ops: Any, on: None, device: str) -> None:
    if gt.device(device).index >= gt.cuda.device_count():
        pytest.skip(f"there is no {device}")
    x, y = arange(2, 3, device=device), gt.ones(3, 2, device=device).t()
    found = ops.f(x, y)
    assert found.device == gt.device(device) and found.tolist() == [[1, 2, 3], [4, 5, 6]]
    both, count = ops.both([x, y], [None, x])
    assert both.device == gt.device(device) and both.shape == (4, 3) and count == 2


def test_it_warns_once_for_each_operator(ops: Any) -> None:
    x = arange(4)
    with fallback.enable_cpu_fallback("CUDA"):
        with pytest.warns(
            errors.FallbackWarning, match="f: no kernel for cuda:0, so it runs on the CPU, 32 bytes"
        ):
            ops.f(x, x)
        ops.f(x, x)  # warnings are errors in this suite
        with pytest.warns(errors.FallbackWarning, match="same"):
            ops.same(x)
    with pytest.raises(errors.DispatchError):
        ops.f(x, x)


def test_a_warning_that_is_an_error_changes_nothing(ops: Any) -> None:
    x = arange(4)
    with fallback.enable_cpu_fallback("CUDA"), warnings.catch_warnings():
        warnings.simplefilter("error", errors.FallbackWarning)
        with pytest.raises(errors.FallbackWarning):
            ops.add_one_(x, x)
    assert x.tolist() == [0, 1, 2, 3] and x._version == 0


def test_written_operands_come_back(ops: Any, on: None) -> None:
    x = arange(2, 3)
    row = x[1]
    assert ops.add_one_(row, x[0]) is row
    assert x.tolist() == [[0, 1, 2], [3, 5, 7]]


def test_operands_that_share_memory_share_it_there(ops: Any, on: None) -> None:
    base = arange(8)
    out = base[4:]
    assert ops.into(base[:4], out=out) is out
    assert base.tolist() == [0, 1, 2, 3, 1, 2, 3, 4]
    with pytest.raises(errors.ArgumentError, match="partial overlap"):  # as on one device
        ops.into(base[:4], out=base[2:6])


def test_an_out_of_another_size_is_resized(ops: Any, on: None) -> None:
    out = gt.empty(0, device="cuda")
    assert ops.into(arange(2, 3), out=out) is out
    assert out.device.type == "cuda" and out.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("dtype", [gt.float32, gt.uint8, gt.complex128])
def test_views_are_views_of_the_operand(ops: Any, on: None, dtype: gt.dtype) -> None:
    base = arange(5, 6).to(dtype)
    x = base[1:, 1:4]
    view = ops.turned(x)
    assert view.untyped_storage() is base.untyped_storage() and view.stride() == (1, 6)
    view[0, 1] = 99
    assert base[2, 1].item() == 99
    halves = ops.halves(x)
    assert [h.storage_offset() for h in halves] == [7, 19]
    assert all(h.untyped_storage() is base.untyped_storage() for h in halves)
    assert ops.same(x) is x


def test_a_view_in_place(ops: Any, on: None) -> None:
    x = arange(2, 3)
    assert ops.turn_(x) is x and x.shape == (3, 2) and x.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_factory_makes_its_result_on_the_device_it_names(ops: Any, on: None) -> None:
    last = f"cuda:{gt.cuda.device_count() - 1}"
    with gt.dispatch.IncludeDispatchKeys("CUDA"):
        assert ops.make(3, device=last).device == gt.device(last)
        with gt.device(last):
            assert ops.make(3).device == gt.device(last)


def test_denied_operators_still_raise(ops: Any, lib: Library) -> None:
    with fallback.enable_cpu_fallback("CUDA", deny=[f"{lib.ns}::f"]):
        with pytest.raises(errors.DispatchError, match="the CPU fallback is denied to it"):
            ops.f(arange(2), arange(2))


def test_for_single_operators(ops: Any, lib: Library) -> None:
    with fallback.enable_cpu_fallback("CUDA", ops=[f"{lib.ns}::f", "aten::add"]):
        with pytest.warns(errors.FallbackWarning):
            assert ops.f(arange(2), arange(2)).tolist() == [0, 2]
        with pytest.raises(errors.DispatchError, match="no kernel for key CUDA"):
            ops.same(arange(2))
        assert (
            gt.dispatch.find("aten::add.Tensor").kernels == before["aten::add.Tensor"]
        )  # it has a kernel
    assert not gt.dispatch.has_computed_kernel(f"{lib.ns}::f", "CUDA")


before = {o.qualified_name: o.kernels for o in dispatcher.operators()}


def test_what_cannot_be_switched_on(ops: Any) -> None:
    for key in ("CPU", "Meta", "AutogradCUDA", "Conjugate"):
        with pytest.raises(errors.ArgumentError, match="device other than cpu and meta"):
            fallback.enable_cpu_fallback(key)
    with pytest.raises(errors.DispatchError, match="no such operator"):
        fallback.enable_cpu_fallback("CUDA", ops=["no_such"])
    with (
        fallback.enable_cpu_fallback("CUDA"),
        pytest.raises(errors.RegistrationError, match="CUDA"),
    ):
        fallback.enable_cpu_fallback("CUDA")


@pytest.mark.parametrize(
    "given", [{"ops": ["contiguous"]}, {"deny": ["aten::reshape"]}, {"ops": ["exp", "clone"]}]
)
def test_an_operator_made_of_others_is_refused(given: Any) -> None:
    with pytest.raises(
        errors.ArgumentError,
        match="must name operators that a device has kernels of .*made of others",
    ):
        fallback.enable_cpu_fallback("PrivateUse1", **given)


def test_the_warning_stands_at_the_line_that_called(ops: Any) -> None:
    with fallback.enable_cpu_fallback("CUDA"), pytest.warns(errors.FallbackWarning) as caught:
        ops.f(arange(2), arange(2))
    assert [w.filename for w in caught] == [__file__]


def test_as_kernel_of_one_operator(ops: Any, lib: Library) -> None:
    with library("IMPL", lib.ns) as other:
        other.impl("f", fallback.cpu_fallback, "CUDA", boxed=True)
        with pytest.warns(errors.FallbackWarning):
            assert ops.f(arange(2), arange(2)).tolist() == [0, 2]


# --- not implemented ------------------------------------------------------------------------------


def test_kernels_that_we_bring_know_how_they_are_called(lib: Library) -> None:
    """Built-in kernels need no boxed=True: users cannot know how they are called."""
    lib.define("g(Tensor x) -> Tensor")
    lib.impl("g", lambda x: gt.from_numpy(x.detach().numpy() * 2), "CPU")
    lib.impl("g", fallback.not_implemented, "Meta")
    lib.impl("g", fallback.autograd_not_implemented, "Autograd")
    operator = getattr(gt.ops, lib.ns).g
    y = operator(gt.ones(2).requires_grad_())
    with pytest.warns(errors.FallbackWarning, match="g: backward came to a result"):
        y.sum().backward()
    with pytest.raises(errors.DispatchError, match="Meta"):
        operator(gt.ones(2, device="meta"))
    with library("IMPL", "_") as wide:
        wide.fallback(fallback.not_implemented, "XLA")
        assert gt.dispatch.has_backend_fallback("XLA")


def test_not_implemented_names_operator_and_key(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x, "CPU")
    lib.impl("f", fallback.not_implemented, "Meta", boxed=True)
    f = getattr(gt.ops, lib.ns).f
    assert f(CPU) is CPU
    with pytest.raises(NotImplementedError, match=rf"{lib.ns}::f: not implemented for Meta"):
        f(Operand("Meta"))


# --- boxed calls ----------------------------------------------------------------------------------


def test_23_every_operator_can_be_called_boxed() -> None:
    x = gt.ones(2, 3)
    stack: list[Any] = ["below", x, 2, 1]
    gt.dispatch.find("aten::add.Tensor").call_boxed(stack)
    assert stack[0] == "below" and stack[1].tolist() == [[3] * 3] * 2
    stack = [x, 1]
    gt.dispatch.find("aten::unbind.int").call_boxed(stack)
    assert len(stack) == 1 and [t.shape for t in stack[0]] == [(2,)] * 3


def test_a_boxed_redispatch_takes_just_the_keys_it_is_given(lib: Library) -> None:
    lib.define("f(Tensor x, *, int n=1) -> (Tensor, int)")
    lib.impl("f", lambda x, *, n=1: (x, n), "CPU")
    lib.impl("f", lambda x, *, n=1: (x, -n), "Meta")
    stack: list[Any] = [CPU, 5]
    gt.dispatch.find(f"{lib.ns}::f").redispatch_boxed(keys.key_set(("Meta",)), stack)
    assert stack == [CPU, -5]


# --- without a derivative -------------------------------------------------------------------------


@pytest.fixture
def modes() -> Iterator[Any]:
    """Sets the mode, and restores the previous mode at the end."""
    was = fallback.autograd_fallback_mode()
    yield fallback.set_autograd_fallback_mode
    fallback.set_autograd_fallback_mode(was)


def leaf(*values: float) -> gt.Tensor:
    return gt.tensor(values, requires_grad=True)


def test_the_mode_at_the_start_is_pytorchs() -> None:
    assert fallback.autograd_fallback_mode() == "warn"


def test_three_modes(lib: Library, modes: Any) -> None:
    lib.define("f(Tensor x, Tensor[] ys, Tensor? z=None) -> Tensor")
    lib.impl("f", lambda x, ys, z=None: (x * 2).detach(), "CPU")
    f = getattr(gt.ops, lib.ns).f
    x, plain = leaf(1.0), gt.ones(1)
    positions: Any = ((x, []), (plain, [plain, x]), (plain, [], x))
    modes("nothing")
    assert not any(f(*args).requires_grad for args in positions)
    modes("error")
    for args in positions:
        with pytest.raises(errors.DispatchError, match=f"{lib.ns}::f: an operand requires grad"):
            f(*args)
        with gt.no_grad():
            f(*args)
    assert not f(plain, [plain]).requires_grad
    with gt.dispatch.AutoDispatchBelowAutograd():
        f(x, [])
    modes("warn")
    for args in positions:
        y = f(*args)
        assert y.grad_fn.name() == "WarnNotImplemented"
        with gt.no_grad():
            assert not f(*args).requires_grad
        with pytest.warns(errors.FallbackWarning, match=f"{lib.ns}::f: backward came to a result"):
            y.sum().backward()
    assert x.grad is None
    with pytest.raises(errors.ArgumentError, match="'mode' must be one of nothing, warn, error"):
        modes("other")


@pytest.mark.parametrize(
    "arguments", ["Tensor x", "Tensor x, Tensor y", "Tensor x, Tensor y, Tensor z"]
)
def test_plain_operands_pass_whatever_their_number(
    lib: Library, modes: Any, arguments: str
) -> None:
    lib.define(f"f({arguments}) -> Tensor")
    lib.impl("f", lambda *xs: xs[0].detach() * 1, "CPU")
    f, count = getattr(gt.ops, lib.ns).f, arguments.count("Tensor")
    modes("error")
    assert f(*[gt.ones(2)] * count).tolist() == [1, 1]
    assert f(*[gt.ones(2)[:1]] * count).tolist() == [
        1
    ]  # a view has an `_autograd`, and no gradient
    for place in range(count):
        given = [gt.ones(2) for _ in range(count)]
        given[place] = leaf(1.0, 1.0)
        with pytest.raises(errors.DispatchError, match="an operand requires grad"):
            f(*given)


def test_a_kernel_made_of_differentiable_operators_keeps_its_gradients(lib: Library) -> None:
    """It still warns, as in PyTorch, because these gradients may be wrong."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x * 3, "CPU")
    x = leaf(1.0, 2.0)
    y = getattr(gt.ops, lib.ns).f(x)
    with pytest.warns(errors.FallbackWarning, match="gradients may be missing or wrong"):
        y.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_operands_that_come_back_stay_as_they_are(lib: Library) -> None:
    lib.define("same(Tensor x, Tensor y) -> Tensor")
    lib.define("add_(Tensor(a!) x, Tensor y) -> Tensor(a!)")
    lib.impl("same", lambda x, y: x, "CPU")
    lib.impl("add_", lambda x, y: x.copy_(x + y.detach()), "CPU")
    x, y = gt.ones(2), leaf(1.0, 2.0)
    assert getattr(gt.ops, lib.ns).same(x, y) is x and not x.requires_grad
    assert getattr(gt.ops, lib.ns).add_(x, y) is x and x.grad_fn.name() == "WarnNotImplemented"


def test_results_that_have_no_gradient_are_left_alone(lib: Library) -> None:
    lib.define("f(Tensor x) -> (Tensor, Tensor, int)")
    lib.impl("f", lambda x: (x.detach() > 1, x.detach() * 2, 3), "CPU")
    where, twice, n = getattr(gt.ops, lib.ns).f(leaf(1.0, 2.0))
    assert not where.requires_grad and twice.requires_grad and n == 3


def test_lists_among_the_results_warn_too(lib: Library) -> None:
    lib.define("f(Tensor x) -> (Tensor, Tensor[])")
    made = lambda x: gt.from_numpy(x.detach().numpy() * 2)  # noqa: E731
    lib.impl("f", lambda x: (made(x), [made(x)]), "CPU")
    _, (y,) = getattr(gt.ops, lib.ns).f(leaf(1.0, 2.0))
    assert y.requires_grad
    with pytest.warns(errors.FallbackWarning, match="::f"):
        y.sum().backward()


def test_shipped_operators_without_derivative_pass_in_every_mode(modes: Any) -> None:
    x = leaf(1.0, 2.0)
    for mode in fallback.AUTOGRAD_MODES:
        modes(mode)
        for made in (x == x, gt.zeros_like(x), gt.empty_like(x), (x > 1).any(), x.detach()):
            assert not made.requires_grad
        assert x[0].item() == 1


def test_no_shipped_operator_meets_the_fallback() -> None:
    """Each built-in operator is differentiable, composite, or listed by name, so that none runs the
    fallback or warns."""
    slots = {
        o.qualified_name: o.table.slot(keys.runtime_key("AutogradCPU"))[1]
        for o in dispatcher.operators() if o.namespace == "aten"
    }  # fmt: skip
    assert len(slots) > 150 and "backend fallback" not in slots.values()


def test_own_autograd_kernels_are_left_alone(lib: Library, modes: Any) -> None:
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x, "CPU")
    lib.impl("f", lambda x: CPU, "Autograd")
    modes("error")
    assert getattr(gt.ops, lib.ns).f(leaf(1.0)) is CPU


def test_a_mode_is_left_without_a_gap(lib: Library, modes: Any) -> None:
    at_first = dict(dispatcher.fallbacks())
    modes("error")
    assert dict(dispatcher.fallbacks()) == at_first  # the same kernels, which read the mode
    modes("nothing")
    ends = dict(dispatcher.fallbacks())
    assert {k.name for k, f in at_first.items() if f is not ends[k]} == {
        k.name for k in keys.Autograd.keys
    }
    assert all(ends[k].is_fallthrough for k in keys.Autograd.keys)
    modes("warn")
    assert set(dispatcher.fallbacks()) == set(ends)
