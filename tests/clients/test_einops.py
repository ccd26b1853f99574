"""einops: rearrange, reduce, repeat, pack and einsum on tensors, through its own backends."""

from __future__ import annotations

import numpy as np
import pytest

import gputensor as gt

from . import close, values

einops = pytest.importorskip("einops", reason="einops is not installed")

X = values(2, 3, 4)


@pytest.mark.parametrize("pattern", ["a b c -> c (a b)", "a b c -> (b a) 1 c", "... -> (...)"])
def test_rearrange(place, pattern):
    close(
        einops.rearrange(gt.tensor(X, device=place), pattern), einops.rearrange(X, pattern), place
    )


def test_rearrange_views_and_splits(place):
    x = gt.tensor(X, device=place)
    assert einops.rearrange(x, "a b c -> c a b").data_ptr() == x.data_ptr()
    found = einops.rearrange([x, x + 1], "n a b (c d) -> a n d b c", d=2)
    close(found, einops.rearrange([X, X + 1], "n a b (c d) -> a n d b c", d=2), place)


@pytest.mark.parametrize("operation", ["min", "max", "sum", "mean", "prod"])
def test_reduce(place, operation):
    x = gt.tensor(X, device=place)
    for pattern in ("a b c -> b", "a b c -> ", "a b (c d) -> a d ()"):
        keywords = {"d": 2} if "d" in pattern else {}
        expected = einops.reduce(X, pattern, operation, **keywords)
        close(einops.reduce(x, pattern, operation, **keywords), expected, place)


@pytest.mark.parametrize("operation", ["any", "all"])
def test_reduce_bools(place, operation):
    mask = X > 0.3
    expected = einops.reduce(mask, "a b c -> b", operation)
    close(einops.reduce(gt.tensor(mask, device=place), "a b c -> b", operation), expected, place)


def test_reduce_refuses_the_mean_of_integers():
    with pytest.raises(Exception, match="reduce_mean is not available"):
        einops.reduce(gt.arange(6).reshape(2, 3), "a b -> a", "mean")


def test_repeat(place):
    x = gt.tensor(X, device=place)
    close(einops.repeat(x, "a b c -> k a b (c j)", k=2, j=3),
          einops.repeat(X, "a b c -> k a b (c j)", k=2, j=3), place)  # fmt: skip
    assert einops.repeat(x, "a b c -> a b c k", k=5).stride()[-1] == 0  # no copy, as with PyTorch


def test_pack_and_unpack(place):
    x = gt.tensor(X, device=place)
    found, shapes = einops.pack([x, x[:, 0]], "a * c")
    expected, expected_shapes = einops.pack([X, X[:, 0]], "a * c")
    close(found, expected, place)
    assert [tuple(s) for s in shapes] == expected_shapes
    for part, whole in zip(einops.unpack(found, shapes, "a * c"), (X, X[:, 0])):
        close(part, whole, place)


def test_einsum_and_asnumpy(place):
    x = gt.tensor(X, device=place)
    expected = einops.einsum(X, X, "a b c, a b d -> c d")
    close(einops.einsum(x, x, "a b c, a b d -> c d"), expected, place)
    assert (einops.asnumpy(x) == X).all()
    assert einops.parse_shape(x, "a _ c") == {"a": 2, "c": 4}


def test_gradients_flow():
    x = gt.tensor(X).requires_grad_()
    einops.reduce(einops.rearrange(x, "a b c -> (a c) b"), "n b -> b", "mean").sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full(X.shape, 1 / 8))
