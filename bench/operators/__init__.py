"""Typical calls at three sizes and with typical shapes, compared with PyTorch and NumPy on the CPU.

`calls.py` defines the data type of a call. elementwise.py, rows.py, moves.py, algebra.py and
networks.py list the calls. The benchmark `sweep` calls every overload, with arguments derived from
its schema.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gputensor as gt

from ..measurement import peers, timing
from . import algebra, capabilities, elementwise, moves, networks, rows
from .calls import Case, cases
from .sides import THREADS, Differs, effective_capability, measure
from .totals import brief, failures, report, summary
from .plot import draw

__all__ = ["CASES", "COUNT", "NAME", "brief", "draw", "failures", "report", "run", "summary"]

NAME = "operators"
PEERS = ("torch", "numpy")
FILES = (elementwise, rows, moves, algebra, networks)
CASES = tuple(cases(group for file in FILES for group in file.groups()))
COUNT = len(CASES)


def run(
    device: str = "cpu", rounds: int | None = None, libraries: Sequence[str] = PEERS,
    scale: int = 1, only: Sequence[int] = (), matching: Sequence[str] = (),
    capability: Sequence[str] = (), note: Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Measure all calls, or some of them. Needs PyTorch, to compare results.

    only: numbers of cases. matching: parts of the names of families or cases. capability: CPU
    capabilities, or `all`; each is measured in a separate process. note: called with the data after
    each family.
    """
    if capability:
        return capabilities.run(
            capability, note,
            {"device": device, "rounds": rounds, "libraries": [*libraries], "scale": scale,
             "only": [*only], "matching": [*matching]},
        )  # fmt: skip
    on, torch = gt.device(device), peers.torch("cpu")
    data: dict[str, Any] = {
        "benchmark": NAME, "device": "cpu", "threads": THREADS, "peers": [*libraries],
        "capability": effective_capability(), "skipped": {}, "failed": {}, "cases": [],
    }  # fmt: skip
    if torch is None or on.type != "cpu":
        why = peers.why_not("torch", "cpu") if torch is None else "this benchmark is the CPU's"
        return data | {"skipped": dict.fromkeys(libraries, why), "summary": summary(data)}
    chosen = [case for case in CASES if not only or case.number in set(only)]
    if matching:
        chosen = [case for case in chosen if case.matches(matching)]
    before = gt.get_num_threads()
    gt.set_num_threads(THREADS)
    peers.set_threads("torch", THREADS)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            _each(chosen, {"gputensor": gt, "torch": torch}, rounds, scale, data, note)
    finally:
        gt.set_num_threads(before)
    return data | {"summary": summary(data)}


def _each(
    chosen: Sequence[Case], libraries: dict[str, Any], rounds: int | None, scale: int,
    data: dict[str, Any], note: Callable[[dict[str, Any]], object] | None,
) -> None:  # fmt: skip
    family = ""
    for case in timing.progress(chosen, lambda case: case.name):
        if note is not None and data["cases"] and case.family != family:
            note(data | {"summary": summary(data)})
        family = case.family
        try:
            data["cases"].append(measure(case, libraries, data["peers"], rounds, scale))
        except Differs as error:
            data["failed"][_full(case)] = str(error)
        except Exception as error:  # the other calls are still measured
            data["failed"][_full(case)] = f"{type(error).__name__}: {error}".splitlines()[0]


def _full(case: Case) -> str:
    return f"{case.family}: {case.name}"
