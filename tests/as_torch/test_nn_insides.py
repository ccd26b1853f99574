"""Private functions of PyTorch's `nn`: their results, and PyTorch's where it is installed."""

from __future__ import annotations

import pytest

import gputensor as gt
from gputensor.as_torch import nn_insides, stand_ins


def test_clones_share_nothing() -> None:
    made = nn_insides.clones(gt.nn.Linear(2, 2), 3)
    assert len(made) == 3 and made[0].weight is not made[1].weight
    assert made[0].weight.tolist() == made[2].weight.tolist()


@pytest.mark.parametrize("bias", [True, False])
def test_projections_by_thirds_of_a_matrix(bias: bool) -> None:
    q, k, v, w = gt.rand(2, 4), gt.rand(3, 4), gt.rand(3, 4), gt.rand(12, 4)
    b = gt.rand(12) if bias else None
    for n, (x, found) in enumerate(zip((q, k, v), nn_insides.in_projection_packed(q, k, v, w, b))):
        rows = slice(4 * n, 4 * n + 4)
        wanted = gt.nn.functional.linear(x, w[rows], None if b is None else b[rows])
        assert found.tolist() == wanted.tolist()


def test_numbers_and_names_of_reductions() -> None:
    of = stand_ins.STAND_INS["torch.nn.functional"]["_Reduction"]
    assert [of.get_enum(name) for name in ("none", "mean", "sum")] == [0, 1, 2]
    with pytest.warns(UserWarning, match="use reduction='sum'"):
        assert of.legacy_get_string(False, None) == "sum"
    with pytest.warns(UserWarning, match="use reduction='none'"):
        assert of.legacy_get_enum(None, False) == 0


def test_lines_are_indented_but_the_first() -> None:
    assert nn_insides.addindent("a\nb", 2) == "a\n  b"


@pytest.mark.oracle
def test_private_names_are_pytorchs() -> None:
    pytest.importorskip("torch")
    from torch.nn import functional
    from torch.nn.modules import transformer

    assert [n for n in nn_insides.OF_FUNCTIONAL if not hasattr(functional, n)] == []
    assert [n for n in nn_insides.OF_TRANSFORMER if not hasattr(transformer, n)] == []
