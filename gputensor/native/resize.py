"""Changes of a tensor's storage and geometry: resize_, resize_as_, set_.

Source: aten/src/ATen/native/Resize.cpp.
"""

from __future__ import annotations

from typing import Any

from ..core import errors, memory_format as formats
from ..core.geometry import Geometry, contiguous_geometry, geometry
from ..core.memory_format import memory_format
from ..tensor.storage import Storage, allocate_storage
from ..tensor.base import suggest_memory_format
from ..tensor.tensor import Tensor
from ..structured import arguments
from ..structured.transfer import set_geometry


def resize_(
    key_set: int, self: Tensor, size: Any, memory_format: memory_format | None = None
) -> Tensor:
    sizes = arguments.sizes("resize_", size)
    form = memory_format or formats.contiguous_format
    if sizes != self._geometry.sizes or memory_format is not None:
        strides = formats.strides_for("resize_", sizes, form)
        set_geometry(self, geometry(sizes, strides, self._geometry.dtype))
    return self


def resize_as_(
    key_set: int, self: Tensor, the_template: Tensor, memory_format: memory_format | None = None
) -> Tensor:
    form = memory_format
    if form is formats.preserve_format:
        form = suggest_memory_format(the_template)
    return resize_(key_set, self, the_template._geometry.sizes, form)


def set_storage_(key_set: int, self: Tensor, source: Storage) -> Tensor:
    length = source._nbytes // self._geometry.dtype.itemsize
    return _set("set_", self, source, 0, contiguous_geometry((length,), self._geometry.dtype))


def set_storage_offset_(
    key_set: int, self: Tensor, source: Storage | Tensor, storage_offset: int, size: Any,
    stride: Any = (),
) -> Tensor:  # fmt: skip
    storage_offset = arguments.integer("set_", "storage_offset", storage_offset)
    # If source is a tensor, use its storage. storage_offset counts from the tensor's first element.
    if isinstance(source, Tensor):
        if source._geometry.dtype is not self._geometry.dtype:
            raise errors.must("set_", "source", f"have self's dtype {self.dtype.short}", source)
        if not source.is_contiguous():
            raise errors.must("set_", "source", "be contiguous", source)
        storage_offset, source = storage_offset + source._offset, source._get_storage()
    sizes = arguments.sizes("set_", size)
    strides = arguments.ints("set_", "stride", stride) or formats.contiguous_strides(sizes)
    if len(strides) != len(sizes):
        raise errors.must("set_", "stride", f"have {len(sizes)} entries, as size has", strides)
    shape = geometry(sizes, strides, self._geometry.dtype)
    return _set("set_", self, source, storage_offset, shape)


def set_tensor_(key_set: int, self: Tensor, source: Tensor) -> Tensor:
    if source._geometry.dtype is not self._geometry.dtype:
        raise errors.must("set_", "source", f"have self's dtype {self.dtype.short}", source)
    return _set("set_", self, source._get_storage(), source._offset, source._geometry)


def set_(key_set: int, self: Tensor) -> Tensor:
    empty = allocate_storage(0, self._device)
    return _set("set_", self, empty, 0, contiguous_geometry((0,), self._geometry.dtype))


def _set(op: str, self: Tensor, storage: Storage, offset: int, wanted: Geometry) -> Tensor:
    if storage.device is not self._device:
        rule = f"be on {self._device}"
        raise errors.must(op, "source", rule, errors.Got(f"a storage on {storage.device}"))
    arguments.check_bounds(op, storage, offset, wanted)
    self._storage, self._offset, self._geometry = storage, offset, wanted
    self._array = None
    return self
