"""Calls with a number as argument, for all dtypes and numbers at the limits of their ranges.

A call is `call(lib, x, v)`, where `lib` is gputensor or PyTorch, `x` its tensor and `v` the number.
tests/test_numbers.py compares devices with each other, tests/oracle/test_numbers_oracle.py compares
with PyTorch.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from gputensor.core import dtype as dtypes

DTYPES = [d.name for d in dtypes.ALL]
# Elements that every dtype can hold, if necessary after wrapping: the limits of the 8-bit types,
# and small numbers.
ELEMENTS = (0, 1, 2, 3, 100, 127, -1, -3, -128)

WHOLE = (
    0, 1, -1, 2, -3, 44, 100, 127, 128, -128, -129, 200, 255, 256, -255, -256, 300, 32767, 32768,
    -32768,
    -32769, 65535, 65536, -65536, 2**24 + 1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 - 1,
    2**32,
    2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 2**64 + 1, 2**100,
    10**400,
)  # fmt: skip
FRACTIONS = (
    0.0, -0.0, 0.5, -0.5, 1.5, -1.0, 2.5, 127.5, 128.0, -128.5, 255.5, 300.0, 65504.0, 70000.0,
    3e9, -3e9,
    2.0**62, 1e19, 1e20, 1e38, 1e39, -1e39, 1e308, math.inf, -math.inf, math.nan,
)  # fmt: skip
OTHERS = (True, False, 1j, 2 + 0j, 1e39 + 1j)
NUMBERS = (*WHOLE, *FRACTIONS, *OTHERS)

Call = Callable[[Any, Any, Any], Any]


def _assigned(lib: Any, x: Any, v: Any) -> Any:
    x[0] = v
    return x


def _out(name: str) -> Call:
    def call(lib: Any, x: Any, v: Any) -> Any:
        return getattr(lib, name)(x, v, out=lib.empty_like(x, dtype=getattr(lib, name)(x, x).dtype))

    return call


def _method(name: str) -> Call:
    return lambda lib, x, v: getattr(x, name)(v)


# Arithmetic and comparison: the number is combined with the elements, and wraps in integer types.
MEETING: dict[str, Call] = {
    "add": lambda lib, x, v: x + v,
    "radd": lambda lib, x, v: v + x,
    "sub": lambda lib, x, v: x - v,
    "rsub": lambda lib, x, v: v - x,
    "mul": lambda lib, x, v: x * v,
    "div": lambda lib, x, v: x / v,
    "div_floor": lambda lib, x, v: lib.div(x, v, rounding_mode="floor"),
    "div_trunc": lambda lib, x, v: lib.div(x, v, rounding_mode="trunc"),
    **{name: _method(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: _method(name) for name in ("add_", "sub_", "mul_", "eq_", "ne_", "lt_")},
    **{f"{name}_out": _out(name) for name in ("add", "mul", "eq", "ge")},
    "contains": lambda lib, x, v: v in x,
}
# The number is stored or is a factor, so the dtype must be able to represent it.
STORED: dict[str, Call] = {
    "fill_": _method("fill_"),
    "setitem": _assigned,
    "full": lambda lib, x, v: lib.full((2,), v, dtype=x.dtype, device=x.device),
    "full_like": lambda lib, x, v: lib.full_like(x, v),
    "new_full": lambda lib, x, v: x.new_full((2,), v),
    "scalar_tensor": lambda lib, x, v: lib.scalar_tensor(v, dtype=x.dtype, device=x.device),
    "tensor": lambda lib, x, v: lib.tensor([v, v], dtype=x.dtype, device=x.device),
    "where_other": lambda lib, x, v: lib.where(x == 1, x, v),
    "where_self": lambda lib, x, v: lib.where(x == 1, v, x),
    "add_alpha": lambda lib, x, v: lib.add(x, x, alpha=v),
    "sub_alpha": lambda lib, x, v: lib.sub(x, x, alpha=v),
    "add_alpha_": lambda lib, x, v: x.add_(x.clone(), alpha=v),
    "addmm_beta": lambda lib, x, v: lib.addmm(x[:2].reshape(1, 2), x[:1].reshape(1, 1),
    x[:2].reshape(1, 2), beta=v),
    "addmm_alpha": lambda lib, x, v: lib.addmm(x[:2].reshape(1, 2), x[:1].reshape(1, 1),
    x[:2].reshape(1, 2), alpha=v),
    "addmv_": lambda lib, x, v: x[:2].clone().addmv_(x[:4].reshape(2, 2), x[:2], beta=v),
    "addr": lambda lib, x, v: lib.addr(x[:4].reshape(2, 2), x[:2], x[1:3], beta=v),
    "addbmm": lambda lib, x, v: lib.addbmm(x[:1].reshape(1, 1), x[:2].reshape(2, 1, 1),
    x[:2].reshape(2, 1, 1), beta=v),
    "baddbmm": lambda lib, x, v: lib.baddbmm(x[:2].reshape(1, 1, 2), x[:1].reshape(1, 1, 1),
    x[:2].reshape(1, 1, 2), alpha=v),
    "arange": lambda lib, x, v: lib.arange(0, 3, v, dtype=x.dtype, device=x.device),
    "arange_start": lambda lib, x, v: lib.arange(v, v + 2, dtype=x.dtype, device=x.device),
    "linspace": lambda lib, x, v: lib.linspace(0, v, 3, dtype=x.dtype, device=x.device),
}  # fmt: skip
CALLS = MEETING | STORED


def tensor_of(lib: Any, name: str, device: str, step: int = 1) -> Any:
    """Return ELEMENTS in a dtype, wrapped into its range; with `step`, as every step-th element of
    memory."""
    made = lib.tensor(ELEMENTS, device="cpu").to(getattr(lib, name))
    spread = lib.zeros(len(ELEMENTS) * step, dtype=made.dtype)
    spread[::step] = made
    return spread.to(device)[::step] if step > 1 else made.to(device)


def outcome(call: Call, lib: Any, x: Any, v: Any) -> Any:
    """Return the result as (dtype, values), or the exception."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = call(lib, x, v)
    except Exception as error:
        return error
    if isinstance(found, bool):
        return found
    return (
        str(found.dtype).partition(".")[2],
        list(found.shape) if found.is_meta else found.tolist(),
    )


def same(a: Any, b: Any) -> bool:
    """True for equal outcomes: both are errors, or dtypes and values are equal; NaN equals NaN."""
    if isinstance(a, Exception) or isinstance(b, Exception):
        return isinstance(a, Exception) and isinstance(b, Exception)
    return repr(a).replace("-nan", "nan") == repr(b).replace("-nan", "nan")


def cases() -> Iterator[tuple[str, str, Any]]:
    """Return all triples (call, dtype, number)."""
    for call in CALLS:
        for name in DTYPES:
            for v in NUMBERS:
                yield call, name, v
