"""repr: golden texts of PyTorch 2.13. tests/oracle/tensor/test_printing_oracle.py has random
tensors."""

from __future__ import annotations

import pytest

import gputensor as gt
from gputensor.tensor import printing

INF, NAN = float("inf"), float("nan")

GOLDEN = [
    ([1.0, 2.0], None, "tensor([1., 2.])"),
    ([1.5, 2.0], None, "tensor([1.5000, 2.0000])"),
    ([1e-5, 1.0], None, "tensor([1.0000e-05, 1.0000e+00])"),
    ([1e9, 1.0], None, "tensor([1.0000e+09, 1.0000e+00])"),
    ([1.0, NAN, INF, -INF], None, "tensor([1., nan, inf, -inf])"),
    ([0.5, NAN, -INF], None, "tensor([0.5000,    nan,   -inf])"),
    ([-0.0, 0.0], None, "tensor([-0., 0.])"),
    ([], None, "tensor([])"),
    ([[], []], None, "tensor([], size=(2, 0))"),
    ([], "int64", "tensor([], dtype=gputensor.int64)"),
    (3, None, "tensor(3)"),
    (2.5, None, "tensor(2.5000)"),
    (2.0, "float64", "tensor(2., dtype=gputensor.float64)"),
    ([1, -20, 300], None, "tensor([  1, -20, 300])"),
    ([1, 2], "uint8", "tensor([1, 2], dtype=gputensor.uint8)"),
    ([True, False], None, "tensor([ True, False])"),
    ([1 + 2j, -0.5j], None, "tensor([1.+2.0000j, -0.-0.5000j])"),
    ([1.0, 0.1], "float16", "tensor([1.0000, 0.1000], dtype=gputensor.float16)"),
    ([1.0, 0.1], "bfloat16", "tensor([1.0000, 0.1001], dtype=gputensor.bfloat16)"),
    ([[1, 2], [3, 4]], None, "tensor([[1, 2],\n        [3, 4]])"),
    ([[[1], [2]], [[3], [4]]], None, "tensor([[[1],\n         [2]],\n\n        [[3],\n         "
                                     "[4]]])"),
]  # fmt: skip


@pytest.mark.parametrize("data, element, text", GOLDEN, ids=[g[2] for g in GOLDEN])
def test_golden(data, element, text):
    assert repr(gt.tensor(data, dtype=None if element is None else getattr(gt, element))) == text


def test_summary_and_line_breaks():
    assert repr(gt.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    assert repr(gt.arange(30)) == (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])"
    )
    assert repr(gt.arange(1200).reshape(40, 30)) == (
        "tensor([[   0,    1,    2,  ...,   27,   28,   29],\n"
        "        [  30,   31,   32,  ...,   57,   58,   59],\n"
        "        [  60,   61,   62,  ...,   87,   88,   89],\n"
        "        ...,\n"
        "        [1110, 1111, 1112,  ..., 1137, 1138, 1139],\n"
        "        [1140, 1141, 1142,  ..., 1167, 1168, 1169],\n"
        "        [1170, 1171, 1172,  ..., 1197, 1198, 1199]])"
    )


def test_layout_does_not_show():
    x = gt.arange(6).reshape(2, 3)
    assert repr(x.t()) == repr(x.t().contiguous())


def test_device_meta_and_default_dtype():
    assert repr(gt.empty(2, 3, device="meta")) == "tensor(..., device='meta', size=(2, 3))"
    gt.set_default_dtype(gt.float64)
    try:
        assert repr(gt.tensor([1.0])) == "tensor([1.])"
        assert repr(gt.tensor([1.0], dtype=gt.float32)) == "tensor([1.], dtype=gputensor.float32)"
    finally:
        gt.set_default_dtype(gt.float32)


def test_options_are_put_back():
    before = printing.get_printoptions()
    with printing.printoptions(precision=2, threshold=2, edgeitems=1, sci_mode=True):
        assert repr(gt.tensor([1.0, 2.0, 3.0])) == "tensor([1.00e+00,  ..., 3.00e+00])"
    assert printing.get_printoptions() == before
    gt.set_printoptions(precision=1)
    try:
        assert repr(gt.tensor([0.25])) == "tensor([0.2])"
    finally:
        gt.set_printoptions(profile="default")
    assert printing.get_printoptions() == before


def test_format_of_one_element():
    assert f"{gt.tensor(2.5):.2f}" == "2.50" and f"{gt.tensor([1])}" == "tensor([1])"
