"""Errors listed in the rows: the exception, its message, and that nothing has changed.

test_ops_forward.py tests errors of dtypes that the YAML excludes.
"""

from __future__ import annotations

import pytest

import gputensor as gt
from gputensor.core import dtype as dtypes
from gputensor.core.errors import GpuTensorError

from ..harness.cases import CALLABLE, Case
from ..rows import Fails, Row

REFUSING = [row for row in CALLABLE if row.errors]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("row", REFUSING, ids=str)
def test_refused(row: Row, device: str) -> None:
    if device == "meta" and row.no_meta:
        pytest.skip(row.no_meta)
    for fails in row.errors:
        check_refused(row, fails, device)


def check_refused(row: Row, fails: Fails, device: str) -> None:
    case = Case(row, fails.sample, fails.dtype or dtypes.float32)
    call = case.build(device)
    tensors = [made.tensor for made in call.built]
    before = [(x.shape, x.stride(), x.storage_offset(), x._version) for x in tensors]
    with pytest.raises(fails.kind, match=fails.message) as caught:
        call.run()
        pytest.fail(f"{case}: was not refused on {device}")
    assert isinstance(caught.value, GpuTensorError), f"{case}: {caught.value!r} is not of the house"
    text = str(caught.value)
    assert "\n" not in text and not text.endswith("."), f"{case}: {text!r}"
    after = [(x.shape, x.stride(), x.storage_offset(), x._version) for x in tensors]
    assert after == before, f"{case}: a tensor has changed"
    if device == "cpu":
        call.assert_unchanged()


def test_not_empty() -> None:
    assert len(REFUSING) > 50
    assert gt.GpuTensorError is GpuTensorError
