"""Host cost of `gt.fuse`: the figures exist and are compared with their budgets."""

from __future__ import annotations

from bench import fuse
from bench.host import fuse_host


def test_figures_and_budgets() -> None:
    found = fuse_host.measure(rounds=2)
    assert found.keys() == {"eager_ns", "replay_numpy"} | fuse_host.BUDGETS.keys()
    assert found["eager_ns"] > 0 and found["replay"] > 0
    assert "operators on 4 elements" in fuse_host.report(found)
    slow = {"device": "cpu", "cases": [], "peers": [], "host": {**found, "recording": 1.6}}
    assert "8 small operators: recording 1.60 is above 1.5" in fuse.failures(slow)
    good = {"recording": 1.5, "recording_further": 1.5, "replay": 2.0}
    assert not fuse_host.failures(good)
    assert fuse_host.failures({**good, "replay": 2.1})
