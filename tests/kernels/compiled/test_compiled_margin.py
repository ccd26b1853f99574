"""The compiled margin losses against the composition used without the library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor._generated import calls
from gputensor.core import errors
from gputensor.kernels.compiled import library
from gputensor.native import margin

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)
_LOOPS = ("_multilabel", "_multilabel_backward")
SIZES: list[Any] = [(7, 5), (3, 1), (40, 33), (2, 1100), (9,)]


def _targets(random: Any, sizes: tuple[int, ...]) -> np.ndarray:
    """Some targets of each row, also repeated ones; some rows have none, some a target for each
    class. Numbers after the first -1 are ignored."""
    made = random.integers(-1, sizes[-1], sizes)
    rows = made.reshape(-1, sizes[-1])
    rows[::3, min(2, sizes[-1] - 1) :] = -1
    rows[-1] = random.integers(0, sizes[-1], sizes[-1])
    return made


def _both(monkeypatch: Any, x: gt.Tensor, target: gt.Tensor, reduction: int) -> list[list[Any]]:
    found = []
    for is_plain in (False, True):
        with monkeypatch.context() as patch:
            answers: list[bool] = []
            for name in _LOOPS:
                loop = (lambda *_: False) if is_plain else getattr(margin, name)
                patch.setattr(
                    margin, name, lambda *args, of=loop: answers.append(of(*args)) or answers[-1]
                )
            loss, is_target = calls.multilabel_margin_loss_forward(x, target, reduction)
            grad = calls.linspace(1.0, 2.0, max(1, loss.numel()), x.dtype).reshape(loss.shape)
            made = calls.multilabel_margin_loss_backward(grad, x, target, reduction, is_target)
            found.append([loss, is_target, made])
            assert answers == [not is_plain] * 2
    return found


@pytest.mark.parametrize("of", [gt.float32, gt.float64, gt.float16])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_as_composed(of: Any, sizes: Any, reduction: int, monkeypatch: Any) -> None:
    random = np.random.default_rng(0)
    x = gt.tensor(random.standard_normal(sizes)).to(of)
    target = gt.tensor(_targets(random, sizes))
    layouts = [(x, target)]
    if len(sizes) == 2:
        layouts.append((x.t().contiguous().t(), target.t().contiguous().t()))
    for given in layouts:
        found, plain = _both(monkeypatch, *given, reduction)
        for a, b in zip(found, plain):
            assert a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride()
        assert gt.allclose(found[0], plain[0], rtol={2: 1e-3}.get(of.itemsize, 1e-5))
        assert gt.equal(found[1], plain[1]) and gt.equal(found[2], plain[2])


def test_nan_counts_as_no_violation(monkeypatch: Any) -> None:
    x = gt.tensor([[float("nan"), 1.0, 2.0, -1.0], [0.5, float("inf"), float("-inf"), 0.0]])
    target = gt.tensor([[1, -1, 0, 0], [2, 0, -1, 0]])
    found, plain = _both(monkeypatch, x, target, 0)
    assert found[0].tolist() == plain[0].tolist() and gt.equal(found[2], plain[2])


@pytest.mark.parametrize("bad", [4, -2, 1 << 62, -(1 << 62)])
def test_a_target_that_is_no_class_is_refused(bad: int) -> None:
    x, target = gt.zeros(2, 4), gt.zeros(2, 4, dtype=gt.int64)
    target[1, 3] = bad
    with pytest.raises(errors.IndexRangeError, match=r"'target' must hold classes in \[-1, 3\]"):
        calls.multilabel_margin_loss_forward(x, target, 1)
    with pytest.raises(errors.IndexRangeError, match="'target' must hold classes"):
        calls.multilabel_margin_loss_backward(gt.ones(()), x, target, 1, x)


def test_bits_do_not_depend_on_threads() -> None:
    random = np.random.default_rng(0)
    x = gt.tensor(random.standard_normal((900, 50)).astype(np.float32), requires_grad=True)
    target = gt.tensor(_targets(random, (900, 50)))
    before, found = gt.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            gt.set_num_threads(threads)
            loss = gt.nn.functional.multilabel_margin_loss(x, target)
            (grad,) = gt.autograd.grad(loss, x)
            found.append((loss.item(), grad.numpy().tobytes()))
    finally:
        gt.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_the_gradient_is_differentiable() -> None:
    """It is differentiable with respect to the incoming gradient. So the test compares a
    directional derivative with the loss's."""
    x = gt.tensor([[0.1, 0.6, -0.3], [0.9, 0.2, 0.3]], dtype=gt.float64)
    along, target = gt.randn(2, 3, dtype=gt.float64), gt.tensor([[0, -1, 1], [2, 1, -1]])

    def loss(y: gt.Tensor) -> gt.Tensor:
        return gt.nn.functional.multilabel_margin_loss(y, target)

    _, slope = gt.func.jvp(loss, (x,), (along,))
    assert gt.allclose(slope, (loss(x + 1e-4 * along) - loss(x - 1e-4 * along)) / 2e-4)


@pytest.mark.parametrize("of", [gt.float32, gt.float64, gt.float16])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 2), (4, 33), (2, 600), (5,)], ids=str)
@pytest.mark.parametrize("p", [1, 2])
def test_one_target_per_row_as_composed(of: Any, sizes: Any, p: int, monkeypatch: Any) -> None:
    random = np.random.default_rng(len(sizes) + sizes[-1])
    x = gt.tensor(random.standard_normal(sizes)).to(of)
    x.view(-1)[0] = float("nan") if sizes[-1] == 33 else 0.25
    target = gt.tensor(random.integers(0, sizes[-1], sizes[:-1]))
    weights = (None, gt.tensor(random.random(sizes[-1]) + 0.5).to(of))

    def results() -> list[Any]:
        found = []
        for weight in weights:
            for reduction in (0, 1, 2):
                given = (p, 0.75, weight, reduction)
                loss = calls.multi_margin_loss(x, target, *given)
                found.append(loss)
                grad = gt.ones_like(loss) * 0.5
                found.append(calls.multi_margin_loss_backward(grad, x, target, *given))
        return found

    by_loop = results()
    for op in ("_multi", "_multi_backward"):
        monkeypatch.setattr(margin, op, lambda *args: False)
    for a, b in zip(by_loop, results()):
        assert a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride()
        rtol = {2: 4e-3}.get(of.itemsize, 1e-5)
        assert gt.allclose(a, b, rtol=rtol, atol=1e-6, equal_nan=True)
