"""The fused steps of optimizers: every device gives the CPU's bits, and these equal those of
`optim`."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt

aten = gt.ops.aten
DEVICES = ["cpu", *(["cuda"] if gt.cuda.is_available() else [])]
SHAPES = [(3, 4), (), (0, 2), (130,)]


def _tensors(device: str, seed: int, positive: bool = False) -> list[gt.Tensor]:
    gt.manual_seed(seed)
    made = [gt.randn(shape) for shape in SHAPES]
    return [(x.abs() if positive else x).to(device) for x in made]


def _adam(name: str, device: str, **more: Any) -> list[list[gt.Tensor]]:
    lists = [_tensors(device, n, n > 2) for n in range(5)]
    steps = [gt.tensor(3.0, device=device) for _ in SHAPES]
    numbers = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8,
               "amsgrad": True, "maximize": False}  # fmt: skip
    getattr(aten, name)(*lists, steps, **(numbers | more))
    return lists


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name, cls", [
    ("_fused_adam_", gt.optim.Adam), ("_fused_adamw_", gt.optim.AdamW),
])  # fmt: skip
def test_a_step_is_that_of_the_class(name: str, cls: Any, device: str) -> None:
    found = _adam(name, device)
    lists = [_tensors(device, n, n > 2) for n in range(5)]
    optimizer = cls(lists[0], 0.1, (0.9, 0.99), 1e-8, 0.1, True, capturable=device == "cuda")
    for p, grad, average, square, largest in zip(*lists):
        p.grad = grad
        step = gt.tensor(2.0, device=device) if device == "cuda" else 2
        optimizer.state[p] = {"step": step, "exp_avg": average, "exp_avg_sq": square,
                              "max_exp_avg_sq": largest}  # fmt: skip
    optimizer.step()
    for ours, wanted in zip(found, lists):
        assert all(gt.equal(x, y) for x, y in zip(ours, wanted))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["_fused_adam_", "_fused_adamw_"])
def test_a_found_inf_changes_nothing(name: str, device: str) -> None:
    before = [_tensors(device, n, n > 2) for n in range(5)]
    scale = gt.tensor(4.0, device=device)
    found = _adam(name, device, grad_scale=scale, found_inf=gt.tensor(1.0, device=device))
    assert all(gt.equal(x, y) for a, b in zip(found, before) for x, y in zip(a, b))
    scaled = _adam(name, device, grad_scale=scale, found_inf=gt.tensor(0.0, device=device))
    assert all(gt.equal(x, y / 4) for x, y in zip(scaled[1], before[1]))
    plain = _adam(name, device)
    assert not gt.equal(plain[0][0], before[0][0]) and not gt.equal(scaled[0][0], before[0][0])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_of_sgd_are_those_of_the_class(momentum: float, device: str) -> None:
    params, wanted = _tensors(device, 0), _tensors(device, 0)
    buffers = [gt.full_like(p, 7.0) for p in params] if momentum else []
    optimizer = gt.optim.SGD(wanted, 0.1, momentum, weight_decay=0.1, nesterov=momentum > 0)
    for n in range(3):
        grads = _tensors(device, n + 1)
        rate = gt.tensor(0.1, device=device, dtype=gt.float64) if n else 0.1
        aten._fused_sgd_(
            params, grads, buffers, lr=rate, momentum=momentum, weight_decay=0.1, dampening=0.0,
            nesterov=momentum > 0, maximize=False, is_first_step=n == 0,
        )  # fmt: skip
        for p, grad in zip(wanted, _tensors(device, n + 1)):
            p.grad = grad
        optimizer.step()
    for x, y in zip(params, wanted):
        gt.testing.assert_close(x, y, rtol=1e-6, atol=1e-7)


def test_writes_move_the_versions_and_refusals_change_nothing() -> None:
    params, grads = _tensors("cpu", 0), _tensors("cpu", 1)
    before, versions = [p.clone() for p in params], [p._version for p in params]
    numbers = {"lr": 0.1, "lr_decay": 0.0, "weight_decay": 0.0, "eps": 1e-8, "maximize": False}
    steps = [gt.tensor(1.0) for _ in params]
    sums = _tensors("cpu", 2, True)
    with pytest.raises(gt.GpuTensorError, match="'state_sums' must have sizes"):
        aten._fused_adagrad_(params, grads, [*sums[:3], gt.ones(2)], steps, **numbers)
    with pytest.raises(gt.GpuTensorError, match="'state_steps' must have one element"):
        aten._fused_adagrad_(params, grads, sums, [*steps[:3], gt.ones(2)], **numbers)
    assert all(gt.equal(x, y) for x, y in zip(params, before))
    aten._fused_adagrad_(params, grads, sums, steps, **numbers)
    assert all(p._version > v for p, v in zip(params, versions))
    assert not gt.equal(params[0], before[0])


def test_only_what_is_written_must_not_be_expanded() -> None:
    numbers = {"lr": 0.1, "lr_decay": 0.0, "weight_decay": 0.0, "eps": 1e-8, "maximize": False}
    step, grad = gt.tensor(1.0), gt.ones(()).expand(3)
    p, total = gt.zeros(3), gt.zeros(3)
    with pytest.raises(gt.GpuTensorError, match="'grads' must not hold one memory location"):
        scale = gt.tensor(2.0)
        aten._fused_adagrad_([p], [grad], [total], [step], grad_scale=scale, **numbers)
    assert not p.any()
    aten._fused_adagrad_([p], [grad], [total], [step], **numbers)
    gt.testing.assert_close(p, gt.full((3,), -0.1))
