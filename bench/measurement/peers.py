"""The libraries with which gputensor is compared. Missing libraries are omitted and reported."""

from __future__ import annotations

import sys
import importlib
from collections.abc import Callable
from typing import Any

import gputensor as gt
from gputensor import runtime


def torch(device: str) -> Any:
    """Return PyTorch if it can be imported and supports the device, otherwise None."""
    module = _import("torch")
    if module is None or (device != "cpu" and not module.cuda.is_available()):
        return None
    return module


def with_torch(device: str) -> dict[str, Any]:
    """Return gputensor and, if installed, PyTorch, each set to one thread, to measure host
    times."""
    gt.set_num_threads(1)
    libraries: dict[str, Any] = {"gputensor": gt}
    module = torch(device)
    if module is not None:
        module.set_num_threads(1)
        libraries["torch"] = module
    return libraries


def cupy(device: str) -> Any:
    """Return CuPy for a real CUDA device, otherwise None."""
    if device == "cpu" or gt.cuda.is_emulated():
        return None
    module = _import("cupy")
    return module if module is not None and module.cuda.is_available() else None


def opencv(device: str) -> Any:
    """Return OpenCV if it is installed and the device is the CPU, otherwise None."""
    return _import("cv2") if device == "cpu" else None


def find(name: str, device: str) -> Any:
    """Return the module of a peer of the copy benchmarks, or None if it is not available."""
    if name == "numpy":
        return importlib.import_module("numpy") if device == "cpu" else None
    if name == "torch.compile":
        return torch(device)
    known = {"torch": torch, "cupy": cupy, "opencv": opencv}
    return known[name](device) if name in known else None


def set_threads(name: str, count: int) -> None:
    """Set the number of CPU threads that a peer uses."""
    if name == "torch":
        torch("cpu").set_num_threads(count)
    elif name == "opencv":
        opencv("cpu").setNumThreads(count)


def bus_id(device: str) -> str | None:
    """Return the PCI bus id of a real GPU, as NVIDIA's tools write it, or None for other
    devices."""
    module = cupy(device)
    index = gt.device(device).index or 0
    return None if module is None else str(module.cuda.runtime.deviceGetPCIBusId(index))


def l2_bytes(device: str) -> int | None:
    """Return the size of a real GPU's L2 cache, or None if it is unknown."""
    if cupy(device) is None:
        return None
    return runtime.cuda().limits(gt.device(device).index or 0).l2_bytes or None


def why_not(name: str, device: str) -> str:
    """Return the reason why a peer is skipped."""
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
    """Return a function that waits for the device, or None for the CPU."""
    return None if device == "cpu" else lambda: gt.cuda.synchronize(device)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception:
        return None


def versions() -> dict[str, str]:
    """Return a dict from library to version, for the libraries that can be imported."""
    found = {}
    for name in ("numpy", "ml_dtypes", "torch", "cupy", "cv2", "triton"):
        module = _import(name)
        if module is not None:
            found[name] = str(getattr(module, "__version__", "?"))
    # numba and dask are slow to import, and one benchmark uses each of them. So they are listed
    # only if they are already imported.
    for name in ("numba", "dask"):
        if name in sys.modules:
            found[name] = str(sys.modules[name].__version__)
    return found
