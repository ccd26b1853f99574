"""Public modules of devices, such as `gt.cuda` and `gt.openreg`: `gt.cuda.device(1)`.

`gt.cuda` uses the runtime chosen by `GPUTENSOR_CUDA`. The module of a registered device also has
the additional functions of its runtime. A device may be given as an index, a string or a `device`;
None means the current device.
"""

from __future__ import annotations

from typing import Any

from ..core import errors
from ..core.device import device as _device
from ..structured.arguments import integer
from ..structured.generator import default_generator, seed_devices
from ..runtime.current import CurrentDevice, CurrentStream
from ..tensor.tensor import Tensor


class DeviceFace:
    """The public functions of a device type. They call the functions of its runtime."""

    _runtime: Any

    def __init__(self, device_type: str) -> None:
        self._type = device_type

    def is_available(self) -> bool:
        """Return True if there is a device, real or emulated."""
        return self.device_count() > 0

    def device_count(self) -> int:
        """Return the number of devices, which may be 0."""
        return int(self._runtime.device_count())

    def current_device(self) -> int:
        """Return the index of this thread's current device."""
        return int(self._runtime.current_device())

    def set_device(self, device: Any) -> None:
        """Make a device current for this thread."""
        self._runtime.exchange_device(self._index(device, "set_device"))

    def device(self, device: Any) -> CurrentDevice:
        """`with gt.cuda.device(1):` makes a device current in the block.

        Also a decorator of functions.
        """
        return CurrentDevice(self._runtime, self._index(device, "device"))

    def synchronize(self, device: Any = None) -> None:
        """Wait until the device has finished all queued work."""
        self._runtime.synchronize(self._index(device, "synchronize"))

    def current_stream(self, device: Any = None) -> Any:
        """Return the stream on which this thread's work for a device is queued."""
        return self._runtime.current_stream(self._index(device, "current_stream"))

    def default_stream(self, device: Any = None) -> Any:
        """Return a device's default stream, which is current until `set_stream` or `stream` is
        used."""
        return self._runtime.default_stream(self._index(device, "default_stream"))

    def Stream(self, device: Any = None, priority: int = 0) -> Any:
        """Make a stream on a device. The stream has ptr, device_index, synchronize, query,
        record and wait."""
        index = self._index(device, "Stream")
        return self._runtime.Stream(index, integer("Stream", "priority", priority))

    def stream(self, stream: Any) -> CurrentStream:
        """Make `stream` current in the block, on its device; None changes nothing.

        Also a decorator of functions.
        """
        return CurrentStream(self._runtime, stream)

    def manual_seed(self, seed: float) -> None:
        """Seed the current device's generator. Do nothing without a device, as in PyTorch."""
        if self.is_available():
            seed_devices(self._type, [self.current_device()], seed)

    def manual_seed_all(self, seed: float) -> None:
        """Seed the generators of all devices."""
        seed_devices(self._type, range(self.device_count()), seed)

    def initial_seed(self) -> int:
        """Return the seed of the current device's generator."""
        return default_generator(_device(self._type, self.current_device())).initial_seed()

    def get_rng_state(self, device: Any = None) -> Tensor:
        """Return the state of a device's generator, by default of the current device."""
        index = self._index(device, "get_rng_state")
        return default_generator(_device(self._type, index)).get_state()

    def set_rng_state(self, new_state: Tensor, device: Any = None) -> None:
        """Set the state of a device's generator to a result of `get_rng_state`."""
        index = self._index(device, "set_rng_state")
        default_generator(_device(self._type, index)).set_state(new_state)

    def _index(self, device: Any, op: str) -> int:
        """Return the index of `device`. Raise an error for an unknown device."""
        if device is None:
            return self.current_device()
        if isinstance(device, str):
            device = _device(device)
        if isinstance(device, _device):
            if device.type != self._type:
                raise errors.must(op, "device", f"be of type {self._type}", str(device))
            device = self.current_device() if device.index is None else device.index
        if isinstance(device, bool) or not isinstance(device, int):
            rule, kind = "be an index, a string or a device", errors.ArgumentTypeError
            raise errors.must(op, "device", rule, device, kind=kind)
        # without any device, the runtime raises an error that gives the reason
        if self.is_available() and not 0 <= device < self.device_count():
            raise errors.device_index_out_of_range(op, device, self.device_count())
        return device


class DeviceModule(DeviceFace):
    """The public functions of a registered device type, and the additional functions of its
    runtime."""

    def __init__(self, device_type: str, runtime: Any) -> None:
        super().__init__(device_type)
        self.__name__: str = f"gputensor.{device_type}"
        self._runtime = runtime

    def __repr__(self) -> str:
        return f"<device module {self.__name__}>"

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(self._runtime, name):
            return getattr(self._runtime, name)
        raise errors.no_module_attribute(self.__dict__.get("_type", "?"), name)

    def __dir__(self) -> list[str]:
        own = [n for n in dir(self._runtime) if not n.startswith("_")]
        return sorted({*super().__dir__(), *own})
