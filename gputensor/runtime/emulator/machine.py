"""Python interface of the engine's shared object: memory with guard bytes, loaded kernels,
launches.

There are no streams: every call runs at once, under one lock, and returns a fault as text.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from typing import Any

from gputensor.core import errors

from . import findings, settings, toolchain
from .findings import Finding, Found, Index3

MAX_THREADS = 1024
_OUT_OF_TIME = -1


class _Place(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint), ("size", ctypes.c_uint))


class _Entry(ctypes.Structure):
    pass


_Entry._fields_ = (
    ("name", ctypes.c_char_p), ("variant", ctypes.c_int), ("has_collectives", ctypes.c_int),
    ("max_threads", ctypes.c_uint), ("params_size", ctypes.c_uint), ("thread", ctypes.c_void_p),
    ("block", ctypes.c_void_p), ("shared_begin", ctypes.c_void_p), ("shared_end", ctypes.c_void_p),
    ("next", ctypes.POINTER(_Entry)), ("places", ctypes.POINTER(_Place)),
    ("place_count", ctypes.c_uint),
)  # fmt: skip


class _Symbol(ctypes.Structure):
    pass


_Symbol._fields_ = (
    ("name", ctypes.c_char_p), ("address", ctypes.c_void_p), ("nbytes", ctypes.c_ulonglong),
    ("next", ctypes.POINTER(_Symbol)),
)  # fmt: skip


class _Module(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("thread_index", "block_index", "block_dim")),
        ("grid_dim", ctypes.c_void_p), ("dynamic_shared", ctypes.c_void_p),
        ("dynamic_shared_size", ctypes.c_uint), ("first", ctypes.POINTER(_Entry)),
        ("first_symbol", ctypes.POINTER(_Symbol)), ("shared_anchor", ctypes.c_void_p),
        ("hooks_begin", ctypes.c_void_p), ("hooks_end", ctypes.c_void_p),
    )  # fmt: skip


class _Image:
    """A loaded shared object."""

    __slots__ = ("begin", "end", "library", "module")
    library: Any
    module: Any

    def __init__(self, library: Any, module: Any) -> None:
        self.library, self.module = library, module
        self.begin, self.end = ctypes.c_void_p(), ctypes.c_void_p()


class Loaded:
    """One variant of a kernel in a loaded shared object.

    places: the offset and size of each parameter in the bytes of a launch. offsets: only the
    offsets.
    """

    __slots__ = (
        "address", "has_collectives", "image", "max_threads", "name", "offsets", "params_size",
        "places",
    )  # fmt: skip

    def __init__(self, image: _Image, entry: _Entry) -> None:
        self.image: _Image = image  # The reference keeps the code mapped.
        self.address: int = ctypes.addressof(entry)
        self.name: Any = entry.name.decode()
        self.has_collectives: bool = bool(entry.has_collectives)
        self.max_threads: Any | int = min(entry.max_threads or MAX_THREADS, MAX_THREADS)
        self.params_size: Any = entry.params_size
        places = (entry.places[i] for i in range(entry.place_count))
        self.places = tuple((place.offset, place.size) for place in places)
        self.offsets: tuple[Any, ...] = tuple(offset for offset, _ in self.places)

    def symbols(self) -> dict[str, tuple[int, int]]:
        """Return the address and the bytes of each __constant__ and __device__ variable of the
        text."""
        found, at = {}, self.image.module.contents.first_symbol
        while at:
            found[at.contents.name.decode()] = at.contents.address, at.contents.nbytes
            at = at.contents.next
        return found


def _pass_on(number: int, sentence: str) -> None:
    """Pass the signal that ended a launch to Python's handler, which the main thread runs."""
    is_main = threading.current_thread() is threading.main_thread()
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if number == signal.SIGINT and is_main and is_usual:
        raise KeyboardInterrupt(sentence)
    # SIGURG is left out, because the main thread has received it itself.
    if number in (signal.SIGINT, signal.SIGALRM):
        signal.raise_signal(number)


class Machine:
    """The engine, loaded once per process."""

    gap: int
    reach: int

    def __init__(self) -> None:
        self.checks: bool = os.environ.get("GPUTENSOR_EMULATOR_CHECK", "1") != "0"
        self.lock = threading.RLock()
        # True if finalisers must not use the engine, because another thread may hold its lock for
        # ever.
        self.is_closed = False
        self._engine = ctypes.CDLL(toolchain.compile_engine())
        self._images: dict[tuple[str, int], _Image] = {}
        self._finding = Finding()
        self._error = ctypes.create_string_buffer(2048)
        self._declare()
        self._engine.engine_configure(int(self.checks))
        self._table = self._engine.engine_table()
        # gap: the bytes between allocations. reach: the bytes before the first and after the last
        # allocation. Both catch wrong indices.
        self.gap, self.reach = int(self._engine.engine_gap()), int(self._engine.engine_reach())

    def _declare(self) -> None:
        pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        text = (ctypes.c_char_p, size)
        index3, found = ctypes.POINTER(Index3), ctypes.POINTER(Found)
        places = ctypes.POINTER(pointer)
        launch = (
            pointer, pointer, ctypes.c_char_p, index3, index3, ctypes.c_uint,
            ctypes.POINTER(settings.Options), pointer, pointer, ctypes.POINTER(Finding),
        )  # fmt: skip
        for name, result, arguments in (
            ("configure", None, (number,)),
            ("gap", size, ()),
            ("reach", size, ()),
            ("table", pointer, ()),
            ("stop", None, ()),
            ("allocate", pointer, (size, number)),
            ("drop", None, (pointer,)),
            ("free", number, (pointer, *text)),
            ("check", number, (ctypes.c_char_p, size, *text)),
            ("check_freed", number, text),
            ("find", number, (pointer, found)),
            ("nearest", number, (pointer, found)),
            ("image", None, (pointer, places, places)),
            ("offset", size, (pointer, ctypes.c_char_p, size)),
            ("scan", number, (ctypes.c_char_p, size, number, ctypes.c_uint, found)),
            ("launch", number, launch),
        ):
            function = getattr(self._engine, f"engine_{name}")
            function.restype, function.argtypes = result, arguments

    # --- memory ---------------------------------------------------------------------------------

    def allocate(self, nbytes: int, device_index: int) -> int:
        """Return the address of new memory, which is filled with 0xff. Device -1 is pinned host
        memory."""
        with self.lock:
            address: int = self._engine.engine_allocate(nbytes, device_index)
        if not address:
            raise MemoryError
        return address

    def drop(self, address: int) -> None:
        """Mark memory that its tensor has dropped, but that queued work may still use."""
        with self.lock:
            self._engine.engine_drop(address)

    def free(self, address: int) -> str | None:
        """Free memory whose queued work has run. Return a fault that is found in its guard bytes,
        or None."""
        with self.lock:
            return self._text(self._engine.engine_free(address, self._error, 2048))

    def find(self, address: int) -> Found | None:
        """Return the allocation that contains an address, or None."""
        found = Found()
        with self.lock:
            return found if self._engine.engine_find(address, found) else None

    def nearest(self, address: int) -> Found | None:
        """Return the allocation that contains an address, otherwise the nearest allocation."""
        found = Found()
        with self.lock:
            return found if self._engine.engine_nearest(address, found) else None

    def scan(self, params: bytes, device_index: int, reachable: int) -> tuple[int, Found] | None:
        """Find the first word of a parameter struct that points to memory that the device may not
        use. Return the word's position, and the allocation to which it points."""
        found = Found()
        with self.lock:
            at = self._engine.engine_scan(params, len(params), device_index, reachable, found)
        return (at - 1, found) if at else None

    def check(self, params: bytes = b"") -> str | None:
        """Return a fault in the guard bytes of allocated memory, or None. The memory of the
        launch's arguments is checked first."""
        if not self.checks:
            return None
        with self.lock:
            return self._text(self._engine.engine_check(params, len(params), self._error, 2048))

    def check_freed(self) -> str | None:
        """Return the error of a write to memory after it was freed, or None. Only freed memory that
        the engine still keeps is checked."""
        if not self.checks:
            return None
        with self.lock:
            return self._text(self._engine.engine_check_freed(self._error, 2048))

    # --- kernels --------------------------------------------------------------------------------

    def load(self, path: str, entry: str, variant: int, device_index: int = 0) -> Loaded:
        """Load a kernel of the shared object in `path`."""
        with self.lock:
            image = self._image(path, device_index)
        names, at = [], image.module.contents.first
        while at:
            found = at.contents
            if found.variant == variant:
                if found.name == entry.encode():
                    return Loaded(image, found)
                names.append(found.name.decode())
            at = found.next
        got = ", ".join(sorted(names)) or "none"
        raise errors.cannot_launch(entry, "entry", f"be a kernel of variant {variant}", got)

    def _image(self, path: str, device_index: int) -> _Image:
        """Return the loaded shared object. If it has device variables, each device loads its own
        copy."""
        known = self._images.get((path, 0))
        if known is not None and not (device_index and known.module.contents.first_symbol):
            return known
        own = self._images.get((path, device_index))
        if own is None:
            own = self._open(path if known is None else toolchain.copy_of(path))
            self._images[path, device_index if known is not None else 0] = own
            if known is None and device_index and own.module.contents.first_symbol:
                return self._image(path, device_index)
        return own

    def _open(self, path: str) -> _Image:
        library = ctypes.CDLL(path)
        library.gputensor_attach.restype = ctypes.POINTER(_Module)
        library.gputensor_attach.argtypes = (ctypes.c_void_p,)
        image = _Image(library, library.gputensor_attach(self._table))
        self._engine.engine_image(image.module, image.begin, image.end)
        return image

    def launch(
        self, kernel: Loaded, grid: tuple[int, int, int], block: tuple[int, int, int],
        shared_bytes: int, params: bytes, options: settings.Options,
        arguments: findings.Arguments = (),
    ) -> str | None:  # fmt: skip
        """Run all blocks now. Return a sentence about a fault, with block and thread, or None."""
        with self.lock:
            finding, image = self._finding, kernel.image
            wrong = self._engine.engine_launch(
                image.module, kernel.address, params, Index3(*grid), Index3(*block),
                shared_bytes, options, image.begin, image.end, finding,
            )  # fmt: skip
            late = more = self.check(params)
            while more:  # discard further faults, so that the next launch does not report them
                more = self.check(params)
            if wrong:
                sentence = findings.sentence(self, kernel.name, finding, params, arguments)
                if finding.what == b"interrupted":
                    if finding.kind == _OUT_OF_TIME:
                        limit = f"ran longer than its limit of {options.limit_ms / 1000:g} s"
                        return sentence.replace("interrupted", limit, 1)
                    _pass_on(finding.kind, sentence)
                return sentence
            return late and f"{kernel.name}: {findings.with_argument(late, params, arguments)}"

    def stop(self, wait_s: float) -> bool:
        """End the kernel that another thread runs. Return True if the kernel has ended."""
        self._engine.engine_stop()
        has_ended = self.lock.acquire(timeout=wait_s)
        if has_ended:
            self.lock.release()
        return has_ended

    def place_of(self, pc: int | None) -> tuple[str, int] | None:
        """Return the shared object that contains an instruction, and the instruction's offset in
        it."""
        room = ctypes.create_string_buffer(1024)
        offset = self._engine.engine_offset(pc, room, 1024) if pc else 0
        return (room.value.decode(errors="replace"), offset) if offset else None

    def _text(self, wrong: int) -> str | None:
        return self._error.value.decode(errors="replace") if wrong else None
