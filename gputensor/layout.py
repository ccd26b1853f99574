"""`gt.layout`: layout copies at memory speed, also on arrays of other libraries.

gt.layout.contiguous(x, memory_format=, out=)      an array of x's type, dense in that format
gt.layout.copy(dst, src)                           any layouts and dtypes, one device
gt.layout.pack(x, dtype=, scale=, mean=, std=, memory_format=)      normalised per channel, one pass
gt.layout.explain(dst, src)                        what a GPU does with such a copy, and why
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .exchange import foreign
from .exchange.foreign import Seen
from .exchange.foreign_copy import broadcast, contiguous, copy, pack
from .tensor.tensor import Tensor

if TYPE_CHECKING:
    from .kernels.cuda.copy_explain import Explanation

__all__ = ["contiguous", "copy", "explain", "pack"]


def explain(dst: Any, src: Any) -> Explanation:
    """What a GPU does when `src` is copied into `dst`: the walk, the kernel, its tiles, and why.

    dst, src: arrays of any library on any device, `meta` too; neither is read or written. The plan
    is that of dst's GPU, of an H200 where dst is on none. The answer prints as a drawing, and
    `.to_dict()` has the same as data.
    """
    from . import runtime
    from .kernels.cuda import copy_explain, copy_launch

    to, source = _described("dst", dst), _described("src", src)
    source = broadcast("layout.explain", to, source)
    strides = to.stride_bytes, source.stride_bytes
    layout = copy_launch.Layout(to.sizes, strides, (to.dtype, source.dtype))
    lows, place = (to.address & 15, source.address & 15), to.place
    if place.type != "cuda":
        return copy_explain.Explanation(layout, *lows)
    return copy_explain.Explanation(layout, *lows, runtime.cuda().limits(place.index or 0))


def _described(arg: str, x: Any) -> Seen:
    if not isinstance(x, Tensor) or not x.is_meta:
        return foreign.seen("layout.explain", arg, x)
    found, shape = Seen(), x._geometry
    found.library, found.owner, found.keeper, found.array = "gputensor", x, x, None
    found.place, found.dtype, found.stream, found.address = x._device, shape.dtype, None, 0
    found.sizes, found.stride_bytes = shape.sizes, shape.stride_bytes
    return found
