"""Models forward, backward and one step: a CUDA device has the CPU's results.

Models use double precision, because a rounding error may change which element is the maximum, or
the sign of a relu's input, and so the gradient. Errors are relative to the largest element. Models
have real
sizes on a GPU and are small on the emulator.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor import nn
from gputensor.nn import functional as F
from tests.harness import tier

CUDA = "cuda:0"
EXAMPLE = Path(__file__).parents[2] / "examples" / "gpt.py"
Model = tuple[Callable[[], nn.Module], tuple[gt.Tensor, ...], Callable[..., gt.Tensor]]


class Residual(nn.Module):
    """Two convolutions with a residual connection (He et al., Deep residual learning, 2015)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = (
            nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
            if stride != 1 or inputs != outputs
            else nn.Identity()
        )

    def forward(self, x: gt.Tensor) -> gt.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet(width: int, blocks: int) -> nn.Module:
    stages = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
              nn.MaxPool2d(3, 2, 1)]  # fmt: skip
    for stage in range(4):
        for block in range(blocks):
            inputs = width * 2 ** (stage - (stage > 0 and block == 0))
            stride = 2 if stage and not block else 1
            stages.append(Residual(inputs, width * 2**stage, stride))
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, 10))


def images(is_large: bool) -> Model:
    width, blocks, batch, side = (64, 2, 8, 128) if is_large else (2, 1, 2, 32)
    x, target = gt.randn(batch, 3, side, side, dtype=gt.float64), gt.arange(batch) % 10
    return (lambda: resnet(width, blocks)), (x,), lambda y: F.cross_entropy(y, target.to(y.device))


def text(is_large: bool) -> Model:
    width, heads, layers, length = (128, 4, 4, 64) if is_large else (8, 2, 1, 6)
    numbers = gt.randint(50, (4, length + 1))
    inputs, target = numbers[:, :-1], numbers[:, 1:]
    make = runpy.run_path(str(EXAMPLE))["GPT"]
    return (
        lambda: make(50, length, width, heads, layers, 0.0),
        (inputs,),
        lambda y: F.cross_entropy(y.flatten(0, 1), target.flatten().to(y.device)),
    )


MODELS = {"residual": images, "gpt": text}


@pytest.fixture(params=[*MODELS][: tier.pick(1, None)])
def model(request: pytest.FixtureRequest) -> Model:
    made: Model = MODELS[request.param](not gt.cuda.is_emulated())
    return made


def made_on(device: str, model: Model) -> tuple[nn.Module, tuple[gt.Tensor, ...]]:
    gt.manual_seed(1)
    return model[0]().double().to(device), tuple(x.to(device) for x in model[1])


def numbers(x: gt.Tensor | None) -> np.ndarray:
    assert x is not None
    return x.detach().cpu().numpy()


def step(module: nn.Module, inputs: tuple[gt.Tensor, ...], loss: Any, optimizer: Any) -> Any:
    optimizer.zero_grad(set_to_none=True)
    found = loss(module(*inputs))
    found.backward()
    optimizer.step()
    return found


def trained(device: str, model: Model, call: Callable[..., Any] = step) -> dict[str, np.ndarray]:
    """Return the results of a forward pass and a training step."""
    module, inputs = made_on(device, model)
    # Adam divides by the root of a gradient's square, so a rounding error can cause a large step. A
    # step of SGD is as exact as the gradient.
    optimizer = gt.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    found = {"result": numbers(module(*inputs))}
    found["loss"] = numbers(call(module, inputs, model[2], optimizer))
    found |= {f"{name} after": numbers(p) for name, p in module.named_parameters()}
    found |= {f"{name}.grad": numbers(p.grad) for name, p in module.named_parameters()}
    return found | {f"{name} after": numbers(b) for name, b in module.named_buffers()}


def check(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        scale = float(np.abs(value).max()) or 1.0
        error = float(np.abs(found[name] - value).max()) / scale
        assert error < 1e-9, f"{name}: {error:.1e} of the largest element"


def test_a_step_is_the_cpus(model: Model) -> None:
    check(trained(CUDA, model), trained("cpu", model))


@pytest.mark.full
def test_a_fused_step_is_the_cpus(model: Model) -> None:
    def fused(*args: Any) -> Any:
        with gt.fuse():
            return step(*args)

    check(trained(CUDA, model, fused), trained("cpu", model))


def test_a_replayed_forward_is_the_cpus(model: Model) -> None:
    """The graph of a forward pass is replayed with another batch than the recorded one."""
    (there, inputs), (here, _) = made_on(CUDA, model), made_on("cpu", model)
    there.eval(), here.eval()
    with gt.no_grad():
        held = tuple(x.clone() for x in inputs)
        run = gt.cuda.make_graphed_callables(lambda *args: there(*args), held)
        flipped = tuple(x.flip(0) for x in inputs)
        check({"result": numbers(run(*flipped))},
              {"result": numbers(here(*(x.cpu() for x in flipped)))})  # fmt: skip
