"""register_autograd: saved tensors, gradients, and kernels that must not change the graph."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any

import pytest

import gputensor as gt
from gputensor import Tensor
from gputensor.autograd import Function, gradcheck, gradgradcheck
from gputensor.core import errors
from gputensor.library import Library, custom_op, register_autograd

from .ops import cube, through_numpy, write


def leaf(*values: float, place: str = "cpu") -> Tensor:
    return gt.tensor(list(values), dtype=gt.float64).to(place).requires_grad_()


def double(name: str = "t::double", **kwargs: Any) -> Any:
    @custom_op(name, mutates_args=(), **kwargs)
    def double(x: Tensor) -> Tensor:
        return through_numpy(lambda a: a * 2, x)

    return double


def test_forward_and_backward_registered_apart() -> None:
    op, x = cube(), leaf(1, 2)
    y = op(x, 3.0)
    assert (
        y.tolist() == [3, 24] and y.grad_fn.name() == "GeneratedBackwardFor_t_cube_defaultBackward"
    )
    assert "grad_fn=<GeneratedBackwardFor_t_cube_defaultBackward>" in repr(y)
    y.sum().backward()
    assert x.grad.tolist() == [9, 36]
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()
    assert gradcheck(op, x) and gradgradcheck(op, x)


@pytest.mark.parametrize("place", ["cpu", "cuda"], indirect=True)
def test_on_devices(place: str) -> None:
    x = leaf(1, 2, place=place)
    cube()(x, 1.0).sum().backward()
    assert x.grad.device.type == place and x.grad.tolist() == [3, 12]


def test_shapes_have_a_history_too() -> None:
    x = gt.empty(2, device="meta", requires_grad=True)
    y = cube()(x)
    assert y.is_meta and y.grad_fn.name() == "GeneratedBackwardFor_t_cube_defaultBackward"
    y.sum().backward()
    assert x.grad.is_meta and x.grad.shape == (2,)


def test_nothing_is_recorded_where_nothing_asks() -> None:
    op, x = cube(), leaf(1)
    with gt.no_grad():
        assert op(x).grad_fn is None
    with gt.inference_mode():
        assert op(x).is_inference()
    assert op(gt.ones(1)).grad_fn is None and op(x.detach()).grad_fn is None
    assert op(x.view(1)[:1]).requires_grad


def test_without_a_formula_backward_says_so() -> None:
    op, x = double(), leaf(1)
    y = op(x)
    assert y.requires_grad
    with pytest.raises(
        RuntimeError, match=r"Trying to backward through t.double.default but no autograd formula"
    ):
        y.sum().backward()
    handle = op.register_autograd(lambda ctx, g: g * 2)
    op(x).sum().backward()
    assert x.grad.tolist() == [2]
    handle.remove()
    with pytest.raises(RuntimeError, match="no autograd formula"):
        op(x).sum().backward()


def test_the_newest_formula_serves_and_a_library_keeps_it() -> None:
    op, x = cube(), leaf(1)
    with Library("t", "IMPL") as lib:
        register_autograd("t::cube", lambda ctx, g: (g * 7, None), lib=lib)
        op(x).sum().backward()
        assert x.grad.tolist() == [7]
    x.grad = None
    op(x).sum().backward()
    assert x.grad.tolist() == [6]


def test_keyword_only_arguments() -> None:
    def scale(x: Tensor, n: int, *, by: float = 3.0) -> Tensor:
        return through_numpy(lambda a: a * by * n, x)

    op = custom_op("t::scale", scale, mutates_args=())
    seen = []

    def setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        seen.append((inputs[1:], keyword_only_inputs, ctx.needs_input_grad))
        ctx.factor = inputs[1] * keyword_only_inputs["by"]

    op.register_autograd(lambda ctx, g: (g * ctx.factor, None), setup_context=setup)
    x = leaf(1, 2)
    op(x, 2).sum().backward()
    assert x.grad.tolist() == [6, 6] and seen == [((2,), {"by": 3.0}, (True, False))]


def test_lists_of_tensors_and_several_results() -> None:
    def mixed(
        xs: Sequence[Tensor], n: int, sizes: list[int], y: Tensor | None = None
    ) -> tuple[list[Tensor], Tensor, int]:
        return (
            [through_numpy(lambda a: a * n, x) for x in xs],
            through_numpy(lambda a: a + 1, xs[0]),
            n,
        )

    op = custom_op("t::mixed", mixed, mutates_args=())
    seen: list[Any] = []

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.n = inputs[1]
        assert type(inputs[0]) is list and type(inputs[2]) is list and type(output[0]) is list
        ctx.save_for_backward(*inputs[0], output[1])

    def backward(ctx: Any, many: Any, one: Any, number: Any) -> Any:
        seen.append(
            (
                ctx.needs_input_grad,
                [g.tolist() for g in many],
                one.tolist(),
                number,
                len(ctx.saved_tensors),
            )
        )
        return [many[0] * ctx.n + one, None], None, None, None

    op.register_autograd(backward, setup_context=setup)
    x, y = leaf(1, 2), gt.ones(3, dtype=gt.float64)
    many, one, number = op([x, y], 5, [1])
    assert all(m.requires_grad for m in many) and one.requires_grad and number == 5
    (many[0].sum() + one.sum() * 2).backward()
    assert x.grad.tolist() == [7, 7]
    assert seen == [(([True, False], False, False, False), [[1, 1], [0, 0, 0]], [2, 2], None, 3)]


def test_gradients_of_unused_results_may_stay_none() -> None:
    def two(x: Tensor) -> tuple[Tensor, Tensor]:
        return through_numpy(lambda a: a * 2, x), through_numpy(lambda a: a * 3, x)

    op = custom_op("t::two", two, mutates_args=())
    op.register_autograd(
        lambda ctx, a, b: a * 2 if b is None else b * 3,
        setup_context=lambda ctx, inputs, output: ctx.set_materialize_grads(False),
    )
    x = leaf(1)
    op(x)[0].sum().backward()
    op(x)[1].sum().backward()
    assert x.grad.tolist() == [5]


def test_integers_and_what_is_marked_have_no_history() -> None:
    def parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x * 1, x.to(gt.int64), x * 2

    op = custom_op("t::parts", parts, mutates_args=())
    op.register_autograd(
        lambda ctx, a, b, c: a,
        setup_context=lambda ctx, inputs, output: ctx.mark_non_differentiable(output[2]),
    )
    a, b, c = op(leaf(1.5))
    assert a.requires_grad and not b.requires_grad and not c.requires_grad


def test_a_kernel_runs_below_autograd() -> None:
    weight = leaf(3)
    seen = []

    @custom_op("t::hidden", mutates_args=())
    def hidden(x: Tensor) -> Tensor:
        made = x * weight
        seen.append(made.requires_grad)
        return made

    assert not hidden(
        gt.ones(1, dtype=gt.float64)
    ).requires_grad  # a constant, whatever operators the kernel calls
    assert hidden(leaf(2)).requires_grad and seen == [False, False]


def test_an_autograd_function_within_backward_and_as_an_operator() -> None:
    """A Function needs no operator, and can call one."""

    class Cube(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return cube(x, 1.0)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    cube = globals()["cube"]()
    x = leaf(2)
    Cube.apply(x).sum().backward()
    assert x.grad.tolist() == [12] and gradcheck(Cube.apply, x) and gradgradcheck(Cube.apply, x)


# --- writing --------------------------------------------------------------------------------------


def filler() -> Any:
    @custom_op("t::fill", mutates_args={"x"})
    def fill(x: Tensor, y: Tensor) -> None:
        write(x, y.cpu().numpy())

    return fill


def test_an_operator_that_writes_has_no_derivative() -> None:
    op = filler()
    with pytest.raises(
        errors.RegistrationError,
        match=r"t::fill: an operator with a derivative must return something and write",
    ):
        op.register_autograd(lambda ctx, g: g)
    nothing = custom_op("t::nothing", lambda x: None, mutates_args=(), schema="(Tensor x) -> ()")
    with pytest.raises(errors.RegistrationError, match="must return something"):
        nothing.register_autograd(lambda ctx: None)


def test_writing_to_what_requires_grad() -> None:
    op, source = filler(), gt.tensor([5.0, 6.0], dtype=gt.float64)
    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        op(x, source)
    assert x.tolist() == [1, 2]
    y = x * 2
    op(y, source)
    assert y.tolist() == [5, 6]
    with pytest.raises(RuntimeError, match="no autograd formula"):
        y.sum().backward()
    with gt.no_grad():
        op(x, source)
    assert x.tolist() == [5, 6] and x.is_leaf
    z = gt.zeros(2, dtype=gt.float64)
    op(z, x)  # operands that it reads are constants
    assert z.tolist() == [5, 6] and not z.requires_grad


def test_a_saved_tensor_that_was_written_to_is_noticed() -> None:
    op, x = filler(), leaf(1, 2)
    y = x * 1
    z = y * y
    op(y.detach(), gt.zeros(2, dtype=gt.float64))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_out_forms_have_no_derivative() -> None:
    @custom_op("t::twice_out", mutates_args={"out"}, tags="out")
    def twice_out(x: Tensor, *, out: Tensor) -> Tensor:
        write(out, x.numpy() * 2)
        return out

    x = leaf(1)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        twice_out(x, out=gt.zeros(1, dtype=gt.float64))
    with gt.no_grad():
        assert twice_out(x, out=gt.zeros(1, dtype=gt.float64)).tolist() == [2]


def test_a_view_can_have_a_derivative() -> None:
    op = custom_op("t::tail", lambda x: x[1:], mutates_args=(), schema="(Tensor(a) x) -> Tensor(a)")
    op.register_autograd(lambda ctx, g: gt.cat([g[:1] * 0, g]))
    x = leaf(1, 2, 3)
    y = op(x)
    assert y._is_view() and y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [0, 1, 1]


# --- what backward must return --------------------------------------------------------------------


@pytest.mark.parametrize(
    "returned, said",
    [
        (lambda g: g, r"incorrect number of gradients \(expected 2, got 1\)"),
        (lambda g: (g, None, g), r"incorrect number of gradients \(expected 2, got 3\)"),
        (lambda g: (g, g), "a gradient different than None at position 2"),
        (lambda g: (g.sum().expand(7), None), "invalid gradient at index 0"),
    ],
)
def test_wrong_gradients(returned: Any, said: str) -> None:
    op, x = cube(), leaf(1, 2)
    op.register_autograd(lambda ctx, g: returned(g))
    with pytest.raises(RuntimeError, match=said):
        op(x).sum().backward()


def test_none_is_zero_and_more_nones_do_not_matter() -> None:
    op, x = cube(), leaf(1, 2)
    op.register_autograd(lambda ctx, g: (None, None, None))
    op(x).sum().backward()
    assert x.grad is None


def test_gradients_of_a_list_come_as_a_list() -> None:
    op = custom_op(
        "t::first", lambda xs: xs[0] * 2, mutates_args=(), schema="(Tensor[] xs) -> Tensor"
    )
    x = leaf(1)
    for returned in (lambda g: g, lambda g: [g], lambda g: [g, g, g]):
        op.register_autograd(lambda ctx, g, returned=returned: returned(g))
        with pytest.raises(
            RuntimeError, match="must return the gradients of 'xs' at position 1 as a list of 2"
        ):
            op([x, x]).sum().backward()
    op.register_autograd(lambda ctx, g: [g * 2, None])
    op([x, x]).sum().backward()
    assert x.grad.tolist() == [2]


@pytest.mark.parametrize(
    "backward, setup, said",
    [
        (lambda g: g, None, r"backward must take ctx, grad0 \(got \(g\)\)"),
        (lambda ctx, g, h: g, None, r"backward must take ctx, grad0"),
        (
            lambda ctx, g: g,
            lambda ctx, inputs: None,
            "setup_context must take arguments named ctx, inputs, output",
        ),
        (
            lambda ctx, g: g,
            lambda c, i, o: None,
            "setup_context must take arguments named ctx, inputs, output",
        ),
    ],
)
def test_formulas_are_checked_at_once(backward: Any, setup: Any, said: str) -> None:
    op = double()
    with pytest.raises(errors.RegistrationError, match=f"t::double: {said}"):
        op.register_autograd(backward, setup_context=setup)
    with pytest.raises(errors.ArgumentTypeError, match="'backward' must be callable"):
        op.register_autograd(3)


# --- operators of a Library -----------------------------------------------------------------------


def test_for_an_operator_of_a_library() -> None:
    with Library("t", "DEF") as lib:
        lib.define("plain(Tensor x, Tensor[] ys, *, float by=2.) -> Tensor")
        lib.impl("plain", lambda x, ys, *, by: x * by + ys[0], "CPU")
        with pytest.raises(errors.DispatchError, match="no such operator"):
            register_autograd("t::other", lambda ctx, g: g)
        handle = register_autograd("t::plain", lambda ctx, g: (g * 2, [g] + [None]), lib=lib)
        x, y = leaf(1), leaf(2)
        gt.ops.t.plain(x, [y, y.detach()]).sum().backward()
        assert (x.grad.tolist(), y.grad.tolist()) == ([2], [1])
        handle.remove()
        assert not gt.dispatch.has_kernel("t::plain", "Autograd")
        lib.define("byname(Tensor x, *, Tensor y) -> Tensor")
        with pytest.raises(errors.DispatchError, match="'y' must not be keyword-only"):
            register_autograd("t::byname", lambda ctx, g: g)


def test_a_graph_dies_with_its_result() -> None:
    op, x = cube(), leaf(1)
    gc.disable()
    try:
        y = op(x)
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


def test_an_argument_that_comes_back_keeps_its_own_history() -> None:
    with Library("t", "DEF") as lib:
        lib.define("second(Tensor x, Tensor y) -> Tensor")
        lib.impl("second", lambda x, y: y, "CompositeExplicitAutograd")
        register_autograd("t::second", lambda ctx, g: (g * 3, None), lib=lib)
        x, y = leaf(1), gt.ones(1, dtype=gt.float64)
        z = gt.ops.t.second(x, y)
        assert z is not y and y.is_leaf and not y.requires_grad
        z.sum().backward()
        assert x.grad.tolist() == [3]
