"""Rows of convolutions."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from gputensor.core import errors
from gputensor.core.dtype import bfloat16, bool_, complex64, float16, float32, float64

from . import Fails, Row, S, T

_KIND: Any = {
    "ulp": {float16: 2, bfloat16: 2, float32: 4, float64: 4}, "device_ulp": 4,
    "dtypes": (float16, bfloat16, float32, float64, complex64), "zeros_equal": True,
    "why": "sums of some dozens of multiples of 0.25, which are exact but where a half is rounded",
}  # fmt: skip


def _full(value: Any, count: int) -> tuple[int, ...]:
    found = (value,) if isinstance(value, int) else tuple(value)
    return found * count if len(found) == 1 else found


def _convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Compute each product: every input element is added to the outputs to which the kernel's taps
    lead."""
    count = w.ndim - 2
    s, p, d, more = (_full(v, count) for v in (stride, padding, dilation, output_padding))
    of = np.complex128 if x.dtype.kind == "c" else np.float64
    x, w = x.astype(of), w.astype(of)
    kernel, given = w.shape[2:], x.shape[2:]
    if transposed:
        out = [(n - 1) * a - 2 * b + c * (k - 1) + m + 1
               for n, a, b, c, k, m in zip(given, s, p, d, kernel, more)]  # fmt: skip
        outer = w.shape[1] * groups
    else:
        out = [(n + 2 * b - c * (k - 1) - 1) // a + 1
               for n, a, b, c, k in zip(given, s, p, d, kernel)]  # fmt: skip
        outer = w.shape[0]
    made = np.zeros((x.shape[0], outer, *out), of)
    ins, outs = x.shape[1] // groups, outer // groups
    walked, reached = (given, out) if transposed else (out, given)
    for g, tap, at in product(range(groups), np.ndindex(*kernel), np.ndindex(*walked)):
        to = tuple(i * a - b + t * c for i, a, b, t, c in zip(at, s, p, tap, d))
        if any(not 0 <= i < n for i, n in zip(to, reached)):
            continue
        i, o = slice(g * ins, (g + 1) * ins), slice(g * outs, (g + 1) * outs)
        if transposed:
            made[(slice(None), o, *to)] += x[(slice(None), i, *at)] @ w[(i, slice(None), *tap)]
        else:
            made[(slice(None), o, *at)] += x[(slice(None), i, *to)] @ w[(o, slice(None), *tap)].T
    return made if bias is None else made + bias.astype(of).reshape(1, -1, *[1] * count)


def _conv(count: int) -> Any:
    def conv(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
        if padding == "same":
            padding = [d * (k - 1) // 2 for d, k in zip(_full(dilation, count), w.shape[2:])]
        padding = 0 if padding == "valid" else padding
        return _convolution(x, w, bias, stride, padding, dilation, False, 0, groups)

    return conv


def _conv_transpose(x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return _convolution(x, w, bias, stride, padding, dilation, True, output_padding, groups)


def _backward(grad, x, w, sizes, stride, padding, dilation, transposed, more, groups, mask):
    args = (stride, padding, dilation, transposed, more, groups)

    def through(place: int) -> np.ndarray:
        """Compute gradients by basis vectors, because the convolution is linear in each operand."""
        given, found = (x, w), []
        for at in np.ndindex(*given[place].shape):
            basis = np.zeros_like(given[place])
            basis[at] = 1
            operands = (basis, w) if place == 0 else (x, basis)
            found.append((grad.astype(np.float64) * _convolution(*operands, None, *args)).sum())
        return np.array(found).reshape(given[place].shape)

    return [through(0), through(1), grad.astype(np.float64).sum((0, *range(2, grad.ndim)))]


_ROWS_OF_BACKWARD = [
    S(T(1, 2, 2), T(1, 1, 4), T(2, 1, 3), None, (1,), (0,), (1,), False, (0,), 1, [True] * 3),
    S(T(1, 2, 3), T(1, 2, 2), T(2, 1, 2), None, (1,), (0,), (1,), True, (0,), 2, [True] * 3),
]


def _weight_gradient(x, grad, kernel, stride, padding, dilation, groups):
    w = np.zeros((grad.shape[1], x.shape[1] // groups, *kernel))
    no = (0,) * len(kernel)
    return _backward(grad, x, w, None, stride, padding, dilation, False, no, groups, None)[1]


_ERRORS = (
    Fails(
        S(T(1, 2, 5), T(2, 3, 3)), errors.ShapeError, "convolution: 'input' must have 3 channels"
    ),
    Fails(
        S(T(1, 2, 2), T(2, 2, 3)), errors.ShapeError,
        "convolution: 'input' must be as large as the kernel",
    ),
    Fails(S(T(2), T(2, 2, 3)), errors.ShapeError, "conv1d: 'input' must have 2 dimensions, or 3"),
    Fails(S(T(1, 2, 5), T(2, 2, 3)), errors.DtypeError, "'input' must not be bool", bool_),
)  # fmt: skip

ROWS = [
    Row(
        "conv1d",
        [
            S(T(2, 2, 5), T(3, 2, 3), T(3)),
            S(T(1, 4, 6), T(4, 2, 2), None, 2, 1, 2, 2),
            S(T(1, 2, 5), T(3, 2, 3), padding="same"),
            S(T(1, 2, 5), T(3, 2, 3), None, 2, "valid"),
        ],
        _conv(1), errors=_ERRORS, **_KIND,
    ),
    Row(
        "conv2d",
        [
            S(T(2, 2, 4, 5), T(3, 2, 2, 3), T(3), 1, 1),
            S(T(1, 4, 5, 4), T(4, 1, 3, 2), None, (2, 1), (1, 0), (1, 2), 4),
            S(T(1, 2, 4, 4), T(3, 2, 1, 1)),
            S(T(1, 2, 4, 4), T(3, 2, 3, 3), padding="same"),
        ],
        _conv(2), **_KIND,
    ),
    Row(
        "conv3d",
        [
            S(T(1, 2, 3, 3, 4), T(2, 2, 2, 2, 2), T(2), 1, 1),
            S(T(1, 2, 3, 3, 3), T(2, 2, 1, 3, 1), None, 1, "same"),
        ],
        _conv(3), **_KIND,
    ),
    Row(
        "conv_transpose1d",
        [
            S(T(2, 2, 4), T(2, 3, 3), T(3)),
            S(T(1, 4, 3), T(4, 1, 3), None, 2, 1, 1, 2, 2),
        ],
        _conv_transpose, **_KIND,
    ),
    Row(
        "conv_transpose2d",
        [S(T(1, 2, 3, 3), T(2, 3, 2, 3), T(3), 2, 1, 1), S(T(1, 2, 2, 2), T(2, 2, 2, 2), None, 2)],
        _conv_transpose, **_KIND,
    ),
    Row(
        "conv_transpose3d", [S(T(1, 2, 2, 2, 2), T(2, 1, 2, 2, 2), None, 2)], _conv_transpose,
        **_KIND,
    ),
    Row(
        "convolution",
        [
            S(T(2, 2, 4, 5), T(4, 1, 2, 2), T(4), (1, 1), (1, 1), (1, 1), False, (0, 0), 2),
            S(T(1, 2, 3), T(2, 2, 3), None, (2,), (1,), (1,), True, (1,), 1),
        ],
        _convolution, **_KIND,
    ),
    Row(
        "convolution_backward", _ROWS_OF_BACKWARD, _backward,
        **(_KIND | {"dtypes": (float32, float64)}),
    ),
    Row(
        "_convolution_weight_gradient",
        [
            S(T(2, 2, 5), T(2, 3, 3), (2,), (2,), (1,), (1,), 1),
            S(T(1, 4, 3, 4), T(1, 2, 2, 3), (2, 1), (1, 2), (0, 1), (1, 1), 2),
        ],
        _weight_gradient,
        errors=(
            Fails(S(T(1, 2, 5), T(2, 3, 3), (2,), (1,), (0,), (1,), 1), errors.ShapeError,
                  "'grad_output' must have as many samples as input"),
            Fails(S(T(1, 2, 5), T(1, 3), (2,), (1,), (0,), (1,), 1), errors.ShapeError,
                  "'grad_output' must have 3 dimensions, as weight has"),
        ),
        **(_KIND | {"dtypes": (float16, bfloat16, float32, float64)}),
    ),
]  # fmt: skip
