"""Conversion of images to a model's input and back, by `gt.layout.pack` and by other libraries.

uint8 pixels are converted to normalised f32 or f16 planes (NCHW) or pixels (channels_last), and f32
planes to uint8 pixels. gputensor's result must equal NumPy's bit by bit. The peers' results may
differ by a rounding, because a compiler may fuse a multiplication with an addition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gputensor as gt

from ..measurement import peers
from ..measurement.places import WrongResult, in_parallel, place_for
from ..records import tables
from . import layout_sides, sessions

NAME = "pack"
PEERS = ("torch", "torch.compile", "cupy", "numpy")
# Maps a library that is not measured to the reason. The report lists the reasons.
ABSENT = {
    "opencv": "blobFromImages has one scale for all channels",
    "CV-CUDA, DALI, torchvision v2": "not part of this benchmark",
}
# Budget on the CPU: the share of memcpy's speed for packing to f32.
CPU_SHARE = 0.5
# ImageNet's mean and standard deviation, for pixel values from 0 to 255.
MEAN = np.array([123.675, 116.28, 103.53], np.float32)
STD = np.array([58.395, 57.12, 57.375], np.float32)

Side = Callable[[], Any]


class Case:
    """A batch of images, with sizes (N, H, W) on a GPU and on the CPU. back: True if planes are
    converted to pixels."""

    __slots__ = ("name", "images", "cpu_images", "result", "channels_last", "back")

    def __init__(
        self, name: str, images: tuple[int, int, int], cpu_images: tuple[int, int, int],
        result: str, channels_last: bool, back: bool = False,
    ) -> None:  # fmt: skip
        self.name, self.images, self.cpu_images = name, images, cpu_images
        self.result, self.channels_last, self.back = np.dtype(result), channels_last, back


_SMALL, _FULL = ((768, 224, 224), (24, 224, 224)), ((64, 1080, 1920), (2, 1080, 1920))
CASES = tuple(
    Case(f"{title} {what}", *images, result, last, back)
    for title, images in (("224²", _SMALL), ("1080p", _FULL))
    for what, result, last, back in (
        ("u8 NHWC → f32 NCHW", "f4", False, False), ("u8 NHWC → f16 NCHW", "f2", False, False),
        ("u8 NHWC → f32 channels_last", "f4", True, False), ("u8 NHWC → f16 channels_last", "f2",
        True, False),
        ("f32 NCHW → u8 NHWC", "u1", True, True),
    )
)  # fmt: skip
COUNT = len(CASES)


def _measure(number: int, case: Case, session: sessions.Session) -> dict[str, Any]:
    place = place_for(session.device)
    images = case.images if session.on_gpu else case.cpu_images
    n, h, w = (max(1, size // session.scale) for size in images)
    host, view, expected, by, plus = _images(case, n, h, w)
    moved = view.nbytes + expected.nbytes
    count = sessions.buffers(session.kind, moved, session.device)
    buffers = [_Buffers(place, case, host, view, expected) for _ in range(count)]
    right = place.put(np.moveaxis(expected, 1, 3 if case.channels_last else 1).reshape(-1))
    return session.measure(
        place,
        lambda name: layout_sides.rotating([_MAKERS[name](case, b, by, plus) for b in buffers]),
        lambda side, what: _verify(case, buffers, side, right, what),
        moved, moved, session.kind,
    ) | {
        "number": number, "name": case.name, "kind": "back" if case.back else "pack",
        "source": list(host.shape), "sizes": list(view.shape),
    }  # fmt: skip


class _Buffers:
    """The source and the destination of a case, as flat arrays with strided views."""

    def __init__(
        self, place: Any, case: Case, host: np.ndarray, view: np.ndarray, expected: np.ndarray
    ) -> None:
        self.place = place
        self.source, self.result = (
            place.put(host.reshape(-1)),
            place.empty(expected.size, case.result),
        )
        self.of_source = _strided(view)
        self.of_result = _strided(expected)

    def views(self, library: str) -> tuple[Any, Any]:
        see = getattr(self.place, library)
        return see(self.result, self.of_result), see(self.source, self.of_source)


def _strided(x: np.ndarray) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    return x.shape, tuple(s // x.itemsize for s in x.strides), 0


def _images(
    case: Case, n: int, h: int, w: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (source, NCHW view of the source, expected NCHW result, scale, bias) for a case. The
    result is computed in parallel."""
    by: np.ndarray = STD if case.back else 1 / STD
    plus: np.ndarray = MEAN if case.back else -MEAN / STD
    if case.back:
        host = np.empty((n, 3, h, w), np.float32)
        view = host
    else:
        host = np.empty((n, h, w, 3), np.uint8)
        view = host.transpose(0, 3, 1, 2)
    if case.channels_last:
        expected = np.empty((n, h, w, 3), case.result).transpose(0, 3, 1, 2)
    else:
        expected = np.empty((n, 3, h, w), case.result)

    def fill(k: int) -> None:
        generator = np.random.default_rng(k)
        if case.back:
            drawn = generator.integers(0, 4096, host[k].shape, dtype=np.uint16)
            host[k] = drawn.astype(np.float32) / np.float32(1024) - np.float32(2)
        else:
            host[k] = generator.integers(0, 256, host[k].shape, dtype=np.uint8)
        exact = view[k].astype(np.float32) * by[:, None, None] + plus[:, None, None]
        expected[k] = np.rint(exact).clip(0, 255) if case.back else exact

    in_parallel(fill, range(n))
    return host, view, expected, by, plus


def _verify(case: Case, buffers: list[_Buffers], side: Side, right: Any, name: str) -> None:
    place = buffers[0].place
    for b in buffers:
        place.poison(b.result)
    for _ in buffers:
        side()
    by = 0.0 if name.startswith("gputensor") else 1.0 if case.back else 4e-3
    if not all(place.near(b.result, right, by) for b in buffers):
        raise WrongResult(f"{case.name}: {name} is wrong")


# --- what each library does -----------------------------------------------------------------------


def _gputensor(case: Case, b: _Buffers, by: np.ndarray, plus: np.ndarray) -> Side:
    to, view = b.views("tensor")
    scale, bias = by.tolist(), plus.tolist()
    return lambda: gt.layout.pack(view, dtype=to.dtype, scale=scale, bias=bias, out=to)


def _columns(module: Any, values: np.ndarray, device: str) -> Any:
    made = module.from_numpy(values.reshape(3, 1, 1).copy())
    return made if device == "cpu" else made.to(device)


def _torch(case: Case, b: _Buffers, by: np.ndarray, plus: np.ndarray) -> Side:
    module, device = peers.torch(b.place.device), b.place.device
    to, view = b.views("torch")
    scale, bias = _columns(module, by, device), _columns(module, plus, device)
    if to.dtype == module.float32:
        return lambda: module.mul(view, scale, out=to).add_(bias)
    if case.back:
        return lambda: to.copy_((view * scale).add_(bias).round_().clamp_(0, 255))
    return lambda: to.copy_((view * scale).add_(bias))


def _torch_compile(case: Case, b: _Buffers, by: np.ndarray, plus: np.ndarray) -> Side:
    module, device = peers.torch(b.place.device), b.place.device
    to, view = b.views("torch")
    scale, bias = _columns(module, by, device), _columns(module, plus, device)

    def copy(to: Any, view: Any) -> Any:
        scaled = view * scale + bias
        return to.copy_(scaled.round().clamp(0, 255) if case.back else scaled)

    compiled = layout_sides.compiled_once(module, copy)
    return lambda: compiled(to, view)


def _numpy_like(module: Any, b: _Buffers, library: str, by: Any, plus: Any) -> Side:
    to, view = b.views(library)
    scale, bias = (module.asarray(x.reshape(3, 1, 1)) for x in (by, plus))
    if to.dtype == np.float32:

        def in_place() -> None:
            module.multiply(view, scale, out=to)
            module.add(to, bias, out=to)

        return in_place

    def through_f32() -> None:
        scaled = view * scale
        scaled += bias
        if to.dtype == np.uint8:
            scaled = module.clip(module.rint(scaled, out=scaled), 0, 255, out=scaled)
        module.copyto(to, scaled, casting="unsafe")

    return through_f32


def _numpy(case: Case, b: _Buffers, by: np.ndarray, plus: np.ndarray) -> Side:
    return _numpy_like(np, b, "numpy", by, plus)


def _cupy(case: Case, b: _Buffers, by: np.ndarray, plus: np.ndarray) -> Side:
    return _numpy_like(peers.cupy(b.place.device), b, "cupy", by, plus)


_MAKERS: dict[str, Callable[..., Side]] = {
    "gputensor": _gputensor, "torch": _torch, "torch.compile": _torch_compile, "cupy": _cupy,
    "numpy": _numpy,
}  # fmt: skip


report, brief = tables.report, tables.brief
impossible, summary = sessions.impossible, sessions.summary


run = sessions.runner(NAME, PEERS, lambda session: CASES, lambda case: case.name, _measure, ABSENT)


def failures(data: dict[str, Any]) -> list[str]:
    """Return a sentence for each peer that is faster than gputensor in the geometric mean.

    On the CPU, packing to f32 must also reach a share of memcpy's speed. torch.compile is excluded
    there, because it compiles C++ for each case.
    """
    found = [
        f"{case['name']}: share of memcpy {share:.2f} is below {CPU_SHARE}"
        for case in data["cases"] if "→ f32" in case["name"] and data["device"] == "cpu"
        if (share := case["share_of_memcpy"]) < CPU_SHARE
    ]  # fmt: skip
    for peer in data["peers"]:
        if peer == "torch.compile" and data["device"] == "cpu":
            continue
        mean = data["summary"].get(f"geomean_vs_{peer}")
        if mean is not None and mean < 1 and not data["is_emulated"]:
            found.append(f"geomean vs {peer} {mean:.2f} is below 1")
    return found
