"""Seven steps from a photograph to a model's input and back, written for two kinds of libraries.

NumPy and CuPy express a layout as a transposed array, gputensor and PyTorch as a memory format.
Each step reads the results of earlier steps by name, so each library works on its own results.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

import gputensor as gt
from gputensor.kernels import stub

# ImageNet's mean and standard deviation, for pixel values from 0 to 255.
MEAN = np.array([123.675, 116.28, 103.53], np.float32)
STD = np.array([58.395, 57.12, 57.375], np.float32)

State = dict[str, Any]


class Step:
    """A timed step: the name of its result, its code as printed, and the name of the result that it
    reads."""

    __slots__ = ("name", "code", "reads")

    def __init__(self, name: str, code: str, reads: str) -> None:
        self.name, self.code, self.reads = name, code, reads


STEPS = (
    Step("float", ".float()", "raw"),
    Step("normalised", "(x - mean) * scale", "float"),
    Step("nchw", ".contiguous()", "as_nchw"),
    Step("packed", "layout.pack(raw.permute(0, 3, 1, 2), float32, …)", "raw"),
    Step("channels_last", ".contiguous(memory_format=channels_last)", "nchw"),
    Step("cropped", ".contiguous()", "crop"),
    Step("image", "(x * std + mean + 0.5).to(uint8).contiguous()", "as_nhwc"),
)
# Maps the names of the views that steps read to their code.
VIEWS = {
    "as_nchw": ".permute(0, 3, 1, 2)",
    "crop": "[:, :, {0}, {1}]",
    "as_nhwc": ".permute(0, 2, 3, 1)",
}


class Pipeline:
    """The steps, written for one library. where: the device on which they run."""

    name = ""
    where = "cpu"

    def start(self, batch: np.ndarray, window: tuple[slice, slice]) -> State:
        """Return the state before the first step."""
        raise NotImplementedError

    def run(self, step: Step, state: State) -> Any:
        return getattr(self, step.name)(state)

    def code(self, step: Step) -> str:
        """Return the code of a step, as it is printed."""
        return step.code

    def view(self, name: str, state: State) -> Any:
        return getattr(self, name)(state)

    def synchronize(self) -> None:
        """Wait for queued work."""

    def to_numpy(self, value: Any) -> np.ndarray:
        return value


class Tensors(Pipeline):
    """The steps for gputensor and PyTorch. Both libraries run the same code."""

    def __init__(self, module: Any, name: str, device: Any) -> None:
        self.module, self.name, self.device, self.where = module, name, device, str(device)

    def _tensor(self, array: np.ndarray) -> Any:
        return self.module.from_numpy(array).to(self.device)

    def _has_pack(self) -> bool:
        """Return True if the library has `pack` on this device. PyTorch lacks `pack`, and a
        registered device may lack it."""
        return self.module is gt and stub.serves("copy", "pack", self.device.type)

    def code(self, step: Step) -> str:
        if step.name == "packed" and not self._has_pack():
            return "(raw.permute(0, 3, 1, 2) * scale).add_(bias).contiguous()"
        return step.code

    def start(self, batch: np.ndarray, window: tuple[slice, slice]) -> State:
        return {
            "raw": self._tensor(batch), "window": window, "mean": self._tensor(MEAN),
            "std": self._tensor(STD), "scale": self._tensor(1 / STD),
            "planes": [self._tensor(x.reshape(3, 1, 1)) for x in (1 / STD, -MEAN / STD)],
        }  # fmt: skip

    def float(self, s: State) -> Any:
        return s["raw"].float()

    def normalised(self, s: State) -> Any:
        return (s["float"] - s["mean"]) * s["scale"]

    def as_nchw(self, s: State) -> Any:
        return s["normalised"].permute(0, 3, 1, 2)

    def nchw(self, s: State) -> Any:
        return s["as_nchw"].contiguous()

    def packed(self, s: State) -> Any:
        pixels = s["raw"].permute(0, 3, 1, 2)
        if self._has_pack():  # one pass
            return gt.layout.pack(pixels, "float32", scale=1 / STD, bias=-MEAN / STD)
        scale, bias = s["planes"]
        return (pixels * scale).add_(bias).contiguous()

    def channels_last(self, s: State) -> Any:
        return s["nchw"].contiguous(memory_format=self.module.channels_last)

    def crop(self, s: State) -> Any:
        return s["channels_last"][:, :, s["window"][0], s["window"][1]]

    def cropped(self, s: State) -> Any:
        return s["crop"].contiguous()

    def as_nhwc(self, s: State) -> Any:
        return s["cropped"].permute(0, 2, 3, 1)

    def image(self, s: State) -> Any:
        pixels = s["as_nhwc"] * s["std"] + s["mean"] + 0.5
        return pixels.to(self.module.uint8).contiguous()

    def synchronize(self) -> None:
        if self.where != "cpu":
            getattr(self.module, self.device.type).synchronize(self.device)

    def to_numpy(self, value: Any) -> np.ndarray:
        return value.cpu().numpy()


class Arrays(Pipeline):
    """The steps for NumPy and CuPy. Both libraries run the same code."""

    def __init__(self, module: Any, name: str, where: str) -> None:
        self.module, self.name, self.where = module, name, where

    def start(self, batch: np.ndarray, window: tuple[slice, slice]) -> State:
        m = self.module
        return {
            "raw": m.asarray(batch), "window": window, "mean": m.asarray(MEAN),
            "std": m.asarray(STD), "scale": m.asarray(1 / STD), "bias": m.asarray(-MEAN / STD),
        }  # fmt: skip

    def float(self, s: State) -> Any:
        return s["raw"].astype(np.float32)

    def normalised(self, s: State) -> Any:
        return (s["float"] - s["mean"]) * s["scale"]

    def as_nchw(self, s: State) -> Any:
        return s["normalised"].transpose(0, 3, 1, 2)

    def nchw(self, s: State) -> Any:
        return self.module.ascontiguousarray(s["as_nchw"])

    def packed(self, s: State) -> Any:
        scaled = s["raw"] * s["scale"]
        scaled += s["bias"]
        return self.module.ascontiguousarray(scaled.transpose(0, 3, 1, 2))

    def channels_last(self, s: State) -> Any:
        return self.module.ascontiguousarray(s["nchw"].transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)

    def crop(self, s: State) -> Any:
        return s["channels_last"][:, :, s["window"][0], s["window"][1]]

    def cropped(self, s: State) -> Any:
        return self.module.ascontiguousarray(s["crop"])

    def as_nhwc(self, s: State) -> Any:
        return s["cropped"].transpose(0, 2, 3, 1)

    def image(self, s: State) -> Any:
        pixels = s["as_nhwc"] * s["std"] + s["mean"] + np.float32(0.5)
        return self.module.ascontiguousarray(pixels.astype(np.uint8))

    def synchronize(self) -> None:
        if self.where != "cpu":
            self.module.cuda.Device(int(self.where.partition(":")[2])).synchronize()

    def to_numpy(self, value: Any) -> np.ndarray:
        return value if self.where == "cpu" else value.get()


# --- the peers -----------------------------------------------------------------------------------


def peers(device: Any, is_emulated: bool) -> dict[str, Callable[[], Pipeline]]:
    """Return a dict from the name of each library that can run on this device to a function that
    makes its pipeline. NumPy is the reference."""
    found: dict[str, Callable[[], Pipeline]] = {"numpy": lambda: Arrays(np, "NumPy", "cpu")}
    on_gpu = device.type == "cuda" and not is_emulated
    if on_gpu:
        found["cupy"] = lambda: _cupy(device)
    if find_spec("torch") is not None:
        found["torch"] = lambda: _torch(device if on_gpu else None)
    return found


def _cupy(device: Any) -> Pipeline:
    cupy = import_module("cupy")
    cupy.cuda.Device(device.index or 0).use()
    return Arrays(cupy, "CuPy", str(device))


def _torch(device: Any) -> Pipeline:
    torch = import_module("torch")
    on_gpu = device is not None and torch.cuda.is_available()
    return Tensors(torch, "PyTorch", torch.device(str(device) if on_gpu else "cpu"))
