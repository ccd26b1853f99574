"""Layout copies: the 38 cases of `layout_cases.py`, measured alternately with other libraries and
memcpy.

Outputs are filled with a poison value before a library's first copy. They are compared with NumPy's
copy after the first copy, and again after all rounds. A case with a wrong result or an error has no
times; the other cases are kept. A copy faster than the roofline means that the measurement is
wrong. `gputensor` is measured twice, the second time as `again`; the difference is the noise of the
run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..measurement.places import WrongResult, in_parallel, numbers, place_for
from ..records import tables
from . import layout_sides, sessions
from .layout_cases import CASES, Case
from .layout_sides import Pair
import itertools

NAME = "layout"
COUNT = len(CASES)
# The libraries that a report lists, whether measured or skipped.
PEERS = ("torch", "torch.compile", "cupy", "cutensor", "numpy", "opencv")
_SECTOR = 32

report, brief = tables.report, tables.brief
failures, impossible, summary = sessions.failures, sessions.impossible, sessions.summary


def _measure(number: int, case: Case, session: sessions.Session) -> dict[str, Any]:
    kind, place = session.kind, place_for(session.device)
    full = case.shape if session.on_gpu else case.cpu_shape
    shape = tuple(max(1, n // session.scale) if n > 16 else n for n in full)
    how = case.strided(shape)
    host = numbers(int(np.prod(shape)), case.source)
    view = case.view(host.reshape(shape))
    expected = _expected(view, case.result)
    moved, sectors = bytes_of(case, view, expected.nbytes)
    count = sessions.buffers(kind, moved, session.device)
    pairs = [
        Pair(place, place.put(host), place.empty(expected.size, case.result), how)
        for _ in range(count)
    ]
    right = place.put(expected)

    def verify(side: Any, what: str) -> None:
        for pair in pairs:
            place.poison(pair.result)
        for _ in pairs:
            side()
        if not all(place.equal(pair.result, right) for pair in pairs):
            raise WrongResult(f"{case.title}: {what} is wrong")

    return session.measure(
        place, lambda name: layout_sides.side(name, case, pairs), verify, moved, sectors,
        "broadcast" if case.kind == "broadcast" else kind,
    ) | {
        "number": number, "name": case.title, "kind": case.kind, "source": list(shape),
        "sizes": list(view.shape), "kernel": layout_sides.kernel(pairs[0]),
    }  # fmt: skip


def _expected(view: np.ndarray, result: np.dtype) -> np.ndarray:
    """Return NumPy's copy, flattened. NumPy is slow, so all CPUs compute parts of the copy."""
    made = np.empty(view.shape, result)
    inner = view.ndim - 1
    lead = next(k for k in range(view.ndim) if k == inner or np.prod(view.shape[:k]) >= 64)
    if lead == 1:
        ends = np.linspace(0, view.shape[0], 65).astype(int).tolist()
        parts: list[Any] = [slice(*pair) for pair in itertools.pairwise(ends)]
    else:
        parts = list(np.ndindex(*view.shape[:lead]))
    in_parallel(lambda at: np.copyto(made[at], view[at], casting="unsafe"), parts)
    return made.reshape(-1)


def bytes_of(case: Case, view: np.ndarray, written: int) -> tuple[int, int]:
    """Return (the bytes that a copy moves, the bytes of the memory sectors that it touches)."""
    unique = view.itemsize
    for n, stride in zip(view.shape, view.strides):
        unique *= n if stride else 1
    step = min(
        (abs(s) for n, s in zip(view.shape, view.strides) if s and n > 1), default=view.itemsize
    )
    waste = max(1, min(step, _SECTOR) // view.itemsize)
    return written + unique, written + unique * waste


run = sessions.runner(NAME, PEERS, lambda session: CASES, lambda case: case.title, _measure)
