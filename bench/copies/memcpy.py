"""Upper bound for copies: how fast each library and the driver copy plain bytes, by size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..measurement import peers
from ..measurement.places import WrongResult, pattern, place_for
from ..records import tables
from . import layout_sides, sessions

NAME = "memcpy"
PEERS = ("torch", "cupy", "numpy")
# Number of bytes that a copy reads. It writes as many.
SIZES = tuple(1 << n for n in (16, 20, 24, 26, 28, 30))
CPU_SIZES = tuple(1 << n for n in (12, 16, 20, 22, 24, 26))
COUNT = len(SIZES)

report, brief = tables.report, tables.brief
impossible, summary = sessions.impossible, sessions.summary


def _sizes(session: sessions.Session) -> list[int]:
    sizes = SIZES if session.on_gpu else CPU_SIZES
    return [max(16, size // session.scale) for size in sizes]


def _title(nbytes: int) -> str:
    unit, size = next((u, s) for u, s in (("MiB", 20), ("KiB", 10), ("B", 0)) if nbytes >= 1 << s)
    return f"{nbytes >> size} {unit}"


def _measure(number: int, nbytes: int, session: sessions.Session) -> dict[str, Any]:
    place, u8 = place_for(session.device), np.dtype("u1")
    host = pattern(nbytes)
    pairs = [
        (place.put(host), place.empty(nbytes, u8))
        for _ in range(sessions.buffers(session.kind, 2 * nbytes, session.device))
    ]
    how = ((nbytes,), (1,), 0)

    def make(name: str) -> Callable[[], Any]:
        see = getattr(place, "tensor" if name == "gputensor" else name)
        views = [(see(to, how), see(source, how)) for source, to in pairs]
        if name in ("gputensor", "torch"):
            sides = [layout_sides.copying(*v) for v in views]
        else:
            module = np if name == "numpy" else peers.cupy(session.device)
            sides = [partial(module.copyto, *v) for v in views]
        return layout_sides.rotating(sides)

    def verify(side: Callable[[], Any], what: str) -> None:
        for _, to in pairs:
            place.poison(to)
        for _ in pairs:
            side()
        if not all(place.equal(to, pairs[0][0]) for _, to in pairs):
            raise WrongResult(f"{_title(nbytes)}: {what} is wrong")

    found = session.measure(place, make, verify, 2 * nbytes, 2 * nbytes, session.kind)
    return found | {
        "number": number, "name": _title(nbytes), "kind": "memcpy",
        "source": [nbytes], "sizes": [nbytes],
    }  # fmt: skip


run = sessions.runner(NAME, PEERS, _sizes, _title, _measure)


def failures(data: dict[str, Any]) -> list[str]:
    """Return an empty list, because this benchmark has no budgets. Budgets of other benchmarks are
    relative to memcpy."""
    return []
