"""A user's program under mypy --strict (pyproject.toml has it check this file): what is named is
exported, and has the type that it has when it runs."""

from __future__ import annotations

from typing import assert_type

import gputensor as gt


def halves(x: gt.Tensor, device: gt.device) -> tuple[gt.Tensor, ...]:
    with gt.no_grad(), gt.autocast("cuda"):
        return gt.split(x.to(device), 2)


@gt.no_grad()
def doubled(x: gt.Tensor) -> gt.Tensor:
    return x * 2


def test_what_is_exported_has_its_type() -> None:
    x = gt.arange(4, dtype=gt.float32, device=gt.device("cpu"))
    assert_type(gt.add(x, 1, alpha=2).float() * 2 + x, gt.Tensor)
    assert_type(halves(x, gt.device("cpu")), tuple[gt.Tensor, ...])
    assert type(halves(x, gt.device("cpu"))) is tuple
    assert_type(gt.nn.functional.relu(x), gt.Tensor)
    assert_type(doubled(x), gt.Tensor)
    assert_type(gt.special.expit(x) + gt.special.erf(x), gt.Tensor)
    assert_type(gt.meshgrid(x, x, indexing="xy"), tuple[gt.Tensor, ...])
    assert_type(gt.block_diag(x, x), gt.Tensor)
    assert_type(x.shape, gt.Size)
    assert_type(x.shape[0], int)
    assert_type(x.shape[:1], gt.Size)
    assert_type(x.is_conj(), bool)
    assert x.is_conj() is False
    total: float = x.sum().item()
    assert total == 6
    assert_type(gt.cuda.device_count(), int)
    assert issubclass(gt.GpuTensorError, Exception) and isinstance(x.double(), gt.Tensor)
    gt.testing.assert_close(x.reshape(2, 2).t()[0], gt.tensor([0.0, 2.0]))
