"""finfo and iinfo: the range and precision of dtypes, with PyTorch's names and text."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..core import errors
from ..core.arguments import element_type
from ..core.dtype import FLOATING, INTEGER, bfloat16, dtype
from ..dispatch import defaults

# The decimal resolutions in PyTorch. NumPy rounds the resolution of bfloat16 differently.
_RESOLUTION = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-15}


class finfo:
    """Limits of a floating dtype. A complex dtype has the limits of its real part. Without an
    argument, the default dtype is used.

    Attributes: bits, eps, max, min, smallest_normal, tiny (equal to smallest_normal), resolution,
    and dtype, which is the dtype's name.
    """

    __slots__ = ("bits", "eps", "max", "min", "smallest_normal", "tiny", "resolution", "dtype")
    smallest_normal: float
    tiny: float

    def __init__(self, type: dtype | None = None) -> None:
        if type is None:
            given = defaults.get_default_dtype()
        else:
            given = element_type("finfo", type, "type")
        if given.category < FLOATING:
            rule = "be a floating-point or complex dtype"
            raise errors.wrong_type("finfo", "type", rule, given, remedy="use iinfo for integers")
        real = given.to_real
        info: Any = ml_dtypes.finfo if real is bfloat16 or real.is_float8 else np.finfo
        limits = info(real.np)
        self.bits: int = real.itemsize * 8
        self.eps: float = float(limits.eps)
        self.max: float = float(limits.max)
        self.min: float = float(limits.min)
        self.smallest_normal = self.tiny = float(limits.smallest_normal)
        self.resolution: float = _RESOLUTION.get(real.name, 1.0)
        self.dtype: str = real.name

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((finfo, self.dtype))


class iinfo:
    """Limits of an integer dtype. Attributes: bits, max, min, and dtype, which is the dtype's
    name."""

    __slots__ = ("bits", "max", "min", "dtype")

    def __init__(self, type: dtype) -> None:
        given = element_type("iinfo", type, "type")
        if given.category != INTEGER:
            remedy = "use finfo for floating-point dtypes"
            raise errors.wrong_type("iinfo", "type", "be an integer dtype", given, remedy=remedy)
        self.bits: int = given.itemsize * 8
        self.max: int = (1 << (self.bits - given.is_signed)) - 1
        self.min: int = -self.max - 1 if given.is_signed else 0
        self.dtype: str = given.name

    def __repr__(self) -> str:
        # PyTorch prints min and max as floats. Here they are exact integers.
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((iinfo, self.dtype))
