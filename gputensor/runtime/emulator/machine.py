"""The engine's shared object behind Python calls: memory with guards, loaded kernels, launches.

It knows no streams: everything happens at once, under one lock, and says what went wrong as text.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

from gputensor.core import errors

from . import sanitizer, toolchain

MAX_THREADS = 1024
MAX_SHARED = 227 * 1024


class _Index3(ctypes.Structure):
    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


class Found(ctypes.Structure):
    """An allocation that a pointer lies in; device -1 is pinned host memory."""

    _fields_ = (
        ("begin", ctypes.c_void_p),
        ("nbytes", ctypes.c_size_t),
        ("device", ctypes.c_int),
        ("state", ctypes.c_int),
    )

    def __str__(self) -> str:
        where = f"device {self.device}" if self.device >= 0 else "pinned host memory"
        return f"{self.nbytes} bytes at {self.begin:#x} on {where}{', freed' if self.state else ''}"


class _Entry(ctypes.Structure):
    pass


_Entry._fields_ = (
    ("name", ctypes.c_char_p),
    ("variant", ctypes.c_int),
    ("has_collectives", ctypes.c_int),
    ("max_threads", ctypes.c_uint),
    ("params_size", ctypes.c_uint),
    ("thread", ctypes.c_void_p),
    ("block", ctypes.c_void_p),
    ("shared_begin", ctypes.c_void_p),
    ("shared_end", ctypes.c_void_p),
    ("next", ctypes.POINTER(_Entry)),
)


class _Module(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in ("thread_index", "block_index", "block_dim", "grid_dim")
        ),
        ("dynamic_shared", ctypes.c_void_p),
        ("dynamic_shared_size", ctypes.c_uint),
        ("first", ctypes.POINTER(_Entry)),
    )


class Loaded:
    """One entry of one variant in a loaded shared object."""

    __slots__ = (
        "address",
        "has_collectives",
        "library",
        "max_threads",
        "module",
        "name",
        "params_size",
    )

    def __init__(self, library: Any, module: Any, entry: _Entry) -> None:
        self.library = library  # keeps the code mapped
        self.module = module
        self.address = ctypes.addressof(entry)
        self.name = entry.name.decode()
        self.has_collectives = bool(entry.has_collectives)
        self.max_threads = entry.max_threads
        self.params_size = entry.params_size


class Machine:
    """The engine, loaded once per process."""

    def __init__(self) -> None:
        self.checks = os.environ.get("GPUTENSOR_EMULATOR_CHECK", "1") != "0"
        self.lock = threading.RLock()
        self._engine = ctypes.CDLL(toolchain.compile_engine())
        self._libraries: dict[str, tuple[Any, Any]] = {}
        self._error = ctypes.create_string_buffer(2048)
        self._declare()
        self._engine.engine_configure(int(self.checks))
        self._table = self._engine.engine_table()

    def _declare(self) -> None:
        pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        text = (ctypes.c_char_p, size)
        index3, found = ctypes.POINTER(_Index3), ctypes.POINTER(Found)
        for name, result, arguments in (
            ("configure", None, (number,)),
            ("table", pointer, ()),
            ("allocate", pointer, (size, number)),
            ("drop", None, (pointer,)),
            ("free", number, (pointer, *text)),
            ("check", number, text),
            ("check_freed", number, text),
            ("find", number, (pointer, found)),
            ("scan", number, (ctypes.c_char_p, size, number, ctypes.c_uint, found)),
            (
                "launch",
                number,
                (pointer, pointer, ctypes.c_char_p, index3, index3, ctypes.c_uint, *text),
            ),
        ):
            function = getattr(self._engine, f"engine_{name}")
            function.restype, function.argtypes = result, arguments

    # --- memory ---------------------------------------------------------------------------------

    def allocate(self, nbytes: int, device_index: int) -> int:
        """Address of new memory, filled with 0xff; device -1 is pinned host memory."""
        with self.lock:
            address = self._engine.engine_allocate(nbytes, device_index)
        if not address:
            raise MemoryError
        return address

    def drop(self, address: int) -> None:
        """No tensor holds it any more; queued work may."""
        with self.lock:
            self._engine.engine_drop(address)

    def free(self, address: int) -> str | None:
        """Its queued work has run. Returns what was found to be wrong with its guards."""
        with self.lock:
            return self._text(self._engine.engine_free(address, self._error, 2048))

    def find(self, address: int) -> Found | None:
        """The allocation that an address lies in."""
        found = Found()
        with self.lock:
            return found if self._engine.engine_find(address, found) else None

    def scan(self, params: bytes, device_index: int, reachable: int) -> tuple[int, Found] | None:
        """The first word of a parameter struct that points where the device may not reach."""
        found = Found()
        with self.lock:
            at = self._engine.engine_scan(params, len(params), device_index, reachable, found)
        return (at - 1, found) if at else None

    def check(self) -> str | None:
        """What is wrong with the guards of the memory that is in use."""
        if not self.checks:
            return None
        with self.lock:
            return self._text(self._engine.engine_check(self._error, 2048))

    def check_freed(self) -> str | None:
        """A write to memory after it was freed, as far as it is still kept."""
        if not self.checks:
            return None
        with self.lock:
            return self._text(self._engine.engine_check_freed(self._error, 2048))

    # --- kernels --------------------------------------------------------------------------------

    def load(self, path: str, entry: str, variant: int) -> Loaded:
        """An entry of the shared object in `path`."""
        with self.lock:
            if path not in self._libraries:
                library = ctypes.CDLL(path)
                library.gputensor_attach.restype = ctypes.POINTER(_Module)
                library.gputensor_attach.argtypes = (ctypes.c_void_p,)
                self._libraries[path] = library, library.gputensor_attach(self._table)
            library, module = self._libraries[path]
        names, at = [], module.contents.first
        while at:
            found = at.contents
            if found.variant == variant:
                if found.name == entry.encode():
                    return Loaded(library, module, found)
                names.append(found.name.decode())
            at = found.next
        got = ", ".join(sorted(names)) or "none"
        raise errors.cannot_launch(entry, "entry", f"be a kernel of variant {variant}", got)

    def launch(
        self,
        kernel: Loaded,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        params: bytes,
    ) -> str | None:
        """Run all blocks now. Returns what went wrong, with block and thread."""
        with self.lock:
            wrong = self._engine.engine_launch(
                kernel.module, kernel.address, params, _Index3(*grid), _Index3(*block),
                shared_bytes, self._error, 2048,
            )  # fmt: skip
            return self._text(wrong) or self.check()

    def _text(self, wrong: int) -> str | None:
        return sanitizer.with_line(self._error.value.decode(errors="replace")) if wrong else None
