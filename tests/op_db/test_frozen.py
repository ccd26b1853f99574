"""Frozen samples of PyTorch's operators: existing operators agree, and counts do not fall."""

from __future__ import annotations

import tomllib
import warnings
from functools import cache
from pathlib import Path

import pytest

from . import frozen, ratchet, replay, report
from .cases import Case, Recorded, read, write

# Existing operators that do not agree: `[leaves]` and `[gradients]`, name = "reason".
DIFFERENCES = tomllib.loads(
    Path(__file__).with_name("differences.toml").read_text(encoding="utf-8")
)


@cache
def _found(kind: str) -> dict[str, replay.Verdict]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return replay.verdicts(frozen.cases(kind), report.check)


@pytest.mark.parametrize("kind", frozen.KINDS)
def test_what_exists_agrees(kind: str) -> None:
    wrong = {
        name: verdict.line()
        for name, verdict in _found(kind).items()
        if verdict.kind not in (replay.AGREES, replay.MISSING)
    }
    known = DIFFERENCES.get(kind, {})
    assert not {name: line for name, line in wrong.items() if name not in known}
    assert not set(known) - set(wrong), "these agree now; their lines go"


@pytest.mark.parametrize("kind", frozen.KINDS)
def test_counts_never_fall(kind: str) -> None:
    assert not ratchet.fallen(f"frozen_{kind}", "", _found(kind).values())


@pytest.mark.full
@pytest.mark.emulator
@pytest.mark.gputensor_cuda
def test_a_sample_agrees_on_cuda() -> None:
    """Calls that agree on the CPU must agree on CUDA."""
    fine = {name for name, verdict in _found("leaves").items() if verdict.kind == replay.AGREES}
    chosen = [case for case in frozen.cases("leaves") if case.op in fine]
    assert len(chosen) > 20
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = replay.verdicts(chosen, report.check, "cuda")
    known = DIFFERENCES.get("cuda", {})
    assert not {
        name: verdict.line()
        for name, verdict in found.items()
        if verdict.kind != replay.AGREES and name not in known
    }


def test_a_difference_is_seen() -> None:
    """This shows that a replay can fail."""
    case = next(c for c in frozen.cases("leaves") if c.op == "exp" and c.results.data)
    kind, _ = report.check(case)
    assert kind == replay.AGREES
    r = case.results
    for other in (
        Recorded(r.dtype, r.sizes, r.strides, bytes(len(r.data))),
        Recorded("int32", r.sizes, r.strides, r.data),
        Recorded(r.dtype, (*r.sizes, 1), (*r.strides, 1), r.data),
    ):
        changed = Case(case.op, case.args, case.kwargs, case.of, other)
        assert report.check(changed)[0] == replay.DIFFERS


def test_cases_come_back_from_a_file(tmp_path: Path) -> None:
    for kind in frozen.KINDS:
        some = frozen.cases(kind)[:50]
        write(tmp_path / "some.cases", some, {})
        assert read(tmp_path / "some.cases")[1] == some


def test_the_files_are_small() -> None:
    assert sum(frozen.file(kind).stat().st_size for kind in frozen.KINDS) < 1.1e6
    assert all(len(frozen.cases(kind)) > 400 for kind in frozen.KINDS)
