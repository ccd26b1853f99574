"""Short cuts of views, factories and copies; common properties are in test_shortcuts.py."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import gputensor as gt
from gputensor import dispatch
from gputensor.core import errors
from gputensor.dispatch import dispatcher, keys
from gputensor.library import Library

from gputensor.tensor.make import CPU_KEYS

from ...harness import tier
from .test_shortcuts import Program, learnt, outcome, taken, turned, turned_on  # noqa: F401

pytestmark = pytest.mark.usefixtures("turned_on")

# A call of x, with sizes (2, 3, 4), and the operator that stores its short cut.
LEAVES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "view": (lambda x: x.view(6, -1), "view"),
    "view of a tuple": (lambda x: x.view((6, 4)), "view"),
    "view of a list": (lambda x: x.view([6, 4]), "view"),
    "reshape": (lambda x: x.reshape(4, 6), "reshape"),
    "gt.reshape": (lambda x: gt.reshape(x, (4, 6)), "reshape"),
    "permute": (lambda x: x.permute(2, 0, 1), "permute"),
    "transpose": (lambda x: x.transpose(0, -1), "transpose.int"),
    "t": (lambda x: x.view(6, 4).t(), "t"),
    "expand": (lambda x: x.expand(5, 2, 3, 4), "expand"),
    "squeeze": (lambda x: x.squeeze(), "squeeze"),
    "squeeze dim": (lambda x: x.squeeze(1), "squeeze.dim"),
    "squeeze dims": (lambda x: x.squeeze((0, 1)), "squeeze.dims"),
    "unsqueeze": (lambda x: x.unsqueeze(-1), "unsqueeze"),
    "flatten": (lambda x: x.flatten(1), "flatten.using_ints"),
    "narrow": (lambda x: x.narrow(1, -2, 2), "narrow"),
    "select": (lambda x: x.select(1, -1), "select.int"),
    "an index": (lambda x: x[1], "select.int"),
    "an index behind": (lambda x: x[..., -1], "select.int"),
    "a slice": (lambda x: x[-1:], "slice.Tensor"),
    "unfold": (lambda x: x.unfold(2, 2, 1), "unfold"),
    "diagonal": (lambda x: x.diagonal(0, 1, 2), "diagonal"),
    "movedim": (lambda x: x.movedim(0, -1), "movedim.int"),
    "moveaxis": (lambda x: gt.moveaxis(x, 2, 0), "movedim.int"),
    "zeros": (lambda x: gt.zeros(2, 3), "zeros"),
    "new_zeros": (lambda x: x.new_zeros(2, 3), "new_zeros"),
    "new_zeros of": (lambda x: x.new_zeros((2,), dtype=gt.bool, device="cpu"), "new_zeros"),
    "new_ones": (lambda x: x.new_ones((2, 3)), "new_ones"),
    "new_full": (lambda x: x.new_full((2, 3), -0.0), "new_full"),
    "scalar_tensor": (lambda x: gt.scalar_tensor(2.5), "scalar_tensor"),
    "scalar_tensor of": (lambda x: gt.scalar_tensor(-2, dtype=gt.float16), "scalar_tensor"),
    "zeros of": (lambda x: gt.zeros((4,), dtype=gt.int8, device="cpu"), "zeros"),
    "ones": (lambda x: gt.ones(2, 3, dtype=gt.complex32), "ones"),
    "full": (lambda x: gt.full((2, 3), 2.5), "full"),
    "full of an int": (lambda x: gt.full((4,), 7, device="cpu"), "full"),
    "full of False": (lambda x: gt.full((4,), False, dtype=gt.float16), "full"),
    "arange": (lambda x: gt.arange(5), "arange"),
    "arange of floats": (lambda x: gt.arange(5, dtype=gt.float64), "arange"),
    "arange from": (lambda x: gt.arange(-2, 5, device="cpu"), "arange.start"),
    "arange in steps": (lambda x: gt.arange(0, 1, 0.25), "arange.start_step"),
    "linspace": (lambda x: gt.linspace(0, 1, 5), "linspace"),
    "eye": (lambda x: gt.eye(3), "eye"),
    "eye of two sizes": (lambda x: gt.eye(2, 3, dtype=gt.int8), "eye.m"),
    "tril_indices": (lambda x: gt.tril_indices(3, 4, -1), "tril_indices"),
    "rand": (lambda x: gt.manual_seed(7) and gt.rand(2, 3), "rand"),
    "randn of": (lambda x: gt.manual_seed(7) and gt.randn((5,), dtype=gt.float16), "randn"),
    "rand_like": (lambda x: gt.manual_seed(7) and gt.rand_like(x), "rand_like"),
    "randn_like": (lambda x: gt.manual_seed(7) and gt.randn_like(x), "randn_like"),
    "randint": (lambda x: gt.manual_seed(7) and gt.randint(9, (2, 3)), "randint"),
    "randint of": (
        lambda x: gt.manual_seed(7) and gt.randint(-9, 9, (5,), dtype=gt.float32),
        "randint.low",
    ),
    "randperm": (lambda x: gt.manual_seed(7) and gt.randperm(5), "randperm"),
    "random_": (lambda x: gt.manual_seed(7) and gt.empty(5).random_(2, 9), "random_.from"),
    "uniform_": (lambda x: gt.manual_seed(7) and gt.empty(5).uniform_(2, 9), "uniform_"),
    "normal_": (lambda x: gt.manual_seed(7) and gt.empty(5).normal_(2, 9), "normal_"),
    "zeros_like": (lambda x: gt.zeros_like(x), "zeros_like"),
    "ones_like": (lambda x: gt.ones_like(x.view(24)), "ones_like"),
    "clone": (lambda x: x.clone(), "clone"),
    "clone in another order": (lambda x: x.permute(2, 0, 1).clone(), "clone"),
    "clone of what is expanded": (lambda x: x[:1, :1].expand(2, 3, 4).clone(), "clone"),
    "contiguous": (lambda x: x.permute(2, 0, 1).contiguous(), "contiguous"),
    "to": (lambda x: x.to(gt.int16), "to.dtype"),
    "half": (lambda x: x.half(), "to.dtype"),
    "copy_": (lambda x: gt.empty(2, 3, 4).copy_(x), "copy_"),
    "copy_ that broadcasts": (lambda x: gt.empty(3, 4).copy_(x[0, 0]), "copy_"),
}


def cube() -> Any:
    return gt.arange(24.0).view(2, 3, 4)


@pytest.mark.parametrize("name", LEAVES)
def test_what_comes_again_leaves_one_that_calls_take(name: str) -> None:
    call, at = LEAVES[name]
    dispatcher.forget_plans()
    with turned(False):
        expected = call(cube())
    x = gt.arange(24.0).reshape(2, 3, 4)
    dispatcher.forget_plans()
    assert learnt(lambda: call(x), at) >= 1
    short = dispatcher.find(f"aten::{at}").table.short
    made = call(x)
    assert made._geometry is expected._geometry and made.tolist() == expected.tolist()
    assert made.storage_offset() == expected.storage_offset()
    for key in short:
        short[key] = lambda *given: "taken"
    assert call(x) == "taken"


def test_an_index_that_is_out_of_range_is_refused_as_ever() -> None:
    x = cube()
    assert learnt(lambda: x[1], "select.int")
    for refused in (lambda: x[2], lambda: x[-3], lambda: x.narrow(0, 2, 1)):
        with pytest.raises(errors.GpuTensorError):
            refused()
    assert learnt(lambda: x.narrow(0, 1, 1), "narrow")
    with pytest.raises(errors.GpuTensorError):
        x.narrow(0, 2, 1)
    assert x.narrow(0, -2, 1).tolist() == x[:1].tolist()


@pytest.mark.parametrize("wrong", [(2.5,), ("x",), ((2, [12]),), (None,), (True,), (24, 2)])
def test_arguments_of_other_types_are_refused_as_ever(wrong: Any) -> None:
    x = cube()
    assert learnt(lambda: x.view(24), "view")
    with turned(False), pytest.raises(errors.GpuTensorError) as expected:
        cube().view(*wrong)
    with pytest.raises(errors.GpuTensorError) as found:
        x.view(*wrong)
    assert str(found.value) == str(expected.value)


def test_a_view_of_what_gets_a_history_has_it() -> None:
    x, leaf = gt.ones(4), gt.ones(4, requires_grad=True)
    assert learnt(lambda: x.view(2, 2), "view")
    view = x.view(2, 2).t()
    x.mul_(leaf)
    view.sum().backward()
    assert view._base is x and leaf.grad.tolist() == [1] * 4


@pytest.mark.parametrize(
    "name",
    [
        "view", "permute", "transpose", "t", "expand", "squeeze", "squeeze dims", "unsqueeze",
        "reshape", "flatten", "select", "an index", "a slice", "an index behind",
    ],
)  # fmt: skip
def test_a_view_of_what_has_a_history_is_recorded(name: str) -> None:
    call, at = LEAVES[name]
    leaf = cube().requires_grad_()
    made = (leaf * 1).view(2, 3, 4)
    with turned(False):
        expected = [call(leaf), call(made)]
    dispatcher.forget_plans()
    assert learnt(lambda: call(leaf), at)
    short, seen = dispatcher.find(f"aten::{at}").table.short, list[Any]()

    def watched(function: Any) -> Any:
        return lambda *given: seen.append(function(*given)) or seen[-1]

    for key, function in [*short.items()]:
        short[key] = watched(function)
    for source, other in zip((leaf, made), expected):
        view = call(source)
        assert view is seen[-1] and view._base is other._base and view._version == other._version
        assert type(view.grad_fn) is type(other.grad_fn)
        (grad,), (wanted,) = (gt.autograd.grad(x.sum(), source) for x in (view, other))
        assert grad.tolist() == wanted.tolist()
        with gt.no_grad():
            silent = call(source)
        assert silent is seen[-1] and silent.grad_fn is None and silent._base is view._base
    if name != "expand":
        whole = leaf * 1
        call(whole).mul_(2)
        assert type(whole.grad_fn).__name__ == "CopySlices"


def test_parts_of_what_has_a_history_have_each_their_own_place() -> None:
    leaf = gt.arange(6.0, requires_grad=True)
    for _ in range(3):
        for at in (0, -1, 4):
            (grad,) = gt.autograd.grad(leaf[at] * 2, leaf)
            assert grad.nonzero().tolist() == [[at % 6]]
        for start, end in ((0, 2), (-2, None), (None, 2), (3, 5)):
            (grad,) = gt.autograd.grad(leaf[start:end].sum(), leaf)
            assert grad.nonzero().flatten().tolist() == [*range(6)][start:end]


@pytest.mark.parametrize(
    "turn",
    [
        lambda x: x.permute(2, 0, 1), lambda x: x.view(gt.int32).transpose(0, 2),
        lambda x: x[:, :, 1:].transpose(0, 1), lambda x: x[1:].permute(2, 1, 0),
        lambda x: x.flatten(1).t(), lambda x: x.permute(2, 0, 1)[:2],
        lambda x: x.unsqueeze(0).permute(3, 0, 2, 1)[..., :1].expand(4, 2, 3, 2)[:, 0],
    ],
)  # fmt: skip
def test_copies_of_turned_views_are_right(turn: Callable[[Any], Any]) -> None:
    for n in range(4):
        for whole in (cube() + n, (gt.arange(48.0) + n).view(4, 3, 4)[2:], cube().mul_(n).clone()):
            expected = turn(gt.tensor(whole.tolist())).tolist()
            assert turn(whole).contiguous().tolist() == turn(whole).clone().tolist() == expected
        whole.resize_(4, 3, 4).fill_(n)
        assert turn(whole).contiguous().tolist() == turn(whole).tolist()


def test_numbers_that_are_equal_are_told_apart() -> None:
    for _ in range(3):
        for value in (1, 1.0, True, 0.0, -0.0, 0, False, 1e300, float("nan"), float("nan")):
            made = gt.full((2,), value, dtype=gt.float64 if type(value) is float else None)
            assert [*map(repr, made.tolist())] == [repr(value)] * 2
        for end in (2, 2.0, True, 3):
            wanted = gt.int64 if type(end) is not float else gt.float32
            assert gt.arange(end).dtype is wanted and len(gt.arange(end)) == end
        for start in (0, 0.0, -0.0, False):
            with turned(False):
                wanted = gt.linspace(start, 1, 2, dtype=gt.float64).tolist()
            assert repr(gt.linspace(start, 1, 2, dtype=gt.float64).tolist()) == repr(wanted)
            assert gt.arange(start, 2, 1).is_floating_point() is (type(start) is float)
    gt.arange(3).zero_()
    assert gt.arange(3).tolist() == [0, 1, 2]


def test_a_named_dtype_is_not_taken_for_the_unnamed_one() -> None:
    calls = (
        lambda **named: gt.arange(0, 4, 1, **named),
        lambda **named: gt.eye(3, **named),
        lambda **named: gt.linspace(0, 3, 4, **named),
    )
    for call, unnamed in zip(calls, (gt.int64, gt.float32, gt.float32)):
        for _ in range(3):
            for element in (gt.int64, gt.float32, gt.float64):
                assert call(dtype=element).dtype is element
            assert call().dtype is unnamed


def test_a_view_that_is_made_while_nothing_is_recorded_says_so() -> None:
    x, leaf = gt.ones(4), gt.ones(4, requires_grad=True)
    assert learnt(lambda: x.view(2, 2), "view")
    with gt.no_grad():
        view = x.view(2, 2)
    with pytest.raises(errors.GpuTensorError, match="no_grad"):
        view.mul_(leaf.view(2, 2))


@pytest.mark.parametrize(
    "call, at",
    [
        (lambda x: gt.empty(5), "empty.memory_format"),
        (lambda x: gt.empty((2, 3), dtype=gt.int64), "empty.memory_format"),
        (lambda x: gt.empty_like(x), "empty_like"),
        (lambda x: gt.empty_like(x.permute(2, 0, 1)), "empty_like"),
        (lambda x: gt.empty_like(gt.empty(200, 200)), "empty_like"),
    ],
)
def test_memory_without_values_leaves_one(call: Any, at: str) -> None:
    x = gt.arange(24.0).reshape(2, 3, 4)
    with turned(False):
        expected = call(x)
    dispatcher.forget_plans()
    assert learnt(lambda: call(x), at) >= 1
    found = call(x)
    assert found._geometry is expected._geometry and found.storage_offset() == 0
    short = dispatcher.find(f"aten::{at}").table.short
    for key in short:
        short[key] = lambda *given: "taken"
    assert call(x) == "taken"


def test_a_factory_asks_what_is_the_default() -> None:
    for make in (gt.empty, gt.zeros, gt.ones, gt.rand, gt.randn):
        for _ in range(3):
            made = make(7)
        with gt.device("meta"):
            assert make(7).is_meta and not make(7, device="cpu").is_meta
        gt.set_default_dtype(gt.float64)
        try:
            assert make(7).dtype is gt.float64 and make(7, dtype=gt.float32).dtype is gt.float32
        finally:
            gt.set_default_dtype(gt.float32)
        assert make(7).dtype is gt.float32 and made.is_cpu
        with gt.inference_mode():
            assert make(7).is_inference()
        assert make(7, requires_grad=True).requires_grad


def test_numbers_are_drawn_from_where_the_last_call_ended() -> None:
    generator = gt.manual_seed(3)
    for _ in range(3):
        gt.rand(5)
    state = generator.mark()
    drawn = [gt.rand(5), gt.randn(6, device="cpu"), gt.rand(5, generator=generator), gt.rand(5)]
    with turned(False):
        generator.return_to(state)
        expected = [gt.rand(5), gt.randn(6), gt.rand(5), gt.rand(5)]
    assert [x.tolist() for x in drawn] == [x.tolist() for x in expected]
    assert generator.mark() == (3, state[1] + 8)
    with pytest.raises(errors.GpuTensorError, match="floating"):
        gt.rand(5, dtype=gt.int64)


@pytest.mark.parametrize(
    "call, at",
    [
        (lambda x: gt.fft.fft(x), "fft_fft"), (lambda x: gt.fft.ifft(x, dim=0), "fft_ifft"),
        (lambda x: gt.fft.rfft(x.real, norm="ortho"), "fft_rfft"),
        (lambda x: gt.fft.fft(x.real.contiguous(), norm="forward"), "fft_fft"),
    ],
)  # fmt: skip
def test_transforms_leave_some_that_record(call: Any, at: str) -> None:
    x = gt.complex(gt.arange(8.0), gt.arange(8.0).cos()).requires_grad_()
    with turned(False):
        expected = call(x)
        (wanted,) = gt.autograd.grad(expected.abs().sum(), x)
    dispatcher.forget_plans()
    if at != "fft_rfft":  # the part of a complex tensor is not dense
        assert learnt(lambda: call(x), at)
    for _ in range(3):
        found = call(x)
        (gradient,) = gt.autograd.grad(found.abs().sum(), x)
        assert found.tolist() == expected.tolist() and gradient.tolist() == wanted.tolist()
        assert found._geometry is expected._geometry
    assert call(x.detach()).grad_fn is None
    several = gt.arange(24.0).view(2, 3, 4).to(gt.complex64)
    for _ in range(3):  # an inverse over several dimensions is composed of two transforms
        found = gt.fft.irfftn(several, dim=(0, 2))
    with turned(False):
        assert found.tolist() == gt.fft.irfftn(several, dim=(0, 2)).tolist()


def test_what_is_made_shares_nothing() -> None:
    x = gt.ones(4).t()
    for make in (gt.zeros_like, gt.ones_like, gt.clone, lambda x: gt.zeros(4)):
        first = [make(x) for _ in range(4)]
        for made in first:
            made.add_(5)
        assert [made.tolist() for made in first] == [first[0].tolist()] * 4 and x.tolist() == [
            1
        ] * 4


def test_a_copy_counts_and_minds_what_shares_memory() -> None:
    x, y = gt.ones(4), gt.zeros(4)
    version = x._version
    assert learnt(lambda: x.copy_(y), "copy_") and x._version == version + 3
    base = gt.arange(8.0)
    with pytest.raises(errors.GpuTensorError, match="overlap|share"):
        base[:4].copy_(base[2:6])
    assert base.tolist() == [*range(8)]


def test_a_copy_of_what_has_a_history_is_recorded() -> None:
    x, leaf = gt.ones(4, 3), gt.ones(4, 3, requires_grad=True)
    assert learnt(lambda: x.t().contiguous(), "contiguous") and learnt(lambda: x.clone(), "clone")
    leaf.t().contiguous().clone().sum().backward()
    assert leaf.grad.sum().item() == 12


def test_a_cast_of_what_has_a_history_is_recorded() -> None:
    leaf, plain = gt.arange(3.0, requires_grad=True), gt.arange(3.0)
    assert learnt(lambda: plain.half(), "to.dtype")
    for _ in range(3):
        made = leaf.half()
        assert made.dtype is gt.float16 and type(made.grad_fn).__name__ == "ToCopyBackward0"
        (gradient,) = gt.autograd.grad((made * made).sum(), leaf)
        assert gradient.dtype is gt.float32 and gradient.tolist() == [0.0, 2.0, 4.0]
        assert plain.half().grad_fn is None and plain.to(gt.float16, copy=True) is not plain
        assert plain.to(gt.float32) is plain and leaf.detach().half().tolist() == plain.tolist()
        with gt.autocast("cpu", dtype=gt.bfloat16):
            assert plain.half().dtype is gt.float16


def test_views_on_a_device_leave_some() -> None:
    x = gt.arange(24.0, device="cuda").reshape(2, 3, 4)
    for name in ("view", "permute", "transpose", "an index", "a slice", "narrow", "flatten"):
        call, at = LEAVES[name]
        dispatcher.forget_plans()
        assert learnt(lambda: call(x), at) >= 1
        on_host = x.cpu()
        for _ in range(3):
            assert call(x).tolist() == call(on_host).tolist() and call(on_host).is_cpu
        assert call(x).is_cuda and call(x)._base is x._base and call(on_host)._base is on_host
    seen, lib = list[Any](), Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.OverrideWarning)
        lib.impl("slice.Tensor", lambda self, *args: seen.append(args) or self, "CUDA")
    for _ in range(3):
        x.narrow(0, 0, 1)
        on_host.narrow(0, 0, 1)
    lib._destroy()
    assert len(seen) == 3


def test_lists_of_views_on_a_device_leave_some() -> None:
    x = gt.arange(24.0, device="cuda").reshape(4, 6)
    for call, at in (
        (lambda x: x.chunk(2, 1), "chunk"), (lambda x: x.split(4, -1), "split.Tensor"),
        (lambda x: x.unbind(1), "unbind.int"),
    ):  # fmt: skip
        dispatcher.forget_plans()
        assert learnt(lambda: call(x), at) >= 1
        for _ in range(3):
            made, wanted = call(x), call(x.cpu())
            assert [y.tolist() for y in made] == [y.tolist() for y in wanted]
            assert all(y.is_cuda and y._base is x._base for y in made)
        version = x._version
        made[1].add_(1)
        assert x._version == made[0]._version == version + 1
        assert call(x)[1].tolist() == (wanted[1] + 1).tolist()
    seen, lib = list[Any](), Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.OverrideWarning)
        lib.impl("split.Tensor", lambda self, *args: seen.append(args) or (self, self), "CUDA")
    for _ in range(3):
        x.chunk(2)
        x.cpu().chunk(2)
    lib._destroy()
    assert len(seen) == 3


# --- short cuts that skip several tables ----------------------------------------------------------

# A call, the operator that has its short cut, and the operators that the short cut skips.
OVER: dict[str, tuple[Callable[[Any], Any], str, tuple[str, ...]]] = {
    "reshape": (lambda x: x.reshape(4, 6), "reshape", ("view",)),
    "flatten": (lambda x: x.flatten(), "flatten.using_ints", ("reshape", "view")),
    "narrow": (lambda x: x.narrow(0, 0, 1), "narrow", ("slice.Tensor",)),
    "empty_like": (gt.empty_like, "empty_like", ("empty.memory_format",)),
    "zeros": (lambda x: gt.zeros(5), "zeros", ("empty.memory_format", "zero_")),
    "ones": (lambda x: gt.ones(5), "ones", ("empty.memory_format", "fill_.Scalar")),
    "rand": (lambda x: gt.rand(5), "rand", ("empty.memory_format", "uniform_")),
    "randn": (lambda x: gt.randn(5), "randn", ("empty.memory_format", "normal_")),
    "movedim": (lambda x: x.movedim(0, 1), "movedim.int", ("permute",)),
    "new_ones": (
        lambda x: x.new_ones(5), "new_ones", ("new_empty", "empty.memory_format", "fill_.Scalar"),
    ),
    "scalar_tensor": (
        lambda x: gt.scalar_tensor(1.5), "scalar_tensor", ("empty.memory_format", "fill_.Scalar"),
    ),
    "rand_like": (gt.rand_like, "rand_like", ("empty_like", "uniform_")),
    "randint": (lambda x: gt.randint(9, (5,)), "randint", ("empty.memory_format", "random_.from")),
    "randperm": (lambda x: gt.randperm(5), "randperm", ("empty.memory_format",)),
    "masked_fill_": (
        lambda x: x.clone().masked_fill_(x > 3, 0.5), "masked_fill_.Scalar",
        ("scalar_tensor", "expand", "where.self_out"),
    ),
    "masked_fill": (
        lambda x: x.masked_fill(x > 3, 0.5), "masked_fill.Scalar", ("scalar_tensor", "where.self"),
    ),
    "cat": (lambda x: gt.cat([x, x]), "cat", ("copy_",)),
    "stack": (lambda x: gt.stack([x, x]), "stack", ("unsqueeze", "cat")),
    "diag_embed": (lambda x: x.diag_embed(), "diag_embed", ("new_zeros", "diagonal", "copy_")),
    "diag": (lambda x: x.view(-1).diag(), "diag", ("diag_embed",)),
    "median": (lambda x: x.median(0), "median.dim", ("squeeze.dim",)),
    "item": (lambda x: x[0, 0, 0].item(), "item", ("_local_scalar_dense",)),
    "cross": (
        lambda x: gt.linalg.cross(x, x, dim=1), "linalg_cross", ("mul.Tensor", "stack"),
    ),
    "one_hot": (
        lambda x: gt.nn.functional.one_hot(gt.arange(3), 4), "one_hot", ("scatter_.value",),
    ),
    "zeros_like": (gt.zeros_like, "zeros_like", ("empty_like", "empty.memory_format", "zero_")),
    "ones_like": (gt.ones_like, "ones_like", ("empty_like", "empty.memory_format", "fill_.Scalar")),
    "clone": (lambda x: x.clone(), "clone", ("empty_like", "copy_", "empty.memory_format")),
    "to": (lambda x: x.double(), "to.dtype", ("_to_copy", "copy_", "empty.memory_format")),
    "contiguous": (
        lambda x: x.permute(2, 0, 1).contiguous(), "contiguous",
        ("clone", "empty_like", "copy_", "empty.memory_format"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name, passed", [(n, at) for n in OVER for at in OVER[n][2]])
@pytest.mark.parametrize("kind", ["kernel", "trace", "fallback"])
def test_it_goes_with_any_table_that_it_jumps_over(name: str, passed: str, kind: str) -> None:
    call, at, _ = OVER[name]
    x = gt.arange(24.0).reshape(2, 3, 4)
    assert learnt(lambda: call(x), at)
    seen, answer = list[str](), gt.zeros(1)
    lib = Library("_" if kind == "fallback" else "aten", "IMPL")

    def kernel(*args: Any, **kwargs: Any) -> Any:
        seen.append(passed)
        return answer

    if kind == "trace":
        with dispatch.trace() as lines:
            call(x)
        assert any(f"[aten::{passed}]" in line for line in lines)
    elif kind == "kernel":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", errors.OverrideWarning)
            lib.impl(passed, kernel, "CPU")
        for _ in range(3):
            with contextlib.suppress(errors.GpuTensorError):  # equal to its sizes
                call(x)
        lib._destroy()
        # each of the three calls reached the handler, some of them several times
        assert len(seen) >= 3 and len(seen) % 3 == 0 and not taken(at)
    else:
        handle = dispatcher.replace_fallback(keys.key("ADInplaceOrView"), kernel, "handler")
        assert not taken(at)
        handle.remove()
    lib._destroy()
    assert learnt(lambda: call(x), at)


# --- random programs ------------------------------------------------------------------------------

OPERATORS = (
    "view", "permute", "t", "transpose.int", "select.int", "slice.Tensor", "reshape",
    "_reshape_alias", "empty.memory_format", "empty_like", "zeros", "ones", "zeros_like", "clone",
    "contiguous", "copy_", "fill_.Scalar", "zero_",
    "squeeze", "unsqueeze", "expand", "narrow", "flatten.using_ints",
)  # fmt: skip
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "view": lambda a, b: a.view(2, -1),
    "view of itself": lambda a, b: a.view(a.shape),
    "reshape": lambda a, b: a.reshape(2, 2),
    "flatten": lambda a, b: a.flatten(),
    "permute": lambda a, b: a.permute(0),
    "t": lambda a, b: a.t(),
    "transpose": lambda a, b: gt.transpose(a, 0, -1),
    "index": lambda a, b: a[1],
    "last": lambda a, b: a[-1],
    "slice": lambda a, b: a[1:3],
    "rest": lambda a, b: a[-2:],
    "indices": lambda a, b: a.view(2, 2)[1, -1],
    "an index behind": lambda a, b: a.view(2, 2)[:, 0],
    "a new dimension": lambda a, b: a[..., None],
    "slices": lambda a, b: a.view(2, 2)[None, :1, 1:],
    "write to indices": lambda a, b: a.view(2, 2)[0, 1].add_(1),
    "narrow": lambda a, b: a.narrow(0, 1, 2),
    "expand": lambda a, b: a.expand(3, 4),
    "unsqueeze": lambda a, b: a.unsqueeze(0).squeeze(0),
    "squeeze": lambda a, b: a.squeeze(),
    "view of a view": lambda a, b: a.view(4)[1:].view(3),
    "write to a view": lambda a, b: a.view(4)[:2].add_(1),
    "view, then a history": lambda a, b: (v := a.view(4), a.mul_(b), v)[2],
    "zeros": lambda a, b: gt.zeros(4),
    "ones": lambda a, b: gt.ones(4, device="cpu"),
    "full": lambda a, b: gt.full((4,), 1),
    "full of a float": lambda a, b: gt.full((4,), 1.0),
    "full of -0.0": lambda a, b: gt.full((4,), -0.0),
    "full of 0.0": lambda a, b: gt.full((4,), 0.0),
    "full elsewhere": lambda a, b: gt.full((4,), 1, device="meta"),
    "arange": lambda a, b: gt.arange(4),
    "arange of a float": lambda a, b: gt.arange(4.0),
    "arange from": lambda a, b: gt.arange(1, 5),
    "write to a range": lambda a, b: gt.arange(4).mul_(2),
    "empty": lambda a, b: gt.empty(4).shape,
    "empty_like": lambda a, b: gt.empty_like(a).fill_(2),
    "zeros_like": lambda a, b: gt.zeros_like(a),
    "ones_like": lambda a, b: gt.ones_like(a),
    "clone": lambda a, b: a.clone(),
    "contiguous": lambda a, b: a.contiguous(),
    "contiguous of a view": lambda a, b: b.view(2, 2).t().contiguous(),
    "copy_": lambda a, b: a.copy_(b),
    "copy_ into what is new": lambda a, b: gt.empty_like(a).copy_(b),
    "zeros elsewhere": lambda a, b: gt.zeros(4, device="meta"),
    "view in no_grad": lambda a, b: gt.no_grad()(lambda: a.view(4))(),
}  # fmt: skip


class Views(Program):
    calls, operators = CALLS, OPERATORS

    def _seen(self, x: Any) -> Any:
        if not isinstance(x, gt.Tensor):
            return repr(x)
        is_there = x.is_cpu and x._keys is CPU_KEYS and x._storage is not None
        return (
            super()._seen(x), x.storage_offset(), x._get_array().tolist() if is_there else None
        )  # fmt: skip


@pytest.mark.parametrize("first", range(0, tier.pick(5, 50), 5))
def test_no_call_differs_for_them(first: int) -> None:
    for seed in range(first, first + 5):
        with turned(False):
            expected = outcome(seed, Views)
        with turned(True):
            assert outcome(seed, Views) == expected, seed


def test_a_cast_to_the_same_dtype_is_the_tensor_also_behind_copies() -> None:
    x = gt.ones(3)
    for _ in range(4):
        assert x.to(gt.float32, copy=True) is not x
    for _ in range(4):
        assert x.to(gt.float32) is x
