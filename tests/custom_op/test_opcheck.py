"""opcheck reports each kind of wrong operator, and no correct one."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor import Tensor
from gputensor.autograd import Function
from gputensor.core import dtype as dtypes
from gputensor.core import errors
from gputensor.library import Library, custom_op, opcheck, register_autograd, register_fake

from ..backend.devices import Runtime
from ..harness import tier
from ..harness.cases import CALLABLE, OPS_OF, _map, cases, operator_of, takes
from ..operators.test_ops_grad import DIFFERENTIABLE
from .ops import cube, through_numpy, write

ALL = ("test_schema", "test_autograd_registration", "test_faketensor", "test_gradcheck")


def grid(place: str = "cpu", grad: bool = False) -> Tensor:
    x = gt.from_numpy(np.linspace(0.3, 1.7, 6, dtype=np.float32).reshape(2, 3)).to(place)
    return x.requires_grad_() if grad else x


def failures(op: Any, *args: Any, **kwargs: Any) -> dict[str, str]:
    """Return test -> error text, for the tests that failed."""
    found = opcheck(op, args, kwargs, raise_exception=False)
    assert tuple(found) == ALL
    return {name: str(said) for name, said in found.items() if said != "SUCCESS"}


def custom(
    function: Callable[..., Any], mutates_args: Any = (), fake: Any = "like", **kwargs: Any
) -> Any:
    op = custom_op("t::f", function, mutates_args=mutates_args, **kwargs)
    if fake is not None and op._opoverload.schema.returns:
        op.register_fake(
            (lambda *args: args[0].new_empty(args[0].shape)) if fake == "like" else fake
        )
    return op


# --- memory ---------------------------------------------------------------------------------------


def scale(x: Tensor) -> None:
    write(x, x.cpu().numpy() * 2)


def writes(x: Tensor) -> Tensor:
    scale(x)
    return through_numpy(lambda a: a, x)


def writes_item(x: Tensor, ys: Sequence[Tensor]) -> Tensor:
    scale(ys[1])
    return through_numpy(lambda a: a, x)


def writes_behind(x: Tensor) -> None:
    with gt.dispatch.AutoDispatchBelowADInplaceOrView():
        whole = x.as_strided((6,), (1,), 0)
    scale(whole)


def writes_first(x: Tensor, y: Tensor) -> None:
    with gt.dispatch.AutoDispatchBelowADInplaceOrView():
        scale(x.as_strided((6,), (1,), 0))


def reshapes(x: Tensor) -> Tensor:
    with gt.dispatch.AutoDispatchBelowADInplaceOrView():
        x.unsqueeze_(0)
    return through_numpy(lambda a: a[0], x)


def test_an_undeclared_write_is_named(place: str) -> None:
    said = failures(custom(writes), grid(place))
    assert said == {
        "test_schema": "t::f: it writes to 'x', which its schema does not declare; name 'x' in "
        "mutates_args, or "
        "write to a clone of it"
    }
    said = failures(custom(writes_item), grid(place), [grid(place), grid(place)])
    assert said["test_schema"].startswith(
        "t::f: it writes to 'ys'[1], which its schema does not declare; name 'ys'"
    )


def test_a_write_past_the_view_is_named(place: str) -> None:
    op = custom(writes_behind, mutates_args={"x"})
    assert failures(op, grid(place)) == {}
    said = failures(op, grid(place)[1])
    assert (
        "it writes to the memory of 'x' outside of that tensor's elements; heed its strides"
        in said["test_schema"]
    )


def test_a_write_to_memory_that_arguments_share(place: str) -> None:
    op, x = custom(writes_first, mutates_args={"x"}), grid(place)
    assert failures(op, x, x) == {} and failures(op, x, grid(place)) == {}
    assert "it writes to 'y'" in failures(op, x[0], x[1])["test_schema"]


def test_a_changed_argument_is_named(place: str) -> None:
    assert (
        "it changes the sizes, strides or memory of 'x'"
        in failures(custom(reshapes, fake=lambda x: x.new_empty((2, 3))), grid(place))[
            "test_schema"
        ]
    )


def library_op(schema: str, kernel: Callable[..., Any], fake: Any = "like") -> tuple[Library, Any]:
    lib = Library("t", "DEF")
    lib.define(schema)
    lib.impl("f", kernel, "CPU")
    lib.impl("f", (lambda x: x.new_empty(x.shape)) if fake == "like" else fake, "Meta")
    return lib, gt.ops.t.f


def negates(x: Tensor) -> None:
    array = x.numpy()
    np.negative(array, out=array)


@pytest.mark.parametrize(
    "schema, kernel, fake, said",
    [
        ("f(Tensor(a!) x) -> ()", negates, lambda x: None, "it writes to 'x' and does not count "
                                                           "that"),
        ("f(Tensor x) -> Tensor", lambda x: x, "like", "result 0 is 'x' itself, which its schema "
                                                       "does not declare"),
        ("f(Tensor x) -> Tensor", lambda x: x[:], "like", "result 0 shares the memory of 'x'"),
        ("f(Tensor(a!) x) -> Tensor(a!)", lambda x: x.clone(), lambda x: x, "result 0 is not the "
                                                                            "argument that its "
                                                                            "schema declares"),
    ],
)  # fmt: skip
def test_operators_of_a_library(schema: str, kernel: Any, fake: Any, said: str) -> None:
    lib, op = library_op(schema, kernel, fake)
    with lib:
        assert said in failures(op, grid())["test_schema"]


def test_the_kernels_own_check_is_reported() -> None:
    said = failures(custom(lambda x: x, schema="(Tensor x) -> Tensor"), grid())
    assert (
        said["test_schema"].startswith("t::f: the kernel registered at")
        and "'x' itself" in said["test_schema"]
    )


def test_memory_shared_behind_the_runtimes_back_is_found() -> None:
    """There are two storages over the same bytes. A call cannot detect this; opcheck compares
    addresses."""
    op = custom(lambda x: gt.from_numpy(x.numpy()), schema="(Tensor x) -> Tensor")
    op(grid())
    assert "result 0 shares the memory of 'x'" in failures(op, grid())["test_schema"]

    def two(x: Tensor) -> tuple[Tensor, Tensor]:
        made = x.numpy() + 1
        return gt.from_numpy(made), gt.from_numpy(made[:1])

    op = custom(two, fake=lambda x: (x.new_empty(x.shape), x.new_empty((1, 3))))
    assert "result 1 shares the memory of result 0" in failures(op, grid())["test_schema"]


# --- autograd keys --------------------------------------------------------------------------------


def test_a_derivative_below_autograd_is_named() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * 2

    lib, op = library_op("f(Tensor x) -> Tensor", Double.apply)
    with lib:
        assert failures(op, grid()) == {}
        said = failures(op, grid(grad=True))
        assert (
            "recorded below autograd; give the derivative to register_autograd"
            in said["test_autograd_registration"]
        )
        lib.impl("f", lambda x: x * 2, "CompositeImplicitAutograd")
        assert "test_autograd_registration" not in failures(op, grid(grad=True))


# --- shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fake, said",
    [
        (None, "no kernel for Meta, which would say the result's shape without data; register one "
               "with register_fake"),
        (lambda x: x.new_empty((3, 2)), "result 0 has sizes (2, 3), and the Meta kernel returns ("
                                        "3, 2); let"),
        (lambda x: x.new_empty((2, 3), dtype=gt.float64), "result 0 has dtype gputensor.float32, "
                                                          "and the Meta kernel returns "
                                                          "gputensor.float64"),
        (lambda x: x.new_empty_strided((2, 3), (1, 2)), "result 0 has strides (3, 1), and the Meta "
                                                        "kernel returns (1, 2)"),
        (lambda x: x.new_empty((3, 3))[1:], "result 0 has storage_offset 0, and the Meta kernel "
                                            "returns 3"),
        (lambda x: gt.empty(2, 3), "the Meta kernel returns result 0 on cpu, where its arguments "
                                   "are on meta"),
        (lambda x: x.new_empty((int(x.sum()), 3)), "its Meta kernel raises DispatchError "
                                                   "(_local_scalar_dense: no kernel for key Meta"),
        (lambda x: x.new_empty((2, 3), dtype=gt.no_such), "has no attribute 'no_such'"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_come(place: str, fake: Any, said: str) -> None:
    def double(x: Tensor) -> Tensor:
        return through_numpy(lambda a: a * 2, x)

    found = failures(custom(double, fake=fake), grid(place))
    assert list(found) == ["test_faketensor"] and said in found["test_faketensor"]


def same_values(x: Tensor) -> Tensor:
    return through_numpy(lambda a: a, x)


def _writes_input(x: Tensor) -> Tensor:
    x.add_(1)
    return x.new_empty(x.shape)


@pytest.mark.parametrize(
    ("fake", "said"),
    [
        (lambda x: x, "the Meta kernel's result 0 is 'x' itself"),
        (lambda x: x.view(2, 3), "the Meta kernel's result 0 shares the memory of 'x'"),
        (_writes_input, "the Meta kernel writes to 'x'"),
        (
            lambda x: (x.t_(), x.t_(), x.zero_(), x.new_empty(2, 3))[-1],
            "the Meta kernel writes to 'x'",
        ),
    ],
)
def test_a_fake_kernel_that_returns_or_writes_its_input(fake: Any, said: str) -> None:
    op = custom(same_values, fake=fake)
    assert said in failures(op, grid())["test_faketensor"]


def test_another_number_of_results() -> None:
    def parts(x: Tensor) -> list[Tensor]:
        return [x * 1, x * 2]

    assert (
        "result 0 has 2 tensors, and the Meta kernel returns 1"
        in failures(custom(parts, fake=lambda x: [x * 1]), grid())["test_faketensor"]
    )


def test_the_shapes_of_a_factory() -> None:
    def series(n: int, device: gt.device) -> Tensor:
        return gt.arange(n, device=device)

    op = custom_op("t::series", series, mutates_args=(), device_types="cpu")
    op.register_fake(lambda n, device: gt.empty(n + 1, dtype=gt.int64, device=device))
    assert "and the Meta kernel returns (4,)" in failures(op, 3, "cpu")["test_faketensor"]
    op.register_fake(lambda n, device: gt.empty(n, dtype=gt.int64, device=device))
    assert failures(op, 3, device="cpu") == {}

    def ramp(n: int) -> Tensor:
        return gt.arange(n)

    op = custom_op("t::ramp", ramp, mutates_args=())
    op.register_fake(lambda n: gt.empty(n, dtype=gt.int32, device="meta"))
    assert "int32" in failures(op, 3)["test_faketensor"]


# --- derivatives ----------------------------------------------------------------------------------


def product() -> Any:
    """x · y² + by·x, without a formula."""

    @custom_op("t::product", mutates_args=())
    def product(x: Tensor, y: Tensor, by: float = 2.0) -> Tensor:
        return through_numpy(lambda a, b: a * b * b + a.dtype.type(by) * a, x, y)

    product.register_fake(lambda x, y, by: x.new_empty(x.shape))
    return product


def setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.by = inputs[2]


def right(ctx: Any, g: Tensor) -> Any:
    x, y = ctx.saved_tensors
    return g * (y * y + ctx.by).conj(), g * (x * y * 2).conj(), None


def off_by_a_bit(ctx: Any, g: Tensor) -> Any:
    one, other, _ = right(ctx, g)
    return one, other * 1.001, None


def off_in_one_element(ctx: Any, g: Tensor) -> Any:
    one, other, _ = right(ctx, g)
    one = one.clone()
    one[0, 1] = 0.0
    return one, other, None


def exchanged(ctx: Any, g: Tensor) -> Any:
    one, other, _ = right(ctx, g)
    return other, one, None


def in_place(ctx: Any, g: Tensor) -> Any:
    found = right(ctx, g)
    g.detach().mul_(0.5)
    return found


@pytest.mark.parametrize("of", [gt.float32, gt.float64, gt.complex64], ids=str)
@pytest.mark.parametrize(
    "backward, said",
    [
        (None, "an argument requires grad, and no derivative is registered; use register_autograd"),
        (off_by_a_bit, "its derivative with respect to 'y' is not that of the function"),
        (off_in_one_element, "its derivative with respect to 'x' is not that of the function"),
        (exchanged, "its derivative with respect to 'x' is not that of the function"),
        (lambda ctx, g: (right(ctx, g)[0], None, None), "its derivative with respect to 'y' is not "
                                                        "that of the function"),
        (in_place, "its backward writes to the gradient that it is given; write to a clone of it"),
        (lambda ctx, g: right(ctx, g)[:2], "incorrect number of gradients"),
        (lambda ctx, g: 1 // 0, "by zero"),
    ],
)  # fmt: skip
def test_wrong_derivatives(of: Any, backward: Any, said: str) -> None:
    op, x, y = product(), grid().to(of).requires_grad_(), (grid() + 0.5).to(of).requires_grad_()
    if backward is not None:
        op.register_autograd(backward, setup_context=setup)
    found = failures(op, x, y)
    assert list(found) == ["test_gradcheck"] and said in found["test_gradcheck"]
    assert failures(op, x.detach(), y.detach()) == {}  # nothing requires grad


def test_a_kernel_of_single_precision_is_checked_as_it_is() -> None:
    for refuses in (True, False):

        @custom_op("t::single", mutates_args=())
        def single(x: Tensor) -> Tensor:
            if refuses and x.dtype is not gt.float32:
                raise TypeError("float32 only")
            return through_numpy(lambda a: (a.astype(np.float32) ** 3).astype(a.dtype), x)

        single.register_fake(lambda x: x.new_empty(x.shape))
        for factor, is_right in ((3.0, True), (2.5, False)):
            single.register_autograd(
                lambda ctx, g, factor=factor: (
                    g * ctx.saved_tensors[0] * ctx.saved_tensors[0] * factor
                ),
                setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
            )
            for x in (
                grid(grad=True),
                grid().double().requires_grad_(),
                gt.ones(2, 3, requires_grad=True),
            ):
                if x.dtype is gt.float32 or not refuses:
                    assert ("test_gradcheck" in failures(single, x)) is not is_right


_STEP = (lambda a: np.where(a > 0, 2 * a + 1, a), lambda a: np.where(a > 0, 2, 1))
_RELU = (lambda a: np.maximum(a, 0), lambda a: a > 0)
_SQRT = (np.sqrt, lambda a: 0.5 / np.sqrt(a))
_FLOOR = (np.floor, np.zeros_like)
_FINE_GRID = (lambda a: np.round(a * 1e4) / 1e4, np.zeros_like)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("function", "wrong"),
    [
        (_STEP, lambda a: np.where(a > 0, 3, 1)), (_STEP, lambda a: np.where(a > 0, 2, 7)),
        (_RELU, lambda a: 1.5 * (a > 0)), (_SQRT, lambda a: 0.7 / np.sqrt(a)), (_FLOOR,
        np.ones_like),
        (_FINE_GRID, None), ((np.abs, np.sign), lambda a: 2 * np.sign(a)),
    ],
)  # fmt: skip
def test_jumps_corners_and_poles_among_the_elements_hide_nothing(
    function: Any, wrong: Any, dtype: Any
) -> None:
    """Finite differences are useless for elements at 0, but errors of other elements are found."""
    forward, right = function

    def applied(x: Tensor) -> Tensor:
        return through_numpy(lambda a: forward(a).astype(a.dtype), x)

    x = gt.from_numpy(np.array([0, 0, 0.3, 1, 2], dtype)).requires_grad_()
    for backward, is_right in ((right, True), (wrong, False)):
        if backward is None:
            continue
        op = custom(applied)
        op.register_autograd(
            lambda ctx, g, backward=backward: (
                g * through_numpy(lambda a: backward(a).astype(a.dtype), ctx.x)
            ),
            setup_context=lambda ctx, inputs, output: setattr(ctx, "x", inputs[0].detach()),
        )
        found = failures(op, x)
        assert (
            (found == {}) if is_right else "is not that of the function" in found["test_gradcheck"]
        )


def test_a_random_operator_is_told_so() -> None:
    @custom_op("t::noise", mutates_args=())
    def noise(x: Tensor) -> Tensor:
        return x * gt.rand(*x.shape, dtype=x.dtype)

    noise.register_fake(lambda x: x.new_empty(x.shape))
    noise.register_autograd(lambda ctx, g: g)
    assert (
        "two calls with the same arguments give different results"
        in failures(noise, grid(grad=True))["test_gradcheck"]
    )
    assert set(opcheck(noise, (grid(grad=True),), test_utils=ALL[:3]).values()) == {"SUCCESS"}


def test_an_operator_of_a_library_without_a_derivative() -> None:
    lib, op = library_op("f(Tensor x) -> Tensor", lambda x: gt.from_numpy(x.numpy(force=True) * 2))
    with lib:
        assert failures(op, grid()) == {}
        assert "no derivative is registered" in failures(op, grid(grad=True))["test_gradcheck"]
        register_autograd("t::f", lambda ctx, g: g * 2, lib=lib)
        assert failures(op, grid(grad=True)) == {}


# --- correct operators ----------------------------------------------------------------------------


def _right() -> Iterator[tuple[str, Callable[[], Any], Callable[[str], tuple[Any, ...]]]]:
    yield "a function", cube, lambda place: (grid(place),)
    yield "transposed", cube, lambda place: (grid(place).t(), 3.0)
    yield "expanded", cube, lambda place: (grid(place)[:1].expand(4, 3),)
    yield "no elements", cube, lambda place: (gt.empty(0, 3).to(place),)
    yield "no dimensions", cube, lambda place: (gt.tensor(2.0).to(place),)
    yield "a part", cube, lambda place: (grid(place)[:, 1],)
    yield "not a number", cube, lambda place: (gt.tensor([float("nan"), float("inf")]).to(place),)
    yield "integers", cube, lambda place: (gt.arange(4).to(place), 2.0)
    yield "writing", lambda: custom(scale, {"x"}), lambda place: (grid(place)[:, 1],)
    yield (
        "writing nothing new",
        lambda: custom(lambda x: None, schema="(Tensor(a!) x) -> ()", mutates_args={"x"}),
        lambda place: (grid(place),),
    )
    yield "the same twice", product, lambda place: (x := grid(place), x)


RIGHT = list(_right())


@pytest.mark.parametrize("make, given", [r[1:] for r in RIGHT], ids=[r[0] for r in RIGHT])
def test_right_operators_are_not_accused(place: str, make: Any, given: Any) -> None:
    op = make()
    args = given(place)
    before = [(x.tolist(), x._version) for x in args if isinstance(x, Tensor)]
    assert failures(op, *args) == {}
    assert repr([(x.tolist(), x._version) for x in args if isinstance(x, Tensor)]) == repr(before)


@pytest.mark.parametrize("place", ["cpu", "cuda"], indirect=True)
def test_right_derivatives_are_not_accused(place: str) -> None:
    op = cube()
    for _, make, given in RIGHT:
        args = given(place)
        if make is cube and args[0].is_floating_point():
            assert failures(op, args[0].detach().requires_grad_(), *args[1:]) == {}
    op = product()
    op.register_autograd(right, setup_context=setup)
    x = grid(place, grad=True)
    assert (
        failures(op, x, x)
        == failures(op, x, grid(place))
        == failures(op, grid(place), x, by=0.5)
        == {}
    )


def test_on_a_registered_device_with_derivatives() -> None:
    with (
        warnings.catch_warnings(),
        gt.backend.register("acme", "PrivateUse2", runtime=Runtime(), cpu_fallback=True),
    ):
        warnings.simplefilter("ignore")
        op = cube()
        assert failures(op, grid("acme", grad=True)) == {}
        op.register_autograd(lambda ctx, g: (g, None))
        assert "with respect to 'x'" in failures(op, grid("acme", grad=True))["test_gradcheck"]


def test_lists_and_corners_are_not_accused() -> None:
    def ramp(xs: Sequence[Tensor], y: Tensor | None = None) -> list[Tensor]:
        return [through_numpy(lambda a: np.maximum(a, 0), x) for x in xs]

    op = custom(ramp, fake=lambda xs, y: [x.new_empty(x.shape) for x in xs])
    op.register_autograd(
        lambda ctx, grads: ([g * (x > 0) for g, x in zip(grads, ctx.saved_tensors)], None),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs[0]),
    )
    xs = [gt.tensor([-1.0, 0.0, 0.0, 2.0], requires_grad=True), grid(grad=True), grid()]
    assert failures(op, xs) == {}  # the derivative at 0 is that of one side
    assert "'xs'[1]" in failures_of_wrong(op, xs)


def test_an_argument_given_twice_keeps_the_others_names() -> None:
    def total(xs: Sequence[Tensor], y: Tensor) -> Tensor:
        return through_numpy(lambda *all: sum(all), *xs, y)

    op = custom(total, fake=lambda xs, y: y.new_empty(y.shape))
    op.register_autograd(lambda ctx, g: ([g, g], g * 3))
    x = grid(grad=True)
    assert "with respect to 'y' is not" in failures(op, [x, x], grid(grad=True))["test_gradcheck"]


def failures_of_wrong(op: Any, xs: Any) -> str:
    op.register_autograd(
        lambda ctx, grads: (
            [g * (x > 0) * (1 + n) for n, (g, x) in enumerate(zip(grads, ctx.saved_tensors))],
            None,
        ),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs[0]),
    )
    return failures(op, xs)["test_gradcheck"]


# Operators that share memory although PyTorch's schemas do not declare it either. fill_.Tensor
# accepts numbers, but its autograd kernel does not. The buffer of log_sigmoid_backward is computed
# from `self` and is part of its derivative.
KNOWN = {
    "set_", "fill_", "log_sigmoid_backward", "unsafe_split", "unsafe_split_with_sizes",
    "_unsafe_view",
}  # fmt: skip


def _tests(op: Any, row: Any) -> list[str]:
    """Return the tests for an operator. A composite's schema is not tested, because the operators
    that it calls are. Random results differ between calls."""
    left_out = set()
    if op.is_implicit:
        left_out |= {"test_schema", "test_faketensor"}
    if row.no_meta or row.name == "randint_like":  # its bound may be a tensor on the CPU
        left_out.add("test_faketensor")
    if "nondeterministic_seeded" in op.tags:
        left_out.add("test_gradcheck")
    return [test for test in ALL if test not in left_out]


@pytest.mark.full
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_our_own_operators_are_not_accused(device: str) -> None:
    if device == "cuda" and not gt.cuda.is_available():
        pytest.skip(str(gt.cuda.unavailable_reason()))
    checked = 0
    most = 2 if device == "cuda" else 6 if tier.is_full() else 1
    for row in CALLABLE:
        count = 0
        for case in cases(row, crossed=False):
            if case.dtype not in (dtypes.float32, dtypes.int64) or case.expected() is None:
                continue
            # With many elements, some are so close that a step for differences reaches the next
            # one.
            if any(math.prod(x.sizes) > 256 for x in case.tensors()):
                continue
            count += 1
            if row.name in KNOWN or count > most:
                break
            checked += _check_forms(row, case, device)
    least = 600 if device == "cpu" else 200
    assert checked > (least if tier.is_full() else least / 2)


def _check_forms(row: Any, case: Any, device: str) -> int:
    checked = 0
    for op in OPS_OF[row.name]:
        call, operator = case.build(device), operator_of(op)
        if op.kind == "out" or not takes(op, call.args, call.kwargs):
            continue
        try:
            operator(*call.args, **call.kwargs)
        except gt.GpuTensorError:
            continue  # another form is meant
        call = case.build(device)

        def leaf(x: Any) -> Any:
            wanted = isinstance(x, Tensor) and x.is_floating_point() and op.kind == "functional"
            return x.requires_grad_() if wanted and row in DIFFERENTIABLE else x

        tests = _tests(op, row)
        # Arguments without a formula have no derivative, and neither do weights of classes,
        known = {n: formula for n, formula in op.derivatives.items() if "not_impl" not in formula}
        constant = {a.name for a in op.arguments if op.derivatives and a.name not in known}
        constant |= {"weight", "total_weight"}  # nor thresholds for singular values:
        constant |= {"rcond", "rtol", "atol", "tol"}
        args = tuple(
            x if op.arguments[n].name in constant else _map(x, leaf)
            for n, x in enumerate(call.args)
        )
        try:
            opcheck(operator, args, call.kwargs, test_utils=tests)
        except errors.OpCheckError as error:
            raise AssertionError(f"{op.name} {case}: {error}") from error
        checked += 1
    return checked


# --- how it is called -----------------------------------------------------------------------------


def test_the_first_failure_is_raised() -> None:
    op = custom(writes)
    with pytest.raises(
        errors.OpCheckError, match=r"^opcheck: test_schema failed: t::f: it writes to 'x'"
    ) as caught:
        opcheck(op, (grid(),))
    assert isinstance(caught.value, AssertionError) and isinstance(caught.value, gt.GpuTensorError)
    found = opcheck(op, (grid(),), raise_exception=False)
    assert (
        isinstance(found["test_schema"], errors.OpCheckError)
        and found["test_faketensor"] == "SUCCESS"
    )
    assert opcheck(op, (grid(),), test_utils="test_faketensor") == {"test_faketensor": "SUCCESS"}
    assert tuple(opcheck(op, (grid(),), test_utils="ALL", raise_exception=False)) == ALL


def test_any_name_of_an_operator() -> None:
    cube()
    for op in (gt.ops.t.cube, gt.ops.t.cube.default):
        assert set(opcheck(op, (grid(),), {"by": 3.0}).values()) == {"SUCCESS"}
    with pytest.raises(ValueError, match="'op' must be one overload, .*Tensor"):
        opcheck(gt.ops.aten.div, (grid(),))
    with pytest.raises(ValueError, match="'op' must be an operator"):
        opcheck(len, (grid(),))
    with pytest.raises(ValueError, match="'test_utils' must be some of test_schema"):
        opcheck(gt.ops.t.cube, (grid(),), test_utils="test_aot_dispatch_dynamic")
    with pytest.raises(ValueError, match="'atol' must be given with rtol"):
        opcheck(gt.ops.t.cube, (grid(),), atol=1.0)
    with pytest.raises(errors.ArgumentTypeError, match="'x' must be given"):
        opcheck(gt.ops.t.cube, ())


def test_tolerances() -> None:
    op, x = product(), grid(grad=True)
    op.register_autograd(off_by_a_bit, setup_context=setup)
    assert opcheck(op, (x, x.detach() * 1), test_utils="test_gradcheck") == {
        "test_gradcheck": "SUCCESS"
    }
    args = (x.detach(), grid(grad=True))
    with pytest.raises(errors.OpCheckError):
        opcheck(op, args)
    assert opcheck(op, args, atol=0.1, rtol=0.1)["test_gradcheck"] == "SUCCESS"


def test_it_leaves_the_operator_as_it_was() -> None:
    op = cube()
    before = gt.dispatch.dump("t::cube")
    handle = register_fake(op, lambda x, by: x.new_empty((9,)))
    assert failures(op, grid()) != {}
    handle.remove()
    with gt.no_grad():
        assert failures(op, grid(grad=True)) == {}
    assert gt.dispatch.dump("t::cube") == before and gt.fallback.autograd_fallback_mode() == "warn"
