"""Forward and reverse derivatives agree: <v, J t> = <J* v, t> for random directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from tests.harness import tier

from .samples import Sample, all_of

# Mean and deviation are results of the forward call, and not independent operands.
CONSTANTS = (
    "_fused_rms_norm_backward", "native_layer_norm_backward", "native_group_norm_backward",
)  # fmt: skip
# Excluded because of values: infinite values have no derivative, and single precision operands
# cause rounding errors.
SERVED = 250


def floats(values: Any) -> list[Any]:
    return [x for x in values if x.is_floating_point() or x.is_complex()]


def inner(a: Any, b: Any) -> float:
    return sum(float((x.conj() * y).real.sum() if x.is_complex() else (x * y).sum())
               for x, y in zip(a, b))  # fmt: skip


def check(sample: Sample) -> tuple[float, float] | None:
    """Return both sides; None if the operator has no derivative in this dtype."""
    given = [x.values[0] for x in sample.tensors]
    which = [n for n, x in enumerate(given) if floats([x])]
    if any(given[n].dtype is not sample.dtype for n in which):
        return None

    def function(*some: Any) -> Any:
        gt.manual_seed(5)
        args = list(given)
        for n, x in zip(which, some):
            args[n] = x
        return tuple(floats(sample.call(*args)))

    if not which:
        return None
    xs = tuple([given[n].clone() for n in which])
    try:
        ys, pull = gt.func.vjp(function, *xs)
        vs = tuple([gt.randn(y.shape, dtype=y.dtype) for y in ys])
        gradients = pull(vs)
        if any(y.dtype not in (gt.float64, gt.complex128) for y in ys):
            return None
    except errors.GpuTensorError:
        return None
    ts = tuple([gt.randn(x.shape, dtype=x.dtype) for x in xs])
    try:
        _, tangents = gt.func.jvp(function, xs, ts)
    except errors.AutogradError:
        return None
    return inner(vs, tangents), inner(gradients, ts)


@pytest.mark.parametrize("dtype", [gt.float64, gt.complex128], ids=str)
def test_forward_is_reverse_transposed(dtype: gt.dtype) -> None:
    gt.manual_seed(1)
    wrong, served = [], set()
    keep = lambda row: row.name[-1] != "_" and row.name not in CONSTANTS  # noqa: E731
    for sample in all_of(dtype, keep=keep, most=tier.pick(1, None)):
        with np.errstate(all="ignore"):
            found = check(sample)
        if found is None or not np.isfinite(found).all():
            continue
        served.add(sample.name)
        if abs(found[0] - found[1]) > 1e-7 * (1 + abs(found[0])):
            wrong.append((sample.name, *found))
    assert not wrong
    assert dtype is not gt.float64 or len(served) > SERVED
