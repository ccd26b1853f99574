"""Read machine code of sm_90 without a disassembler: number of instructions and memory accesses.

A cubin is an ELF file, a kernel is a section `.text.<entry>` of 16-byte instructions: bits 0 to 11
are the operation, bits 73 to 75 the size of an access, bits 16 to 23 and from 34 on the target of a
branch. NVIDIA does not document this: it was found with nvdisasm 12.4, and a test compares both if
nvdisasm is installed.
"""

from __future__ import annotations

import struct

BRANCH = 0x947
ACCESSES = {
    0x981: "LDG", 0x986: "STG", 0x984: "LDS", 0x388: "STS", 0x988: "STS", 0x983: "LDL",
    0x387: "STL",
}  # fmt: skip
_BYTES = (1, 1, 2, 2, 4, 8, 16)


class Instruction:
    """operation: of twelve bits. access, nbytes: LDG 16, STS 4 and so on, or None and 0. jump: the
    distance of a branch, in instructions from the next one; 0 for other instructions."""

    __slots__ = ("operation", "access", "nbytes", "jump")

    def __init__(self, low: int, high: int) -> None:
        self.operation = low & 0xFFF
        self.access = ACCESSES.get(self.operation)
        self.nbytes = _BYTES[high >> 9 & 7] if self.access else 0
        far = (low >> 34 | (high & 0x3FFFF) << 30) << 8 | low >> 16 & 0xFF
        words = far - (1 << 56) if far >> 55 else far
        self.jump = words // 4 if self.operation == BRANCH else 0

    def __repr__(self) -> str:
        return f"{self.access}.{self.nbytes}" if self.access else f"{self.operation:#x}"


def instructions(cubin: bytes, entry: str) -> list[Instruction]:
    """Return the instructions of a kernel, without the padding after it, which begins with a branch
    to itself."""
    code = section(cubin, f".text.{entry}")
    found = [Instruction(*struct.unpack_from("<QQ", code, at)) for at in range(0, len(code), 16)]
    return found[: next(k for k, one in enumerate(found) if one.jump == -1)]


def loop(code: list[Instruction]) -> list[Instruction]:
    """Return the body of the longest loop that loads from global memory; empty if there is none."""
    bodies = [code[k + 1 + one.jump : k + 1] for k, one in enumerate(code) if one.jump < 0]
    found = [body for body in bodies if any(one.access == "LDG" for one in body)]
    return max(found, key=len, default=[])


def section(elf: bytes, name: str) -> bytes:
    """Return a section of a 64-bit little-endian ELF file. Raises KeyError if there is none of that
    name."""
    (begin,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, begin + k * size) for k in range(count)]
    strings = headers[names][4]
    for of, _, _, _, offset, length in headers:
        at = strings + of
        if elf[at : elf.index(b"\0", at)] == name.encode():
            return elf[offset : offset + length]
    raise KeyError(name)


def loads_in_flight(code: list[Instruction]) -> int:
    """Return the number of bytes that a thread loads from global memory before its first store."""
    asked = 0
    for one in code:
        if one.access in ("STS", "STG"):
            break
        asked += one.nbytes if one.access == "LDG" else 0
    return asked
