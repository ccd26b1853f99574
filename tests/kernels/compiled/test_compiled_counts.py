"""The compiled loops of family counts draw the samples that the operators of native/counts.py
draw."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.kernels import stub
from gputensor.kernels.compiled import library

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

_random = np.random.default_rng(0)


def _drawn(seed: int, draw: Any, *given: Any) -> tuple[Any, Any]:
    generator = gt.Generator().manual_seed(seed)
    return draw(*given, generator).numpy(), generator.mark()


@pytest.mark.parametrize("n", [0, 1, 5, 255, 256, 257, 20_001])
def test_samples_are_those_of_operators(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mean = gt.tensor(np.exp(_random.uniform(-3, 8, n)))
    count = gt.tensor(np.floor(np.exp(_random.uniform(-1, 8, n))))
    chance = gt.tensor(_random.random(n))
    given: list[tuple[Any, ...]] = [(gt.poisson, mean), (gt.binomial, count, chance)]
    before = gt.get_num_threads()
    for seed in (1, (1 << 63) + 5):
        for case in given:
            with monkeypatch.context() as m:
                m.setattr(stub.cpu("counts"), "loops", lambda op: None)
                wanted, state = _drawn(seed, *case)
            try:
                for threads in (1, 2, 3):
                    gt.set_num_threads(threads)
                    found, reached = _drawn(seed, *case)
                    assert found.tolist() == wanted.tolist() and reached == state
            finally:
                gt.set_num_threads(before)


def test_samples_of_expanded_parameters() -> None:
    rate = gt.tensor([3.0, 30.0], dtype=gt.float64)
    generator = gt.Generator().manual_seed(2)
    wanted = gt.poisson(rate.repeat(500, 1), generator)
    generator.manual_seed(2)
    assert gt.equal(gt.poisson(rate.expand(500, 2), generator), wanted)
    found = gt.poisson(rate[:1].expand(50_000, 1))
    assert abs(found.mean().item() - 3) < 0.1


def test_infinite_rates() -> None:
    found = gt.poisson(gt.tensor([0.0, math.inf, 5.0, 1e30])).tolist()
    assert found[0] == 0 and math.isnan(found[1]) and found[3] == pytest.approx(1e30)


def test_generators_of_cuda_are_refused() -> None:
    with pytest.raises(errors.DeviceError, match="poisson: 'generator' must be of a device"):
        gt.poisson(gt.ones(3), gt.Generator("cuda"))
