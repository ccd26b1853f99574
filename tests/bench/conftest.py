"""Settings for all tests of the benchmarks."""

from __future__ import annotations

import pytest

from bench import copies


@pytest.fixture
def figures_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rounds of small cases on a machine that others use: no figure is an impossible one."""
    monkeypatch.setattr(copies, "ROOFLINE", dict.fromkeys(copies.ROOFLINE, 1e9))
