"""Properties, memory statistics and generators of CUDA devices, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from contextlib import nullcontext
from typing import Any

from .. import runtime
from ..core import errors
from ..core.arguments import flag, real
from ..core.device import device as _device
from ..dispatch.refusal import declares
from ..runtime.current import CurrentStream
from ..structured.arguments import integer
from ..structured.generator import Generator, default_generator, seed_devices
from ..tensor.tensor import Tensor
from . import (
    _index, current_device, device, device_count, get_device_capability, get_device_name,
    is_available, mem_get_info, memory_stats, set_memory_limit,
)  # fmt: skip


@dataclass(frozen=True)
class DeviceProperties:
    """Result of `get_device_properties`; memory in bytes, clocks in kHz."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_multiprocessor: int
    shared_memory_per_block_optin: int
    L2_cache_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    warp_size: int = 32


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Return properties of a device, by default of the current one."""
    index = _index(device, "get_device_properties")
    limits = runtime.cuda().limits(index)
    return DeviceProperties(
        get_device_name(index), *get_device_capability(index), mem_get_info(index)[1],
        limits.multiprocessors, limits.threads, limits.registers, limits.shared_bytes,
        limits.block_shared_bytes, limits.l2_bytes, limits.clock_khz, limits.memory_clock_khz,
        limits.memory_bits,
    )  # fmt: skip


def get_arch_list() -> list[str]:
    """Return the architectures of this machine's devices. Kernels are compiled for them."""
    found = [get_device_capability(n) for n in range(device_count())]
    return sorted({f"sm_{major}{minor}" for major, minor in found})


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return True if there is a device, because kernels compute bfloat16 on every device.

    including_emulation: False requires hardware support: compute capability 8 or higher.
    """
    is_enough = flag("is_bf16_supported", "including_emulation", including_emulation)
    return is_available() and (is_enough or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Return False: products of float32 are computed in float32, never in TF32."""
    return False


def is_initialized() -> bool:
    """True once this process has used CUDA."""
    return runtime._chosen is not None and is_available()


def init() -> None:
    """Initialise CUDA, as the first tensor on a device does.

    Raises: DeviceError, with the reason, if there is no device.
    """
    current_device()


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """True if kernels of one device can access the memory of another one."""
    op = "can_device_access_peer"
    return bool(runtime.cuda().can_access_peer(_index(device, op), _index(peer_device, op)))


@declares(obj="Tensor")
def device_of(obj: Tensor) -> Any:
    """`with device_of(x):` makes x's device current. It does nothing for a CPU tensor."""
    return device(obj.device) if obj.is_cuda else nullcontext()


def set_stream(stream: Any) -> None:
    """Make a stream current on its device, for this thread. If `stream` is None, do nothing."""
    if stream is not None:
        # CurrentStream raises an error if the argument is not a stream
        chosen = CurrentStream(runtime.cuda(), stream)
        runtime.cuda().set_stream(chosen.stream)


def ExternalStream(stream_ptr: int, device: Any = None) -> Any:
    """Return a Stream for a stream that another library made. stream_ptr: the stream's handle, an
    integer."""
    index = _index(device, "ExternalStream")
    address = integer("ExternalStream", "stream_ptr", stream_ptr)
    return runtime.cuda().external_stream(index, address)


def get_stream_from_external(data_ptr: int, device: Any = None) -> Any:
    """Same as `ExternalStream`; PyTorch has both names."""
    return ExternalStream(data_ptr, device)


# --- memory, in bytes -----------------------------------------------------------------------------


def max_memory_allocated(device: Any = None) -> int:
    """Return the largest number of bytes that tensors held since the start or since
    `reset_peak_memory_stats`."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def max_memory_reserved(device: Any = None) -> int:
    """Return the largest number of bytes that the allocator held since the start or since
    `reset_peak_memory_stats`."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Return `memory_stats` as nested dicts. Each part of a dotted name is one level."""
    found: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *parts, last = name.split(".")
        at = found
        for part in parts:
            at = at.setdefault(part, {})
        at[last] = value
    return found


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return `memory_stats` as lines of text. abbreviated: leave out zeros."""
    stats = memory_stats(device)
    is_short = flag("memory_summary", "abbreviated", abbreviated)
    rows = [(name, n) for name, n in stats.items() if n or not is_short]
    wide = max(len(name) for name in stats)
    head = f"memory of {_device('cuda', _index(device, 'memory_summary'))}"
    return "\n".join([head, *(f"  {name:{wide}} {n:>15,}" for name, n in rows)])


_fractions: dict[int, float] = {}


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limit the allocator to a fraction, in (0, 1], of the device's memory."""
    op = "set_per_process_memory_fraction"
    index, part = _index(device, op), real(op, "fraction", fraction)
    if not 0 < part <= 1:
        raise errors.must(op, "fraction", "be in (0, 1]", fraction)
    set_memory_limit(int(mem_get_info(index)[1] * part), index)
    _fractions[index] = part


def get_per_process_memory_fraction(device: Any = None) -> float:
    """Return the fraction that `set_per_process_memory_fraction` has set; 1 by default."""
    return _fractions.get(_index(device, "get_per_process_memory_fraction"), 1.0)


# --- generators -----------------------------------------------------------------------------------


def seed() -> None:
    """Seed the current device's generator with a random number."""
    if is_available():
        default_generator(_device("cuda", current_device())).seed()


def seed_all() -> None:
    """Seed the generators of all devices with the same random number."""
    seed_devices("cuda", range(device_count()), Generator().initial_seed())


def get_rng_state_all() -> list[Tensor]:
    """Return the state of each device's generator."""
    return [default_generator(_device("cuda", n)).get_state() for n in range(device_count())]


@declares(new_states="Iterable")
def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the generators to states that `get_rng_state_all` returned."""
    for index, state in enumerate(new_states):
        default_generator(_device("cuda", index)).set_state(state)
