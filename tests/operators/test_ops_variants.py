"""All forms of an operator have the result of its main form: function, method, `gt.ops.aten`,
Python's
operator, in place and `out`; also the rules of `out` and of versions."""

from __future__ import annotations

import re
from typing import Any

import pytest

import gputensor as gt
from gputensor.core import dtype as dtypes
from gputensor.core.dtype import ALL, FLOATING, STORED, dtype
from gputensor.core.errors import GpuTensorError
from codegen.model import Model
from gputensor.core.promotion import can_cast
from gputensor.tensor.make import over_array

from ..harness import cases as forms
from ..harness import tier
from ..harness.cases import CALLABLE, OPS, OPS_OF, Case, Call, cases, some
from ..harness.compare import assert_same, cast, signs_dropped, to_numpy
from ..rows import Row


MODEL = Model(tuple(OPS))


def _has_outs(row: Row, several: bool) -> bool:
    forms = [op for op in OPS_OF[row.name] if op.kind == "out"]
    return any((len(op.schema.out_arguments) > 1) == several for op in forms)


CASTS_OUT = [row for row in CALLABLE if _has_outs(row, several=False)]
SEVERAL_OUTS = [row for row in CALLABLE if _has_outs(row, several=True)]


def allowed(row: Row) -> list[Case]:
    """Return the valid cases, without layouts that must not be written to."""
    return [case for case in cases(row, crossed=False) if case.expected() is not None]


def of_one(row: Row) -> list[Case]:
    """Return the valid cases with one result and an `out` form."""
    return [case for case in allowed(row) if outs_of(case) == 1]


def outs_of(case: Case) -> int:
    form = MODEL.out_of(case.op())
    return 0 if form is None else len(form.schema.out_arguments)


def as_list(x: Any) -> list[Any]:
    return list(forms.flat(x)) if isinstance(x, (list, tuple)) else [x]


def assert_equal(case: Case, form: str, found: Any, wanted: Any) -> None:
    """Raise unless two results are equal bit for bit, with equal layouts."""
    found, wanted = as_list(found), as_list(wanted)
    assert len(found) == len(wanted), f"{case}: {form} gave {len(found)} results"
    for x, y in zip(found, wanted):
        if not isinstance(y, gt.Tensor):
            assert type(x) is type(y), f"{case}: {form}"
            continue
        assert (x.stride(), x.storage_offset()) == (y.stride(), y.storage_offset()), (
            f"{case}: {form}"
        )
        if case.row.ref is None:
            assert (x.shape, x.dtype) == (y.shape, y.dtype), f"{case}: {form}"
        else:
            assert_same(to_numpy(x), to_numpy(y), case, form)


# --- forms of one call ----------------------------------------------------------------------------


@pytest.mark.parametrize("row", some(CALLABLE, 3), ids=str)
def test_forms_agree(row: Row) -> None:
    made = {
        "function": forms.as_function(row.name),
        "method": forms.as_method(row.name),
        "property": forms.as_property(row.name),
    }
    compared = 0
    for case in allowed(row):
        wanted = case.build().run()
        for form, call_form in made.items():
            if call_form is not None:
                assert_equal(case, form, seeded(call_form, case.build()), wanted)
                compared += 1
        for op in OPS_OF[row.name]:
            call = case.build()
            if op.base == row.name and op.kind != "out" and forms.takes(op, call.args, call.kwargs):
                operator = forms.operator_of(op)
                found = seeded(lambda args, kwargs: operator(*args, **kwargs), call)
                assert_equal(case, f"gt.ops.aten.{op.name}", found, wanted)
                packet = seeded(forms.as_packet(row.name), case.build())
                assert_equal(case, f"gt.ops.aten.{row.name}", packet, wanted)
                compared += 1
        if row.operator is not None and not call.kwargs:
            call = case.build()
            assert_equal(case, repr(row.operator), row.operator(*call.args), wanted)
            compared += 1
    assert compared


def seeded(form: Any, call: Call) -> Any:
    gt.manual_seed(7)
    return form(call.args, call.kwargs)


# --- in place -------------------------------------------------------------------------------------


def _in_place(row: Row) -> Any:
    """The form `x.add_(…)` of a row `add`."""
    base = row.name + "_"
    has_one = any(op.base == base for op in OPS_OF[row.name])
    return forms.as_method(row.name, base) if has_one else None


@pytest.mark.parametrize("row", some([row for row in CALLABLE if _in_place(row)], 2), ids=str)
def test_in_place(row: Row) -> None:
    """self gets the result of the functional form, in self's dtype, or the call raises."""
    form = _in_place(row)
    view_only = any("inplace_view" in op.tags for op in OPS_OF[row.name])
    done = refused = 0
    for case in allowed(row):
        call = case.build()
        self = call.args[0]
        functional = case.build()
        wanted = functional.run()
        before = (self.shape, self.stride(), self._version)
        if wanted is functional.args[0] and _overlaps(self):
            continue  # nothing is written, so no error is needed
        if row.takes_expanded and _overlaps(self):
            continue
        fits = view_only or (
            wanted.shape == self.shape
            and can_cast(wanted.dtype, self.dtype)
            and not _overlaps(self)
            and (row.out != "same" or wanted.dtype is self.dtype)
            and ("dtype" not in case.sample.kwargs or wanted.dtype is self.dtype)
        )
        if not fits:
            with pytest.raises(GpuTensorError):
                form(call.args, call.kwargs)
                pytest.fail(f"{case}: was not refused in place")
            call.assert_unchanged()
            assert (self.shape, self.stride(), self._version) == before, f"{case}: was changed"
            refused += 1
            continue
        assert form(call.args, call.kwargs) is self, f"{case}: is not self"
        assert self._version == before[2] + 1, (
            f"{case}: version went from {before[2]} to {self._version}"
        )
        if view_only:
            assert (self.shape, self.stride()) == (wanted.shape, wanted.stride()), str(case)
            call.assert_unchanged()
        else:
            assert (self.shape, self.stride()) == before[:2], f"{case}: another layout"
            assert_others_kept(case, call)
        check_values(case, self, wanted)
        done += 1
    assert done and (refused or view_only or row.takes_expanded or not tier.is_full())


def check_values(case: Case, found: Any, wanted: Any) -> None:
    """Raise unless `found` holds `wanted` cast to its dtype."""
    x, y = to_numpy(found), to_numpy(wanted)
    if case.row.zeros_equal:
        x, y = signs_dropped(x), signs_dropped(y)
    assert_same(x, cast(y, found.dtype), case)


def test_an_expanded_tensor_takes_a_number_and_no_tensor() -> None:
    x = gt.zeros(1).expand(3)
    assert x.fill_(2).tolist() == [2, 2, 2]
    with pytest.raises(GpuTensorError, match="must not hold one memory location"):
        x.fill_(gt.ones(()))


def _overlaps(x: Any) -> bool:
    return (
        any(stride == 0 and size > 1 for size, stride in zip(x.shape, x.stride())) and x.numel() > 0
    )


def assert_others_kept(case: Case, call: Call) -> None:
    """Raise if a write changed memory outside of self, or another operand."""
    for made in call.built[1:]:
        assert_same(made.storage_now(), made.before, case, "another operand;")
    first = call.built[0]
    now = first.storage_now().copy()
    flat = over_array(now).as_strided(
        first.tensor.shape, first.tensor.stride(), first.tensor.storage_offset()
    )
    was = over_array(first.before.copy())
    flat.copy_(
        was.as_strided(first.tensor.shape, first.tensor.stride(), first.tensor.storage_offset())
    )
    assert_same(now, first.before, case, "beside the elements of self;")


# --- out ------------------------------------------------------------------------------------------


def run_into(row: Row, call: Call, out: Any) -> Any:
    gt.manual_seed(7)
    kwargs = {name: x for name, x in call.kwargs.items() if name != "device"}
    if all(op.is_factory for op in OPS_OF[row.name] if op.kind == "functional"):
        kwargs.pop("dtype", None)
    form = forms.as_function(row.name)
    if form is None and isinstance(out, tuple):  # gt.ops takes each by keyword
        op = next(op for op in OPS_OF[row.name] if op.kind == "out")
        outs = {a.name: x for a, x in zip(op.schema.out_arguments, out)}
        return forms.as_packet(row.name)(call.args, {**kwargs, **outs})
    return (form or forms.as_packet(row.name))(call.args, {**kwargs, "out": out})


@pytest.mark.parametrize("row", some(CASTS_OUT, 2), ids=str)
def test_out_of_the_right_size(row: Row) -> None:
    """`out` is returned, keeps its strides and counts one write; other memory is unchanged."""
    for number, case in enumerate(of_one(row)):
        call, wanted = case.build(), case.build().run()
        if isinstance(wanted, (list, tuple)):
            continue  # where(condition), which has no out form
        sizes = tuple(wanted.shape)
        whole = gt.ones([2 * n for n in sizes], dtype=wanted.dtype)
        layouts = (
            whole[tuple(slice(None, None, 2) for _ in sizes)],
            gt.empty(sizes, dtype=wanted.dtype),
        )
        out = layouts[number % 2]
        strides, version = out.stride(), out._version
        found = run_into(row, call, out)
        assert found is out, f"{case}: does not return out"
        assert out.stride() == strides and out.shape == wanted.shape, (
            f"{case}: out has another layout"
        )
        assert out._version == version + 1, f"{case}: out counts {out._version - version} writes"
        check_values(case, out, wanted)
        call.assert_unchanged()
        if out is layouts[0] and sizes:
            out.fill_(1)
            assert bool((whole == 1).all()), f"{case}: wrote beside out"


@pytest.mark.parametrize("row", some(CASTS_OUT, 2), ids=str)
def test_out_of_another_size(row: Row) -> None:
    """An empty out gets the sizes of the functional form's result; any other out does so with a
    warning."""
    for case in of_one(row):
        call = case.build()
        wanted = call.run()
        if wanted is call.args[0]:  # nothing is computed, so its layout is not compared
            continue
        if isinstance(wanted, (list, tuple)):
            continue
        out = gt.empty(0, dtype=wanted.dtype)
        assert run_into(row, case.build(), out) is out
        assert out.shape == wanted.shape and out.stride() == wanted.stride(), (
            f"{case}: {out.stride()}, wanted {wanted.stride()}"
        )
        check_values(case, out, wanted)
    wrong = gt.empty([n + 1 for n in wanted.shape] or [2], dtype=wanted.dtype)
    with pytest.warns(
        UserWarning,
        match=rf"({row.name.lstrip('_')}|cat|{row.like}): 'out' was resized to {_sizes(wanted)} ",
    ):
        run_into(row, case.build(), wrong)
    assert wrong.shape == wanted.shape
    check_values(case, wrong, wanted)


def _sizes(x: Any) -> str:
    return re.escape(str(tuple(x.shape)))


@pytest.mark.parametrize("row", some([row for row in CASTS_OUT if row.out != "own"], 2), ids=str)
def test_out_of_another_dtype(row: Row) -> None:
    """The row defines whether the dtype is accepted. A rejected out keeps its values, sizes and
    version."""
    taken = refused = 0
    one_each = {id(case.sample): case for case in of_one(row)}.values()
    for case in list(one_each)[:6]:
        wanted = case.build().run()
        for of in STORED if wanted.dtype is dtypes.complex32 else ALL:
            if "dtype" in case.sample.kwargs:
                continue
            # A range of integers may be shorter than a range of floats, so its out starts empty.
            out = gt.ones(0 if _computes_in_out(case) else wanted.shape, dtype=of)
            if _takes(row, wanted.dtype, of):
                assert run_into(row, case.build(), out) is out and out.dtype is of, (
                    f"{case} into {of}"
                )
                if not _computes_in_out(case):
                    check_values(case, out, wanted)
                taken += 1
            else:
                with pytest.raises(GpuTensorError):
                    run_into(row, case.build(), out)
                    pytest.fail(f"{case} into {of}: was not refused")
                assert out._version == 0 and bool((out == 1).all()), (
                    f"{case} into {of}: was changed"
                )
                refused += 1
    assert taken and (refused or row.out == "any")


def _computes_in_out(case: Case) -> bool:
    """True if `out` determines the dtype of the arithmetic, so that values may differ."""
    return case.row.out in ("any", "inexact", "not_bool") and case.op().family in (
        "fft",
        "range",
        "reduce",
        "scan",
    )


def _takes(row: Row, result: dtype, out: dtype) -> bool:
    if row.out == "any":
        return True
    if row.out == "not_bool":
        return out is not dtypes.bool_
    if row.out == "inexact":
        return out.category >= FLOATING
    if row.out == "truth":
        return out in (dtypes.bool_, dtypes.uint8)
    return result is out if row.out == "same" else can_cast(result, out)


@pytest.mark.parametrize("row", SEVERAL_OUTS, ids=str)
def test_outs_of_several_results(row: Row) -> None:
    """The call returns the given outs. An out of the right sizes keeps its layout. If one out has
    another dtype, the call is refused and no out is written to."""
    several = [case for case in allowed(row) if outs_of(case) > 1]
    for case in several:
        wanted = case.build().run()
        for sizes in (lambda x: (0,), lambda x: tuple(x.shape)):
            outs = tuple([gt.empty(sizes(x), dtype=x.dtype) for x in wanted])
            found = run_into(row, case.build(), outs)
            assert all(x is out for x, out in zip(found, outs)), f"{case}: does not return out"
            for x, y in zip(outs, wanted):
                assert sizes(y) != (0,) or x.stride() == y.stride(), f"{case}: another layout"
                assert_same(to_numpy(x), to_numpy(y), case, "out")
    outs = tuple([gt.zeros(tuple(x.shape), dtype=x.dtype) for x in wanted[:-1]])
    other = gt.int32 if wanted[-1].dtype is gt.complex64 else gt.complex64
    wrong = gt.zeros(tuple(wanted[-1].shape), dtype=other)
    with pytest.raises(GpuTensorError):
        run_into(row, case.build(), (*outs, wrong))
    assert not any(bool(x.any()) for x in (*outs, wrong)), f"{row}: wrote to a refused out"


def test_not_empty() -> None:
    assert len(CASTS_OUT) > 20
    assert sum(_in_place(row) is not None for row in CALLABLE) > 10
