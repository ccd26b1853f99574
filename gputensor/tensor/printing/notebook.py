"""HTML of a tensor for notebooks: its values, its properties, and a small picture if it is an
image."""

from __future__ import annotations

import html as _html
import struct
import zlib
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import materialised
from ...core.dtype import FLOATING, bool_, uint8
from ...core.device import META

if TYPE_CHECKING:
    from ..tensor import Tensor

# Limits of an image's sides in pixels. A smaller tensor is not shown as an image. Of a larger
# image, every n-th pixel is shown.
_LEAST, _MOST = 8, 160
_CHANNELS = {1: 0, 3: 2, 4: 6}  # number of channels -> PNG's colour type


def html(x: Tensor) -> str:
    """Return the lines of `repr(x)`, a line of properties, and a picture if `x` has the form of an
    image."""
    parts = [f"<pre>{_html.escape(repr(x))}</pre>"]
    if not type(x)._has_handler:
        facts = {
            "shape": list(x.shape), "dtype": x.dtype.name, "device": x.device,
            "layout": f"strides {list(x.stride())}", "bytes": f"{x.nbytes:,}",
        }  # fmt: skip
        if x.requires_grad:
            facts["requires_grad"] = True
        cells = [f"{name} <code>{_html.escape(str(is_))}</code>" for name, is_ in facts.items()]
        parts.append(f"<div>{' · '.join(cells)}</div>")
        pixels = _pixels(x)
        if pixels is not None:
            data = b64encode(png(pixels)).decode("ascii")
            parts.append(f'<img alt="the tensor as an image" src="data:image/png;base64,{data}">')
    return "".join(parts)


def _pixels(x: Tensor) -> np.ndarray[Any, Any] | None:
    """Return an image's bytes (rows, columns, channels), or None if the tensor does not have the
    form of an image.

    Images are (channels, rows, columns) or (rows, columns) of uint8, bool or floats in [0, 1]. Two
    dimensions of floats are not shown as an image, because they are usually a matrix.
    """
    sizes, element = x._geometry.sizes, x._geometry.dtype
    is_flat = len(sizes) == 2
    if x._device is META or not (is_flat or len(sizes) == 3 and sizes[0] in _CHANNELS):
        return None
    rows, columns = sizes[-2:]
    step = max(-(-rows // _MOST), -(-columns // _MOST), 1)
    is_number = element.category == FLOATING and not is_flat
    if min(rows, columns) < _LEAST or not (element in (uint8, bool_) or is_number):
        return None
    part: Any = x.detach()[..., ::step, ::step]
    values = materialised(part.float() if is_number else part).cpu()._get_array()
    if is_number:
        if not bool(((values >= 0) & (values <= 1)).all()):
            return None
        values = np.rint(values * 255)
    if element is bool_:
        values = values * np.uint8(255)
    values = values.astype(np.uint8)
    pixels: np.ndarray[Any, Any] = values[:, :, None] if is_flat else np.moveaxis(values, 0, -1)
    return pixels


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """Return a PNG file as bytes, for pixels (rows, columns, channels) with one, three or four
    channels.

    Source: https://www.w3.org/TR/png-3, sections 11.2 and 9.2 (each row without a filter).
    """
    rows, columns, channels = pixels.shape
    head = struct.pack(">IIBBBBB", columns, rows, 8, _CHANNELS[channels], 0, 0, 0)
    lines = np.zeros((rows, 1 + columns * channels), np.uint8)
    lines[:, 1:] = pixels.reshape(rows, -1)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
