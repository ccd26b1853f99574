"""The compiled loops of family loss against NumPy's, over dtypes, layouts and reductions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import loss as numpys
from gputensor.kernels.cpu.quiet import run

from ..layouts import LAYOUTS

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)

NONE, MEAN, SUM = range(3)
DTYPES = {np.float32: 1e-6, np.float64: 1e-14, np.float16: 2e-3, ml_dtypes.bfloat16: 1e-2}
SIZES = [(3,), (1, 2), (7, 3), (300, 11), (2, 3, 4, 5), (0, 3), (3, 5, 1, 30)]
_random = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = gt.get_num_threads()
    yield
    gt.set_num_threads(before)


def _operands(sizes: tuple[int, ...], of: Any, has_weight: bool) -> tuple[Any, Any, Any]:
    classes = sizes[len(sizes) > 1]
    x = _random.standard_normal(sizes).astype(of)
    rows = (sizes[0], *sizes[2:]) if len(sizes) > 1 else ()
    target = np.asarray(_random.integers(0, classes, rows))
    return x, target, _random.random(classes).astype(of) if has_weight else None


@pytest.mark.parametrize("of", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("reduction", [NONE, MEAN, SUM])
@pytest.mark.parametrize("has_weight", [False, True])
def test_forward_and_backward(of: Any, reduction: int, has_weight: bool) -> None:
    loops = stub.cpu("loss")
    assert stub.is_compiled(loops.nll_loss)
    for sizes in SIZES:
        for ignored in (-100, 1):
            x, target, weight = _operands(sizes, of, has_weight)
            each = target.shape if reduction == NONE else ()
            grad, over = np.asarray(_random.random(each)).astype(of), np.asarray(2.5, of)
            losses, totals = (np.empty((2, *each), of), np.empty(2, of))
            grads = []
            for n, module in enumerate((loops, numpys)):
                for layout in LAYOUTS if module is loops else LAYOUTS[:1]:
                    given = layout(x), layout(target if sizes[0] % 2 else target.astype(np.uint8))
                    kind = (weight, reduction, ignored)
                    out = losses[n, ...], totals[n, ...]
                    run(module.nll_loss, *given, *kind, *out)
                    made = layout(np.ones(sizes, of))
                    run(module.nll_loss_backward, layout(grad), given[1], *kind, over, made)
                    grads.append(made.astype(np.float64))
            for found, plain in (losses, totals):
                np.testing.assert_allclose(
                    found.astype(np.float64), plain.astype(np.float64), DTYPES[of], DTYPES[of]
                )
            for made in grads[:-1]:
                np.testing.assert_allclose(made, grads[-1], DTYPES[of], DTYPES[of])


@pytest.mark.parametrize("reduction", [NONE, MEAN])
@pytest.mark.parametrize("bad", [-1, 3, 1 << 40])
def test_a_target_that_is_no_class_is_named_and_nothing_is_written(
    reduction: int, bad: int
) -> None:
    x, target = np.zeros((9, 3), np.float32), np.zeros((9, 2), np.int64)[:, 0]
    target[4:6] = bad, 77
    out, total = np.full((9,) if reduction == NONE else (), 5, np.float32), np.full((), 5, "f4")
    loops, error = stub.cpu("loss"), errors.IndexRangeError
    with pytest.raises(error, match=rf"nll_loss: .*\(got {bad}\)"):
        run(loops.nll_loss, x, target, None, reduction, -100, out, total)
    with pytest.raises(error, match=rf"nll_loss_backward: .*\(got {bad}\)"):
        run(loops.nll_loss_backward, out, target, None, reduction, -100, total, x)
    assert (out == 5).all() and total == 5 and not x.any()


def test_bits_do_not_depend_on_threads() -> None:
    x, target, weight = _operands((20000, 7), np.float32, True)
    found = []
    for threads in (1, 2, 3):
        gt.set_num_threads(threads)
        out, total = np.empty((), np.float32), np.empty((), np.float32)
        run(stub.cpu("loss").nll_loss, x, target, weight, MEAN, 2, out, total)
        found.append((out.item(), total.item()))
    assert len(set(found)) == 1
