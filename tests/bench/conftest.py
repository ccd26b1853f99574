"""Settings for all tests of the benchmarks."""

from __future__ import annotations

import pytest

from bench.copies import sessions


@pytest.fixture
def figures_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count no figure as impossible: small cases on a shared machine have only a few rounds."""
    monkeypatch.setattr(sessions, "ROOFLINE", dict.fromkeys(sessions.ROOFLINE, 1e9))
