"""Valid calls of functions in gt.nn.functional that are not operators; see harness/entrances.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gputensor as gt

F = gt.nn.functional


def _ones(*sizes: int) -> Callable[[], Any]:
    return lambda: gt.ones(sizes)


def _drawn(*sizes: int) -> Callable[[], Any]:
    """Return a tensor of different elements, so that indices of maxima are unique."""
    return lambda: gt.arange(gt.Size(sizes).numel(), dtype=gt.float32).reshape(sizes)


def _indices(*numbers: Any) -> Callable[[], Any]:
    return lambda: gt.tensor(numbers)


# Inputs with one, two and three spatial dimensions.
_LINE, _PLANE, _VOLUME = _drawn(1, 2, 4), _drawn(1, 2, 4, 4), _drawn(1, 2, 4, 4, 4)
_X, _CLASSES = _ones(2, 3), _indices(0, 2)
_HALF = lambda: gt.full((2, 3), 0.5)  # noqa: E731

# name -> valid arguments; functions make a tensor for each call
_CALLS: dict[str, tuple[Any, ...]] = {
    "linear": (_X, _ones(4, 3), _ones(4)),
    "bilinear": (_X, _ones(2, 4), _ones(5, 3, 4), _ones(5)),
    "grouped_mm": (_ones(2, 4, 3), _ones(2, 3, 5)),
    "relu": (_X,),
    "softmax": (_X, 1),
    "log_softmax": (_X, 1),
    "softmin": (_X, 1),
    "pad": (_X, (1, 2), "constant", 0.5),
    "fold": (_ones(1, 8, 9), (4, 4), (2, 2), 1, 0, 1),
    # activations
    "elu": (_X, 1.0),
    "elu_": (_X, 1.0),
    "gelu": (_X, "tanh"),
    "glu": (_ones(2, 4), 1),
    "gumbel_softmax": (_X, 1.0, True, 1e-10, 1),
    "hardsigmoid": (_X,),
    "hardswish": (_X,),
    "hardtanh": (_X, -1.0, 1.0),
    "hardtanh_": (_X, -1.0, 1.0),
    "leaky_relu": (_X, 0.01),
    "leaky_relu_": (_X, 0.01),
    "logsigmoid": (_X,),
    "mish": (_X,),
    "relu6": (_X,),
    "rrelu_": (_X, 0.1, 0.3, True),
    "silu": (_X,),
    "softplus": (_X, 1.0, 20.0),
    "softshrink": (_X, 0.5),
    "softsign": (_X,),
    "tanhshrink": (_X,),
    # attention and dropout
    "scaled_dot_product_attention": (
        _ones(1, 2, 3, 4), _ones(1, 2, 3, 4), _ones(1, 2, 3, 4), _ones(3, 3), 0.0, False, 0.5,
    ),
    "multi_head_attention_forward": (
        _ones(3, 2, 4), _ones(3, 2, 4), _ones(3, 2, 4), 4, 2, _ones(12, 4), _ones(12), None, None,
        False, 0.0, _ones(4, 4), _ones(4), True, _ones(2, 3), True, _ones(3, 3),
    ),
    "dropout1d": (_LINE, 0.5, True),
    "dropout2d": (_PLANE, 0.5, True),
    "dropout3d": (_VOLUME, 0.5, True),
    # losses
    "nll_loss": (_X, _CLASSES, _ones(3)),
    "cross_entropy": (_X, _CLASSES, _ones(3)),
    "linear_cross_entropy": (_X, _ones(4, 3), _CLASSES),
    "mse_loss": (_X, _X),
    "l1_loss": (_X, _X),
    "huber_loss": (_X, _X, "mean", 1.0),
    "smooth_l1_loss": (_X, _X),
    "binary_cross_entropy": (_HALF, _X, _X),
    "gaussian_nll_loss": (_X, _X, _X, True, 1e-6),
    "soft_margin_loss": (_X, _X),
    "multi_margin_loss": (_X, _CLASSES, 1, 1.0, _ones(3)),
    "multilabel_margin_loss": (_X, _indices((0, -1, 1), (2, 1, -1))),
    "multilabel_soft_margin_loss": (_X, _X, _ones(3)),
    "triplet_margin_with_distance_loss": (_X, _X, _X),
    # normalisation and tables
    "normalize": (_X, 2.0, 1, 1e-12),
    "local_response_norm": (_LINE, 2, 1e-4, 0.75, 1.0),
    "embedding": (_CLASSES, _ones(4, 3), 1, 2.0, 2.0),
    "embedding_bag": (_CLASSES, _ones(4, 3), _indices(0, 1), 2.0, 2.0, False, "sum"),
    "one_hot": (_CLASSES, 3),
    # pooling
    "avg_pool2d": (_PLANE, 2, 2, 1),
    "avg_pool3d": (_VOLUME, 2, 2, 1),
    "lp_pool1d": (_LINE, 2.0, 2, 2),
    "lp_pool2d": (_PLANE, 2.0, 2, 2),
    "lp_pool3d": (_VOLUME, 2.0, 2, 2),
    "max_pool2d_with_indices": (_PLANE, 2, 2, 1, 1),
    "max_pool3d_with_indices": (_VOLUME, 2, 2, 1, 1),
    "adaptive_avg_pool2d": (_PLANE, 2),
    "adaptive_avg_pool3d": (_VOLUME, 2),
    "adaptive_max_pool1d_with_indices": (_LINE, 2),
    "adaptive_max_pool2d": (_PLANE, 2),
    "adaptive_max_pool2d_with_indices": (_PLANE, 2),
    "adaptive_max_pool3d": (_VOLUME, 2),
    "adaptive_max_pool3d_with_indices": (_VOLUME, 2),
    "fractional_max_pool2d": (_PLANE, 2, 2),
    "fractional_max_pool2d_with_indices": (_PLANE, 2, None, 0.5),
    "fractional_max_pool3d": (_VOLUME, 2, 2),
    "fractional_max_pool3d_with_indices": (_VOLUME, 2, None, 0.5),
    "max_unpool1d": (_ones(1, 1, 2), lambda: gt.tensor([[[1, 3]]]), 2, 2, 0),
    "max_unpool2d": (_ones(1, 1, 1), lambda: gt.tensor([[[3]]]), 2, 2, 0),
    "max_unpool3d": (_ones(1, 1, 1, 1), lambda: gt.tensor([[[[7]]]]), 2, 2, 0),
    # resampling
    "interpolate": (_PLANE, 3, None, "bilinear", True),
    "upsample": (_PLANE, 3),
    "upsample_nearest": (_PLANE, None, 2.0),
    "upsample_bilinear": (_PLANE, 3),
    "grid_sample": (_PLANE, _ones(1, 2, 2, 2), "bilinear", "zeros", False),
    "affine_grid": (_ones(1, 2, 3), (1, 2, 3, 3), False),
}  # fmt: skip


def _entrance(name: str, args: tuple[Any, ...]) -> Callable[[], Any]:
    return lambda: (getattr(F, name), tuple(a() if callable(a) else a for a in args), {})


ENTRANCES = {name: _entrance(name, args) for name, args in _CALLS.items()}
