"""A program that tries every bad value of every field of a DLPack struct, and random pairs.

It runs in a new process, because an unchecked read would crash it. It prints lines of JSON: a case
before it is tried, then its result.
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
from collections.abc import Iterator

import gputensor as gt
from gputensor.core import errors
from gputensor.tensor import dlpack

EDGES = (-(2**63), -(2**31), -3, -1, 0, 1, 2, 3, 64, 65, 2**30, 2**31 - 1, 2**61, 2**62, 2**63 - 1)
FIELDS = {
    "data": (0, 2**63, 2**64 - 1, 2**64 - 8),
    "device_type": (0, 2, 3, 4, 7, 10, 99, -1, 2**31 - 1),
    "device_id": (1, -1, 2**31 - 1),
    "ndim": (-1, -(2**31), 0, 1, 3, 64, 65, 2**30, 2**31 - 1),
    "code": (1, 2, 3, 4, 5, 6, 7, 200, 255),
    "bits": (0, 1, 4, 7, 8, 16, 128, 255),
    "lanes": (0, 2, 4, 65535),
    "byte_offset": (1, 8, 2**62, 2**63, 2**64 - 1, 2**64 - 8),
    "shape": ("null", *EDGES),
    "strides": ("null", *EDGES),
    "major": (0, 2, 99, 2**32 - 1),
    "minor": (99, 2**32 - 1),
    "flags": (1, 2, 3, 4, 2**63),
}  # fmt: skip
NAMES = (b"dltensor", b"dltensor_versioned")
_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Capsule:
    """A valid capsule of four int64, and the calls of its consumer."""

    def __init__(self, name: bytes) -> None:
        self.freed, self.name = 0, name
        self.memory = (ctypes.c_int64 * 64)(*range(64))
        self.sizes, self.strides = (ctypes.c_int64 * 128)(2, 2), (ctypes.c_int64 * 128)(2, 1)
        self.struct = dlpack.STRUCTS[name]()
        self.deleter = dlpack.Deleter(self._free)
        self.struct.deleter = ctypes.cast(self.deleter, ctypes.c_void_p).value
        t = self.struct.tensor
        t.data, t.device_type, t.ndim = ctypes.addressof(self.memory), 1, 2
        t.code, t.bits, t.lanes = 0, 64, 1
        t.shape = ctypes.cast(self.sizes, type(t.shape))
        t.strides = ctypes.cast(self.strides, type(t.strides))
        if name == NAMES[1]:
            self.struct.major = 1
        self.capsule = _new(ctypes.addressof(self.struct), name, None)

    def _free(self, address: int) -> None:
        self.freed += 1

    def set(self, field: str, value: object) -> None:
        tensor = self.struct.tensor
        if field in ("major", "minor", "flags"):
            if self.name == NAMES[1]:
                setattr(self.struct, field, value)
        elif value == "null":
            setattr(tensor, field, None)
        elif field in ("shape", "strides"):
            (self.sizes if field == "shape" else self.strides)[0] = value
        else:
            setattr(tensor, field, value)


def cases(pairs: int) -> Iterator[tuple[bytes, list[tuple[str, object]]]]:
    single = [(field, value) for field, values in FIELDS.items() for value in values]
    for name in NAMES:
        yield name, []
        for case in single:
            yield name, [case]
    rng = random.Random(0)
    for _ in range(pairs):
        yield rng.choice(NAMES), [rng.choice(single) for _ in range(rng.choice((2, 2, 3)))]


def outcome(name: bytes, changes: list[tuple[str, object]]) -> str:
    given = Capsule(name)
    for field, value in changes:
        given.set(field, value)
    try:
        found = gt.from_dlpack(given.capsule)
    except errors.GpuTensorError as error:
        # The producer still owns the capsule, which is unchanged.
        if given.freed or dlpack.get_name(given.capsule) != name:
            return "consumed"
        is_house = isinstance(error, errors.ExchangeError) and "\n" not in str(error)
        return "refused" if is_house else f"raised {error!r}"
    except BaseException as error:  # any exception is recorded
        return f"raised {error!r}"
    sizes, strides, offset = found.shape, found.stride(), found.storage_offset()
    if any(n < 0 for n in (*sizes, *strides, offset)) or found.numel() < 0:
        return f"made {tuple(sizes)} {strides}"
    del found
    return "taken" if given.freed == 1 else f"freed {given.freed} times"


if __name__ == "__main__":
    for name, changes in cases(int(sys.argv[1])):
        print(json.dumps([name.decode(), changes]), flush=True)
        print(json.dumps(outcome(name, changes)), flush=True)
