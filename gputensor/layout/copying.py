"""`gt.layout.contiguous` and `copy`: layout copies of arrays of any library.

They use the planner, the kernels and the CPU loops of `copy_`. An array is not converted to a
tensor if its memory can be described without that. On a GPU the work is queued on the caller's
current stream, and the host does not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import runtime
from ..core import errors, memory_format as formats
from ..core.device import CPU
from ..core.memory_format import memory_format
from ..exchange import foreign
from ..exchange.foreign import ForeignArray, on_stream
from ..iterator.config import COPY
from ..iterator.plan import build
from ..kernels import stub
from .new_array import as_format, empty, given

# Maps (geometries, device, alignments) to a launch. The table is cleared when it reaches its
# maximum size, like the tables of operators' plans.
launches: dict[tuple[Any, ...], Any] = {}
_MOST_LAUNCHES = 4096


def contiguous(x: Any, memory_format: Any = formats.contiguous_format, out: Any = None) -> Any:
    """Return `x` with its elements dense in a memory format. If `x` already is dense in this
    format, return `x` itself, otherwise a new array.

    Args:
        x: an array of PyTorch, CuPy, JAX, NumPy, a tensor, or anything with DLPack or the CUDA
            array interface.
        memory_format: a format of gputensor or PyTorch, or its name.
        out: the array to write to, with x's sizes and dtype and any layout.
    Returns: an array of x's type on x's device, or `out`.
    """
    op = "layout.contiguous"
    form = as_format(op, memory_format)
    source = foreign.seen(op, "x", x)
    if out is not None:
        to = foreign.seen(op, "out", out, True)
        check_out(op, to, source.sizes, source.dtype)
        move(op, to, source)
        return out
    if _is_dense(source, form) and source.library != "pil":
        return x
    made = empty(source, source.sizes, source.dtype, form)
    move(op, foreign.seen(op, "out", made, True), source)
    return given(source, made)


def copy(dst: Any, src: Any) -> Any:
    """Write the elements of `src`, broadcast and cast, into `dst`. Return `dst`.

    dst, src: arrays on one device, with any strides; they may belong to different libraries.
    """
    op = "layout.copy"
    to, source = foreign.seen(op, "dst", dst, True), foreign.seen(op, "src", src)
    move(op, to, broadcast(op, to, source))
    return dst


def check_out(op: str, out: ForeignArray, sizes: tuple[int, ...], element: Any) -> None:
    if out.sizes != sizes:
        raise errors.wrong_shape(op, "out", f"have sizes {list(sizes)}", out)
    if element is not None and out.dtype is not element:
        raise errors.wrong_dtype(op, "out", f"have dtype {element.name}", out)


def broadcast(op: str, dst: ForeignArray, src: ForeignArray) -> ForeignArray:
    """Expand `src` to the sizes of `dst`: repeat dimensions of size 1 and add missing ones."""
    if src.sizes == dst.sizes:
        return src
    lead = len(dst.sizes) - len(src.sizes)
    fits = lead >= 0 and all(n in (1, m) for n, m in zip(src.sizes, dst.sizes[lead:]))
    if not fits:
        rule = f"broadcast to {list(dst.sizes)}"
        raise errors.wrong_shape(op, "src", rule, src)
    strides = [0 if n != m else s for n, m, s in zip(src.sizes, dst.sizes[lead:], src.stride_bytes)]
    src.sizes, src.stride_bytes = dst.sizes, (*(0,) * lead, *strides)
    if src.array is not None:
        src.array = np.broadcast_to(src.array, dst.sizes)
    return src


def _is_dense(x: ForeignArray, form: memory_format) -> bool:
    """Return True if x has the strides of the memory format. Strides of dimensions of size 1 do not
    matter."""
    size = x.dtype.itemsize
    wanted = formats.strides_for("layout.contiguous", x.sizes, form)
    same = (n == 1 or s == w * size for n, s, w in zip(x.sizes, x.stride_bytes, wanted))
    return all(same) or 0 in x.sizes


def move(op: str, dst: ForeignArray, src: ForeignArray) -> None:
    if dst.place is not src.place:
        raise errors.mixed_devices(op, dst, "dst", src, "src")
    if 0 in dst.sizes:
        return
    check_writable(op, dst)
    if dst.place is CPU:
        source = src.array
        if dst.dtype is not src.dtype and np.may_share_memory(dst.array, source):
            source = source.copy()  # a cast reads its operands in several passes
        stub.cpu("copy").copy(dst.array, source)
        return
    check_overlap(op, dst, src)
    shapes = (dst.geometry, src.geometry)
    addresses = (dst.address, src.address)
    key = (*shapes, dst.place, addresses[0] & 15, addresses[1] & 15)
    launch = launches.get(key)
    if launch is None:
        specs = ((shapes[0], dst.place),), ((shapes[1], src.place),)
        plan = build(op, COPY, *specs, default_dtype=None)
        launch = remember(key, stub.bind("copy", "copy", dst.place.type, plan))
    run(dst, src, launch, lambda: addresses)


def remember(key: tuple[Any, ...], launch: Any) -> Any:
    if len(launches) >= _MOST_LAUNCHES:
        launches.clear()
    launches[key] = launch
    return launch


def run(
    dst: ForeignArray, src: ForeignArray, launch: Any, operands: Callable[[], tuple[Any, ...]]
) -> None:
    """Launch the copy on the stream of dst's library, after the work that is queued on src's
    stream, and before later work on src's stream.

    operands: a function that returns the launch's operands. It is called while that stream is
    current.
    """
    index = dst.place.index
    if dst.stream == src.stream:
        with on_stream(index, dst.stream):
            launch(index, operands())
        return
    cuda = runtime.cuda()
    here, there = [
        cuda.current_stream(index) if x.stream is None else cuda.external_stream(index, x.stream)
        for x in (dst, src)
    ]
    here.wait_stream(there)
    with on_stream(index, here.ptr):
        launch(index, operands())
    there.wait_stream(here)


def check_writable(op: str, dst: ForeignArray) -> None:
    if dst.is_readonly or dst.array is not None and not dst.array.flags.writeable:
        rule = "be writable"
        raise errors.must(op, "dst", rule, errors.Got(f"a read-only {type(dst.owner).__name__}"))


def check_overlap(op: str, dst: ForeignArray, src: ForeignArray) -> None:
    """Raise an error if the operands overlap, because a device copies elements in no fixed
    order."""
    (low, high), (first, last) = dst.span(), src.span()
    same = dst.address == src.address and dst.stride_bytes == src.stride_bytes
    if low < last and first < high and not (same and dst.dtype is src.dtype):
        raise errors.partial_overlap(op, "src")
