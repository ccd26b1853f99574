"""Random tensors from Philox4x64-10. Equal seeds give equal streams on all devices.

A call uses one counter block for four elements, which are numbered in row-major order for any
strides. The next call continues with the following block of the generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .._generated import calls, operators
from ..core import errors
from ..core.arguments import real
from ..core.device import CPU
from ..core.dtype import BOOL, COMPLEX, FLOATING, complex32, dtype, float32, float64, int64
from ..core.geometry import contiguous_geometry
from ..core.number_range import integer_range
from ..dispatch.operator import Table
from ..dispatch.shortcuts import BELOW, CPU as CPU_CALL, jumps
from ..iterator import overlap
from ..iterator.broadcast import broadcast_sizes
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..structured import arguments, generator as generators, missing
from ..structured.pointwise import writes
from ..structured.forms import Kernel, given
from ..structured.transfer import resized
from ..structured.shortcuts import computed as short
from ..tensor.make import from_array
from ..tensor.tensor import Tensor
from .complex_view import view_as_real


# --- drawing --------------------------------------------------------------------------------------


def _fill(op: str, loop: str, out: Tensor, generator: Any, first: Any, second: Any) -> Tensor:
    """Write random numbers of a distribution to all elements, in row-major order."""
    if generator is not None:
        generators.check(op, generator, out._device.type)
    overlap.check_itself(op, out, "self")
    if out._geometry.dtype is complex32:
        _fill(op, loop, view_as_real(out._keys, out), generator, first, second)
        return out
    shape, place = out._geometry, out._device
    numel = shape.numel * (2 if shape.dtype.category == COMPLEX else 1)
    if numel == 0 or place.type == "meta":
        return out
    generator = generator or generators.default_generator(place)
    seed, block = generator.take(numel, place.index)
    if later is None or not later(loop, out, (generator, numel), seed, block, first, second):
        draw(loop, out, seed, block, first, second)
    return out


def _learn(
    table: Table, kernel: Kernel, args: tuple[Any, ...], name: str, first: Any, second: Any
) -> None:
    """Store the short cut of a fill by the default generator. name: the loop's name."""
    shape, place = args[0]._geometry, args[0]._device
    if place is not CPU or not shape.numel or shape.dtype.category == COMPLEX:
        return
    generator, numel = generators.default_generator(CPU), shape.numel
    loop = getattr(stub.cpu("random"), name)

    def fill(x: Any, out: Any) -> None:
        seed, block = generator.take(numel)
        loop(out, seed, block, first, second)

    short.learn_again(table, kernel, args, short.written_by(fill, ()))


# Hook for lazy execution: called with (loop, tensor, (generator, number of elements), seed, block,
# first, second). It returns True if it recorded the fill.
later: Callable[..., bool] | None = None


def draw(loop: str, out: Tensor, seed: int, block: int, first: Any, second: Any) -> None:
    """Fill `out` with random numbers of the stream of `seed`, beginning at `block`."""
    shape, place = out._geometry, out._device
    if place is CPU:
        run(getattr(stub.cpu("random"), loop), out._get_array(), seed, block, first, second)
    elif shape.is_contiguous:
        _launch(loop, out, (seed, block, first, second))
    else:
        dense = calls.empty_memory_format(shape.sizes, shape.dtype, None, place, None, None)
        _launch(loop, dense, (seed, block, first, second))
        # This copy is not counted as a write, because the caller counts the write to `out`.
        missing.ask_inplace(operators.copy_, out, dense, False)


def _launch(loop: str, out: Tensor, scalars: tuple[Any, ...]) -> None:
    launch = writes.writing(loop, "random", loop, out._geometry, out._device)
    launch(out._device.index, (out._address(),), scalars)


def check_floating(op: str, of: dtype, arg: str, *, may_be_complex: bool = True) -> None:
    if of.category < FLOATING or (of.category == COMPLEX and not may_be_complex):
        rule = "be floating or complex" if may_be_complex else "be floating"
        raise errors.wrong_dtype(op, arg, rule, errors.Got(of.short))


def check_real(op: str, of: dtype) -> None:
    if of.category == COMPLEX:
        raise errors.wrong_dtype(op, "self", "be real", errors.Got(of.short))


# --- uniform --------------------------------------------------------------------------------------


def uniform_(
    key_set: int, self: Tensor, from_: float = 0.0, to: float = 1.0, generator: Any = None
) -> Tensor:
    check_floating("uniform_", self._geometry.dtype, "self")
    if not from_ <= to:
        raise errors.must("uniform_", "from", "not be above to", (from_, to))
    if not (math.isfinite(from_) and to - from_ <= bounds(self._geometry.dtype)[1]):
        rule = f"exceed from by a number that {self._geometry.dtype.name} has"
        raise errors.must("uniform_", "to", rule, (from_, to))
    made = _fill("uniform_", "uniform", self, generator, float(from_), float(to))
    args, params = (self, from_, to), (float(from_), float(to))
    _learn(operators.uniform_.table, uniform_, args, "uniform", *params)
    return made


# --- normal ---------------------------------------------------------------------------------------


def normal_(
    key_set: int, self: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None
) -> Tensor:
    of = self._geometry.dtype
    check_floating("normal_", of, "self")
    _check_std("normal_", std)
    if of.category == COMPLEX:  # The real and the imaginary part each get half of the variance.
        std = std / math.sqrt(2)
    made = _fill("normal_", "normal", self, generator, float(mean), float(std))
    args, params = (self, mean, std), (float(mean), float(std))
    _learn(operators.normal_.table, normal_, args, "normal", *params)
    return made


def _check_std(op: str, std: float) -> None:
    if not real(op, "std", std) >= 0:
        raise errors.must(op, "std", "not be negative", std)


def normal_float_float(
    key_set: int, mean: float, std: float, size: Any, generator: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    _check_std("normal", std)
    sizes = arguments.sizes("normal", size)
    made = calls.empty_memory_format(sizes, dtype, layout, device, pin_memory, None)
    check_floating("normal", made._geometry.dtype, "dtype")
    return missing.ask_inplace(operators.normal_, made, mean, std, generator)


def normal_float_float_out(
    key_set: int, mean: float, std: float, size: Any, generator: Any, out: Tensor
) -> Tensor:
    _check_std("normal", std)
    check_floating("normal", out._geometry.dtype, "out")
    return missing.ask_inplace(
        operators.normal_, resized("normal", out, size), mean, std, generator
    )


def normal_tensors(
    key_set: int, mean: Any, std: Any, generator: Any = None, out: Any = None
) -> Tensor:
    """Draw normal numbers. mean and std are tensors, or one of them is a number. Source:
    normal_out_impl of ATen/native/DistributionTemplates.h."""
    like = mean if isinstance(mean, Tensor) else std
    if isinstance(std, Tensor):
        if std._geometry.dtype.category == COMPLEX:
            raise errors.wrong_dtype("normal", "std", "be real", std)
        if std._device is CPU and std._geometry.numel and not bool(calls.amin(std, (), False) >= 0):
            raise errors.must("normal", "std", "hold no negative number", std)
    else:
        _check_std("normal", std)
    mean = mean if isinstance(mean, Tensor) else real("normal", "mean", mean)
    std = std if isinstance(std, Tensor) else float(std)
    sizes: Any = like._geometry.sizes
    if isinstance(mean, Tensor) and isinstance(std, Tensor):
        sizes = broadcast_sizes(mean._geometry.sizes, std._geometry.sizes)
        if sizes is None:
            raise errors.not_broadcastable("normal", mean, std)
    is_new = out is None
    if is_new:
        out = calls.new_empty(like, sizes, None, None, None, None)
    check_floating("normal", out._geometry.dtype, "out" if out is not like else "mean")
    made = missing.ask_inplace(
        operators.normal_, resized("normal", out, sizes), 0.0, 1.0, generator
    )
    missing.ask_inplace(operators.mul__Tensor, made, std)
    missing.ask_inplace(operators.add__Tensor, made, mean, 1)
    if is_new and generator is None and like is mean and type(std) is float:
        _learn_around(mean, std, made)
    return made


def _learn_around(mean: Tensor, std: float, made: Tensor) -> None:
    """Store the short cut of `normal` for a tensor of means and one standard deviation."""
    shape = made._geometry
    allocate, of = short.new_array(shape), shape.dtype
    is_plain = made._device is CPU and of in (float32, float64) and mean._geometry is shape
    if allocate is None or not is_plain:
        return
    fill = stub.cpu("random").standard("normal", of.np)
    take = generators.default_generator(CPU).take
    scale = stub.cpu_loop("binary", "mul", (of, of), of, of)
    add = stub.cpu_loop("binary", "add", (of, of), of, of)

    def compute(mean: Any) -> Any:
        out = allocate()
        fill(out, *take(shape.numel))
        scale(out, std, out)
        add(out, mean, out)
        return out

    table, make = operators.normal_Tensor_float.table, short.made_new(compute, shape)
    short.learn_again(table, normal_tensors, (mean, std), make, unsaid=(None,))


_INPLACE = "structured.pointwise.cpu.binary_inplace.<locals>.kernel"
jumps(normal_tensors, lambda: (
    (operators.new_empty, CPU_CALL, "factory.new_empty"),
    (operators.normal_, BELOW, normal_),
    (operators.mul__Tensor, BELOW, _INPLACE), (operators.add__Tensor, BELOW, _INPLACE),
))  # fmt: skip


def normal_tensors_out(key_set: int, mean: Any, std: Any, generator: Any, out: Tensor) -> Tensor:
    """Draw normal numbers into `out`. Unlike in PyTorch, an operand may share memory with `out`,
    because the operand is copied before the write."""

    def apart(arg: str, x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        overlap.check("normal", out, x, arg)
        return x if overlap.relation(out, x) == overlap.NO else calls.clone(x)

    return normal_tensors(key_set, apart("mean", mean), apart("std", std), generator, out)


def log_normal_(
    key_set: int, self: Tensor, mean: float = 1.0, std: float = 2.0, generator: Any = None
) -> Tensor:
    check_floating("log_normal_", self._geometry.dtype, "self", may_be_complex=False)
    if not std > 0:
        raise errors.must("log_normal_", "std", "be above 0", std)
    return _fill("log_normal_", "log_normal", self, generator, float(mean), float(std))


# --- other distributions of real numbers ----------------------------------------------------------


def exponential_(key_set: int, self: Tensor, lambd: float = 1.0, generator: Any = None) -> Tensor:
    check_floating("exponential_", self._geometry.dtype, "self", may_be_complex=False)
    if not lambd > 0:
        raise errors.must("exponential_", "lambd", "be above 0", lambd)
    return _fill("exponential_", "exponential", self, generator, float(lambd), 0.0)


def cauchy_(
    key_set: int, self: Tensor, median: float = 0.0, sigma: float = 1.0, generator: Any = None
) -> Tensor:
    check_floating("cauchy_", self._geometry.dtype, "self", may_be_complex=False)
    if not sigma > 0:
        raise errors.must("cauchy_", "sigma", "be above 0", sigma)
    return _fill("cauchy_", "cauchy", self, generator, float(median), float(sigma))


def geometric_(key_set: int, self: Tensor, p: float, generator: Any = None) -> Tensor:
    check_real("geometric_", self._geometry.dtype)
    if not 0 < real("geometric_", "p", p) < 1:
        raise errors.must("geometric_", "p", "be in (0, 1)", p)
    return _fill("geometric_", "geometric", self, generator, float(p), 0.0)


# --- integers -------------------------------------------------------------------------------------

# A floating dtype represents all integers from 0 to this number, but not the next one.
WHOLE = {"f64": 1 << 53, "f32": 1 << 24, "f16": 1 << 11, "bf16": 1 << 8}


def random__from(
    key_set: int, self: Tensor, from_: int, to: int | None = None, generator: Any = None
) -> Tensor:
    """Draw integers in [from_, to). Without `to`, the largest possible result is the largest n for
    which the dtype represents all integers from 0 to n."""
    of = self._geometry.dtype
    check_real("random_", of)
    low = arguments.integer("random_", "from", from_)
    least, largest = bounds(of)
    if to is None:
        end = WHOLE.get(of.short, largest) + 1
    else:
        end = arguments.integer("random_", "to", to)
    if low >= end:
        raise errors.must("random_", "from", "be below to", (low, end))
    for arg, value in (("from", low), ("to", end - 1)):
        if not least <= value <= largest:
            got = errors.Got(errors.describe(value + (arg == "to")))
            raise errors.must("random_", arg, f"stay within what {of.name} holds", got)
    made = _fill("random_", "integers", self, generator, low, end - low)
    args = self, from_, to
    _learn(operators.random__from.table, random__from, args, "integers", low, end - low)
    return made


random__to = given(random__from, from_=0)
random_ = given(random__from, from_=0, to=None)


@cache
def bounds(of: dtype) -> tuple[int, int]:
    """Return the smallest and the largest integer that can be drawn for a dtype."""
    if of.category == FLOATING:
        from ..tensor.type_info import finfo

        largest = int(float(finfo(of).max))
        return -largest, largest
    return (0, 1) if of.category == BOOL else integer_range(of)


# --- bernoulli ------------------------------------------------------------------------------------


def bernoulli__float(key_set: int, self: Tensor, p: float = 0.5, generator: Any = None) -> Tensor:
    check_real("bernoulli_", self._geometry.dtype)
    if not 0 <= real("bernoulli_", "p", p) <= 1:
        raise errors.must("bernoulli_", "p", "be in [0, 1]", p)
    limit = math.ceil(math.ldexp(float(p), 53))
    return _fill("bernoulli_", "bernoulli", self, generator, limit, 0)


def bernoulli__Tensor(key_set: int, self: Tensor, p: Tensor, generator: Any = None) -> Tensor:
    """Write 1 where a uniform number is below p, otherwise 0."""
    check_real("bernoulli_", self._geometry.dtype)
    of = p._geometry.dtype
    check_floating("bernoulli_", of, "p", may_be_complex=False)
    sizes = self._geometry.sizes
    if broadcast_sizes(sizes, p._geometry.sizes) != sizes:
        raise errors.must("bernoulli_", "p", "broadcast to the sizes of self", p)
    if generator is not None:
        generators.check("bernoulli_", generator, self._device.type)
    overlap.check_itself("bernoulli_", self, "self")
    if p._device is CPU and p._geometry.numel:
        if not (calls.amin(p, (), False) >= 0 and calls.amax(p, (), False) <= 1):
            raise errors.must("bernoulli_", "p", "be in [0, 1] in each element", p)
    wide = float64 if of is float64 else float32
    drawn = calls.empty_memory_format(sizes, wide, None, self._device, None, None)
    missing.ask_inplace(operators.uniform_, drawn, 0.0, 1.0, generator)
    return missing.ask_inplace(operators.copy_, self, calls.lt_Tensor(drawn, p), False)


def bernoulli(key_set: int, self: Tensor, generator: Any = None) -> Tensor:
    made = calls.empty_like(self, None, None, None, None, None)
    return missing.ask_inplace(operators.bernoulli__Tensor, made, self, generator)


def bernoulli_p(key_set: int, self: Tensor, p: float, generator: Any = None) -> Tensor:
    made = calls.empty_like(self, None, None, None, None, None)
    return missing.ask_inplace(operators.bernoulli__float, made, p, generator)


# --- multinomial ----------------------------------------------------------------------------------


def multinomial(
    key_set: int, self: Tensor, num_samples: Any, replacement: bool = False, generator: Any = None
) -> Tensor:
    """Draw indices with given weights. Without replacement, return the indices of the largest
    quotients of weights and exponential random numbers. With replacement, search uniform random
    numbers in the cumulative sums of the weights.

    Source: ATen/native/Distributions.cpp, multinomial_out; native/cpu/MultinomialKernel.cpp.
    """
    op, shape = "multinomial", self._geometry
    count = arguments.integer(op, "num_samples", num_samples)
    check_floating(op, shape.dtype, "self", may_be_complex=False)
    if shape.ndim not in (1, 2):
        raise errors.wrong_shape(op, "self", "have one or two dimensions", self)
    if count <= 0:
        raise errors.must(op, "num_samples", "be positive", count)
    if not replacement and count > shape.sizes[-1]:
        rule = f"be at most {shape.sizes[-1]}, where nothing is replaced"
        raise errors.must(op, "num_samples", rule, count)
    if shape.numel == 0:
        return calls.new_empty(self, (*shape.sizes[:-1], count), int64, None, None, None)
    weights = calls.to_dtype(self, float32) if shape.dtype.itemsize == 2 else self
    if self._device is CPU and replacement and count > 1:
        return _drawn_on_cpu(op, weights, count, generator)
    if self._device is CPU:
        _check_weights(op, weights)
    if replacement and count > 1:
        sums = calls.cumsum(weights, -1, None)
        total = calls.slice_Tensor(sums, -1, shape.sizes[-1] - 1, shape.sizes[-1], 1)
        sizes = (*shape.sizes[:-1], count)
        drawn = calls.new_empty(weights, sizes, None, None, None, None)
        drawn = calls.mul_Tensor(
            missing.ask_inplace(operators.uniform_, drawn, 0.0, 1.0, generator), total
        )
        places = calls.searchsorted_Tensor(sums, drawn, False, True, None, None)
        # Rounding can raise an element of `drawn` to the total. The search then returns an index
        # beyond the last one, so indices are limited to the last index with a positive weight.
        last = calls.searchsorted_Tensor(sums, total, False, False, None, None)
        return calls.minimum(places, last)
    race = missing.ask_inplace(operators.exponential_, calls.empty_like(weights), 1.0, generator)
    race = calls.div_Tensor(weights, race)
    if count == 1:
        return calls.argmax(race, -1, True)
    return calls.topk(race, count, -1, True, True)[1]


def _drawn_on_cpu(op: str, weights: Tensor, count: int, generator: Any) -> Tensor:
    """Compute `multinomial` with replacement on the CPU, without a dispatched call for each
    step."""
    if generator is not None:
        generators.check(op, generator, CPU.type)
    x = weights._get_array()
    sums = np.empty(x.shape, x.dtype)
    run(stub.cpu("scan").cumsum, x, x.ndim - 1, sums)
    total = sums[..., -1:]
    is_fine = 0 < total.min() and total.max() < math.inf if x.ndim > 1 else 0 < sums[-1] < math.inf
    if not (is_fine and run(np.minimum.reduce, x, None) >= 0):
        _check_weights(op, weights)
    seed, block = (generator or generators.default_generator(CPU)).take(total.size * count)
    drawn = np.empty((*x.shape[:-1], count), x.dtype)
    high = 1.0 if x.ndim > 1 else float(total[0])
    run(stub.cpu("random").uniform, drawn, seed, block, 0.0, high)
    if x.ndim > 1:
        run(np.multiply, drawn, total, drawn)
    places = _places(sums, drawn, True)
    if np.maximum.reduce(places, None) == x.shape[-1]:  # An element of `drawn` equals the total.
        np.minimum(places, _places(sums, total, False), out=places)
    return from_array(places, contiguous_geometry(places.shape, int64))


def _places(sums: np.ndarray, x: np.ndarray, right: bool) -> np.ndarray:
    found: np.ndarray | None = stub.cpu("search").places(sums, x, right, False)
    if found is not None:
        return found
    side: Any = "right" if right else "left"
    rows = zip(np.atleast_2d(sums), np.atleast_2d(x))
    return np.stack([a.searchsorted(b, side) for a, b in rows]).reshape(x.shape)


def _check_weights(op: str, weights: Tensor) -> None:
    least, most = calls.aminmax(weights, dim=None, keepdim=False)
    if not (least >= 0 and most < math.inf):
        raise errors.must(op, "self", "hold finite numbers, none below 0", weights)
    if not calls.all(calls.gt_Tensor(calls.sum_dim_IntList(weights, (-1,), False), 0)):
        raise errors.must(op, "self", "have a sum above 0 in each row", weights)
