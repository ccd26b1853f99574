"""Element types: one singleton per type, with the attributes that all packages need.

The promotion of dtypes is in `promotion.py`. Copy kernels convert elements between dtypes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np

# The package's name in the text of dtypes, sizes and tensor types. `as_torch.install` sets it to
# "torch", because PyTorch programs compare these texts.
package_name = "gputensor"

BOOL, INTEGER, FLOATING, COMPLEX = range(4)

_Layout: TypeAlias = np.dtype[Any]
_Scalar: TypeAlias = type[np.generic]
# Types of values that NumPy converts to a dtype. None is not among them, because NumPy converts it
# to float64.
_NAMES_OF_NUMPY = (np.dtype, type, str)


class dtype:
    """An element type.

    name: PyTorch's name without the package. itemsize: bytes of one element. code: the type's
    number in CUDA kernels, the same as in `include/dtypes.cuh`. category: 0 bool, 1 integer, 2
    floating, 3 complex; a cast to a lower category is unsafe. np: NumPy's type with this layout.
    NumPy has no complex32; its np is four opaque bytes, which only kernels/cpu/cast.py reads.
    is_opaque: True for float8 and complex32, which kernels do not compute in directly.
    """

    __slots__ = (
        "name", "short", "code", "itemsize", "category", "np", "is_opaque", "is_float8",
        "is_floating_point", "is_complex", "is_signed",
    )  # fmt: skip

    name: str
    short: str
    code: int
    itemsize: int
    category: int
    np: _Layout
    is_opaque: bool
    is_float8: bool
    is_floating_point: bool
    is_complex: bool
    is_signed: bool

    def __init__(
        self, name: str, short: str, code: int, itemsize: int, category: int, np_type: Any
    ) -> None:
        self.name, self.short, self.code = name, short, code
        self.itemsize, self.category = itemsize, category
        self.np = np.dtype(np_type)
        self.is_opaque, self.is_float8 = code > 14, name.startswith("float8")
        self.is_floating_point = category == FLOATING
        self.is_complex = category == COMPLEX
        self.is_signed = not (category == BOOL or name.startswith("uint"))

    def __repr__(self) -> str:
        return f"{package_name}.{self.name}"

    def __eq__(self, other: object) -> bool:
        """True also for NumPy's dtype or scalar type of the same elements, such as `np.float32`."""
        if self is other or self is complex32 or not isinstance(other, _NAMES_OF_NUMPY):
            return self is other
        return bool(self.np == other)

    if TYPE_CHECKING:

        def __hash__(self) -> int: ...

    else:
        __hash__ = object.__hash__

    def __reduce__(self) -> tuple[object, ...]:
        return (by_name, (self.name,))

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: object) -> dtype:
        return self

    @property
    def __numpy_dtype__(self) -> _Layout:
        """NumPy's dtype protocol (NumPy 2.4 and newer), for `np.zeros(3, x.dtype)`."""
        if self is complex32:
            raise AttributeError("NumPy has no type of complex numbers made of two float16")
        return self.np

    # Attributes of NumPy's dtypes that xarray and Dask read.

    @property
    def kind(self) -> str:
        """NumPy's letter for the kind of the dtype: b (bool), i (signed), u (unsigned), f
        (floating) or c (complex)."""
        return "i" if self.category == INTEGER and self.is_signed else "bufc"[self.category]

    @property
    def type(self) -> _Scalar:
        """The scalar type of NumPy for this dtype."""
        return self.np.type

    @property
    def to_real(self) -> dtype:
        """The dtype of the real and imaginary parts of a complex dtype. For other dtypes, the dtype
        itself."""
        return _REAL.get(self, self)

    @property
    def to_complex(self) -> dtype:
        """The complex dtype whose parts have this floating dtype. For a complex dtype, the dtype
        itself. For bfloat16, float8, bool and integers, complex64."""
        return _TWIN.get(self, complex64)


bool_: dtype = dtype("bool", "bool", 0, 1, BOOL, np.bool_)
uint8: dtype = dtype("uint8", "u8", 1, 1, INTEGER, np.uint8)
int8: dtype = dtype("int8", "i8", 2, 1, INTEGER, np.int8)
uint16: dtype = dtype("uint16", "u16", 3, 2, INTEGER, np.uint16)
int16: dtype = dtype("int16", "i16", 4, 2, INTEGER, np.int16)
uint32: dtype = dtype("uint32", "u32", 5, 4, INTEGER, np.uint32)
int32: dtype = dtype("int32", "i32", 6, 4, INTEGER, np.int32)
uint64: dtype = dtype("uint64", "u64", 7, 8, INTEGER, np.uint64)
int64: dtype = dtype("int64", "i64", 8, 8, INTEGER, np.int64)
float16: dtype = dtype("float16", "f16", 9, 2, FLOATING, np.float16)
bfloat16: dtype = dtype("bfloat16", "bf16", 10, 2, FLOATING, ml_dtypes.bfloat16)
float32: dtype = dtype("float32", "f32", 11, 4, FLOATING, np.float32)
float64: dtype = dtype("float64", "f64", 12, 8, FLOATING, np.float64)
complex64: dtype = dtype("complex64", "c64", 13, 8, COMPLEX, np.complex64)
complex128: dtype = dtype("complex128", "c128", 14, 16, COMPLEX, np.complex128)
complex32: dtype = dtype("complex32", "c32", 15, 4, COMPLEX, "V4")

float8_e4m3fn: dtype = dtype("float8_e4m3fn", "f8e4m3fn", 16, 1, FLOATING, ml_dtypes.float8_e4m3fn)
float8_e5m2: dtype = dtype("float8_e5m2", "f8e5m2", 17, 1, FLOATING, ml_dtypes.float8_e5m2)
float8_e4m3fnuz: dtype = dtype(
    "float8_e4m3fnuz", "f8e4m3fnuz", 18, 1, FLOATING, ml_dtypes.float8_e4m3fnuz
)
float8_e5m2fnuz: dtype = dtype(
    "float8_e5m2fnuz", "f8e5m2fnuz", 19, 1, FLOATING, ml_dtypes.float8_e5m2fnuz
)
float8_e8m0fnu: dtype = dtype(
    "float8_e8m0fnu", "f8e8m0fnu", 20, 1, FLOATING, ml_dtypes.float8_e8m0fnu
)

# Dtypes that have loops and kernels, in the order of their codes.
ALL = (
    bool_, uint8, int8, uint16, int16, uint32, int32, uint64, int64,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip
# All dtypes that kernels accept; complex32 is computed in complex64.
STORED = (*ALL, complex32)
# Dtypes that tensors can store, move and cast, but in which no operator computes.
FLOAT8 = (float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu)
# All dtypes that tensors can have, in the order of their codes.
HELD = (*STORED, *FLOAT8)
# PyTorch's aliases.
ALIASES = {
    "half": float16, "float": float32, "double": float64, "short": int16, "int": int32,
    "long": int64, "chalf": complex32, "cfloat": complex64, "cdouble": complex128,
}  # fmt: skip

_REAL = {complex32: float16, complex64: float32, complex128: float64}
_TWIN = {
    float16: complex32, bfloat16: complex64, float32: complex64, float64: complex128,
    complex32: complex32, complex64: complex64, complex128: complex128,
}  # fmt: skip
_FROM_NUMPY = {d.np: d for d in (*ALL, *FLOAT8)}
_OF_OURS = {d.np: d for d in HELD}
_NAMES = {d.name: d for d in HELD}


def by_name(name: str) -> dtype:
    return _NAMES[name]


_by_name = by_name  # the name of `by_name` in pickles that older versions wrote


def of_ours(array_type: np.dtype) -> dtype:
    """Return the dtype for `array_type`, the NumPy dtype of an ndarray that gputensor made."""
    return _OF_OURS[array_type]


def from_numpy(np_type: np.dtype) -> dtype | None:
    """Return the dtype for NumPy's `np_type` in native byte order. Return None for opaque bytes,
    which have a dtype (complex32) only in arrays that gputensor made."""
    return _FROM_NUMPY.get(np_type)
