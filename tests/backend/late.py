"""The example device with its own arithmetic, and with streams that run only when something waits
for them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import gputensor as gt

EXAMPLE = Path(__file__).parents[2] / "examples" / "openreg"
UFUNCS = {"mul": np.multiply, "add": np.add}


@contextmanager
def late() -> Iterator[Any]:
    """Register `gt.openreg` for the block. Operators without a kernel run on the CPU and wait for
    its stream."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        from gputensor_openreg import bring_up, kernels, runtime
    finally:
        sys.path.remove(str(EXAMPLE))

    def bind(op: str, plan: Any) -> Any:
        def launch(index: int, operands: tuple[Any, ...], scalars: tuple[Any, ...] = ()) -> None:
            out, x, y = [
                a if plan.stride_bytes[n] is None else kernels.operand(plan, n, a, index)
                for n, a in enumerate(operands)
            ]
            runtime.current_stream(index).submit(
                lambda: UFUNCS[op](x, y, out=out, casting="unsafe")
            )

        return launch

    with bring_up() as device, warnings.catch_warnings():
        warnings.simplefilter("ignore", gt.core.errors.FallbackWarning)
        device.register_stub("binary", bind, *UFUNCS)
        yield device
