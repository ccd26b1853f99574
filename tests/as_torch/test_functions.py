"""Functions of torch that as_torch implements, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.as_torch import functions
from gputensor.as_torch.functions import OF_SPECIAL, OF_TORCH

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "conv_tbc": lambda f, t: f.conv_tbc(t(5, 2, 3), t(3, 3, 4), t(4), 1),
    "frobenius_norm": lambda f, t: f.frobenius_norm(t(2, 3), [0, 1]),
    "nuclear_norm": lambda f, t: f.nuclear_norm(t(3, 4)),
    "norm_except_dim": lambda f, t: f.norm_except_dim(t(3, 4, 2), 2, 1),
    "embedding_bag": lambda f, t: f.embedding_bag(t(4, 3), t(3).long().abs(), t(2).long() * 0)[0],
    "cond": lambda f, t: f.cond(t(1).sum() > 9, lambda x: x + 1, lambda x: x - 1, (t(2),)),
    "lu": lambda f, t: f.lu(t(3, 3))[0],
    "sym_max": lambda f, t: t(f.sym_max(2, 3)),
    "sym_sqrt": lambda f, t: t(f.sym_int(f.sym_sqrt(9.0))),
}


class _Ours:
    def __getattr__(self, name: str) -> Any:
        return OF_TORCH[name]


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")  # old names of PyTorch
@pytest.mark.parametrize("name", CALLS)
def test_a_function_is_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")

    def drawn(*sizes: int) -> Any:
        return np.random.default_rng(3).standard_normal(sizes).astype(np.float32)

    ours = CALLS[name](_Ours(), lambda *sizes: gt.from_numpy(drawn(*sizes)))
    theirs = CALLS[name](torch, lambda *sizes: torch.from_numpy(drawn(*sizes)))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", [gt.float64, gt.complex128])
def test_the_greatest_singular_values(dtype: gt.dtype) -> None:
    gt.manual_seed(0)
    a = gt.randn(9, 3, dtype=dtype) @ gt.randn(3, 7, dtype=dtype)
    u, s, v = functions.svd_lowrank(a, 3)
    gt.testing.assert_close(u * s @ v.mH, a)
    gt.testing.assert_close(s, gt.linalg.svdvals(a)[:3])
    _, s, _ = functions.pca_lowrank(a, 3)
    gt.testing.assert_close(s, gt.linalg.svdvals(a - a.mean(-2, keepdim=True))[:3])


def test_a_file_as_a_tensor(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    np.arange(4, dtype=np.float32).tofile(path)
    x = functions.from_file(path, True, 4)
    x[1] = 9
    assert np.fromfile(path, np.float32).tolist() == [0, 9, 2, 3]
    kept = functions.from_file(path, False, 4, dtype=gt.int32)
    kept.zero_()
    assert np.fromfile(path, np.float32).tolist() == [0, 9, 2, 3]


def test_loops_and_modes() -> None:
    made = functions.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (0, gt.ones(2)))
    assert made[0] == 3 and made[1].tolist() == [8, 8]
    functions.set_anomaly_enabled(True, False)
    assert OF_TORCH["is_anomaly_enabled"]() and not functions.is_anomaly_check_nan_enabled()
    functions.set_anomaly_enabled(False)
    assert not OF_TORCH["is_anomaly_enabled"]()
    assert OF_SPECIAL["softmax"](gt.zeros(2), 0).tolist() == [0.5, 0.5]
