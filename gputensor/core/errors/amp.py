"""Errors of autocast and of gradient scaling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from .base import ArgumentError, ArgumentValueError, GpuTensorError


class AutocastWarning(UserWarning):
    """Warning about an autocast block that was disabled, because the device does not support the
    requested dtype."""


class AutocastError(GpuTensorError, RuntimeError):
    """Error for an operator that the device's autocast rejects."""


class ScalerError(GpuTensorError, RuntimeError):
    """Error for calls of GradScaler's methods in a wrong order."""


_Says: TypeAlias = Callable[[], ScalerError]


def _says(sentence: str) -> _Says:
    return lambda: ScalerError(sentence)


unscaled_twice: _Says = _says(
    "unscale_() has already been called on this optimizer since the last update()."
)
unscale_after_step: _Says = _says("unscale_() is being called after step().")
stepped_twice: _Says = _says("step() has already been called since the last update().")
scaler_in_use: _Says = _says(
    "GradScaler: it can be pickled after update() only; an optimizer has been unscaled since"
)


def how_to_autocast(device_type: Any) -> str:
    """Return the remedy for a device without autocast, or an empty text if there is none."""
    brings = "another device registers it with `register_autocast` of its handle"
    return "" if device_type == "meta" else brings


def autocast_dtype(device_type: Any, supported: Any, given: Any) -> str:
    listed = ", ".join(d.name for d in supported)
    got = f"autocast: '{device_type}' supports {listed} (got {given.name})"
    return f"{got}; the block runs without autocast"


def autocast_unavailable(reason: Any) -> str:
    return f"autocast: there is no CUDA device ({reason}); the block runs without autocast"


def float16_gradients() -> ArgumentValueError:
    return ArgumentValueError("Attempting to unscale FP16 gradients.")


def not_scaled(what: str) -> ScalerError:
    return ScalerError(f"{what}: scale() must be called before, to make the scale (got no scale)")


def nothing_checked(what: str) -> ScalerError:
    return ScalerError(
        f"{what}: no gradient has been checked; the optimizer has no parameter with a gradient"
    )


def empty_scaler_state() -> ArgumentError:
    return ArgumentError(
        "load_state_dict: 'state_dict' must not be empty, as that of a disabled scaler is"
    )


def scaler_unavailable(reason: Any) -> str:
    return f"GradScaler: there is no CUDA device ({reason}); gradients are not scaled"


def banned_from_autocast(op: str) -> AutocastError:
    remedy = "turn it off around the call with autocast(enabled=False), and give float32"
    return AutocastError(f"{op}: must not be called under autocast, which is not safe; {remedy}")
