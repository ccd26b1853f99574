"""dst[i] = src[i], any pair of dtypes, any strides, `src` broadcast.                  family: copy

Types    casts follow Note [Numeric casts] in cast.py.
Order    `dst` may overlap `src` only if they are the same elements.
Launch   from 256 KiB up the layout is changed by `copy_walk.py`, on several threads; from 1 MiB
         up a cast is a pass of its own, over whichever side has the smaller elements moved.
"""

from __future__ import annotations

import numpy as np

from ...runtime import cpu
from . import cast, copy_compiled, copy_walk, quiet

OPS = ("copy", "pack")  # copy_pack.py has the second
_copyto = np.copyto
# Elements cast at a time, so that the passes of a cast find them in the L2 cache.
_BLOCK = 1 << 16


def copy(dst: np.ndarray, src: np.ndarray) -> None:
    """Write `src` into `dst`. Silences itself: call it without `quiet`."""
    if dst.dtype == src.dtype:
        if dst.nbytes < copy_walk.FROM_NBYTES:
            _copyto(dst, src)
        else:
            copy_walk.copy(dst, src)
    elif dst.nbytes < copy_walk.LARGE_NBYTES:
        quiet.run(cast.convert_into, dst, src)
    else:
        _convert_large(dst, src)


def contiguous(src: np.ndarray) -> np.ndarray:
    """A new row-major array with the elements of `src`."""
    if src.nbytes < copy_walk.FROM_NBYTES:
        return src.copy()
    dst = np.empty(src.shape, src.dtype)
    copy_walk.copy(dst, src)
    return dst


def loops(dst: np.ndarray, src: np.ndarray) -> str:
    """Whose loops a copy takes: "compiled" or "NumPy's"."""
    if dst.dtype == src.dtype:
        return copy_walk.loops(dst, src)
    is_large = dst.nbytes >= copy_walk.LARGE_NBYTES and dst.flags.aligned and src.flags.aligned
    dense = dst.flags.c_contiguous and src.flags.c_contiguous and dst.shape == src.shape
    if not is_large or _run_alike(dst, src) and not dense:
        return "NumPy's"
    return "NumPy's" if copy_compiled.of_cast(dst.dtype, src.dtype) is None else "compiled"


def _convert_large(dst: np.ndarray, src: np.ndarray) -> None:
    if dst.ndim > 1 and src.shape == dst.shape and dst.strides[-1] != dst.itemsize:
        # dense memory in another order is found dense where the order is that of memory
        order = sorted(range(dst.ndim), key=lambda d: -abs(dst.strides[d]))
        dst, src = dst.transpose(order), src.transpose(order)
    if dst.flags.c_contiguous and src.flags.c_contiguous and dst.shape == src.shape:
        _convert_in_blocks(dst.reshape(-1), src.reshape(-1))
    elif _run_alike(dst, src):
        if src.shape != dst.shape:
            src = np.broadcast_to(src, dst.shape)
        copy_walk.in_parts(_convert, dst, src, True)
    elif src.itemsize > dst.itemsize:
        narrow = np.empty_like(src, dst.dtype)
        copy(narrow, src)
        copy_walk.copy(dst, narrow)
    else:
        moved = np.empty_like(dst, src.dtype)
        copy_walk.copy(moved, src)
        copy(dst, moved)


def _convert(dst: np.ndarray, src: np.ndarray) -> None:
    quiet.run(cast.convert_into, dst, src)


def _convert_in_blocks(dst: np.ndarray, src: np.ndarray) -> None:
    loop = None
    if dst.flags.aligned and src.flags.aligned:
        loop = copy_compiled.of_cast(dst.dtype, src.dtype)

    def block(index: int) -> None:
        where = slice(index * _BLOCK, index * _BLOCK + _BLOCK)
        if loop is None:
            quiet.run(cast.convert_into, dst[where], src[where])
        else:
            part = dst[where]
            loop(part.ctypes.data, src[where].ctypes.data, part.size)

    cpu.share(-(-dst.size // _BLOCK), cpu.get_num_threads(), lambda: block)


def _run_alike(dst: np.ndarray, src: np.ndarray) -> bool:
    """True if NumPy's loop finds what it needs next in the cache: one pass is then the fastest."""
    if src.shape != dst.shape:
        return True  # broadcast
    dims = [d for d in range(dst.ndim) if dst.shape[d] > 1]
    along_dst = min(dims, key=lambda d: abs(dst.strides[d]))
    along_src = min(dims, key=lambda d: abs(src.strides[d]))
    return along_dst == along_src or min(dst.shape[along_dst], dst.shape[along_src]) <= 16
