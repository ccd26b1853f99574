"""The modules of the benchmarks are found by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import benchmarks

RECORDS = sorted((Path(__file__).parents[3] / "bench" / "results").glob("*.json"))


@pytest.mark.parametrize("name", benchmarks.NAMES)
def test_a_benchmark_has_one_module(name: str) -> None:
    module = benchmarks.module(name)
    assert module.__name__.rpartition(".")[2] == name
    assert callable(module.run) and callable(module.report) and callable(module.failures)


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_the_benchmark_of_a_kept_record_is_there(record: Path) -> None:
    data = json.loads(record.read_text())["gputensor"]
    assert benchmarks.module(data["benchmark"]).report(data)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(LookupError, match="no benchmark is called 'house'"):
        benchmarks.module("house")
