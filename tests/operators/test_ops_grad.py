"""Derivatives of every differentiable operator against finite differences, in every layout.

Small samples of the rows are used, with new values away from discontinuities of derivatives. Second
derivatives are checked too, if they exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.autograd import gradcheck, gradgradcheck
from gputensor.core import dtype as dtypes
from gputensor.core.errors import GpuTensorError
from gputensor.core.memory_format import contiguous_strides

from ..harness import tier
from ..harness.cases import CALLABLE, OPS_OF, some, _layouts, _leaves, _map, _show, main_form
from ..harness.operands import T, strides_of
from ..rows import DTYPE, Placeholder, Row, S

REAL, COMPLEX = dtypes.float64, dtypes.complex128


def _writes(row: Row) -> bool:
    """True if the operator has only an in-place form."""
    return all(op.kind == "inplace" for op in OPS_OF[row.name] if op.kind != "out")


def _is_differentiable(op: Any) -> bool:
    """True if finite differences give the derivative. Random numbers have no derivative, by
    convention."""
    is_zero = all(formula.startswith("zeros_like") for formula in op.derivatives.values())
    return bool(op.derivatives) and not (is_zero and "nondeterministic_seeded" in op.tags)


# An in-place comparison has a derivative of zeros, which is not tested here.
DIFFERENTIABLE = [
    row
    for row in CALLABLE
    if not row.checked_by
    and any(
        _is_differentiable(op) and (op.kind == "functional" or _writes(row))
        for op in OPS_OF[row.name]
    )
]
# The greatest number of elements of a sample's operands: finite differences need two calls for each
# element.
MOST = 60


def test_not_empty() -> None:
    assert len(DIFFERENTIABLE) > 40


def _is_small(sample: S) -> bool:
    tensors = [x for x in _leaves((sample.args, sample.kwargs)) if type(x) is T]
    return sum([int(np.prod(x.sizes, dtype=int)) for x in tensors]) <= MOST


def _has_halves(sample: S) -> bool:
    """True for 16-bit operands: results are rounded to 16 bits, so finite differences are
    useless."""
    return any(
        type(x) is T and x.dtype in (dtypes.float16, dtypes.bfloat16)
        for x in _leaves((sample.args, sample.kwargs))
    )


def _make(row: Row, operand: T, of: Any, layout: str, random: np.random.Generator) -> Any:
    """Return a leaf of this layout, with distinct values of both signs in the row's domain."""
    of = operand.dtype or of
    sizes = operand.sizes
    count = int(np.prod(sizes, dtype=int))
    if operand.values == "zeros" and of not in (REAL, COMPLEX):
        return gt.zeros(sizes, dtype=of)
    if of.category < dtypes.FLOATING:
        if operand.values == "classes":
            return gt.from_numpy(np.asarray(random.integers(0, 3, sizes), of.np))
        # conditions are random; an operand that may be a divisor has no zeros
        low, high = (0, 2) if row.name == "where" else (1, 3)
        return gt.from_numpy(np.asarray(random.integers(low, high, sizes), of.np))
    values = random.permutation(np.linspace(*row.domain, max(count, 2)))[:count].reshape(sizes)
    values = values + random.uniform(0, 0.05)  # no two operands share a value
    if not row.positive:
        values = values * np.where(random.random(sizes) < 0.4, -1, 1)
    if of.category == dtypes.COMPLEX:
        values = values + 1j * random.uniform(0.2, 0.9, sizes)
    if of not in (REAL, COMPLEX):
        return gt.from_numpy(np.asarray(values)).to(of)
    found = strides_of(sizes, operand.layout or layout)
    strides, offset = found or (contiguous_strides(sizes), 0)
    extent = offset + 1 + sum((n - 1) * s for n, s in zip(sizes, strides)) if count else offset
    base = gt.zeros((max(extent, 1),), dtype=of)
    made = base.as_strided(sizes, strides, offset)
    made.copy_(gt.from_numpy(np.asarray(values)))
    return made.detach().requires_grad_()


def _cases(row: Row, of: Any, every: bool) -> Iterator[tuple[S, str]]:
    """Return every small sample in every layout; without `every`, one sample in each layout."""
    small = [x for x in row.samples if _is_small(x) and not _has_halves(x)]
    for number, sample in enumerate(small):
        here = [layout for layout in _layouts(row, sample) if layout != "expanded"]
        if not every:
            here = here[number :: len(small)] or [here[number % len(here)]]
        for layout in here:
            yield sample, layout


def _constants(row: Row, sample: S) -> set[int]:
    """Return operands without a derivative in any overload, such as the weights of a loss or the
    order of igamma."""
    op = OPS_OF[row.name][0]
    names = [argument.name for argument in op.arguments]
    return {
        id(x) for name, x in zip(names, sample.args)
        if op.derivatives
        and all(
            other.derivatives.get(name, "not_implemented").startswith("not_implemented")
            for other in OPS_OF[row.name]
        )
    }  # fmt: skip


def _calls(row: Row, of: Any, every: bool) -> Iterator[tuple[str, Any, list[Any]]]:
    """Yield (description, function of the varied tensors, these tensors)."""
    random = np.random.default_rng(0)
    call = main_form(row.name)
    for sample, layout in _cases(row, of, every):
        leaves: list[Any] = []
        constant = _constants(row, sample)

        def enter(x: Any) -> Any:
            if type(x) is T:
                made = _make(row, x, of, layout, random)
                if id(x) in constant:
                    return made.detach()
                if made.requires_grad:
                    leaves.append(made)
                    return ("leaf", len(leaves) - 1)
                return made
            return of if x is DTYPE else "cpu" if type(x) is Placeholder else x

        args, kwargs = _map(sample.args, enter), _map(sample.kwargs, enter)
        if not leaves:
            continue

        def function(*varied: Any, args: Any = args, kwargs: Any = kwargs) -> Any:
            def back(x: Any) -> Any:
                if type(x) is tuple and len(x) == 2 and x[0] == "leaf":
                    return varied[x[1]]
                if type(x) in (tuple, list):
                    return type(x)([back(y) for y in x])
                return x

            given = [back(x) for x in args]
            if _writes(row):
                given[0] = given[0] * 1
            gt.manual_seed(7)
            made = call(tuple(given), {name: back(x) for name, x in kwargs.items()})
            return tuple(made) if isinstance(made, list) else made

        yield f"{row.name}({_show(sample.args, of)}, {sample.kwargs}) {layout}", function, leaves


def _takes_complex(row: Row) -> bool:
    return row.dtypes is None or any(of.is_complex for of in row.dtypes)


def _check(row: Row, of: Any, check: Any, every: bool) -> int:
    checked = 0
    for what, function, leaves in _calls(row, of, every):
        try:
            made = function(*leaves)
        except GpuTensorError:
            continue  # the operator rejects this dtype, which test_ops_errors.py tests
        results = made if isinstance(made, tuple) else (made,)
        wide = [y for y in results if isinstance(y, gt.Tensor) and y.requires_grad]
        if not wide or any(y.dtype not in (REAL, COMPLEX) for y in wide):
            continue
        try:
            check(function, leaves)
        except Exception as error:
            raise AssertionError(f"{what} [{of.short}]: {error}") from error
        checked += 1
    return checked


@pytest.mark.parametrize("row", some(DIFFERENTIABLE, 3), ids=str)
def test_first_derivatives(row: Row) -> None:
    every = tier.is_full()
    checked = _check(row, REAL, gradcheck, every)
    if _takes_complex(row):
        checked += _check(row, COMPLEX, gradcheck, every)
    assert checked


@pytest.mark.full
@pytest.mark.parametrize("row", some(DIFFERENTIABLE, 3), ids=str)
def test_second_derivatives(row: Row) -> None:
    def second(function: Any, leaves: list[Any]) -> None:
        gradgradcheck(function, leaves, atol=1e-4)

    checked = _check(row, REAL, second, False)
    assert checked or _takes_complex(row) and _check(row, COMPLEX, second, False)


def test_layouts_are_not_all_contiguous() -> None:
    assert strides_of((2, 3), "transposed") and strides_of((2, 3), "step 2")


@pytest.mark.parametrize("values", [[2.0, 0, 3, 0, 5], [0.0, 0], [0.0, 4, 0]], ids=str)
def test_running_products_of_zeros(values: list[float]) -> None:
    """After a zero all products are zero, but their derivatives with respect to the zero are
    not."""
    x = gt.tensor(values, dtype=gt.float64, requires_grad=True)
    assert gradcheck(lambda x: gt.cumprod(x, 0), [x])
    assert gradgradcheck(lambda x: gt.cumprod(x, 0), [x])


@pytest.mark.parametrize("name", ["igamma", "igammac", "special.zeta"])
def test_derivatives_that_nobody_has_are_refused_where_they_are_asked_for(name: str) -> None:
    order, x = (gt.tensor(v, dtype=gt.float64, requires_grad=True) for v in (2.0, 1.5))
    function = attrgetter(name)(gt)
    assert gradcheck(lambda x: function(order.detach(), x), [x])
    made = function(order, x)
    with pytest.raises(GpuTensorError, match="derivative for .*: self is not implemented"):
        made.backward()
