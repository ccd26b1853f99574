"""Layout copies on arrays of any library: what `gt.layout.contiguous`, `copy` and `pack` do.

The planner, the kernels and the CPU loops are those of `copy_`; no tensor is made of what a call is
given where memory can be described without one. On a GPU the work goes to the caller's current
stream, in order with what the caller has queued there, and the host waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import runtime
from .._generated import calls
from ..core import errors
from ..core import memory_format as formats
from ..core.device import CPU
from ..core.dtype import float32
from ..core.geometry import contiguous_geometry
from ..core.memory_format import memory_format
from . import foreign
from .foreign import Seen
from ..iterator.config import COPY
from ..iterator.plan import build
from ..kernels import stub
from ..tensor.make import from_array

# (geometries, device, alignments) -> launch. Cleared whole at its bound, as the operators' plans.
_launches: dict[tuple[Any, ...], Any] = {}
_MOST_LAUNCHES = 4096


def contiguous(x: Any, memory_format: Any = formats.contiguous_format, out: Any = None) -> Any:
    """`x` with its elements dense in a memory format: `x` itself if they are, else a new array.

    Args:
        x: an array of PyTorch, CuPy, JAX, NumPy, a tensor, or anything with DLPack or the CUDA
            array interface.
        memory_format: gputensor's or PyTorch's, or its name.
        out: where to write instead; an array of x's sizes and dtype, of any layout.
    Returns: an array of x's type on x's device, or `out`.
    """
    op = "layout.contiguous"
    form = foreign.as_format(op, memory_format)
    source = foreign.seen(op, "x", x)
    if out is not None:
        to = foreign.seen(op, "out", out)
        _check_out(op, to, source.sizes, source.dtype)
        _move(op, to, source)
        return out
    if _is_dense(source, form) and source.library != "pil":
        return x
    made = foreign.empty(source, source.sizes, source.dtype, form)
    _move(op, foreign.seen(op, "out", made), source)
    return foreign.given(source, made)


def copy(dst: Any, src: Any) -> Any:
    """Write the elements of `src`, broadcast and cast, into `dst`; returns `dst`.

    dst, src: arrays of any library, of two if need be, on one device, with any strides.
    """
    op = "layout.copy"
    to, source = foreign.seen(op, "dst", dst), foreign.seen(op, "src", src)
    _move(op, to, broadcast(op, to, source))
    return dst


def pack(
    x: Any, dtype: Any = None, scale: Any = None, bias: Any = None,
    memory_format: Any = formats.contiguous_format, out: Any = None, *,
    mean: Any = None, std: Any = None,
) -> Any:  # fmt: skip
    """`x * scale + bias` in another dtype and memory format, in one read and one write.

    Args:
        x: (N, C, …), or (C, H, W) for a single image; any strides, so NHWC pixels are given as
            `pixels.permute(0, 3, 1, 2)`. An image of PIL is (C, H, W), and gives a tensor.
        dtype: of the result; None for x's, or for float32 where integers are normalized.
        scale, bias: a number, or one per channel; numbers, a list or an array on the host.
        mean, std: the same, instead of bias: `(x * scale - mean) / std`, as torchvision normalizes
            what it has scaled to [0, 1] (scale=1 / 255). The two steps are one product and one
            sum, so the last bit may differ.
        memory_format: of the result: contiguous_format is NCHW, channels_last is NHWC.
        out: where to write instead.
    Returns: an array of x's type on x's device, or `out`. Computed in f32, or f64 where x or the
        result is; integers are rounded to nearest even and saturated, NaN gives 0.
    """
    op = "layout.pack"
    normal = mean is not None or std is not None
    if normal and bias is not None:
        raise errors.must(op, "bias", "not be given beside mean or std", bias)
    source = foreign.seen(op, "x", x)
    form = foreign.as_format(op, memory_format)
    element = source.dtype if dtype is None else foreign.as_dtype(op, dtype)
    if normal and dtype is None and not element.is_floating_point and not element.is_complex:
        element = float32
    if out is None:
        made = foreign.empty(source, source.sizes, element, form)
        to = foreign.seen(op, "out", made)
    else:
        made, to = out, foreign.seen(op, "out", out)
        _check_out(op, to, source.sizes, None if dtype is None else element)
    if scale is None and bias is None and not normal:
        _move(op, to, source)
    else:
        _scale(op, to, source, *_factors(op, source, to, scale, bias, mean, std))
    return out if out is not None else foreign.given(source, made)


# --- checks -------------------------------------------------------------------------------------


def _check_out(op: str, out: Seen, sizes: tuple[int, ...], element: Any) -> None:
    if out.sizes != sizes:
        raise errors.must(op, "out", f"have sizes {list(sizes)}", out, kind=errors.ShapeError)
    if element is not None and out.dtype is not element:
        raise errors.must(op, "out", f"have dtype {element.name}", out, kind=errors.DtypeError)


def broadcast(op: str, dst: Seen, src: Seen) -> Seen:
    """`src` with the sizes of `dst`, missing dimensions and those of one element repeated."""
    if src.sizes == dst.sizes:
        return src
    lead = len(dst.sizes) - len(src.sizes)
    fits = lead >= 0 and all(n in (1, m) for n, m in zip(src.sizes, dst.sizes[lead:]))
    if not fits:
        rule = f"broadcast to {list(dst.sizes)}"
        raise errors.must(op, "src", rule, src, kind=errors.ShapeError)
    strides = [0 if n != m else s for n, m, s in zip(src.sizes, dst.sizes[lead:], src.stride_bytes)]
    src.sizes, src.stride_bytes = dst.sizes, (*(0,) * lead, *strides)
    if src.array is not None:
        src.array = np.broadcast_to(src.array, dst.sizes)
    return src


def _is_dense(x: Seen, form: memory_format) -> bool:
    """Whether the strides are the format's; those of single elements do not count."""
    size = x.dtype.itemsize
    wanted = formats.strides_for("layout.contiguous", x.sizes, form)
    same = (n == 1 or s == w * size for n, s, w in zip(x.sizes, x.stride_bytes, wanted))
    return all(same) or 0 in x.sizes


# --- moving -------------------------------------------------------------------------------------


def _move(op: str, dst: Seen, src: Seen) -> None:
    if dst.place is not src.place:
        raise errors.mixed_devices(op, dst, "dst", src, "src")
    if 0 in dst.sizes:
        return
    _check_writable(op, dst)
    if dst.place is CPU:
        source = src.array
        if dst.dtype is not src.dtype and np.may_share_memory(dst.array, source):
            source = source.copy()  # a cast goes over its operands in several passes
        stub.cpu("copy").copy(dst.array, source)
        return
    _check_overlap(op, dst, src)
    shapes = (dst.geometry, src.geometry)
    addresses = (dst.address, src.address)
    key = (*shapes, dst.place, addresses[0] & 15, addresses[1] & 15)
    launch = _launches.get(key)
    if launch is None:
        plan = build(
            op, COPY, ((shapes[0], dst.place),), ((shapes[1], src.place),), default_dtype=None
        )
        launch = _remember(key, stub.bind("copy", "copy", dst.place.type, plan))
    _run(dst, src, launch, lambda: addresses)


def _remember(key: tuple[Any, ...], launch: Any) -> Any:
    if len(_launches) >= _MOST_LAUNCHES:
        _launches.clear()
    _launches[key] = launch
    return launch


def _run(dst: Seen, src: Seen, launch: Any, operands: Callable[[], tuple[Any, ...]]) -> None:
    """Launch on the stream of dst's library, after what src's has queued and before what it will.

    operands: called with that stream current.
    """
    index = dst.place.index
    if dst.stream == src.stream:
        with foreign.on_stream(index, dst.stream):
            launch(index, operands())
        return
    cuda = runtime.cuda()
    here, there = [
        cuda.current_stream(index) if x.stream is None else cuda.external_stream(index, x.stream)
        for x in (dst, src)
    ]
    here.wait_stream(there)
    with foreign.on_stream(index, here.ptr):
        launch(index, operands())
    there.wait_stream(here)


def _check_writable(op: str, dst: Seen) -> None:
    if dst.is_readonly or dst.array is not None and not dst.array.flags.writeable:
        raise errors.must(
            op, "dst", "be writable", errors.Got(f"a read-only {type(dst.owner).__name__}")
        )


def _check_overlap(op: str, dst: Seen, src: Seen) -> None:
    """On a device elements are read and written in no order, so the two may not share any."""
    (low, high), (first, last) = _range(dst), _range(src)
    same = dst.address == src.address and dst.stride_bytes == src.stride_bytes
    if low <= last and first <= high and not (same and dst.dtype is src.dtype):
        raise errors.partial_overlap(op, "src")


def _range(x: Seen) -> tuple[int, int]:
    spans = [(n - 1) * s for n, s in zip(x.sizes, x.stride_bytes)]
    low = x.address + sum(s for s in spans if s < 0)
    return low, x.address + sum(s for s in spans if s > 0) + x.dtype.itemsize - 1  # inclusive


# --- pack -----------------------------------------------------------------------------------------


def _factors(
    op: str, src: Seen, dst: Seen, scale: Any, bias: Any, mean: Any, std: Any
) -> tuple[np.ndarray, np.ndarray]:
    """What x is multiplied by and what is added, one f64 number per channel each."""
    if dst.place is not src.place:
        raise errors.mixed_devices(op, dst, "out", src, "x")
    if len(src.sizes) < 3:
        remedy = "use x[None] for one channel" if len(src.sizes) == 2 else ""
        raise errors.must(
            op,
            "x",
            "have dimensions (N, C, …) or (C, H, W)",
            src,
            kind=errors.ShapeError,
            remedy=remedy,
        )
    if src.dtype.is_complex or dst.dtype.is_complex:
        raise errors.must(op, "x", "be real, and dtype too", src, kind=errors.DtypeError)
    by, plus = _per_channel(op, "scale", scale, src, 1.0), _per_channel(op, "bias", bias, src, 0.0)
    if mean is None and std is None:
        return by, plus
    below, over = _per_channel(op, "mean", mean, src, 0.0), _per_channel(op, "std", std, src, 1.0)
    if not over.all():
        raise errors.must(op, "std", "not be 0", std, kind=errors.ArgumentValueError)
    return by / over, -below / over


def _scale(op: str, dst: Seen, src: Seen, by: np.ndarray, plus: np.ndarray) -> None:
    if 0 in dst.sizes:
        return
    _check_writable(op, dst)
    if dst.place is CPU:
        to, source = dst.array, src.array
        if np.may_share_memory(to, source):
            source = source.copy()
        if source.ndim == 3:
            to, source = to[None], source[None]
        stub.cpu("pack").pack(to, source, by, plus)
        return
    _check_overlap(op, dst, src)
    key = ("pack", dst.geometry, src.geometry, dst.place)
    launch = _launches.get(key)
    if launch is None:
        launch = _remember(key, stub.bind("copy", "pack", dst.place.type, _Scaled(dst, src)))
    _run(dst, src, launch, lambda: (dst.address, src.address, *_tables(dst, by, plus)))


# So many channels' numbers travel with a launch; those of more are a table in the device's memory.
_INLINE_CHANNELS = 16


class _Scaled:
    """The layout of `pack` for binding.bind: any strides, the third those of a table by channel."""

    __slots__ = ("shape", "stride_bytes", "dtypes", "common_dtype")

    def __init__(self, dst: Seen, src: Seen) -> None:
        channel = 1 if len(dst.sizes) > 3 else 0
        table = tuple([4 * (d == channel) for d in range(len(dst.sizes))])
        self.shape, self.stride_bytes = dst.sizes, (dst.stride_bytes, src.stride_bytes, table)
        self.dtypes, self.common_dtype = (dst.dtype, src.dtype), src.dtype


def _tables(dst: Seen, *tables: np.ndarray) -> Iterator[Any]:
    """Each as numbers, or the address of f32 on the device; that goes with the current stream."""
    for values in tables:
        if values.size <= _INLINE_CHANNELS:
            yield tuple(values.tolist())
        else:
            table = from_array(
                values.astype(np.float32), contiguous_geometry(values.shape, float32)
            )
            dst.keeper = (dst.keeper, table := calls.to_device(table, dst.place, float32))
            yield table._address()


def _per_channel(op: str, arg: str, given: Any, src: Seen, default: float) -> np.ndarray:
    """One f64 number per channel."""
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
    if values.size == src.sizes[-1]:  # pixels, most likely
        order = ", ".join(
            map(str, (*range(dim), len(src.sizes) - 1, *range(dim, len(src.sizes) - 1)))
        )
        method = "transpose" if src.library in ("numpy", "cupy", "jax") else "permute"
        remedy = f"channels are dimension {dim}: use x.{method}({order}) for pixels"
    raise errors.must(
        op, arg, f"be a number, or {channels} on the host", given, kind=errors.ArgumentValueError,
        remedy=remedy,
    )  # fmt: skip
