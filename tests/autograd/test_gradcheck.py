"""Options of gradcheck and gradgradcheck: each finds its own fault."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.autograd import Function, gradcheck, gradgradcheck
from gputensor.core.errors import GradcheckError


def _inputs() -> tuple[gt.Tensor, gt.Tensor]:
    gt.manual_seed(1)
    x = gt.randn(3, dtype=gt.float64, requires_grad=True)
    return x, gt.randn(3, dtype=gt.complex128, requires_grad=True)


def test_a_right_function_passes_all_checks() -> None:
    options = {"check_batched_grad": True, "check_grad_dtypes": True, "fast_mode": True}
    assert gradcheck(lambda x, y: (x * y).sin(), _inputs(), check_forward_ad=True, **options)
    assert gradgradcheck(
        lambda x, y: ((x * y).sin(), 2, x * 3), _inputs(), check_fwd_over_rev=True,
        gen_non_contig_grad_outputs=True, **options,
    )  # fmt: skip


class Square(Function):
    """noise: is added to the gradient. slope: of the forward derivative, which should be 2 x."""

    noise = 0.0
    slope: Any = None

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    @classmethod
    def _noise(cls) -> Any:
        return cls.noise * gt.rand(3, dtype=gt.float64)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2 * ctx.saved_tensors[0] + Square._noise()

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        return tangent * (2 * ctx.saved_tensors[0] if Square.slope is None else Square.slope)


def test_gradients_that_are_not_determined(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = _inputs()
    monkeypatch.setattr(Square, "noise", 1e-7)
    with pytest.raises(GradcheckError, match="two backward passes with respect to input 0"):
        gradcheck(Square.apply, (x,))
    assert not gradcheck(Square.apply, (x,), raise_exception=False)
    assert gradcheck(Square.apply, (x,), nondet_tol=1e-6)


def test_a_wrong_forward_derivative(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = _inputs()
    only = {"check_forward_ad": True, "check_backward_ad": False}
    assert gradcheck(Square.apply, (x,), **only)
    monkeypatch.setattr(Square, "slope", 3.0)
    assert gradcheck(Square.apply, (x,))
    with pytest.raises(GradcheckError, match="forward derivative of output 0"):
        gradcheck(Square.apply, (x,), **only)


def test_a_backward_pass_of_tensors_with_tangents_is_refused() -> None:
    """It would give gradients without tangents, or none at all."""
    forward_ad = gt.autograd.forward_ad
    x = gt.ones(3, requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, gt.ones(3))
        for call in (
            lambda: gt.autograd.grad((dual * dual).sum(), x),
            lambda: gt.autograd.grad(x.sum(), dual),
            lambda: (dual * dual).sum().backward(),
        ):
            with pytest.raises(RuntimeError, match="tangent"):
                call()
    assert x.grad is None
    grad = gt.func.grad(lambda x: (x * x * x).sum())
    found, tangent = gt.func.jvp(grad, (gt.ones(3),), (gt.ones(3),))
    assert found.tolist() == [3, 3, 3] and tangent.tolist() == [6, 6, 6]


def test_forward_mode_within_vmap_is_compared() -> None:
    x = gt.ones(2, dtype=gt.float64, requires_grad=True)
    options: Any = {"check_backward_ad": False, "raise_exception": False}
    assert gradcheck(gt.sin, x, check_batched_forward_grad=True, **options)
    assert gradcheck(lambda y: y.sin().flip(0), x, check_batched_forward_grad=True, **options)
