"""Elementwise operators of float8 dtypes. The numbers are decoded to float32, the operator's loop
runs in float32, and the result is rounded to float8.

The field `dtypes:` of a YAML row declares whether the operator supports float8. Other operators do
not compute in float8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._generated import calls
from ...core import errors
from ...core.dtype import bool_, dtype
from ...iterator.plan import Plan
from ...tensor.tensor import Tensor
from .. import float8


class WideEntry:
    """A cached plan for float8 operands. It has the methods of a CpuEntry or a DeviceEntry, but no
    loop.

    find: a function that returns the entry of the same operator for the float32 operands.
    """

    __slots__ = ("plan", "geometry", "has_numbers", "find", "last_beside", "seen")
    numpy_allocates = False
    is_fresh = False
    block = 1

    def __init__(
        self, plan: Plan, has_numbers: bool, find: Callable[[tuple[Any, ...]], Any]
    ) -> None:
        self.plan, self.has_numbers, self.find = plan, has_numbers, find
        self.geometry = plan.outputs[0].geometry
        self.last_beside: Any = ((), ())
        self.seen: Any = self.last_beside

    def fresh(self, inputs: tuple[Any, ...], params: tuple[Any, ...] = ()) -> Tensor:
        """Return the result as a new tensor. Its dtype is bool or the dtype of the operands."""
        of = self.plan.common_dtype
        wide = tuple([_wide(x, of) for x in inputs])
        made: Tensor = self.find(wide).fresh(wide, params)
        return made if self.geometry.dtype is bool_ else _cast(made, of)

    def write(self, out: Tensor, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> None:
        """Write the result to `out`. If `out` has another dtype, the result is first rounded to
        float8."""
        if self.plan.numel:
            calls.copy_(out, self.fresh(inputs, params), False)


def check_factor(op: str, name: str, of: dtype, x: Any) -> None:
    """Raise if the second factor of a product is a number or a 0-d tensor.

    PyTorch does not multiply float8 numbers by such a factor, because rounding the factor to float8
    would lose most of its digits. Source: ATen/native/cpu/BinaryOpsKernel.cpp,
    "mul_cpu_reduced_float".
    """
    if not isinstance(x, Tensor) or not x._geometry.ndim:
        raise errors.not_computed(op, name, of, x)


def _wide(x: Any, of: Any) -> Any:
    """Return a tensor decoded to float32, or a number rounded to the float8 dtype."""
    if not isinstance(x, Tensor):
        return float8.rounded(x, of)
    if x._geometry.dtype is not of:
        x = _cast(x, of)
    return float8.decoded(x)


def _cast(x: Tensor, of: dtype) -> Tensor:
    return calls.to_dtype(x, of, False, False, None)
