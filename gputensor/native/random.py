"""Random tensors from Philox4x64-10: the same stream on every device for the same seed.

Each call draws one counter block per four elements, counted from where the last call ended; a
device's stream is its own, so drawing on one leaves the others where they were.
"""

from __future__ import annotations

import math
import operator
import os
import threading
from collections.abc import Iterable
from typing import Any

from .._generated import calls, operators
from ..core import errors
from ..core.device import CPU, device as as_device
from ..core.dtype import COMPLEX, FLOATING
from ..dispatch.backend_select import resolve
from ..dispatch.keys import BELOW_ADINPLACEORVIEW
from ..iterator import overlap
from ..iterator.config import NULLARY
from ..iterator.plan import build
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..tensor.tensor import Tensor
from ..structured import missing


_SEEDS = 1 << 64


class Generator:
    """A seed and a position in its stream, for tensors of one device type.

    device: `cpu` unless given; the stream of a seed is the same on every device. Starts with a seed
    that nobody chose, as `seed()` does. Positions count 256-bit counter blocks.
    """

    __slots__ = ("_device", "_seed", "_position", "_lock")

    def __init__(self, device: Any = "cpu") -> None:
        self._lock = threading.Lock()
        self._device = resolve(as_device(device))
        self.seed()

    @property
    def device(self) -> as_device:
        """The device whose tensors it fills."""
        return self._device

    def seed(self) -> int:
        """Start the stream of a seed from the operating system; returns the seed."""
        return self.manual_seed(int.from_bytes(os.urandom(8), "little"))._seed

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed`, an int; negative seeds wrap as 64-bit numbers."""
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise errors.wrong_type("manual_seed", "seed", "be an int", seed)
        self._seed, self._position = seed & (_SEEDS - 1), 0
        return self

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return self._seed

    def get_state(self) -> tuple[int, int]:
        """(seed, position), for `set_state`."""
        return (self._seed, self._position)

    def set_state(self, state: tuple[int, int]) -> None:
        """Go on where `get_state` was called."""
        try:
            seed, position = map(operator.index, state)
            fits = 0 <= seed < _SEEDS and position >= 0
        except (TypeError, ValueError):
            fits = False
        if not fits:
            rule = "be what get_state returned"
            raise errors.wrong_type("set_state", "state", rule, state)
        self._seed, self._position = seed, position

    def take(self, numel: int) -> tuple[int, int]:
        """(seed, first block) for so many elements, which nobody else gets."""
        with self._lock:
            first = self._position
            self._position += -(-numel // 4)
            return self._seed, first


_default_seed: int | None = None
_generators: dict[Any, Generator] = {}


def default_generator(place: Any) -> Generator:
    """The generator of a device that calls without one draw from."""
    found = _generators.get(place)
    if found is None:
        made = Generator(place)
        if _default_seed is not None:
            made.manual_seed(_default_seed)
        found = _generators.setdefault(place, made)
    return found


def seed_devices(device_type: str, indices: Iterable[int], seed: int) -> None:
    """Seed the generators that calls without one draw from on these devices."""
    for index in indices:
        default_generator(as_device(device_type, index)).manual_seed(seed)


def manual_seed(seed: int) -> Generator:
    """Seed the generators of all devices; returns the CPU's."""
    global _default_seed
    generator = default_generator(CPU).manual_seed(seed)
    _default_seed = seed
    for other in _generators.values():
        other.manual_seed(seed)
    return generator


def initial_seed() -> int:
    """The seed of the CPU's default generator."""
    return default_generator(CPU).initial_seed()


def _check_generator(generator: Any, device_type: str) -> None:
    """Raises unless it is a generator for such devices. Source: check_generator of ATen."""
    if not isinstance(generator, Generator):
        rule = "be a gputensor.Generator"
        raise errors.wrong_type("uniform_", "generator", rule, generator)
    if generator.device.type != device_type:
        rule, got = f"be of a device of type {device_type}", errors.Got(str(generator.device))
        remedy = f"make it with Generator(device='{device_type}')"
        raise errors.must(
            "uniform_", "generator", rule, got, kind=errors.DeviceError, remedy=remedy
        )


def _fill_uniform(out: Tensor, generator: Any) -> Tensor:
    """[0, 1) into every element, in row-major order whatever the strides."""
    element = out._geometry.dtype
    if element.category < FLOATING:
        rule = "be floating or complex"
        raise errors.wrong_dtype("rand", "dtype", rule, errors.Got(element.short))
    if generator is not None:
        _check_generator(generator, out._device.type)
    numel = out._geometry.numel * (2 if element.category == COMPLEX else 1)
    if numel == 0 or out._device.type == "meta":
        return out
    seed, first = (generator or default_generator(out._device)).take(numel)
    if out._device is CPU:
        run(stub.cpu("random").uniform, out._get_array(), seed, first)
        return out
    if not out._geometry.is_contiguous:
        sizes, place = out._geometry.sizes, out._device
        flat = calls.empty_memory_format(sizes, element, None, place, None, None)
        _launch(flat, seed, first)
        return calls.copy_(out, flat, False)
    return _launch(out, seed, first)


def _launch(out: Tensor, seed: int, first: int) -> Tensor:
    config = NULLARY.replace(enforce_linear_iteration=True)
    plan = build("rand", config, ((out._geometry, out._device),), (), default_dtype=None)
    launch = stub.bind("random", "uniform", out._device.type, plan)
    launch(out._device.index, (out._address(),), (seed, first))
    return out


def _fresh_uniform(made: Tensor) -> Tensor:
    if made._device is not CPU and not stub.serves("random", "uniform", made._device.type):
        return missing.ask(operators.uniform_, made, made, 0.0, 1.0, None)
    return _fill_uniform(made, None)


def rand(
    key_set: int, size: Any, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    made = calls.empty_memory_format(tuple(size), dtype, layout, device, pin_memory, None)
    return _fresh_uniform(made)


def rand_like(
    key_set: int, self: Tensor, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    made = calls.empty_like(self, dtype, layout, device, pin_memory, memory_format)
    return _fresh_uniform(made)


def uniform_(
    key_set: int, self: Tensor, from_: float = 0.0, to: float = 1.0, generator: Any = None
) -> Tensor:
    if not from_ <= to:
        raise errors.must("uniform_", "from", "not be above to", (from_, to))
    first, width = float(from_), float(to - from_)
    if not math.isfinite(width):
        raise errors.must("uniform_", "to", "be a finite number above from", (from_, to))
    overlap.check_itself("uniform_", self, "self")
    _fill_uniform(self, generator)
    if from_ == 0 and to == 1:
        return self
    scaled = calls.add_Tensor(calls.mul_Tensor(self, width), first, 1)
    key_set = (key_set | scaled._keys) & BELOW_ADINPLACEORVIEW  # one write is counted, by uniform_
    return operators.copy_.redispatch_table[key_set](key_set, self, scaled, False)
