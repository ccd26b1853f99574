"""Random convolutions and their gradients equal PyTorch's exactly: all sums are integers."""

from __future__ import annotations

import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import gputensor as gt  # noqa: E402

from ...harness import tier  # noqa: E402
from ...kernels.convolutions import case  # noqa: E402

pytestmark = pytest.mark.oracle


def _results(function: Any, leaves: list[Any], numbers: dict[str, Any], make: Any) -> list[Any]:
    for leaf in leaves:
        leaf.requires_grad_()
    made = function(*leaves, **numbers)
    made.backward((make.arange(float(made.numel())) % 3 - 1).view(made.shape).to(made.dtype))
    return [made.detach(), *[leaf.grad for leaf in leaves]]


@pytest.mark.parametrize("seed", range(20))
def test_as_pytorch(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(tier.pick(20, 100)):
        function, tensors, numbers = case(draw, draw.choice([gt.float32, gt.float64]))
        # Only one layout is used, because PyTorch's kernels crash the process for some other
        # layouts.
        theirs = [torch.from_numpy(x.numpy().copy()) for x in tensors]
        name = function.__name__
        try:
            wanted = _results(getattr(torch.nn.functional, name), theirs, numbers, torch)
        except RuntimeError:  # negative padding removed all elements, or more
            try:
                assert not function(*tensors, **numbers).numel()
            except gt.GpuTensorError:
                pass
            continue
        found = _results(function, tensors, numbers, gt)
        for a, b in zip(found, wanted, strict=True):
            assert (a.numpy() == b.numpy()).all() and tuple(a.shape) == tuple(b.shape), (
                name, numbers, [(x.shape, x.stride()) for x in tensors],
            )  # fmt: skip
