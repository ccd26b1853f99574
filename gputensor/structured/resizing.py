"""Resizing of outputs of the wrong size, and of tensors by `resize_`.

Source: aten/src/ATen/native/Resize.cpp.
"""

from __future__ import annotations

import warnings

from . import transfer
from ..core import errors
from ..core.geometry import Geometry
from ..tensor.tensor import Tensor


def resize_output(op: str, out: Tensor, wanted: Geometry) -> None:
    """Give `out` the geometry of a result. Warn unless `out` was empty."""
    if out._geometry.numel:
        warnings.warn(errors.output_resized(op, out, wanted), UserWarning, stacklevel=4)
    set_geometry(out, wanted)


def set_geometry(tensor: Tensor, wanted: Geometry) -> None:
    """Replace a tensor's geometry. Grow its storage if the new geometry needs more bytes."""
    needed = (tensor._offset + wanted.extent) * wanted.dtype.itemsize
    if needed > tensor._get_storage()._nbytes:
        # `resize` also checks how many references to the storage exist.
        tensor._storage.resize(needed, transfer.copy_bytes)
    tensor._geometry = wanted
    tensor._array = None
