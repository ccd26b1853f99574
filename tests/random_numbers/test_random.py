"""Random numbers: distributions, streams and generators."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import gputensor as gt
from gputensor.core import errors

COUNT = 40_000
CONTINUOUS = {
    "uniform_": ((-1.0, 3.0), stats.uniform(-1, 4)),
    "normal_": ((1.0, 2.0), stats.norm(1, 2)),
    "log_normal_": ((0.0, 0.5), stats.lognorm(0.5)),
    "exponential_": ((2.0,), stats.expon(scale=0.5)),
    "cauchy_": ((1.0, 2.0), stats.cauchy(1, 2)),
}
# bfloat16 has only 256 uniform numbers, so it would fail a test of a continuous distribution.
DTYPES = (gt.float64, gt.float32, gt.float16)


def drawn(name: str, *args: Any, dtype: Any = gt.float32, seed: int = 11) -> np.ndarray:
    x = gt.empty(COUNT, dtype=dtype)
    getattr(x, name)(*args, generator=gt.Generator().manual_seed(seed))
    return x.to(gt.float64).numpy()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_distribution(name: str, dtype: Any) -> None:
    args, wanted = CONTINUOUS[name]
    x = drawn(name, *args, dtype=dtype)
    assert np.isfinite(x).all()
    assert stats.kstest(x, wanted.cdf).pvalue > 0.01
    assert stats.kstest(x[:-1][x[1:] > np.median(x)], wanted.cdf).pvalue > 0.01, "neighbours"


@pytest.mark.parametrize("dtype", (gt.float32, gt.float64), ids=str)
def test_moments_of_normal_numbers(dtype: Any) -> None:
    x = drawn("normal_", dtype=dtype)
    error = 4 / COUNT**0.5
    assert abs(x.mean()) < error and abs(x.var() - 1) < 2**0.5 * error
    assert abs(stats.skew(x)) < 6**0.5 * error and abs(stats.kurtosis(x)) < 24**0.5 * error
    assert abs(np.mean(x[::2] * x[1::2])) < error, "both of a pair"
    z = gt.randn(COUNT, dtype=gt.complex128, generator=gt.Generator().manual_seed(1)).numpy()
    assert abs(np.mean(abs(z) ** 2) - 1) < error


def test_counted_distributions() -> None:
    tries = drawn("geometric_", 0.3, dtype=gt.int32)
    wanted = COUNT * 0.3 * 0.7 ** np.arange(12)
    found = np.bincount(tries.astype(int), minlength=14)[1:13]
    assert (
        tries.min() == 1
        and stats.chisquare(found, wanted * found.sum() / wanted.sum()).pvalue > 0.01
    )
    for low, high in ((0, 10), (-7, 6), (2**62, 2**62 + 3)):
        x = gt.randint(low, high, (COUNT,), generator=gt.Generator().manual_seed(4)).numpy()
        assert stats.chisquare(np.bincount(x - low, minlength=high - low)).pvalue > 0.01
    x = drawn("bernoulli_", 0.3)
    assert abs(x.mean() - 0.3) < 4 * (0.21 / COUNT) ** 0.5


def test_poisson_and_binomial_samples() -> None:
    generator = gt.Generator().manual_seed(4)
    for mean in (0.3, 4.0, 15.0, 300.0):
        x = gt.poisson(gt.full((COUNT,), mean), generator).numpy()
        assert x.dtype == np.float32 and abs(x.mean() - mean) < 5 * (mean / COUNT) ** 0.5
        assert abs(x.var() / mean - 1) < 0.1
    for count, chance in ((10, 0.25), (200, 0.7)):
        drawn = gt.binomial(gt.tensor(float(count)), gt.full((COUNT,), chance), generator)
        wanted = stats.binom(count, chance)
        assert abs(drawn.mean().item() - wanted.mean()) < 5 * wanted.std() / COUNT**0.5
        assert drawn.max().item() <= count and abs(drawn.var().item() / wanted.var() - 1) < 0.1
    rate = gt.tensor([2.0, 30.0], requires_grad=True)
    gt.poisson(rate).sum().backward()
    assert rate.grad is not None and rate.grad.tolist() == [0, 0]
    with pytest.raises(errors.DtypeError, match="poisson: 'input' must be floating"):
        gt.poisson(gt.tensor([1]))
    with pytest.raises(TypeError, match="poisson: 'input' must be"):
        gt.poisson(3)  # type: ignore[arg-type]
    with pytest.raises(errors.AutogradError, match="derivative for binomial"):
        gt.binomial(rate, gt.full((2,), 0.5)).sum().backward()


@pytest.mark.parametrize("rate", [-1.0, -math.inf, math.nan])
def test_poisson_refuses_a_rate_below_zero(rate: float) -> None:
    with pytest.raises(errors.ArgumentError, match="'input' must hold rates, none negative or NaN"):
        gt.poisson(gt.tensor([2.0, rate]))


def test_counts_and_probabilities_out_of_range_are_as_in_pytorch() -> None:
    """Source of the values: torch.binomial. It does not return for a count that is NaN."""
    nan, inf = math.nan, math.inf
    count = [5.0, 100.0, 5.0, -1.0, -9.0, inf, inf, 5.0, nan, 0.5]
    chance = [-0.1, -0.1, 1.5, 0.5, nan, 0.5, 1.0, nan, 0.5, 0.5]
    found = gt.binomial(gt.tensor(count), gt.tensor(chance)).tolist()
    assert found[:7] == [0, 0, 5, 0, 0, inf, inf] and found[9] == 0
    assert math.isnan(found[7]) and math.isnan(found[8])
    fractions = gt.binomial(gt.full((999,), 2.5), gt.full((999,), 0.5)).tolist()
    assert set(fractions) == {0, 1, 2}


def test_poisson_and_binomial_have_results_on_meta() -> None:
    x = gt.ones(2, 3, device="meta")
    assert gt.poisson(x).shape == gt.binomial(x, x[:1]).shape == (2, 3)


def test_every_permutation_is_as_likely() -> None:
    generator = gt.Generator().manual_seed(2)
    seen = [tuple(gt.randperm(4, generator=generator).tolist()) for _ in range(2400)]
    found = np.unique(np.array(seen), axis=0, return_counts=True)[1]
    assert len(found) == 24 and stats.chisquare(found).pvalue > 0.01


def test_extremes() -> None:
    assert gt.empty(9).bernoulli_(1.0).tolist() == [1] * 9
    assert gt.empty(9).bernoulli_(0.0).tolist() == [0] * 9
    assert gt.bernoulli(gt.tensor([0.0, 1.0])).tolist() == [0, 1]
    assert drawn("exponential_").min() > 0
    from_, x = getattr(gt.ops.aten.random_, "from"), gt.empty(COUNT, dtype=gt.int8)
    whole = from_(gt.empty(COUNT, dtype=gt.int64), -(2**63), None).numpy()
    assert (whole < 0).mean() == pytest.approx(0.5, abs=0.01)
    assert gt.empty(3, dtype=gt.uint64).random_(2**63 - 2, 2**63 - 1).tolist() == [2**63 - 2] * 3
    for whole in (x.random_(120, None), x.random_(120, to=None)):
        assert 120 <= int(whole.min()) and 126 < int(whole.max()), "None is no `to` left out"
    assert int(x.random_(120).max()) < 120
    assert gt.normal(gt.tensor([1.0, 2.0]), 0.0).tolist() == [1, 2]


# --- streams --------------------------------------------------------------------------------------

FACTORIES: dict[str, Callable[..., Any]] = {
    "rand": lambda **k: gt.rand(3, 5, **k),
    "randn": lambda **k: gt.randn((3, 5), **k),
    "randint": lambda **k: gt.randint(100, (3, 5), **k),
    "randint of low": lambda **k: gt.randint(-5, 100, (3, 5), **k),
    "randperm": lambda **k: gt.randperm(9, **k),
    "rand_like": lambda **k: gt.rand_like(gt.empty(3, 5), **k),
    "randn_like": lambda **k: gt.randn_like(gt.empty(3, 5), **k),
    "randint_like": lambda **k: gt.randint_like(gt.empty(3, 5), 9, **k),
    "randint_like of low": lambda **k: gt.randint_like(gt.empty(3, 5), 3, 9, **k),
    "normal": lambda **k: gt.normal(1.0, 2.0, (3, 5), **k),
    "normal of means": lambda **k: gt.normal(gt.zeros(3, 5), 1.0, **k),
    "normal of deviations": lambda **k: gt.normal(0.0, gt.ones(3), **k),
    "normal of both": lambda **k: gt.normal(gt.zeros(3, 1), gt.ones(5), **k),
    "bernoulli": lambda **k: gt.bernoulli(gt.full((3, 5), 0.5), **k),
    "bernoulli of p": lambda **k: gt.bernoulli(gt.empty(3, 5), 0.5, **k),
    "multinomial": lambda **k: gt.multinomial(gt.ones(3, 9), 4, True, **k),
    "poisson": lambda **k: gt.poisson(gt.full((3, 5), 20.0), **k),
    "poisson of small rates": lambda **k: gt.poisson(gt.full((3, 5), 2.0), **k),
    "binomial": lambda **k: gt.binomial(gt.full((3, 5), 90.0), gt.full((3, 5), 0.5), **k),
    "multinomial without replacement": lambda **k: gt.multinomial(gt.ones(3, 9), 4, **k),
}
FACTORIES = {name: make for name, make in FACTORIES.items() if hasattr(gt, name.split()[0])}


@pytest.mark.parametrize("name", FACTORIES)
def test_a_generator_is_drawn_from_and_the_default_left_alone(name: str) -> None:
    make = FACTORIES[name]
    generator = gt.Generator().manual_seed(5)
    gt.manual_seed(5)
    before, state = gt.get_rng_state(), generator.get_state()
    first = make(generator=generator)
    assert gt.equal(gt.get_rng_state(), before)
    assert not gt.equal(generator.get_state(), state)
    second = make(generator=generator)
    assert first.tolist() != second.tolist()
    generator.set_state(state)
    assert make(generator=generator).tolist() == first.tolist()
    assert make().tolist() == first.tolist(), "the default generator with the same seed"
    gt.manual_seed(6)
    assert make().tolist() != first.tolist()
    with pytest.raises(errors.ArgumentTypeError, match="must be a gputensor.Generator"):
        make(generator=3)


def test_the_layout_does_not_matter() -> None:
    for name in ("normal_", "exponential_", "random_", "bernoulli_"):
        wanted = getattr(gt.empty(7, 9), name)(generator=gt.Generator().manual_seed(3))
        turned = gt.empty(9, 7).t()
        getattr(turned, name)(generator=gt.Generator().manual_seed(3))
        assert turned.tolist() == wanted.tolist() and turned.stride() == (1, 7)


def test_out_decides_dtype_and_is_resized() -> None:
    out = gt.empty(0, dtype=gt.float64)
    assert gt.randn(2, 3, generator=gt.Generator().manual_seed(1), out=out) is out
    wanted = gt.randn(2, 3, generator=gt.Generator().manual_seed(1), dtype=gt.float64)
    assert out.tolist() == wanted.tolist() and out._version == 1
    assert gt.randint(3, 4, (2,), out=gt.empty(2, dtype=gt.int8)).tolist() == [3, 3]


def test_gradients_go_through_what_was_kept() -> None:
    x = gt.ones(64, requires_grad=True)
    for drop in (gt.dropout, lambda *args: gt.native_dropout(*args)[0]):
        x.grad = None
        made = drop(x, 0.25, True)
        made.sum().backward()
        assert made.tolist() == x.grad.tolist() and {*x.grad.tolist()} == {
            0.0,
            gt.tensor(4 / 3).item(),
        }


def test_whole_channels_are_dropped() -> None:
    gt.manual_seed(0)
    made = gt.feature_dropout(gt.ones(8, 4, 3, 3), 0.5, True).reshape(32, 9)
    assert {tuple(row) for row in made.tolist()} == {(0.0,) * 9, (2.0,) * 9}
    with pytest.raises(errors.ShapeError, match="must have two dimensions"):
        gt.feature_dropout(gt.ones(3), 0.5, True)


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    x = gt.randn(COUNT, generator=gt.Generator().manual_seed(1))
    gt.manual_seed(2)  # another stream than x's
    made = gt.alpha_dropout(x, 0.3, True).numpy()
    assert abs(made.mean()) < 0.03 and abs(made.var() - 1) < 0.03


# --- generators -----------------------------------------------------------------------------------


def test_bad_values_change_nothing() -> None:
    x, generator = gt.ones(4), gt.Generator().manual_seed(1)
    state = generator.get_state()
    for call in (
        lambda: x.normal_(0.0, -1.0, generator=generator),
        lambda: x.exponential_(0.0, generator=generator),
        lambda: x.random_(5, 5, generator=generator),
        lambda: x.bernoulli_(2.0, generator=generator),
        lambda: x.bernoulli_(gt.tensor([0.5, 1.5, 0.0, 0.0]), generator=generator),
        lambda: x.bernoulli_(gt.ones(3), generator=generator),
        lambda: gt.normal(0.0, gt.tensor([-1.0]), generator=generator),
        lambda: gt.bernoulli(gt.tensor([2.0]), generator=generator),
    ):
        with pytest.raises(errors.ArgumentError):
            call()
    assert x.tolist() == [1] * 4 and x._version == 0 and gt.equal(generator.get_state(), state)


def test_a_state_is_a_tensor_that_a_file_keeps(tmp_path: Path) -> None:
    generator = gt.Generator().manual_seed((1 << 64) - 2)
    gt.rand(9, generator=generator)
    state = generator.get_state()
    assert state.dtype is gt.uint8 and state.shape == (16,) and state.device.type == "cpu"
    assert state.tolist() == [254, *[255] * 7, 3, *[0] * 7]
    wanted = gt.rand(9, generator=generator).tolist()
    gt.save({"rng": state}, tmp_path / "state.pt")
    other = gt.Generator()
    other.set_state(gt.load(tmp_path / "state.pt")["rng"])
    assert other.initial_seed() == (1 << 64) - 2
    assert gt.rand(9, generator=other).tolist() == wanted
    strided = gt.zeros(32, dtype=gt.uint8)[::2]
    other.set_state(strided.copy_(state))
    assert gt.rand(9, generator=other).tolist() == wanted


@pytest.mark.parametrize(
    "state", [(1, 0), gt.zeros(16), gt.zeros(15, dtype=gt.uint8), gt.zeros(2, 8, dtype=gt.uint8)]
)
def test_what_is_no_state_is_refused(state: object) -> None:
    before = gt.get_rng_state()
    with pytest.raises(errors.ArgumentTypeError, match="'state' must be what get_state returned"):
        gt.set_rng_state(state)
    assert gt.equal(gt.get_rng_state(), before)


def test_fork_rng_puts_the_generators_back() -> None:
    gt.manual_seed(3)
    wanted = gt.rand(3).tolist()
    gt.manual_seed(3)
    with gt.random.fork_rng():
        gt.rand(100)
        gt.manual_seed(9)
    assert gt.rand(3).tolist() == wanted

    @gt.random.fork_rng()
    def draw() -> list[float]:
        return gt.rand(3).tolist()

    assert draw() == draw() == gt.rand(3).tolist()
    with gt.random.fork_rng(enabled=False):
        gt.rand(3)
    state = gt.random.get_rng_state()
    gt.random.set_rng_state(state)
    assert gt.random.initial_seed() == gt.initial_seed() == 3
    assert gt.seed() == gt.initial_seed() != 3


@pytest.mark.skipif(not gt.cuda.is_available(), reason=gt.cuda.unavailable_reason() or "")
@pytest.mark.parametrize(
    "name", ["rand", "randn", "randint", "randperm", "bernoulli of p", "normal"]
)
def test_a_device_has_the_same_stream(name: str) -> None:
    device = {} if "bernoulli" in name else {"device": "cuda"}
    on_cpu = FACTORIES[name](generator=gt.Generator().manual_seed(8))
    generator = gt.Generator("cuda").manual_seed(8)
    if not device:
        found = gt.bernoulli(gt.empty(3, 5, device="cuda"), 0.5, generator=generator)
    else:
        found = FACTORIES[name](generator=generator, **device)
    np.testing.assert_allclose(found.cpu().numpy(), on_cpu.numpy(), rtol=1e-5)
    with pytest.raises(errors.DeviceError, match="must be of a device of type"):
        FACTORIES[name](generator=gt.Generator("cuda"))


@pytest.mark.full
@pytest.mark.skipif(not gt.cuda.is_available(), reason=gt.cuda.unavailable_reason() or "")
def test_counts_of_a_device_are_those_of_the_cpu() -> None:
    rates, chances = gt.linspace(0.5, 40, 32), gt.linspace(0.01, 0.99, 32)
    on_cpu, on_cuda = gt.Generator().manual_seed(8), gt.Generator("cuda").manual_seed(8)
    found = gt.poisson(rates.cuda(), on_cuda).cpu()
    assert found.tolist() == gt.poisson(rates, on_cpu).tolist()
    many = gt.full((32,), 60.0)
    found = gt.binomial(many.cuda(), chances.cuda(), on_cuda).cpu()
    assert found.tolist() == gt.binomial(many, chances, on_cpu).tolist()


@pytest.mark.skipif(not gt.cuda.is_available(), reason=gt.cuda.unavailable_reason() or "")
def test_fork_rng_knows_the_devices_that_have_drawn() -> None:
    gt.cuda.manual_seed(4)
    state = gt.cuda.get_rng_state()
    with gt.random.fork_rng():
        gt.rand(3, device="cuda")
    assert gt.equal(gt.cuda.get_rng_state(), state)
    with gt.random.fork_rng(devices=[]):
        gt.rand(3, device="cuda")
    assert not gt.equal(gt.cuda.get_rng_state(), state)
    gt.cuda.set_rng_state(state, 0)
    assert gt.equal(gt.cuda.get_rng_state("cuda:0"), state)
