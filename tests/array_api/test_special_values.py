"""Infinities, zeros and NaN where the standard demands more than PyTorch, on both devices."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import gputensor as gt
from gputensor import array_api

from ..harness import tier

INF, NAN = math.inf, math.nan
DEVICES = pytest.mark.parametrize("device", tier.pick(["cpu"], ["cpu", "cuda"]))


def same(found, expected):
    """Check that values are equal, including NaN and the signs of zeros."""
    found, expected = found.cpu().numpy(), np.asarray(expected)
    parts = [("real", found.real, expected.real), ("imag", found.imag, expected.imag)]
    for name, a, b in parts if found.dtype.kind == "c" else parts[:1]:
        np.testing.assert_array_equal(a, b, name)
        np.testing.assert_array_equal(np.signbit(a[a == a]), np.signbit(b[b == b]), name)


@DEVICES
@pytest.mark.parametrize("dtype", [gt.float16, gt.float32, gt.float64])
def test_floor_division_with_an_infinite_operand_is_the_quotient(device, dtype):
    a = gt.tensor([INF, INF, -INF, -INF, 1.0, -1.0, 1.0, INF, 7.0], dtype=dtype, device=device)
    b = gt.tensor([2.0, -2.0, 2.0, -2.0, -INF, INF, INF, INF, -2.0], dtype=dtype, device=device)
    same(a // b, [INF, -INF, -INF, INF, -0.0, -0.0, 0.0, NAN, -4.0])
    same(a[:4] // 2.0, [INF, INF, -INF, -INF])
    a //= b
    same(a, [INF, -INF, -INF, INF, -0.0, -0.0, 0.0, NAN, -4.0])


@DEVICES
def test_a_remainder_of_zero_has_the_sign_of_other(device):
    a = gt.tensor([-0.0, 0.0, 4.0, -4.0, 1.0, -1.0], device=device)
    b = gt.tensor([2.0, -2.0, -2.0, 2.0, -INF, INF], device=device)
    same(a % b, [0.0, -0.0, -0.0, 0.0, -INF, INF])


@DEVICES
@pytest.mark.parametrize("dtype", [gt.complex64, gt.complex128])
def test_expm1_of_complex_numbers_keeps_what_exp_has(device, dtype):
    given = [(-0.0, 0.0), (INF, 0.0), (-INF, INF), (INF, INF), (-INF, NAN), (INF, NAN), (NAN, 0.0)]
    expected = [
        (0.0, 0.0),
        (INF, 0.0),
        (-1.0, 0.0),
        (INF, NAN),
        (-1.0, 0.0),
        (INF, NAN),
        (NAN, 0.0),
    ]
    x = gt.tensor([complex(*z) for z in given], dtype=dtype, device=device)
    same(gt.expm1(x), [complex(*z) for z in expected])


@DEVICES
@pytest.mark.parametrize("dtype", [gt.complex64, gt.complex128])
def test_tanh_at_infinity_has_a_zero_with_the_sign_of_the_imaginary_part(device, dtype):
    x = gt.tensor([complex(*z) for z in product((INF, -INF), (2.0, 1.0, -2.0, INF))], dtype=dtype)
    expected = [complex(a, b) for a, b in product((1.0, -1.0), (0.0, 0.0, -0.0, 0.0))]
    same(array_api.tanh(x.to(device)), expected)
    # PyTorch's zero and C's have the sign of sin(2 imag)
    same(gt.tanh(x.to(device)[:3]), [complex(1.0, -0.0), complex(1.0, 0.0), complex(1.0, 0.0)])
    small = gt.tensor([0.25, -3.0], device=device)
    assert array_api.tanh(small).tolist() == gt.tanh(small).tolist()


@DEVICES
def test_the_sign_of_a_complex_zero_is_zero(device):
    x = gt.tensor([complex(-0.0, -0.0), complex(0.0, -0.0)], device=device)
    same(gt.sgn(x), [0j, 0j])


@DEVICES
def test_unsigned_integers_meet_in_what_holds_both(device):
    of = {d: gt.ones(3, dtype=d, device=device) for d in (gt.uint8, gt.uint16, gt.uint32, gt.int8)}
    assert (of[gt.uint8] + of[gt.uint16]).dtype is gt.uint16
    assert (of[gt.uint32] * of[gt.uint16]).dtype is gt.uint32
    assert (of[gt.uint16] - of[gt.int8]).dtype is gt.int32
    assert (of[gt.int8] - 2 * of[gt.uint32]).tolist() == [-1, -1, -1]
    with pytest.raises(gt.GpuTensorError, match="add: no dtype holds uint64 and negative integers"):
        of[gt.int8] + gt.ones(3, dtype=gt.uint64, device=device)


@DEVICES
def test_an_empty_dimension_of_a_mask_picks_nothing(device):
    x, masks = gt.ones(3, 2, device=device), [(0,), (3, 0), (0, 2), (0, 0)]
    masks = [gt.ones(sizes, dtype=gt.bool, device=device) for sizes in masks]
    wrong = gt.ones(2, 0, dtype=gt.bool, device=device)
    gt.set_type_promotion("array_api")
    try:
        assert [x[mask].shape for mask in masks] == [(0, 2), (0,), (0,), (0,)]
        with pytest.raises(IndexError, match="'mask' must have sizes"):
            x[wrong]
    finally:
        gt.set_type_promotion("pytorch")
    for mask in (*masks, wrong):  # as in PyTorch
        with pytest.raises(IndexError, match="'mask' must have sizes"):
            x[mask]
        with pytest.raises(IndexError, match="'mask' must have sizes"):
            x[mask] = 7
        with pytest.raises(IndexError, match="'mask' must have sizes"):
            x.index_put_((mask,), gt.tensor(7.0, device=device))
    assert x.tolist() == [[1, 1]] * 3
