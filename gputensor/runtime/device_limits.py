"""The device attributes of a GPU that launch plans use, and their values for some GPUs by name.

A runtime reads a device's limits once. The GPUs that are listed here are for the emulator and for
compilation ahead of time.
"""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """The limits of one GPU. threads, blocks, registers, shared_bytes: per multiprocessor.
    block_shared_bytes: the maximum per block. reserved_shared_bytes: the shared memory that the
    system adds to each block. clock_khz, memory_clock_khz, memory_bits: 0 if the driver does not
    report them."""

    multiprocessors: int
    threads: int
    blocks: int
    registers: int
    shared_bytes: int
    block_shared_bytes: int
    reserved_shared_bytes: int
    l2_bytes: int
    clock_khz: int
    memory_clock_khz: int
    memory_bits: int


_KIB, _MIB = 1 << 10, 1 << 20

# Source: NVIDIA's data sheets, and the table of technical specifications per compute capability in
# the CUDA C++ Programming Guide. All boards are SXM; the A100 has 40 GB.
T4 = Limits(
    40, 1024, 16, 65536, 64 * _KIB, 64 * _KIB, 0, 4 * _MIB, 1_590_000, 5_001_000, 256,
)  # fmt: skip
A100 = Limits(
    108, 2048, 32, 65536, 164 * _KIB, 163 * _KIB, _KIB, 40 * _MIB, 1_410_000, 1_215_000, 5120,
)  # fmt: skip
H100 = Limits(
    132, 2048, 32, 65536, 228 * _KIB, 227 * _KIB, _KIB, 50 * _MIB, 1_980_000, 2_619_000, 5120,
)  # fmt: skip
H200 = H100._replace(l2_bytes=60 * _MIB, memory_clock_khz=3_201_000, memory_bits=6144)

KNOWN = {"T4": T4, "A100": A100, "H100": H100, "H200": H200}
