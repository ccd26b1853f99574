"""functional_call: other tensors in place of a module's, without changes of the module."""

from __future__ import annotations

import pytest

import gputensor as gt
from gputensor import nn

functional_call = gt.func.functional_call


class Counter(nn.Module):
    """Adds to its input the number of calls and, if it has one, `extra`."""

    def __init__(self) -> None:
        super().__init__()
        self.count = nn.Buffer(gt.zeros(1))
        self.plain = gt.ones(1)

    def forward(self, x: gt.Tensor) -> gt.Tensor:
        self.count = self.count + 1
        return x * self.plain + self.count + getattr(self, "extra", 0.0)


def test_names_that_the_module_lacks_are_attributes_during_the_call() -> None:
    module = Counter()
    given = {"extra": gt.full((1,), 10.0), "plain": gt.full((1,), 2.0)}
    assert functional_call(module, given, gt.ones(1)).tolist() == [13.0]
    assert not hasattr(module, "extra") and module.plain.tolist() == [1.0]
    assert functional_call(module, {"extra": nn.Parameter(gt.ones(1))}, gt.ones(1)).item() == 4.0
    assert not hasattr(module, "extra") and not module._parameters
    with pytest.raises(RuntimeError, match="name all parameters and buffers of Counter"):
        functional_call(module, given, gt.ones(1), strict=True)
    with pytest.raises(AttributeError):
        functional_call(module, {"below.weight": gt.ones(1)}, gt.ones(1))
    with pytest.raises(TypeError, match="'training' must be a tensor of the module"):
        functional_call(module, {"extra": gt.ones(1), "training": gt.ones(1)}, gt.ones(1))
    assert not hasattr(module, "extra") and module.training is True


def test_tensors_that_forward_assigns_come_back_in_the_dict() -> None:
    module, count = Counter(), gt.full((1,), 5.0)
    given = {"count": count}
    assert functional_call(module, given, gt.ones(1)).tolist() == [7.0]
    assert given["count"].tolist() == [6.0] and count.tolist() == [5.0]
    assert module.count.tolist() == [0.0]


def test_none_stands_for_an_absent_parameter() -> None:
    linear = nn.Linear(1, 1)
    given = {"weight": gt.full((1, 1), 2.0), "bias": None}
    assert functional_call(linear, given, gt.ones(1, 1)).tolist() == [[2.0]]
    assert linear.bias is not None


def test_tied_tensors_have_one_value() -> None:
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    net[1].weight = net[0].weight
    two, three = gt.full((1, 1), 2.0), gt.full((1, 1), 3.0)
    x = gt.ones(1, 1)
    assert functional_call(net, {"0.weight": two}, x).item() == 4.0
    assert functional_call(net, {"0.weight": two, "1.weight": two}, x).item() == 4.0
    both = {"0.weight": two, "1.weight": three}
    assert functional_call(net, both, x, tie_weights=False).item() == 6.0
    with pytest.raises(ValueError, match="have one value for 0.weight, 1.weight, which are tied"):
        functional_call(net, both, x)


def test_a_module_may_contain_itself() -> None:
    net = nn.Sequential(nn.Linear(1, 1, bias=False))
    net[0].owner = net
    given = {"0.owner.0.weight": gt.full((1, 1), 2.0)}
    assert functional_call(net, given, gt.ones(1, 1), tie_weights=False).item() == 2.0
