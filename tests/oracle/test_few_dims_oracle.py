"""Calls with a dimension on 0-d and 1-d tensors: sizes, strides, dtypes and values as PyTorch's."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import gputensor as gt  # noqa: E402

from .. import few_dims as F  # noqa: E402

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("name", F.CALLS)
def test_as_pytorch(name):
    for sizes in F.SIZES:
        for d in F.DIMS:
            theirs = F.outcome(F.CALLS[name], torch, sizes, d, "cpu")
            ours = F.outcome(F.CALLS[name], gt, sizes, d, "cpu")
            what = f"{name} of {list(sizes)}, {d}: {ours!r}, PyTorch {theirs!r}"
            assert isinstance(ours, Exception) == isinstance(theirs, Exception), what
            if not isinstance(ours, Exception):
                assert F.without_values(ours) == F.without_values(theirs) and F.close(
                    ours, theirs
                ), what
