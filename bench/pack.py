"""Images to a model's input and back: `gt.layout.pack` against what users write today, in turns.

uint8 pixels become normalised f32 or f16 planes (NCHW) or pixels (channels_last), and f32 planes
become uint8 pixels. gputensor's result is compared bit by bit with NumPy's, a peer's within rounding,
since a compiler may fuse a multiplication with an addition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gputensor as gt

from . import copies, layout_sides, peers, tables, timing
from .places import WrongResult, place_for

NAME = "pack"
PEERS = ("torch", "torch.compile", "cupy", "numpy")
# Libraries that a reader may look for.
ABSENT = {
    "opencv": "blobFromImages has one scale for all channels",
    "CV-CUDA, DALI, torchvision v2": "not part of this benchmark",
}
# ImageNet's mean and standard deviation, of pixels from 0 to 255.
MEAN = np.array([123.675, 116.28, 103.53], np.float32)
STD = np.array([58.395, 57.12, 57.375], np.float32)

Side = Callable[[], Any]


class Case:
    """A batch of images: (N, H, W) on a GPU and on the CPU; `back` is from planes to pixels."""

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
        ("u8 NHWC → f32 channels_last", "f4", True, False), ("u8 NHWC → f16 channels_last", "f2", True, False),
        ("f32 NCHW → u8 NHWC", "u1", True, True),
    )
)  # fmt: skip


def run(
    device: str = "cpu", rounds: int | None = None, only: tuple[int, ...] = (),
    libraries: tuple[str, ...] | None = None, scale: int = 1,
) -> dict[str, Any]:  # fmt: skip
    """Measure; returns the data of the record. Arguments as of `layout.run`; scale divides the batch
    and the sides."""
    session = copies.Session(NAME, device, PEERS if libraries is None else libraries, rounds)
    numbered = [(n, c) for n, c in enumerate(CASES, 1) if not only or n in only]
    cases = [
        _measure(number, case, session, scale)
        for number, case in timing.progress(numbered, lambda pair: pair[1].name)
    ]
    session.skipped |= ABSENT
    return session.data(cases)


def _measure(number: int, case: Case, session: copies.Session, scale: int) -> dict[str, Any]:
    place = place_for(session.device)
    on_gpu = session.kind == "cuda" and not gt.cuda.is_emulated()
    n, h, w = (max(1, size // scale) for size in (case.images if on_gpu else case.cpu_images))
    generator = np.random.default_rng(0)
    if case.back:
        host = generator.integers(0, 4096, (n, 3, h, w)).astype(np.float32) / 1024 - 2
        view, by, plus = host, STD, MEAN
    else:
        host = generator.integers(0, 256, (n, h, w, 3), dtype=np.uint8)
        view, by, plus = host.transpose(0, 3, 1, 2), 1 / STD, -MEAN / STD
    exact = view.astype(np.float32) * by[:, None, None] + plus[:, None, None]
    expected = (np.rint(exact).clip(0, 255) if case.back else exact).astype(case.result)
    if case.channels_last:
        expected = np.ascontiguousarray(expected.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    moved = view.nbytes + expected.nbytes
    buffers = [
        _Buffers(place, case, host, view, expected) for _ in range(copies.buffers(session.kind, moved))
    ]
    return session.measure(
        place,
        lambda name: layout_sides.rotating([_MAKERS[name](case, b, by, plus) for b in buffers]),
        lambda side, what: _verify(case, buffers, side, expected, what),
        moved, moved, session.kind,
    ) | {
        "number": number, "name": case.name, "kind": "back" if case.back else "pack",
        "source": list(host.shape), "sizes": list(view.shape),
    }  # fmt: skip


class _Buffers:
    """A source and a destination, as flat arrays of a place with their strided views."""

    def __init__(self, place: Any, case: Case, host: np.ndarray, view: np.ndarray, expected: np.ndarray) -> None:
        self.place = place
        self.source, self.result = place.put(host.reshape(-1)), place.empty(expected.size, case.result)
        self.of_source = _strided(view)
        self.of_result = _strided(expected)

    def views(self, library: str) -> tuple[Any, Any]:
        see = getattr(self.place, library)
        return see(self.result, self.of_result), see(self.source, self.of_source)


def _strided(x: np.ndarray) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    return x.shape, tuple(s // x.itemsize for s in x.strides), 0


def _verify(case: Case, buffers: list[_Buffers], side: Side, expected: np.ndarray, name: str) -> None:
    for b in buffers:
        b.place.poison(b.result)
    for _ in buffers:
        side()
    for b in buffers:
        tensor = b.place.tensor(b.result, b.of_result)
        found = tensor.cpu().numpy() if b.place.device != "cpu" else tensor.numpy()
        if name.startswith("gputensor"):
            right = np.array_equal(found, expected)
        else:
            near = np.abs(found.astype(np.float32) - expected.astype(np.float32))
            right = bool((near <= (1 if case.back else 4e-3)).all())
        if not right:
            raise WrongResult(f"{case.name}: {name} is wrong")


# --- what each library does ------------------------------------------------------------------------


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


report, brief, impossible = tables.report, tables.brief, copies.impossible


def failures(data: dict[str, Any]) -> list[str]:
    """Peers that are faster, a sentence each.

    On a CPU torch.compile is left out: it writes C++ for the case, we have NumPy's loops.
    """
    found = []
    for peer in data["peers"]:
        if peer == "torch.compile" and data["device"] == "cpu":
            continue
        mean = data["summary"].get(f"geomean_vs_{peer}")
        if mean is not None and mean < 1 and not data["is_emulated"]:
            found.append(f"geomean vs {peer} {mean:.2f} is below 1")
    return found
