"""`gt.layout`: layout copies at memory speed, also for arrays of other libraries.

gt.layout.contiguous(x, memory_format=, out=)      an array of x's type, dense in that format
gt.layout.copy(dst, src)                           any layouts and dtypes, one device
gt.layout.pack(x, dtype=, scale=, mean=, std=, memory_format=)      normalised per channel, one pass
gt.layout.explain(dst, src)                        what a GPU does with such a copy, and why
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import runtime
from ..core import lazy
from ..exchange import foreign
from ..tensor.tensor import Tensor
from .copying import broadcast, contiguous, copy
from .packing import pack

if TYPE_CHECKING:
    from ..kernels.cuda.copy_explain import Explanation

__all__ = ["contiguous", "copy", "explain", "pack"]


def explain(dst: Any, src: Any) -> Explanation:
    """Explain how a GPU copies `src` into `dst`: the normalised layout, the kernel, its tiles, and
    the reasons.

    dst, src: arrays of any library on any device, including `meta`; they are neither read nor
    written. The plan is for dst's GPU, or for an H200 if dst is not on a GPU. `print` shows the
    result as a drawing, `.to_dict()` returns it as data."""
    from ..kernels.cuda import copy_explain, copy_launch

    op = "layout.explain"
    to, source = [
        (foreign.described if isinstance(x, Tensor) and x.is_meta else foreign.seen)(op, arg, x)
        for arg, x in (("dst", dst), ("src", src))
    ]
    assert to is not None and source is not None
    source = broadcast(op, to, source)
    strides = to.stride_bytes, source.stride_bytes
    layout = copy_launch.Layout(to.sizes, strides, (to.dtype, source.dtype))
    lows, place = (to.address & 15, source.address & 15), to.place
    if place.type != "cuda":
        return copy_explain.Explanation(layout, *lows)
    return copy_explain.Explanation(layout, *lows, runtime.cuda().limits(place.index or 0))


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
