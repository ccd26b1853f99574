"""A 0-d tensor may replace a number if only a number is declared, as in PyTorch. A NumPy scalar may
replace any number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
import gputensor.nn.functional as F

from ..harness import cases as forms
from ..rows import Row

CALLS: dict[str, Callable[[Any], Any]] = {
    "a keyword": lambda n: gt.add(gt.ones(2), gt.ones(2), alpha=n),
    "a method": lambda n: gt.ones(2).add(gt.ones(2), alpha=n),
    "in place": lambda n: gt.ones(2).add_(gt.ones(2), alpha=n),
    "out": lambda n: gt.sub(gt.ones(2), gt.ones(2), alpha=n, out=gt.empty(2)),
    "value": lambda n: gt.addcmul(gt.ones(2), gt.ones(2), gt.ones(2), value=n),
    "in place, beside a history": lambda n: (
        gt.ones(2, requires_grad=True).clone().addcdiv_(gt.ones(2), gt.ones(2), value=n)
    ),
    "a bound": lambda n: gt.arange(n),
    "by position": lambda n: F.leaky_relu(-gt.ones(2), n),
    "the function's own name": lambda n: F.threshold(gt.ones(2), n, n),
    "a parameter of a loop": lambda n: F.softplus(gt.ones(2), beta=n),
    "a product": lambda n: gt.addmm(gt.ones(2, 2), gt.ones(2, 2), gt.ones(2, 2), alpha=n),
    "a dimension": lambda n: gt.ones(2, 2, 3).sum(n),
    "a dimension by NumPy's name": lambda n: gt.sum(gt.ones(2, 2, 3), axis=n, keepdims=True),
    "a count": lambda n: gt.ones(3).repeat_interleave(n),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_is_what_the_number_is(name: str) -> None:
    call = CALLS[name]
    for two in (gt.tensor(2), np.int64(2), np.uint8(2)):
        made, wanted = call(two), call(2)
        assert made.tolist() == wanted.tolist() and made.dtype is wanted.dtype


def test_gradients_are_those_of_the_number() -> None:
    x, y = gt.ones(2, requires_grad=True), gt.ones(2, requires_grad=True)
    gt.add(x, y, alpha=gt.tensor(3.0)).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [3, 3]


@pytest.mark.parametrize("wrong", [
    gt.tensor([2.0]), gt.tensor(2.0, requires_grad=True), gt.empty((), device="meta"),
], ids=["a dimension", "a gradient", "no elements"])  # fmt: skip
def test_what_a_number_would_lose_is_refused(wrong: Any) -> None:
    x = gt.zeros(2)
    with pytest.raises(TypeError, match="add_: 'alpha' must be a number"):
        x.add_(gt.ones(2), alpha=wrong)
    assert x.tolist() == [0, 0]


def test_a_dimension_is_no_float() -> None:
    with pytest.raises(TypeError, match="sum: 'dim' must be a tuple of ints"):
        gt.ones(2, 2).sum(gt.tensor(1.0))


def test_an_error_of_anything_else_goes_on_as_it_was() -> None:
    with pytest.raises(gt.GpuTensorError, match="must broadcast"):
        gt.add(gt.ones(2), gt.ones(3), alpha=gt.tensor(2))


def test_a_tensor_is_a_number_to_functions_that_are_no_operators() -> None:
    functional, two = gt.nn.functional, gt.tensor(2)
    image, classes = gt.arange(16.0).reshape(1, 4, 2, 2), gt.tensor([0, 2, 1])
    scores = gt.arange(12.0).reshape(3, 4).log_softmax(1)
    for call in (
        lambda n: functional.pixel_shuffle(image, n),
        lambda n: functional.pixel_unshuffle(image, n),
        lambda n: functional.channel_shuffle(image, n),
        lambda n: functional.nll_loss(scores, classes, ignore_index=n),
        lambda n: functional.cross_entropy(scores, classes, ignore_index=n),
        lambda n: functional.huber_loss(image, -image, delta=n),
        lambda n: functional.smooth_l1_loss(image, -image, beta=n),
        lambda n: gt.kthvalue(image, n).indices,
    ):
        assert gt.equal(call(two), call(2))


def test_a_tensor_is_a_number_where_more_is_given() -> None:
    """By position, if another overload takes a tensor in this place but no further arguments."""
    x = gt.ones(8)
    for low, high in ((gt.tensor(3), 5), (3, gt.tensor(5)), (gt.tensor(3), gt.tensor(5))):
        drawn = gt.randint_like(x, low, high)
        assert set(drawn.tolist()) <= {3, 4}
    assert set(gt.randint_like(x, gt.tensor(2)).tolist()) <= {0, 1}
    y = gt.arange(6.0).reshape(2, 3)
    assert gt.max(y, gt.tensor(0), True).values.tolist() == [[3, 4, 5]]
    assert y.min(gt.tensor(1), True).values.tolist() == [[0], [3]]
    assert gt.max(y, gt.tensor(2.0)).tolist() == [[2, 2, 2], [3, 4, 5]]


NUMERIC = ("Scalar", "float", "int", "SymInt")


def _numbers(case: forms.Case) -> list[str | int]:
    """Return the names or positions of arguments of the case's call that are numbers in all
    overloads."""
    op, call = case.op(), case.build()
    declared = {a.name: a.type.required.base for a in op.arguments}
    others = [o.arguments for o in forms.OPS_OF[op.base]]
    by_place = dict(enumerate(declared.values()))
    declared.update({a.name: "" for o in others for a in o if a.type.has_tensor})
    by_place.update({n: "" for o in others for n, a in enumerate(o) if a.type.has_tensor})
    given = {**dict(enumerate(call.args)), **call.kwargs}
    return [
        at for at, x in given.items()
        if (declared.get(at) if isinstance(at, str) else by_place.get(at)) in NUMERIC
        and type(x) in (int, float)
    ]  # fmt: skip


def _gradients(case: forms.Case, at: str | int | None) -> list[Any]:
    """Return results, and gradients of the floating operands. The number at `at` is passed as a
    tensor, which is written to before the gradients are computed."""
    gt.manual_seed(7)
    call, held = case.build(), None
    args, kwargs = list(call.args), dict(call.kwargs)
    if at is not None:
        given: Any = kwargs if isinstance(at, str) else args
        given[at] = held = gt.tensor(given[at], dtype=type(given[at]))
    named = {**dict(zip([a.name for a in case.op().arguments], args)), **kwargs}
    leaves = [
        named[name].requires_grad_() for name in case.op().derivatives
        if isinstance(named.get(name), gt.Tensor) and named[name].is_floating_point()
    ]  # fmt: skip
    made = forms.flat(forms.main_form(case.row.name)(tuple(args), kwargs))
    if held is not None:
        held.zero_()
    made = made if isinstance(made, (list, tuple)) else [made]
    found = [y.detach() for y in made if isinstance(y, gt.Tensor)]
    results = [y for y in made if isinstance(y, gt.Tensor) and y.requires_grad]
    if not results:
        return found
    grads = gt.autograd.grad([y.abs().sum() for y in results], leaves, allow_unused=True)
    return found + [g for g in grads if g is not None]


FUNCTIONAL = [row for row in forms.CALLABLE if row.name.strip("_") == row.name]


@pytest.mark.parametrize("row", forms.some(FUNCTIONAL, 1), ids=str)
def test_the_number_is_read_once(row: Row) -> None:
    """A write to the tensor after the call changes no gradient."""
    for case in forms.one_of_each_form(row):
        if case.op().kind != "functional":
            continue
        for at in _numbers(case):
            wanted, made = _gradients(case, None), _gradients(case, at)
            assert len(made) == len(wanted), (str(case), at)
            for ours, theirs in zip(made, wanted):
                gt.testing.assert_close(
                    ours, theirs, rtol=0, atol=0, equal_nan=True, msg=f"{case}, {at}"
                )


def _of_numpy(x: Any) -> Any:
    """Return a number, or the numbers of a list or tuple, as NumPy scalars."""
    if type(x) in (list, tuple):
        return type(x)(map(_of_numpy, x))
    return {int: np.int64, float: np.float64}.get(type(x), lambda x: x)(x)


DEFINED = [row for row in forms.CALLABLE if "empty" not in row.name]


@pytest.mark.parametrize("row", forms.some(DEFINED, 2), ids=str)
def test_numpy_scalars_are_numbers(row: Row) -> None:
    """Also in lists, and for operators that take a tensor in the same place."""
    for case in forms.one_of_each_form(row):
        outcomes = []
        for convert in (lambda x: x, _of_numpy):
            call = case.build()
            args = tuple(map(convert, call.args))
            kwargs = {name: convert(x) for name, x in call.kwargs.items()}
            gt.manual_seed(7)
            outcomes.append(forms.flat(forms.main_form(row.name)(args, kwargs)))
        gt.testing.assert_close(*outcomes, rtol=0, atol=0, equal_nan=True, msg=str(case))


@pytest.mark.parametrize("function", [gt.xlogy, gt.float_power, gt.special.zeta])
def test_two_numbers_are_no_operands(function: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="'input' must be a Tensor"):
        function(1, 2)


def test_numpy_scalars_are_numbers_to_functions_that_are_no_operators() -> None:
    for seed in (np.int64(5), np.float32(5.5), gt.tensor(5), 5.5):
        assert gt.manual_seed(seed).initial_seed() == 5
    assert gt.Generator().manual_seed(np.int64(5)).initial_seed() == 5
    for wrong in ("5", 1j, float("nan"), [5], gt.ones(2)):
        with pytest.raises(TypeError, match="manual_seed: 'seed' must be an int"):
            gt.manual_seed(wrong)  # type: ignore[arg-type]
    before = gt.get_num_threads()
    gt.set_num_threads(np.int64(before))  # type: ignore[arg-type]
    optimizer = gt.optim.SGD([gt.ones(2, requires_grad=True)], lr=0.5)
    schedule = gt.optim.lr_scheduler.MultiStepLR(optimizer, np.array([1, 2]), np.float32(0.5))
    optimizer.step()
    schedule.step()
    assert schedule.get_last_lr() == [0.25]
    assert gt.cdist(gt.ones(1, 3), gt.zeros(1, 3), np.int64(1)).item() == 3
