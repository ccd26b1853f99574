"""The compiled loops of ctc_loss against the array functions used without the library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor._generated import calls
from gputensor.kernels.compiled import library
from gputensor.native import ctc

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)
_LOOPS = ("_forward_loop", "_backward_loop")
# (steps, classes, lengths of inputs, lengths of texts, blank)
CASES: list[Any] = [
    (12, 5, (12, 7, 12, 3), (4, 2, 0, 1), 0),
    (40, 30, (40, 40), (19, 20), 29),
    (6, 4, (6, 0, 0, 2), (3, 0, 2, 2), 1),
    (3, 2, (3,), (0,), 0),
    (70, 3, (70, 66), (33, 9), 2),
]


def _case(case: Any, of: Any, seed: int = 0) -> tuple[gt.Tensor, np.ndarray]:
    steps, classes, spans, texts, blank = case
    random = np.random.default_rng(seed)
    scores = gt.tensor(random.normal(size=(steps, len(spans), classes)), dtype=of)
    labels = random.integers(0, classes - 1, (len(spans), max(texts)))
    return calls.log_softmax_int(scores, 2), labels + (labels >= blank)


def _computed(monkeypatch: Any, is_plain: bool, logs: Any, targets: Any, case: Any) -> list[Any]:
    answers: list[bool] = []
    with monkeypatch.context() as patch:
        for name in _LOOPS:
            loop = (lambda *_: False) if is_plain else getattr(ctc, name)
            patch.setattr(
                ctc, name, lambda *args, of=loop: answers.append(of(*args)) or answers[-1]
            )
        _, _, spans, texts, blank = case
        made = []
        loss, alpha = calls._ctc_loss(logs, targets, spans, texts, blank, False)
        grad = calls.linspace(-1.0, 2.0, len(spans), logs.dtype)
        for spared in (False, True):
            made.append(
                calls._ctc_loss_backward(
                    grad, logs, targets, spans, texts, loss, alpha, blank, spared
                )
            )
    assert answers == [not is_plain] * 3
    return [loss, alpha, *made]


def _near(found: list[Any], plain: list[Any]) -> None:
    for x, y in zip(found, plain):
        assert x.dtype is y.dtype and x.shape == y.shape and x.stride() == y.stride()
        within = 1e-10 if x.dtype is gt.float64 else 3e-5
        assert gt.allclose(x, y, rtol=within, atol=within, equal_nan=True)


@pytest.mark.parametrize("of", [gt.float32, gt.float64])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_array_functions(case: Any, of: Any, monkeypatch: Any) -> None:
    logs, labels = _case(case, of)
    joined = np.concatenate([row[:n] for row, n in zip(labels, case[3])])
    turned = calls.clone(logs.permute(2, 0, 1), gt.contiguous_format).permute(1, 2, 0)
    for given in (logs, turned):
        for targets in (gt.tensor(labels), gt.tensor(joined), gt.tensor(labels, dtype=gt.int32)):
            found = _computed(monkeypatch, False, given, targets, case)
            _near(found, _computed(monkeypatch, True, given, targets, case))


def test_impossible_texts_and_probabilities_of_zero(monkeypatch: Any) -> None:
    case = (5, 4, (2, 5, 5), (3, 2, 2), 0)
    logs, labels = _case(case, gt.float64)
    logs[:, 1, int(labels[1, 0])] = float("-inf")
    logs[2, 2] = float("nan")
    found = _computed(monkeypatch, False, logs, gt.tensor(labels), case)
    assert found[0].tolist()[:2] == [float("inf")] * 2 and found[0].isnan().tolist()[2]
    _near(found, _computed(monkeypatch, True, logs, gt.tensor(labels), case))


def test_bits_do_not_depend_on_threads() -> None:
    case = (60, 20, (60,) * 9, (15,) * 9, 0)
    logs, labels = _case(case, gt.float32)
    logs = logs.requires_grad_()
    before, found = gt.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            gt.set_num_threads(threads)
            loss = gt.nn.functional.ctc_loss(logs, gt.tensor(labels), *case[2:4])
            (grad,) = gt.autograd.grad(loss, logs)
            found.append((loss.item(), grad.numpy().tobytes()))
    finally:
        gt.set_num_threads(before)
    assert found[0] == found[1] == found[2]
