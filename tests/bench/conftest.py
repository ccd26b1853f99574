"""Settings for all tests of the benchmarks."""

from __future__ import annotations

import pytest

from bench import copies


@pytest.fixture
def figures_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count no figure as impossible: small cases on a shared machine have only a few rounds."""
    monkeypatch.setattr(copies, "ROOFLINE", dict.fromkeys(copies.ROOFLINE, 1e9))
