"""A finding of the engine as one sentence: the place, the fault, and the block, thread and element.

    blur.cu:41: read 4 B past 'src' (block (3,0,0), thread (31,0,0), index 307200 of 307200)

The engine reports only numbers. Names come from the kernel's signature, and lines from addr2line,
which is installed with g++.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from typing import NamedTuple, Protocol

from . import headers

# For each pointer: its name, its offset in the parameter bytes, the bytes of an element, and True
# if the kernel may write through it.
Arguments = tuple[tuple[str, int, int, bool], ...]

_HINT = "; the check 'memory' names line and thread"
_KINDS = ("read", "write", "atomic operation")
# A finding has this size if a signal reported the access, because a signal does not report the
# size.
_SOME_BYTES = 2**64 - 1
_CLEAR = 1 << 14  # Only an overrun of up to this number of bytes is attributed to an argument.
_NO_THREAD = 2**32 - 1


class Index3(ctypes.Structure):
    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))

    def __str__(self) -> str:
        return f"({self.x},{self.y},{self.z})"


class Found(ctypes.Structure):
    """The allocation that contains a pointer. Device -1 is pinned host memory."""

    _fields_ = (
        ("begin", ctypes.c_void_p), ("nbytes", ctypes.c_size_t), ("device", ctypes.c_int),
        ("state", ctypes.c_int),
    )  # fmt: skip
    begin: int  # ctypes reads a null pointer as None.
    nbytes: int
    device: int
    state: int

    def __str__(self) -> str:
        where = f"device {self.device}" if self.device >= 0 else "pinned host memory"
        return f"{self.nbytes} bytes at {self.begin:#x} on {where}{', freed' if self.state else ''}"


class Finding(ctypes.Structure):
    """The struct `finding` of the engine."""

    _fields_ = (
        ("what", ctypes.c_char * 600), ("file", ctypes.c_char * 200), ("line", ctypes.c_uint),
        ("pc", ctypes.c_void_p), ("block", Index3), ("thread", Index3),
        ("address", ctypes.c_void_p), ("size", ctypes.c_ulonglong), ("kind", ctypes.c_int),
        ("other_pc", ctypes.c_void_p), ("other_block", Index3), ("other_thread", Index3),
        ("other_kind", ctypes.c_int),
    )  # fmt: skip


class Memory(Protocol):
    """What a sentence reads of the engine: its allocations and its loaded code. See `Machine`."""

    gap: int
    reach: int

    def find(self, address: int) -> Found | None: ...

    def nearest(self, address: int) -> Found | None: ...

    def place_of(self, pc: int | None) -> tuple[str, int] | None: ...


def sentence(
    memory: Memory, kernel: str, found: Finding, params: bytes, arguments: Arguments
) -> str:
    """Return the finding as one sentence. If the place is unknown, the sentence begins with the
    kernel's name."""
    what = found.what.decode(errors="replace")
    where = [f"block {found.block}"]
    if found.thread.x != _NO_THREAD:
        where.append(f"thread {found.thread}")
    place = _place(memory, found.file.decode(errors="replace"), found.line, found.pc)
    if found.size:
        what, more = _access(memory, what, found, params, arguments)
        where += more
    hint = _HINT if arguments and not place and found.thread.x == _NO_THREAD else ""
    return f"{place or kernel}: {what} ({', '.join(where)}){hint}"


# --- memory accesses ----------------------------------------------------------------------------


def _access(
    memory: Memory, what: str, found: Finding, params: bytes, arguments: Arguments
) -> tuple[str, list[str]]:
    address, size = found.address or 0, found.size
    did = "accessed" if found.kind < 0 else "wrote" if found.kind == 1 else _KINDS[found.kind]
    amount = "" if found.kind == 2 or size == _SOME_BYTES else f" {size} B"
    near = None if "shared" in what else memory.nearest(address)
    name, index = _argument(near, address, params, arguments)
    if what == "race":
        if near is None or not _inside(near, address):
            name, index = "shared memory", []
        return _race(memory, found, name, index)
    if what == "uninitialised shared memory":
        return f"{did}{amount} of shared memory that no thread has written", []
    if "shared" in what:
        return f"{did}{amount} {what}", []
    if what == "memory of another device":
        device = f"device {near.device}" if near is not None else "another device"
        what = f"{name or 'memory'} on {device}, which this kernel may not use"
        return f"{did}{amount} of {what}", index
    is_signal = size == _SOME_BYTES
    if what != "out of bounds" and not is_signal:
        return f"{did}{amount} of {what}", index
    if address < 1 << 16:
        return f"{did}{amount} through a null pointer", []
    if not is_signal or arguments:
        may_be_const = found.kind not in (1, 2)
        where = _beside_an_argument(memory, address, params, arguments, may_be_const)
        if where is not None:
            return f"{did}{amount} {where[0]}", where[1:]
    if is_signal:
        return what, []
    if near is None or not _close(near, address):
        return f"{did}{amount} at {address:#x}, which lies in no memory of the device", []
    if _inside(near, address):
        return f"{did}{amount} of memory that the kernel was not given", [f"at {address:#x}"]
    side = "before" if address < (near.begin or 0) else "past"
    at = address - (near.begin or 0)
    return f"{did}{amount} {side} an allocation of {near.nbytes} bytes", [f"byte {at}"]


def _race(
    memory: Memory, found: Finding, name: str | None, index: list[str]
) -> tuple[str, list[str]]:
    other = _place(memory, "", 0, found.other_pc) or "an unknown line"
    text = (
        f"race for {name or 'memory'}: nothing orders this {_KINDS[found.kind]} and the "
        f"{_KINDS[found.other_kind]} at {other}"
    )
    same_block = str(found.block) == str(found.other_block)
    who = "" if same_block else f"block {found.other_block}, "
    return text, [*index, f"the other by {who}thread {found.other_thread}"]


def _beside_an_argument(
    memory: Memory, address: int, params: bytes, arguments: Arguments, may_be_const: bool
) -> list[str] | None:
    """Describe the place of an address near the kernel's arguments. Return the place, followed by
    remarks. Return None if no argument is near."""
    meant = _meant(memory, address, params, arguments, may_be_const)
    is_clear = bool(meant) and meant[0].distance <= _CLEAR
    wrapped = None if is_clear else _wrapped(memory, address, params, arguments)
    if wrapped is not None:
        return [f"far from {wrapped[0]}", *wrapped[1:]]
    if is_clear or (len(meant) == 1 and meant[0].distance <= memory.gap // 2):
        one = meant[0]
        return [f"{one.side} '{one.name}'", f"index {one.element} of {one.elements}"]
    if meant:
        indices = [f"index {m.element} of {m.elements} of '{m.name}'" for m in meant[:3]]
        return ["outside of its arguments", " or ".join(indices)]
    return None


class _Meant(NamedTuple):
    """An argument near a wrong address. The kernel may have meant to access this argument, but the
    address is outside of the argument's memory."""

    distance: int  # The number of bytes from the address to the argument's memory.
    name: str
    side: str
    element: int
    elements: int


def _meant(
    memory: Memory, address: int, params: bytes, arguments: Arguments, may_be_const: bool
) -> list[_Meant]:
    """Return the arguments that the kernel may have meant to access, the nearest one first.

    A write is preferably attributed to a pointer through which the kernel may write, and an address
    to an argument of which an element begins at this address.
    """
    found: list[tuple[bool, _Meant]] = []
    for name, offset, itemsize, is_written in arguments:
        pointer = int.from_bytes(params[offset : offset + 8], "little")
        own = memory.nearest(pointer) if pointer else None
        if own is None or not _close(own, pointer):
            continue
        begin, end = own.begin or 0, (own.begin or 0) + own.nbytes
        distance = begin - address if address < begin else address - end + 1
        if abs(address - pointer) > memory.reach:
            continue
        fits = (may_be_const or is_written) and (address - pointer) % itemsize == 0
        side = "before" if address < begin else "past"
        index, count = (address - pointer) // itemsize, (end - pointer) // itemsize
        found.append((fits, _Meant(distance, name, side, index, count)))
    near = [one for _, one in found if one.distance <= _CLEAR]
    fitting = [one for fits, one in found if fits]
    return sorted(near or fitting or [one for _, one in found])


def _inside(near: Found, address: int) -> bool:
    return (near.begin or 0) <= address < (near.begin or 0) + near.nbytes


def _close(near: Found, address: int) -> bool:
    begin = near.begin or 0
    return begin - (1 << 20) <= address < begin + near.nbytes + (1 << 20)


def _argument(
    near: Found | None, address: int, params: bytes, arguments: Arguments
) -> tuple[str | None, list[str]]:
    """Return the quoted name of the argument to which an address belongs, and the index of the
    element."""
    best: tuple[int, str, list[str]] | None = None
    for name, offset, itemsize, _ in arguments:
        pointer = int.from_bytes(params[offset : offset + 8], "little")
        if near is None or not pointer or not _inside(near, pointer):
            continue
        count = ((near.begin or 0) + near.nbytes - pointer) // itemsize
        index = [f"index {(address - pointer) // itemsize} of {count}"]
        distance = abs(address - pointer)
        if best is None or distance < best[0]:
            best = distance, f"'{name}'", index
    return (best[1], best[2]) if best else (None, [])


def _wrapped(memory: Memory, address: int, params: bytes, arguments: Arguments) -> list[str] | None:
    """Find the argument for which an overflow of a 32-bit index gives this address. Return the
    argument and the index. Return None unless there is exactly one such argument."""
    meant = []
    for name, offset, itemsize, _ in arguments:
        pointer = int.from_bytes(params[offset : offset + 8], "little")
        own = memory.find(pointer) if pointer else None
        if own is None or (address - pointer) % itemsize:
            continue
        index = (address - pointer) // itemsize
        count = ((own.begin or 0) + own.nbytes - pointer) // itemsize
        low = (index + (1 << 31)) % (1 << 32) - (1 << 31)
        if index != low and abs(index) < 1 << 33 and -count <= low < 2 * count:
            meant.append([f"'{name}'", f"index {index} of {count}, which is {low} in 32 bits"])
    return meant[0] if len(meant) == 1 else None


_OVERRUN = re.compile(
    r"wrote out of bounds: (\d+) bytes (past the end|before the begin) of an allocation of (\d+) "
    r"bytes at (0x[0-9a-f]+) on device \d+"
)


def with_argument(text: str, params: bytes, arguments: Arguments) -> str:
    """Add an argument's name to a sentence about an allocation's guard bytes. The argument is the
    one that points into this allocation."""
    match = _OVERRUN.search(text)
    if match is None:
        return text
    begin, nbytes, past = int(match[4], 16), int(match[3]), match[2].startswith("past")
    address = begin + nbytes + int(match[1]) if past else begin - int(match[1])
    for name, offset, itemsize, _ in arguments:
        pointer = int.from_bytes(params[offset : offset + 8], "little")
        if begin <= pointer < begin + nbytes:
            index, count = (address - pointer) // itemsize, (begin + nbytes - pointer) // itemsize
            side = "past" if past else "before"
            where = f"index {index} of {count}"
            return text.replace(match[0], f"wrote {side} '{name}' ({where}){_HINT}")
    return text


# --- places -------------------------------------------------------------------------------------

_OBJECT = re.compile(r"\((\S+)\+(0x[0-9a-f]+)\)")


def _place(memory: Memory, file: str, line: int, pc: int | None) -> str | None:
    """Return the place of an access, such as `blur.cu:41`, or None if the place is unknown. Use
    `file` and `line` or, if they are empty, the address of an instruction."""
    if file and line:
        return f"{os.path.basename(file)}:{line}"
    in_object = _OBJECT.search(file)  # libasan uses this text for an unknown symbol.
    if in_object is not None:
        return _line_of(in_object[1], int(in_object[2], 16))
    if file:
        return ":".join(os.path.basename(file).split(":")[:2])
    at = memory.place_of(pc)
    if at is None or os.path.basename(at[0]).startswith("lib"):  # The address is in a library.
        return None
    return _line_of(at[0], at[1] - 1)


def _line_of(path: str, offset: int) -> str | None:
    """Return the innermost place of an instruction that is in the user's text. Places in the
    emulator's headers are skipped."""
    command = ["addr2line", "-s", "-i", "-e", path, hex(offset)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    places = [row.split(" ")[0] for row in answer.splitlines()]
    own = [p for p in places if not headers.is_ours(p.partition(":")[0]) and "?" not in p]
    return own[0] if own else None
