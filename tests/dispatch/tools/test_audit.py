"""audit_copies: every copy, cast, transfer and lost memory format, with the line that caused it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import gputensor as gt
from gputensor.dispatch import dispatcher

has_cuda = pytest.mark.skipif(not gt.cuda.is_available(), reason="transfers need a second device")


def here(back: int = 0) -> str:
    frame = inspect.currentframe().f_back  # type: ignore[union-attr]
    return f"{__file__}:{frame.f_lineno - back}"  # type: ignore[union-attr]


def kinds(audit: Any) -> list[tuple[str, str]]:
    return [(r.kind, r.op.removeprefix("aten::")) for r in audit.records]


def test_a_copy_with_bytes_time_and_line() -> None:
    x = gt.ones(2, 3).t()
    with gt.audit_copies() as audit:
        x.contiguous()
        line = here(1)
    (record,) = audit.records
    assert (record.kind, record.op, record.nbytes, record.site) == (
        "copy",
        "aten::contiguous",
        24,
        line,
    )
    assert record.path == ("aten::contiguous", "aten::clone", "aten::copy_")
    assert record.time_us > 0 and record.device_us is None
    assert record.what == "f32[3,2] cpu strides (1, 3) -> f32[3,2] cpu strides (2, 1)"


def test_what_copies_nothing_is_not_there() -> None:
    x = gt.ones(2, 3)
    with gt.audit_copies() as audit:
        (
            x.contiguous(),
            x.reshape(6),
            x.t(),
            x[1],
            x + 1,
            x.to(gt.float32),
            x.sum(0),
            x.add_(1),
            gt.ones(4),
        )
        x.copy_(x), gt.empty(0).clone(), x.to("meta")
    assert audit.records == [] and audit.total_bytes == 0 and len(audit) == 0


def test_casts() -> None:
    x = gt.ones(4)
    with gt.audit_copies() as audit:
        x.double()
        gt.empty(4, dtype=gt.int32).copy_(x)
        x[:2] = gt.arange(2)
    assert kinds(audit) == [("cast", "to.dtype"), ("cast", "copy_"), ("cast", "copy_")]
    assert [r.nbytes for r in audit] == [32, 16, 8]


def test_copies_that_operators_make_for_themselves() -> None:
    x = gt.ones(2, 3)
    with gt.audit_copies() as audit:
        x.t().reshape(6)
        gt.cat([x, x])
        x.flip(0)
        gt.tensor([1j]).conj() * 2
    found = [(kind, op) for kind, op in kinds(audit) if op != "tensor"]
    assert found == [
        ("copy", "reshape"),
        ("copy", "cat"),
        ("copy", "cat"),
        ("copy", "flip"),
        ("copy", "mul.Tensor"),
    ]
    assert audit.total_bytes == 24 * 4 + 8


@has_cuda
def test_transfers() -> None:
    x = gt.ones(2, 3)
    with gt.audit_copies() as audit:
        y = x.cuda()
        y.t().cpu()
        y.to("cuda:1") if gt.cuda.device_count() > 1 else y.cpu()
        y.double()
    assert [k for k, _ in kinds(audit) if k != "copy"] == ["transfer"] * 3 + ["cast"]
    assert all(r.nbytes == 24 for r in audit if r.kind == "transfer")
    assert audit.records[-1].device_us > 0


def test_a_lost_memory_format() -> None:
    image = gt.ones(2, 3, 4, 5).contiguous(memory_format=gt.channels_last)
    other = gt.ones(2, 3, 4, 5)
    with gt.audit_copies() as audit:
        gt.cat([image, other])
        line = here(1)
        image + 1, image * image, gt.cat([image, image])  # these keep it
        image.contiguous(), image.sum(0)  # requested formats; another rank
        image.permute(0, 2, 3, 1), image[:1]
    lost = [r for r in audit if r.kind == "format"]
    assert [(r.op, r.nbytes, r.site, r.time_us) for r in lost] == [("aten::cat", 960, line, None)]
    assert "channels_last" in lost[0].what and audit.total_bytes == 480 * 5


def test_the_table() -> None:
    with gt.audit_copies() as audit:
        gt.ones(3).double()
    head, _line, row, total = str(audit).splitlines()
    assert head.split()[:2] == ["kind", "op"] and row.startswith("cast") and "test_audit.py" in row
    assert total == "1 records, 24 bytes copied"
    assert repr(audit.records[0]).startswith("cast: aten::to.dtype, 24 bytes, ")


def test_audits_nest_and_leave_nothing() -> None:
    x = gt.ones(3)
    with gt.audit_copies() as outer:
        x.double()
        with gt.audit_copies() as inner:
            x.clone()
    x.clone()
    assert (len(outer), len(inner)) == (2, 1)
    assert dispatcher._wraps == ()
