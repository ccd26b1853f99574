"""Kernels of emulated devices: compiling, loading and launching them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gputensor.core import errors

from .. import capture
from ..capture import capturing
from ..compilation import kernel_cache, nvrtc
from ..emulator import findings, nvrtc_options, settings, toolchain
from ..emulator.machine import Loaded
from . import devices
from .devices import checked, limits
from .streams import Stream, current_stream

__tracebackhide__ = errors.is_of_a_kernel

_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_BLOCK = (1024, 1024, 64)
_paths: dict[bytes, str] = {}


class Function:
    """One kernel of one variant, on one device.

    places: the offset and the size of each parameter. arguments: the names of pointer parameters,
    for error messages (findings.Arguments). Callers that know the signature set both.
    """

    __slots__ = ("arguments", "carveout", "device_index", "loaded", "name", "places")

    def __init__(self, loaded: Loaded, device_index: int) -> None:
        self.loaded: Loaded = loaded
        self.device_index: int = device_index
        self.name: Any = loaded.name
        self.places: tuple[tuple[Any, Any], ...] = loaded.places
        self.carveout: int = 0
        self.arguments: findings.Arguments = ()

    def symbol(self, name: str) -> tuple[int, int]:
        """Return the address and the size in bytes of a __constant__ or __device__ variable."""
        symbols = self.loaded.symbols()
        if name not in symbols:
            known = ", ".join(symbols) or "none"
            rule = f"be a variable of the text ({known})"
            raise errors.cannot_launch(self.name, "name", rule, name)
        return symbols[name]


def arch(device_index: int) -> str:
    return "emulator"


def compile(
    text: str, variants: Sequence[Mapping[str, object]], arch: str = "emulator", *,
    entries: Sequence[str] | None = None, headers: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> bytes:  # fmt: skip
    """Return one shared object that contains every variant of a `.cu` text.

    entries, headers: for a user's text, the requested kernels and the available headers. options:
    options for NVRTC, of which the emulator uses some (emulator/nvrtc_options.py).
    """
    title = nvrtc.title_of(text)
    asked = nvrtc_options.parse(options)
    nvrtc_options.check(asked, entries[0] if entries else title)
    defines = [nvrtc_options.with_macros(dict(one), asked) for one in variants]
    more = entries, headers, asked.folders, asked.standard
    image, path = toolchain.compile_kernels(text, defines, title, *more)
    _paths[image] = path
    return image


def load(image: bytes, entry: str, device_index: int, variant: int = 0) -> Function:
    """Load a kernel from an image that `compile` returned, perhaps in another process."""
    checked("load", device_index)
    if capturing:
        capture.refuse_unsafe(entry, "its kernel is loaded, which a call before the capture does")
    path = _paths.get(image)
    if path is None:
        key = kernel_cache.key("loaded", image)
        path = _paths[image] = kernel_cache.fetch(key, ".so", lambda: image, "loaded image")[1]
    elif not os.path.exists(path):  # Another process has removed the file from the cache.
        kernel_cache.restore(path, image)
    return Function(devices.machine.load(path, entry, variant, device_index), device_index)


def prefer_shared(function: Function, nbytes: int) -> None:
    """Accept a request for shared memory instead of L1 cache, as the CUDA runtime does. The request
    has no effect on the emulator."""
    percent = min(100, -(-100 * nbytes // limits(function.device_index).shared_bytes))
    function.carveout = max(function.carveout, percent)


def launch(
    function: Function, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int,
    stream: Stream, params: bytes, offsets: tuple[int, ...] = (0,),
) -> None:  # fmt: skip
    """Queue a launch. params: the bytes of all parameters, each at its offset."""
    kernel, device = function.loaded, function.device_index
    _check_launch(function, grid, block, shared_bytes, stream, params, offsets)
    params, peers = bytes(params), devices.peers[device]

    def check() -> None:
        found = devices.machine.scan(params, device, peers)
        if found is not None:
            at, memory = found
            rule = f"point to memory that cuda:{device} may use"
            raise errors.wrong_pointer(kernel.name, f"params[{at}:{at + 8}]", rule, str(memory))

    check()
    options = settings.current().options(device, peers)

    def run() -> None:
        named = function.arguments
        wrong = devices.machine.launch(kernel, grid, block, shared_bytes, params, options, named)
        if wrong is not None:
            raise errors.kernel_finding(wrong)

    if stream.queue.recording is not None:
        vars(run)["what"] = kernel.name
    devices.scheduler.add(stream.queue, run, check)


def launcher(
    function: Function, grid: tuple[int, int, int], block: tuple[int, int, int],
    shared_bytes: int = 0,
) -> Callable[[bytes], None]:  # fmt: skip
    """Return a function `run(params)` that launches one kernel repeatedly on the current stream."""
    device = function.device_index

    def run(params: bytes) -> None:
        launch(function, grid, block, shared_bytes, current_stream(device), params)

    return run


def write_symbol(address: int, data: bytes, stream: Stream) -> None:
    """Queue a write to a variable, whose address `Function.symbol` returned."""

    def run() -> None:
        ctypes.memmove(address, data, len(data))

    devices.scheduler.add(stream.queue, run)


def _check_launch(
    function: Function, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int,
    stream: Stream, params: bytes, offsets: tuple[int, ...],
) -> None:  # fmt: skip
    kernel, fail = function.loaded, errors.cannot_launch
    if stream.device_index != function.device_index:
        raise fail(kernel.name, "stream", f"be of cuda:{function.device_index}", stream)
    if not _within(grid, _MAX_GRID):
        raise fail(kernel.name, "grid", f"be in [1, {_MAX_GRID}]", grid)
    if not _within(block, _MAX_BLOCK):
        raise fail(kernel.name, "block", f"be in [1, {_MAX_BLOCK}]", block)
    if block[0] * block[1] * block[2] > kernel.max_threads:
        raise fail(kernel.name, "block", f"have at most {kernel.max_threads} threads", block)
    most = limits(function.device_index).block_shared_bytes
    if not 0 <= shared_bytes <= most:
        raise fail(kernel.name, "shared_bytes", f"be in [0, {most}]", shared_bytes)
    if len(params) != kernel.params_size:
        rule, got = f"have {kernel.params_size} bytes", f"{len(params)} bytes"
        raise fail(kernel.name, "params", rule, got)
    if offsets != kernel.offsets:
        rule = f"be {list(kernel.offsets)}, as the text declares"
        raise fail(kernel.name, "offsets", rule, list(offsets))


def _within(dims: tuple[int, int, int], most: tuple[int, int, int]) -> bool:
    (x, y, z), (a, b, c) = dims, most
    return 1 <= x <= a and 1 <= y <= b and 1 <= z <= c
