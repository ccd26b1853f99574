"""gt.optim.lr_scheduler: resuming, and what it refuses. Rates: tests/oracle."""

from __future__ import annotations

import io

import pytest

import gputensor as gt
from gputensor.core import errors

schedules = gt.optim.lr_scheduler


def sgd() -> gt.optim.SGD:
    return gt.optim.SGD([gt.zeros(2, requires_grad=True)], lr=0.5)


def test_a_schedule_resumes_from_its_state() -> None:
    first, second = sgd(), sgd()
    schedule = schedules.CosineAnnealingLR(first, 10)
    for _ in range(4):
        schedule.step()
    file = io.BytesIO()
    gt.save({"optimizer": first.state_dict(), "schedule": schedule.state_dict()}, file)
    file.seek(0)
    kept = gt.load(file)
    second.load_state_dict(kept["optimizer"])
    again = schedules.CosineAnnealingLR(second, 10, last_epoch=3)
    again.load_state_dict(kept["schedule"])
    second.load_state_dict(kept["optimizer"])
    for _ in range(5):
        schedule.step()
        again.step()
        assert again.get_last_lr() == schedule.get_last_lr()
        assert second.param_groups[0]["lr"] == first.param_groups[0]["lr"]


def test_functions_are_not_in_a_state() -> None:
    state = schedules.LambdaLR(sgd(), lambda n: 1.0).state_dict()
    assert "lr_lambdas" not in state and "optimizer" not in state and state["last_epoch"] == 0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: schedules.StepLR(3, 1), "StepLR: 'optimizer' must be an Optimizer"),
        (lambda: schedules.StepLR(sgd(), 1, last_epoch=4), "'last_epoch' must be -1 unless"),
        (lambda: schedules.LambdaLR(sgd(), [abs, abs]), "'lr_lambda' must be 1 functions"),
        (lambda: schedules.OneCycleLR(sgd(), 1.0), "'total_steps' must be given, or epochs"),
        (lambda: schedules.OneCycleLR(sgd(), 1.0, 5, anneal_strategy="up"), "'cos' or 'linear'"),
        (
            lambda: schedules.SequentialLR(sgd(), [], [1]),
            "'milestones' must be fewer by one than the schedules",
        ),
        (lambda: schedules.ReduceLROnPlateau(sgd(), factor=2), "'factor' must be below 1"),
        (lambda: schedules.ReduceLROnPlateau(sgd(), mode="x"), "'mode' must be 'min' or 'max'"),
        (lambda: schedules.CosineAnnealingWarmRestarts(sgd(), 0), "'T_0' must be positive"),
    ],
)
def test_what_is_refused(make, said) -> None:
    with pytest.raises(errors.GpuTensorError, match=said):
        make()


def test_more_steps_than_a_cycle_has_are_refused() -> None:
    schedule = schedules.OneCycleLR(sgd(), 1.0, total_steps=2, cycle_momentum=False)
    schedule.step()
    schedule.step()
    with pytest.raises(errors.GpuTensorError, match="at most 2 times"):
        schedule.step()
