"""Let tests of fusion record operators on few elements too. test_small.py tests the default, which
runs such operators at once."""

from __future__ import annotations

import pytest

from gputensor.fusion.record import recorder


@pytest.fixture(autouse=True)
def small_operators_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "SMALL_NUMEL", 0)
