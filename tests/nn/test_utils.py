"""gt.nn.utils without other libraries, and bad input."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import gputensor as gt
from gputensor.nn import utils

rnn, parametrize = utils.rnn, utils.parametrize


class _Symmetric(gt.nn.Module):
    def forward(self, x: gt.Tensor) -> gt.Tensor:
        return x.triu() + x.triu(1).mT


class _Wider(gt.nn.Module):
    def forward(self, x: gt.Tensor) -> gt.Tensor:
        return gt.cat([x, x])


def test_parametrization_of_several_modules() -> None:
    layer = gt.nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", _Symmetric())
    assert (layer.weight == layer.weight.mT).all() and not layer.weight.is_leaf
    twin = copy.deepcopy(layer)
    twin.parametrizations.weight.original.data.zero_()
    assert layer.weight.any() and not twin.weight.any()
    other = parametrize.transfer_parametrizations_and_params(layer, gt.nn.Linear(3, 3))
    assert (other.weight == layer.weight).all()
    with pytest.raises(NotImplementedError, match="right_inverse"):
        layer.weight = gt.zeros(3, 3)


def test_refused_parametrizations_change_nothing() -> None:
    layer = gt.nn.Linear(3, 3)
    with pytest.raises(ValueError, match="shape"):
        parametrize.register_parametrization(layer, "weight", _Wider())
    with pytest.raises(ValueError, match="tensor_name"):
        parametrize.register_parametrization(layer, "wait", _Symmetric())
    assert type(layer) is gt.nn.Linear and list(layer.state_dict()) == ["weight", "bias"]


def test_setting_an_orthogonal_weight() -> None:
    layer = utils.parametrizations.orthogonal(gt.nn.Linear(4, 3))
    unit: Any = gt.eye(4)[:3]
    layer.weight = unit
    assert (layer.weight - unit).abs().max() < 1e-5


def test_skip_init() -> None:
    made = utils.skip_init(gt.nn.Linear, 3, 2)
    assert made.weight.device.type == "cpu" and made.weight.requires_grad


@pytest.mark.parametrize("call", [
    lambda: rnn.pack_padded_sequence(gt.zeros(3, 2, 1), [1, 2]),
    lambda: rnn.pack_padded_sequence(gt.zeros(3, 2, 1), [2]),
    lambda: rnn.pack_padded_sequence(gt.zeros(3, 2, 1), [4, 2]),
    lambda: rnn.pad_sequence([gt.zeros(2)], padding_side="top"),
    lambda: rnn.pad_packed_sequence(rnn.pack_sequence([gt.zeros(3)]), total_length=1),
    lambda: utils.weight_norm(gt.nn.ReLU()),
    lambda: utils.remove_weight_norm(gt.nn.Linear(1, 1)),
    lambda: utils.parametrizations.orthogonal(gt.nn.Linear(2, 2), orthogonal_map="qr"),
    lambda: utils.stateless.functional_call(gt.nn.Linear(1, 1), {"what": gt.zeros(1)}),
    lambda: utils.fuse_conv_bn_eval(gt.nn.Conv1d(1, 1, 1), gt.nn.BatchNorm1d(1)),
    lambda: utils.fuse_conv_bn_weights(gt.ones(()), *[gt.ones(())] * 3, 1e-5, None, None),
    lambda: utils.fuse_conv_bn_weights(gt.ones(1), *[gt.ones(1)] * 3, 1e-5, None, None, True),
    lambda: utils.fuse_linear_bn_weights(gt.ones(()), *[gt.ones(())] * 3, 1e-5, None, None),
])  # fmt: skip
def test_bad_values(call: Any) -> None:
    with pytest.raises(gt.core.errors.GpuTensorError):
        call()
