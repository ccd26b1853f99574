"""The 38 layout copies that `python -m bench run layout` measures, as data.

A case copies a view of a dense array into a dense array with the view's shape. All libraries get
the same view, as a NumPy array or as shape, strides and offset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

View = Callable[[Any], Any]


def _permute(*order: int) -> View:
    return lambda x: x.transpose(order)


def _transposed(x: Any) -> Any:
    return x.T


class Case:
    """One copy. shape: the shape of the dense source on a GPU. cpu_shape: a smaller shape for the
    CPU.

    kind: the group in which its ratio is averaged: tile, ragged, channels, rows, many (3 to 26
    dimensions), broadcast, sectors (limited by memory sectors instead of bytes), small, cast.
    """

    __slots__ = ("number", "name", "kind", "source", "result", "shape", "cpu_shape", "view")

    def __init__(
        self, number: int, name: str, kind: str, dtypes: str, shape: tuple[int, ...],
        cpu_shape: tuple[int, ...], view: View = _transposed,
    ) -> None:  # fmt: skip
        self.number, self.name, self.kind = number, name, kind
        source, _, result = dtypes.partition(">")
        self.source, self.result = np.dtype(source), np.dtype(result or source)
        self.shape, self.cpu_shape, self.view = shape, cpu_shape, view

    @property
    def title(self) -> str:
        return f"{self.number:02d} {self.name} {self.types}"

    @property
    def types(self) -> str:
        short = [f"{d.kind}{8 * d.itemsize}" for d in (self.source, self.result)]
        return short[0] if self.source == self.result else "→".join(short)

    def strided(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """Return (sizes, strides, offset) of the view in elements, for a source of `shape`."""
        # the elements are never read, so one byte of memory is sufficient
        dense = np.lib.stride_tricks.as_strided(np.empty(1, np.uint8), shape, _dense(shape))
        view = self.view(dense)
        begin = dense.__array_interface__["data"][0]
        return view.shape, view.strides, view.__array_interface__["data"][0] - begin


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, running = [], 1
    for size in reversed(shape):
        strides.append(running)
        running *= size
    return tuple(reversed(strides))


_to_nhwc, _to_nchw = _permute(0, 2, 3, 1), _permute(0, 3, 1, 2)
_f16, _f32, _u8 = "f2", "f4", "u1"

CASES = (
    Case(1, "t2d_sq", "tile", _f32, (8192, 8192), (2048, 2048)),
    Case(2, "t2d_sq", "tile", _f16, (8192, 16384), (2048, 4096)),
    Case(3, "t2d_sq", "tile", _u8, (16384, 16384), (4096, 4096)),
    Case(4, "t2d_tall", "tile", _f32, (32768, 2048), (8192, 512)),
    Case(5, "t2d_wide", "tile", _f16, (2048, 65536), (512, 16384)),
    Case(6, "t2d_odd", "ragged", _f32, (8191, 8193), (2047, 2049)),
    Case(7, "t2d_odd", "ragged", _f16, (8191, 16385), (2047, 4097)),
    Case(8, "t2d_odd", "ragged", _u8, (16383, 16385), (4095, 4097)),
    Case(9, "t2d_f64", "tile", "f8", (5792, 5792), (1448, 1448)),
    Case(10, "t2d_c128", "tile", "c16", (4096, 4096), (1024, 1024)),
    Case(11, "t2d_mid", "small", _f16, (2048, 2048), (2048, 2048)),
    Case(12, "t2d_small", "small", _f16, (512, 512), (512, 512)),
    Case(13, "narrow_t", "ragged", _f32, (8192, 8200), (2048, 2056), lambda x: x[:, 3:-5].T),
    Case(14, "nhwc_rgb", "channels", _f32, (384, 3, 224, 224), (24, 3, 224, 224), _to_nhwc),
    Case(15, "nhwc_rgb", "channels", _f16, (768, 3, 224, 224), (48, 3, 224, 224), _to_nhwc),
    Case(16, "nhwc_rgb", "channels", _u8, (1536, 3, 224, 224), (96, 3, 224, 224), _to_nhwc),
    Case(17, "nchw_rgb", "channels", _u8, (1536, 224, 224, 3), (96, 224, 224, 3), _to_nchw),
    Case(18, "nchw_rgb", "cast", "u1>f4", (384, 224, 224, 3), (24, 224, 224, 3), _to_nchw),
    Case(19, "nhwc_64", "tile", _f16, (512, 64, 56, 56), (32, 64, 56, 56), _to_nhwc),
    Case(20, "nhwc_2048", "ragged", _f16, (1024, 2048, 7, 7), (64, 2048, 7, 7), _to_nhwc),
    Case(21, "nchw_back", "tile", _f32, (512, 56, 56, 64), (32, 56, 56, 64), _to_nchw),
    Case(22, "attn_0213", "rows", _f16, (16, 2048, 32, 128), (1, 2048, 32, 128), _permute(0, 2, 1,
    3)),
    Case(23, "attn_kT", "tile", _f16, (16, 32, 2048, 128), (1, 32, 2048, 128), _permute(0, 1, 3,
    2)),
    Case(24, "head_32B", "rows", _f32, (16, 4096, 64, 8), (2, 4096, 64, 8), _permute(0, 2, 1, 3)),
    Case(25, "p3_210", "many", _f32, (512, 384, 320), (192, 160, 128), _permute(2, 1, 0)),
    Case(26, "p3_120", "many", _f32, (512, 384, 320), (192, 160, 128), _permute(1, 2, 0)),
    Case(27, "p4_3210", "many", _f32, (104, 88, 96, 72), (52, 44, 48, 36), _permute(3, 2, 1, 0)),
    Case(28, "p4_2130", "many", _f32, (96, 96, 96, 72), (48, 48, 48, 36), _permute(2, 1, 3, 0)),
    Case(29, "p5_43210", "many", _f32, (48, 44, 28, 36, 32), (24, 22, 14, 36, 16), _permute(4, 3,
    2, 1, 0)),
    Case(30, "p6_325104", "many", _f32, (20, 24, 16, 28, 12, 20), (10, 24, 8, 14, 12, 10),
    _permute(3, 2, 5, 1, 0, 4)),
    Case(31, "p6_odd", "many", _f32, (19, 21, 23, 17, 13, 15), (11, 13, 15, 9, 13, 15)),
    Case(32, "rev_2^n", "many", _f32, (2,) * 26, (2,) * 22),
    Case(33, "expand_outer", "broadcast", _f16, (1, 1 << 22), (1, 1 << 19), lambda x: _expand(x,
    0)),
    Case(34, "expand_inner", "broadcast", _f16, (1 << 22, 1), (1 << 19, 1), lambda x: _expand(x,
    1)),
    Case(35, "slice_row", "rows", _f32, (16384, 8192), (4096, 2048), lambda x: x[::2]),
    Case(36, "slice_in2", "sectors", _f32, (8192, 16384), (2048, 4096), lambda x: x[:, ::2]),
    Case(37, "flip", "broadcast", _f16, (8192, 16384), (2048, 4096), lambda x: x[:, ::-1]),
    Case(38, "cast_t", "cast", "f4>f2", (8192, 8192), (2048, 2048)),
)  # fmt: skip


def _expand(x: Any, dim: int) -> Any:
    shape = list(x.shape)
    shape[dim] = 16
    return np.broadcast_to(x, shape)
