"""Short cuts of functions over arrays, and of writes of one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.dispatch import dispatcher
from gputensor.kernels.compiled import library

from .test_shortcuts import learnt, taken, turned, turned_on  # noqa: F401

pytestmark = pytest.mark.usefixtures("turned_on")

# A call of x, with sizes (3, 4), and the operator that stores a short cut.
RESULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "median": (lambda x: x.median(), "median"),
    "median along a dimension": (lambda x: x.median(0), "median.dim"),
    "median that keeps it": (lambda x: gt.median(x, 1, True), "median.dim"),
    "nanmedian": (lambda x: x.nanmedian(), "nanmedian"),
    "nanmedian along a dimension": (lambda x: x.nanmedian(-1), "nanmedian.dim"),
    "kthvalue": (lambda x: x.kthvalue(2, 0), "kthvalue"),
    "mode": (lambda x: x.mode(0), "mode"),
    "sort": (lambda x: gt.sort(x), "sort"),
    "sort of columns": (lambda x: x.sort(0, descending=True), "sort"),
    "sort of what is turned": (lambda x: x.t().sort(), "sort"),
    "msort": (lambda x: gt.msort(x), "msort"),
    "argsort": (lambda x: x.argsort(-1, True), "argsort"),
    "topk": (lambda x: gt.topk(x, 1, 0), "topk"),
    "topk of a few": (lambda x: x.view(-1).topk(2, sorted=False), "topk"),
    "diag of a vector": (lambda x: x.view(-1).diag(1), "diag"),
    "diag of a matrix": (lambda x: x.diag(-1), "diag"),
    "diag_embed": (lambda x: x.diag_embed(-1, 0, 2), "diag_embed"),
    "searchsorted": (
        lambda x: gt.searchsorted(gt.arange(4.0), x, right=True),
        "searchsorted.Tensor",
    ),
    "bucketize": (lambda x: gt.bucketize(x, gt.arange(4.0), out_int32=True), "bucketize.Tensor"),
    "cross": (lambda x: gt.linalg.cross(x, x[:, :1] + x, dim=0), "linalg_cross"),
    "cholesky": (lambda x: gt.linalg.cholesky(x @ x.t() + 9 * gt.eye(3)), "linalg_cholesky"),
    "inv": (lambda x: gt.linalg.inv(x[:, :3]), "linalg_inv"),
    "qr": (lambda x: gt.linalg.qr(x), "linalg_qr"),
    "solve": (lambda x: gt.linalg.solve(x[:, :3] + 9 * gt.eye(3), x), "linalg_solve"),
    "solve of a vector": (
        lambda x: gt.linalg.solve(x[:, :3] + 9 * gt.eye(3), x[:, 3]),
        "linalg_solve",
    ),
    "solve from the right": (
        lambda x: gt.linalg.solve(x[:, :3] + 9 * gt.eye(3), x[:2, :3], left=False),
        "linalg_solve",
    ),
    "solve_triangular": (
        lambda x: gt.linalg.solve_triangular(x[:, :3].triu() + gt.eye(3), x, upper=True),
        "linalg_solve_triangular",
    ),
    "mv": (lambda x: x @ x[0], "mv"),
    "mv of columns": (lambda x: x.t().mv(x[:, 1]), "mv"),
    "addmv": (lambda x: x[:, 0].addmv(x, x[1]), "addmv"),
    "outer": (lambda x: gt.outer(x[0], x[:, 1]), "outer"),
    "addr": (lambda x: x.addr(x[:, 0], x[1]), "addr"),
    "addr of a row": (lambda x: x[2].addr(x[:, 0], x[1], beta=1.0), "addr"),
    "roll": (lambda x: x.t().roll(3), "roll"),
    "roll along dimensions": (lambda x: x.roll((1, -1), (0, 1)), "roll"),
    "rot90": (lambda x: x.rot90(), "rot90"),
    "rot90 twice": (lambda x: x.rot90(2, (1, 0)), "rot90"),
    "trace": (lambda x: x[:, 1:].trace(), "trace"),
    "diff": (lambda x: x.diff(dim=0), "diff"),
    "frexp": (lambda x: gt.frexp(x), "frexp.Tensor"),
    "count_nonzero": (lambda x: x.count_nonzero(1), "count_nonzero"),
    "nll_loss": (
        lambda x: gt.nn.functional.nll_loss(x, gt.tensor([1, 0, 3]), ignore_index=0),
        "nll_loss_nd",
    ),
    "nll_loss of a vector": (
        lambda x: gt.nn.functional.nll_loss(x[0], gt.tensor(2), reduction="none"),
        "nll_loss_nd",
    ),
    "chunk": (lambda x: x.chunk(2), "chunk"),
    "split": (lambda x: x[:, 1:].split(2, 0), "split.Tensor"),
    "unbind": (lambda x: x.unbind(-1), "unbind.int"),
    "fft2": (lambda x: gt.fft.fft2(x), "fft_fft2"),
    "ifft2": (lambda x: gt.fft.ifft2(x.to(gt.complex64), norm="ortho"), "fft_ifft2"),
    "fftn": (lambda x: gt.fft.fftn(x, dim=(1, 0)), "fft_fftn"),
    "ifftn": (lambda x: gt.fft.ifftn(x.unsqueeze(0), dim=(-1, -2)), "fft_ifftn"),
    "cat": (lambda x: gt.cat([x, x[1:], gt.zeros(0)]), "cat"),
    "cat of columns": (lambda x: gt.cat((x.t(), x.t()), -1), "cat"),
    "stack": (lambda x: gt.stack([x, x + 1], -2), "stack"),
    "stack of numbers": (lambda x: gt.stack([x[0, 0], x[1, 1]]), "stack"),
    "stack along the last": (lambda x: gt.stack((x, x), 2), "stack"),
    "layer_norm": (lambda x: gt.nn.functional.layer_norm(x, (4,)), "layer_norm"),
    "layer_norm with a scale": (
        lambda x: gt.nn.functional.layer_norm(x.t(), (3,), x[:, 0], eps=0.5),
        "layer_norm",
    ),
    "layer_norm of matrices": (
        lambda x: gt.nn.functional.layer_norm(x, (3, 4), x + 1, x - 1),
        "layer_norm",
    ),
    "glu": (lambda x: gt.nn.functional.glu(x[:, :2].contiguous()), "glu"),
    "avg_pool2d": (lambda x: gt.nn.functional.avg_pool2d(x[None], 2), "avg_pool2d"),
    "adaptive": (
        lambda x: gt.nn.functional.adaptive_avg_pool2d(x[None], 2),
        "_adaptive_avg_pool2d",
    ),
    "max_pool2d": (
        lambda x: gt.nn.functional.max_pool2d(x[None], 2, return_indices=True),
        "max_pool2d_with_indices",
    ),
    "adaptive_max_pool3d": (
        lambda x: gt.nn.functional.adaptive_max_pool3d(x[None, None], (1, 2, 2)),
        "adaptive_max_pool3d",
    ),
    "linear": (
        lambda x: gt.nn.functional.interpolate(x[None], 6, mode="linear"),
        "upsample_linear1d",
    ),
    "bilinear": (
        lambda x: gt.nn.functional.interpolate(x[None, None], (5, 4), mode="bilinear"),
        "upsample_bilinear2d",
    ),
    "nearest": (
        lambda x: gt.nn.functional.interpolate(x[None, None], scale_factor=2),
        "upsample_nearest2d",
    ),
    "reflection_pad1d": (
        lambda x: gt.nn.functional.pad(x, (2, 1), mode="reflect"),
        "reflection_pad1d",
    ),
    "vdot": (lambda x: gt.vdot(x[0], x[1]), "vdot"),
    "masked_scatter": (
        lambda x: x.masked_scatter(x > 0, gt.arange(12.0).view(4, 3)),
        "masked_scatter",
    ),
    "masked_scatter of rows": (
        lambda x: x.masked_scatter(gt.tensor([[True], [False], [True]]), 2 * x),
        "masked_scatter",
    ),
    "kron": (lambda x: gt.kron(x, x[:1]), "kron"),
    "isin": (lambda x: gt.isin(x, gt.arange(7.0), invert=True), "isin.Tensor_Tensor"),
}

if library.choice().library is not None:  # The short cuts of these call a compiled loop.
    RESULTS |= {
        "pdist": (lambda x: gt.nn.functional.pdist(x, 1.0), "_pdist_forward"),
        "grid_sample": (
            lambda x: gt.nn.functional.grid_sample(
                x[None, None], x[:2, :4].reshape(1, 2, 2, 2) / 9, align_corners=True
            ),
            "grid_sampler_2d",
        ),
        "multi_margin_loss": (
            lambda x: gt.nn.functional.multi_margin_loss(x, gt.tensor([1, 0, 3]), p=2),
            "multi_margin_loss",
        ),
        "multi_margin_loss of a vector": (
            lambda x: gt.nn.functional.multi_margin_loss(x[0], gt.tensor(2), reduction="none"),
            "multi_margin_loss",
        ),
    }


def numbers() -> Any:
    return gt.tensor([[3.0, -0.0, 1, 7], [0.0, 5, 1, -2], [4.0, 9, 8, 6]])


def listed(made: Any) -> list[Any]:
    found = made if isinstance(made, tuple) else (made,)
    return [(x.tolist(), x.stride(), x.dtype) for x in found]


@pytest.mark.parametrize("name", RESULTS)
def test_a_repeated_call_takes_one_with_the_same_results(name: str) -> None:
    call, at = RESULTS[name]
    dispatcher.forget_plans()
    x = numbers()
    with turned(False):
        expected = call(x)
    assert learnt(lambda: call(x), at)
    made = call(x)
    assert listed(made) == listed(expected) and type(made) is type(expected)
    with_nan = x.clone()
    with_nan[1, 2] = float("nan")
    if not at.startswith("linalg_") or at == "linalg_cross":  # others may report an error
        with turned(False):
            of_nan = str(listed(call(with_nan)))
        assert learnt(lambda: call(x), at) and str(listed(call(with_nan))) == of_nan
    short = dispatcher.find(f"aten::{at}").table.short
    for key in short:
        short[key] = lambda *given: (x, x, x)
    found = call(x)
    assert (found[0] if isinstance(found, tuple) else found) is x


@pytest.mark.parametrize("name", RESULTS)
def test_it_records(name: str) -> None:
    call, at = RESULTS[name]
    if at in (
        "count_nonzero",
        "argsort",
        "searchsorted.Tensor",
        "bucketize.Tensor",
        "isin.Tensor_Tensor",
    ):
        return
    x = numbers().requires_grad_()

    def gradient() -> Any:
        made = call(x)
        made = made[0] if isinstance(made, tuple) else made
        (made.abs() if made.is_complex() else made).sum().backward()
        found, x.grad = x.grad.tolist(), None
        return found

    with turned(False):
        expected = gradient()
    assert learnt(lambda: call(numbers()), at)
    assert [gradient() for _ in range(3)] == [expected] * 3


@pytest.mark.parametrize("name", ["cholesky", "inv"])
def test_a_matrix_that_has_no_result_is_reported_as_ever(name: str) -> None:
    call = getattr(gt.linalg, name)
    good, bad = gt.eye(3), gt.diag(gt.tensor([1.0, 0, 1]))
    with turned(False), pytest.raises(RuntimeError) as expected:
        call(bad)
    assert learnt(lambda: call(good), f"linalg_{name}")
    with pytest.raises(RuntimeError) as found:
        call(bad)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("classes", [4, -1])
@pytest.mark.parametrize("wrong", [4, -1, -4])
def test_a_class_out_of_range_is_refused_as_ever(classes: int, wrong: int) -> None:
    one_hot = gt.nn.functional.one_hot
    given = gt.tensor([[3, 0], [2, 1]])
    expected = [[[0, 0, 0, 1], [1, 0, 0, 0]], [[0, 0, 1, 0], [0, 1, 0, 0]]]
    for _ in range(4):
        assert one_hot(given, classes).tolist() == expected
    other = gt.tensor([[3, 0], [2, wrong]])
    if wrong == 4 and classes == -1:
        assert one_hot(other, classes).shape == (2, 2, 5)
        return
    with turned(False), pytest.raises((RuntimeError, IndexError)) as expected_error:
        one_hot(other, classes)
    with pytest.raises(type(expected_error.value)) as found:
        one_hot(other, classes)
    assert str(found.value) == str(expected_error.value)


def test_lists_that_are_no_lists_of_plain_tensors_go_the_long_way() -> None:
    x = numbers()
    for join in (gt.cat, gt.stack):
        for _ in range(4):
            join([x, x])
        for wrong in ([x, 1], [x, None], [], None, iter([x, x]), x):
            with turned(False), pytest.raises((TypeError, RuntimeError, ValueError)) as expected:
                join(wrong)
            assert learnt(lambda join=join: join([x, x]), join.__name__)
            with pytest.raises(type(expected.value)) as found:
                join(wrong)
            assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("dtype", [gt.float32, gt.bfloat16, gt.int64, gt.bool, gt.complex64])
def test_items_are_as_without_one(dtype: Any) -> None:
    for x in (gt.ones((), dtype=dtype), gt.ones((1, 1), dtype=dtype)):
        for _ in range(4):
            assert type(x.item()) is type(gt.ones((), dtype=dtype).tolist()) and x.item() == 1
    x = gt.ones(1, requires_grad=True)
    assert [(x * 2).item() for _ in range(4)] == [2.0] * 4


def test_a_normal_draw_around_means_keeps_the_stream() -> None:
    mean = gt.arange(6.0).view(2, 3)

    def drawn() -> list[Any]:
        gt.manual_seed(5)
        return [gt.normal(mean, 2.5).tolist(), gt.normal(mean, 0.5).tolist(), gt.rand(2).tolist()]

    with turned(False):
        expected = drawn()
    assert learnt(drawn, "normal.Tensor_float") and drawn() == expected
    of = mean.clone().requires_grad_()
    gt.normal(of, 2.5).sum().backward()
    assert of.grad.tolist() == [[0.0] * 3] * 2


def test_results_share_no_memory() -> None:
    x = gt.tensor([2.0, 1.0, 3.0])
    made = [gt.sort(x) for _ in range(4)]
    made[2].values.fill_(0)
    assert made[3].values.tolist() == [1, 2, 3] and x.tolist() == [2, 1, 3]


def test_a_registration_for_an_operator_that_is_passed_removes_it() -> None:
    x = numbers()
    assert learnt(lambda: x.msort(), "msort")
    lib = gt.library.Library("aten", "IMPL")
    with pytest.warns(Warning):
        lib.impl("sort", lambda self, dim, descending: (self, self), "CPU")
    assert not taken("msort") and x.msort() is x
    lib._destroy()


def test_a_registration_for_the_in_place_form_removes_the_functional_one() -> None:
    x, index = gt.arange(4.0), gt.tensor([2])
    assert learnt(lambda: x.scatter(0, index, 7.0), "scatter.value")
    lib = gt.library.Library("aten", "IMPL")
    with pytest.warns(Warning):
        lib.impl("scatter_.value", lambda self, dim, index, value: self, "CPU")
    assert not taken("scatter.value") and x.scatter(0, index, 7.0).tolist() == x.tolist()
    lib._destroy()


# --- writes of one number -------------------------------------------------------------------------

# A call of (x (3, 4), a mask, a number) and the operator that stores a short cut.
WRITES: dict[str, tuple[Callable[[Any, Any, Any], Any], str]] = {
    "fill_": (lambda x, mask, n: x.fill_(n), "fill_.Scalar"),
    "fill_ of a column": (lambda x, mask, n: x[:, 1].fill_(n) is None, "fill_.Scalar"),
    "zero_": (lambda x, mask, n: x.zero_(), "zero_"),
    "masked_fill_": (lambda x, mask, n: x.masked_fill_(mask, n), "masked_fill_.Scalar"),
    "masked_fill": (lambda x, mask, n: x.masked_fill(mask, n), "masked_fill.Scalar"),
    "masked_fill of rows": (lambda x, mask, n: x.masked_fill(mask[0], n), "masked_fill.Scalar"),
    "a mask": (lambda x, mask, n: x.__setitem__(mask, n), "masked_fill_.Scalar"),
    "full_like": (lambda x, mask, n: gt.full_like(x, n), "full_like"),
    "full_like in another dtype": (
        lambda x, mask, n: gt.full_like(mask, n, dtype=x.dtype),
        "full_like",
    ),
    "new_full of a shape": (lambda x, mask, n: x.new_full(mask.shape, n), "new_full"),
    "a slice": (lambda x, mask, n: x.__setitem__(slice(1, 3), n), "fill_.Scalar"),
    "indices": (lambda x, mask, n: x.__setitem__(gt.tensor([2, 0]), n), "scalar_tensor"),
}
_NUMBERS = [1.5, -0.0, 0.0, float("nan"), float("-inf"), 1e30, 1e300, 7, -7, True, 300, 2**70, 1j]


def written(call: Any, dtype: Any, n: Any) -> Any:
    x = numbers().to(dtype)
    try:
        made = call(x, numbers() > 2, n)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        return type(error), str(error), x._version
    if isinstance(made, gt.Tensor):
        assert made is x or made._version == 0
        return str((x.tolist(), x._version, made.tolist()))
    return str((x.tolist(), x._version))


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize(
    "dtype", [gt.float32, gt.float16, gt.bfloat16, gt.int32, gt.uint8, gt.bool, gt.complex64]
)
def test_any_number_is_written_as_without_one(name: str, dtype: Any) -> None:
    call, at = WRITES[name]
    with turned(False):
        expected = [written(call, dtype, n) for n in _NUMBERS]
    for _ in range(3):
        for number, n in zip(expected, _NUMBERS):
            assert written(call, dtype, n) == number, n
    is_filled_by_numpy = dtype not in (gt.bfloat16, gt.complex64)
    if at.startswith("masked") or is_filled_by_numpy and name != "indices":
        assert learnt(lambda: written(call, dtype, True), at)


@pytest.mark.parametrize("dtype", [gt.float8_e4m3fn, gt.float8_e5m2])
def test_float8_is_filled_as_without_one(dtype: Any) -> None:
    for _ in range(4):
        x = gt.full((3, 4), 2.0).to(dtype)
        assert x.new_full((2,), 1.5).to(gt.float32).tolist() == [1.5, 1.5]
        assert x.new_zeros((2,)).to(gt.float32).tolist() == [0, 0]
        assert gt.scalar_tensor(1.5, dtype=dtype).to(gt.float32).item() == 1.5
        assert gt.cat([x, x]).to(gt.float32).tolist() == [[2.0] * 4] * 6
        assert x.fill_(3).to(gt.float32).tolist() == [[3.0] * 4] * 3
        assert x.zero_().to(gt.float32).tolist() == [[0.0] * 4] * 3


@pytest.mark.parametrize("count", [5, 70_000])
def test_filled_tensors_of_any_size_take_one(count: int) -> None:
    x = gt.arange(float(count))
    for make, name, value in [
        (lambda: gt.zeros(count), "zeros", 0), (lambda: gt.ones(count), "ones", 1),
        (lambda: gt.full((count,), 2.5), "full", 2.5), (lambda: gt.zeros_like(x), "zeros_like", 0),
        (lambda: gt.ones_like(x, dtype=gt.bool), "ones_like", 1),
        (lambda: x.new_zeros(x.shape), "new_zeros", 0),
        (lambda: x.clone().fill_(-3), "fill_.Scalar", -3), (lambda: x.clone().zero_(), "zero_", 0),
    ]:  # fmt: skip
        assert learnt(make, name)
        made = make()
        assert made.shape == (count,) and bool((made == value).all()), name
        assert made.is_contiguous() and made.dtype is make().dtype
    assert gt.zeros_like(x, dtype=gt.int16).dtype is gt.int16 and gt.zeros_like(x).dtype is x.dtype


@pytest.mark.parametrize("count, parts", [(9_000, 2), (9_000, 40), (70_000, 3)])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_tensors_of_any_size_are_joined_by_one(count: int, parts: int, dim: int) -> None:
    tensors = [gt.arange(2.0 * count).view(2, count) + n for n in range(parts)]
    tensors[1] = tensors[1].view(count, 2).t()
    for join, name in [(gt.cat, "cat"), (gt.stack, "stack")]:
        with turned(False):
            expected = join(tensors, dim)
        assert learnt(lambda: join(tensors, dim), name)
        made = join(tensors, dim)
        assert gt.equal(made, expected) and made.stride() == expected.stride()


@pytest.mark.parametrize("n", [3, 40, 200])
def test_ranges_of_any_size_take_one(n: int) -> None:
    for make, name in [
        (lambda: gt.eye(n), "eye"), (lambda: gt.eye(n, n + 2, dtype=gt.int16), "eye.m"),
        (lambda: gt.linspace(-1, 2.5, 9 * n), "linspace"),
        (lambda: gt.arange(0.5, 9 * n), "arange.start"), (lambda: gt.arange(9 * n), "arange"),
    ]:  # fmt: skip
        with turned(False):
            expected = make()
        assert learnt(make, name)
        make().fill_(7)
        made = make()
        assert gt.equal(made, expected) and made.dtype is expected.dtype, name


def test_views_of_a_list_share_the_memory_of_their_base() -> None:
    x = gt.arange(6.0)
    assert learnt(lambda: x.chunk(2), "chunk")
    first, second = x[1:].chunk(2)
    second.zero_()
    assert x.tolist() == [0, 1, 2, 3, 0, 0] and x._version == 1 and first._base is x
    first, second = x.chunk(2)
    w = gt.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="one of several"):
        first.mul_(w)


def test_a_number_need_not_be_the_same_object() -> None:
    x, mask = numbers(), numbers() > 2
    for _ in range(3):
        x.masked_fill(mask, float("-inf"))
    short = dispatcher.find("aten::masked_fill.Scalar").table.short
    before = dict(short)
    for text in ("-inf", "-inf", "-inf"):
        x.masked_fill(mask, float(text))
    assert short == before


def test_a_mask_over_the_same_memory_is_read_before_the_write() -> None:
    array = np.ones((3, 4), np.uint8)
    for _ in range(4):
        array[:] = 1
        x = gt.from_numpy(array)
        mask = gt.from_numpy(array[::-1].view(bool).copy())
        assert x.masked_fill_(mask, 5).tolist() == [[5] * 4] * 3
        over = x.view(gt.bool)
        with_itself = over.masked_fill_(over, False)
        assert not with_itself.any()


def test_a_write_to_a_leaf_is_refused() -> None:
    x, mask = numbers(), numbers() > 2
    for _ in range(3):
        x.masked_fill_(mask, 1.5)
        x.fill_(1.5)
        x.zero_()
    leaf = numbers().requires_grad_()
    for call in (lambda: leaf.masked_fill_(mask, 1.5), lambda: leaf.fill_(1.5), leaf.zero_):
        with pytest.raises(RuntimeError):
            call()


def test_isin_of_a_0d_tensor_is_a_tensor_that_can_be_written() -> None:
    among, x = gt.arange(10.0), gt.tensor(3.0)
    assert not gt.isin(x, among, invert=True).item()
    for _ in range(4):
        found = gt.isin(x, among)
        assert found.item() is True
        assert found.fill_(False).item() is False
