"""Dropout as functions and modules: probabilities, channels, in place, evaluation."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor import nn
from gputensor.core import errors
from gputensor.nn import functional as F

CHANNELS = {"dropout1d": 3, "dropout2d": 4, "dropout3d": 5, "feature_alpha_dropout": 4}
MODULES = {
    "dropout": nn.Dropout, "dropout1d": nn.Dropout1d, "dropout2d": nn.Dropout2d,
    "dropout3d": nn.Dropout3d, "alpha_dropout": nn.AlphaDropout,
    "feature_alpha_dropout": nn.FeatureAlphaDropout,
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_a_share_is_dropped(name: str) -> None:
    gt.manual_seed(0)
    function: Any = getattr(F, name)
    x = gt.ones(20, 50, *(4,) * (CHANNELS.get(name, 2) - 2))
    made = function(x, 0.25, True)
    dropped = made == made.min()
    assert 0.2 < float(dropped.float().mean()) < 0.3
    if "alpha" not in name:
        assert float(made.min()) == 0 and float(made.max()) == pytest.approx(4 / 3)
    if name in CHANNELS:  # all elements of a channel are dropped together
        of_channels = made.flatten(2)
        assert gt.equal(of_channels.amin(2), of_channels.amax(2))
    written = x.clone()
    assert function(written, 0.25, True, True).data_ptr() == written.data_ptr()
    assert not gt.equal(written, x)
    assert gt.equal(function(x, 0.25, False), x)
    module = MODULES[name](0.25)
    assert not gt.equal(module(x), x) and gt.equal(module.eval()(x), x)


def test_mean_and_variance_stay() -> None:
    gt.manual_seed(0)
    found = F.alpha_dropout(gt.randn(100, 100), 0.3, True)
    assert abs(float(found.mean())) < 0.05 and abs(float(found.std()) - 1) < 0.05


def test_refusals() -> None:
    with pytest.raises(errors.ArgumentError, match=r"dropout: 'p' must be in \[0, 1\] \(got 1.5\)"):
        F.dropout(gt.ones(2), 1.5)
    with pytest.raises(errors.ShapeError, match="dropout1d: 'input' must have 2 or 3 dimensions"):
        F.dropout1d(gt.ones(2))
    with pytest.raises(errors.ArgumentTypeError, match="alpha_dropout: 'input' must be a Tensor"):
        F.alpha_dropout(1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Dropout2d: 'p' must be in \[0, 1\] \(got 1.1\)"):
        nn.Dropout2d(1.1)
    with pytest.raises(TypeError, match="Dropout"):
        nn.Dropout("much")


@pytest.mark.parametrize("ndim", [2, 3, 6])
def test_dropout3d_warns_about_other_numbers_of_dimensions(ndim: int) -> None:
    gt.manual_seed(0)
    with pytest.warns(UserWarning, match="dropout3d: 'input' should have 4 or 5 dimensions"):
        made = F.dropout3d(gt.ones(20, 30, *(2,) * (ndim - 2)), 0.5)
    of_channels = made.reshape(20, 30, -1)
    assert gt.equal(of_channels.amin(2), of_channels.amax(2)) and 0 < float(made.mean()) < 2
