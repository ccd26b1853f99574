"""Write gputensor/op_tests/samples.json from rows: `python -m tests.freeze_samples [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from gputensor.core.dtype import ALL
from gputensor.op_tests import samples
from gputensor.tensor.tensor import Tensor

from .harness.cases import OPS_OF
from .rows import DEVICE, DTYPE, ROWS, Row, S, T

FILE = Path(samples.__file__).parent / samples.FILE


def text() -> str:
    rows = [
        samples.Samples(
            row.name, [(_enter(s.args), _enter(s.kwargs)) for s in row.samples if _is_free(row, s)],
            row.dtypes or ALL,
            row.ref is not None, row.device_ulp, row.refuses_expanded,
        )
        for row in ROWS.values() if not row.needs_backend
    ]  # fmt: skip
    return samples.dump(rows)


def _is_free(row: Row, sample: S) -> bool:
    """True if operands and result have the same device. This is false if a tensor is always on the
    CPU, or is the end of a range, which is made on the default device."""
    if any(isinstance(x, Tensor) for x in sample.args):
        return False
    return not (OPS_OF[row.name][0].is_factory and any(isinstance(x, T) for x in sample.args))


def _enter(x: Any) -> Any:
    if x is DTYPE or x is DEVICE:
        return samples.Fill("dtype" if x is DTYPE else "device")
    if isinstance(x, dict):
        return {name: _enter(value) for name, value in x.items()}
    if isinstance(x, (tuple, list)):
        return [_enter(y) for y in x]
    return x


def is_current() -> bool:
    return FILE.exists() and FILE.read_text(encoding="utf-8") == text()


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if is_current() else "samples.json is stale; run python -m tests.freeze_samples")
    FILE.write_text(text(), encoding="utf-8")
