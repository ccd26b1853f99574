"""gt.testing.make_tensor against PyTorch's: sizes, strides, intervals and errors."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.core.dtype import ALL, FLOAT8

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

OPTIONS: list[dict[str, Any]] = [
    {}, {"low": -1, "high": 2}, {"low": 1.5, "high": 3.5}, {"low": 0}, {"noncontiguous": True},
    {"exclude_zero": True, "low": 0, "high": 2}, {"low": -1000, "high": 1000},
]  # fmt: skip
SHAPES: list[Any] = [(), (4, 5), ((4, 5),), (0, 3), (1,), (2, 3, 4, 5)]


def _made(t: Any, shape: Any, of: str, options: dict[str, Any]) -> Any:
    t.manual_seed(0)
    return t.testing.make_tensor(*shape, dtype=getattr(t, of), device="cpu", **options)


@pytest.mark.parametrize("of", [*ALL, *FLOAT8[:2]], ids=lambda d: d.name)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_is_of_the_interval(of: gt.dtype, options: dict[str, Any]) -> None:
    if of.is_float8 and "exclude_zero" in options:
        pytest.skip("PyTorch computes in float8 here")
    for shape in SHAPES:
        try:
            theirs = _made(torch, shape, of.name, options)
        except NotImplementedError:  # index_put for uint16, uint32 and uint64
            continue
        except Exception:
            with pytest.raises((gt.GpuTensorError, ValueError)):
                _made(gt, shape, of.name, options)
            continue
        ours = _made(gt, shape, of.name, options)
        assert (tuple(ours.shape), ours.stride()) == (tuple(theirs.shape), theirs.stride())
        assert ours.dtype is of
        values = (gt.view_as_real(ours) if of.is_complex else ours).double().flatten().tolist()
        default = (0, 2) if of is gt.bool else (-9, 10) if of.category < 2 else (-9, 9)
        low, high = options.get("low", default[0]), options.get("high", default[1])
        beyond = 0.13 * max(abs(low), abs(high)) if of.is_float8 else 1e-6  # which rounds
        assert all(low - beyond <= x <= high + beyond for x in values)
        assert "exclude_zero" not in options or (ours != 0).all()


@pytest.mark.parametrize("t", [gt, torch], ids=["ours", "theirs"])
def test_formats_gradients_and_refusals(t: Any) -> None:
    made = t.testing.make_tensor
    x = made(2, 3, 4, 5, dtype=t.float32, device="cpu", memory_format=t.channels_last)
    assert x.stride() == (60, 1, 15, 3)
    assert made(3, dtype=t.float64, device="cpu", requires_grad=True).requires_grad
    for wrong in (
        {"dtype": t.int64, "requires_grad": True}, {"dtype": t.float32, "low": 2, "high": 1},
        {"dtype": t.float32, "noncontiguous": True, "memory_format": t.contiguous_format},
        {"dtype": t.uint8, "low": 300, "high": 400}, {"dtype": t.float32, "low": float("nan")},
    ):  # fmt: skip
        with pytest.raises((ValueError, RuntimeError)):
            made(3, device="cpu", **wrong)
