"""A storage whose bytes a recorded chain will compute.

Every access to a tensor's bytes goes through `Storage.data` if `_data` is None; so only this
property runs pending work, and ordinary storages pay nothing.
"""

from __future__ import annotations

import copyreg
from typing import Any

from numpy import ndarray

from ...tensor.pickling import reduce_storage
from ...tensor.storage import Storage


class Pending(Storage):
    """A storage with pending bytes. `_array` is the recording that computes the bytes, and `_step`
    is the number of the recording's step.

    When the step has run, the object becomes a Storage with the bytes. Until then its other slots
    stay empty, because each recorded operator makes such an object.
    """

    __slots__ = ()
    _array: Any
    _data = None

    # While one of these properties runs, another thread may compute the bytes and turn the object
    # into an ordinary Storage. The property then reads the slot of the Storage.

    @property
    def device(self) -> Any:  # type: ignore[override]
        found = self._array
        return self.device if _has_bytes(found) else found.place

    @property
    def _nbytes(self) -> int:  # type: ignore[override]
        found = self._array
        if _has_bytes(found):
            return self._nbytes
        nbytes: int = found.steps[self._step][0].geometry.nbytes
        return nbytes

    @property
    def data(self) -> Any:
        self._array.run("its elements are read")
        return self.data  # the object has become an ordinary Storage

    @data.setter
    def data(self, data: Any) -> None:
        _settle(self, data, None)


def _has_bytes(found: Any) -> bool:
    """True if the object whose `_array` is `found` has become an ordinary Storage. In a pending
    storage, `_array` is a recording."""
    return found is None or type(found) is ndarray


copyreg.pickle(Pending, reduce_storage)


def fill(storage: Pending, made: Any) -> None:
    """Give the storage the memory of a tensor to which nothing else refers."""
    if made._storage is None:
        _settle(storage, None, made._array)
    else:
        _settle(storage, made._storage._data, made._storage._array)


_slots = [Storage.__dict__[name].__set__ for name in ("_data", "device", "_nbytes")]


def _settle(storage: Pending, data: Any, array: Any) -> None:
    """Turn the object into an ordinary Storage. No other thread can run between the last two
    steps."""
    for fill_slot, value in zip(_slots, (data, storage.device, storage._nbytes)):
        fill_slot(storage, value)
    storage.__class__ = Storage  # type: ignore[assignment]
    storage._array = array
