"""A storage whose bytes are still to be computed, by a chain that was recorded.

Every way to a tensor's bytes passes `Storage.data`, once `_data` is found to be None; so this
property is the one place that runs what is pending, and ordinary storages pay nothing for it.
"""

from __future__ import annotations

import copyreg
from typing import Any

from ..tensor.pickling import reduce_storage
from ..tensor.storage import Storage


class Pending(Storage):
    """`_array` is (recording, number of the value in it); it becomes a Storage with the bytes."""

    __slots__ = ()
    _array: Any

    @property
    def data(self) -> Any:
        self._array[0].run("its elements are looked at")
        return self.data  # by now of another class

    @data.setter
    def data(self, data: Any) -> None:
        self.__class__ = Storage  # type: ignore[assignment]
        self._data, self._array = data, None


copyreg.pickle(Pending, reduce_storage)


def fill(storage: Pending, made: Any) -> None:
    """Give the storage the memory of a tensor that nobody else holds."""
    storage.__class__ = Storage  # type: ignore[assignment]
    if made._storage is None:
        storage._data, storage._array = None, made._array
    else:
        storage._data, storage._array = made._storage._data, made._storage._array
