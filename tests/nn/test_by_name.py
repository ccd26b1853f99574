"""Modules and helpers take PyTorch's keyword arguments. tests/oracle/nn/test_module_db_oracle.py
calls all modules by name."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor import nn

X, Y = gt.arange(6.0).reshape(2, 3), gt.tensor([0, 2])


@pytest.mark.parametrize(
    ("module", "given"),
    [
        (nn.ReLU(), {"input": X}), (nn.Dropout(0.0), {"input": X}),
        (nn.CrossEntropyLoss(), {"input": X, "target": Y}),
        (nn.PoissonNLLLoss(), {"log_input": X, "target": X}),
        (nn.CosineSimilarity(), {"x1": X, "x2": X}), (nn.RMSNorm(3), {"x": X}),
        (nn.LazyLinear(2), {"input": X}),
    ],
    ids=lambda x: type(x).__name__,
)  # fmt: skip
def test_modules_take_inputs_by_name(module: nn.Module, given: dict[str, Any]) -> None:
    named = module(**given)
    assert gt.equal(named, module(*given.values()))


def test_a_wrong_name_is_refused() -> None:
    with pytest.raises(TypeError, match="inputs"):
        nn.ReLU()(inputs=X)


def test_containers_and_gradients() -> None:
    parts = nn.ModuleDict({"a": nn.ReLU()})
    assert type(parts.pop(key="a")) is nn.ReLU and len(parts) == 0
    assert type(nn.ModuleList([nn.ReLU()]).pop(key=0)) is nn.ReLU
    shared = nn.ReLU()
    twice = nn.Sequential(shared, shared)
    assert len([*twice.modules()]) == 2 and len([*twice.modules(remove_duplicate=False)]) == 3
    p = gt.ones(4, requires_grad=True)
    p.sum().backward()
    assert nn.utils.clip_grad_norm_([p], 1.0, foreach=True).item() == 2
    assert p.grad is not None and p.grad.norm().item() == pytest.approx(1)


def test_attributes_and_classes_that_programs_look_at() -> None:
    conv = nn.Conv2d(1, 1, 3)
    assert conv.output_padding == (0, 0) and not conv.transposed
    relu, pad = nn.ReLU6(inplace=True), nn.ZeroPad2d(1)
    assert isinstance(relu, nn.Hardtanh) and (relu.min_val, relu.max_val) == (0, 6)
    assert repr(relu) == "ReLU6(inplace=True)" and repr(nn.ReLU6()) == "ReLU6()"
    assert relu(gt.tensor([-1.0, 3.0, 9.0])).tolist() == [0, 3, 6]
    assert isinstance(pad, nn.ConstantPad2d) and pad.value == 0
    assert repr(pad) == "ZeroPad2d((1, 1, 1, 1))" and pad(gt.ones(1, 1, 1)).sum() == 1
