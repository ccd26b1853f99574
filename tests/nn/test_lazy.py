"""Lazy modules of users, and copies and states of modules without sizes."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import gputensor as gt
from gputensor import nn


class Pair(nn.modules.lazy.LazyModuleMixin, nn.Module):
    """Adds a learned number to each element of two inputs' sum."""

    def __init__(self, has_scale: bool = False) -> None:
        super().__init__()
        self.shift = nn.UninitializedParameter()
        if has_scale:
            self.scale = nn.UninitializedParameter()

    def initialize_parameters(self, x: gt.Tensor, y: gt.Tensor) -> None:
        self.shift.materialize(x.shape)
        nn.init.ones_(self.shift)

    def forward(self, x: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
        return x + y + self.shift


def test_a_user_writes_a_lazy_module() -> None:
    module = Pair()
    assert module.has_uninitialized_params()
    assert module(gt.ones(2), y=gt.ones(2)).tolist() == [3.0, 3.0]
    assert type(module) is Pair and not module.has_uninitialized_params()
    assert type(module.shift) is nn.Parameter and not module._forward_pre_hooks
    with pytest.raises(RuntimeError, match="Pair: 'initialize_parameters' must materialize all"):
        Pair(True)(gt.ones(2), gt.ones(2))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_lazy_module_is_copied(copied: Any) -> None:
    module = nn.LazyBatchNorm1d(dtype=gt.float64)
    other = copied(module)
    assert other(gt.ones(2, 3, dtype=gt.float64)).shape == (2, 3)
    assert type(other) is nn.BatchNorm1d and other.weight.dtype is gt.float64
    assert type(module) is nn.LazyBatchNorm1d and module.has_uninitialized_params()
    assert type(module(gt.ones(2, 4, dtype=gt.float64))) is gt.Tensor
    assert copied(module).running_mean.shape == (4,)


def test_a_state_without_sizes_is_not_loaded_into_a_module_with_sizes() -> None:
    lazy, net = nn.LazyLinear(3), nn.Linear(2, 3)
    with pytest.raises(RuntimeError, match="weight without sizes, of a lazy module"):
        net.load_state_dict(lazy.state_dict())
    lazy.load_state_dict(nn.LazyLinear(3).state_dict())
    assert lazy.has_uninitialized_params()
    lazy.load_state_dict(net.state_dict())
    assert gt.equal(lazy(gt.ones(1, 2)), net(gt.ones(1, 2)))


def test_a_lazy_module_passes_all_arguments_on() -> None:
    made = nn.LazyConvTranspose1d(3, 2, stride=2)(gt.ones(1, 2, 4), output_size=(9,))
    assert made.shape == (1, 3, 9)
    nn.LazyLinear(2).reset_parameters()
