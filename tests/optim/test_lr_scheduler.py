"""gt.optim.lr_scheduler: resuming, and errors. Rates: tests/oracle."""

from __future__ import annotations

import io
from typing import Any

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
    assert state["lr_lambdas"] == [None] and "optimizer" not in state and state["last_epoch"] == 0


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
        (lambda: schedules.CyclicLR(sgd(), 0.1, 1.0, mode="x"), "CyclicLR: 'mode' must be 'triang"),
        (lambda: schedules.CyclicLR(sgd(), 0.1, 1.0, scale_mode="x"), "'scale_mode' must be 'cyc"),
        (lambda: schedules.CyclicLR(sgd(), 0.1, 1.0, 0), "'step_size_up' must be positive"),
        (lambda: schedules.CyclicLR(sgd(), [0.1, 0.2], 1.0), "'base_lr' must be 1 numbers"),
        (
            lambda: schedules.CyclicLR(gt.optim.Rprop([gt.zeros(2)]), 0.1, 1.0),
            "'cycle_momentum' must be False for an optimizer without",
        ),
        (lambda: schedules.ChainedScheduler([]), "ChainedScheduler: 'schedulers' must hold sched"),
        (
            lambda: schedules.ChainedScheduler([schedules.ReduceLROnPlateau(sgd())]),
            "'schedulers' must hold no ReduceLROnPlateau",
        ),
        (
            lambda: schedules.ChainedScheduler([schedules.StepLR(sgd(), n) for n in (1, 2)]),
            "'schedulers' must be of one optimizer",
        ),
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


def test_a_chain_resumes_from_its_state() -> None:
    def made() -> gt.optim.lr_scheduler.ChainedScheduler:
        of = sgd()
        return schedules.ChainedScheduler(
            [schedules.StepLR(of, 2), schedules.ExponentialLR(of, 0.5)]
        )

    first, second = made(), made()
    first.step()
    second.load_state_dict(first.state_dict())
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    for _ in range(3):
        first.step()
        second.step()
        assert second.get_last_lr() == first.get_last_lr()


def test_one_cycle_keeps_the_bounds_of_the_momentum_in_the_groups() -> None:
    """PyTorch reads them there after it has loaded the optimizer's state."""
    groups = [{"params": [gt.zeros(2, requires_grad=True)]} for _ in range(2)]
    optimizer = gt.optim.SGD(groups, lr=0.5, momentum=0.9)
    schedule = schedules.OneCycleLR(
        optimizer, 1.0, total_steps=10, base_momentum=[0.5, 0.6], max_momentum=0.9
    )
    bounds = [(g["base_momentum"], g["max_momentum"]) for g in optimizer.param_groups]
    assert bounds == [(0.5, 0.9), (0.6, 0.9)]
    for _ in range(2):
        optimizer.step()
        schedule.step()
    assert [g["momentum"] for g in optimizer.param_groups] == [0.5, 0.6]


@pytest.mark.parametrize(
    "make",
    [
        lambda o: schedules.StepLR(o, 2, 0.5), lambda o: schedules.MultiStepLR(o, [1, 3, 3], 0.5),
        lambda o: schedules.ConstantLR(o, 0.5, 3), lambda o: schedules.LinearLR(o, 0.25, 1.0, 4),
        lambda o: schedules.ExponentialLR(o, 0.9), lambda o: schedules.PolynomialLR(o, 6, 2.0),
        lambda o: schedules.CosineAnnealingLR(o, 6, 0.1),
        lambda o: schedules.LambdaLR(o, lambda n: 0.5**n),
    ],
)  # fmt: skip
@pytest.mark.parametrize("epoch", [0, 1, 3, 5])
def test_a_step_to_an_epoch_equals_so_many_steps(make, epoch: int) -> None:
    one, many = make(sgd()), make(sgd())
    for _ in range(epoch):
        many.step()
    for _ in range(2):
        with pytest.warns(UserWarning, match="step.epoch. is deprecated; call step"):
            one.step(epoch)
        assert one.get_last_lr() == pytest.approx(many.get_last_lr())
    assert one.last_epoch == epoch
    one.step()
    many.step()
    assert one.get_last_lr() == pytest.approx(many.get_last_lr())


@pytest.mark.parametrize("growth", [1, 2])
def test_warm_restarts_go_to_parts_of_epochs(growth: int) -> None:
    """PyTorch's documentation calls step(epoch + batch / batches) after every batch."""
    steps = schedules.CosineAnnealingWarmRestarts(sgd(), 2, growth)
    parts = schedules.CosineAnnealingWarmRestarts(sgd(), 2, growth)
    for epoch in range(7):
        parts.step(epoch + 0.5)
        between = parts.get_last_lr()
        parts.step(epoch)
        assert parts.get_last_lr() == pytest.approx(steps.get_last_lr())
        assert between != parts.get_last_lr() and parts.last_epoch == epoch
        steps.step()
    parts.step()
    assert parts.get_last_lr() == pytest.approx(steps.get_last_lr())
    with pytest.raises(errors.GpuTensorError, match="'epoch' must not be negative"):
        parts.step(-1)


def test_a_sequence_begins_its_second_schedule_at_its_start() -> None:
    optimizer = sgd()
    warm = schedules.LinearLR(optimizer, 0.5, 1.0, 2)
    restarts = schedules.CosineAnnealingWarmRestarts(optimizer, 4)
    schedule = schedules.SequentialLR(optimizer, [warm, restarts], [2])
    rates = [schedule.get_last_lr()[0]]
    for _ in range(3):
        optimizer.step()
        schedule.step()
        rates += schedule.get_last_lr()
    assert rates == pytest.approx([0.25, 0.375, 0.5, 0.4267767])


def test_schedulers_count_their_steps() -> None:
    schedule = schedules.StepLR(sgd(), 2)
    schedule.step()
    assert schedule._step_count == schedule.state_dict()["_step_count"] == 2


def _sgd(rate: Any = 1.0) -> gt.optim.SGD:
    return gt.optim.SGD([gt.ones(1, requires_grad=True)], lr=rate)


@pytest.mark.parametrize(
    "make",
    [
        lambda o, n: schedules.ExponentialLR(o, 0.5, last_epoch=n),
        lambda o, n: schedules.CosineAnnealingLR(o, 5, 0.1, last_epoch=n),
        lambda o, n: schedules.LinearLR(o, 0.5, total_iters=5, last_epoch=n),
        lambda o, n: schedules.PolynomialLR(o, 5, last_epoch=n),
        lambda o, n: schedules.MultiplicativeLR(o, lambda step: 0.5, last_epoch=n),
    ],
)
def test_a_resumed_schedule_keeps_the_present_rate(make: Any) -> None:
    optimizer = _sgd()
    first = make(optimizer, -1)
    rates = []
    for _ in range(4):
        optimizer.step()
        first.step()
        rates.append(first.get_last_lr()[0])
    optimizer.param_groups[0]["lr"] = rates[1]
    resumed = make(optimizer, 1)
    assert resumed.last_epoch == 2 and resumed.get_last_lr() == [rates[1]]
    resumed.step()
    assert resumed.get_last_lr()[0] == pytest.approx(rates[2])


class Halved:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, step: float) -> float:
        return self.by**step


def test_states_have_the_attributes_of_callable_objects() -> None:
    function = schedules.LambdaLR(_sgd(), lambda step: 0.5**step)
    function.load_state_dict(function.state_dict())
    function.step()
    assert function.get_last_lr() == [0.5]
    state = schedules.LambdaLR(_sgd(), Halved(0.25)).state_dict()
    other = schedules.LambdaLR(_sgd(), Halved(0.5))
    other.load_state_dict(state)
    other.step()
    assert other.get_last_lr() == [0.25]
    cyclic = schedules.CyclicLR(_sgd(), 1, 2, 1, scale_fn=lambda x: 0.5, cycle_momentum=False)
    cyclic.load_state_dict({**cyclic.state_dict(), "_scale_fn_custom": None})
    cyclic.step()
    assert cyclic.get_last_lr() == [1.5]


def test_a_group_that_was_added_later_has_a_lower_bound() -> None:
    for bound, is_refused in ((0.5, False), ([0.5], True)):
        optimizer = _sgd()
        plateau = schedules.ReduceLROnPlateau(optimizer, factor=0.1, patience=0, min_lr=bound)
        optimizer.add_param_group({"params": [gt.ones(1, requires_grad=True)], "lr": 2.0})
        plateau.step(1.0)
        if is_refused:
            with pytest.raises(RuntimeError, match="'min_lr' must be one number, or 2"):
                plateau.step(2.0)
        else:
            plateau.step(2.0)
            assert plateau.get_last_lr() == [0.5, 0.5]


def test_a_sequence_contains_a_chain() -> None:
    optimizer = _sgd()
    parts = [
        schedules.ConstantLR(optimizer, 0.1, 5),
        schedules.LinearLR(optimizer, 0.5, total_iters=5),
    ]
    after = schedules.ConstantLR(optimizer, 0.5, 5)
    chain = schedules.ChainedScheduler(parts)
    sequence = schedules.SequentialLR(optimizer, [chain, after], [2])
    rates = [optimizer.param_groups[0]["lr"]]
    for _ in range(3):
        optimizer.step()
        sequence.step()
        rates.append(sequence.get_last_lr()[0])
    assert rates == pytest.approx([0.05, 0.06, 0.5, 0.5])


def test_tensors_that_a_schedule_was_made_with_may_change() -> None:
    low, high = gt.tensor(0.125), gt.tensor(0.25)
    cyclic = schedules.CyclicLR(_sgd(low), low, high, cycle_momentum=False)
    low.mul_(2)
    high.mul_(2)
    assert [float(x) for x in (*cyclic.base_lrs, *cyclic.max_lrs)] == [0.125, 0.25]


def test_factors_have_bounds() -> None:
    for call in (
        lambda: schedules.LinearLR(_sgd(), 0.0), lambda: schedules.LinearLR(_sgd(), 1.1),
        lambda: schedules.LinearLR(_sgd(), 0.5, 1.5),
        lambda: schedules.OneCycleLR(_sgd(), 1.0, 10, pct_start=1.5, cycle_momentum=False),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"must be in .*1\]"):
            call()
