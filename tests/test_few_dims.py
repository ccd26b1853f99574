"""0-d and 1-d tensors: every operator with a dimension has equal results on all devices.

tests/oracle/test_few_dims_oracle.py compares the same calls with PyTorch.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import gputensor as gt
from gputensor.core import errors

from . import few_dims as F
from .harness import tier


@pytest.mark.parametrize("name", F.CALLS)
def test_devices_agree(name: str) -> None:
    devices = ["meta", *(["cuda"] if gt.cuda.is_available() else [])]
    for sizes in F.SIZES:
        for d in F.DIMS:
            wanted = F.outcome(F.CALLS[name], gt, sizes, d, "cpu")
            assert not isinstance(wanted, Exception) or isinstance(wanted, errors.GpuTensorError), (
                wanted
            )
            for device in devices:
                found = F.outcome(F.CALLS[name], gt, sizes, d, device)
                what = (
                    f"{name} of {list(sizes)}, {d}, on {device}: {found!r}, on the CPU {wanted!r}"
                )
                if isinstance(wanted, Exception):
                    assert isinstance(found, errors.GpuTensorError), what
                else:
                    assert F.without_values(found) == F.without_values(wanted), what
                    assert device == "meta" or F.close(found, wanted), what


def test_lists_of_views_are_tuples() -> None:
    x = gt.ones(2, 3)
    for made in (
        x.split(1),
        x.split([1, 1]),
        x.unbind(),
        x.chunk(2),
        gt.split_with_sizes(x, [1, 1]),
    ):
        assert type(made) is tuple


def test_a_reshape_that_copied_is_no_view() -> None:
    x = gt.ones(3, 2, requires_grad=True)
    for y in (x.t().reshape(6), x.t().flatten()):
        assert not y._is_view() and y.grad_fn is not None
        y.detach_()
    y = (x * 1).t().reshape(6)
    y.mul_(3)
    (y * y).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[18.0] * 2] * 3
    assert gt.ones(3, 2).reshape(6)._is_view()


def test_where_takes_bytes() -> None:
    for device in ("cpu", *(["cuda"] if gt.cuda.is_available() else [])):
        bytes_ = gt.tensor([2, 0, 255], dtype=gt.uint8, device=device)
        for call in (
            lambda c: gt.where(c, 1.0, gt.zeros(3, device=device)),
            lambda c: gt.ops.aten.where(
                c,
                gt.ones(3, device=device),
                gt.zeros(3, device=device),
                out=gt.empty(3, device=device),
            ),
        ):
            with pytest.warns(UserWarning, match="must be bool"):
                found: Any = call(bytes_)
            assert found.tolist() == [1, 0, 1]
    with pytest.raises(RuntimeError, match="be a bool tensor"), warnings.catch_warnings():
        gt.where(gt.ones(2), 1.0, 2.0)


def test_mse_loss_promotes_what_it_broadcasts() -> None:
    half, wide = gt.ones(1, 2, dtype=gt.float16), gt.tensor(0.0, dtype=gt.float64)
    for x, target in ((half, wide), (wide, half)):
        with pytest.warns(UserWarning, match="'target' should have input's sizes"):
            assert gt.nn.functional.mse_loss(x, target).dtype is gt.float64


DEVICES = ("cpu", *(["cuda"] if gt.cuda.is_available() else []))


@pytest.mark.parametrize("element", ["float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("value", [1000.0, -1000.0, float("inf"), -float("inf")])
def test_logsumexp_of_no_dimension_subtracts_the_maximum(element: str, value: float) -> None:
    for device in tier.pick(DEVICES[:1], DEVICES):
        x = gt.tensor(value, dtype=getattr(gt, element), device=device, requires_grad=True)
        for dim in (0, -1, ()):
            found = gt.logsumexp(x, dim, keepdim=dim == -1)
            assert found.shape == () and found.real.item() == value
        if element == "complex64" or abs(value) == float("inf"):
            continue
        found.backward()
        assert x.grad is not None and x.grad.item() == 1
        for call in (gt.softmax, gt.log_softmax, gt.logcumsumexp):
            wanted = {gt.softmax: 1, gt.log_softmax: 0, gt.logcumsumexp: value}[call]
            assert call(x, 0).item() == wanted


@pytest.mark.full
def test_logsumexp_of_no_elements_has_no_maximum() -> None:
    for device in DEVICES:
        assert gt.logsumexp(gt.zeros(2, 0, device=device), 1).tolist() == [-float("inf")] * 2
        assert gt.logsumexp(gt.zeros(2, 0, device=device), 0).shape == (0,)
