"""Factories of random tensors: rand, randn, randint, randperm, and their _like forms.

The in-place operators of native/random.py fill the tensors. A device may register kernels of its
own for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._generated import calls, operators
from ..core import errors
from ..core.arguments import number_in
from ..core.device import CPU
from ..core.dtype import COMPLEX, FLOATING, int64
from ..core.geometry import Geometry
from ..dispatch import shortcuts
from ..dispatch.operator import Table
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..structured import arguments, generator as generators, missing
from ..structured.pointwise import writes
from ..structured.shortcuts import cuda_factories as short_cuda, factories as short_make
from ..structured.forms import Kernel, given
from ..structured.view_kernel import seen
from ..tensor.tensor import Tensor
from ..structured.transfer import resized
from .random import WHOLE, bounds, check_floating, check_real

Fill = Callable[[Tensor, Any], Tensor]


# --- uniform and normal numbers -------------------------------------------------------------------


def _uniform(made: Tensor, generator: Any) -> Tensor:
    return missing.ask_inplace(operators.uniform_, made, 0.0, 1.0, generator)


def _normal(made: Tensor, generator: Any) -> Tensor:
    return missing.ask_inplace(operators.normal_, made, 0.0, 1.0, generator)


def _of_size(op: str, fill: Fill) -> Callable[..., Tensor]:
    def kernel(
        key_set: int, size: Any, generator: Any, dtype: Any = None, layout: Any = None,
        device: Any = None, pin_memory: Any = None,
    ) -> Tensor:  # fmt: skip
        sizes = arguments.sizes(op, size)
        made = calls.empty_memory_format(sizes, dtype, layout, device, pin_memory, None)
        check_floating(op, made._geometry.dtype, "dtype")
        return fill(made, generator)

    return kernel


def _of_default(op: str, kernel: Callable[..., Tensor], loop: str) -> Callable[..., Tensor]:
    """Make the overload without the argument `generator`. loop: the name of the loop that draws the
    numbers. Its parameters are 0 and 1."""

    def of_default(
        key_set: int, size: Any, dtype: Any = None, layout: Any = None, device: Any = None,
        pin_memory: Any = None,
    ) -> Tensor:  # fmt: skip
        table = getattr(operators, op).table
        made = kernel(key_set, size, None, dtype, layout, device, pin_memory)
        front = (made._geometry.sizes,)
        if type(made) is Tensor and made._device is CPU:
            again = partial(_drawing, made._geometry, loop)
            short_make.learn(table, of_default, front, made, again)
        else:
            write = partial(_writer, made, loop, 0.0, 1.0)
            short_cuda.learn(table, of_default, front, made, device, write)
        return made

    shortcuts.jumps(of_default, lambda: _over(loop))
    return of_default


def _over(loop: str) -> Any:
    return (
        (operators.empty_memory_format, shortcuts.FACTORY, "factory.empty"),
        (getattr(operators, f"{loop}_"), shortcuts.BELOW, f"random.{loop}_"),
    )


def _drawing(shape: Geometry, loop: str) -> Callable[[], Any] | None:
    """Return a function that makes an array and fills it by the loop, with parameters 0 and 1.
    Return None for empty tensors and for unsupported dtypes."""
    if not shape.numel or shape.dtype.category != FLOATING or not shape.in_numpy:
        return None
    return _drawn_by(shape, stub.cpu("random").standard(loop, shape.dtype.np))


def _drawn_by(shape: Geometry, fill: Callable[..., Any], *params: int) -> Callable[[], Any]:
    """Return a function that makes an array and fills it by fill(array, seed, block, *params)."""
    sizes, element, numel = shape.sizes, shape.dtype.np, shape.numel
    generator = generators.default_generator(CPU)

    def array() -> Any:
        found = np.empty(sizes, element)
        seed, block = generator.take(numel)
        run(fill, found, seed, block, *params)
        return found

    return array


def _writer(made: Tensor, loop: str, first: Any, second: Any) -> Any:
    """Return a function that takes an address and writes random numbers to memory with the layout
    of `made`. Short cuts on CUDA call this function. Return None for complex numbers and for
    layouts that are written by two launches."""
    shape, place = made._geometry, made._device
    if shape.dtype.category == COMPLEX or not shape.is_contiguous:
        return None
    launch = writes.writing(loop, "random", loop, shape, place)
    generator, numel, index = generators.default_generator(place), shape.numel, place.index
    drawing = getattr(launch, "drawing", None)
    if drawing is not None:
        draw, take = drawing(index, first, second), generator.take
        return lambda address: draw(address, *take(numel, index))

    def write(address: int) -> None:
        launch(index, (address,), (*generator.take(numel, index), first, second))

    return write


def _out(op: str, fill: Fill) -> Callable[..., Tensor]:
    def kernel(key_set: int, size: Any, generator: Any, out: Tensor) -> Tensor:
        check_floating(op, out._geometry.dtype, "out")
        return fill(resized(op, out, size), generator)

    return kernel


def _like(op: str, fill: Fill) -> Callable[..., Tensor]:
    def kernel(
        key_set: int, self: Tensor, generator: Any, dtype: Any = None, layout: Any = None,
        device: Any = None, pin_memory: Any = None, memory_format: Any = None,
    ) -> Tensor:  # fmt: skip
        made = calls.empty_like(self, dtype, layout, device, pin_memory, memory_format)
        check_floating(op, made._geometry.dtype, "dtype")
        return fill(made, generator)

    return kernel


def _like_of_default(op: str, kernel: Callable[..., Tensor], loop: str) -> Callable[..., Tensor]:
    """Like `_of_default`, for a `_like` operator, whose result has the layout of `self`."""

    def of_default(key_set: int, self: Tensor, *options: Any) -> Tensor:
        made, shape = kernel(key_set, self, None, *options), self._geometry
        is_plain = type(made) is Tensor and made._device is CPU and made._geometry is shape
        if is_plain and all([x is None for x in options]):
            table = getattr(operators, op).table
            known = seen(shape, op)
            if shortcuts.is_due(known, table):
                array = _drawing(shape, loop)
                if array is not None and shape.is_row_major:
                    shortcuts.learn(table, of_default, shape, short_make.like(shape, array))
                known.short = table.short
        elif all([x is None for x in options]):
            write = partial(_writer, made, loop, 0.0, 1.0)
            table = getattr(operators, op).table
            short_cuda.learn_like(table, of_default, self, shape, made, write)
        return made

    over_empty = (operators.empty_like, shortcuts.CPU, "factory.empty_like")
    shortcuts.jumps(of_default, lambda: (*_over(loop), over_empty))
    return of_default


rand_generator = _of_size("rand", _uniform)
rand = _of_default("rand", rand_generator, "uniform")
rand_generator_out = _out("rand", _uniform)
rand_out = given(rand_generator_out, generator=None)
rand_like_generator = _like("rand_like", _uniform)
rand_like = _like_of_default("rand_like", rand_like_generator, "uniform")

randn_generator = _of_size("randn", _normal)
randn = _of_default("randn", randn_generator, "normal")
randn_generator_out = _out("randn", _normal)
randn_out = given(randn_generator_out, generator=None)
randn_like_generator = _like("randn_like", _normal)
randn_like = _like_of_default("randn_like", randn_like_generator, "normal")


# --- integers -------------------------------------------------------------------------------------


def randint_low_generator(
    key_set: int, low: Any, high: Any, size: Any, generator: Any, dtype: Any = int64,
    layout: Any = None, device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    sizes = arguments.sizes("randint", size)
    dtype = int64 if dtype is None else dtype
    made = calls.empty_memory_format(sizes, dtype, layout, device, pin_memory, None)
    return _drawn("randint", made, low, high, generator)


def randint_low(
    key_set: int, low: Any, high: Any, size: Any, dtype: Any = int64, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    options = dtype, layout, device, pin_memory
    made = randint_low_generator(key_set, low, high, size, None, *options)
    _learn_integers(operators.randint_low.table, randint_low, made, (low, high), low, device)
    return made


def randint(
    key_set: int, high: Any, size: Any, dtype: Any = int64, layout: Any = None, device: Any = None,
    pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    made = randint_low_generator(key_set, 0, high, size, None, dtype, layout, device, pin_memory)
    _learn_integers(operators.randint.table, randint, made, (high,), 0, device)
    return made


def _learn_integers(
    table: Table, kernel: Kernel, made: Tensor, bounds: tuple[Any, ...], low: Any, place: Any
) -> None:
    """Store the short cuts for a size and bounds, once a call is repeated. bounds: the bounds as
    they were passed. place: the device argument."""
    shape, high = made._geometry, bounds[-1]
    if not all([type(n) is int for n in (low, high)]):
        return
    front = (*bounds, shape.sizes)
    if made._device is not CPU:
        write = partial(_writer, made, "integers", low, high - low)
        short_cuda.learn(table, kernel, front, made, place, write, int64)
        return
    if type(made) is not Tensor or not shape.in_numpy or not shape.numel:
        return
    again = partial(_drawn_by, shape, stub.cpu("random").integers, low, high - low)
    short_make.learn(table, kernel, front, made, again, unnamed=int64)


for _kernel in (randint, randint_low):
    shortcuts.jumps(_kernel, lambda: (
        (operators.empty_memory_format, shortcuts.FACTORY, "factory.empty"),
        (operators.random__from, shortcuts.BELOW, "random.random__from"),
    ))  # fmt: skip


def randint_low_generator_out(
    key_set: int, low: Any, high: Any, size: Any, generator: Any, out: Tensor
) -> Tensor:
    return _drawn("randint", resized("randint", out, size), low, high, generator)


def randint_like_low_generator_dtype(
    key_set: int, self: Tensor, low: Any, high: Any, generator: Any, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: Any = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    made = calls.empty_like(self, dtype, layout, device, pin_memory, memory_format)
    # Another overload accepts a tensor for `high`, so the public function does not convert 0-d
    # tensors to numbers. They are converted here.
    low, high = (number_in(x) if isinstance(x, Tensor) else x for x in (low, high))
    return _drawn("randint_like", made, low, high, generator)


def randint_like_Tensor_generator(
    key_set: int, self: Tensor, high: Tensor, generator: Any, *options: Any
) -> Tensor:
    if high._geometry.ndim or high._device is not CPU:
        raise errors.must("randint_like", "high", "be on the CPU and have no dimensions", high)
    limit = int(high.item())
    return randint_like_low_generator_dtype(key_set, self, 0, limit, generator, *options)


def _drawn(op: str, made: Tensor, low: Any, high: Any, generator: Any) -> Tensor:
    low, high = arguments.integer(op, "low", low), arguments.integer(op, "high", high)
    if low >= high:
        raise errors.must(op, "low", "be below high", (low, high))
    return missing.ask_inplace(operators.random__from, made, low, high, generator)


randint_generator: Kernel = given(randint_low_generator, low=0)
randint_out: Kernel = given(randint_low_generator_out, low=0, generator=None)
randint_generator_out: Kernel = given(randint_low_generator_out, low=0)
randint_low_out: Kernel = given(randint_low_generator_out, generator=None)
randint_like: Kernel = given(randint_like_low_generator_dtype, low=0, generator=None)
randint_like_generator: Kernel = given(randint_like_low_generator_dtype, low=0)
randint_like_low_dtype: Kernel = given(randint_like_low_generator_dtype, generator=None)
randint_like_Tensor: Kernel = given(randint_like_Tensor_generator, generator=None)


# --- permutations ---------------------------------------------------------------------------------


def randperm_generator(
    key_set: int, n: Any, generator: Any, dtype: Any = int64, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    sizes = (arguments.integer("randperm", "n", n, least=0),)
    dtype = int64 if dtype is None else dtype
    made = calls.empty_memory_format(sizes, dtype, layout, device, pin_memory, None)
    return _permuted(made, generator)


def randperm_generator_out(key_set: int, n: Any, generator: Any, out: Tensor) -> Tensor:
    sizes = (arguments.integer("randperm", "n", n, least=0),)
    return _permuted(resized("randperm", out, sizes), generator)


def randperm(key_set: int, n: Any, *options: Any) -> Tensor:
    made = randperm_generator(key_set, n, None, *options)
    shape = made._geometry
    is_plain = type(made) is Tensor and made._device is CPU and shape.dtype is int64
    if is_plain and type(n) is int and n:
        again = partial(_drawn_by, shape, stub.cpu("random").permutation)
        short_make.learn_numbers(operators.randperm.table, randperm, (n,), made, again, int64)
    return made


shortcuts.jumps(
    randperm, lambda: ((operators.empty_memory_format, shortcuts.FACTORY, "factory.empty"),)
)
randperm_out = given(randperm_generator_out, generator=None)


def _permuted(out: Tensor, generator: Any) -> Tensor:
    """Write a random permutation to `out` and return it: the argsort of 64-bit random numbers of
    the device."""
    of, n = out._geometry.dtype, out._geometry.numel
    check_real("randperm", of)
    largest = bounds(of)[1]
    if n > min(WHOLE.get(of.short, largest), largest) + 1:
        raise errors.must("randperm", "n", f"not be above what {of.name} counts to", n)
    if generator is not None:
        generators.check("randperm", generator, out._device.type)
    if n == 0 or out._device.type == "meta":
        return out
    seed, block = (generator or generators.default_generator(out._device)).take(n)
    made = out
    if out._device is not CPU or of is not int64 or not out._geometry.is_contiguous:
        made = calls.empty_memory_format((n,), int64, None, CPU, None, None)
    run(stub.cpu("random").permutation, made._get_array(), seed, block)
    return out if made is out else missing.ask_inplace(operators.copy_, out, made, False)
