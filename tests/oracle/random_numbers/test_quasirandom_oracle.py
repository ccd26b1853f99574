"""SobolEngine draws PyTorch's points."""

from __future__ import annotations

import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("dimension", [1, 3, 50])
def test_points_are_pytorchs(dimension: int) -> None:
    ours = gt.quasirandom.SobolEngine(dimension)
    theirs = torch.quasirandom.SobolEngine(dimension)
    for n in (1, 4, 3):
        assert ours.draw(n).tolist() == theirs.draw(n).tolist()
    assert ours.fast_forward(5).draw(2).tolist() == theirs.fast_forward(5).draw(2).tolist()
    assert ours.num_generated == theirs.num_generated
    ours.reset(), theirs.reset()
    wide = ours.draw_base2(3, dtype=gt.float64)
    assert wide.tolist() == theirs.draw_base2(3, dtype=torch.float64).tolist()
    assert repr(ours) == repr(theirs)
