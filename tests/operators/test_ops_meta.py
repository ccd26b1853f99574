"""Every operator on the meta device: sizes, strides and dtype as on the CPU, and no data."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.core.errors import GpuTensorError

from ..harness.cases import CALLABLE, cases, some
from ..rows import Row

META = gt.device("meta")


def layout_of(x: Any) -> tuple[Any, ...]:
    return tuple(x.shape), x.stride(), x.dtype, x.storage_offset()


@pytest.mark.parametrize("row", some([row for row in CALLABLE if not row.no_meta], 4), ids=str)
def test_layouts(row: Row) -> None:
    checked = 0
    for case in cases(row, crossed=False):
        if case.expected() is None:
            with pytest.raises(GpuTensorError):
                case.build("meta").run()
                pytest.fail(f"{case}: was not refused on meta")
            continue
        on_cpu = case.build("cpu").run()
        if case.op().name == "where":  # only the sizes of this overload depend on elements
            with pytest.raises(GpuTensorError):
                case.build("meta").run()
            continue
        on_meta = case.build("meta").run()
        results = on_meta if isinstance(on_meta, (list, tuple)) else [on_meta]
        wanted = on_cpu if isinstance(on_cpu, (list, tuple)) else [on_cpu]
        assert len(results) == len(wanted), str(case)
        for x, y in zip(results, wanted):
            if isinstance(y, bool) or y is None:  # the result is a property of the tensor, or None
                assert x is y, str(case)
                continue
            assert x.device is META, f"{case}: result is on {x.device}"
            assert x.untyped_storage().data is None, f"{case}: has data"
            assert layout_of(x) == layout_of(y), f"{case}: meta {layout_of(x)}, CPU {layout_of(y)}"
        checked += 1
    assert checked


@pytest.mark.parametrize("row", [row for row in CALLABLE if row.no_meta], ids=str)
def test_without_data_there_is_no_value(row: Row) -> None:
    refused = 0
    for case in cases(row, crossed=False):
        try:
            found = case.build("meta").run()
        except GpuTensorError:
            refused += 1
        else:  # another overload of the name, whose sizes depend only on sizes
            wanted = case.build().run()
            several = isinstance(found, tuple)
            for x, y in zip(found, wanted) if several else ((found, wanted),):
                assert layout_of(x) == layout_of(y), f"{case}: gave a value on meta"
    assert refused
