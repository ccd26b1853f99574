"""1, 1.0 and True are equal and have equal hashes: a result cached for one must not be used for
another.

A call with one of them succeeds or fails as if it were the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor.dispatch import dispatcher, shortcuts
from gputensor.native import factory

F = gt.nn.functional

# A call of x, with sizes (2, 3), and of an argument; the argument that fills the caches; arguments
# equal to it.
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "view": (lambda x, s: x.view(s), ((1, 6), (1.0, 6), (True, 6), (1, 6.0))),
    "view of ints": (lambda x, s: x.view(*s), ((1, 6), (1.0, 6), (True, 6))),
    "view of five": (lambda x, s: x.view(s), ((1, 1, 1, 2, 3), (1, 1, 1, 2, 3.0))),
    "reshape": (lambda x, s: x.reshape(s), ((1, 6), (1.0, 6), (True, 6))),
    "gt.reshape": (lambda x, s: gt.reshape(x, s), ((1, 6), (1.0, 6), (True, 6))),
    "permute": (lambda x, d: x.permute(d), ((1, 0), (1.0, 0), (True, False))),
    "transpose": (lambda x, d: x.transpose(0, d), (1, 1.0, True)),
    "expand": (lambda x, s: x.expand(s), ((1, 2, 3), (True, 2, 3), (1.0, 2, 3))),
    "squeeze": (lambda x, d: x[:1].squeeze(d), (0, 0.0, False)),
    "squeeze of dims": (lambda x, d: x[:1].squeeze(d), ((0, 1), (0.0, 1), (0, True))),
    "unsqueeze": (lambda x, d: x.unsqueeze(d), (1, 1.0, True)),
    "flatten": (lambda x, d: x.flatten(d), (0, 0.0, False)),
    "select": (lambda x, d: x.select(d, 0), (1, 1.0, True)),
    "index": (lambda x, i: x.select(0, i), (1, 1.0, True)),
    "narrow": (lambda x, n: x.narrow(0, 0, n), (1, 1.0, True)),
    "step": (lambda x, n: gt.slice_copy(x, 0, 0, 2, n), (1, 1.0, True)),
    "unfold": (lambda x, n: x.unfold(0, n, 1), (1, 1.0, True)),
    "movedim": (lambda x, d: x.movedim(d, 0), (1, 1.0, True)),
    "diagonal": (lambda x, d: x.diagonal(d), (0, 0.0, False)),
    "split": (lambda x, n: x.split(n), (1, 1.0, True)),
    "zeros": (lambda x, s: gt.zeros(s), ((1, 6), (1.0, 6), (True, 6))),
    "ones": (lambda x, s: gt.ones(s), ((1, 6), (1.0, 6), (True, 6))),
    "empty": (lambda x, s: gt.empty(s).zero_(), ((1, 6), (1.0, 6), (True, 6))),
    "full": (lambda x, s: gt.full(s, 2), ((1, 6), (1.0, 6), (True, 6))),
    "full of": (lambda x, n: gt.full((2,), n), (1, 1.0, True)),
    "arange": (lambda x, n: gt.arange(n), (1, 1.0, True)),
    "arange from": (lambda x, n: gt.arange(n, 3), (1, 1.0, True)),
    "sum": (lambda x, d: x.sum(d), (1, 1.0, True)),
    "sum of dims": (lambda x, d: x.sum(d), ((1,), (1.0,), (True,))),
    "sum that keeps": (lambda x, k: x.sum(1, k), (True, 1, 1.0)),
    "mean": (lambda x, d: x.mean(d), ((0, 1), (0.0, 1), (False, True))),
    "amax": (lambda x, d: x.amax(d), ((1,), (1.0,), (True,))),
    "var": (lambda x, d: x.var(d), (1, 1.0, True)),
    "norm": (lambda x, d: x.norm(2, d), (1, 1.0, True)),
    "argmax": (lambda x, d: x.argmax(d), (1, 1.0, True)),
    "argmax that keeps": (lambda x, k: x.argmax(1, k), (True, 1, 1.0)),
    "max": (lambda x, d: x.max(d).values, (1, 1.0, True)),
    "max that keeps": (lambda x, k: x.max(1, k).values, (True, 1, 1.0)),
    "cumsum": (lambda x, d: x.cumsum(d), (1, 1.0, True)),
    "softmax": (lambda x, d: x.softmax(d), (1, 1.0, True)),
    "log_softmax": (lambda x, d: x.log_softmax(d), (1, 1.0, True)),
    "alpha": (lambda x, a: gt.add(x, x, alpha=a), (1, 1.0, True)),
    "number": (lambda x, n: x + n, (1, 1.0, True)),
    "of ints": (lambda x, n: gt.arange(3) * n, (1, 1.0, True)),
    "bound": (lambda x, n: x.clamp(max=n), (1, 1.0, True)),
    "where": (lambda x, n: gt.where(x > 1, gt.arange(3), n), (1, 1.0, True)),
    "pool": (lambda x, n: F.avg_pool1d(x, n), (1, 1.0, True)),
    "roll": (lambda x, n: x.roll(n, 0), (1, 1.0, True)),
    "flip": (lambda x, d: x.flip(d), ((1,), (1.0,), (True,))),
    "repeat": (lambda x, s: x.repeat(s), ((1, 2), (1.0, 2), (True, 2))),
    "cat": (lambda x, d: gt.cat((x, x), d), (1, 1.0, True)),
    "gather": (lambda x, d: x.gather(d, gt.zeros(2, 1, dtype=gt.int64)), (1, 1.0, True)),
}  # fmt: skip


@pytest.fixture(params=[True, False], ids=["short cuts", "without"])
def cold(request: pytest.FixtureRequest) -> Iterator[Callable[[], Any]]:
    before, shortcuts.is_on = shortcuts.is_on, request.param

    def forget() -> Any:
        x = gt.arange(6.0).reshape(2, 3)
        for shape in (x._geometry, x[:1]._geometry):
            shape.views.clear()
        factory._EMPTY.clear()
        dispatcher.forget_plans()
        return x

    yield forget
    shortcuts.is_on = before
    dispatcher.forget_plans()


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    try:
        found = call(*args)
    except Exception as error:
        return type(error), str(error)
    return [(y.dtype, y.shape, y.tolist()) for y in (found if type(found) is tuple else (found,))]


@pytest.mark.parametrize("name", CALLS)
def test_what_equals_an_argument_is_not_taken_for_it(name: str, cold: Callable[[], Any]) -> None:
    call, (right, *others) = CALLS[name]
    expected = [outcome(call, cold(), other) for other in others]
    x = cold()
    for _ in range(3):
        call(x, right)
    assert [outcome(call, x, other) for other in others] == expected
    assert outcome(call, x, right) == outcome(call, cold(), right)
