"""Random tensors from Philox4x64-10: the same stream on every device for the same seed.

Each call draws one counter block per four elements, counted in row-major order whatever the
strides, from where the generator's last call ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._generated import calls, operators
from ..core import errors
from ..core.arguments import real
from ..core.device import CPU
from ..core.dtype import BOOL, COMPLEX, FLOATING, bool_, dtype, float32, float64, int64
from ..core.geometry import contiguous_geometry
from ..core.number_range import integer_range
from ..dispatch.operator import Operator
from ..iterator import overlap
from ..iterator.broadcast import broadcast_sizes
from ..iterator.config import NULLARY
from ..iterator.plan import build
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..structured import arguments, generator as generators, missing
from ..structured.resizing import resize_output
from ..tensor.tensor import Tensor


# --- drawing --------------------------------------------------------------------------------------


def _fill(op: str, loop: str, out: Tensor, generator: Any, first: Any, second: Any) -> Tensor:
    """Numbers of a distribution into every element, which are counted in row-major order."""
    if generator is not None:
        generators.check(op, generator, out._device.type)
    shape, place = out._geometry, out._device
    overlap.check_itself(op, out, "self")
    numel = shape.numel * (2 if shape.dtype.category == COMPLEX else 1)
    if numel == 0 or place.type == "meta":
        return out
    seed, block = (generator or generators.default_generator(place)).take(numel)
    if place is CPU:
        run(getattr(stub.cpu("random"), loop), out._get_array(), seed, block, first, second)
    elif shape.is_contiguous:
        _launch(loop, out, (seed, block, first, second))
    else:
        dense = calls.empty_memory_format(shape.sizes, shape.dtype, None, place, None, None)
        _launch(loop, dense, (seed, block, first, second))
        _below(operators.copy_, out, dense, False)  # one write is counted, by the caller
    return out


def _launch(loop: str, out: Tensor, scalars: tuple[Any, ...]) -> None:
    config = NULLARY.replace(enforce_linear_iteration=True)
    plan = build(loop, config, ((out._geometry, out._device),), (), default_dtype=None)
    launch = stub.bind("random", loop, out._device.type, plan)
    launch(out._device.index, (out._address(),), scalars)


def _into(kernel: Callable[..., Tensor], made: Tensor, *args: Any) -> Tensor:
    """An in-place operator of this file on what another one has made."""
    if stub.serves("random", _LOOPS.get(kernel.__name__, "uniform"), made._device.type):
        return kernel(made._keys, made, *args)
    return missing.ask(getattr(operators, kernel.__name__), made, made, *args)


# Of kernels that are called by others; what has no entry draws uniform numbers.
_LOOPS = {"normal_": "normal", "random__from": "integers", "bernoulli__float": "bernoulli"}


def _below(operator: Operator, made: Tensor, *args: Any) -> Tensor:
    """An in-place operator on what a kernel has made, or whose write is counted already."""
    return missing.ask(operator, made, made, *args)


def _check_floating(op: str, of: dtype, arg: str, *, may_be_complex: bool = True) -> None:
    if of.category < FLOATING or (of.category == COMPLEX and not may_be_complex):
        rule = "be floating or complex" if may_be_complex else "be floating"
        raise errors.wrong_dtype(op, arg, rule, errors.Got(of.short))


def _check_real(op: str, of: dtype) -> None:
    if of.category == COMPLEX:
        raise errors.wrong_dtype(op, "self", "be real", errors.Got(of.short))


def _resized(op: str, out: Tensor, size: Any) -> Tensor:
    sizes = arguments.sizes(op, size)
    if out._geometry.sizes != sizes:
        resize_output(op, out, contiguous_geometry(sizes, out._geometry.dtype))
    return out


# --- uniform --------------------------------------------------------------------------------------


def uniform_(
    key_set: int, self: Tensor, from_: float = 0.0, to: float = 1.0, generator: Any = None
) -> Tensor:
    _check_floating("uniform_", self._geometry.dtype, "self")
    if not from_ <= to:
        raise errors.must("uniform_", "from", "not be above to", (from_, to))
    if not math.isfinite(to - from_):
        raise errors.must("uniform_", "to", "be a finite number above from", (from_, to))
    return _fill("uniform_", "uniform", self, generator, float(from_), float(to))


def rand(
    key_set: int, size: Any, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    return rand_generator(key_set, size, None, dtype, layout, device, pin_memory)


def rand_generator(
    key_set: int, size: Any, generator: Any, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    made = calls.empty_memory_format(
        arguments.sizes("randn", size), dtype, layout, device, pin_memory, None
    )
    _check_floating("rand", made._geometry.dtype, "dtype")
    return _into(uniform_, made, 0.0, 1.0, generator)


def rand_out(key_set: int, size: Any, out: Tensor) -> Tensor:
    return rand_generator_out(key_set, size, None, out)


def rand_generator_out(key_set: int, size: Any, generator: Any, out: Tensor) -> Tensor:
    _check_floating("rand", out._geometry.dtype, "out")
    return _into(uniform_, _resized("rand", out, size), 0.0, 1.0, generator)


def rand_like(
    key_set: int, self: Tensor, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    return rand_like_generator(
        key_set, self, None, dtype, layout, device, pin_memory, memory_format
    )


def rand_like_generator(
    key_set: int, self: Tensor, generator: Any, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    made = calls.empty_like(self, dtype, layout, device, pin_memory, memory_format)
    _check_floating("rand_like", made._geometry.dtype, "dtype")
    return _into(uniform_, made, 0.0, 1.0, generator)


# --- normal ---------------------------------------------------------------------------------------


def normal_(
    key_set: int, self: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None
) -> Tensor:
    of = self._geometry.dtype
    _check_floating("normal_", of, "self")
    _check_std("normal_", std)
    if of.category == COMPLEX:  # the variance is that of both parts
        std = std / math.sqrt(2)
    return _fill("normal_", "normal", self, generator, float(mean), float(std))


def _check_std(op: str, std: float) -> None:
    if not real(op, "std", std) >= 0:
        raise errors.must(op, "std", "not be negative", std)


def randn(
    key_set: int, size: Any, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    return randn_generator(key_set, size, None, dtype, layout, device, pin_memory)


def randn_generator(
    key_set: int, size: Any, generator: Any, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    made = calls.empty_memory_format(
        arguments.sizes("randn", size), dtype, layout, device, pin_memory, None
    )
    _check_floating("randn", made._geometry.dtype, "dtype")
    return _into(normal_, made, 0.0, 1.0, generator)


def randn_out(key_set: int, size: Any, out: Tensor) -> Tensor:
    return randn_generator_out(key_set, size, None, out)


def randn_generator_out(key_set: int, size: Any, generator: Any, out: Tensor) -> Tensor:
    _check_floating("randn", out._geometry.dtype, "out")
    return _into(normal_, _resized("randn", out, size), 0.0, 1.0, generator)


def randn_like(
    key_set: int, self: Tensor, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    return randn_like_generator(
        key_set, self, None, dtype, layout, device, pin_memory, memory_format
    )


def randn_like_generator(
    key_set: int, self: Tensor, generator: Any, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    made = calls.empty_like(self, dtype, layout, device, pin_memory, memory_format)
    _check_floating("randn_like", made._geometry.dtype, "dtype")
    return _into(normal_, made, 0.0, 1.0, generator)


def normal_float_float(
    key_set: int, mean: float, std: float, size: Any, generator: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    _check_std("normal", std)
    sizes = arguments.sizes("normal", size)
    made = calls.empty_memory_format(sizes, dtype, layout, device, pin_memory, None)
    _check_floating("normal", made._geometry.dtype, "dtype")
    return _into(normal_, made, mean, std, generator)


def normal_float_float_out(
    key_set: int, mean: float, std: float, size: Any, generator: Any, out: Tensor
) -> Tensor:
    _check_std("normal", std)
    _check_floating("normal", out._geometry.dtype, "out")
    return _into(normal_, _resized("normal", out, size), mean, std, generator)


def normal_tensors(
    key_set: int, mean: Any, std: Any, generator: Any = None, out: Any = None
) -> Tensor:
    """mean and std are tensors, or one of them is a number. Source: normal_out_impl of
    ATen/native/DistributionTemplates.h."""
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
    if out is None:
        out = calls.new_empty(like, sizes, None, None, None, None)
    _check_floating("normal", out._geometry.dtype, "out" if out is not like else "mean")
    made = _into(normal_, _resized("normal", out, sizes), 0.0, 1.0, generator)
    _below(operators.mul__Tensor, made, std)
    return _below(operators.add__Tensor, made, mean, 1)


def normal_tensors_out(key_set: int, mean: Any, std: Any, generator: Any, out: Tensor) -> Tensor:
    """An operand that `out` is itself is read before it is written to, which PyTorch does not."""

    def apart(arg: str, x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        overlap.check("normal", out, x, arg)
        return x if overlap.relation(out, x) == overlap.NO else calls.clone(x)

    return normal_tensors(key_set, apart("mean", mean), apart("std", std), generator, out)


def log_normal_(
    key_set: int, self: Tensor, mean: float = 1.0, std: float = 2.0, generator: Any = None
) -> Tensor:
    _check_floating("log_normal_", self._geometry.dtype, "self", may_be_complex=False)
    if not std > 0:
        raise errors.must("log_normal_", "std", "be above 0", std)
    return _fill("log_normal_", "log_normal", self, generator, float(mean), float(std))


# --- other distributions of real numbers ----------------------------------------------------------


def exponential_(key_set: int, self: Tensor, lambd: float = 1.0, generator: Any = None) -> Tensor:
    _check_floating("exponential_", self._geometry.dtype, "self", may_be_complex=False)
    if not lambd > 0:
        raise errors.must("exponential_", "lambd", "be above 0", lambd)
    return _fill("exponential_", "exponential", self, generator, float(lambd), 0.0)


def cauchy_(
    key_set: int, self: Tensor, median: float = 0.0, sigma: float = 1.0, generator: Any = None
) -> Tensor:
    _check_floating("cauchy_", self._geometry.dtype, "self", may_be_complex=False)
    if not sigma > 0:
        raise errors.must("cauchy_", "sigma", "be above 0", sigma)
    return _fill("cauchy_", "cauchy", self, generator, float(median), float(sigma))


def geometric_(key_set: int, self: Tensor, p: float, generator: Any = None) -> Tensor:
    _check_real("geometric_", self._geometry.dtype)
    if not 0 < real("geometric_", "p", p) < 1:
        raise errors.must("geometric_", "p", "be in (0, 1)", p)
    return _fill("geometric_", "geometric", self, generator, float(p), 0.0)


# --- integers -------------------------------------------------------------------------------------

# The first integer that a floating dtype skips is one above.
_WHOLE = {"f64": 1 << 53, "f32": 1 << 24, "f16": 1 << 11, "bf16": 1 << 8}


def random_(key_set: int, self: Tensor, generator: Any = None) -> Tensor:
    return _random(self, 0, None, generator)


def random__to(key_set: int, self: Tensor, to: int, generator: Any = None) -> Tensor:
    return _random(self, 0, to, generator)


def random__from(
    key_set: int, self: Tensor, from_: int, to: int | None = None, generator: Any = None
) -> Tensor:
    return _random(self, from_, to, generator)


def _bounds(of: dtype) -> tuple[int, int]:
    """The least and the largest integer that are drawn for a dtype."""
    if of.category == FLOATING:
        largest = int(_largest(of))
        return -largest, largest
    return (0, 1) if of.category == BOOL else integer_range(of)


def _largest(of: dtype) -> float:
    from ..tensor.type_info import finfo

    return float(finfo(of).max)


def _random(self: Tensor, low: Any, high: Any, generator: Any, op: str = "random_") -> Tensor:
    """Integers from low to below high; up to the largest that the dtype has in a row if None."""
    of = self._geometry.dtype
    _check_real(op, of)
    low = arguments.integer(op, "from", low)
    least, largest = _bounds(of)
    if high is None:
        end = _WHOLE.get(of.short, largest) + 1
    else:
        end = arguments.integer(op, "to", high)
    if low >= end:
        raise errors.must(op, "from", "be below to", (low, end))
    for arg, value in (("from", low), ("to", end - 1)):
        if not least <= value <= largest:
            got = errors.Got(errors.describe(value + (arg == "to")))
            raise errors.must(op, arg, f"stay within what {of.name} holds", got)
    return _fill(op, "integers", self, generator, low, end - low)


def randint(
    key_set: int, high: Any, size: Any, dtype: Any = int64, layout: Any = None, device: Any = None,
    pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    args = (dtype, layout, device, pin_memory)
    return randint_low_generator(key_set, 0, high, size, None, *args)


def randint_generator(
    key_set: int, high: Any, size: Any, generator: Any, dtype: Any = int64, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    args = (dtype, layout, device, pin_memory)
    return randint_low_generator(key_set, 0, high, size, generator, *args)


def randint_low(
    key_set: int, low: Any, high: Any, size: Any, dtype: Any = int64, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    args = (dtype, layout, device, pin_memory)
    return randint_low_generator(key_set, low, high, size, None, *args)


def randint_low_generator(
    key_set: int, low: Any, high: Any, size: Any, generator: Any, dtype: Any = int64,
    layout: Any = None, device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    sizes = arguments.sizes("randint", size)
    dtype = int64 if dtype is None else dtype
    made = calls.empty_memory_format(sizes, dtype, layout, device, pin_memory, None)
    return _drawn("randint", made, low, high, generator)


def _drawn(op: str, made: Tensor, low: Any, high: Any, generator: Any) -> Tensor:
    low, high = arguments.integer(op, "low", low), arguments.integer(op, "high", high)
    if low >= high:
        raise errors.must(op, "low", "be below high", (low, high))
    return _into(random__from, made, low, high, generator)


def randint_out(key_set: int, high: Any, size: Any, out: Tensor) -> Tensor:
    return _drawn("randint", _resized("randint", out, size), 0, high, None)


def randint_generator_out(
    key_set: int, high: Any, size: Any, generator: Any, out: Tensor
) -> Tensor:
    return _drawn("randint", _resized("randint", out, size), 0, high, generator)


def randint_low_out(key_set: int, low: Any, high: Any, size: Any, out: Tensor) -> Tensor:
    return _drawn("randint", _resized("randint", out, size), low, high, None)


def randint_low_generator_out(
    key_set: int, low: Any, high: Any, size: Any, generator: Any, out: Tensor
) -> Tensor:
    return _drawn("randint", _resized("randint", out, size), low, high, generator)


def randint_like(
    key_set: int, self: Tensor, high: Any, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    args = (dtype, layout, device, pin_memory, memory_format)
    return randint_like_low_generator_dtype(key_set, self, 0, high, None, *args)


def randint_like_generator(
    key_set: int, self: Tensor, high: Any, generator: Any, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    args = (dtype, layout, device, pin_memory, memory_format)
    return randint_like_low_generator_dtype(key_set, self, 0, high, generator, *args)


def randint_like_low_dtype(
    key_set: int, self: Tensor, low: Any, high: Any, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    args = (dtype, layout, device, pin_memory, memory_format)
    return randint_like_low_generator_dtype(key_set, self, low, high, None, *args)


def randint_like_low_generator_dtype(
    key_set: int, self: Tensor, low: Any, high: Any, generator: Any, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: Any = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    made = calls.empty_like(self, dtype, layout, device, pin_memory, memory_format)
    return _drawn("randint_like", made, low, high, generator)


def randint_like_Tensor(
    key_set: int, self: Tensor, high: Tensor, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    args = (dtype, layout, device, pin_memory, memory_format)
    return randint_like_Tensor_generator(key_set, self, high, None, *args)


def randint_like_Tensor_generator(
    key_set: int, self: Tensor, high: Tensor, generator: Any, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: Any = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    if high._geometry.ndim or high._device is not CPU:
        raise errors.must("randint_like", "high", "be on the CPU and have no dimensions", high)
    args = (dtype, layout, device, pin_memory, memory_format)
    limit = int(high.item())
    return randint_like_low_generator_dtype(key_set, self, 0, limit, generator, *args)


# --- permutations ---------------------------------------------------------------------------------


def randperm(
    key_set: int, n: Any, dtype: Any = int64, layout: Any = None, device: Any = None,
    pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    return randperm_generator(key_set, n, None, dtype, layout, device, pin_memory)


def randperm_generator(
    key_set: int, n: Any, generator: Any, dtype: Any = int64, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    sizes = (_count(n),)
    dtype = int64 if dtype is None else dtype
    made = calls.empty_memory_format(sizes, dtype, layout, device, pin_memory, None)
    return _permuted(made, generator)


def randperm_out(key_set: int, n: Any, out: Tensor) -> Tensor:
    return randperm_generator_out(key_set, n, None, out)


def randperm_generator_out(key_set: int, n: Any, generator: Any, out: Tensor) -> Tensor:
    return _permuted(_resized("randperm", out, (_count(n),)), generator)


def _count(n: Any) -> int:
    number = arguments.integer("randperm", "n", n)
    if number < 0:
        raise errors.must("randperm", "n", "not be negative", n)
    return number


def _permuted(out: Tensor, generator: Any) -> Tensor:
    """The order in which 64-bit numbers of the device's stream, drawn on the host, are sorted."""
    of, n = out._geometry.dtype, out._geometry.numel
    _check_real("randperm", of)
    if n > min(_WHOLE.get(of.short, _bounds(of)[1]), _bounds(of)[1]) + 1:
        rule = f"not be above what {of.name} counts to"
        raise errors.must("randperm", "n", rule, n)
    if generator is not None:
        generators.check("randperm", generator, out._device.type)
    if n == 0 or out._device.type == "meta":
        return out
    seed, block = (generator or generators.default_generator(out._device)).take(n)
    keys = calls.empty_memory_format((n,), int64, None, CPU, None, None)
    array = keys._get_array()
    run(stub.cpu("random").integers, array, seed, block, 0, 1 << 64)
    array[:] = array.view("u8").argsort(kind="stable")
    return _below(operators.copy_, out, keys, False)


# --- bernoulli ------------------------------------------------------------------------------------


def bernoulli__float(key_set: int, self: Tensor, p: float = 0.5, generator: Any = None) -> Tensor:
    _check_real("bernoulli_", self._geometry.dtype)
    if not 0 <= real("bernoulli_", "p", p) <= 1:
        raise errors.must("bernoulli_", "p", "be in [0, 1]", p)
    limit = math.ceil(math.ldexp(float(p), 53))
    return _fill("bernoulli_", "bernoulli", self, generator, limit, 0)


def bernoulli__Tensor(key_set: int, self: Tensor, p: Tensor, generator: Any = None) -> Tensor:
    """1 where a uniform number is below p."""
    _check_real("bernoulli_", self._geometry.dtype)
    of = p._geometry.dtype
    _check_floating("bernoulli_", of, "p", may_be_complex=False)
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
    _into(uniform_, drawn, 0.0, 1.0, generator)
    return _below(operators.copy_, self, calls.lt_Tensor(drawn, p), False)


def bernoulli(key_set: int, self: Tensor, generator: Any = None) -> Tensor:
    made = calls.empty_like(self, None, None, None, None, None)
    return _into(bernoulli__Tensor, made, self, generator)


def bernoulli_p(key_set: int, self: Tensor, p: float, generator: Any = None) -> Tensor:
    made = calls.empty_like(self, None, None, None, None, None)
    return _into(bernoulli__float, made, p, generator)


# --- multinomial ----------------------------------------------------------------------------------


def multinomial(
    key_set: int, self: Tensor, num_samples: Any, replacement: bool = False, generator: Any = None
) -> Tensor:
    """Without replacement by exponential numbers that race; else by places in the running sums.

    Source: ATen/native/Distributions.cpp, multinomial_out; native/cpu/MultinomialKernel.cpp.
    """
    op, given = "multinomial", self._geometry
    count = arguments.integer(op, "num_samples", num_samples)
    _check_floating(op, given.dtype, "self", may_be_complex=False)
    if given.ndim not in (1, 2):
        raise errors.wrong_shape(op, "self", "have one or two dimensions", self)
    if count <= 0:
        raise errors.must(op, "num_samples", "be positive", count)
    if not replacement and count > given.sizes[-1]:
        rule = f"be at most {given.sizes[-1]}, where nothing is replaced"
        raise errors.must(op, "num_samples", rule, count)
    if given.numel == 0:
        return calls.new_empty(self, (*given.sizes[:-1], count), int64, None, None, None)
    weights = calls.to_dtype(self, float32) if given.dtype.itemsize == 2 else self
    if self._device is CPU:
        _check_weights(op, weights)
    if replacement and count > 1:
        sums = calls.cumsum(weights, -1, None)
        total = calls.slice_Tensor(sums, -1, given.sizes[-1] - 1, given.sizes[-1], 1)
        sizes = (*given.sizes[:-1], count)
        drawn = calls.new_empty(weights, sizes, None, None, None, None)
        drawn = calls.mul_Tensor(_into(uniform_, drawn, 0.0, 1.0, generator), total)
        places = calls.searchsorted_Tensor(sums, drawn, False, True, None, None)
        # a product that is rounded up to the total falls behind the last one that can be drawn
        last = calls.searchsorted_Tensor(sums, total, False, False, None, None)
        return calls.minimum(places, last)
    race = _into(exponential_, calls.empty_like(weights), 1.0, generator)
    race = calls.div_Tensor(weights, race)
    if count == 1:
        return calls.argmax(race, -1, True)
    return calls.topk(race, count, -1, True, True)[1]


def _check_weights(op: str, weights: Tensor) -> None:
    least, most = calls.aminmax(weights, dim=None, keepdim=False)
    if not (least >= 0 and most < math.inf):
        raise errors.must(op, "self", "hold finite numbers, none below 0", weights)
    if not calls.all(calls.gt_Tensor(calls.sum_dim_IntList(weights, (-1,), False), 0)):
        raise errors.must(op, "self", "have a sum above 0 in each row", weights)


# --- dropout --------------------------------------------------------------------------------------


def native_dropout(
    key_set: int, input: Tensor, p: float, train: bool | None
) -> tuple[Tensor, Tensor]:
    """(input with each element zero with probability p, the others scaled; which were kept)."""
    p = _checked_p("native_dropout", p)
    if train is not None and not train:
        kept = calls.ones_like(input, bool_, None, None, None, None)
        return calls.clone(input, memory_format=None), kept
    kept = calls.empty_like(input, bool_, None, None, None, None)
    _into(bernoulli__float, kept, 1 - p, None)
    scaled = calls.mul_Tensor(calls.mul_Tensor(input, kept), 0.0 if p == 1 else 1 / (1 - p))
    return scaled, kept


def native_dropout_backward(
    key_set: int, grad_output: Tensor, mask: Tensor, scale: float
) -> Tensor:
    scale = real("native_dropout_backward", "scale", scale)
    return calls.mul_Tensor(calls.mul_Tensor(grad_output, mask), scale)


def _checked_p(op: str, p: Any) -> float:
    found = real(op, "p", p)
    if not 0 <= found <= 1:
        raise errors.must(op, "p", "be in [0, 1]", p)
    return found


def _noise(input: Tensor, p: float, *, by_feature: bool) -> Tensor:
    """Ones where an element, or a channel of the first two dimensions, is kept. Source: make_
    feature_noise of ATen/native/Dropout.cpp."""
    if not by_feature:
        made = calls.empty_like(input, None, None, None, None, None)
    else:
        sizes = input._geometry.sizes
        if len(sizes) < 2:
            raise errors.wrong_shape("feature_dropout", "input", "have two dimensions", input)
        sizes = (*sizes[:2], *(1,) * (len(sizes) - 2))
        made = calls.new_empty(input, sizes, None, None, None, None)
    return calls.bernoulli__float(made, 1 - p, None)


def _dropped(
    op: str, input: Tensor, p: float, train: bool, *, by_feature: bool = False,
    is_alpha: bool = False, inplace: bool = False,
) -> Tensor:  # fmt: skip
    """Source: _dropout_impl of ATen/native/Dropout.cpp."""
    p = _checked_p(op, p)
    multiply = calls.mul__Tensor if inplace else calls.mul_Tensor
    if p == 0 or not train or not input._geometry.numel:
        return input
    if p == 1:
        zero = calls.zeros((), input._geometry.dtype, None, input._device, None)
        return multiply(input, zero)
    noise = _noise(input, p, by_feature=by_feature)
    if not is_alpha:
        return multiply(input, calls.div__Tensor(noise, 1 - p))
    # Of SELU's negative limit, so that mean and variance stay. Source: as above.
    alpha = 1.7580993408473766
    a = 1 / math.sqrt((alpha * alpha * p + 1) * (1 - p))
    shift = calls.add_Tensor(
        calls.mul_Tensor(calls.sub_Tensor(noise, 1, 1), alpha * a), alpha * a * p, 1
    )
    scaled = multiply(input, calls.mul__Tensor(noise, a))
    return (calls.add__Tensor if inplace else calls.add_Tensor)(scaled, shift, 1)


def dropout(key_set: int, input: Tensor, p: float, train: bool) -> Tensor:
    p = _checked_p("dropout", p)
    if input._device.type == "cuda" and train and 0 < p < 1 and input._geometry.numel:
        return calls.native_dropout(input, p, True)[0]
    return _dropped("dropout", input, p, train)


def dropout_(key_set: int, self: Tensor, p: float, train: bool) -> Tensor:
    return _dropped("dropout_", self, p, train, inplace=True)


def feature_dropout(key_set: int, input: Tensor, p: float, train: bool) -> Tensor:
    return _dropped("feature_dropout", input, p, train, by_feature=True)


def feature_dropout_(key_set: int, self: Tensor, p: float, train: bool) -> Tensor:
    return _dropped("feature_dropout_", self, p, train, by_feature=True, inplace=True)


def alpha_dropout(key_set: int, input: Tensor, p: float, train: bool) -> Tensor:
    return _dropped("alpha_dropout", input, p, train, is_alpha=True)


def alpha_dropout_(key_set: int, self: Tensor, p: float, train: bool) -> Tensor:
    return _dropped("alpha_dropout_", self, p, train, is_alpha=True, inplace=True)


def feature_alpha_dropout(key_set: int, input: Tensor, p: float, train: bool) -> Tensor:
    return _dropped("feature_alpha_dropout", input, p, train, by_feature=True, is_alpha=True)


def feature_alpha_dropout_(key_set: int, self: Tensor, p: float, train: bool) -> Tensor:
    flags = {"by_feature": True, "is_alpha": True, "inplace": True}
    return _dropped("feature_alpha_dropout_", self, p, train, **flags)
