"""autograd.Function and gradcheck."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.autograd import Function, gradcheck, gradgradcheck, once_differentiable


def leaf(*values: float):
    return gt.tensor(list(values), dtype=gt.float64, requires_grad=True)


class Cube(Function):
    @staticmethod
    def forward(ctx, x, scale):
        y = x * x
        ctx.save_for_backward(x, y, None)
        ctx.scale = scale
        return y * x * scale

    @staticmethod
    def backward(ctx, g):
        x, _y, nothing = ctx.saved_tensors
        assert nothing is None and ctx.needs_input_grad == (True, False)
        return 3 * x * x * ctx.scale * g, None


def test_forward_and_backward() -> None:
    x = leaf(1, 2)
    y = Cube.apply(x, 2)
    assert y.grad_fn.name() == "CubeBackward" and y.tolist() == [2, 16]
    assert len(y.grad_fn.saved_tensors) == 3
    y.sum().backward()
    assert x.grad.tolist() == [6, 24]
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()
    assert gradcheck(lambda x: Cube.apply(x, 3), x) and gradgradcheck(lambda x: Cube.apply(x, 3), x)
    assert Cube.apply(gt.ones(2), 1).grad_fn is None
    with gt.no_grad():
        assert Cube.apply(x, 1).grad_fn is None


def test_setup_context() -> None:
    class Double(Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            assert len(inputs) == 1 and output.tolist() == [4]

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(2)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2]


class Two(Function):
    """Returns a sum and a difference; the difference may be marked as non-differentiable."""

    marked = False
    materializes = True

    @classmethod
    def seen(cls):
        return cls._seen

    @staticmethod
    def forward(ctx, a, b):
        ctx.set_materialize_grads(Two.materializes)
        plus, minus = a + b, a - b
        if Two.marked:
            ctx.mark_non_differentiable(minus)
        return plus, minus

    @staticmethod
    def backward(ctx, plus, minus):
        Two._seen = minus
        minus = 0 if minus is None else minus
        return plus + minus, plus - minus


def test_several_results(monkeypatch) -> None:
    a, b = leaf(1), leaf(2)
    plus, minus = Two.apply(a, b)
    assert (plus.output_nr, minus.output_nr) == (0, 1)
    plus.sum().backward()
    assert Two.seen().tolist() == [0] and a.grad.item() == b.grad.item() == 1
    monkeypatch.setattr(Two, "materializes", False)
    Two.apply(a, b)[0].sum().backward()
    assert Two.seen() is None
    monkeypatch.setattr(Two, "marked", True)
    plus, minus = Two.apply(a, b)
    assert not minus.requires_grad and plus.requires_grad


def test_mark_dirty() -> None:
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(1, 2)
    y = x * 1
    z = Twice.apply(y)
    assert z is y and y.grad_fn.name() == "TwiceBackward" and y._version == 2
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        Twice.apply(x)
    c = x.clone()
    Twice.apply(c[:1])
    x.grad = None
    c.sum().backward()
    assert x.grad.tolist() == [2, 1]


def test_an_input_returned_as_it_is() -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    x = leaf(1)
    c = x.clone()
    y = Same.apply(c)
    assert y is not c and c.grad_fn.name() == "CloneBackward0"
    y.sum().backward()
    assert x.grad.item() == 5
    with pytest.raises(RuntimeError, match="custom Function"):
        y.add_(1)


def test_wrong_numbers_of_gradients() -> None:
    class Few(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * b

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(
        RuntimeError,
        match=r"FewBackward returned an incorrect number of gradients \(expected 2, got 1",
    ):
        Few.apply(leaf(1), leaf(1)).sum().backward()


def test_saved_tensors_are_checked() -> None:
    x = leaf(1, 2)
    c = x.clone()
    y = Cube.apply(c, 1)
    c.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()
    with pytest.raises(TypeError, match="save_for_backward"):

        class Wrong(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(1)

        Wrong.apply(x)


def test_methods_that_are_missing() -> None:
    class Nothing(Function):
        pass

    with pytest.raises(RuntimeError, match="static method forward"):
        Nothing.apply(leaf(1))


def test_once_differentiable() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * 2

    x = leaf(3)
    (g,) = gt.autograd.grad(Once.apply(x).sum(), x)
    assert g.item() == 2
    behind = leaf(1)
    (g,) = gt.autograd.grad(Once.apply(x), x, behind, create_graph=True)
    with pytest.raises(RuntimeError, match="not implemented"):
        g.sum().backward()


# --- gradcheck ------------------------------------------------------------------------------------


def test_gradcheck_finds_what_is_wrong() -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x

    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match="derivative of output 0 with respect to input 0"):
        gradcheck(Wrong.apply, x)
    assert not gradcheck(Wrong.apply, (x,), raise_exception=False)
    with pytest.raises(ValueError, match="requires grad"):
        gradcheck(Wrong.apply, gt.ones(1))


def test_gradcheck_leaves_its_inputs_alone() -> None:
    x = leaf(1, 2)
    before = x._version, x.tolist()
    assert gradcheck(lambda x: x * x, x)
    assert (x._version, x.tolist()) == before and x.grad is None


def test_gradcheck_of_complex_numbers() -> None:
    z = gt.tensor([1 + 2j, -0.5 + 0.3j], dtype=gt.complex128, requires_grad=True)
    x = leaf(0.3, 0.9)
    for function in (
        lambda z, x: z * z * x, lambda z, x: z.abs(), lambda z, x: z.real * z.imag, lambda z,
        x: z.exp() / x,
        lambda z, x: z.conj() * x, lambda z, x: x.to(gt.complex128) * z, lambda z,
        x: z.to(gt.float64),
        lambda z, x: z.add(x, alpha=2j), lambda z, x: z.view(2, 1) @ z.view(1, 2),
    ):  # fmt: skip
        assert gradcheck(function, (z, x)) and gradgradcheck(function, (z, x))


def test_an_operator_without_derivative_warns_in_backward() -> None:
    with gt.library.Library("grads", "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x.detach() * 2, "CPU")
        x = leaf(1, 2)
        y = gt.ops.grads.f(x)
        with gt.no_grad():
            assert not gt.ops.grads.f(x).requires_grad
    assert y.requires_grad and y.grad_fn.name() == "WarnNotImplemented"
    with pytest.warns(gt.core.errors.FallbackWarning, match="grads::f: backward came to a result"):
        (y * x).sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_gradients_that_are_none() -> None:
    for returned in (1.5, "a", [gt.ones(3)]):

        class Wrong(gt.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g, returned=returned):
                return returned

        x = gt.ones(3, requires_grad=True)
        with pytest.raises(RuntimeError, match="expected Variable or None"):
            Wrong.apply(x).sum().backward()
        assert x.grad is None


class Same(gt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 3


def test_an_input_that_is_returned_where_nothing_is_recorded() -> None:
    x = gt.ones(3, requires_grad=True)
    with gt.no_grad():
        y = Same.apply(x)
    assert not y.requires_grad and y is not x and y.data_ptr() == x.data_ptr()
    y = Same.apply(x)
    assert y.requires_grad and y.grad_fn.name() == "SameBackward"
    z = gt.ones(3)
    assert Same.apply(z) is not z and not Same.apply(z).requires_grad


def test_what_is_marked_dirty_is_returned() -> None:
    class Kept(gt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2) * 1

        @staticmethod
        def backward(ctx, g):
            return g

    for x in (gt.ones(3), gt.ones(3, requires_grad=True) * 1):
        with pytest.raises(RuntimeError, match="marked as dirty .* were not returned"):
            Kept.apply(x)

    class Two(gt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2), x * 1

        @staticmethod
        def backward(ctx, g, h):
            return g

    w = gt.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="cannot return more than one Tensor"):
        Two.apply((w * 1).view(3, 1))


class _Kept(gt.autograd.Function):
    """2 x, with its result saved; records the tensor that backward gets."""

    seen: list[Any] = []

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        made = x * 2
        ctx.save_for_backward(made)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (made,) = ctx.saved_tensors
        _Kept.seen.append((made.requires_grad, made.grad_fn.name()))
        return grad * 2


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_saved_result_has_its_history_in_backward(create_graph: bool) -> None:
    _Kept.seen = []
    x = gt.ones(2, requires_grad=True)
    _Kept.apply(x).sum().backward(create_graph=create_graph)
    assert _Kept.seen == [(True, "_KeptBackward")]


def test_saved_variables_is_the_old_name_of_saved_tensors() -> None:
    class Square(gt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_variables
            return 2 * x * grad

    x = gt.tensor(3.0, requires_grad=True)
    Square.apply(x).backward()
    assert x.grad.item() == 6
