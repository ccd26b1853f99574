"""Chains that run in stages: programs, and operators alone between them."""

from __future__ import annotations

from typing import Any
from weakref import ref

import pytest

import gputensor as gt
from gputensor.fusion import running
from gputensor.fusion.cpu import programs

from ..same import state_of


def mixed(x: gt.Tensor) -> gt.Tensor:
    y = (x * 0.5 + 0.1).digamma()
    return gt.special.log_ndtr(gt.special.bessel_j0(y * y) + y) * 2


def test_values_between_stages_are_released_after_their_last_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = gt.rand(300, 300)
    wanted, made, most, memory = state_of(mixed(x)), [], [], running.memory

    def noted(*of: Any) -> Any:
        array = memory(*of)
        made.append(ref(array))
        most.append(sum([one() is not None for one in made]))
        return array

    monkeypatch.setattr(running, "memory", noted)
    with gt.fuse():
        found = mixed(x)
    assert state_of(found) == wanted
    assert len(made) > 3 >= max(most)
    assert not any([one() is not None for one in made])


def test_operators_of_a_program_that_declines_run_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = gt.rand(300, 300)
    wanted, declined = state_of(mixed(x)), []
    program = programs.program

    def declining(*of: Any) -> Any:
        found, run = program(*of), lambda *arrays: declined.append(1) or False
        return found and found._replace(run=run, program=run)

    monkeypatch.setattr(programs, "program", declining)
    running._plans.clear()
    with gt.fuse():
        found = mixed(x)
    fused = gt.fuse(mixed)
    replayed = [state_of(fused(x)) for _ in range(4)]
    running._plans.clear()
    assert state_of(found) == wanted and replayed == [wanted] * 4
    assert len(declined) == 4 * 5 or not programs.library.choice().library


def test_a_softmax_of_any_dimension_joins_a_chain() -> None:
    x = gt.rand(300, 400)
    for dim in (0, 1):
        (chain,) = gt.fuse.explain(lambda dim=dim: (x * 2).softmax(dim)).chains
        assert len(chain[0].instructions) == 2
