"""Pointwise operators and reductions over large arrays, compared with PyTorch, CuPy and a memcpy of
the same size.

Operands are dense, a broadcast row, or transposed. Every result is checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gputensor as gt

from ..measurement import peers
from ..measurement.places import WrongResult, numbers, place_for
from ..records import tables
from . import layout_sides, sessions

NAME = "bandwidth"
PEERS = ("torch", "cupy", "numpy")
_F16, _F32, _BOOL = np.dtype("f2"), np.dtype("f4"), np.dtype("?")
_SIDE, _CPU_SIDE = 8192, 1024


class Case:
    """One operator on square matrices.

    others: layouts of the further operands (dense, row, turned). axis: the axis of a reduction. by:
    the absolute tolerance of results; all elements are below 1.
    """

    __slots__ = ("name", "op", "of", "result", "others", "axis", "by")

    def __init__(
        self, name: str, op: str, of: np.dtype, others: tuple[str, ...] = (), *,
        result: np.dtype | None = None, axis: int | None = None, by: float = 0.0,
    ) -> None:  # fmt: skip
        self.name, self.op, self.of, self.result = name, op, of, result or of
        self.others, self.axis, self.by = others, axis, by

    @property
    def kind(self) -> str:
        return "pointwise" if self.axis is None else "reduction"


CASES = (
    Case("add f32", "add", _F32, ("dense",)),
    Case("add f16", "add", _F16, ("dense",)),
    Case("add f32 of a row", "add", _F32, ("row",)),
    Case("add f32 of a transpose", "add", _F32, ("turned",)),
    Case("mul f16 of a transpose", "multiply", _F16, ("turned",)),
    Case("exp f32", "exp", _F32, by=2e-6),
    Case("f32 < f32", "less", _F32, ("dense",), result=_BOOL),
    Case("sum f32 of rows", "sum", _F32, axis=1, by=1e-5),
    Case("sum f32 of columns", "sum", _F32, axis=0, by=1e-5),
    Case("amax f16 of rows", "amax", _F16, axis=1),
)
COUNT = len(CASES)
# Maps NumPy's names to the names in PyTorch and gputensor, where these differ.
_OURS = {"multiply": "mul", "less": "lt"}

report, brief = tables.report, tables.brief
impossible, summary = sessions.impossible, sessions.summary


def _measure(number: int, case: Case, session: sessions.Session) -> dict[str, Any]:
    place = place_for(session.device)
    side = max(16, (_SIDE if session.on_gpu else _CPU_SIDE) // session.scale)
    host = (numbers(side * side, _F32) / np.float32(2048)).astype(case.of)
    layouts = {"dense": ((side, side), (side, 1), 0), "row": ((side, side), (0, 1), 0),
               "turned": ((side, side), (1, side), 0)}  # fmt: skip
    views = [place_for("cpu").numpy(host, layouts[how]) for how in ("dense", *case.others)]
    right = _expected(case, views)
    size = right.size
    moved = right.nbytes + host.nbytes
    moved += sum(host.nbytes if how != "row" else side * host.itemsize for how in case.others)
    buffers = [
        ([place.put(host.copy()) for _ in views], place.empty(size, case.result))
        for _ in range(sessions.buffers(session.kind, moved, session.device))
    ]
    shape = ((side, side), (side, 1), 0) if case.axis is None else ((side,), (1,), 0)
    expected = place.put(right.reshape(-1))

    def make(name: str) -> Callable[[], Any]:
        see = getattr(place, "tensor" if name == "gputensor" else name)
        seen = [
            (
                [see(x, layouts[how]) for x, how in zip(given, ("dense", *case.others))],
                see(to, shape),
            )
            for given, to in buffers
        ]
        return layout_sides.rotating(
            [_call(name, case, given, to, session.device) for given, to in seen]
        )

    def verify(call: Callable[[], Any], what: str) -> None:
        for _, to in buffers:
            place.poison(to)
        for _ in buffers:
            call()
        by = case.by * (side if case.axis is not None else 1)
        if not all(place.near(to, expected, by) for _, to in buffers):
            raise WrongResult(f"{case.name}: {what} is wrong")

    found = session.measure(
        place, make, verify, moved, moved, "broadcast" if case.axis is not None else session.kind
    )
    return found | {
        "number": number, "name": case.name, "kind": case.kind, "source": [side, side],
        "sizes": list(right.shape),
    }  # fmt: skip


def _expected(case: Case, views: list[np.ndarray]) -> np.ndarray:
    if case.axis is None:
        return np.ascontiguousarray(getattr(np, case.op)(*views), dtype=case.result)
    exact = views[0].astype(np.float64) if case.op == "sum" else views[0]
    return np.asarray(getattr(np, case.op)(exact, axis=case.axis), dtype=case.result)


def _call(name: str, case: Case, given: list[Any], to: Any, device: str) -> Callable[[], Any]:
    if name in ("gputensor", "torch"):
        function = getattr(
            gt if name == "gputensor" else peers.torch(device), _OURS.get(case.op, case.op)
        )
        if case.axis is None:
            return lambda: function(*given, out=to)
        return lambda: function(*given, case.axis, out=to)
    function = getattr(np if name == "numpy" else peers.cupy(device), case.op)
    if case.axis is None:
        return lambda: function(*given, out=to)
    return lambda: function(*given, axis=case.axis, out=to)


run = sessions.runner(NAME, PEERS, lambda session: CASES, lambda case: case.name, _measure)


def failures(data: dict[str, Any]) -> list[str]:
    """Return an empty list, because this benchmark has no budgets."""
    return []
