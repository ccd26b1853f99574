"""Random programs over the families that have compiled loops.

A program depends only on its seed, so that all capabilities run the same one. Each step has a rule
to compare its results at two capabilities. Only results with equal bits everywhere are operands of
later steps, so that a difference of one ulp does not spread.

The command `python -m tests.kernels.library.programs FIRST LAST FILE` runs programs FIRST to LAST,
each with one thread and with two, and pickles the results to a file.
"""

from __future__ import annotations

import pickle
import random
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gputensor as gt
from gputensor.core import errors

STEPS = 10

FLOATS = (gt.float32, gt.float64, gt.float16, gt.bfloat16)
SINGLES = (gt.float32, gt.float64)
INTEGERS = (gt.int64, gt.int32, gt.int16, gt.int8, gt.uint8)
COMPLEXES = (gt.complex64, gt.complex128)
REALS = (*FLOATS, *INTEGERS)
ALL = (*REALS, gt.bool, *COMPLEXES)

# Sizes with whole vectors of every width and a remainder; several dimensions; sizes at which
# several threads share the work.
SIZES: list[tuple[int, ...]] = [
    (), (0, 3), (1,), (7,), (5, 1), (1, 9), (3, 17), (33,), (2, 3, 4), (64, 5), (9, 65), (4, 1, 31),
    (2, 5, 3, 7), (130,), (3, 257), (300, 257), (70_001,), (2, 66_000), (40, 33, 50),
]  # fmt: skip
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, -1e-45, 65504.0, 3e38, float("inf"), float("-inf")]
SPECIAL += [float("nan"), 2.0**31, -(2.0**63), 88.0, -104.0]


class Rule(NamedTuple):
    """The allowed difference between NumPy's and compiled loops: none if `ulp` is 0, otherwise this
    number of ulp of each element. With `of_largest` the unit is that of the largest element,
    because errors of a sum have the size of its terms. zeros_equal: the sign of a zero may differ,
    as for the maximum of 0 and -0."""

    ulp: float = 0
    of_largest: bool = False
    zeros_equal: bool = False


class Result(NamedTuple):
    """eps: the distance from 1 to the next number of the tensor's dtype; 0 for integers."""

    values: np.ndarray
    eps: float


class Step(NamedTuple):
    """text: the call with its operands, for failures. size: the sum of the magnitudes of the terms,
    if it is larger than the result. results: empty for a call that raised."""

    text: str
    rule: Rule
    size: float
    results: list[Result]


BITS = Rule()
ZEROS_EQUAL = Rule(zeros_equal=True)


class Draw:
    """The source of a program's operands. values: "any" has infinities, NaN and denormals; "calm"
    has none of these and no number above 4."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.pool: list[gt.Tensor] = []
        self.text: list[str] = []
        self.size = 0.0

    def chance(self, of: float) -> bool:
        return self.choose.random() < of

    def pick(self, *choices: Any) -> Any:
        """Choose one of the values, and write it into the step's text."""
        found = self.choose.choice(choices)
        self.text.append(repr(found))
        return found

    def tensor(
        self, dtypes: tuple[Any, ...], sizes: tuple[int, ...] | None = None, values: str = "calm"
    ) -> gt.Tensor:
        """Return a tensor of one of the dtypes: a new one, or perhaps an older result if any values
        are allowed."""
        older = [x for x in self.pool if x.dtype in dtypes]
        if older and sizes is None and values == "any" and self.chance(0.6):
            return self._said(self.choose.choice(older))
        of = self.choose.choice(dtypes)
        sizes = self.choose.choice(SIZES) if sizes is None else sizes
        return self._said(self._laid_out(self._filled(sizes, of, values)))

    def beside(
        self, x: gt.Tensor, dtypes: tuple[Any, ...] | None = None, values: str = "any"
    ) -> gt.Tensor:
        """Return a tensor that broadcasts with x, mostly of x's dtype."""
        kept = tuple([n if self.chance(0.8) else 1 for n in x.shape])
        kept = kept[self.choose.randrange(len(kept) + 1) if self.chance(0.2) else 0 :]
        of = dtypes or ((x.dtype,) if self.chance(0.7) else ALL)
        return self.tensor(of, kept, values)

    def number(self) -> Any:
        return self.pick(0, 1, -2, 3, 0.5, -0.0, 1e-3, 2.5, True)

    def dim(self, x: gt.Tensor) -> int:
        return int(self.pick(*range(-x.ndim, x.ndim))) if x.ndim else 0

    def dims(self, x: gt.Tensor) -> Any:
        found = [d for d in range(x.ndim) if self.chance(0.5)]
        self.text.append(repr(found))
        return found

    def places(self, sizes: tuple[int, ...], below: int) -> gt.Tensor:
        of = self.choose.choice([gt.int64, gt.int32])
        found = gt.tensor(self.numbers.integers(0, max(below, 1), sizes)).to(of)
        return self._said(found if of is gt.int64 else found.to(gt.int64))

    def summed(self, x: gt.Tensor, times: float = 1) -> None:
        """Record the sum of the magnitudes of all elements of x."""
        values = np.abs(wide(result_of(x).values))
        self.size = times * float(np.where(np.isfinite(values), values, 0).sum())

    def _said(self, x: gt.Tensor) -> gt.Tensor:
        self.text.append(f"{str(x.dtype).partition('.')[2]}{list(x.shape)}/{list(x.stride())}")
        return x

    def _filled(self, sizes: tuple[int, ...], of: Any, values: str) -> gt.Tensor:
        draw = self.numbers
        if of is gt.bool:
            return gt.tensor(draw.random(sizes) < 0.5)
        if of in INTEGERS:
            info = gt.iinfo(of)
            low, high = (info.min, info.max) if values == "any" and self.chance(0.5) else (-4, 4)
            low = max(low, info.min)
            return gt.tensor(draw.integers(low, high, sizes, endpoint=True)).to(of)
        found = np.clip(draw.standard_normal(sizes), -4, 4)
        if values == "any":
            found = found * np.exp2(draw.integers(-6, 8, sizes))
            found = np.where(draw.random(sizes) < 0.1, draw.choice(SPECIAL, sizes), found)
        made = gt.tensor(found)
        if of in COMPLEXES:
            made = gt.complex(made, gt.tensor(np.clip(draw.standard_normal(sizes), -4, 4)))
        return made.to(of)

    def _laid_out(self, x: gt.Tensor) -> gt.Tensor:
        """Return the same values, perhaps as a view that is not dense."""
        if not x.ndim or not self.chance(0.5):
            return x
        way = self.choose.choice(["transposed", "stepped", "gapped", "expanded", "halved"])
        if way == "transposed":
            return x.transpose(0, -1).contiguous().transpose(0, -1)
        if way == "stepped":
            return gt.stack([x, x], -1)[..., 1]
        if way == "gapped":
            return gt.cat([x, x[..., :1]], -1)[..., : x.shape[-1]]
        if way == "expanded":
            return x[:1].expand(x.shape)
        return gt.cat([x, x], 0)[len(x) :]  # begins in the middle of memory


Call = Callable[[Draw], Any]
TABLE: dict[str, tuple[Rule, Call]] = {}


def _function(name: str) -> Callable[..., Any]:
    for place in (gt.nn.functional, gt, gt.linalg):
        if hasattr(place, name):
            return getattr(place, name)  # type: ignore[no-any-return]
    raise AttributeError(name)


def _add(rule: Rule, names: str, call: Callable[[Callable[..., Any], Draw], Any]) -> None:
    for name in names.split():
        function = _function(name)
        TABLE[name] = rule, lambda d, f=function: call(f, d)


def _unary(dtypes: tuple[Any, ...], values: str = "any") -> Callable[..., Any]:
    return lambda f, d: f(d.tensor(dtypes, values=values))


def _binary(dtypes: tuple[Any, ...]) -> Callable[..., Any]:
    """Return two tensors that broadcast, or a tensor and a number."""

    def call(f: Callable[..., Any], d: Draw) -> Any:
        x = d.tensor(dtypes, values="any")
        if dtypes is not INTEGERS and d.chance(0.2):
            return f(x, d.number())
        return f(x, d.beside(x, dtypes if d.chance(0.3) else (x.dtype,)))

    return call


def _beside(dtypes: tuple[Any, ...], others: tuple[Any, ...] | None = None) -> Callable[..., Any]:
    """Return two calm tensors that broadcast: of one dtype, or the second of a dtype in
    `others`."""

    def call(f: Callable[..., Any], d: Draw) -> Any:
        x = d.tensor(dtypes)
        return f(x, d.beside(x, others or (x.dtype,), "calm"))

    return call


# --- arithmetic, comparisons, casts ---------------------------------------------------------------

_add(BITS, "abs neg sign square isfinite isinf isnan logical_not", _unary((*REALS, *FLOATS)))
_add(BITS, "ceil floor trunc round frac reciprocal sqrt signbit", _unary(FLOATS))
_add(ZEROS_EQUAL, "relu relu6 hardtanh hardsigmoid hardswish", _unary(FLOATS))
_add(BITS, "hardshrink softshrink", _unary(FLOATS))
_add(BITS, "leaky_relu nan_to_num deg2rad rad2deg", _unary(FLOATS))
_add(BITS, "bitwise_not", _unary((*INTEGERS, gt.bool)))
_add(BITS, "add mul", _binary((*REALS, gt.bool)))
_add(ZEROS_EQUAL, "maximum minimum fmax fmin", _binary(REALS))
_add(BITS, "sub div remainder floor_divide fmod", _binary(REALS))
_add(BITS, "copysign nextafter heaviside", _beside(FLOATS))
_add(BITS, "eq ne lt le gt ge logical_and logical_or logical_xor", _binary((*REALS, gt.bool)))
_add(BITS, "bitwise_and bitwise_or bitwise_xor", _binary(INTEGERS))
_add(BITS, "gcd", _beside(INTEGERS))
_add(
    BITS, "bitwise_left_shift bitwise_right_shift",
    lambda f, d: f(d.tensor(INTEGERS, values="any"), d.pick(0, 1, 3)),
)  # fmt: skip


def _where(f: Callable[..., Any], d: Draw) -> Any:
    x = d.tensor(REALS, values="any")
    return f(d.beside(x, (gt.bool,)), x, d.beside(x))


def _ternary(f: Callable[..., Any], d: Draw) -> Any:
    x = d.tensor(FLOATS, values="any")
    return f(x, d.beside(x, (x.dtype,)), d.beside(x, (x.dtype,)))


def _cast(f: Callable[..., Any], d: Draw) -> Any:
    return d.tensor(ALL, values="any").to(d.pick(*ALL))


_add(BITS, "where", _where)
_add(BITS, "addcmul addcdiv", _ternary)
_add(ZEROS_EQUAL, "clamp lerp", _ternary)
TABLE["to"] = BITS, lambda d: _cast(gt.add, d)

# --- copies and places ----------------------------------------------------------------------------


def _copied(f: Callable[..., Any], d: Draw) -> Any:
    x = d.tensor(ALL, values="any")
    return f(x) if f in (gt.clone, gt.ravel) else f(x, d.dims(x))


def _joined(f: Callable[..., Any], d: Draw) -> Any:
    x = d.tensor(ALL, values="any")
    return f([x, d.tensor((x.dtype,), tuple(x.shape), "any"), x], d.dim(x)) if x.ndim else x


def _of_places(f: Callable[..., Any], d: Draw) -> Any:
    x = d.tensor(ALL, values="any")
    if not x.ndim or 0 in x.shape:
        return x.clone()
    dim = d.dim(x)
    if f is gt.index_select:
        return f(x, dim, d.places((d.pick(1, 6, 40),), x.shape[dim]))
    sizes = list(x.shape)
    sizes[dim] = d.pick(1, 2, 11)
    return f(x, dim, d.places(tuple(sizes), x.shape[dim]))


def _to_places(f: Callable[..., Any], d: Draw) -> Any:
    """Use integers if an index may occur twice, because sums of floats depend on the order of
    additions."""
    x = d.tensor(INTEGERS, values="any")
    if not x.ndim or 0 in x.shape:
        return x.clone()
    dim, count = d.dim(x), d.pick(1, 3, 30)
    sizes = list(x.shape)
    sizes[dim] = count
    of_lines = f in (gt.index_add, gt.index_copy)
    if f is gt.index_copy:  # with repeated indices, the last write would decide
        sizes[dim] = count = min(count, x.shape[dim])
        places = gt.tensor(d.numbers.permutation(x.shape[dim])[:count])
    else:
        places = d.places((count,) if of_lines else tuple(sizes), x.shape[dim])
    return f(x, dim, places, d.tensor((x.dtype,), tuple(sizes), "any"))


def _masked(f: Callable[..., Any], d: Draw) -> Any:
    x = d.tensor(ALL, values="any")
    mask = d.beside(x, (gt.bool,))
    return f(x, mask, 1) if f is gt.masked_fill else f(x, mask)


def _triangle(f: Callable[..., Any], d: Draw) -> Any:
    return f(d.tensor(ALL, d.pick((3, 17), (40, 40), (2, 5, 3, 7)), "any"), d.pick(-1, 0, 2))


_add(BITS, "clone ravel flip", _copied)
_add(BITS, "cat stack", _joined)
_add(BITS, "gather index_select", _of_places)
_add(BITS, "scatter_add index_add index_copy", _to_places)
_add(BITS, "masked_fill masked_select", _masked)
_add(BITS, "nonzero", _unary((*REALS, gt.bool)))
_add(BITS, "tril triu", _triangle)
_add(BITS, "searchsorted", lambda f, d: f(d.tensor(SINGLES, (65,)).sort()[0], d.tensor(SINGLES)))
_add(BITS, "bincount", lambda f, d: f(d.places((d.pick(0, 9, 70_001),), 50)))
_add(BITS, "histc", lambda f, d: f(d.tensor(SINGLES), 7, -2, 3))


def _of_rows(dtypes: tuple[Any, ...], values: str = "any") -> Callable[..., Any]:
    """Run an operator along one dimension."""

    def call(f: Callable[..., Any], d: Draw) -> Any:
        x = d.tensor(dtypes, values=values)
        while not x.ndim or 0 in x.shape:
            x = d.tensor(dtypes, values=values)
        d.summed(x)
        return f(x, d.dim(x))

    return call


def _ordered(f: Callable[..., Any], d: Draw) -> Any:
    x = d.tensor(REALS, d.pick((7,), (9, 65), (3, 257), (300, 257), (70_001,)))
    return f(x, d.pick(1, 3, 7))


_add(BITS, "argmax argmin cummax cummin sort argsort any all", _of_rows(REALS))
_add(ZEROS_EQUAL, "amax amin", _of_rows(REALS))
_add(BITS, "count_nonzero median", _of_rows(REALS))
_add(BITS, "kthvalue", _ordered)
_add(BITS, "topk", lambda f, d: _ordered(f, d)[0])  # equal values may have any order
_add(BITS, "adaptive_max_pool2d", lambda f, d: f(d.tensor(REALS, (2, 3, 9, 70), "any"), (2, 7)))
_add(BITS, "sum prod cumsum cumprod", _of_rows((*INTEGERS, gt.bool)))
for _name in ("sum", "prod", "cumsum", "cumprod"):
    TABLE[f"{_name} of integers"] = TABLE.pop(_name)

# --- random numbers -------------------------------------------------------------------------------

_RANDOM_SIZES = ((), (7,), (3, 257), (70_001,))
_add(BITS, "rand", lambda f, d: f(d.pick(*_RANDOM_SIZES), dtype=d.pick(*FLOATS)))
_add(BITS, "randint", lambda f, d: f(-3, 1000, d.pick(*_RANDOM_SIZES)))
_add(BITS, "randperm", lambda f, d: f(d.pick(0, 1, 100, 5000)))
_add(BITS, "bernoulli", lambda f, d: f(d.tensor(SINGLES).clamp(0, 1)))
_add(BITS, "dropout", lambda f, d: f(d.tensor(FLOATS), 0.4, True))

# --- elementary functions -------------------------------------------------------------------------

# Compiled functions are within 2 ulp (docs/measurements/numbers.md); NumPy's are within 4 ulp in
# f32, by its documentation.
ELEMENTARY = Rule(6)
# Several functions with roundings between them: tests/rows/activation.py.
SEVERAL = Rule(64)
_add(ELEMENTARY, "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan", _unary(FLOATS))
_add(ELEMENTARY, "sinh cosh tanh asinh acosh atanh erf rsqrt sigmoid", _unary(FLOATS))
_add(ELEMENTARY, "pow atan2 hypot", _beside(FLOATS, REALS))
_add(Rule(64, of_largest=True), "erfc", _unary(FLOATS))  # SciPy's tail is inexact
_add(SEVERAL, "silu mish elu selu softplus logsigmoid", _unary(FLOATS, "calm"))
# 1 + erf has few correct digits in its tail, as in PyTorch.
_add(Rule(64, of_largest=True), "gelu", _unary(FLOATS, "calm"))
_add(SEVERAL, "logaddexp logaddexp2", _beside((gt.uint8, gt.bool), SINGLES))
_add(ELEMENTARY, "randn", lambda f, d: f(d.pick(*_RANDOM_SIZES), dtype=d.pick(*FLOATS)))

# --- sums -----------------------------------------------------------------------------------------

# NumPy adds rows pairwise, and columns and scans one by one, some 70,000 numbers at most here.
SUMS = Rule(512, of_largest=True)
_add(SUMS, "sum mean var std cumsum nansum logsumexp softmax log_softmax", _of_rows(FLOATS, "calm"))
_add(
    SUMS, "prod cumprod logcumsumexp", lambda f, d: f(d.tensor(SINGLES, d.pick((7,), (3, 17))), -1)
)
_add(SUMS, "norm vector_norm", lambda f, d: f(d.tensor(SINGLES), d.pick(1, 2, 3, float("inf"))))


def _several_dims(f: Callable[..., Any], d: Draw) -> Any:
    x = d.tensor(SINGLES)
    d.summed(x)
    return f(x, d.dims(x), d.chance(0.5))


TABLE["sum over several dimensions"] = SUMS, lambda d: _several_dims(gt.sum, d)


def _normalised(f: Callable[..., Any], d: Draw) -> Any:
    x = d.tensor(FLOATS, d.pick((3, 17), (9, 65), (2, 6, 5, 7), (300, 258), (40, 30, 50)))
    of = x.dtype
    if f in (gt.nn.functional.layer_norm, gt.nn.functional.rms_norm):
        weight = d.tensor((of,), (x.shape[-1],))
        return f(x, weight.shape, weight)
    weight, bias = d.tensor((of,), (x.shape[1],)), d.tensor((of,), (x.shape[1],))
    if f is gt.nn.functional.group_norm:
        groups = next(n for n in (3, 2, 5, 17) if x.shape[1] % n == 0)
        return f(x, groups, weight, bias)
    return f(x, None, None, weight, bias, True)


def _products(f: Callable[..., Any], d: Draw) -> Any:
    of, count = d.pick(*SINGLES, *COMPLEXES), d.pick(1, 3, 40)
    m, k, n = (d.pick(1, 4, 7, 33) for _ in range(3))
    a, b = d.tensor((of,), (count, m, k)), d.tensor((of,), (count, k, n))
    d.summed(a, 4)
    return f(a, b)


def _square(d: Draw) -> gt.Tensor:
    """Return a batch of well conditioned matrices, with a dominant diagonal."""
    of, count, n = d.pick(*SINGLES, *COMPLEXES), d.pick(1, 5, 40), d.pick(1, 2, 5, 17)
    return d.tensor((of,), (count, n, n)) + 8 * n * gt.eye(n, dtype=of)


def _solved(f: Callable[..., Any], d: Draw) -> Any:
    a = _square(d)
    return f(a, d.tensor((a.dtype,), (len(a), a.shape[-1], 2)))


_add(SUMS, "layer_norm rms_norm group_norm batch_norm", _normalised)
_add(SUMS, "bmm", _products)
_add(SUMS, "inv det", lambda f, d: f(_square(d)))
_add(SUMS, "solve", _solved)
_add(SUMS, "cholesky", lambda f, d: f((a := _square(d)) + a.mH))
_add(SUMS, "eigvalsh", lambda f, d: f((a := _square(d)) + a.mH))
_add(SUMS, "svdvals", lambda f, d: f(_square(d)))
_add(SUMS, "matrix_exp", lambda f, d: f(_square(d) / 64))
_add(SUMS, "cross_entropy", lambda f, d: f(d.tensor(FLOATS, (70, 12)), d.places((70,), 12)))
_add(SUMS, "multilabel_margin_loss",
     lambda f, d: f(d.tensor(FLOATS, (70, 12)), d.places((70, 12), 13) - 1))  # fmt: skip
_add(SUMS, "ctc_loss", lambda f, d: f(
    d.tensor(SINGLES, (12, 3, 9)).log_softmax(2), d.places((3, 4), 8) + 1, (12, 9, 12), (4, 2, 0)
))  # fmt: skip
_add(
    SUMS, "mse_loss", lambda f, d: f(x := d.tensor(FLOATS, (9, 65)), d.tensor((x.dtype,), (9, 65)))
)


# --- programs -------------------------------------------------------------------------------------


def result_of(x: gt.Tensor) -> Result:
    """Return an array; bf16 is returned as f32, because NumPy has no bf16."""
    eps = gt.finfo(x.dtype).eps if x.dtype.is_floating_point or x.dtype.is_complex else 0
    return Result((x.to(gt.float32) if x.dtype is gt.bfloat16 else x).contiguous().numpy(), eps)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def program(seed: int) -> list[Step]:
    """Run the program of a seed. The first seeds take the operators of the table in turn, so that a
    few programs have every operator; later seeds choose at random."""
    draw = Draw(seed)
    gt.manual_seed(seed)
    names = list(TABLE)
    steps = []
    for k in range(STEPS):
        in_turn = seed * STEPS + k
        name = names[in_turn] if in_turn < len(names) else draw.choose.choice(names)
        rule, call = TABLE[name]
        draw.text, draw.size = [], 0.0
        try:
            found = call(draw)
        except errors.GpuTensorError as error:  # incompatible dtypes raise at each capability
            steps.append(Step(f"{name}({', '.join(draw.text)}): {error}", rule, 0, []))
            continue
        tensors = [found] if isinstance(found, gt.Tensor) else list(found)
        if rule is BITS:
            draw.pool += [x for x in tensors if x.ndim < 5 and x.numel() < 1 << 17]
        text = f"{name}({', '.join(draw.text)})"
        halves = max(x.dtype.itemsize if x.dtype in FLOATS else 8 for x in tensors) == 2
        if halves and rule.ulp:  # computed in f32 and rounded once
            rule = Rule(1, rule.of_largest)
        steps.append(Step(text, rule, draw.size, [result_of(x) for x in tensors]))
    return steps


def main(first: int, last: int, to: Path) -> None:
    warnings.simplefilter("ignore")
    found = {}
    for threads in (1, 2):
        gt.set_num_threads(threads)
        found[threads] = {seed: program(seed) for seed in range(first, last)}
    to.write_bytes(pickle.dumps((gt.backends.cpu.get_cpu_capability(), found)))


if __name__ == "__main__":
    # Under this name, so that another process can unpickle.
    from tests.kernels.library import programs

    programs.main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
