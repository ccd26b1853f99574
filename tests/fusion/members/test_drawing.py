"""Random numbers in a chain: values and generator states equal those of eager operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gputensor as gt
from gputensor.fusion.replay.replays import Replays
from gputensor.kernels.cuda import launch
from gputensor.structured.generator import default_generator

from ...cuda.support import requires_emulator
from ...harness import tier
from ..same import state_of

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
    state = g.mark()
    return first, state, x.clone().log_normal_(generator=g) + 1, g.mark()


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
    # The generator's state does not depend on which numbers were computed.
    states = (
        default_generator(gt.device("cpu")).mark(),
        default_generator(x.device).mark(),
    )
    return made, states


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("program", PROGRAMS[:: tier.pick(3, 1)], ids=lambda x: x.__name__)
def test_numbers_and_generators_are_what_they_are_eagerly(program: Any, place: str) -> None:
    for sizes in ((7, 9), (300, 401)):
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


# --- calls that do not run the Python again -------------------------------------------------------


def of_a_given_generator(x: Any, generator: Any) -> Any:
    return gt.rand(x.shape, generator=generator, device=x.device) * x, gt.rand_like(x)


def into_what_it_made(x: Any) -> Any:
    y = (x * 2).uniform_(2, 3)
    return y, gt.empty_like(x).normal_() * y, gt.randint(0, 9, x.shape, device=x.device)


def sorted_and_multiplied(x: Any) -> Any:
    return (gt.rand_like(x) * x).sort(-1), gt.bernoulli(x, 0.3) @ gt.randn_like(x).t()


def in_a_loop(x: Any) -> Any:
    for _ in range(3):
        x = gt.nn.functional.dropout(x, 0.25) + 1
    return x


REPLAYED = [
    like, dropped, other_dropouts, never_read, reduced, into_what_it_made,
    sorted_and_multiplied, in_a_loop, of_a_given_generator,
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("function", REPLAYED[:: tier.pick(6, 1)], ids=lambda x: x.__name__)
def test_a_replay_takes_what_the_python_takes(
    function: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = gt.Generator(device=place)
    runs = []
    run = Replays.run
    monkeypatch.setattr(Replays, "run", lambda *args: runs.append(args) or run(*args))
    for sizes in ((7, 9), (300, 401)):
        generators = [default_generator(gt.device("cpu")), own]
        generators.append(default_generator(gt.rand(1).to(place).device))
        fused = gt.fuse(function)
        for call in range(7):
            if call == 3:
                gt.manual_seed(5)
            if call == 5:
                own.return_to((3, 1 << 40))
            args = [gt.rand(sizes).to(place), own][: function.__code__.co_argcount]
            before = [x.mark() for x in generators]
            made = state_of(fused(*args))
            after = [x.mark() for x in generators]
            for x, state in zip(generators, before):
                x.return_to(state)
            assert state_of(function(*args)) == made
            assert [x.mark() for x in generators] == after
            if call == 2:
                runs.clear()  # the first calls load families of operators
        assert not runs
        assert gt.fuse.explain(function, *args).replays


def test_a_replay_whose_results_differ_draws_once() -> None:
    """An operator that gives another layout than it gave leads back to the Python."""
    fused = gt.fuse(sorted_and_multiplied)
    x = gt.rand(7, 9)
    plans = fused._replays.plans  # type: ignore[attr-defined]
    while not plans:
        fused(x)  # the first ones bring families of operators
    (plan,) = plans.values()
    for step in plan[0].steps:
        if step.operator is not None:
            step.geometries = tuple([gt.rand(3)._geometry for _ in step.geometries])
    gt.manual_seed(7)
    made = fused(x), gt.get_rng_state().tolist()
    gt.manual_seed(7)
    assert state_of(made) == state_of((sorted_and_multiplied(x), gt.get_rng_state().tolist()))


def test_another_generator_is_another_call() -> None:
    fused = gt.fuse(of_a_given_generator)
    x = gt.rand(5)
    one, two = gt.Generator().manual_seed(1), gt.Generator().manual_seed(2)
    for _ in range(4):
        for generator in (one, two, gt.Generator().manual_seed(3)):
            before = generator.mark(), gt.get_rng_state().tolist()
            made = state_of(fused(x, generator))
            generator.return_to(before[0])
            gt.set_rng_state(gt.tensor(before[1], dtype=gt.uint8))
            assert state_of(of_a_given_generator(x, generator)) == made


def test_an_operator_of_others_that_draws_is_called_each_time() -> None:
    calls = []
    with gt.library.Library("aten", "IMPL") as block:
        block.impl("rand_like", lambda x, **_: calls.append(1) or x * 0 + len(calls), "CPU")
        fused = gt.fuse(lambda x: gt.rand_like(x) + 1)
        x = gt.ones(3)
        for n in range(1, 6):
            assert fused(x).tolist() == [n + 1.0] * 3


def test_what_is_drawn_is_no_load() -> None:
    x = gt.rand(300, 400)
    found = gt.fuse.explain(lambda: gt.rand_like(x) * x)
    ((chain, _),) = found.chains
    assert found.bytes_moved == 2 * x.nbytes and found.bytes_apart == 4 * x.nbytes
    assert "uniform_(" in str(chain) and found.replays
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
