"""Fixtures of the dispatcher's tests: a library, and a check that no registration is left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gputensor import dispatch
from gputensor.dispatch import dispatcher, tls
from gputensor.library import Library

from ..harness import tier
from .operands import library


@pytest.fixture
def lib() -> Iterator[Library]:
    """A DEF library of a fresh namespace."""
    with library() as made:
        yield made


def installed() -> dict[str, Any]:
    """Return key -> the function that is its fallback."""
    return {
        key.name: (kernel.function, kernel.convention)
        for key, kernel in dispatcher.fallbacks().items()
    }


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Check that a test has undone its registrations, and that every table agrees with the
    registrations. The quick tier skips this after tests that registered nothing."""
    operators = dispatcher.operators()
    before = {o.qualified_name: o.kernels for o in operators}
    state, fallbacks, tables = tls.state.get(), installed(), [o.table for o in operators]
    yield
    now = dispatcher.operators()
    if tier.is_full() or [id(o.table) for o in now] != [id(table) for table in tables]:
        dispatch.check_invariants()
        assert {o.qualified_name: o.kernels for o in now} == before
        assert installed() == fallbacks
    assert tls.state.get() == state
