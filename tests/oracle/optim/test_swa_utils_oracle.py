"""gt.optim.swa_utils against torch.optim.swa_utils: averages of models with equal weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

CASES: dict[str, Callable[[Any, Any], Any]] = {
    "mean": lambda swa, m: swa.AveragedModel(m),
    "mean of buffers": lambda swa, m: swa.AveragedModel(m, use_buffers=True),
    "swa": lambda swa, m: swa.AveragedModel(m, avg_fn=swa.get_swa_avg_fn()),
    "swa of all": lambda swa, m: swa.AveragedModel(m, multi_avg_fn=swa.get_swa_multi_avg_fn()),
    "ema": lambda swa, m: swa.AveragedModel(m, avg_fn=swa.get_ema_avg_fn(0.9)),
    "ema of all": lambda swa, m: swa.AveragedModel(m, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9)),
}


@pytest.mark.parametrize("name", CASES)
def test_averages(name: str) -> None:
    random = np.random.default_rng(0)
    models = {
        lib: lib.nn.Sequential(lib.nn.Linear(3, 2), lib.nn.BatchNorm1d(2)) for lib in (gt, torch)
    }
    averaged = {lib: CASES[name](lib.optim.swa_utils, models[lib]) for lib in models}
    for _ in range(5):
        given = {k: random.normal(size=tuple(v.shape)) for k, v in models[gt].state_dict().items()}
        for lib, model in models.items():
            model.load_state_dict({
                k: lib.from_numpy(np.array(v)).to(model.state_dict()[k].dtype)
                for k, v in given.items()
            })  # fmt: skip
            averaged[lib].update_parameters(model)
    ours, theirs = averaged[gt].state_dict(), averaged[torch].state_dict()
    assert list(ours) == list(theirs) and ours["n_averaged"].item() == 5
    for k in ours:
        np.testing.assert_allclose(ours[k].numpy(), theirs[k].numpy(), rtol=2e-6, atol=1e-7)


def test_statistics_of_batch_norms() -> None:
    random = np.random.default_rng(1)
    batches = [random.normal(size=(4, 2)).astype("f4") for _ in range(3)]
    found = {}
    for lib in (gt, torch):
        norm = lib.nn.BatchNorm1d(2)
        lib.optim.swa_utils.update_bn([(lib.from_numpy(x.copy()), 0) for x in batches], norm)
        found[lib] = norm.state_dict()
    for k in found[gt]:
        np.testing.assert_allclose(found[gt][k].numpy(), found[torch][k].numpy(), rtol=1e-6)
