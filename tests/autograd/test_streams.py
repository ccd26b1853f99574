"""Backward on CUDA: each node runs on the stream of its forward call, and streams wait for each other.

A fresh process for each order in which the emulator may run its queues, so that a missing wait shows.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ..cuda.support import requires_emulator

pytestmark = [requires_emulator, pytest.mark.emulator]

PROGRAM = """
import gputensor as gt
from gputensor import runtime

cuda = runtime.cuda()
seen = []

class Probe(gt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        seen.append(cuda.current_stream(0).ptr)
        return g * 2

side, other = gt.cuda.Stream(), gt.cuda.Stream()
x = gt.arange(4096.0, device="cuda").requires_grad_()
w = gt.full((4096,), 3.0, device="cuda", requires_grad=True)
with gt.cuda.stream(side):
    side.wait_stream(gt.cuda.default_stream())
    y = Probe.apply(x * w)
with gt.cuda.stream(other):
    other.wait_stream(side)
    z = (y * y).sum()
z.backward()
assert cuda.current_stream(0).ptr == gt.cuda.default_stream().ptr
assert len(seen) == 1 and seen[0] == side.ptr, (seen, side.ptr)
expected = gt.arange(4096.0)
assert gt.testing.assert_close(w.grad.cpu(), 8 * 3.0 * expected * expected) is None
assert gt.testing.assert_close(x.grad.cpu(), 8 * 9.0 * expected) is None
(g,) = gt.autograd.grad((gt.arange(3.0).requires_grad_().cuda() * 2).sum(), x, allow_unused=True)
assert g is None
c = gt.arange(3.0, requires_grad=True)
(c.cuda() * c.cuda()).sum().backward()
assert c.grad.tolist() == [0, 2, 4] and c.grad.device.type == "cpu"
print("fine")
"""


@pytest.mark.parametrize("order", ["eager", "lazy", "random"])
def test_streams_of_the_forward_calls(order: str) -> None:
    settings = {"GPUTENSOR_CUDA": "emulator", "GPUTENSOR_EMULATOR_ORDER": order}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | settings, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr
