"""In-place functions of gt.nn.functional: equal values and gradients, the operand's memory."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.nn import functional as F

CALLS: list[tuple[str, tuple[float, ...]]] = [
    ("celu", (2.0,)), ("elu", ()), ("hardtanh", (-0.5, 0.5)), ("leaky_relu", (0.1,)), ("relu", ()),
    ("rrelu", ()), ("selu", ()), ("threshold", (0.1, 5.0)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), CALLS, ids=[name for name, _ in CALLS])
def test_as_the_other_form(name: str, args: tuple[float, ...]) -> None:
    gt.manual_seed(0)
    function: Any = getattr(F, name)
    in_place: Any = getattr(F, f"{name}_")
    x = gt.randn(20, requires_grad=True)
    written = x.detach().clone()
    assert in_place(written, *args).data_ptr() == written.data_ptr()
    wanted = function(x, *args)
    assert gt.equal(written, wanted)
    (expected,) = gt.autograd.grad(wanted.sum(), x)
    (found,) = gt.autograd.grad(in_place(x * 1, *args).sum(), x)
    assert gt.equal(found, expected)


def test_rrelu_draws_slopes_in_place() -> None:
    gt.manual_seed(0)
    x = gt.full((50,), -1.0, requires_grad=True)
    made = F.rrelu(x * 1, 0.25, 0.5, training=True, inplace=True)
    (grad,) = gt.autograd.grad(made.sum(), x)
    assert gt.equal(grad, -made) and float(made.max()) <= -0.25 and float(made.std()) > 0


@pytest.mark.parametrize("dtype", [gt.float32, gt.float16, gt.bfloat16], ids=str)
def test_limits_in_place_keep_no_copy(dtype: gt.dtype) -> None:
    """A limit that the dtype cannot represent is rounded to the dtype before the comparison."""
    x = gt.tensor([-3.0, 0.05, 0.1, 0.25, 9.0], dtype=dtype, requires_grad=True)
    between = x * 1
    made = F.hardtanh_(between, -0.1, 0.1)
    assert made.grad_fn is not None
    assert made.grad_fn.saved_result.tensor.data_ptr() == made.data_ptr()
    (found,) = gt.autograd.grad(made.sum(), x)
    (wanted,) = gt.autograd.grad(F.hardtanh(x, -0.1, 0.1).sum(), x)
    assert found.tolist() == wanted.tolist() == [0, 1, 0, 0, 0]
