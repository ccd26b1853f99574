"""Views between complex elements and pairs of reals, and views whose elements are turned on
reading.

Source of the semantics: aten/src/ATen/native/ComplexHelper.h and UnaryOps.cpp.
"""

from __future__ import annotations

from .._generated import calls
from ..core import dtype as dtypes, errors
from ..core.geometry import Geometry, geometry
from ..dispatch.keys import CONJUGATE, NEGATIVE, ZERO
from ..tensor.make import view_of
from ..tensor.tensor import Tensor
from ..structured.view_kernel import remember

# --- lazy: elements that are turned when they are read. See Note [Lazy views], lazy_views.py ------


def _conj(key_set: int, self: Tensor) -> Tensor:
    if not self._geometry.dtype.is_complex:
        raise errors.wrong_dtype("_conj", "self", "be complex", self)
    view = view_of(self, self._geometry, self._offset)
    view._keys ^= CONJUGATE
    return view


def conj(key_set: int, self: Tensor) -> Tensor:
    return calls._conj(self) if self._geometry.dtype.is_complex else self


def _neg_view(key_set: int, self: Tensor) -> Tensor:
    view = view_of(self, self._geometry, self._offset)
    view._keys ^= NEGATIVE
    return view


def is_conj(key_set: int, self: Tensor) -> bool:
    return bool(self._keys & CONJUGATE)


def is_neg(key_set: int, self: Tensor) -> bool:
    return bool(self._keys & NEGATIVE)


def _is_zerotensor(key_set: int, self: Tensor) -> bool:
    return bool(self._keys & ZERO)


# --- complex as pairs of reals --------------------------------------------------------------------


def _as_real_rule(shape: Geometry) -> Geometry:
    if not shape.dtype.is_complex:
        got = errors.Got(errors.describe_layout(shape))
        raise errors.wrong_dtype("view_as_real", "self", "be complex", got)
    return geometry((*shape.sizes, 2), (*[2 * s for s in shape.strides], 1), shape.dtype.to_real)


def view_as_real(key_set: int, self: Tensor) -> Tensor:
    if self._keys & CONJUGATE:
        raise errors.must(
            "view_as_real", "self", "not be a lazy conjugate", self,
            remedy="use .resolve_conj(), which copies",
        )  # fmt: skip
    shape = self._geometry
    wanted = shape.views.get(("view_as_real", ()))
    if wanted is None:
        wanted = remember(shape, "view_as_real", (), _as_real_rule)
    return view_of(self, wanted, 2 * self._offset)


def _as_complex_rule(shape: Geometry) -> Geometry:
    got = errors.Got(f"{errors.describe_layout(shape)} with strides {shape.strides}")
    if shape.dtype not in (dtypes.float32, dtypes.float64):
        raise errors.wrong_dtype("view_as_complex", "self", "be float32 or float64", got)
    if not shape.ndim or shape.sizes[-1] != 2 or shape.strides[-1] != 1:
        rule = "have a last dimension of size 2 and stride 1"
        raise errors.must("view_as_complex", "self", rule, got)
    if any(s % 2 for s in shape.strides[:-1]):
        raise errors.must("view_as_complex", "self", "have even strides before the last", got)
    strides = tuple([s // 2 for s in shape.strides[:-1]])
    return geometry(shape.sizes[:-1], strides, shape.dtype.to_complex)


def view_as_complex(key_set: int, self: Tensor) -> Tensor:
    shape = self._geometry
    wanted = shape.views.get(("view_as_complex", ()))
    if wanted is None:
        wanted = remember(shape, "view_as_complex", (), _as_complex_rule)
    if self._offset % 2:
        rule = "begin at an even offset"
        raise errors.must("view_as_complex", "self", rule, f"offset {self._offset}")
    return view_of(self, wanted, self._offset // 2)


def real(key_set: int, self: Tensor) -> Tensor:
    if not self._geometry.dtype.is_complex:
        return self
    # A conjugate has the same real parts.
    plain = calls._conj(self) if self._keys & CONJUGATE else self
    return calls.select_int(calls.view_as_real(plain), -1, 0)


def imag(key_set: int, self: Tensor) -> Tensor:
    if not self._geometry.dtype.is_complex:
        raise errors.wrong_dtype("imag", "self", "be complex", self)
    if self._keys & CONJUGATE:
        return calls._neg_view(calls.imag(calls._conj(self)))
    return calls.select_int(calls.view_as_real(self), -1, 1)
