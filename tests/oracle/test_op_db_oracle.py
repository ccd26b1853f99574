"""All samples of PyTorch: the number of calls that agree may only increase."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("torch")

from tests.op_db import frozen, ratchet, replay, report

from . import freeze_op_db, op_db

pytestmark = pytest.mark.oracle

RECORDINGS = [("leaves", d) for d in ("float32", "int64", "bfloat16", "complex64")]
RECORDINGS += [("gradients", d) for d in ("float64", "complex128")]


@pytest.mark.parametrize(("kind", "dtype"), RECORDINGS)
def test_counts_never_fall(kind: str, dtype: str) -> None:
    cases = op_db.recording(kind, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = replay.verdicts(cases, report.check)
    assert len(found) > 250
    assert not ratchet.fallen(f"recorded_{kind}", dtype, found.values())


def test_what_is_frozen_is_of_this_version() -> None:
    import torch

    from tests.op_db.cases import read

    version = torch.__version__.partition("+")[0]
    assert {read(frozen.file(kind))[0]["torch"] for kind in frozen.KINDS} == {version}
    assert freeze_op_db.names() == freeze_op_db.NAMES.read_text(encoding="utf-8")
