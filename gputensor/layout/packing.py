"""`gt.layout.pack`: scale, shift, cast and change the layout of an array, with one read and one
write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._generated import calls
from ..core import errors, memory_format as formats
from ..core.device import CPU
from ..core.dtype import float32
from ..exchange import foreign
from ..exchange.foreign import ForeignArray
from ..kernels import stub
from ..tensor.make import over_array
from .copying import (
    check_out, check_overlap, check_writable, launches, move, remember, run,
)  # fmt: skip
from .new_array import as_dtype, as_format, empty, given


def pack(
    x: Any, dtype: Any = None, scale: Any = None, bias: Any = None,
    memory_format: Any = formats.contiguous_format, out: Any = None, *, mean: Any = None,
    std: Any = None,
) -> Any:  # fmt: skip
    """Compute `x * scale + bias` in another dtype and memory format, with one read and one write.

    Args:
        x: (N, C, …), or (C, H, W) for a single image, with any strides; so NHWC pixels are given as
            `pixels.permute(0, 3, 1, 2)`. A PIL image is read as (C, H, W), and the result is a
            tensor.
        dtype: the dtype of the result; None means x's dtype, or float32 if integers are normalized.
        scale, bias: a number, or one number per channel, as a list or an array on the host.
        mean, std: numbers in the same form, in place of bias: `(x * scale - mean) / std`, as
            torchvision normalizes pixels scaled to [0, 1] (scale=1 / 255). This is computed as one
            product and one sum, so the last bit may differ.
        memory_format: the format of the result: contiguous_format is NCHW, channels_last is NHWC.
        out: the array to write to.
    Returns: an array of x's type on x's device, or `out`. It is computed in f32, or in f64 if x or
        the result is f64. Integers are rounded to nearest even and saturated; NaN gives 0.
    """
    op = "layout.pack"
    normal = mean is not None or std is not None
    if normal and bias is not None:
        raise errors.must(op, "bias", "not be given beside mean or std", bias)
    source = foreign.seen(op, "x", x)
    form = as_format(op, memory_format)
    element = source.dtype if dtype is None else as_dtype(op, dtype)
    if normal and dtype is None and not element.is_floating_point and not element.is_complex:
        element = float32
    if out is None:
        made = empty(source, source.sizes, element, form)
        to = foreign.seen(op, "out", made, True)
    else:
        made, to = out, foreign.seen(op, "out", out, True)
        check_out(op, to, source.sizes, None if dtype is None else element)
    if scale is None and bias is None and not normal:
        move(op, to, source)
    else:
        _scale(op, to, source, *_factors(op, source, to, scale, bias, mean, std))
    return out if out is not None else given(source, made)


def _factors(
    op: str, src: ForeignArray, dst: ForeignArray, scale: Any, bias: Any, mean: Any, std: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the factor and the summand for each channel, as two f64 arrays."""
    if dst.place is not src.place:
        raise errors.mixed_devices(op, dst, "out", src, "x")
    if len(src.sizes) < 3:
        remedy = "use x[None] for one channel" if len(src.sizes) == 2 else ""
        rule = "have dimensions (N, C, …) or (C, H, W)"
        raise errors.wrong_shape(op, "x", rule, src, remedy=remedy)
    if src.dtype.is_complex or dst.dtype.is_complex:
        raise errors.wrong_dtype(op, "x", "be real, and dtype too", src)
    by, plus = _per_channel(op, "scale", scale, src, 1.0), _per_channel(op, "bias", bias, src, 0.0)
    if mean is None and std is None:
        return by, plus
    below, over = _per_channel(op, "mean", mean, src, 0.0), _per_channel(op, "std", std, src, 1.0)
    if not over.all():
        raise errors.wrong_value(op, "std", "not be 0", std)
    return by / over, -below / over


def _scale(op: str, dst: ForeignArray, src: ForeignArray, by: np.ndarray, plus: np.ndarray) -> None:
    if 0 in dst.sizes:
        return
    check_writable(op, dst)
    if dst.place is CPU:
        to, source = dst.array, src.array
        if np.may_share_memory(to, source):
            source = source.copy()
        if source.ndim == 3:
            to, source = to[None], source[None]
        stub.cpu("copy_pack").pack(to, source, by, plus)
        return
    check_overlap(op, dst, src)
    key = ("pack", dst.geometry, src.geometry, dst.place)
    launch = launches.get(key)
    if launch is None:
        launch = remember(key, stub.bind("copy", "pack", dst.place.type, _Scaled(dst, src)))
    run(dst, src, launch, lambda: (dst.address, src.address, *_tables(dst, by, plus)))


# The numbers of at most this many channels are launch parameters. More numbers are stored in a
# table in device memory.
_INLINE_CHANNELS = 16


class _Scaled:
    """The layout of `pack` for binding.bind: any strides, and a table with one entry per channel as
    the third operand."""

    __slots__ = ("shape", "stride_bytes", "dtypes", "common_dtype")

    def __init__(self, dst: ForeignArray, src: ForeignArray) -> None:
        channel = 1 if len(dst.sizes) > 3 else 0
        table = tuple([4 * (d == channel) for d in range(len(dst.sizes))])
        self.shape, self.stride_bytes = dst.sizes, (dst.stride_bytes, src.stride_bytes, table)
        self.dtypes, self.common_dtype = (dst.dtype, src.dtype), src.dtype


def _tables(dst: ForeignArray, *tables: np.ndarray) -> Iterator[Any]:
    """Yield scale and bias. Each is a tuple of numbers, or the address of an f32 table that is
    copied to the device on the current stream."""
    for values in tables:
        if values.size <= _INLINE_CHANNELS:
            yield tuple(values.tolist())
        else:
            table = over_array(values.astype(np.float32))
            dst.keeper = (dst.keeper, table := calls.to_device(table, dst.place, float32))
            yield table._address()


def _per_channel(op: str, arg: str, given: Any, src: ForeignArray, default: float) -> np.ndarray:
    """Return one f64 number for each channel."""
    dim = 1 if len(src.sizes) > 3 else 0
    channels = src.sizes[dim]
    if given is None:
        return np.full(channels, default)
    try:
        values = np.asarray(given, np.float64).reshape(-1)
    except Exception:
        values = np.empty(0)
    if values.size in (1, channels):
        return np.broadcast_to(values, channels)
    remedy = ""
    if values.size == src.sizes[-1]:  # the array is probably NHWC pixels
        last = len(src.sizes) - 1
        order = ", ".join(map(str, (*range(dim), last, *range(dim, last))))
        method = "transpose" if src.library in ("numpy", "cupy", "jax") else "permute"
        remedy = f"channels are dimension {dim}: use x.{method}({order}) for pixels"
    rule = f"be a number, or {channels} on the host"
    raise errors.wrong_value(op, arg, rule, given, remedy=remedy)
