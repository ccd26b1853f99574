"""The device type `openreg` for gputensor: two simulated devices with the dispatch key PrivateUse1.

`bring_up` is the package's entry point. It is called when `gt.device("openreg")`, `gt.openreg` or
`device="openreg"` is first used. `runtime.py` simulates the hardware, `kernels.py` has the kernels,
and `operators.py` has an operator that only this device defines.
"""

from __future__ import annotations

from typing import Any

import gputensor as gt

from . import kernels, operators, runtime


def bring_up(key: str = "PrivateUse1", cpu_fallback: bool = True) -> Any:
    """Register the device. The returned handle's `remove()` undoes all registrations."""
    device = gt.backend.register("openreg", key, runtime=runtime, cpu_fallback=cpu_fallback)
    device.register_stub("copy", kernels.bind_copy)
    device.register_stub("unary", kernels.bind_unary, "abs")
    operators.axpy.register_kernel(device.name, operators.axpy_on_device)
    if key == "PrivateUse1":  # only PrivateUse1 has an Autocast key
        policies = gt.amp.policies("cuda") | {"abs": "fp32"}
        device.register_autocast((gt.float16, gt.bfloat16), policies)
    return device
