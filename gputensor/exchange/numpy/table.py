"""The table from NumPy's functions to our operators. protocol.py states the rules for its use."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from ...core import dtype as dtypes

# Ufuncs that are Python operators, such as `+`. One operand may be a number.
OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "divide": operator.truediv, "floor_divide": operator.floordiv, "remainder": operator.mod,
    "power": operator.pow, "matmul": operator.matmul, "equal": operator.eq,
    "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "bitwise_and": operator.and_,
    "bitwise_or": operator.or_, "bitwise_xor": operator.xor, "left_shift": operator.lshift,
    "right_shift": operator.rshift, "negative": operator.neg, "invert": operator.inv,
}  # fmt: skip

# Maps all other ufuncs to names in gputensor. The text lists names that NumPy and gputensor share.
UFUNCS = {
    name: name
    for name in """
    absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh ceil copysign cos cosh deg2rad
    exp exp2 expm1 float_power floor fmax fmin fmod frexp gcd heaviside hypot isfinite isinf isnan
    lcm ldexp log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or
    logical_xor maximum minimum nextafter positive rad2deg sign signbit sin sinh sqrt square tan
    tanh trunc
    """.split()
} | {
    "conjugate": "conj_physical", "degrees": "rad2deg", "fabs": "abs", "radians": "deg2rad",
    "reciprocal": "reciprocal", "rint": "round",
}  # fmt: skip

# Maps a ufunc to the NumPy function that computes its `reduce` (REDUCTIONS) or its `accumulate`
# (RUNNING). _ROWS has the row of this function.
REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all",
    "logical_or": "any",
}  # fmt: skip
RUNNING = {"add": "cumsum", "multiply": "cumprod"}

# A row has NumPy's function, our function, and NumPy's parameters in order. Our function gets the
# parameters before the slash by position and the parameters after the slash by name. `theirs=ours`
# gives both names of a parameter if they differ. "-" is a parameter that our function lacks. `-out`
# is an `out` that our function lacks, for which a call may pass None. Our function is taken from
# gputensor.array_api if it is defined there, otherwise from gt.
_ROWS = """
all               all              a / axis -out keepdims
amax              elsewhere.amax   a / axis -out keepdims
amin              elsewhere.amin   a / axis -out keepdims
any               any              a / axis -out keepdims
argmax            argmax           a / axis -out keepdims
argmin            argmin           a / axis -out keepdims
argsort           argsort          a / axis
astype            astype           x dtype / copy
broadcast_to      broadcast_to     array shape /
clip              clip             a a_min a_max /
concatenate       concat           arrays / axis
copy              clone            a /
count_nonzero     count_nonzero    a / axis keepdims
cumsum            cumulative_sum   a / axis dtype -out
cumprod           cumulative_prod  a / axis dtype -out
diagonal          diagonal         a / offset axis1=dim1 axis2=dim2
diff              diff             a / n axis
expand_dims       expand_dims      a axis /
flip              flip             m / axis
imag              imag             val /
isclose           isclose          a b / rtol atol equal_nan
isin              isin             element test_elements / - invert
kron              kron             a b /
linalg.cholesky   linalg.cholesky  a /
linalg.det        linalg.det       a /
linalg.inv        linalg.inv       a /
linalg.qr         linalg.qr        a / mode
linalg.solve      linalg.solve     a b /
linalg.svd        linalg.svd       a / full_matrices
matrix_transpose  matrix_transpose x /
max               elsewhere.amax   a / axis -out keepdims
mean              mean            a / axis -dtype -out keepdims
min               elsewhere.amin   a / axis -out keepdims
moveaxis          moveaxis         a source destination /
nan_to_num        nan_to_num       x / - nan posinf neginf
nansum            nansum           a / axis=dim dtype -out keepdims=keepdim
nonzero           nonzero          a /
outer             outer            a b /
prod              prod             a / axis dtype -out keepdims
ravel             ravel            a /
real              real             val /
repeat            repeat           a repeats / axis
reshape           reshape          a shape /
roll              roll             a shift / axis
round             gt.round         a / decimals
searchsorted      searchsorted     a v / side sorter
sort              sort             a / axis
stack             stack            arrays / axis
std               std             a / axis -dtype -out ddof=correction keepdims
sum               sum              a / axis dtype -out keepdims
swapaxes          swapaxes         a axis1 axis2 /
take_along_axis   take_along_axis  arr indices / axis
tensordot         tensordot        a b / axes
trace             trace            a /
transpose         permute_dims     a axes /
tril              tril             m / k
triu              triu             m / k
unstack           unstack          x / axis
var               var             a / axis -dtype -out ddof=correction keepdims
vstack            vstack           tup /
where             where            condition x y /
"""


def _element(given: Any) -> dtypes.dtype:
    found = dtypes.from_numpy(np.dtype(given))
    if found is None:
        raise KeyError(given)
    return found


class Row:
    """One row of the table: how calls of a NumPy function become calls of our function."""

    __slots__ = ("_target", "_names", "_ours", "_first")

    def __init__(self, target: str, parameters: list[str]) -> None:
        self._target, self._first = target, parameters.index("/")
        parameters = parameters[: self._first] + parameters[self._first + 1 :]
        self._names = [name.partition("=")[0] for name in parameters]
        self._ours = {name.partition("=")[0]: name.partition("=")[2] for name in parameters}

    def call(self, count: int, keywords: tuple[str, ...]) -> Call | None:
        """Return the Call for this number of positional arguments and these keywords, or None if
        our function lacks an argument."""
        if count > len(self._names):
            return None
        given = [
            f"-{name}" if f"-{name}" in self._names else name
            for name in (*self._names[:count], *keywords)
        ]
        first = self._names[: self._first]
        if not {*first} <= {*given} <= {*self._names} - {"-"}:
            return None
        absent = [place for place, name in enumerate(given) if name.startswith("-")]
        more = [name for name in given if name not in first and not name.startswith("-")]
        order = [given.index(name) for name in (*first, *more)]
        return Call(
            self._found(), order if order != [*range(len(given))] else None, absent,
            given.index("dtype") if "dtype" in given else None, "dtype" in first, len(first),
            [self._ours[name] or name for name in more],
        )  # fmt: skip

    def _found(self) -> Callable[..., Any]:
        """Return our function."""
        home, _, name = self._target.rpartition(".")
        standard: Any = import_module("gputensor.array_api")
        if home == "elsewhere":
            standard = import_module("gputensor.array_api.numpy_elsewhere")
        elif home == "linalg":
            standard = standard.linalg
        elif home or not hasattr(standard, name):
            standard = import_module("gputensor")
        found: Callable[..., Any] = getattr(standard, name)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """Description of a call of our function. It is used for all NumPy calls with the same number of
    positional arguments and the same keywords."""

    # order: the position of each of our arguments among NumPy's arguments; None if the orders are
    # equal. absent: the positions of NumPy's arguments that our function lacks. dtype: the position
    # of the dtype argument. first: how many arguments our function takes by position. names: the
    # keywords of the remaining arguments.
    target: Callable[..., Any]
    order: list[int] | None
    absent: list[int]
    dtype: int | None
    needs_dtype: bool
    first: int
    names: list[str]

    def __call__(self, given: list[Any]) -> Any:
        """Call our function. Raises: KeyError for an argument value that it does not support."""
        for place in self.absent:
            if given[place] is not None:
                raise KeyError(place)
        if self.dtype is not None:
            element = given[self.dtype]
            if element is None:
                if self.needs_dtype:
                    raise KeyError(element)
            elif type(element) is not dtypes.dtype:
                given[self.dtype] = _element(element)
        if self.order is not None:
            given = [given[place] for place in self.order]
        return self.target(*given[: self.first], **dict(zip(self.names, given[self.first :])))


# Functions that array_api/numpy_elsewhere.py computes on devices other than the CPU. On the CPU,
# NumPy computes them.
_ROWS_ELSEWHERE = """
angle             elsewhere.angle         z / deg
argpartition      elsewhere.argpartition  a kth / axis
bincount          elsewhere.bincount      x / weights minlength
diag              elsewhere.diag          v / k
diff              elsewhere.diff          a / n axis prepend append
digitize          elsewhere.digitize      x bins / right
dot               elsewhere.dot           a b / -out
fix               elsewhere.fix           x / -out
histogram         elsewhere.histogram     a / bins range - weights
i0                gt.i0                   x /
iscomplex         elsewhere.iscomplex     x /
isreal            elsewhere.isreal        x /
linspace          elsewhere.linspace      start stop / num endpoint - dtype axis
median            elsewhere.median        a / axis -out - keepdims
nanargmax         elsewhere.nanargmax     a / axis -out keepdims
nanargmin         elsewhere.nanargmin     a / axis -out keepdims
nanmax            elsewhere.nanmax        a / axis -out keepdims
nanmin            elsewhere.nanmin        a / axis -out keepdims
nanprod           elsewhere.nanprod       a / axis dtype -out keepdims
partition         elsewhere.partition     a kth / axis
percentile        elsewhere.percentile    a q / axis -out - method keepdims
quantile          elsewhere.quantile      a q / axis -out - method keepdims
ravel_multi_index elsewhere.ravel_multi_index multi_index dims /
sinc              gt.sinc                 x /
take              elsewhere.take          a indices / axis
unique            elsewhere.unique        ar / return_index return_inverse return_counts
unravel_index     gt.unravel_index        indices shape /
"""


def _read(rows: str) -> dict[str, Row]:
    return {
        name: Row(target, parameters)
        for name, target, *parameters in map(str.split, rows.strip().splitlines())
    }


FUNCTIONS, ELSEWHERE = _read(_ROWS), _read(_ROWS_ELSEWHERE)
