"""Recorded calls and their file: JSON and one block of bytes, compressed."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

NUMPY = {"bfloat16": np.dtype(ml_dtypes.bfloat16)} | {
    name: np.dtype(name)
    for name in (
        "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "complex64", "complex128",
    )
}  # fmt: skip


@dataclass(frozen=True)
class Recorded:
    """A tensor: the memory from its first to its last element, and its layout."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    data: bytes
    is_conj: bool = False

    def elements(self) -> np.ndarray:
        """Return all elements, with these strides."""
        flat = np.frombuffer(self.data, NUMPY[self.dtype])
        bytes_ = tuple([s * flat.itemsize for s in self.strides])
        found = np.lib.stride_tricks.as_strided(flat, self.sizes, bytes_, writeable=False)
        return found.conj() if self.is_conj else found

    @property
    def layout(self) -> tuple[Any, ...]:
        return self.dtype, self.sizes, self.strides, self.is_conj


@dataclass(frozen=True)
class Named:
    """A value with a name in both libraries: a dtype, a memory format, a layout, a device."""

    kind: str
    name: str


@dataclass
class Case:
    """A call of an overload, or of a public function, and PyTorch's result."""

    op: str
    args: list[Any]
    kwargs: dict[str, Any]
    of: str  # the entry of op_db whose sample made it
    results: Any = None
    is_core: bool = False
    is_random: bool = False  # the elements differ in each call
    after: dict[str, Any] = field(default_factory=dict)  # arguments that were written
    cotangents: Any = None
    gradients: Any = None  # for each leaf, in the order of the arguments

    def key(self) -> str:
        """Return a key that is equal for calls that differ only in elements."""
        return repr((self.op, shape_of(self.args), shape_of(self.kwargs)))


def shape_of(value: Any) -> Any:
    if isinstance(value, Recorded):
        return value.layout
    if isinstance(value, (list, tuple)):
        return [shape_of(x) for x in value]
    if isinstance(value, dict):
        return {name: shape_of(x) for name, x in value.items()}
    return value


def tensors_of(value: Any) -> list[Any]:
    """Return the tensors in a value, in order; None for omitted optional results."""
    if isinstance(value, (list, tuple)):
        return [x for item in value for x in tensors_of(item)]
    if isinstance(value, dict):
        return [x for item in value.values() for x in tensors_of(item)]
    return [value] if isinstance(value, Recorded) else []


# --- file -----------------------------------------------------------------------------------------


def write(path: Path, cases: Iterable[Case], about: dict[str, Any], preset: int = 1) -> None:
    places: dict[bytes, int] = {}
    block = bytearray()

    def pack(value: Any) -> Any:
        if isinstance(value, Recorded):
            at = places.get(value.data)
            if at is None:
                at = places[value.data] = len(block)
                block.extend(value.data)
            made = [value.dtype, value.sizes, value.strides, at, len(value.data)]
            return {"tensor": [*made, 1] if value.is_conj else made}
        if isinstance(value, Named):
            return {value.kind: value.name}
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, slice):
            return {"slice": [value.start, value.stop, value.step]}
        if value is Ellipsis:
            return {"ellipsis": 1}
        if isinstance(value, tuple):
            return {"tuple": [pack(x) for x in value]}
        if isinstance(value, list):
            return [pack(x) for x in value]
        if isinstance(value, dict):
            return {"dict": {name: pack(x) for name, x in value.items()}}
        return value

    rows = [{name: pack(x) for name, x in vars(case).items() if x is not None} for case in cases]
    text = json.dumps({"about": about, "cases": rows}, separators=(",", ":")).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = len(text).to_bytes(8, "little") + text + bytes(block)
    partly = path.with_suffix(".part")
    partly.write_bytes(lzma.compress(whole, preset=preset))
    partly.replace(path)


def read(path: Path) -> tuple[dict[str, Any], list[Case]]:
    whole = lzma.decompress(path.read_bytes())
    end = 8 + int.from_bytes(whole[:8], "little")
    made = json.loads(whole[8:end])
    block = memoryview(whole)[end:]

    def unpack(value: Any) -> Any:
        if isinstance(value, list):
            return [unpack(x) for x in value]
        if not isinstance(value, dict):
            return value
        ((kind, x),) = value.items()
        if kind == "tensor":
            dtype, sizes, strides, at, count, *conj = x
            data = bytes(block[at : at + count])
            return Recorded(dtype, tuple(sizes), tuple(strides), data, bool(conj))
        if kind == "complex":
            return complex(*x)
        if kind == "slice":
            return slice(*x)
        if kind == "ellipsis":
            return Ellipsis
        if kind == "tuple":
            return tuple([unpack(y) for y in x])
        if kind == "dict":
            return {name: unpack(y) for name, y in x.items()}
        return Named(kind, x)

    rows = made["cases"]
    return made["about"], [Case(**{n: unpack(x) for n, x in row.items()}) for row in rows]
