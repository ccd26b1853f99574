"""Numbers of overloads and functions that agree, in counts.toml; they may only increase."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

from .replay import AGREES, Verdict

FILE = Path(__file__).with_name("counts.toml")
_HEADER = """\
# How many of PyTorch's samples' overloads (core, all) and functions with gradients agree here.
# Raised by `python -m tests.op_db --raise` (frozen cases) and `python -m tests.oracle.op_db --raise
# [--gradients]` (all of them), which never lower a count.
"""


def counts(found: Iterable[Verdict]) -> dict[str, tuple[int, int]]:
    """Return (agreeing, all) for Core ATen and for all operators."""
    every = list(found)
    parts = {"core": [v for v in every if v.is_core], "all": every}
    return {name: (sum(v.kind == AGREES for v in of), len(of)) for name, of in parts.items() if of}


def floors() -> dict[str, int]:
    return tomllib.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def key(of: str, dtype: str, part: str) -> str:
    """`frozen_leaves_core`, `recorded_gradients_complex128_all`."""
    return "_".join(x for x in (of, dtype, part) if x)


def fallen(of: str, dtype: str, found: Iterable[Verdict]) -> list[str]:
    """Return a sentence for each count that has decreased."""
    wrong, before = [], floors()
    for part, (agreed, _) in counts(found).items():
        floor = before.get(key(of, dtype, part), 0)
        if agreed < floor:
            wrong.append(f"{key(of, dtype, part)}: {agreed} agree, and {floor} did")
    return wrong


def rise(of: str, dtype: str, found: Iterable[Verdict]) -> None:
    made = floors()
    for part, (agreed, _) in counts(found).items():
        name = key(of, dtype, part)
        made[name] = max(agreed, made.get(name, 0))
    lines = [f"{name} = {made[name]}\n" for name in sorted(made)]
    FILE.write_text(_HEADER + "".join(lines), encoding="utf-8")
