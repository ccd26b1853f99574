"""Checks of a user's compiled kernel for features that a GPU does not support.

Host functions such as `_exit` appear as undefined symbols of the shared object. Static shared
memory, which a GPU limits to 48 KiB, is in the object's thread-local storage. So the symbol table
lists each of its variables, with the name of the function that declares it.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping, Sequence

from gputensor.core import errors

from . import source

MOST = 48 << 10
_PT_TLS, _SHT_SYMTAB, _SHT_DYNSYM, _STT_TLS, _STB_GLOBAL = 7, 2, 11, 6, 1
# Allowed functions: C library functions that g++ and the emulator's headers use, and built-in math
# functions.
_ASKED = frozenset((
    *"memcpy memmove memset memcmp vsnprintf snprintf __tls_get_addr __stack_chk_fail".split(),
    *"__cxa_atexit __cxa_finalize __cxa_pure_virtual __errno_location strlen abort".split(),
    *(f"{name}{of_float}" for name in "copysign finite frexp isinf isnan ldexp modf scalbn".split()
      for of_float in ("", "f")),
))  # fmt: skip


def check(image: bytes, text: str, entries: Sequence[str], title: str) -> None:
    """Check a compiled kernel. Raises: KernelError if a GPU's compiler would reject the text."""
    host = next(_of_the_host(image), None)
    if host is not None:
        log = f"'{host}' is a function of the host, which a kernel cannot call"
        raise errors.kernel_not_compiled(title, {}, log)
    large = too_large(image, text, entries)
    if large is not None:
        entry, nbytes = large
        rule = f"declares {nbytes} bytes of static shared memory, where a GPU has {MOST}"
        remedy = "extern __shared__ is as large as its launch asks"
        raise errors.kernel_not_compiled(title, {}, f"{entry} {rule}; {remedy}")


def _of_the_host(image: bytes) -> Iterator[str]:
    """Yield the names of the object's undefined functions that belong to the host's C library and
    are not allowed."""
    library = ctypes.CDLL("libc.so.6")  # libc.so.6 does not contain the functions of libm.
    for name, info, section, _ in _symbols(image, _SHT_DYNSYM):
        if section == 0 and info >> 4 == _STB_GLOBAL and name not in _ASKED:
            if hasattr(library, name):
                yield name


def too_large(image: bytes, text: str, entries: Sequence[str]) -> tuple[str, int] | None:
    """Return the first kernel that declares more static shared memory than a GPU has, and the
    declared bytes."""
    if _of_thread(image) <= MOST:
        return None
    sizes = dict(_variables(image))
    functions = source.mentions(text)
    for entry in entries:
        name = entry.partition("<")[0].rpartition("::")[2].strip()
        reached = _reached(functions, name)
        total = sum(n for symbol, n in sizes.items() if _declares(symbol, reached))
        if total > MOST:
            return entry, total
    return None


def _reached(functions: Mapping[str, set[str]], name: str) -> set[str]:
    """Return the name of a function and the names of all functions that it may call. A function may
    call each function whose name is in its text."""
    found, more = set(), {name}
    while more:
        found |= more
        more = {w for f in more for w in functions.get(f, ()) if w in functions} - found
    return found


def _declares(symbol: str, functions: set[str]) -> bool:
    """Return True if a mangled name such as `_ZZN…4blurEPfE4tile` is a variable in one of the
    functions."""
    return symbol.startswith("_ZZ") and any(f"{len(f)}{f}" in symbol for f in functions)


def _of_thread(image: bytes) -> int:
    """Return the size of the thread-local storage in bytes."""
    offset, size, count = _table(image, 32, 54)
    for at in range(offset, offset + size * count, size):
        if struct.unpack_from("<I", image, at)[0] == _PT_TLS:
            return int(struct.unpack_from("<Q", image, at + 40)[0])
    return 0


def _variables(image: bytes) -> Iterator[tuple[str, int]]:
    """Yield the name and the bytes of each thread-local variable."""
    for name, info, _, nbytes in _symbols(image, _SHT_SYMTAB):
        if info & 15 == _STT_TLS and nbytes:
            yield name, nbytes


def _symbols(image: bytes, wanted: int) -> Iterator[tuple[str, int, int, int]]:
    """Yield the name, kind, section (0 if another object defines it) and size of each symbol of a
    table."""
    offset, size, count = _table(image, 40, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, offset + size * i) for i in range(count)]
    for _, kind, _, _, begin, length, link, _, _, each in sections:
        if kind != wanted:
            continue
        names = sections[link][4]
        for at in range(begin, begin + length, each):
            name, info, _, section, _, nbytes = struct.unpack_from("<IBBHQQ", image, at)
            end = image.index(b"\0", names + name)
            yield image[names + name : end].decode(), info, section, nbytes


def _table(image: bytes, offset_at: int, size_at: int) -> tuple[int, int, int]:
    """Return offset, entry size and number of entries of a table in an ELF file."""
    (offset,) = struct.unpack_from("<Q", image, offset_at)
    size, count = struct.unpack_from("<HH", image, size_at)
    return offset, size, count
