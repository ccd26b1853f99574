"""`gt.layout`: layout copies at memory speed, also on arrays of other libraries.

gt.layout.contiguous(x, memory_format=, out=)      an array of x's type, dense in that format
gt.layout.copy(dst, src)                           any layouts and dtypes, one device
gt.layout.pack(x, dtype=, scale=, mean=, std=, memory_format=)      normalised per channel, one pass
gt.layout.explain(dst, src)                        what a GPU does with such a copy, and why
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import runtime
from ..core import lazy
from ..core.device import CPU
from ..exchange import foreign
from ..kernels import stub
from ..kernels.cpu import copy_compiled
from ..tensor.tensor import Tensor
from .copying import broadcast, contiguous, copy
from .packing import pack

if TYPE_CHECKING:
    from ..kernels.cuda.copy_explain import Explanation

__all__ = ["contiguous", "copy", "explain", "pack"]


def explain(dst: Any, src: Any) -> Explanation:
    """What a GPU does when `src` is copied into `dst`: the walk, the kernel, its tiles, and why.

    dst, src: arrays of any library on any device, `meta` too; neither is read or written. The plan
    is that of dst's GPU, of an H200 where dst is on none. The answer prints as a drawing, and
    `.to_dict()` has the same as data. Of arrays on the CPU it says whose loops copy and pack them
    there, once `set_compiled_loops` leaves a choice.
    """
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
        found = copy_explain.Explanation(layout, *lows)
        if place is CPU and copy_compiled.get_compiled_loops():
            of_copy, of_pack = [
                stub.cpu(module).loops(to.array, source.array) for module in ("copy", "copy_pack")
            ]
            found.on_cpu = f"on the CPU: copy with {of_copy} loops, pack with {of_pack} loops"
        return found
    return copy_explain.Explanation(layout, *lows, runtime.cuda().limits(place.index or 0))


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
