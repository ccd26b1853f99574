"""Pinned host memory of the emulator. Copies from and to it are asynchronous."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from .machine import Machine


class _Owner:
    """An allocation of pinned memory. The memory is freed when no array, PinnedMemory or queued
    copy refers to this object."""

    __slots__ = ("__array_interface__", "__weakref__", "_machine", "ptr")

    def __init__(self, machine: Machine, nbytes: int) -> None:
        self._machine: Machine | None = None
        self.ptr: int = machine.allocate(nbytes, -1)
        self._machine = machine
        self.__array_interface__ = {
            "data": (self.ptr, False), "shape": (nbytes,), "typestr": "|u1", "version": 3,
        }  # fmt: skip

    def __del__(self) -> None:
        if self._machine is not None and not self._machine.is_closed:
            self._machine.free(self.ptr)


class PinnedMemory:
    """`nbytes` bytes of page-locked host memory. `array` is a view that keeps the memory alive."""

    __slots__ = ("__weakref__", "_owner", "array", "nbytes", "ptr")

    def __init__(self, owner: _Owner, nbytes: int) -> None:
        self._owner = owner
        self.ptr: int = owner.ptr
        self.nbytes: int = nbytes
        self.array = np.asarray(owner)


class PinnedAllocator:
    """The allocator of pinned memory. It also finds the owner of a pointer into pinned memory."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._owners: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def allocate(self, nbytes: int) -> PinnedMemory:
        owner = _Owner(self._machine, nbytes)
        self._owners[owner.ptr] = owner
        return PinnedMemory(owner, nbytes)

    def owner_of(self, ptr: int, nbytes: int) -> Any:
        """Return the owner that keeps [ptr, ptr + nbytes) alive, or None if the memory is not
        pinned."""
        found = self._machine.find(ptr)
        if found is None or found.device >= 0 or ptr + nbytes > found.begin + found.nbytes:
            return None
        return self._owners.get(found.begin)
