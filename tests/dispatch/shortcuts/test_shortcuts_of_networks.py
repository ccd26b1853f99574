"""Short cuts of networks' operators on CUDA, by the emulator: a repeated call passes no table, and
has the results, histories and gradients of the full dispatch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gputensor as gt
from gputensor.dispatch import dispatcher
from gputensor.dispatch.shortcuts import BELOW_CUDA, CUDA

from ...cuda.support import requires_emulator
from .test_shortcuts import taken, turned, turned_on

__all__ = ["turned_on"]  # a fixture
pytestmark = [requires_emulator, pytest.mark.emulator]
F: Any = gt.nn.functional


def values(*sizes: int, dtype: Any = gt.float32, at: str = "cuda", shift: int = 0) -> Any:
    count = gt.empty(sizes).numel()
    return ((gt.arange(count) * 7 + shift) % 11 / 5.0 - 1).view(sizes).to(dtype).to(at)


def attend(x: Any, *mask: Any, **how: Any) -> Any:
    x = x.view(1, 2, 6, 8) if x.is_contiguous() else x.unflatten(0, (1, 2, 6))
    return F.scaled_dot_product_attention(x, x, x * 2, *mask, **how)


FLASH = "_scaled_dot_product_flash_attention_for_cpu"
# name: (function of x (12, 8), weight (8,), bias (8,); the operator with the short cut)
CALLS: dict[str, tuple[Callable[[Any, Any, Any], Any], str]] = {
    "add": (lambda x, w, b: x + w, "add.Tensor"),
    "number": (lambda x, w, b: x * 2.5, "mul.Tensor"),
    "number first": (lambda x, w, b: 2.5 - x, "sub.Tensor"),
    "relu": (lambda x, w, b: F.relu(x), "relu"),
    "softmax": (lambda x, w, b: x.softmax(-1), "softmax.int"),
    "gelu": (lambda x, w, b: F.gelu(x), "gelu"),
    "sum": (lambda x, w, b: x.sum(0), "sum.dim_IntList"),
    "clone": (lambda x, w, b: x.t().clone(), "clone"),
    "where": (lambda x, w, b: gt.where(x > 0, x, w), "where.self"),
    "cat": (lambda x, w, b: gt.cat([x, w.view(1, 8), x]), "cat"),
    "stack": (lambda x, w, b: gt.stack([w, b, w], 1), "stack"),
    "linear": (lambda x, w, b: F.linear(x, w.view(1, 8).expand(3, 8) * 2, b[:3]), "addmm"),
    "linear without bias": (lambda x, w, b: F.linear(x, x[:5]), "mm"),
    "linear of a batch": (lambda x, w, b: F.linear(x.view(3, 4, 8), x[:8], b), "addmm"),
    "addmm": (lambda x, w, b: gt.addmm(b, x, x.t()[:, :8], beta=2, alpha=0.5), "addmm"),
    "addmm without summand": (lambda x, w, b: gt.addmm(b, x, x[:8], beta=0), "addmm"),
    "bmm": (lambda x, w, b: gt.bmm(x.view(2, 6, 8), x.view(2, 8, 6)), "bmm"),
    "attention": (lambda x, w, b: attend(x), "scaled_dot_product_attention"),
    "causal": (lambda x, w, b: attend(x, is_causal=True), FLASH),
    "masked": (lambda x, w, b: attend(x, x.detach()[:6, :6] > 0), FLASH),
    "scaled": (lambda x, w, b: attend(x.t().contiguous().t(), scale=0.5), FLASH),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (8,), w, b), "native_layer_norm"),
    "layer_norm without bias": (lambda x, w, b: F.layer_norm(x, (8,), w), "native_layer_norm"),
    "layer_norm of x": (lambda x, w, b: F.layer_norm(x, [8], eps=1e-3), "native_layer_norm"),
    "rms_norm": (lambda x, w, b: F.rms_norm(x, (8,), w), "_fused_rms_norm"),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), "native_group_norm"),
}  # fmt: skip


def outcome(call: Any, dtype: Any, needs_grad: bool, times: int = 5) -> list[Any]:
    """Call a function on new tensors several times. Return the results and the gradients."""
    found = []
    for n in range(times):
        given = [values(*s, dtype=dtype, shift=n) for s in ((12, 8), (8,), (8,))]
        given = [x.requires_grad_(needs_grad) for x in given]
        made = call(*given)
        found += [made.tolist(), made.dtype, made.stride(), made._version, str(made.grad_fn)[:12]]
        if needs_grad:
            (made * values(*made.shape, dtype=dtype)).sum().backward()
            found += [None if x.grad is None else x.grad.tolist() for x in given]
    return found


@pytest.mark.parametrize("dtype", [gt.float32, gt.float16], ids=str)
@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_results_and_gradients_are_the_same(name: str, needs_grad: bool, dtype: Any) -> None:
    call, operator = CALLS[name]
    with turned(False):
        expected = outcome(call, dtype, needs_grad)
    with turned(True):
        assert outcome(call, dtype, needs_grad) == expected
        assert taken(operator)


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_a_repeated_call_passes_no_table(turned_on: None, name: str, needs_grad: bool) -> None:
    call, operator = CALLS[name]
    x, w, b = [values(*s).requires_grad_(needs_grad) for s in ((12, 8), (8,), (8,))]
    for _ in range(3):
        wanted = call(x, w, b)
    table = dispatcher.find(f"aten::{operator}").table
    table[CUDA] = table[BELOW_CUDA] = None
    try:
        made = call(x, w, b)
    finally:
        del table[CUDA], table[BELOW_CUDA]
    assert made.tolist() == wanted.tolist() and made.requires_grad is needs_grad
    assert type(made.grad_fn) is type(wanted.grad_fn)


NORMS = {
    "layer_norm": "native_layer_norm_backward", "rms_norm": "_fused_rms_norm_backward",
    "group_norm": "native_group_norm_backward",
}  # fmt: skip


@pytest.mark.parametrize("name", NORMS)
def test_gradients_of_norms(name: str) -> None:
    call = CALLS[name][0]

    def gradients(n: int) -> list[Any]:
        x, w, b = [values(*s, shift=n).requires_grad_() for s in ((12, 8), (8,), (8,))]
        given = (x, w) if name == "rms_norm" else (x, w, b)
        found = gt.autograd.grad((call(x, w, b) ** 3).sum(), given, create_graph=n % 2 == 1)
        if n % 2:
            sums = sum([(g * g).sum() for g in found])
            found = (*found, *gt.autograd.grad(sums, given, allow_unused=True))
        return [None if g is None else g.tolist() for g in found]

    with turned(False):
        expected = [gradients(n) for n in range(8)]
    with turned(True):
        assert [gradients(n) for n in range(8)] == expected
        assert taken(NORMS[name])
    # One operand in two places; only the gradient of x.
    x = values(8).requires_grad_()
    for _ in range(4):
        (grad,) = gt.autograd.grad(F.layer_norm(x, (8,), x, x).sum(), x)
        y = x.detach().cpu().requires_grad_()
        (wanted,) = gt.autograd.grad(F.layer_norm(y, (8,), y, y).sum(), y)
        assert grad.tolist() == pytest.approx(wanted.tolist(), abs=1e-5)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("sizes", [(4, 3, 8), (300, 3, 40), (6, 5)])
def test_batch_norm(sizes: tuple[int, ...], training: bool) -> None:
    def run() -> list[Any]:
        norm = gt.nn.BatchNorm1d(sizes[1]).train(training).to("cuda")
        found = []
        for n in range(8):
            made = norm(values(*sizes, shift=n).requires_grad_(n > 2))
            found += [made.tolist(), norm.running_mean.tolist(), norm.running_var.tolist()]
            if n > 2:
                (made * made).sum().backward()
                found += [x.grad.tolist() for x in norm.parameters()]
        return found

    with turned(False):
        expected = run()
    with turned(True):
        assert run() == expected
        assert taken("native_batch_norm") and taken("native_batch_norm_backward")


def test_a_constant_that_requires_grad_is_refused(turned_on: None) -> None:
    x, mean, var = values(4, 3), gt.zeros(3, device="cuda"), gt.ones(3, device="cuda")
    for _ in range(4):
        F.batch_norm(x, mean, var)
    with pytest.raises(gt.GpuTensorError, match="running_mean"):
        F.batch_norm(x, mean.requires_grad_(), var)
