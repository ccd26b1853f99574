"""The examples in generated docstrings run."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

import gputensor as gt
from gputensor._generated import functions
from gputensor._generated.methods import GeneratedMethods


def examples(owner: Any, names: list[str]) -> list[doctest.DocTest]:
    find = doctest.DocTestFinder().find
    found = [test for name in names for test in find(getattr(owner, name), name, globs={"gt": gt})]
    return [test for test in found if test.examples]


IN_FUNCTIONS = examples(functions, functions.__all__)
IN_METHODS = examples(GeneratedMethods, list(vars(GeneratedMethods)))


@pytest.mark.parametrize("test", [*IN_FUNCTIONS, *IN_METHODS], ids=lambda test: test.name)
def test_examples(test: doctest.DocTest) -> None:
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_there_are_examples() -> None:
    assert sum(len(test.examples) for test in IN_FUNCTIONS) > 10
