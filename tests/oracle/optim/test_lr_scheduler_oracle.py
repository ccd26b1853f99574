"""gt.optim.lr_scheduler against torch.optim.lr_scheduler: equal bits of the rates of every step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

Make = Callable[[Any, Any], Any]  # (lr_scheduler of either library, optimizer) -> schedule
CASES: dict[str, Make] = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda n: 0.95**n),
    "LambdaLR of groups": lambda s, o: s.LambdaLR(o, [lambda n: 1 / (n + 1), lambda n: n]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda n: 0.9),
    "StepLR": lambda s, o: s.StepLR(o, 3, gamma=0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9], gamma=0.3),
    "ConstantLR": lambda s, o: s.ConstantLR(o, factor=0.5, total_iters=4),
    "LinearLR": lambda s, o: s.LinearLR(o, start_factor=0.2, end_factor=0.9, total_iters=7),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.8),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, total_iters=6, power=2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 5, eta_min=0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 1.0, total_steps=20),
    "OneCycleLR linear": lambda s, o: s.OneCycleLR(
        o, [1.0, 2.0], epochs=4, steps_per_epoch=5, anneal_strategy="linear", three_phase=True
    ),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=4), s.ExponentialLR(o, 0.9)], milestones=[4]
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, total_iters=5), s.ExponentialLR(o, 0.9)]
    ),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.1, step_size_up=4),
    "CyclicLR triangular2": lambda s, o: s.CyclicLR(
        o, [0.01, 0.02], [0.1, 0.3], 3, 5, mode="triangular2", base_momentum=[0.7, 0.6]
    ),
    "CyclicLR exp_range": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, 3, mode="exp_range", gamma=0.9, cycle_momentum=False
    ),
    "CyclicLR scale_fn": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, 3, scale_fn=lambda n: 1 / (n + 1), scale_mode="iterations"
    ),
    "SWALR": lambda s, o: swa(s).SWALR(o, 0.02, anneal_epochs=6),
    "SWALR linear": lambda s, o: swa(s).SWALR(o, [0.02, 0.5], 4, "linear"),
    "SWALR at once": lambda s, o: swa(s).SWALR(o, 0.02, anneal_epochs=0),
}


def swa(of: Any) -> Any:
    """Return the library's module of averages. of: its module of schedules."""
    return (gt if of is gt.optim.lr_scheduler else torch).optim.swa_utils


def optimizer(lib: Any) -> Any:
    p, q = lib.zeros(2, requires_grad=True), lib.zeros(3, requires_grad=True)
    return lib.optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.3}], lr=0.1, momentum=0.9)


def rates(of: Any) -> list[float]:
    return [float(group["lr"]) for group in of.param_groups]


@pytest.mark.parametrize("name", CASES)
def test_rates(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns if the optimizer has not stepped
        theirs, ours = optimizer(torch), optimizer(gt)
        a = CASES[name](torch.optim.lr_scheduler, theirs)
        b = CASES[name](gt.optim.lr_scheduler, ours)
        for _ in range(19):
            assert rates(ours) == rates(theirs) == b.get_last_lr()
            assert [g["momentum"] for g in ours.param_groups] == [
                g["momentum"] for g in theirs.param_groups
            ]
            a.step()
            b.step()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "max", "threshold_mode": "abs", "cooldown": 2, "min_lr": [0.02, 0.001]},
    ],
    ids=str,
)
def test_rates_on_a_plateau(options: dict[str, Any]) -> None:
    theirs, ours = optimizer(torch), optimizer(gt)
    a = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, factor=0.5, patience=2, **options)
    b = gt.optim.lr_scheduler.ReduceLROnPlateau(ours, factor=0.5, patience=2, **options)
    for figure in [3, 2, 2, 2, 2, 2, 1.9999, 5, 5, 5, 5, 0.5, 0.4, 9, 9, 9, 9, 9, 9, 9]:
        a.step(figure)
        b.step(gt.tensor(float(figure)))
        assert rates(ours) == rates(theirs) == b.get_last_lr()


def test_the_first_of_betas_is_cycled() -> None:
    made = {}
    for lib in (torch, gt):
        o = lib.optim.Adam([lib.zeros(2, requires_grad=True)])
        schedule = lib.optim.lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3)
        made[lib] = []
        for _ in range(8):
            o.step()
            schedule.step()
            made[lib].append((o.param_groups[0]["betas"], o.param_groups[0]["lr"]))
    assert made[gt] == made[torch]
