"""autograd.Function in vmap and forward derivatives: users' rules and generated ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor import func
from gputensor.autograd import forward_ad
from gputensor.core import errors

x = gt.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=gt.float64)
y = gt.tensor([0.5, -1.0, 2.0], dtype=gt.float64)


class NumpyMul(gt.autograd.Function):
    """A function computed by NumPy, which no transform can differentiate."""

    @staticmethod
    def forward(a: Any, b: Any) -> Any:
        return gt.from_numpy(np.asarray(a.detach().numpy() * b.detach().numpy()))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.saved_tensors
        return NumpyMul.apply(grad, b), NumpyMul.apply(grad, a)

    @staticmethod
    def jvp(ctx: Any, s: Any, t: Any) -> Any:
        a, b = ctx.saved_tensors
        return NumpyMul.apply(s, b) + NumpyMul.apply(a, t)

    @staticmethod
    def vmap(info: Any, in_dims: Any, a: Any, b: Any) -> Any:
        assert {z.shape[d] for z, d in zip((a, b), in_dims) if d is not None} == {info.batch_size}
        a, b = (z.unsqueeze(-1) if d is None else z.movedim(d, -1) for z, d in zip((a, b), in_dims))
        return NumpyMul.apply(a, b), -1


class Mul(gt.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(a: Any, b: Any, scale: float) -> Any:
        return a * b * scale, a.argmax()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.save_for_forward(*inputs[:2])
        ctx.mark_non_differentiable(output[1])
        ctx.scale = inputs[2]

    @staticmethod
    def backward(ctx: Any, grad: Any, _: Any) -> Any:
        a, b = ctx.saved_tensors
        return Mul.apply(grad, b, ctx.scale)[0], Mul.apply(grad, a, ctx.scale)[0], None

    @staticmethod
    def jvp(ctx: Any, s: Any, t: Any, _: Any) -> Any:
        a, b = ctx.saved_tensors
        return (s * b + a * t) * ctx.scale, None


def numpys(a: Any, b: Any) -> Any:
    return NumpyMul.apply(a, b)


def made(a: Any, b: Any) -> Any:
    return Mul.apply(a, b, 1.0)[0]


def plain(a: Any, b: Any) -> Any:
    return a * b


def close(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return len(a) == len(b) and all(close(p, q) for p, q in zip(a, b))
    return a.shape == b.shape and bool(gt.allclose(a, b))


TRANSFORMS = {
    "vmap": lambda f: gt.vmap(f, (0, None))(x, y),
    "vmap of both": lambda f: gt.vmap(f)(x, x),
    "other dimensions": lambda f: gt.vmap(f, (1, 0), 1)(x, y),
    "vmap in vmap": lambda f: gt.vmap(gt.vmap(f, (0, None)), (None, 0))(y, y),
    "vmap of grad": lambda f: gt.vmap(
        func.grad(lambda a, b: f(a, b).sum(), (0, 1)), (0, None)
    )(x, y),
    "grad of vmap": lambda f: func.grad(lambda b: gt.vmap(f, (0, None))(x, b).sum())(y),
    "jvp": lambda f: func.jvp(f, (y, 2 * y), (y, y * y)),
    "jvp of one": lambda f: func.jvp(lambda a: f(a, y), (y,), (y * y,)),
    "jvp in jvp": lambda f: func.jvp(
        lambda a: func.jvp(lambda c: f(f(c, c), a), (a,), (y,))[1], (y,), (y,)
    ),
    "jacfwd": lambda f: func.jacfwd(lambda b: f(f(b, b), b))(y),
    "jacrev": lambda f: func.jacrev(lambda b: f(f(b, b), b))(y),
    "hessian": lambda f: func.hessian(lambda b: f(f(b, b), b).sum())(y),
    "grad of grad": lambda f: func.grad(
        lambda b: func.grad(lambda c: f(f(c, c), b).sum())(b).sum()
    )(y),
    "vmap of hessian": lambda f: gt.vmap(func.hessian(lambda b: f(f(b, b), b).sum()))(x),
    "vmap of jvp": lambda f: gt.vmap(lambda a: func.jvp(lambda b: f(b, y), (y,), (a,)))(x),
}  # fmt: skip


@pytest.mark.parametrize("function", [numpys, made], ids=["numpy", "made"])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_function_is_what_it_computes(transform: str, function: Any) -> None:
    run = TRANSFORMS[transform]
    assert close(run(function), run(plain))


def test_backward_reaches_what_is_outside() -> None:
    for function in (numpys, made):
        leaf = y.clone().requires_grad_()
        gt.vmap(function, (0, None))(x, leaf).sum().backward()
        assert leaf.grad is not None and close(leaf.grad, x.sum(0))


def test_results_without_derivatives_have_a_batch_too() -> None:
    product, places = gt.vmap(lambda a: Mul.apply(a, y, 2.0))(x)
    assert close(product, 2 * x * y) and places.tolist() == [2, 2]


class Exp_(gt.autograd.Function):
    @staticmethod
    def forward(a: Any) -> Any:
        return a.exp_()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_dirty(*inputs)
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return t * ctx.saved_tensors[0]

    @staticmethod
    def vmap(info: Any, in_dims: Any, a: Any) -> Any:
        return Exp_.apply(a), in_dims[0]


class MadeExp_(Exp_):
    generate_vmap_rule = True
    vmap = gt.autograd.Function.vmap


@pytest.mark.parametrize("cls", [Exp_, MadeExp_])
def test_arguments_that_are_written_stay_themselves(cls: Any) -> None:
    def function(a: Any) -> Any:
        b = a * 1
        assert cls.apply(b) is b
        return b

    assert close(gt.vmap(function)(x), x.exp())
    assert close(func.jvp(function, (y,), (y,)), (y.exp(), y * y.exp()))
    assert close(gt.vmap(func.grad(lambda a: function(a).sum()))(x), x.exp())


class Old(gt.autograd.Function):
    """A Function with a forward derivative in the form without setup_context."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_forward(b)
        ctx.set_materialize_grads(False)
        return a * b

    @staticmethod
    def jvp(ctx: Any, s: Any, t: Any) -> Any:
        assert t is None
        return s * ctx.saved_tensors[0]


def test_a_context_that_forward_takes() -> None:
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(Old.apply(forward_ad.make_dual(y, y), y))
    assert found.tangent is not None and close(found.tangent, y * y)


class NoRules(gt.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        return a + 1


class BothRules(NumpyMul):
    generate_vmap_rule = True


class WrongTangents(Mul):
    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return tangents[0]


class WrongRule(NumpyMul):
    @staticmethod
    def vmap(info: Any, in_dims: Any, a: Any, b: Any) -> Any:
        return a


@pytest.mark.parametrize(("call", "match"), [
    (lambda: gt.vmap(NoRules.apply)(x), "define the static method vmap"),
    (lambda: func.jvp(NoRules.apply, (y,), (y,)), "must define the static method jvp"),
    (lambda: gt.vmap(BothRules.apply)(x, x), "not both"),
    (lambda: gt.vmap(WrongRule.apply)(x, x), r"must return \(output, out_dims\)"),
    (lambda: func.jvp(lambda a: WrongTangents.apply(a, a, 1.0), (y,), (y,)), "for each output"),
    (lambda: func.jvp(lambda a: func.jvp(lambda b: Old.apply(b, y), (a,), (y,))[1], (y,), (y,)),
     "setup_context"),
])  # fmt: skip
def test_what_is_missing_is_named(call: Any, match: str) -> None:
    with pytest.raises(errors.GpuTensorError, match=match):
        call()
