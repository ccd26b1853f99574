"""The compiled loops of distances against operators, which are differentiable themselves."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.kernels.compiled import library
from gputensor.native import distance

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

_ORDERS = [0.0, 1.0, 2.0, float("inf"), 3.0]


def _points(*sizes: int) -> gt.Tensor:
    x = gt.randn(*sizes, dtype=gt.float64)
    x[..., 1, :] = x[..., 0, :]  # a distance of 0
    return x.requires_grad_()


def _near(found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted):
        assert gt.allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("p", _ORDERS)
@pytest.mark.parametrize(
    "sizes", [((5, 3), (4, 3)), ((2, 1, 30, 7), (3, 40, 7)), ((2, 9, 1), (3, 1))], ids=str
)
def test_gradients_of_cdist(p: float, sizes: Any) -> None:
    x, y = (_points(*of) for of in sizes)
    made = gt.cdist(x, y, p)
    weight = gt.randn_like(made)
    found = gt.autograd.grad(made, (x, y), weight, retain_graph=True)
    _near(found, gt.autograd.grad(made, (x, y), weight, create_graph=True))
    turned = weight.mT.contiguous().mT
    assert gt.equal(gt.autograd.grad(made, x, turned, retain_graph=True)[0], found[0])


@pytest.mark.parametrize("of", [gt.float32, gt.float64, gt.float16], ids=str)
@pytest.mark.parametrize("p", _ORDERS)
@pytest.mark.parametrize(
    "sizes",
    [
        ((5, 3), (4, 3)), ((2, 1, 30, 7), (3, 40, 7)), ((3, 1100), (29, 1100)),
        ((30, 1), (30, 1)), ((0, 4, 3), (4, 3)),
    ],
    ids=str,
)  # fmt: skip
def test_cdist(of: Any, p: float, sizes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = (gt.randn(*n, dtype=gt.float64).to(of) for n in sizes)
    operands = [(x, y), (x.mT.contiguous().mT, y), (x, y.mT.contiguous().mT)]
    found = [gt.cdist(a, b, p) for a, b in operands]
    monkeypatch.setattr(distance, "_distances", lambda *_: False)
    monkeypatch.setattr(distance, "_from_products", lambda *_: False)
    wanted = gt.cdist(x.double(), y.double(), p)
    close = {gt.float32: 1e-4, gt.float64: 1e-12}.get(of, 4e-3)
    for made in found:
        assert made.dtype is of and made.shape == wanted.shape
        assert gt.allclose(made.double(), wanted, rtol=close, atol=close)


@pytest.mark.parametrize("p", _ORDERS)
@pytest.mark.parametrize("sizes", [(2, 3), (40, 6), (3, 1100)], ids=str)
def test_pdist(p: float, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    x = _points(*sizes)
    made = gt.pdist(x, p)
    monkeypatch.setattr(distance, "_distances", lambda *_: False)
    _near([made], [gt.pdist(x.detach().mT.contiguous().mT, p)])
    weight = gt.randn_like(made)
    found = gt.autograd.grad(made, x, weight, retain_graph=True)
    _near(found, gt.autograd.grad(made, x, weight, create_graph=True))


def test_bits_are_the_same_with_any_threads() -> None:
    x, threads, found = gt.randn(300, 20, requires_grad=True), gt.get_num_threads(), []
    try:
        for count in (1, 3):
            gt.set_num_threads(count)
            made = gt.pdist(x)
            found.append((made, *gt.autograd.grad(made.sum(), x)))
    finally:
        gt.set_num_threads(threads)
    assert all(gt.equal(a, b) for a, b in zip(*found))


def test_nan_is_kept() -> None:
    x = gt.tensor([[0.0, 1.0], [float("nan"), 2.0], [3.0, 4.0]])
    for p in _ORDERS[1:4]:
        assert gt.pdist(x, p).isnan().tolist() == [True, False, True]
        many = x.repeat(20, 1)
        assert gt.equal(gt.cdist(many, many, p).isnan(), gt.cdist(x, x, p).isnan().repeat(20, 20))


def test_repeated_calls_of_pdist() -> None:
    """A repeated call takes a short cut."""
    for of in (gt.float32, gt.float64, gt.float16):
        for p in (2.0, 2.0, 2.0, 1.0, 1.0, 1, 3.0):
            x = gt.randn(9, 5, dtype=of)
            wanted = gt.cdist(x.double(), x.double(), p)[gt.ones(9, 9).triu(1).bool()]
            bound = {gt.float16: 1e-2, gt.float32: 1e-5, gt.float64: 1e-12}[of]
            assert gt.allclose(gt.nn.functional.pdist(x, p).double(), wanted, bound, bound)
            assert gt.nn.functional.pdist(x[:1], p).shape == (0,)
    for _ in range(3):
        x = gt.randn(6, 4, dtype=gt.float64, requires_grad=True)
        found = gt.autograd.grad(gt.nn.functional.pdist(x).sum(), x)[0]
        assert gt.allclose(found, gt.autograd.grad(gt.cdist(x, x).triu(1).sum(), x)[0])
