"""Random numbers within a chain: the values, and the generators, of the operators one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gputensor as gt
from gputensor.fusion import cpu_body
from gputensor.kernels.cuda import launch
from gputensor.structured.generator import default_generator

from ..cuda.support import requires_emulator
from .same import state_of

PLACES = ["cpu", pytest.param("cuda", marks=[requires_emulator, pytest.mark.emulator])]


def like(x: Any) -> Any:
    return gt.rand_like(x) * x + 1, (gt.randn_like(x) * 2).exp()


def dropped(x: Any) -> Any:
    return gt.dropout(x + 1, 0.3, True), gt.native_dropout(x, 0.3, True)


def other_dropouts(x: Any) -> Any:
    return gt.alpha_dropout(x, 0.4, True), gt.feature_dropout(x, 0.4, True)


def filled(x: Any) -> Any:
    y = x * 2
    y.uniform_(2, 3)
    z = y + x
    y.bernoulli_(0.2)
    return y, z, y._version


def overwritten(x: Any) -> Any:
    y = x.clone()
    z = y + 1
    kept = y.t()
    y.normal_()
    return z, y * z, kept, kept.mul_(2)


def never_read(x: Any) -> Any:
    gt.rand_like(x)
    x.clone().exponential_()
    return gt.rand(5, device=x.device)


def of_a_generator(x: Any) -> Any:
    g = gt.Generator(device=x.device.type).manual_seed(3)
    first = x.clone().uniform_(generator=g) * 2
    state = g.get_state()
    return first, state, x.clone().log_normal_(generator=g) + 1, g.get_state()


def of_views(x: Any) -> Any:
    y = x * 2
    y.t().uniform_()
    z = y + 1
    y[0].normal_()
    return y, z, gt.rand_like(x.t()) * 2 + x.t()


def of_dtypes(x: Any) -> Any:
    return [
        gt.rand_like(x, dtype=gt.float64) * x, gt.rand_like(x, dtype=gt.float16) * x,
        gt.randn_like(x, dtype=gt.bfloat16) * x, gt.randint(0, 10, x.shape, device=x.device) * x,
        gt.randn(4, 5, dtype=gt.complex64, device=x.device) * 2,
        (x > 0.5).bernoulli_(0.5) | (x > 0.1), x.to(gt.int16).random_(3, 9) + 1,
    ]  # fmt: skip


def reduced(x: Any) -> Any:
    return (gt.rand_like(x) * x).sum(), (gt.randn_like(x) * x).sum(-1)


def broadcast(x: Any) -> Any:
    return gt.rand_like(x) * gt.arange(x.shape[-1]).to(x.device), gt.rand_like(x) - gt.rand_like(x)


def turned(x: Any) -> Any:
    return (gt.rand_like(x) + 1).t().contiguous(), gt.rand_like(x).t().contiguous() * 2


def refused(x: Any) -> Any:
    told = []
    for call in (
        lambda y: y.uniform_(3, 2), lambda y: y.normal_(0, -1), lambda y: y.bernoulli_(2.0),
        lambda y: y.expand(2, *y.shape).uniform_(), lambda y: y.uniform_(generator=3),
    ):  # fmt: skip
        y = x * 2
        try:
            call(y)
        except Exception as error:
            told.append((type(error), str(error)))
        told.append(y)
    return told


def with_a_gradient(x: Any) -> Any:
    w = x.clone().requires_grad_()
    gt.dropout(w * 2, 0.5, True).square().sum().backward()
    return w.grad


PROGRAMS: list[Callable[[Any], Any]] = [
    like, dropped, other_dropouts, filled, overwritten, never_read, of_a_generator, of_views,
    of_dtypes, reduced, broadcast, turned, refused, with_a_gradient,
]  # fmt: skip


def outcome(program: Callable[[Any], Any], x: Any) -> Any:
    gt.manual_seed(7)
    made = program(x)
    # The generator stands where it stands, whatever was computed.
    states = (
        default_generator(gt.device("cpu")).get_state(),
        default_generator(x.device).get_state(),
    )
    return made, states


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda x: x.__name__)
def test_numbers_and_generators_are_what_they_are_eagerly(
    program: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sizes, block in (((7, 9), None), ((7, 9), 8), ((300, 401), None)):
        if block is not None and place == "cpu":
            monkeypatch.setattr(cpu_body, "BLOCK", block)
        x = gt.rand(sizes).to(place)
        made, states = outcome(program, x)
        expected = state_of(made)
        with gt.fuse():
            made, found_states = outcome(program, x)
        assert found_states == states
        assert state_of(made) == expected
        fused = gt.fuse(program)
        for _ in range(2):
            made, found_states = outcome(fused, x)
            assert (state_of(made), found_states) == (expected, states)
        monkeypatch.undo()


def test_what_is_drawn_is_no_load() -> None:
    x = gt.rand(300, 400)
    found = gt.fuse.explain(lambda: gt.rand_like(x) * x)
    ((chain, _),) = found.chains
    assert found.bytes_moved == 2 * x.nbytes and found.bytes_apart == 4 * x.nbytes
    assert "uniform_(" in str(chain) and not found.replays
    assert [x.loop for x in [step.what for step in chain.instructions]] == ["uniform", "mul"]


@requires_emulator
@pytest.mark.emulator
def test_on_cuda_the_kernel_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    entries: list[str] = []
    call = launch.Launch.__call__

    def noted(self: launch.Launch, *args: Any) -> None:
        entries.append(self.entry)
        call(self, *args)

    x = gt.rand(300, 400, device="cuda")
    monkeypatch.setattr(launch.Launch, "__call__", noted)
    for seed in (1, 2):
        gt.manual_seed(seed)
        expected = state_of(gt.native_dropout(x, 0.25, True))
        entries.clear()
        gt.manual_seed(seed)
        with gt.fuse():
            made = gt.native_dropout(x, 0.25, True)
        assert entries == ["chain_rows"]
        assert state_of(made) == expected
