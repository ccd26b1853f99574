"""Every operator's samples in `gt.fuse()`: equal bits and equal errors.

Each sample runs on computed operands and on pending ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor.core.device import device
from gputensor.fusion import running
from gputensor.op_tests import check, samples
from gputensor.structured.generator import manual_seed
from gputensor.tensor.storage import Storage

from ..harness import tier
from .same import state_of

ROWS = samples.load()
CHOSEN = ROWS if tier.is_full() else ROWS[::16]


def _ours(x: Any) -> Any:
    """Return a copy of a sample's tensor, or of tensors in a list, because NumPy shares the
    samples' memory."""
    for part in x if isinstance(x, (list, tuple)) else (x,):
        if isinstance(part, gt.Tensor) and part.device.type == "cpu":
            part._get_storage().__class__ = Storage
    return x


def pending(x: Any) -> Any:
    """Return a copy of x; in a block, the copy is pending."""
    if type(x) is gt.Tensor and not x.is_meta and x.numel() and x.dtype is not gt.complex32:
        return gt.where(gt.ones_like(x, dtype=gt.bool), x, x)
    return x


def outcome(
    case: Any, form: Callable[..., Any], is_fused: bool, prepare: Any, place: str = "cpu"
) -> Any:
    args, kwargs, tensors = case.build(device(place))
    args, kwargs = [_ours(x) for x in args], {k: _ours(x) for k, x in kwargs.items()}
    manual_seed(7)
    given = args
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            if is_fused:
                with gt.fuse():
                    given = [prepare(x) for x in args]
                    found = form(*given, **{k: prepare(x) for k, x in kwargs.items()})
            else:
                given = [prepare(x) for x in args]
                found = form(*given, **{k: prepare(x) for k, x in kwargs.items()})
        except Exception as error:
            found = (type(error), str(error))
    has_values = case.row.has_values
    said = [(w.category, str(w.message)) for w in told]
    return state_of((found, given, tensors), has_values), said


def records(name: str) -> bool:
    """True if operators of this name are recorded; then each dtype and layout may matter. Other
    operators run pending chains and then behave as in eager mode."""
    packet = getattr(gt.ops.aten, name, None)
    return packet is not None and any(
        not {"pointwise", "reduction"}.isdisjoint(getattr(packet, overload).tags)
        for overload in packet.overloads()
    )


@pytest.mark.parametrize("row", CHOSEN, ids=lambda row: row.name)
def test_it_is_what_it_is_eagerly(row: Any) -> None:
    for case, form, prepare in runs(row):
        eager = outcome(case, form, False, prepare)
        fused = outcome(case, form, True, prepare)
        assert fused == eager, (str(case), form, prepare)


def runs(row: Any) -> Iterator[tuple[Any, Callable[..., Any], Callable[[Any], Any]]]:
    """Run each sample on computed operands, which makes chains of one operator, and on pending
    operands, in every form. For recorded operators, also every dtype and layout with pending
    operands; the forms take turns."""
    forms = check._forms(row.name)
    for case in check._cases(row, every=False):
        for form in forms:
            yield case, form, lambda x: x
            yield case, form, pending
    if tier.is_full() and records(row.name):
        for number, case in enumerate(check._cases(row, every=True)):
            # The number of layouts is even, so each dtype begins with another form.
            turn = number + number // len(check.LAYOUTS)
            yield case, forms[turn % len(forms)], pending


def test_the_samples_record() -> None:
    """This shows that the comparison above tests chains: with pending operands they have two
    operators."""
    lengths = []
    running.watchers.append(lambda chain, reason: lengths.append(len(chain.instructions)))
    try:
        for row in ROWS:
            if row.name in ("add", "exp", "clamp", "lerp", "gelu", "eq", "where", "xlogy"):
                for case in check._cases(row, every=False):
                    outcome(case, check._main_form(row.name), True, pending)
    finally:
        running.watchers.pop()
    assert sum(n > 1 for n in lengths) > 20
