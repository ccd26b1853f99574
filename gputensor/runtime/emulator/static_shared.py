"""How much static shared memory a kernel declares, which a GPU bounds by 48 KiB.

The variables of a user's text lie in the thread-local storage of its shared object, so their sizes
stand in its table of symbols, each under the name of the function that declares it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

from . import source

MOST = 48 << 10
_PT_TLS, _SHT_SYMTAB, _STT_TLS = 7, 2, 6


def too_large(image: bytes, text: str, entries: Sequence[str]) -> tuple[str, int] | None:
    """The first of the kernels that declares more than a GPU has, and how many bytes."""
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
    """A function and what it calls, as far as words tell."""
    found, more = set(), {name}
    while more:
        found |= more
        more = {w for f in more for w in functions.get(f, ()) if w in functions} - found
    return found


def _declares(symbol: str, functions: set[str]) -> bool:
    """Whether a mangled name, `_ZZN…4blurEPfE4tile`, is that of a variable in one of the functions."""
    return symbol.startswith("_ZZ") and any(f"{len(f)}{f}" in symbol for f in functions)


def _of_thread(image: bytes) -> int:
    """Bytes of thread-local storage."""
    offset, size, count = _table(image, 32, 54)
    for at in range(offset, offset + size * count, size):
        if struct.unpack_from("<I", image, at)[0] == _PT_TLS:
            return int(struct.unpack_from("<Q", image, at + 40)[0])
    return 0


def _variables(image: bytes) -> Iterator[tuple[str, int]]:
    """Name and bytes of each thread-local variable."""
    offset, size, count = _table(image, 40, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, offset + size * i) for i in range(count)]
    for _, kind, _, _, begin, nbytes, link, _, _, each in sections:
        if kind != _SHT_SYMTAB:
            continue
        names = sections[link][4]
        for at in range(begin, begin + nbytes, each):
            name, info, _, _, _, length = struct.unpack_from("<IBBHQQ", image, at)
            if info & 15 == _STT_TLS and length:
                end = image.index(b"\0", names + name)
                yield image[names + name : end].decode(), length


def _table(image: bytes, offset_at: int, size_at: int) -> tuple[int, int, int]:
    """Where a table of an ELF file lies, the size of an entry, and how many there are."""
    (offset,) = struct.unpack_from("<Q", image, offset_at)
    size, count = struct.unpack_from("<HH", image, size_at)
    return offset, size, count
