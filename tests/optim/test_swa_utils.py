"""gt.optim.swa_utils: averages of weights. Values: tests/oracle/optim/test_swa_utils_oracle.py."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.core import errors

averages = gt.optim.swa_utils


def filled(value: float) -> gt.nn.Module:
    model = gt.nn.Linear(2, 1)
    for p in model.parameters():
        p.data.fill_(value)
    return model


def mean(model: gt.nn.Module) -> float:
    return float(model.module.weight.mean().item())


@pytest.mark.parametrize(("make", "means"), [
    (lambda m: averages.AveragedModel(m), [1.0, 1.5, 2.0]),
    (lambda m: averages.AveragedModel(m, avg_fn=lambda a, b, n: a.maximum(b)), [1.0, 2.0, 3.0]),
    (lambda m: averages.AveragedModel(m, multi_avg_fn=averages.get_ema_multi_avg_fn(0.5)),
     [1.0, 1.5, 2.25]),
])  # fmt: skip
def test_a_model_of_averages(make: Any, means: list[float]) -> None:
    averaged, found = make(filled(7.0)), []
    for value in (1.0, 2.0, 3.0):
        averaged.update_parameters(filled(value))
        found.append(mean(averaged))
    assert found == means and averaged.n_averaged.item() == 3
    x = gt.ones(1, 2)
    assert averaged(x).item() == pytest.approx(3 * means[-1])


def test_the_model_itself_is_not_averaged() -> None:
    model = filled(1.0)
    averaged = averages.AveragedModel(model)
    averaged.update_parameters(filled(5.0))
    assert model.weight.tolist() == [[1.0, 1.0]] and mean(averaged) == 5.0


@pytest.mark.parametrize("use_buffers", [False, True])
def test_buffers_are_copied_or_averaged(use_buffers: bool) -> None:
    model = gt.nn.BatchNorm1d(1)
    averaged = averages.AveragedModel(model, use_buffers=use_buffers)
    for value in (1.0, 3.0):
        model.running_mean.fill_(value)
        averaged.update_parameters(model)
    assert averaged.module.running_mean.item() == (2.0 if use_buffers else 3.0)


def test_statistics_are_computed_anew() -> None:
    model = gt.nn.Sequential(gt.nn.BatchNorm1d(1, momentum=0.25)).eval()
    averages.update_bn([(gt.tensor([[1.0], [3.0]]), 0), gt.tensor([[5.0], [5.0]])], model)
    norm = model[0]
    assert norm.running_mean.item() == 3.5 and norm.momentum == 0.25 and not model.training
    assert not norm.weight.grad_fn


def test_a_pass_that_fails_leaves_the_momentum() -> None:
    model = gt.nn.BatchNorm1d(1, momentum=0.25).eval()
    with pytest.raises(errors.GpuTensorError):
        averages.update_bn([gt.ones(2, 3, 4, 5)], model)
    assert model.momentum == 0.25 and not model.training


@pytest.mark.parametrize(("make", "said"), [
    (lambda: averages.get_ema_avg_fn(1.5), r"get_ema_avg_fn: 'decay' must be in \[0, 1\]"),
    (lambda: averages.get_ema_multi_avg_fn(-1), r"get_ema_multi_avg_fn: 'decay' must be in"),
    (lambda: averages.AveragedModel(3), "AveragedModel: 'model' must be a Module"),
    (lambda: averages.AveragedModel(filled(1), avg_fn=abs, multi_avg_fn=abs), "not come with avg_"),
    (lambda: averages.AveragedModel(filled(1), avg_fn=3), "'avg_fn' must be a function"),
    (lambda: averages.update_bn([], 3), "update_bn: 'model' must be a Module"),
    (lambda: averages.SWALR(gt.optim.SGD([gt.ones(1)]), 0.1, -1), "'anneal_epochs' must not be"),
    (lambda: averages.SWALR(gt.optim.SGD([gt.ones(1)]), 0.1, 1, "x"), "must be 'cos' or 'linear'"),
    (lambda: averages.SWALR(gt.optim.SGD([gt.ones(1)]), [1.0, 2.0]), "'swa_lr' must be 1 numbers"),
])  # fmt: skip
def test_what_is_refused(make: Any, said: str) -> None:
    with pytest.raises(errors.GpuTensorError, match=said):
        make()
