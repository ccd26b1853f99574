"""The rules for tensors in calls of NumPy's functions: a setting, and errors for tensors that are
not accepted.

protocol.py states the rules.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...core import errors
from ...core.arguments import flag
from ...tensor import export
from ...tensor.tensor import Tensor

# Functions, other than ufuncs, that return bools.
BOOLEAN = {"all", "any", "allclose", "array_equal", "array_equiv", "isclose", "isin"}

_VARIABLE = "GPUTENSOR_NUMPY_ON_DEVICES"
_on_devices: bool | None = None  # None until first read


def get_numpy_on_devices() -> bool:
    """Return True if NumPy's functions accept tensors on any device. The initial value comes from
    GPUTENSOR_NUMPY_ON_DEVICES."""
    global _on_devices
    if _on_devices is None:
        given = os.environ.get(_VARIABLE, "0")
        if given not in ("0", "1"):
            raise errors.wrong_setting(_VARIABLE, "be 0 or 1", given)
        _on_devices = given == "1"
    return _on_devices


def set_numpy_on_devices(on: bool) -> None:
    """Let NumPy's functions accept tensors on any device; gputensor's operators then compute the
    results. Libraries such as Dask need this, because they call NumPy's functions on arrays of all
    types. A function without an operator still raises an error for devices other than the CPU.

    By default all functions raise an error for such tensors, as in PyTorch.
    """
    global _on_devices
    _on_devices = flag("set_numpy_on_devices", "on", on)


def is_elsewhere(args: Iterable[Any]) -> bool:
    """Return True if an argument is a tensor on a device whose memory NumPy cannot access."""
    return any(
        [
            not x.is_cpu if isinstance(x, Tensor)
            else isinstance(x, (list, tuple)) and is_elsewhere(x)
            for x in args
        ]
    )  # fmt: skip


def is_foreign(x: Any) -> bool:
    """Return True for an array of another library. That library must handle the call."""
    return not isinstance(x, (Tensor, np.ndarray)) and hasattr(x, "__dlpack__")


def check(op: str, given: Iterable[Any], is_boolean: bool, any_device: bool = False) -> None:
    """Raise an error for a tensor that NumPy must not read. any_device: an operator of gputensor
    computes the result, so the tensor may be on any device."""
    for x in given:
        if isinstance(x, Tensor):
            if any_device:
                export.check_without_grad(op, x, is_boolean)
            else:
                export.check_shareable(op, x, is_boolean)
        elif isinstance(x, (list, tuple)):
            check(op, x, is_boolean, any_device)
        elif isinstance(x, dict):
            check(op, x.values(), is_boolean, any_device)
