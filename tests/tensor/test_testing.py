"""gt.testing.assert_close: results and messages, frozen from PyTorch 2.13."""

from __future__ import annotations

import numpy as np
import pytest

import gputensor as gt
from gputensor.testing import assert_close

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("a, b, options", [
    (gt.tensor([1.0]), gt.tensor([1.000001]), {}),
    (gt.tensor([INF, -INF]), gt.tensor([INF, -INF]), {}),
    (gt.tensor([NAN]), gt.tensor([NAN]), {"equal_nan": True}),
    (gt.tensor([1]), gt.tensor([1.0]), {"check_dtype": False}),
    (gt.tensor([1.0, 2.0]), gt.tensor([1.5, 2.5]), {"rtol": 0, "atol": 0.5}),
    (gt.ones(2, 3), gt.ones(3, 2).t(), {}),
    (gt.empty(0), gt.empty(0), {}),
    (gt.empty(2, device="meta"), gt.empty(2, device="meta"), {}),
    (gt.ones(2), gt.ones(2, device="meta"), {"check_device": False}),
    (1.0, 1.0 + 1e-9, {}), (1, 1.0, {"check_dtype": False}), (None, None, {}), (True, np.True_,
    {}), (NAN, NAN, {"equal_nan": True}),
    ([gt.ones(2), {"a": 1.0}], (gt.ones(2), {"a": 1.0}), {}),
    (np.arange(3), np.arange(3), {}),
    (gt.tensor([1], dtype=gt.uint16), gt.tensor([1], dtype=gt.int8), {"check_dtype": False}),
])  # fmt: skip
def test_close(a, b, options):
    assert_close(a, b, **options)


FAILURES = [
    (gt.tensor([1.0, 2.0, 3.0]), gt.tensor([1.0, 4.0, 5.0]), {},
     "Tensor-likes are not close!\n\nMismatched elements: 2 / 3 (66.7%)\n"
     "Greatest absolute difference: 2.0 at index (1,) (up to 1e-05 allowed)\n"
     "Greatest relative difference: 0.5 at index (1,) (up to 1.3e-06 allowed)"),
    (gt.tensor([[1, 2], [3, 4]]), gt.tensor([[1, 2], [3, 8]]), {},
     "Tensor-likes are not equal!\n\nMismatched elements: 1 / 4 (25.0%)\n"
     "Greatest absolute difference: 4 at index (1, 1)\nGreatest relative difference: 0.5 at index "
     "(1, 1)"),
    (gt.tensor(NAN), gt.tensor(NAN), {},
     "Scalars are not close!\n\nExpected nan but got nan.\nAbsolute difference: nan (up to 1e-05 "
     "allowed)\n"
     "Relative difference: nan (up to 1.3e-06 allowed)"),
    (1e-9, 1e-10, {"rtol": 0, "atol": 0},
     "Scalars are not equal!\n\nExpected 1e-10 but got 1e-09.\nAbsolute difference: "
     "9.000000000000001e-10\n"
     "Relative difference: 9.0"),
    (gt.ones(2), gt.ones(3), {},
     "The values for attribute 'shape' do not match: gputensor.Size([2]) != gputensor.Size([3])."),
    (gt.ones(2), gt.ones(2, dtype=gt.float64), {},
     "The values for attribute 'dtype' do not match: gputensor.float32 != gputensor.float64."),
    (gt.ones(2), gt.ones(2, device="meta"), {}, "The values for attribute 'device' do not match: "
                                                "cpu != meta."),
    (gt.ones(2, 3), gt.ones(3, 2).t(), {"check_stride": True},
     "The values for attribute 'stride()' do not match: (3, 1) != (1, 2)."),
    ([1, [2, 3]], [1, [2, 4]], {"rtol": 0, "atol": 0},
     "Scalars are not equal!\n\nExpected 4 but got 3.\nAbsolute difference: 1\nRelative "
     "difference: 0.25\n\n"
     "The failure occurred for item [1][1]"),
    ([1], [1, 2], {}, "The length of the sequences mismatch: 1 != 2"),
    ({"a": 1}, {"b": 1}, {},
     "The keys of the mappings do not match:\nMissing keys in the actual mapping: ['b']\n"
     "Additional keys in the actual mapping: ['a']"),
    (None, 1, {}, "None mismatch: None is not 1"), (True, False, {}, "Booleans mismatch: True is "
                                                                     "not False"),
    (1, 1.0, {}, "The (d)types do not match: <class 'int'> != <class 'float'>."),
    (1, 2, {"msg": "no"}, "no"), (1, 2, {"msg": lambda m: f"<{m[:7]}>"}, "<Scalars>"),
]  # fmt: skip


@pytest.mark.parametrize("a, b, options, text", FAILURES, ids=[f[3][:40] for f in FAILURES])
def test_not_close(a, b, options, text):
    with pytest.raises(AssertionError) as caught:
        assert_close(a, b, **options)
    assert str(caught.value) == text


def test_unrelated_types_and_half_tolerances():
    with pytest.raises(TypeError, match="No comparison pair"):
        assert_close(gt.ones(1), np.ones(1, np.float32))
    with pytest.raises(TypeError, match="No comparison pair"):
        assert_close("a", "a")
    with pytest.raises(ValueError, match="no rtol"):
        assert_close(1, 1, atol=0)


@pytest.mark.parametrize("dtype", [gt.float16, gt.float32, gt.float64, gt.complex64])
def test_make_tensor_draws_from_the_whole_range(dtype: gt.dtype) -> None:
    limits = gt.finfo(dtype.to_real if dtype.is_complex else dtype)
    x = gt.testing.make_tensor(100, dtype=dtype, low=limits.min, high=limits.max)
    assert gt.isfinite(x).all() and (x.abs() > limits.max / 100).any()
