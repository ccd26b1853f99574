"""From (family, op, device) to what runs: a NumPy loop, a CUDA launch, or a third device's kernel.

Nothing is listed anywhere: `kernels/cpu/<family>.py` and `kernels/cuda/<family>.cu` are found by
their path, and a third device registers its own `bind`. Native code binds once per plan and calls
what it got; the CPU's callables take arrays, all others take (device index, operands, scalars) with
an operand per pointer or Python number.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

# (device type, family) -> bind(op, plan); what `register_stub` fills.
_registered: dict[tuple[str, str], Callable[..., Any]] = {}
_cpu_modules: dict[str, ModuleType] = {}


def cpu(family: str) -> ModuleType:
    """The module of a family's NumPy loops."""
    module = _cpu_modules.get(family)
    if module is None:
        module = _cpu_modules[family] = importlib.import_module(f"{__package__}.cpu.{family}")
    return module


def bind(family: str, op: str, device_type: str, plan: Any) -> Callable[..., None]:
    """What runs `op` over a plan's layout on a device that is not the CPU.

    Returns: callable(device index, (pointer or number per operand, outputs first), scalars).
    On meta nothing runs.
    """
    if device_type == "meta":
        return nothing
    registered = _registered.get((device_type, family))
    if registered is not None:
        return registered(op, plan)
    if device_type == "cuda":
        from .cuda import launch

        return launch.bind(family, op, plan)
    from ..core import errors

    raise errors.no_stub(family, op, device_type)


def nothing(device_index: int, operands: tuple[Any, ...], scalars: tuple[Any, ...] = ()) -> None:
    """Runs on meta tensors, which have no elements."""


def register_stub(device_type: str, family: str, bind_op: Callable[..., Any]) -> Callable[[], None]:
    """Let `bind_op(op, plan)` serve a family on a device type; returns a function that undoes it.

    The plan carries shape and stride bytes, coalesced, and dtypes; never a raw view.
    """
    key = (device_type, family)
    before = _registered.get(key)
    _registered[key] = bind_op

    def undo() -> None:
        if before is None:
            _registered.pop(key, None)
        else:
            _registered[key] = before

    return undo
