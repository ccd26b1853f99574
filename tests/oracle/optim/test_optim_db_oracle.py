"""PyTorch's samples of its optimizers (`optim_db`): steps with each set of options, and invalid
options, in both libraries. SparseAdam is left out: there are no sparse gradients."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt

pytest.importorskip("torch")

import torch

from .. import op_db

pytestmark = pytest.mark.oracle

STEPS = 7
TOLERANCES = {"float32": 2e-5, "float64": 1e-9}
# The line search amplifies rounding errors; in float32 results become incomparable.
OF_LBFGS = 1e-6
# PyTorch rejects these because one of its loops does not support them; gputensor has one loop.
ACCEPTED = "lr as Tensor doesn't work", "betas must be either both", r"betas\[0\] as a Tensor"


def infos() -> dict[str, Any]:
    op_db.op_db()  # a replacement for a package of PyTorch's test tools
    from torch.testing._internal.common_optimizers import optim_db

    found = {info.optim_cls.__name__: info for info in optim_db}
    del found["SparseAdam"]
    return found


def ours(value: Any, seen: dict[int, Any] | None = None) -> Any:
    """Convert PyTorch's value to ours. A parameter that occurs twice is converted once."""
    seen = {} if seen is None else seen
    if isinstance(value, torch.nn.Parameter):
        made = gt.nn.Parameter(gt.from_numpy(value.detach().numpy().copy()))
        return seen.setdefault(id(value), made)
    if isinstance(value, torch.Tensor):
        return gt.from_numpy(value.detach().numpy().copy())
    if isinstance(value, dict):
        return {name: ours(x, seen) for name, x in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([ours(x, seen) for x in value])
    return value


def options(info: Any, dtype: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return each sample, without and with each of foreach, fused and differentiable."""
    from torch.testing._internal import common_optimizers

    found = common_optimizers._get_optim_inputs_including_global_cliquey_kwargs(
        torch.device("cpu"), getattr(torch, dtype), info
    )
    for sample in found:
        yield sample.desc, sample.kwargs


def steps(lib: Any, name: str, given: dict[str, Any], values: list[np.ndarray]) -> list[Any]:
    """Return the loss of each step, and the parameters after the last step."""
    leaves = [lib.from_numpy(x.copy()).requires_grad_() for x in values]
    # recorded steps must not write to leaves
    parameters = [x.clone() for x in leaves] if given.get("differentiable") else leaves
    optimizer = getattr(lib.optim, name)(parameters, **given)
    target = lib.from_numpy(values[0][::-1].copy())
    losses = []

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((parameters[0].tanh() @ parameters[1] - target) ** 2).sum()
        grads = lib.autograd.grad(loss, parameters)
        for p, g in zip(parameters, grads):
            p.grad = g
        return loss.detach()

    for _ in range(1 if given.get("differentiable") else STEPS):
        losses.append(optimizer.step(closure).detach())
    return [*losses, *[p.detach() for p in parameters]]


@pytest.fixture(params=[*TOLERANCES])
def dtype(request: pytest.FixtureRequest) -> Iterator[str]:
    """Set the default dtype too, because PyTorch computes with the step count, which has this
    dtype."""
    for lib in (torch, gt):
        lib.set_default_dtype(getattr(lib, request.param))
    yield request.param
    for lib in (torch, gt):
        lib.set_default_dtype(lib.float32)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", [*infos()])
def test_steps_with_each_set_of_options(name: str, dtype: str) -> None:
    if name == "LBFGS" and dtype == "float32":
        pytest.skip("rounding in float32 leads the search along a line elsewhere")
    tolerance = OF_LBFGS if name == "LBFGS" else TOLERANCES[dtype]
    random = np.random.default_rng(0)
    values = [random.normal(size=(4, 4)).astype(dtype), random.normal(size=(4, 4)).astype(dtype)]
    wrong, count = [], 0
    for described, given in options(infos()[name], dtype):
        count += 1
        wanted = steps(torch, name, copy.deepcopy(given), values)
        try:
            found = steps(gt, name, ours(given), values)
        except Exception as error:
            wrong.append(f"{described} {given}: {type(error).__name__}: {error}")
            continue
        for n, (x, y) in enumerate(zip(wanted, found)):
            a, b = x.numpy(), y.numpy()
            if a.dtype != b.dtype or not np.abs(a - b).max() <= tolerance * max(1, np.abs(a).max()):
                wrong.append(f"{described} {given}: {n} differs by {np.abs(a - b).max():.3g}")
                break
    assert not wrong, f"{len(wrong)} of {count}: " + "\n".join(wrong)
    assert count >= 5


@pytest.mark.parametrize("name", [*infos()])
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    wrong, count = [], 0
    for case in infos()[name].optim_error_inputs_func(torch.device("cpu"), torch.float32):
        sample, wanted = case.optimizer_error_input, case.error_type
        params = sample.params
        if params is None:
            params = [torch.nn.Parameter(torch.randn(2, 2))]
        found: Any = None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                made = getattr(gt.optim, name)(ours(params), **ours(sample.kwargs))
                if case.error_on.name == "STEP_ERROR":
                    made.step()
            except Exception as error:
                found = error
        count += 1
        if any(text in sample.desc for text in ACCEPTED):
            continue
        kinds = (wanted,) if issubclass(wanted, Warning) else (wanted, gt.GpuTensorError)
        if not isinstance(found, kinds):
            wrong.append(f"{sample.desc} {sample.kwargs}: {found!r}, not {wanted.__name__}")
    assert not wrong, f"{len(wrong)} of {count}: " + "\n".join(wrong)
    assert count
