"""Integer division by the compiled loops, in f64 where that is exact; see loops/binary.cpp.

Other operators of the family are bound by `stub.cpu_loop`; these look for zeros first, and raise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.dtype import INTEGER, dtype
from ..cpu import binary as numpys
from . import library

_DIVISIONS = ("div_floor", "div_trunc", "fmod", "remainder")


def bind(op: str, inputs: Sequence[Any], common: dtype, out: dtype) -> Callable[..., Any]:
    """The loop `(a, b, out=None)`, or `(a, b, alpha, out=None)`, of `op` for these dtypes."""
    plain = numpys.bind(op, inputs, common, out)
    if op not in _DIVISIONS or common.category != INTEGER:
        return plain
    loop = library.bind("binary", f"{op}_unchecked", tuple(inputs), common, out, plain)
    if loop is None:
        return plain
    return numpys.checked_division(op.partition("_")[0], loop, inputs, common)
