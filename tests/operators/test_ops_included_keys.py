"""Every operator under `IncludeDispatchKeys`: its usual result, or an error that names the key."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.dispatch import IncludeDispatchKeys

from ..harness import compare
from ..harness.cases import CALLABLE, Case, cases, some
from ..rows import Row

# A backend with all kernels, a backend without kernels, an alias, keys of autograd, and all other
# keys.
KEYS = [
    "Meta",
    "CUDA",
    "XLA",
    "Autograd",
    "AutogradCPU",
    "AutogradCUDA",
    "Python",
    "BackendSelect",
    "QuantizedCPU",
]


@pytest.mark.parametrize("key", KEYS)
def test_an_included_key_breaks_nothing(key: str) -> None:
    ran = 0
    for row in some(CALLABLE, 4):
        for case, wanted in _some(row):
            call = case.build("cpu")
            try:
                with IncludeDispatchKeys(key):
                    found = call.run()
            except errors.GpuTensorError as error:
                assert key not in ("Autograd", "AutogradCPU", "BackendSelect"), f"{case}: {error}"
                assert key in str(error) or "cuda" in str(error), f"{case}: {error}"
                continue
            _assert_alike(found, wanted, case)
            ran += 1
    assert ran > 20, "hardly anything ran"


@cache
def _some(row: Row) -> list[tuple[Case, Any]]:
    """Return two valid cases with their results: an ordinary one from the beginning, and an unusual
    one from the end."""
    fine = [c for c in cases(row, crossed=False) if c.expected() is not None]
    return [(c, c.build("cpu").run()) for c in (fine[0], fine[-1])] if fine else []


def _assert_alike(found: Any, wanted: Any, case: Any) -> None:
    if isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted), str(case)
        for x, y in zip(found, wanted):
            _assert_alike(x, y, case)
    elif isinstance(wanted, gt.Tensor):
        assert found.device == wanted.device, f"{case}: result is on {found.device}"
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), str(case)
        if case.row.ref is not None:
            compare.assert_same(compare.to_numpy(found), compare.to_numpy(wanted), case)
    else:
        assert found == wanted or found != found, str(case)
