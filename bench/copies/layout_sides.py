"""Callables that the benchmark `layout.py` times: layout copies by each library, and plain copies
of the same number of bytes.

A side is a callable that makes one copy. Each call uses the next of several pairs of buffers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import gputensor as gt
from gputensor import runtime
from gputensor.kernels.compiled import library

from ..measurement import peers
from ..measurement.places import Strided
from .layout_cases import Case

Side = Callable[[], Any]
# torch.compile takes seconds per case, so only one case of each kind is measured.
COMPILED = (1, 2, 3, 7, 14, 18, 23, 25, 38)


class Pair:
    """The source and the destination of a case, as flat arrays."""

    __slots__ = ("place", "source", "result", "how", "dense")

    def __init__(self, place: Any, source: Any, result: Any, how: Strided) -> None:
        self.place, self.source, self.result, self.how = place, source, result, how
        sizes = how[0]
        strides = [int(np.prod(sizes[d + 1 :], dtype=np.int64)) for d in range(len(sizes))]
        self.dense = (sizes, tuple(strides), 0)

    def views(self, library: str) -> tuple[Any, Any]:
        """Return (destination, source) as arrays of one library."""
        see = getattr(self.place, library)
        return see(self.result, self.dense), see(self.source, self.how)


def copying(to: Any, source: Any) -> Side:
    return lambda: to.copy_(source)


def rotating(sides: list[Side]) -> Side:
    if len(sides) == 1:
        return sides[0]
    following = itertools.cycle(sides).__next__
    return lambda: following()()


def side(name: str, case: Case, pairs: list[Pair]) -> Side | str:
    """Return a callable that copies a case with the library `name`. If the library cannot copy the
    case, return the reason as a str."""
    maker = _MAKERS[name]
    made: list[Any] = [maker(case, pair) for pair in pairs]
    if isinstance(made[0], str):
        return made[0]
    return rotating(made)


def _is_flipped(pair: Pair) -> bool:
    return min(pair.how[1], default=0) < 0


def _gputensor(case: Case, pair: Pair) -> Side:
    """Return a call of `Tensor.copy_`. Tensors have no negative strides. For a negative stride,
    return a call of gt.layout.copy on arrays of NumPy or CuPy. On a GPU without CuPy, return a call
    of `copy_` from a flipped tensor."""
    if _is_flipped(pair):
        if pair.place.device == "cpu":
            to, view = pair.views("numpy")
        elif peers.cupy(pair.place.device) is not None:
            to, view = pair.views("cupy")
        else:
            whole = pair.place.tensor(pair.source, pair.dense)
            return lambda: pair.place.tensor(pair.result, pair.dense).copy_(whole.flip(-1))
        return lambda: gt.layout.copy(to, view)
    to, view = pair.views("tensor")
    return lambda: to.copy_(view)


def _numpy(case: Case, pair: Pair) -> Side:
    to, view = pair.views("numpy")
    return lambda: np.copyto(to, view, casting="unsafe")


def _torch(case: Case, pair: Pair) -> Side | str:
    module = peers.torch(pair.place.device)
    if _is_flipped(pair):
        whole = pair.place.torch(pair.source, pair.dense)
        to = pair.place.torch(pair.result, pair.dense)
        return lambda: to.copy_(module.flip(whole, (-1,)))
    to, view = pair.views("torch")
    return lambda: to.copy_(view)


def _torch_compile(case: Case, pair: Pair) -> Side | str:
    if case.number not in COMPILED:
        return "compiling takes seconds, so one case of each kind is measured"
    module = peers.torch(pair.place.device)
    to, view = pair.views("torch")
    compiled = compiled_once(module, lambda to, view: to.copy_(view))
    return lambda: compiled(to, view)


def compiled_once(module: Any, function: Any) -> Any:
    """Compile a function with torch.compile for one case, and return it.

    Its cache is cleared first: after 8 shapes of one function, torch.compile would run the eager
    copy.
    """
    module.compiler.reset()
    return module.compile(function, dynamic=False)


def _cupy(case: Case, pair: Pair) -> Side:
    module = peers.cupy(pair.place.device)
    to, view = pair.views("cupy")
    return lambda: module.copyto(to, view, casting="unsafe")


def _opencv(case: Case, pair: Pair) -> Side | str:
    """Return a call of OpenCV's `flip`, `transpose` or `transposeND`, which need a dense source. If
    none of them can copy the case, return the reason."""
    module = peers.opencv("cpu")
    if case.source != case.result or case.source.itemsize > 8:
        return "no such types"
    words = {1: np.uint8, 2: np.uint16, 4: np.float32, 8: np.float64}[case.source.itemsize]
    to, view = (x.view(words) for x in pair.views("numpy"))
    if _is_flipped(pair):
        whole = pair.place.numpy(pair.source, pair.dense).view(words)
        return lambda: module.flip(whole, 1, dst=to)
    if view.ndim == 2 and view.strides[0] == view.itemsize and view.strides[1] > view.itemsize:
        before = view.T
        return lambda: module.transpose(before, dst=to)
    order = sorted(range(view.ndim), key=lambda d: -view.strides[d])
    before = view.transpose(order)
    if not before.flags.c_contiguous or view.ndim < 3:
        return "no such function"
    back = [order.index(d) for d in range(view.ndim)]
    if view.ndim == 3:  # OpenCV would read the last dimension as channels
        before, to, back = before[None], to[None], [0, *[d + 1 for d in back]]
    return lambda: module.transposeND(before, back, dst=to)


_MAKERS: dict[str, Callable[[Case, Pair], Side | str]] = {
    "gputensor": _gputensor, "torch": _torch, "torch.compile": _torch_compile, "cupy": _cupy,
    "numpy": _numpy, "opencv": _opencv,
}  # fmt: skip


def kernel(pair: Pair) -> dict[str, Any]:
    """Return a description of gputensor's kernel for a copy: its `name` and, on a GPU, the tile,
    the access widths and the launch."""
    if pair.place.device == "cpu":
        return {"name": library.get_cpu_capability()}
    # `explain` needs tensors, which have no negative strides
    if _is_flipped(pair):
        return {"name": "row"}
    found = gt.layout.explain(*pair.views("tensor")).to_dict()
    shown = ("how", "entry", "grid", "block", "shared_bytes", "launches")
    return {"name": found["kernel"].lower()} | {
        name: found[name] for name in shown if name in found
    }


# --- memcpy ---------------------------------------------------------------------------------------


def memcpys(place: Any, nbytes: int, pairs: int) -> dict[str, Side]:
    """Return plain copies that read and write `nbytes` in total. The fastest one is the
    reference."""
    half = max(1, nbytes // 2)
    if place.device == "cpu":
        to, source = np.full(half, 1, np.uint8), np.full(half, 2, np.uint8)
        tensors = gt.from_numpy(to), gt.from_numpy(source)
        return {
            "memcpy": lambda: np.copyto(to, source),
            "memcpy_threads": lambda: tensors[0].copy_(tensors[1]),
        }
    size = half // 16 * 16 or 16
    buffers = [
        (place.empty(size, np.dtype("u1")), place.empty(size, np.dtype("u1"))) for _ in range(pairs)
    ]
    index, cuda = place.index, runtime.cuda()

    def driver(to: Any, source: Any) -> Side:
        ends = to.data_ptr(), index, source.data_ptr(), index, size
        return lambda: cuda.copy_async(*ends, cuda.current_stream(index))

    return {
        "memcpy": rotating([driver(*b) for b in buffers]),
        "memcpy_kernel": rotating([copying(*b) for b in buffers]),
    }
