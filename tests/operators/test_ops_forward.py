"""Every operator against its row's NumPy reference: values, dtype, sizes, and memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core.errors import ArgumentError, DtypeError
from gputensor.core.geometry import geometry
from gputensor.tensor.base import materialised

from ..harness.cases import CALLABLE, OPS_OF, Case, cases, has_long_cases, long_cases, some
from ..harness.compare import assert_same, assert_within, signs_dropped, to_numpy
from ..rows import Row


@pytest.mark.whole
@pytest.mark.parametrize("row", CALLABLE, ids=str)
def test_values(row: Row) -> None:
    checked = 0
    for case in cases(row, crossed=True):
        expected = case.expected()
        call = case.build()
        if expected is None:
            with pytest.raises((DtypeError, ArgumentError)):
                call.run()
                pytest.fail(f"{case}: was not refused")
        else:
            check(case, call.run(), expected)
        if case.op().kind == "functional":
            call.assert_unchanged()
        checked += 1
    assert checked


COMPUTING = [row for row in CALLABLE if has_long_cases(row)]


@pytest.mark.parametrize("row", some(COMPUTING, 4), ids=str)
def test_values_of_long_operands(row: Row) -> None:
    for case in long_cases(row):
        expected = case.expected()
        if expected is not None:
            check(case, case.build().run(), expected, LONGER)


# Rounding errors add up over the elements of a sum; the rows' tolerances are for some dozens of
# elements.
LONGER = 16


def check(case: Case, result: Any, expected: Any, slack: int = 1) -> None:
    """Raise unless a result has the dtype that the YAML promises and the reference's values, to
    the row's tolerance times `slack`."""
    if not isinstance(result, (gt.Tensor, list, tuple)):
        assert_same(np.asarray(result), np.asarray(case.reference(expected).item()), case)
        return
    results = result if isinstance(result, (list, tuple)) else [result]
    for number, x in enumerate(results):
        if x is None:  # an operand that is absent, or that needs no gradient
            continue
        is_each = isinstance(expected.result, tuple)
        wanted = expected.result[number] if is_each else expected.result
        assert x.dtype is wanted, f"{case}: dtype is {x.dtype}, wanted {wanted}"
        assert x.device == gt.device("cpu"), f"{case}: result is on {x.device}"
        # an array that does not fit its tensor's geometry would only be noticed in a view
        found = to_numpy(x)
        assert found.shape == tuple(x.shape), (
            f"{case}: the array has sizes {found.shape}, the tensor {x.shape}"
        )
        if x.numel():
            # a conjugated view of an operand with gaps is materialised in memory without gaps
            held = materialised(x)
            strides = tuple(s // x.itemsize for s, n in zip(found.strides, x.shape) if n > 1)
            assert strides == tuple(s for s, n in zip(held.stride(), x.shape) if n > 1), (
                f"{case}: strides differ"
            )
        assert x._geometry is geometry(tuple(x.shape), x.stride(), x.dtype)
    if case.row.ref is None:
        return
    reference = case.reference(expected)
    references = reference if isinstance(reference, list) else [reference]
    assert len(references) == len(results), (
        f"{case}: {len(results)} results, wanted {len(references)}"
    )
    ulp = case.row.ulp_of(expected.compute or case.dtype) * slack
    for x, wanted in zip(results, references):
        found = to_numpy(x)
        if case.row.zeros_equal:
            found, wanted = signs_dropped(found), signs_dropped(np.asarray(wanted))
        assert_within(found, wanted, x.dtype, ulp, case, case.row.of_largest)


def _is_view(row: Row) -> bool:
    forms = [op for op in OPS_OF[row.name] if op.kind == "functional"]
    return any(returned.type.aliases for op in forms for returned in op.schema.returns)


VIEWS = [row for row in CALLABLE if _is_view(row)]


@pytest.mark.parametrize("row", VIEWS, ids=str)
def test_views_share_memory(row: Row) -> None:
    """A view uses its operand's storage. An operator that may copy does so only if necessary."""
    shared = 0
    for case in cases(row, crossed=False):
        call = case.build()
        base = call.args[0]
        result = call.run()
        for x in result if isinstance(result, (list, tuple)) else [result]:
            is_view = x.untyped_storage() is base.untyped_storage()
            assert is_view or row.may_copy, f"{case}: does not look at its operand's memory"
            shared += is_view
            assert x._version == 0, f"{case}: version is {x._version}"
    assert shared


@pytest.mark.parametrize("row", some([row for row in CALLABLE if row not in VIEWS], 2), ids=str)
def test_results_have_memory_of_their_own(row: Row) -> None:
    for case in cases(row, crossed=False):
        if case.op().kind != "functional" or case.expected() is None or row.may_copy:
            continue
        call = case.build()
        result = call.run()
        if isinstance(result, gt.Tensor):
            storages = [made.tensor.untyped_storage() for made in call.built]
            assert result.untyped_storage() not in storages, f"{case}: shares an operand's memory"
            assert result._version == 0, f"{case}: the version of a new tensor is {result._version}"


def test_not_empty() -> None:
    assert len(CALLABLE) > 80 and len(VIEWS) > 20 and len(COMPUTING) > 25
