"""bench/copies/plans.py on the emulator: all plans that it times copy correctly."""

from __future__ import annotations

import json

import pytest

import gputensor as gt
from bench.copies import layout_cases, plans


@pytest.mark.full
@pytest.mark.emulator
@pytest.mark.parametrize(("number", "shape"), [(8, (383, 385)), (27, (20, 24, 28, 24))])
def test_every_plan_copies_alike(
    number: int, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    if not gt.cuda.is_available():
        pytest.skip(str(gt.cuda.unavailable_reason()))
    (case,) = [case for case in layout_cases.CASES if case.number == number]
    monkeypatch.setattr(case, "shape", shape)
    walk, dtypes = plans._walk(case)
    every = list(plans._launches(walk, dtypes))
    some = every[:1] + every[1::9]  # the emulator's compiler takes a second for each
    monkeypatch.setattr(plans, "_launches", lambda *_: iter(some))
    monkeypatch.setattr(plans, "ROUNDS", 1)
    plans._run(case, walk, dtypes, False)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == len(some) > 8 and sum("chosen" in line for line in lines) == 1
    assert {line["plan"] for line in lines} == {"tile", "pack"}
    assert not any("wrong" in line for line in lines)
    plans._run(case, walk, dtypes, True)
    assert capsys.readouterr().out == ""
