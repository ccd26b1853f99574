"""Derivatives of normalisations of any order equal those of their composition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.nn import functional as F

EPS = 1e-5
Function = Callable[..., Any]
_random = np.random.default_rng(0)
_MEAN, _VAR = gt.from_numpy(_random.standard_normal(4)), gt.from_numpy(_random.random(4) + 0.5)


def _normal(x: Any, dims: Any, weight: Any = None, bias: Any = None) -> Any:
    centered = x - x.mean(dims, keepdim=True)
    made = centered / ((centered * centered).mean(dims, keepdim=True) + EPS).sqrt()
    return made if weight is None else made * weight + bias


def _groups(x: Any, weight: Any, bias: Any) -> Any:
    made = _normal(x.reshape(3, 2, 10), -1).reshape(3, 4, 5)
    return made * weight[:, None] + bias[:, None]


def _rms(x: Any, weight: Any) -> Any:
    return x / ((x * x).mean(-1, keepdim=True) + EPS).sqrt() * weight


def _given(x: Any, weight: Any, bias: Any) -> Any:
    made = (x - _MEAN[:, None]) / (_VAR[:, None] + EPS).sqrt()
    return made * weight[:, None] + bias[:, None]


CASES: dict[str, tuple[tuple[int, ...], int, Function, Function]] = {
    "layer_norm": (
        (5, 6), 6, lambda x, w, b: F.layer_norm(x, (6,), w, b), lambda x, *p: _normal(x, -1, *p),
    ),
    "layer_norm of one row": (
        (6,), 6, lambda x, w, b: F.layer_norm(x, (6,), w, b), lambda x, *p: _normal(x, -1, *p),
    ),
    "layer_norm without weights": (
        (5, 3, 4), 0, lambda x: F.layer_norm(x, (3, 4)), lambda x: _normal(x, (1, 2)),
    ),
    "rms_norm": ((5, 6), 6, lambda x, w, b: F.rms_norm(x, (6,), w, EPS) + b,
        lambda x, w, b: _rms(x, w) + b,
    ),
    "group_norm": ((3, 4, 5), 4, lambda x, w, b: F.group_norm(x, 2, w, b), _groups),
    "batch_norm": (
        (3, 4, 5), 4, lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        lambda x, w, b: _normal(x, (0, 2), w[:, None], b[:, None]),
    ),
    "batch_norm by running statistics": (
        (3, 4, 5), 4, lambda x, w, b: F.batch_norm(x, _MEAN, _VAR, w, b), _given,
    ),
    "instance_norm": ((3, 4, 5), 0, lambda x: F.instance_norm(x), lambda x: _normal(x, 2)),
}  # fmt: skip


def _derivatives(function: Function, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Return gradients of three orders; each is the gradient of a sum of squares of the previous
    one."""
    leaves = [gt.from_numpy(x.copy()).requires_grad_() for x in arrays]
    made, found = function(*leaves), []
    weights = gt.from_numpy(np.cos(np.arange(made.numel()) * 1.3)).reshape(made.shape)
    total = (made * weights).sum()
    for _ in range(3):
        grads = gt.autograd.grad(
            total, leaves, create_graph=True, allow_unused=True, materialize_grads=True
        )
        found += [g.detach().numpy() for g in grads]
        total = sum(((n + 1) * g * g + 0.3 * g).sum() for n, g in enumerate(grads))
    return found


@pytest.mark.parametrize("name", CASES)
def test_three_orders(name: str) -> None:
    sizes, channels, function, parts = CASES[name]
    arrays = [_random.standard_normal(sizes)]
    arrays += [_random.standard_normal(channels) for _ in range(2) if channels]
    for found, expected in zip(_derivatives(function, arrays), _derivatives(parts, arrays)):
        scale = 1e-12 * (1 + np.abs(expected).max())
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=scale)


@pytest.mark.parametrize("of, of_weight", [
    (gt.float32, gt.bfloat16), (gt.float32, gt.float64), (gt.float32, gt.int64),
    (gt.float16, gt.bfloat16), (gt.float16, gt.float32), (gt.float64, gt.float32),
    (gt.complex64, gt.complex64),
], ids=str)  # fmt: skip
def test_rms_norm_with_weights_of_another_dtype(of: Any, of_weight: Any) -> None:
    x = gt.from_numpy(_random.standard_normal((3, 8))).to(of)
    weight = gt.arange(1, 9).to(of_weight)
    found = F.rms_norm(x, (8,), weight, EPS)
    wide = x.to(gt.complex128 if of.is_complex else gt.float64)
    wanted = _rms(wide, weight.to(wide.dtype))
    assert found.dtype is of
    assert gt.allclose(found.to(wide.dtype), wanted, rtol=1e-2 if of is gt.float16 else 1e-5)


def test_the_gradient_of_reciprocal_root_mean_squares() -> None:
    x = gt.from_numpy(_random.standard_normal((3, 8))).requires_grad_()
    made, rstd = gt.ops.aten._fused_rms_norm(x, (8,), None, EPS)
    found = gt.autograd.grad((made * 2).sum() + (rstd * rstd).sum(), x)[0]
    root = 1 / ((x * x).mean(-1, keepdim=True) + EPS).sqrt()
    wanted = gt.autograd.grad((x * root * 2).sum() + (root * root).sum(), x)[0]
    assert gt.allclose(found, wanted)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "group_norm"])
@pytest.mark.parametrize("of_weight", [gt.float16, gt.float32], ids=str)
def test_a_batch_of_halves_is_rounded_like_single_entries(name: str, of_weight: Any) -> None:
    def call(x: Any, w: Any) -> Any:
        if name == "group_norm":
            return F.group_norm(x, 2, w)
        return getattr(F, name)(x, w.shape, w)

    x = gt.from_numpy(_random.standard_normal((4, 3, 8))).half()
    weights = gt.from_numpy(_random.standard_normal((4, 8))).to(of_weight)
    grads = gt.from_numpy(_random.standard_normal((4, 3, 8))).half()

    def gradients(x: Any, w: Any, grad: Any) -> Any:
        return gt.func.vjp(call, x, w)[1](grad)

    for dims in ((0, 0, 0), (0, None, 0), (None, 0, 0), (0, 0, None), (None, None, 0)):
        at = [y if d == 0 else y[0] for y, d in zip((x, weights, grads), dims)]
        if dims[:2] != (None, None):
            found = gt.vmap(call, dims[:2])(*at[:2])
            one = gt.stack([call(*[y[k] if d == 0 else y for y, d in zip(at, dims[:2])])
                            for k in range(4)])  # fmt: skip
            assert found.dtype is gt.float16 and bool((found == one).all())
        found = gt.vmap(gradients, dims)(*at)
        each = [gradients(*[y[k] if d == 0 else y for y, d in zip(at, dims)]) for k in range(4)]
        for mine, theirs in zip(found, zip(*each)):
            assert mine.dtype is theirs[0].dtype
            assert gt.allclose(mine, gt.stack(theirs), rtol=2e-3, atol=4e-3)


@pytest.mark.parametrize("dtype", [gt.float32, gt.float64])
@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2, 2)])
def test_a_module_may_run_without_gradients_before_its_backward(shape: Any, dtype: Any) -> None:
    """PyTorch does not count the updates of running statistics as changes of the tensors."""
    mean, variance = gt.zeros(3, dtype=dtype), gt.ones(3, dtype=dtype)
    x = gt.rand(shape, dtype=dtype, requires_grad=True)
    y = F.batch_norm(x, mean, variance, training=True)
    first = mean.tolist()
    with gt.no_grad():
        F.batch_norm(x, mean, variance, training=True)
    assert mean.tolist() != first and mean._version == variance._version == 0
    y.sum().backward()
    assert x.grad is not None


def test_subclasses_of_batch_norm_check_their_dimensions() -> None:
    class Any(gt.nn.modules.norm._BatchNorm):
        def _check_input_dim(self, input: gt.Tensor) -> None:
            assert input.ndim != 3

    class Checks(gt.nn.BatchNorm2d):
        def forward(self, input: gt.Tensor) -> gt.Tensor:
            self._check_input_dim(input)
            return input

    x = gt.rand(2, 3)
    assert Any(3)(x).tolist() == gt.nn.BatchNorm1d(3)(x).tolist()
    with pytest.raises(AssertionError):
        Any(3)(gt.rand(2, 3, 4))
    with pytest.raises(gt.GpuTensorError, match="'input' must have 4 dimensions"):
        Checks(3)(x)


def test_one_number_is_a_shape_of_one_dimension() -> None:
    x = gt.from_numpy(_random.standard_normal((3, 5)))
    for _ in range(3):  # The third call takes the short cut of the tuple.
        wanted = gt.layer_norm(x, (5,))
        assert gt.layer_norm(x, 5).tolist() == gt.layer_norm(x, [5]).tolist() == wanted.tolist()
