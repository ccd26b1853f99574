"""Random number generators, and the default generators. A generator consists of a seed and a
position in the stream of that seed.

Each device has its own stream, so a draw on one device does not advance the streams of other
devices. native/random.py turns the numbers into distributions.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import runtime
from ..core import errors
from ..core.arguments import flag, number, number_in
from ..core.device import CPU, device as as_device
from ..core.dtype import uint8
from ..core.guard import Guard
from ..dispatch.backend_select import TENSOR_KEYS, resolve
from ..runtime import capture
from ..tensor.make import over_array
from ..tensor.tensor import Tensor

_SEEDS = _POSITIONS = 1 << 64
_STATE = np.dtype("<u8")


class Generator:
    """A seed and a position in its stream, for the tensors of one device type.

    device: by default `cpu`. The stream of a seed is the same on every device. The initial seed is
    random, as after `seed()`. Positions count 256-bit counter blocks.
    """

    __slots__ = ("_device", "_seed", "_position", "_lock")

    def __init__(self, device: Any = "cpu") -> None:
        self._lock = threading.Lock()
        self._device = resolve(as_device(device))
        TENSOR_KEYS[self._device.type]  # This raises for a device type without a backend.
        self.seed()

    @property
    def device(self) -> as_device:
        """The device of the tensors that this generator fills."""
        return self._device

    def seed(self) -> int:
        """Start the stream of a random seed that the operating system provides, and return the
        seed."""
        return self.manual_seed(int.from_bytes(os.urandom(8), "little"))._seed

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed`, an int. Negative seeds wrap around to 64-bit numbers."""
        plain = number(seed)
        if type(plain) is not int:
            raise errors.wrong_type("manual_seed", "seed", "be an int", seed)
        self._stands_in_no_capture("manual_seed")
        self._seed, self._position = plain & (_SEEDS - 1), 0
        return self

    def initial_seed(self) -> int:
        """Return the seed of the stream."""
        return self._seed

    def get_state(self) -> Tensor:
        """Return the seed and the position for `set_state`, as 16 bytes: a CPU tensor of dtype
        uint8. Source of the layout: PyTorch's CUDAGeneratorImpl."""
        return over_array(np.array(self.mark(), _STATE).view(np.uint8))

    def set_state(self, state: Tensor) -> Generator:
        """Continue at a position that `get_state` has returned. Return this generator."""
        is_state = isinstance(state, Tensor) and state.dtype is uint8 and state.device is CPU
        if not is_state or state.shape != (16,):
            rule = "be what get_state returned, a CPU tensor of 16 uint8 elements"
            raise errors.wrong_type("set_state", "state", rule, state)
        seed, position = np.frombuffer(state.numpy(force=True).tobytes(), _STATE).tolist()
        self.return_to((seed, position))
        return self

    def mark(self) -> tuple[int, int]:
        """Return (seed, position), for `return_to`."""
        return self._seed, self._position % _POSITIONS

    def return_to(self, mark: tuple[int, int]) -> None:
        """Continue at a position that `mark` has returned."""
        self._stands_in_no_capture("set_state")
        self._seed, self._position = mark

    def take(self, numel: int, kernel_on: int | None = None) -> tuple[int, int]:
        """Reserve random numbers for `numel` elements. Return the seed and the position of the
        first reserved block of four numbers.

        kernel_on: the index of the CUDA device if a kernel draws the numbers; within a capture, the
        returned seed is a `capture.Place`.
        """
        if capture.capturing and self._device.type == "cuda":
            if kernel_on is not None:
                drawn = capture.draw(runtime.cuda(), self, -(-numel // 4), kernel_on)
                if drawn is not None:
                    return drawn
            else:
                capture.refuse_drawing()
        with self._lock:
            first = self._position
            self._position += -(-numel // 4)
            return self._seed, first

    def _stands_in_no_capture(self, op: str) -> None:
        if any(self is own for c in tuple(capture.capturing) for own, _ in c.draws):
            why = "the graph draws from this generator"
            raise errors.capture_refused(op, why)


_default_seed: int | None = None
_generators: dict[Any, Generator] = {}


def default_generator(place: Any) -> Generator:
    """Return the default generator of a device. Calls that pass no generator use it."""
    found = _generators.get(place)
    if found is None:
        made = Generator(place)
        if _default_seed is not None:
            made.manual_seed(_default_seed)
        found = _generators.setdefault(place, made)
    return found


def seed_devices(device_type: str, indices: Iterable[int], seed: float) -> None:
    """Seed the default generators of these devices, as `manual_seed` does."""
    plain = _whole(seed)
    for index in indices:
        default_generator(as_device(device_type, index)).manual_seed(plain)


def manual_seed(seed: float) -> Generator:
    """Seed the generators of all devices, and return the CPU's generator. As in PyTorch, the
    fraction of a float is dropped."""
    global _default_seed
    generator = default_generator(CPU).manual_seed(_whole(seed))
    _default_seed = generator.initial_seed()
    for other in _generators.values():
        other.manual_seed(_default_seed)
    return generator


def _whole(seed: Any) -> Any:
    """Return a finite real number as an int. Return anything else unchanged."""
    plain = number_in(seed)
    is_finite = type(plain) is int or type(plain) is float and math.isfinite(plain)
    return int(plain) if is_finite else seed


def seed() -> int:
    """Seed the generators of all devices with one random seed, and return the seed."""
    return manual_seed(int.from_bytes(os.urandom(8), "little"))._seed


def initial_seed() -> int:
    """Return the seed of the CPU's default generator."""
    return default_generator(CPU).initial_seed()


def get_rng_state() -> Tensor:
    """Return the state of the CPU's default generator for `set_rng_state`, as
    `Generator.get_state` does."""
    return default_generator(CPU).get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Continue the CPU's default generator at a position that `get_rng_state` has returned."""
    default_generator(CPU).set_state(new_state)


def all_marks() -> dict[Generator, tuple[int, int]]:
    """Return the marks of the default generators of all devices, for `return_all_to`."""
    return {made: made.mark() for made in list(_generators.values())}


def return_all_to(marks: dict[Generator, tuple[int, int]]) -> None:
    """Continue at the positions that `all_marks` has returned. A default generator that is not in
    `marks` returns to the start of its stream."""
    for made in list(_generators.values()):
        made.return_to(marks.get(made) or (made.initial_seed(), 0))


class fork_rng(Guard):
    """Context manager `with gt.random.fork_rng():`, which restores the generators' states after the
    block.

    The CPU's generator is always included. devices: the other devices, as indices or devices; by
    default, all devices of `device_type` that have drawn numbers so far. enabled: if False, nothing
    is restored. The class is also a decorator.
    """

    __slots__ = ("_places", "_type", "_marks")

    def __init__(
        self, devices: Iterable[Any] | None = None, enabled: bool = True,
        device_type: str = "cuda",
    ) -> None:  # fmt: skip
        self._type = device_type if flag("fork_rng", "enabled", enabled) else ""
        self._places = None if devices is None else list(devices)
        self._marks: list[list[tuple[Generator, tuple[int, int]]]] = []

    def _again(self) -> fork_rng:
        return fork_rng(self._places, bool(self._type), self._type or "cuda")

    def _enter(self) -> None:
        found = [default_generator(CPU)] if self._type else []
        if self._places is None:
            found += [made for at, made in _generators.items() if at.type == self._type]
        elif self._type:
            places = [as_device(self._type, x) if type(x) is int else x for x in self._places]
            found += [default_generator(resolve(as_device(x))) for x in places]
        self._marks.append([(made, made.mark()) for made in found])

    def _found(self) -> Any:
        return self._marks[-1]

    def _put_back(self, found: Any) -> None:
        for made, mark in found:
            made.return_to(mark)

    def _count(self, found: Any) -> None:
        self._marks.pop()


def check(op: str, generator: Any, device_type: str) -> None:
    """Raise unless `generator` is a generator for this device type. Source: ATen's
    check_generator."""
    if not isinstance(generator, Generator):
        rule = "be a gputensor.Generator"
        raise errors.wrong_type(op, "generator", rule, generator)
    if generator.device.type != device_type:
        rule, got = f"be of a device of type {device_type}", errors.Got(str(generator.device))
        remedy = f"make it with Generator(device='{device_type}')"
        raise errors.must(op, "generator", rule, got, kind=errors.DeviceError, remedy=remedy)
