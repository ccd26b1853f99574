"""Calls with numbers at the limits of dtypes: PyTorch's results and errors."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import gputensor as gt  # noqa: E402

from .. import numbers as N  # noqa: E402

pytestmark = pytest.mark.oracle

HALVES = ("float16", "bfloat16")
WIDE = {v for v in N.WHOLE if not -(2**63) <= v < 2**64}


def _has_no_kernel(error: Any) -> bool:
    text = str(error)
    return (
        isinstance(error, NotImplementedError)
        or "not implemented" in text
        or "Promotion for uint16" in text
    )


def _differs_on_purpose(call: str, name: str, v: Any, theirs: Any, ours: Any) -> str | None:
    """Return the reason why results may differ, or None."""
    raises, we_raise = isinstance(theirs, Exception), isinstance(ours, Exception)
    floats = gt.core.dtype._NAMES[name].category > 1
    if raises and type(v) is int and (floats or call == "div"):
        if v in WIDE or call == "setitem":
            return "any integer that a double reaches is a number beside floating types"
    if raises and call == "setitem" and v in (2**63, 2**64 - 1):
        return "PyTorch unpacks what is assigned as int64, whatever the dtype"
    if name in HALVES and raises and call in N.STORED:
        return "f16 and bf16 round to infinity; PyTorch refuses that from two elements on"
    if name in HALVES and call in ("add", "radd", "sub", "rsub", "add_", "sub_", "add_out"):
        return (
            "PyTorch's CPU rounds a number to f16 or bf16 before it adds, its CUDA kernels do not"
        )
    if "complex" in str(theirs) and not raises and not we_raise:
        return "products with infinities, and signs of zeros"
    if call == "div_floor" and not raises and not we_raise and abs(v) > 3.4e38:
        return "beside infinities floor division is the array API's"
    if call.startswith("sub_alpha") and (raises != we_raise or v in (-(2**63), 2**64 - 1)):
        return "PyTorch negates alpha before it looks at its range"
    if name in HALVES and call == "addmv_" and not raises and not we_raise:
        return "PyTorch rounds beta to f16 or bf16 before it multiplies by it"
    scaled = ("add_alpha", "sub_alpha", "add_alpha_", "addr")
    if call in scaled and not raises and not we_raise and floats:
        return "PyTorch's product and sum are one rounding where its build has fused instructions"
    if call == "tensor" and name == "uint64" and type(v) is float:
        return "PyTorch's tensor() takes no float for uint64"
    if call.startswith("arange") and type(v) is int and abs(v) > 2**53 - 2:
        return "PyTorch counts the length in f64"
    if call == "linspace" and v == 2**63 - 1:
        return "PyTorch's f64 steps pass the end of int64"
    return None


@pytest.mark.parametrize("call", N.CALLS)
def test_as_pytorch(call: str) -> None:
    f = N.CALLS[call]
    for name in N.DTYPES:
        for v in N.NUMBERS:
            theirs = N.outcome(f, torch, N.tensor_of(torch, name, "cpu"), v)
            if isinstance(theirs, Exception) and _has_no_kernel(theirs):
                continue
            ours = N.outcome(f, gt, N.tensor_of(gt, name, "cpu"), v)
            if not N.same(theirs, ours) and not _differs_on_purpose(call, name, v, theirs, ours):
                pytest.fail(f"{call} of {name} and {v!r}: PyTorch {theirs!r}, got {ours!r}")
