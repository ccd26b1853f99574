"""The examples in generated docstrings run, as a reader would type them."""

from __future__ import annotations

import doctest

import pytest

import gputensor as gt
from gputensor._generated import functions, methods


@pytest.mark.parametrize("module", [functions, methods], ids=["functions", "methods"])
def test_examples(module: object) -> None:
    found = doctest.testmod(module, extraglobs={"gt": gt}, verbose=False)  # type: ignore[arg-type]
    assert found.failed == 0


def test_there_are_examples() -> None:
    tests = doctest.DocTestFinder().find(functions)
    assert sum(len(test.examples) for test in tests) > 10
