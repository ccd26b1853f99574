"""The Python array API standard over gputensor's operators: `x.__array_namespace__()`.

    >>> import gputensor as gt
    >>> x = gt.arange(6.0).reshape(2, 3)
    >>> xp = x.__array_namespace__()
    >>> xp.mean(x, axis=0, keepdims=True)
    tensor([[1.5000, 2.5000, 3.5000]])

There is a module for each chapter of the standard. The functions have the standard's names,
arguments and promotion, and call gputensor's operators.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from math import e as e, inf as inf, nan as nan, pi as pi

from gputensor import (
    bool as bool, complex64 as complex64, complex128 as complex128, float32 as float32,
    float64 as float64, int8 as int8, int16 as int16, int32 as int32, int64 as int64,
    uint8 as uint8, uint16 as uint16, uint32 as uint32, uint64 as uint64,
)  # fmt: skip

from ..core import lazy as _lazy
from . import fft as fft, linalg as linalg
from .creation import (
    arange as arange, asarray as asarray, empty as empty, empty_like as empty_like, eye as eye,
    from_dlpack as from_dlpack, full as full, full_like as full_like, linspace as linspace,
    meshgrid as meshgrid, ones as ones, ones_like as ones_like, tril as tril, triu as triu,
    zeros as zeros, zeros_like as zeros_like,
)  # fmt: skip
from .dtypes import (
    astype as astype, can_cast as can_cast, finfo as finfo, iinfo as iinfo, isdtype as isdtype,
    result_type as result_type,
)  # fmt: skip
from .elementwise import (
    abs as abs, acos as acos, acosh as acosh, add as add, asin as asin, asinh as asinh,
    atan as atan, atan2 as atan2, atanh as atanh, bitwise_and as bitwise_and,
    bitwise_invert as bitwise_invert, bitwise_left_shift as bitwise_left_shift,
    bitwise_or as bitwise_or, bitwise_right_shift as bitwise_right_shift,
    bitwise_xor as bitwise_xor, ceil as ceil, clip as clip, conj as conj, copysign as copysign,
    cos as cos, cosh as cosh, divide as divide, equal as equal, exp as exp, expm1 as expm1,
    floor as floor, floor_divide as floor_divide, greater as greater,
    greater_equal as greater_equal, hypot as hypot, imag as imag, isfinite as isfinite,
    isinf as isinf, isnan as isnan, less as less, less_equal as less_equal, log as log,
    log10 as log10, log1p as log1p, log2 as log2, logaddexp as logaddexp,
    logical_and as logical_and, logical_not as logical_not, logical_or as logical_or,
    logical_xor as logical_xor, maximum as maximum, minimum as minimum, multiply as multiply,
    negative as negative, nextafter as nextafter, not_equal as not_equal, positive as positive,
    pow as pow, real as real, reciprocal as reciprocal, remainder as remainder, round as round,
    sign as sign, signbit as signbit, sin as sin, sinh as sinh, sqrt as sqrt, square as square,
    subtract as subtract, tan as tan, tanh as tanh, trunc as trunc,
)  # fmt: skip
from .info import __array_namespace_info__ as __array_namespace_info__
from .linear_algebra import (
    matmul as matmul, matrix_transpose as matrix_transpose, tensordot as tensordot,
    vecdot as vecdot,
)  # fmt: skip
from .manipulation import (
    broadcast_arrays as broadcast_arrays, broadcast_shapes as broadcast_shapes,
    broadcast_to as broadcast_to, concat as concat, expand_dims as expand_dims, flip as flip,
    moveaxis as moveaxis, permute_dims as permute_dims, repeat as repeat, reshape as reshape,
    roll as roll, squeeze as squeeze, stack as stack, tile as tile, unstack as unstack,
)  # fmt: skip
from .searching import (
    argmax as argmax, argmin as argmin, argsort as argsort, count_nonzero as count_nonzero,
    isin as isin, nonzero as nonzero, searchsorted as searchsorted, sort as sort, take as take,
    take_along_axis as take_along_axis, unique_all as unique_all, unique_counts as unique_counts,
    unique_inverse as unique_inverse, unique_values as unique_values, where as where,
)  # fmt: skip
from .statistical import (
    all as all, any as any, cumulative_prod as cumulative_prod, cumulative_sum as cumulative_sum,
    diff as diff, max as max, mean as mean, min as min, prod as prod, std as std, sum as sum,
    var as var,
)  # fmt: skip

newaxis = None
__array_api_version__ = "2025.12"
_CHAPTERS = {
    "creation", "dtypes", "elementwise", "info", "linear_algebra", "manipulation", "searching",
    "statistical",
}  # fmt: skip
__all__ = [n for n in globals() if n.isidentifier() and n[0] != "_" and n not in _CHAPTERS]

if not _TYPE_CHECKING:
    __getattr__, __dir__ = _lazy.attributes(globals())
