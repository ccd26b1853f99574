"""Finds the libraries to measure against; a peer that is not there is left out and said so."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import gputensor as gt


def torch(device: str) -> Any:
    """PyTorch, if it can be imported and has the device; else None."""
    module = _import("torch")
    if module is None or (device != "cpu" and not module.cuda.is_available()):
        return None
    return module


def cupy(device: str) -> Any:
    """CuPy, if a real CUDA device is asked for and CuPy has one; else None."""
    if device == "cpu" or gt.cuda.is_emulated():
        return None
    module = _import("cupy")
    return module if module is not None and module.cuda.is_available() else None


def synchronizer(device: str) -> Callable[[], None] | None:
    """What waits for the device at the end of a round; None on the CPU."""
    return None if device == "cpu" else lambda: gt.cuda.synchronize(device)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception:
        return None


def versions() -> dict[str, str]:
    """Versions of what can be imported here."""
    found = {}
    for name in ("numpy", "ml_dtypes", "torch", "cupy"):
        module = _import(name)
        if module is not None:
            found[name] = str(module.__version__)
    return found
