"""TypedStorage: the bytes of a storage as numbers of one dtype, for old PyTorch programs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..core.device import device
from ..core.dtype import dtype as _dtype
from ..core.geometry import contiguous_geometry
from ..dispatch.defaults import get_default_dtype
from .pickling import over
from .storage import Storage


class TypedStorage:
    """The result of `Tensor.storage()`: all elements of a storage, as numbers of one dtype."""

    __slots__ = ("_untyped", "dtype")

    def __init__(
        self, *args: Any, wrap_storage: Storage | None = None, dtype: _dtype | None = None,
        device: Any = None, _internal: bool = False,
    ) -> None:  # fmt: skip
        """Make a storage of a number of uninitialised elements, or of the elements of a sequence.

        wrap_storage: the storage that has the bytes. _internal: ignored, as in PyTorch's programs.
        """
        self.dtype: _dtype = get_default_dtype() if dtype is None else dtype
        if wrap_storage is None:
            of_type = import_module("gputensor.exchange.construct").of_type
            wrap_storage = of_type(args, self.dtype, device)._get_storage()
        self._untyped = wrap_storage

    def untyped(self) -> Storage:
        """Return the storage of the bytes."""
        return self._untyped

    @property
    def device(self) -> device:
        """The device of the bytes."""
        return self._untyped.device

    @property
    def is_cuda(self) -> bool:
        """True if the bytes are on a CUDA device."""
        return self._untyped.device.type == "cuda"

    def _tensor(self) -> Any:
        return over(self._untyped, contiguous_geometry((self.size(),), self.dtype))

    def __len__(self) -> int:
        return self._untyped._nbytes // self.dtype.itemsize

    def size(self) -> int:
        """Return the number of elements."""
        return len(self)

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self._untyped._nbytes

    def element_size(self) -> int:
        """Return the number of bytes of one element."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self._untyped.data_ptr()

    def tolist(self) -> list[Any]:
        """Return the elements as Python numbers."""
        found: list[Any] = self._tensor().tolist()
        return found

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._tensor()[index].clone().storage()
        return self._tensor()[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._tensor()[index] = value

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def is_pinned(self, device: Any = None) -> bool:
        """True if the memory is page-locked. device: has no effect, as in PyTorch."""
        return bool(self._tensor().is_pinned())

    def is_shared(self) -> bool:
        """True if the memory is shared with other processes."""
        return bool(self._tensor().is_shared())

    def __repr__(self) -> str:
        return f"<TypedStorage of {self.size()} {self.dtype.name} on {self.device}>"
