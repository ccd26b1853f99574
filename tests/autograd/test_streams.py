"""Backward with streams: a node runs on the stream of its forward call, and streams wait.

Tests run on CUDA, in a new process for each order of the emulator's queues, and on a registered
device whose queues run only when waited for. On both, a missing wait gives wrong results.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor.autograd.engine.run import Run

from ..backend.late import late
from ..cuda.support import requires_emulator

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


@pytest.mark.full
@requires_emulator
@pytest.mark.emulator
@pytest.mark.parametrize("order", ["eager", "lazy", "random"])
def test_streams_of_the_forward_calls(order: str) -> None:
    settings = {"GPUTENSOR_CUDA": "emulator", "GPUTENSOR_EMULATOR_ORDER": order}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | settings, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr


# --- a further device -----------------------------------------------------------------------------


@pytest.fixture
def openreg() -> Iterator[Any]:
    with late() as device:
        yield device


def leaf(value: float, place: str = "openreg:0") -> Any:
    x = gt.full((1000,), value).to(place).requires_grad_()
    gt.openreg.synchronize(place)
    return x


def wait_for(stream: Any, place: str = "openreg:0") -> None:
    stream.wait_event(gt.openreg.current_stream(place).record_event())


def test_a_further_devices_streams(openreg: Any) -> None:
    side, w, g = gt.openreg.Stream(), leaf(2.0), gt.ones(1000).to("openreg")
    with gt.openreg.stream(side):
        y = (w * 3) * w
    assert y.grad_fn.stream is side
    y.backward(g)
    assert gt.openreg.current_stream() is gt.openreg.default_stream(0)
    assert set(w.grad.tolist()) == {12.0}


def test_leaves_and_retained_gradients_are_there_for_the_caller(openreg: Any) -> None:
    """Reads on the caller's stream after backward wait for the stream that computed the
    gradient."""
    side, w = gt.openreg.Stream(), leaf(2.0)
    with gt.openreg.stream(side):
        middle = w * 3
        middle.retain_grad()
        y = middle * w
    y.backward(gt.ones(1000).to("openreg"))
    assert set((middle.grad * 1).tolist()) == {2.0} and set((w.grad * 1).tolist()) == {12.0}


def test_casts_of_weights_are_kept_for_their_stream(openreg: Any) -> None:
    side, w = gt.openreg.Stream(), leaf(2.0)
    with gt.autocast("openreg", dtype=gt.float16):
        first = gt.amp.casting.current_block.get().cache
        for stream in (gt.openreg.default_stream(0), side, side):
            with gt.openreg.stream(stream):
                first.cast(w, gt.float16)
        assert len(first.entries) == 2


def test_a_device_without_streams_to_choose_from_has_none() -> None:
    from ..backend.devices import Runtime

    with gt.backend.register("plain", "PrivateUse2", runtime=Runtime(), cpu_fallback=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gt.core.errors.FallbackWarning)
            x = gt.ones(3).to("plain").requires_grad_()
            y = x * x
            assert y.grad_fn.stream is None
            y.sum().backward()
        assert x.grad.tolist() == [2, 2, 2]


@requires_emulator
@pytest.mark.emulator
def test_nodes_of_the_current_stream_change_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    x = gt.arange(3.0).to("cuda").requires_grad_()
    y = ((x * 2).exp() + x).sum()
    for name in ("run_node", "finish_leaf"):
        monkeypatch.setattr(Run, name, lambda *args: pytest.fail("a change of streams"))
    y.backward()
    assert x.grad.tolist() == pytest.approx((2 * (x.detach() * 2).exp() + 1).tolist())


def test_what_is_no_stream_is_refused_before_anything_changes(openreg: Any) -> None:
    with pytest.raises(TypeError, match="'stream' must have a device_index"), gt.openreg.stream(7):
        pass
    with pytest.raises(ZeroDivisionError), gt.openreg.stream(gt.openreg.Stream(1)):
        1 / 0  # noqa: B018
    assert gt.openreg.current_device() == 0
    assert gt.openreg.current_stream(1) is gt.openreg.default_stream(1)


PROGRAMS = int(os.environ.get("GPUTENSOR_STREAM_PROGRAMS", "40"))


def run_program(seed: int, place: str | None) -> list[list[float]]:
    """Return the gradients of a random program; on a device each step uses a random stream."""
    r = random.Random(seed)
    streams = [gt.openreg.Stream(0) for _ in range(3)] if place else [None] * 3
    pool = [gt.full((5,), float(n + 1)) for n in range(3)]
    leaves = [(x.to(place) if place else x).requires_grad_() for x in pool]
    pool, on = list(leaves), [None, None, None]
    for _ in range(r.randint(2, 7)):
        a, b, n = r.randrange(len(pool)), r.randrange(len(pool)), r.randrange(3)
        op = r.choice(("mul", "mul", "add", "abs", "write", "view"))
        stream = streams[n]
        if stream is not None:
            for source in (
                on[a] or gt.openreg.default_stream(0),
                on[b] or gt.openreg.default_stream(0),
            ):
                stream.wait_event(source.record_event())
        with gt.openreg.stream(stream) if place else gt.enable_grad():
            x, y = pool[a], pool[b]
            if op == "mul":
                made = x * y
            elif op == "add":
                made = x + y
            elif op == "abs":
                made = x.abs()
            elif op == "view":
                made = x.view(5, 1).t().reshape(5)
            else:
                made = x.clone()
                made[1:3].mul_(y[:2])
        pool.append(made)
        on.append(stream)
    # the caller's stream must wait for backward's work, not for the forward call's
    for stream in filter(None, streams[1:]):
        streams[0].wait_event(stream.record_event())
    with gt.openreg.stream(streams[0]) if place else gt.enable_grad():
        total = pool[-1] * 1
        for x in pool[3:-1]:
            total = total + x
    total.backward(gt.ones(5).to(place) if place else gt.ones(5))
    return [[] if x.grad is None else (x.grad * 1).tolist() for x in leaves]


@pytest.mark.parametrize("first", range(0, PROGRAMS, 20))
def test_random_programs_on_streams(openreg: Any, first: int) -> None:
    for seed in range(first, first + 20):
        assert run_program(seed, "openreg") == run_program(seed, None), seed
