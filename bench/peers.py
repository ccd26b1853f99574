"""Finds the libraries to measure against; a peer that is not there is left out and said so."""

from __future__ import annotations

import sys
import importlib
import os
from collections.abc import Callable
from typing import Any

import gputensor as gt
from gputensor import runtime


# A thread of libgomp spins for milliseconds after its work and so takes a CPU from whoever is
# measured next, PyTorch itself included (16 MiB copies on 2 CPUs: 8 GB/s spinning, 26 passive).
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def torch(device: str) -> Any:
    """PyTorch, if it can be imported and has the device; else None."""
    module = _import("torch")
    if module is None or (device != "cpu" and not module.cuda.is_available()):
        return None
    return module


def with_torch(device: str) -> dict[str, Any]:
    """gputensor, and PyTorch where it is, on one thread each: for what the host costs."""
    gt.set_num_threads(1)
    libraries: dict[str, Any] = {"gputensor": gt}
    module = torch(device)
    if module is not None:
        module.set_num_threads(1)
        libraries["torch"] = module
    return libraries


def cupy(device: str) -> Any:
    """CuPy, if a real CUDA device is asked for and CuPy has one; else None."""
    if device == "cpu" or gt.cuda.is_emulated():
        return None
    module = _import("cupy")
    return module if module is not None and module.cuda.is_available() else None


def opencv(device: str) -> Any:
    """OpenCV, on the CPU; else None."""
    return _import("cv2") if device == "cpu" else None


def find(name: str, device: str) -> Any:
    """The module of a peer of the copies; None where it cannot take part."""
    if name == "numpy":
        return importlib.import_module("numpy") if device == "cpu" else None
    if name == "torch.compile":
        return torch(device)
    known = {"torch": torch, "cupy": cupy, "opencv": opencv}
    return known[name](device) if name in known else None


def set_threads(name: str, count: int) -> None:
    """Give a peer on the CPU as many threads as ours has."""
    if name == "torch":
        torch("cpu").set_num_threads(count)
    elif name == "opencv":
        opencv("cpu").setNumThreads(count)


def bus_id(device: str) -> str | None:
    """The PCI bus id of a real GPU, by which NVIDIA's tools know it; None for anything else."""
    module = cupy(device)
    index = gt.device(device).index or 0
    return None if module is None else str(module.cuda.runtime.deviceGetPCIBusId(index))


def l2_bytes(device: str) -> int | None:
    """The size of a real GPU's L2 cache; None where nobody tells."""
    if cupy(device) is None:
        return None
    return runtime.cuda().limits(gt.device(device).index or 0).l2_bytes or None


def why_not(name: str, device: str) -> str:
    """Why a peer is skipped."""
    if name == "cutensor":
        return "CuPy does not bind its permutation"
    if name == "cupy" and device == "cpu":
        return "has no CPU arrays"
    if name in ("numpy", "opencv") and device != "cpu":
        return "has no GPU arrays"
    if device != "cpu" and gt.cuda.is_emulated():
        return "the emulator is no GPU for other libraries"
    module = {"opencv": "cv2"}.get(name, name.partition(".")[0])
    return f"{module} cannot be imported" if _import(module) is None else f"no {device} for it"


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
    for name in ("numpy", "ml_dtypes", "torch", "cupy", "cv2", "triton"):
        module = _import(name)
        if module is not None:
            found[name] = str(getattr(module, "__version__", "?"))
    for name in ("numba", "dask"):  # of one benchmark each, and slow to import
        if name in sys.modules:
            found[name] = str(sys.modules[name].__version__)
    return found
