"""Descriptions, as data and as text, of a tensor's memory layout and of the coalesced loop in which
TensorIterator copies a tensor."""

from __future__ import annotations

from typing import Any

import gputensor as gt

from .output import brackets

FORMATS = {
    "contiguous": "contiguous_format", "channels_last": "channels_last",
    "channels_last_3d": "channels_last_3d", "preserve": "preserve_format",
}  # fmt: skip


def describe(tensor: Any) -> dict[str, Any]:
    """Return device, dtype, sizes, strides, offset and flags as a dict, for JSON."""
    geometry = tensor._geometry
    return {
        "device": str(tensor.device),
        "dtype": geometry.dtype.name,
        "sizes": list(geometry.sizes),
        "strides": list(geometry.strides),
        "storage_offset": tensor.storage_offset(),
        "flags": {
            "contiguous": geometry.is_contiguous,
            "channels_last": geometry.is_channels_last,
            "channels_last_3d": geometry.is_channels_last_3d,
            "non_overlapping_and_dense": geometry.is_non_overlapping_and_dense,
        },
    }


def flag_words(flags: dict[str, bool], is_view: bool) -> str:
    """Return the flags as words, such as `view, channels_last`. Without a memory format, the word
    is `dense` or `strided`."""
    words = [name for name in ("contiguous", "channels_last", "channels_last_3d") if flags[name]]
    if not words:
        words = ["dense" if flags["non_overlapping_and_dense"] else "strided"]
    return ", ".join((["view"] if is_view else []) + words)


def sides(found: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the input and the output of a copy as table rows: name, sizes, strides, flags."""
    return [
        (
            name, brackets(found[name]["sizes"]), brackets(found[name]["strides"]),
            flag_words(found[name]["flags"], False),
        )
        for name in ("in", "out")
        if found[name]
    ]  # fmt: skip


def walk(out: Any, source: Any) -> dict[str, Any]:
    """Return the coalesced sizes and strides of a copy, the fastest dimension first."""
    it = gt.TensorIteratorConfig().add_output(out).add_input(source).build()
    return {
        "shape": list(it.shape), "out_stride_bytes": list(it.strides(0)),
        "in_stride_bytes": list(it.strides(1)), "dimensions_before": out.ndim,
        "can_use_32bit_indexing": it.can_use_32bit_indexing(),
    }  # fmt: skip


def walk_cells(found: dict[str, Any]) -> list[str]:
    return [brackets(found[k]) for k in ("shape", "out_stride_bytes", "in_stride_bytes")]
