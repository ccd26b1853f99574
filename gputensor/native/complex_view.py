"""Views between complex elements and pairs of reals, and lazily conjugated or negated views.

Source of the semantics: aten/src/ATen/native/ComplexHelper.h and UnaryOps.cpp.
"""

from __future__ import annotations

from typing import Any

from .._generated import calls, operators
from ..core import dtype as dtypes, errors
from ..core.device import CPU
from ..core.geometry import Geometry, contiguous_geometry, geometry
from ..dispatch.keys import CONJUGATE, NEGATIVE, ZERO
from ..iterator.config import BINARY
from ..iterator.plan import build
from ..kernels import stub
from ..tensor.make import allocate, view_of
from ..tensor.tensor import Tensor
from ..structured import missing
from ..structured.view_kernel import remember

# The dtypes that the parts of complex numbers can have.
_PARTS = (dtypes.float16, dtypes.float32, dtypes.float64)
_BE_PARTS = "be float16, float32 or float64"
_PAIR = BINARY.replace(arg_names=("real", "imag"))

# --- lazy views: reading an element converts it. See Note [Lazy views], lazy_views.py ------------


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
    wanted = shape.views.get(("view_as_real",))
    if wanted is None:
        wanted = remember(shape, "view_as_real", (), _as_real_rule)
    return view_of(self, wanted, 2 * self._offset)


def _as_complex_rule(shape: Geometry) -> Geometry:
    got = errors.Got(f"{errors.describe_layout(shape)} with strides {shape.strides}")
    if shape.dtype not in _PARTS:
        raise errors.wrong_dtype("view_as_complex", "self", _BE_PARTS, got)
    if not shape.ndim or shape.sizes[-1] != 2 or shape.strides[-1] != 1:
        rule = "have a last dimension of size 2 and stride 1"
        raise errors.must("view_as_complex", "self", rule, got)
    if any(s % 2 for s in shape.strides[:-1]):
        raise errors.must("view_as_complex", "self", "have even strides before the last", got)
    strides = tuple([s // 2 for s in shape.strides[:-1]])
    return geometry(shape.sizes[:-1], strides, shape.dtype.to_complex)


def view_as_complex(key_set: int, self: Tensor) -> Tensor:
    shape = self._geometry
    wanted = shape.views.get(("view_as_complex",))
    if wanted is None:
        wanted = remember(shape, "view_as_complex", (), _as_complex_rule)
    if self._offset % 2:
        rule = "begin at an even offset"
        raise errors.must("view_as_complex", "self", rule, f"offset {self._offset}")
    return view_of(self, wanted, self._offset // 2)


def real(key_set: int, self: Tensor) -> Tensor:
    if not self._geometry.dtype.is_complex:
        return self
    # A number and its conjugate have the same real part. So clear the lazy conjugation of self
    # instead of computing it.
    plain = calls._conj(self) if self._keys & CONJUGATE else self
    return calls.select_int(calls.view_as_real(plain), -1, 0)


def imag(key_set: int, self: Tensor) -> Tensor:
    if not self._geometry.dtype.is_complex:
        raise errors.wrong_dtype("imag", "self", "be complex", self)
    if self._keys & CONJUGATE:
        return calls._neg_view(calls.imag(calls._conj(self)))
    return calls.select_int(calls.view_as_real(self), -1, 1)


# --- complex of reals -----------------------------------------------------------------------------


# From this number of elements on, `complex` fills its result with all threads.
_MANY = 1 << 16


def _joined(array: Any, parts: list[Any]) -> bool:
    """Write real and imaginary parts to a complex array, all of them row-major. Return False if
    separate copies are faster."""
    pairs = array.view(parts[0].dtype).reshape(-1, 2)
    done: bool = stub.cpu("copy_pieces").join(pairs, [x.reshape(-1, 1) for x in parts], 1)
    return done


def _parts(op: str, names: tuple[str, str], first: Tensor, second: Tensor) -> None:
    of = first._geometry.dtype
    if of not in _PARTS:
        raise errors.wrong_dtype(op, names[0], _BE_PARTS, first)
    if second._geometry.dtype is not of:
        raise errors.wrong_dtype(op, names[1], f"be {of.short}, as '{names[0]}' is", second)


def complex(key_set: int, real: Tensor, imag: Tensor) -> Tensor:
    _parts("complex", ("real", "imag"), real, imag)
    given = ((real._geometry, real._device), (imag._geometry, imag._device))
    shape = real._geometry
    if shape is imag._geometry and shape.is_contiguous and real._device is imag._device is CPU:
        if shape.numel and shape.dtype.itemsize > 2:  # NumPy has no complex32.
            made = allocate(contiguous_geometry(shape.sizes, shape.dtype.to_complex), CPU)
            array, parts = made._get_array(), [real._get_array(), imag._get_array()]
            if shape.numel < _MANY or not _joined(array, parts):
                array.real, array.imag = parts
            return made
    plan = build("complex", _PAIR, (None,), given, default_dtype=None)
    shape = plan.outputs[0].geometry
    of = shape.dtype.to_complex
    made = allocate(geometry(shape.sizes, shape.strides, of), plan.device)
    pairs = calls.view_as_real(made)
    for number, part in enumerate((real, imag)):
        place = calls.select_int(pairs, -1, number)
        # This copy into a new tensor is not counted as a write.
        missing.ask_inplace(operators.copy_, place, part, False)
    return made


def polar(key_set: int, abs: Tensor, angle: Tensor) -> Tensor:
    _parts("polar", ("abs", "angle"), abs, angle)
    x = calls.mul_Tensor(abs, calls.cos(angle))
    return calls.complex(x, calls.mul_Tensor(abs, calls.sin(angle)))
