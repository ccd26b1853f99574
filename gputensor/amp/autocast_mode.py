"""`gt.autocast`: a context in which each operator runs in a suitable precision. Also the functions
that read and set the state of autocast.

    with gt.autocast("cuda"):
        loss = model(x)          # mm in float16, exp and sum in float32: docs/usage/autocast.md
    loss.backward()

The state is kept per thread and per async task. While autocast is off, no code of this module runs:
the thread excludes the Autocast keys (dispatch/tls.py).
"""

from __future__ import annotations

import warnings
from typing import Any

from .. import runtime
from ..core import device as devices, dtype as dtypes, errors
from ..core.arguments import flag
from ..core.guard import Guard
from ..dispatch import tls
from .casting import DEVICES, AutocastDevice, Block, WeightCache, cache_enabled, current_block


def find(device_type: Any, op: str) -> AutocastDevice:
    """Return the autocast state of a device type. Raise an error if autocast does not support
    it."""
    known = _lookup(device_type, op)
    if known is None:
        offered = ", ".join(d.type for d in DEVICES if d.type)
        remedy = errors.how_to_autocast(device_type)
        raise errors.must(op, "device_type", f"be one of {offered}", device_type, remedy=remedy)
    return known


def _lookup(device_type: Any, op: str) -> AutocastDevice | None:
    if not isinstance(device_type, str):
        raise errors.wrong_value(op, "device_type", "be a str", device_type)
    # The next line raises for an invalid device, and loads the package of a registered device.
    name = devices.device(device_type).type
    return next((d for d in DEVICES if d.type == name), None)


def _check_dtype(value: Any, op: str) -> dtypes.dtype:
    if not isinstance(value, dtypes.dtype):
        raise errors.wrong_type(op, "dtype", "be a dtype", value)
    return value


class autocast(Guard):
    """Context manager and decorator that runs a block, a function or a generator in mixed
    precision.

    Args:
        device_type: 'cpu', 'cuda', or a registered device that supports autocast.
        dtype: the lower precision, by default bfloat16 on the CPU and float16 on CUDA. If the
            device does not support the dtype, the block has no effect, with a warning.
        enabled: False disables autocast within an outer block.
        cache_enabled: keep casts of weights until the outermost block is left.
    """

    __slots__ = ("device", "fast_dtype", "_enabled", "_cache_enabled", "_autocast")
    fast_dtype: dtypes.dtype

    def __init__(
        self, device_type: str, dtype: dtypes.dtype | None = None, enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:  # fmt: skip
        known = self._autocast = find(device_type, "autocast")
        self.device: str | None = known.type
        self.fast_dtype = known.dtype.get() if dtype is None else _check_dtype(dtype, "autocast")
        self._cache_enabled = (
            is_autocast_cache_enabled() if cache_enabled is None
            else flag("autocast", "cache_enabled", cache_enabled)
        )  # fmt: skip
        self._enabled = flag("autocast", "enabled", enabled)
        if self._enabled:
            why = None
            if known.type == "cuda" and not runtime.cuda().is_available():
                why = errors.autocast_unavailable(runtime.cuda().unavailable_reason())
            elif self.fast_dtype not in known.supported:
                why = errors.autocast_dtype(known.type, known.supported, self.fast_dtype)
            if why is not None:
                warnings.warn(why, errors.AutocastWarning, stacklevel=2)
                self._enabled = False

    def __enter__(self) -> autocast:
        self._enter()
        return self

    # The previous state is stored with the thread's state and not in this object. Several threads
    # may enter the same object, and one thread may enter it several times.

    def _enter(self) -> None:
        known, outer = self._autocast, current_block.get()
        _, keep = tls.state.get()
        cache = WeightCache() if outer is None else outer.cache
        block = Block(
            outer, cache, known, bool(keep & known.key), known.dtype.get(), cache_enabled.get(),
            self,
        )  # fmt: skip
        try:
            current_block.set(block)
            _set_enabled(known, self._enabled)
            if self.fast_dtype in known.supported:
                known.dtype.set(self.fast_dtype)
            cache_enabled.set(self._cache_enabled)
        except BaseException:
            if current_block.get() is block:
                self.__exit__()
            raise

    def _found(self) -> Any:
        """Return the innermost block that was entered through this object, and the chain of blocks
        without that block."""
        inner, block = [], current_block.get()
        while block is not None and block.owner is not self:
            inner.append(block)
            block = block.outer
        assert block is not None, "autocast was exited in a thread or task that did not enter it"
        remaining = block.outer
        for other in reversed(inner):
            remaining = other._replace(outer=remaining)
        return block, remaining

    def _put_back(self, found: Any) -> None:
        block, remaining = found
        _set_enabled(block.device, block.was_enabled)
        block.device.dtype.set(block.was_dtype)
        cache_enabled.set(block.was_caching)
        current_block.set(remaining)
        if remaining is None:
            block.cache.clear()


def _set_enabled(known: AutocastDevice, enabled: bool) -> None:
    include, keep = tls.state.get()
    is_on = flag("set_autocast_enabled", "enabled", enabled)
    tls.state.set(tls.same((include, keep | known.key if is_on else keep & ~known.key)))


# --- the state ------------------------------------------------------------------------------------


def is_autocast_available(device_type: str) -> bool:
    """Return True if autocast supports this device type."""
    return _lookup(device_type, "is_autocast_available") is not None


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Return True while autocast is on for this device type in this thread or task."""
    known = _lookup(device_type, "is_autocast_enabled")
    return known is not None and known.is_enabled


def set_autocast_enabled(device_type: str, enabled: bool) -> None:
    """Turn autocast on or off in this thread or task. Outside an `autocast` block, casts are not
    cached."""
    known = find(device_type, "set_autocast_enabled")
    _set_enabled(known, enabled)


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """Return the current lower precision of this device type in this thread or task."""
    return find(device_type, "get_autocast_dtype").dtype.get()


def set_autocast_dtype(device_type: str, dtype: dtypes.dtype) -> None:
    """Change the lower precision in this thread or task. The device must support it."""
    known = find(device_type, "set_autocast_dtype")
    if _check_dtype(dtype, "set_autocast_dtype") not in known.supported:
        listed = ", ".join(d.name for d in known.supported)
        raise errors.must("set_autocast_dtype", "dtype", f"be one of {listed}", dtype.name)
    known.dtype.set(dtype)


def is_autocast_cache_enabled() -> bool:
    """Return True while casts of weights are cached in this thread or task."""
    return cache_enabled.get()


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Turn the cache of cast weights on or off in this thread or task."""
    cache_enabled.set(flag("set_autocast_cache_enabled", "enabled", enabled))


def clear_autocast_cache() -> None:
    """Drop all cached casts."""
    block = current_block.get()
    if block is not None:
        block.cache.clear()
