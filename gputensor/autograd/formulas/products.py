"""Derivatives of matrix products.

A gradient has its operand's layout, so a weight that is passed transposed, as in `linear`, can take
the gradient without a copy. Source: torch/csrc/autograd/FunctionsManual.cpp, mm_mat1_backward and
mm_mat2_backward.
"""

from __future__ import annotations

from ..._generated import calls
from ...core.geometry import Geometry
from ...tensor.tensor import Tensor
from .numbers import conj


def mm_mat1_backward(grad: Tensor, mat2: Tensor, mat1: Geometry) -> Tensor:
    """Return grad @ mat2^H."""
    if mat1.strides == (1, mat1.sizes[0]):
        return calls.t(calls.mm(conj(mat2), calls.t(grad)))
    return calls.mm(grad, conj(calls.t(mat2)))


def mm_mat2_backward(grad: Tensor, mat1: Tensor, mat2: Geometry) -> Tensor:
    """Return mat1^H @ grad."""
    if mat2.strides == (1, mat2.sizes[0]):
        return calls.t(calls.mm(calls.t(grad), conj(mat1)))
    return calls.mm(conj(calls.t(mat1)), grad)
