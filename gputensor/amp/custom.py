"""`custom_fwd` and `custom_bwd`: decorators for autograd Functions that are used within autocast.

Source: torch/amp/autocast_mode.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..autograd.function import Context
from ..core import errors
from ..core.dtype import dtype
from ..tensor.tensor import Tensor
from .autocast_mode import autocast, find
from .casting import AutocastDevice, cast

Method = Callable[..., Any]


def custom_fwd(
    fwd: Method | None = None, *, device_type: str, cast_inputs: dtype | None = None
) -> Any:
    """Decorate `forward(ctx, ...)` of an autograd Function and store the autocast state in ctx, so
    that backward can restore it.

    cast_inputs: if given, autocast casts floating operands on the device, except float64, to this
    dtype and runs forward without autocast. If None, forward runs unchanged.
    """
    known = find(device_type, "custom_fwd")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        _check_context(ctx, "custom_fwd")
        ctx._autocast_dtype, ctx._used_autocast = known.dtype.get(), known.is_enabled
        if cast_inputs is None or not known.is_enabled:
            return fwd(ctx, *args, **kwargs)
        ctx._used_autocast = False
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args, cast_inputs, known), **_cast(kwargs, cast_inputs, known))

    return decorated


def custom_bwd(bwd: Method | None = None, *, device_type: str) -> Any:
    """Decorate `backward(ctx, ...)` to run with the autocast state that forward had."""
    find(device_type, "custom_bwd")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        _check_context(ctx, "custom_bwd")
        used = getattr(ctx, "_used_autocast", None)
        if used is None:
            rule = "come from a forward decorated with custom_fwd"
            raise errors.must("custom_bwd", "ctx", rule, errors.Got("one that is not"))
        with autocast(device_type, ctx._autocast_dtype, used):
            return bwd(ctx, *args, **kwargs)

    return decorated


def _check_context(ctx: Any, op: str) -> None:
    if not isinstance(ctx, Context):
        remedy = "write forward(ctx, ...) without setup_context"
        raise errors.wrong_type(op, "ctx", "be the first argument", ctx, remedy=remedy)


def _cast(value: Any, to: dtype, device: AutocastDevice) -> Any:
    """Cast the eligible tensors in nested tuples, lists and dicts to the dtype `to`."""
    if isinstance(value, Tensor):
        return cast(value, to, device)
    if isinstance(value, dict):
        return {k: _cast(v, to, device) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_cast(v, to, device) for v in value])
    return value
