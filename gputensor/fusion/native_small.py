"""Chains of few elements that g++ builds, as functions of arrays.

A call of a foreign function through ctypes costs as much as such a chain (0.25 to 0.4 us, and 1 us
more for each address that NumPy is asked for; this way 0.02). So the text that native.py writes
gets a function of the form that Python's own have, METH_FASTCALL, which finds the elements where an
ndarray begins: behind an object's head lies their address. Nothing of Python's headers is needed
for that. It keeps the lock: it runs for a few microseconds.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from typing import Any

import numpy as np

from ..kernels.cpu import copy_compiled
from . import native
from .chain import Chain

_FASTCALL = 0x80  # METH_FASTCALL, of Python's stable ABI
_TEXT = """
extern "C" __attribute__((visibility("default"))) void* (*chain_answer)(long) = nullptr;
static char* chain_data(void* array) { return *(char**)((char*)array + HEAD); }
extern "C" __attribute__((visibility("default")))
void* chain_of_arrays(void* numbers, void* const* arrays, i64 given) {
  static const int order[] = {ORDER};
  static const i64 still[sizeof(order) / sizeof(int)] = {};
  char* p[sizeof(order) / sizeof(int)];
  for (unsigned k = 0; k < sizeof(order) / sizeof(int); ++k) p[k] = chain_data(arrays[order[k]]);
  const i64* count = (const i64*)chain_data(numbers);
  return chain_answer(tile(p, (const value_slot*)(count + 2), still, 1, *count, 0, 0, 0));
}
"""


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )  # fmt: skip


_new_function: Any = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]


def loop(chain: Chain, scalars: list[Any]) -> Any:
    """`call(*outputs, *inputs)` of dense ndarrays: whether a number that it wrote is NaN. None
    where the chain is not arithmetic alone, or may not be compiled. Raises: DeviceError without
    g++."""
    if not chain.is_native:
        return None
    part = native.whole(chain)
    if part is None:
        return None
    stored, read = [*dict.fromkeys(chain.stores)], len(chain.inputs)
    if len(stored) != len(chain.stores) or len(part.inputs) != read:
        return None
    order = [stored.index(x) for x in part.stores] + [len(stored) + x for x in part.inputs]
    method, _ = _built(part.text, tuple(order))
    numbers = struct.pack("qq", chain.walk.numel, 0) + part.numbers(scalars)
    return _new_function(ctypes.byref(method), np.frombuffer(numbers, np.uint8), None)


@cache
def _built(text: str, order: tuple[int, ...]) -> tuple[_Method, ctypes.CDLL]:
    """What Python makes a function of, which neither copies nor keeps it; so it stays for good.
    order: which of the arrays is each that the text names."""
    own = _TEXT.replace("HEAD", str(object.__basicsize__))
    shared = copy_compiled.shared(text + own.replace("ORDER", ", ".join(map(str, order))), "fuse")
    to_bool = ctypes.cast(ctypes.pythonapi.PyBool_FromLong, ctypes.c_void_p)
    ctypes.c_void_p.in_dll(shared, "chain_answer").value = to_bool.value
    function = ctypes.cast(shared.chain_of_arrays, ctypes.c_void_p)
    return _Method(b"chain", function, _FASTCALL, None), shared
