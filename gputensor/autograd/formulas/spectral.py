"""Derivatives of Fourier transforms. Source: torch/csrc/autograd/FunctionsManual.cpp."""

from __future__ import annotations

from ..._generated import calls
from ...tensor.tensor import Tensor

Dims = tuple[int, ...]


def fft_c2c_backward(grad: Tensor, dim: Dims, normalization: int, forward: bool) -> Tensor:
    made: Tensor = calls._fft_c2c(grad, dim, normalization, not forward)
    return made


def fft_r2c_backward(
    grad: Tensor, dim: Dims, normalization: int, onesided: bool, last_dim_size: int
) -> Tensor:
    """Return the gradient of a real transform. With onesided, the half that was not returned has a
    zero gradient."""
    if onesided:
        last, sizes = dim[-1], list(grad._geometry.sizes)
        sizes[last] = last_dim_size - sizes[last]
        if sizes[last] > 0:
            grad = calls.cat((grad, calls.new_zeros(grad, tuple(sizes))), last)
    return calls.real(calls._fft_c2c(grad, dim, normalization, False))


def fft_c2r_backward(grad: Tensor, dim: Dims, normalization: int) -> Tensor:
    """Return the gradient of an inverse real transform. Elements that the transform reads twice,
    because of symmetry, count twice."""
    made = calls._fft_r2c(grad, dim, normalization, True)
    last = dim[-1]
    half = made._geometry.sizes[last]
    twice = grad._geometry.sizes[last] - made._geometry.sizes[last]
    if twice <= 0:
        return made
    parts = [
        calls.narrow(made, last, 0, 1),
        calls.mul_Tensor(calls.narrow(made, last, 1, twice), 2),
        calls.narrow(made, last, 1 + twice, half - 1 - twice),
    ]
    return calls.cat(tuple(parts), last)
