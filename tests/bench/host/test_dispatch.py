"""The dispatcher's benchmark: cases run in both libraries, the record is valid."""

from __future__ import annotations

import json
from typing import Any

import pytest

import gputensor as gt
from bench.host import dispatch
from bench.measurement.places import WrongResult
from bench.records import record
from bench.records.environment import environment
from gputensor.dispatch import dispatcher


@pytest.fixture(scope="module")
def measured() -> Any:
    return dispatch.run("cpu", rounds=2)


def test_the_record_is_valid(measured: Any) -> None:
    made = json.loads(json.dumps(record.build(measured, environment("cpu"))))
    record.check(made)
    assert len(made["gputensor"]["cases"]) == 8
    assert dispatch.TWO in {case["name"] for case in made["gputensor"]["cases"]}
    report = dispatch.report(made["gputensor"])
    assert report.count("\n|") == 9 and ("PyTorch takes" in report or "Skipped: torch" in report)


def test_nothing_stays_registered(measured: Any) -> None:
    assert not [o for o in dispatcher.operators() if o.namespace == dispatch.NAMESPACE]


def test_calls_take_the_way_that_their_names_say() -> None:
    deep = ["AutogradCPU", "ADInplaceOrView", "BackendSelect", "CPU"]
    with dispatch._cases(gt, "cpu") as calls:
        for name, served in (
            ("two tensors, three redispatches", deep), (dispatch.TWO, ["AutogradCPU", "CPU"]),
            ("two tensors, no Autograd keys", ["CPU"]),
        ):  # fmt: skip
            with gt.dispatch.trace() as lines:
                calls[name][0]()
            assert [line.partition("key=")[2].strip("[]") for line in lines] == served
        for name, (_, first) in calls.items():
            assert ("AutogradCPU" in gt.dispatch.key_set(first)) is ("no Autograd keys" not in name)


def test_a_call_that_returns_something_else_is_no_figure() -> None:
    with pytest.raises(WrongResult, match="one tensor: gputensor did not return its first tensor"):
        dispatch._measured("one tensor", {"gputensor": (lambda: 1, 2)}, rounds=1)


def test_budgets(measured: Any) -> None:
    two = {"name": dispatch.TWO, "ns": {"gputensor": 501.0}, "ratio": {"torch": 1.5}}
    assert dispatch.failures({"cases": [two]}) == [
        "a call with two tensors takes 501 ns, above 500", "PyTorch takes 1.50 times as long, "
                                                           "below 2",
    ]  # fmt: skip
    two |= {"ns": {"gputensor": 400.0}, "ratio": {}}
    assert dispatch.failures({"cases": [two]}) == []
