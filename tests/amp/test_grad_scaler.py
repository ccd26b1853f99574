"""gt.amp.GradScaler follows its rules; tests/oracle/autograd/test_autocast_oracle.py compares it
with PyTorch's."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import gputensor as gt

GradScaler = gt.amp.GradScaler
INF = float("inf")


class SGD:
    """The minimal optimizer that a scaler accepts."""

    def __init__(self, *parameters: gt.Tensor, lr: float = 0.5) -> None:
        self.param_groups = [{"params": list(parameters), "lr": lr}]
        self.steps = 0

    def step(self, factor: float = 1.0) -> str:
        self.steps += 1
        with gt.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        parameter.sub_(parameter.grad * (group["lr"] * factor))
        return "stepped"


def parameter(device: str = "cpu", dtype: Any = gt.float32) -> gt.Tensor:
    return gt.tensor([1.0, 2.0, 3.0], device=device, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.full)])
def test_a_step_is_that_of_the_unscaled_loss(device: str) -> None:
    p = parameter(device)
    optimizer, scaler = SGD(p), GradScaler(device, init_scale=128.0, growth_interval=2)
    scaled = scaler.scale((p * p).sum())
    assert scaled.item() == 14 * 128 and scaled.device.type == device
    scaled.backward()
    assert p.grad.tolist() == [256.0, 512.0, 768.0]  # type: ignore[union-attr]
    assert scaler.step(optimizer, factor=2.0) == "stepped"
    assert p.tolist() == [-1.0, -2.0, -3.0] and p.grad.tolist() == [2.0, 4.0, 6.0]
    scaler.update()
    assert scaler.get_scale() == 128.0 and scaler._get_growth_tracker() == 1
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 256.0 and scaler._get_growth_tracker() == 0


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("bad", [INF, -INF, float("nan")])
def test_a_step_with_inf_or_nan_is_skipped(device: str, bad: float) -> None:
    p, q = parameter(device), parameter("cpu")
    optimizer, scaler = SGD(q, p), GradScaler(device, init_scale=8.0, growth_interval=2)
    scaler.scale(p.sum() + q.to(device).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    p.grad[1] = bad  # type: ignore[index]
    assert scaler.step(optimizer) is None and optimizer.steps == 1
    scaler.update()
    assert scaler.get_scale() == 4.0 and scaler._get_growth_tracker() == 0
    assert q.tolist() == [0.5, 1.5, 2.5]


def test_the_scale_does_not_grow_to_infinity() -> None:
    p = parameter()
    scaler = GradScaler("cpu", init_scale=2.0**127, growth_interval=1)
    p.grad = gt.zeros(3)
    scaler.scale(gt.ones(()))
    scaler.step(SGD(p))
    scaler.update()
    assert scaler.get_scale() == 2.0**127


def test_gradients_may_be_unscaled_before_the_step() -> None:
    p = parameter()
    optimizer, scaler = SGD(p), GradScaler("cpu", init_scale=4.0)
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [1.0, 1.0, 1.0]  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match="has already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert p.grad.tolist() == [1.0, 1.0, 1.0]  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match="unscale_.. is being called after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="step.. has already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after update"):
        pickle.dumps(scaler)
    scaler.update()
    scaler.step(optimizer)


def test_two_optimizers_share_the_scale() -> None:
    p, q = parameter(), parameter()
    first, second, scaler = SGD(p), SGD(q), GradScaler("cpu", init_scale=4.0)
    scaler.scale([p.sum(), (q.sum(),)])[0].backward()
    p.grad[0], q.grad = INF, gt.ones(3)  # type: ignore[index]
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert (first.steps, second.steps, scaler.get_scale()) == (0, 1, 2.0)


def test_outputs_of_any_nest() -> None:
    scaler = GradScaler("cpu", init_scale=2.0)
    one = gt.ones(1)
    first, (second,) = scaler.scale([one, (one,)])
    assert first.item() == second.item() == 2.0
    assert [x.item() for x in scaler.scale(x for x in [one, one])] == [2.0, 2.0]
    assert scaler.scale(gt.ones(2, dtype=gt.float16)).dtype is gt.float16
    with pytest.raises(ValueError, match="'outputs' must be a Tensor or an iterable"):
        scaler.scale(3)


def test_what_it_refuses_changes_nothing() -> None:
    p, half = parameter(), parameter(dtype=gt.float16)
    optimizer, scaler = SGD(p, half), GradScaler("cpu", init_scale=4.0)
    for call in (scaler.unscale_, scaler.step):
        with pytest.raises(RuntimeError, match=r"scale\(\) must be called before"):
            call(optimizer)
    with pytest.raises(RuntimeError, match=r"update: scale\(\) must be called before"):
        scaler.update()
    scaler.scale(p.sum() + half.sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.unscale_(optimizer)
    assert p.grad.tolist() == [4.0, 4.0, 4.0]  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match="step: no gradient has been checked"):
        scaler.step(SGD(gt.ones(2, requires_grad=True)))
    with pytest.raises(RuntimeError, match="'closure' must be left out"):
        scaler.step(optimizer, closure=lambda: None)
    with pytest.raises(RuntimeError, match="'growth_factor' must be greater than 1"):
        GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(RuntimeError, match="'backoff_factor' must be between 0 and 1"):
        GradScaler("cpu", backoff_factor=1.0)
    with pytest.raises(
        RuntimeError, match="update: 'new_scale' must be a float, or one element on cpu"
    ):
        scaler.update(gt.ones(2))


def test_the_scale_can_be_set() -> None:
    scaler = GradScaler("cpu")
    scaler.scale(gt.ones(()))
    scaler.update(32.0)
    assert scaler.get_scale() == 32.0
    given = gt.tensor([16.0])
    scaler.update(given)
    given.zero_()
    assert scaler.get_scale() == 16.0


def test_disabled_it_passes_everything_through() -> None:
    p = parameter()
    scaler, loss = GradScaler("cpu", enabled=False), gt.ones(())
    assert (
        scaler.scale(loss) is loss
        and scaler.step(SGD(p)) == "stepped"
        and scaler.get_scale() == 1.0
    )
    scaler.unscale_(SGD(p))
    scaler.update()
    scaler.load_state_dict({})
    assert (
        scaler.state_dict() == {} and not scaler.is_enabled() and scaler._get_growth_tracker() == 0
    )


def test_state_goes_through_dict_and_pickle() -> None:
    p = parameter()
    scaler = GradScaler("cpu", init_scale=64.0, growth_interval=3)
    scaler.scale(p.sum()).backward()
    scaler.step(SGD(p))
    scaler.update()
    state = scaler.state_dict()
    assert state == {
        "scale": 64.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3,
        "_growth_tracker": 1,
    }  # fmt: skip
    fresh = GradScaler("cpu")
    fresh.scale(gt.ones(()))
    fresh.load_state_dict(state)
    assert fresh.state_dict() == pickle.loads(pickle.dumps(scaler)).state_dict() == state
    assert fresh.scale(gt.ones(())).item() == 64.0
    fresh.set_growth_factor(3.0)
    fresh.set_backoff_factor(0.25)
    fresh.set_growth_interval(7)
    assert (fresh.get_growth_factor(), fresh.get_backoff_factor(), fresh.get_growth_interval()) == (
        3.0,
        0.25,
        7,
    )
    with pytest.raises(RuntimeError, match="must not be empty"):
        fresh.load_state_dict({})


def test_float16_training_needs_it_and_works_with_it() -> None:
    """float16 cannot represent a gradient of 2**-26, but can represent the scaled one."""
    p, x = (
        gt.ones(1, 1, device="cuda", requires_grad=True),
        gt.full((1, 1), 2.0**-13, device="cuda"),
    )

    def gradient(scaler: Any) -> float:
        p.grad = None
        with gt.autocast("cuda"):
            loss = (x.mm(p).mm(x)).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(SGD(p))
        return p.grad.item()  # type: ignore[union-attr]

    assert gradient(GradScaler(enabled=False)) == 0.0
    assert gradient(GradScaler(init_scale=2.0**10)) == 2.0**-26
