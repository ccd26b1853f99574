"""`DataParallel` for one device: a module that calls the wrapped module."""

from __future__ import annotations

from typing import Any

from ..core import errors
from ..core.device import device
from ..nn.modules.module import Module


class DataParallel(Module):
    """Wrap a module. Its parameter names get the prefix `module.`. Inputs are not split over
    devices.

    Args:
        device_ids: a list of one device, to which the module is moved; None does not move it.
        output_device, dim: accepted without effect; results are on the module's device.
    """

    module: Module
    device_ids: list[Any]
    dim: int

    def __init__(
        self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if not isinstance(module, Module):
            raise errors.wrong_type("DataParallel", "module", "be a Module", module)
        if device_ids is not None and not isinstance(device_ids, (list, tuple)):
            raise errors.wrong_type("DataParallel", "device_ids", "be a list", device_ids)
        devices = [] if device_ids is None else [*device_ids]
        if len(devices) > 1:
            raise errors.must(
                "DataParallel", "device_ids", "be one device", device_ids, kind=errors.AbsentError,
                remedy="one process for each device trains with DistributedDataParallel",
            )  # fmt: skip
        self.module = module.to(place("DataParallel", devices[0])) if devices else module
        self.device_ids, self.dim = devices, dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def place(op: str, given: Any) -> device:
    """Convert a value to a device. An integer means the CUDA device with this index."""
    if type(given) is not int:
        return device(given)
    if not 0 <= given < 256:
        raise errors.wrong_value(op, "device_ids", "hold indices of devices", given)
    return device("cuda", given)
