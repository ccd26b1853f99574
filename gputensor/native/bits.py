"""Operators on the bits of numbers: frexp, and hash_tensor, which is composed of other operators.

Source: ATen/native/UnaryOps.cpp, frexp; ATen/native/ReduceOps.cpp, hash_tensor.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .._generated import calls, operators
from ..core import dtype as dtypes, errors
from ..core.device import CPU
from ..core.dtype import COMPLEX, FLOATING
from ..core.geometry import geometry
from ..iterator.order import dense_strides_like
from ..runtime.libraries import HOST
from ..structured import arguments, library
from ..structured.shortcuts import results
from ..tensor.make import over_array
from ..tensor.tensor import Tensor

BY_LIBRARY = True


def frexp(key_set: int, self: Tensor) -> tuple[Tensor, Tensor]:
    given = self._geometry
    arguments.check_is_floating("frexp", "self", self)
    x = calls.to_dtype(self, dtypes.float32) if given.dtype.itemsize == 2 else self
    strides = dense_strides_like(given)
    layouts = [geometry(given.sizes, strides, of) for of in (x._geometry.dtype, dtypes.int32)]
    mantissa, exponent = library.call("frexp", _parts, layouts, x)
    if x is self and x._device is CPU:
        args, compute = (self,), partial(_parts, HOST)
        made = mantissa, exponent
        results.learn(operators.frexp_Tensor.table, frexp, args, made, compute, is_new=True)
    return mantissa if x is self else calls.to_dtype(mantissa, given.dtype), exponent


def _parts(library: Any, x: Any) -> Any:
    """Return frexp of an array. The exponent of non-finite numbers is 0; C does not specify it."""
    np = library.np
    mantissa, exponent = np.frexp(x)
    return mantissa, np.multiply(exponent, np.isfinite(x))


def hash_tensor(
    key_set: int, self: Tensor, dim: Any = (), keepdim: bool = False, mode: int = 0
) -> Tensor:
    """Return the exclusive or of the elements' bits along `dim` as uint64. Floats are first
    converted to float64, and integers to int64."""
    op, given = "hash_tensor", self._geometry
    if given.dtype.category == COMPLEX:
        raise errors.wrong_dtype(op, "self", "be real", self)
    if mode != 0:
        raise errors.must(op, "mode", "be 0, the exclusive or", mode)
    dims = arguments.dims(op, dim, given.ndim) or tuple(range(given.ndim))
    for d in dims if given.ndim else ():
        if not given.sizes[d]:
            raise errors.wrong_index(op, "dim", "name dimensions of non-zero size", d)
    if given.dtype.category == FLOATING:
        bits = calls.view_dtype(calls.to_dtype(self, dtypes.float64), dtypes.int64)
    else:
        bits = calls.to_dtype(self, dtypes.int64, False, True)
    kept = [d for d in range(given.ndim) if d not in dims]
    sizes = tuple([given.sizes[d] for d in kept])
    order = (*kept, *dims) if given.ndim else ()
    found = _folded(calls.reshape(calls.permute(bits, order), (*sizes, -1)))
    if keepdim:
        sizes = tuple([1 if d in dims else n for d, n in enumerate(given.sizes)])
    return calls.view_dtype(calls.reshape(found, sizes), dtypes.uint64)


def _folded(bits: Tensor) -> Tensor:
    """Return the exclusive or of each row. On devices other than the CPU, combine the two halves of
    each row again and again, until one element remains."""
    if bits._device is CPU:
        return over_array(np.asarray(np.bitwise_xor.reduce(bits._get_array(), -1)))
    n = bits._geometry.sizes[-1]
    while n > 1:
        half = n // 2
        first, second = calls.narrow(bits, -1, 0, half), calls.narrow(bits, -1, half, half)
        found = calls.bitwise_xor_Tensor(first, second)
        rest = calls.narrow(bits, -1, 2 * half, n - 2 * half)
        bits = calls.cat((found, rest), -1) if n % 2 else found
        n = half + n % 2
    return bits
