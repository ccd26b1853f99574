"""Tests of fusion record operators on few elements, too; test_small.py has what blocks do with them
by default."""

from __future__ import annotations

import pytest

from gputensor.fusion.record import recorder


@pytest.fixture(autouse=True)
def small_operators_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "SMALL_NUMEL", 0)
