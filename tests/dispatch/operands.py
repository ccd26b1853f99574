"""Operands with only a key set, as the dispatcher needs; libraries that end with their test."""

from __future__ import annotations

import itertools
from typing import Any

from gputensor.dispatch import keys
from gputensor.library import Library

_numbers = itertools.count()


class Operand:
    """Stands for a tensor of a backend; `extra` are functionality keys such as "Conjugate"."""

    __slots__ = ("_keys", "backend", "__weakref__")

    def __init__(self, backend: str = "CPU", *extra: str, bits: int | None = None) -> None:
        self.backend = backend
        self._keys = keys.tensor_keys(backend) | keys.key_set(extra) if bits is None else bits

    def __repr__(self) -> str:
        return f"Operand({keys.describe(self._keys)})"


CPU, CUDA, META = Operand("CPU"), Operand("CUDA"), Operand("Meta")


def fresh_namespace() -> str:
    """A namespace that no other test uses."""
    return f"test{next(_numbers)}"


def kernel(name: str, log: list[Any] | None = None) -> Any:
    """A kernel of any signature that returns its first tensor and notes its name."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if log is not None:
            log.append(name)
        return next((a for a in args if hasattr(a, "_keys")), CPU)

    run.__name__ = name
    return run


def library(kind: str = "DEF", ns: str | None = None, key: str = "") -> Library:
    return Library(ns or fresh_namespace(), kind, key)
