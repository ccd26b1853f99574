"""The kernel variants that `gputensor cache warm` compiles before the first call.

Layout copies have too many variants to compile all of them. These are the variants that the planner
chooses for common copies; the others are compiled on first use.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from types import SimpleNamespace

from ...core.dtype import bfloat16, complex128, dtype, float16, float32, float64, uint8
from ...core.geometry import Sizes
from ...runtime.device_limits import KNOWN
from . import attention_launch, binding, copy_launch, module, norm_launch, variants

Variant = tuple[str, str, variants.Defines]  # A variant is (text, entry, defines).

# Copies are planned for square matrices of this side length. The matrices are larger than any tile,
# but small enough for one launch.
_SIDE = 4096
_MOVED = (uint8, float16, float32, float64, complex128)
_CASTS = (
    (float16, float32), (float32, float16), (bfloat16, float32), (float32, bfloat16),
    (float16, bfloat16), (bfloat16, float16), (float32, float64), (float64, float32),
    (float32, uint8), (float16, uint8), (uint8, float32),
)  # fmt: skip  # (to, of)
_IMAGES = ((float32, uint8), (float16, uint8), (uint8, float32), (uint8, float16))


def copies() -> Iterator[Variant]:
    """Yield the variants of layout copies for each known GPU: moves of every item size, casts, and
    copies of images with three and four channels."""
    seen = set()
    for (bound, lows), gpu in product(_bound(), KNOWN.values()):
        made = bound.planned(gpu, *lows)
        key = (made.text, *sorted(made.defines.items()))
        if made.text != "copy" and key not in seen:
            seen.add(key)
            yield made.text, made.entry, made.defines
    for defines in variants.group("copy"):
        yield "copy", f"copy_{defines['LAYOUT'].lower()}", defines


def pointwise() -> Iterator[Variant]:
    """Yield the variants of arithmetic in the usual dtypes, with a row, a column and a transposed
    matrix as the second operand."""
    for of in (float32, float16, bfloat16):
        size, pitch = of.itemsize, _SIDE * of.itemsize
        dense = size, pitch
        for other in ((size, 0), (0, size), (pitch, size)):
            layout = SimpleNamespace(
                shape=(_SIDE, _SIDE), stride_bytes=(dense, dense, other), dtypes=(of,) * 3,
                common_dtype=of,
            )  # fmt: skip
            for op in ("add", "sub", "mul", "div"):
                bound = binding.bind("binary", op, layout)
                yield "binary", bound.entry, bound.defines


def everything() -> Iterator[Variant]:
    """Yield `copies`, `pointwise`, and all listed variants of the other families."""
    yield from copies()
    yield from pointwise()
    for text, launches in (("attention", attention_launch), ("norm", norm_launch)):
        for entry, defines in launches.listed():
            yield text, entry, defines
    for family in variants.FAMILIES:
        if family != "copy":
            for defines in variants.group(family):
                yield family, f"{family}_{defines['LAYOUT'].lower()}", defines


def text_of(variant: Variant) -> str:
    return module.text(variant[0])


def _bound() -> Iterator[tuple[copy_launch.Copy, tuple[int, int]]]:
    """Yield pairs of a bound copy and the two addresses modulo 16 for which the copy is planned."""
    for of in _MOVED:
        size = of.itemsize
        plane = ((_SIDE * size, size), (size, _SIDE * size))
        for lows in ((0, 0), (size, 0), (0, size), (size, size)):
            yield _copy((_SIDE, _SIDE), plane, of, of), lows
        yield _copy((_SIDE * _SIDE,), ((size,), (size,)), of, of), (0, 0)
        yield _copy((_SIDE * _SIDE,), ((size,), (size,)), of, of), (0, size)
        yield _copy((_SIDE, 64), ((64 * size, size), (128 * size, size)), of, of), (0, 0)
        yield _copy((_SIDE, _SIDE), (plane[0], (_SIDE * size, -size)), of, of), (0, 16 - size)
        yield _copy((_SIDE, _SIDE), (plane[0], (size, 0)), of, of), (0, 0)
        yield _copy((64, _SIDE), (plane[0], (0, size)), of, of), (0, 0)
        yield _copy(*_permuted((4, 8, 4, 16, 16, 4, 8, 4), size), of, of), (0, 0)
        yield _copy(*_permuted((3, 5, 7, 11, 13, 3, 5), size), of, of), (0, 0)
        if size < 16:
            for channels in (3, 4):
                yield from ((c, (0, 0)) for c in _images(channels, of, of))
    for to, of in _CASTS:
        dense = (to.itemsize,), (of.itemsize,)
        yield _copy((_SIDE * _SIDE,), dense, to, of), (0, 0)
        plane = (_SIDE * to.itemsize, to.itemsize), (of.itemsize, _SIDE * of.itemsize)
        yield _copy((_SIDE, _SIDE), plane, to, of), (0, 0)
    for to, of in _IMAGES:
        for copied in _images(3, to, of, is_scaled=True):
            yield copied, (0, 0)


def _copy(shape: Sizes, strides: tuple[Sizes, ...], to: dtype, of: dtype) -> copy_launch.Copy:
    op = "pack" if len(strides) > 2 else "copy"
    return copy_launch.Copy(op, copy_launch.Layout(shape, strides, (to, of)))


def _permuted(sizes: Sizes, itemsize: int) -> tuple[Sizes, tuple[Sizes, ...]]:
    """Return the layout that reverses all dimensions of a dense array."""
    dst, src, step = [], [], itemsize
    for n in sizes:
        dst.append(step)
        step *= n
    step = itemsize
    for n in reversed(sizes):
        src.append(step)
        step *= n
    return sizes, (tuple(dst), tuple(reversed(src)))


def _images(
    channels: int, to: dtype, of: dtype, *, is_scaled: bool = False
) -> Iterator[copy_launch.Copy]:
    """Yield copies from pixels to planes and back, and scaled copies from pixels to pixels."""
    pixels = 1 << 16
    shape = (8, channels, pixels)
    planes = (channels * pixels, pixels, 1)
    mixed = (channels * pixels, 1, channels)
    for dst, src in ((planes, mixed), (mixed, planes), *([(mixed, mixed)] if is_scaled else [])):
        strides = tuple([s * to.itemsize for s in dst]), tuple([s * of.itemsize for s in src])
        yield _copy(shape, (*strides, (0, 4, 0)) if is_scaled else strides, to, of)
