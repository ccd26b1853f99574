"""Sizes of what the operators of distributed/operators.py give, and their kernels for Meta."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._generated import calls
from ..core import errors
from ..tensor.tensor import Tensor


def empty(like: Tensor, sizes: Sequence[int]) -> Tensor:
    made: Tensor = calls.empty_memory_format(sizes, dtype=like._geometry.dtype, device=like._device)
    return made


def check_size(op: str, group_size: int, size: int | None = None) -> None:
    """size: the group's, where that is known; Meta is in none."""
    if group_size != size if size else group_size < 1:
        rule = f"be the group's size, {size}" if size else "be the size of a group"
        raise errors.wrong_value(op, "group_size", rule, group_size)


def gathered_sizes(x: Tensor, group_size: int) -> tuple[int, ...]:
    first, *rest = x._geometry.sizes or (1,)
    return (first * group_size, *rest)


def scattered_sizes(op: str, x: Tensor, group_size: int) -> tuple[int, ...]:
    sizes = x._geometry.sizes
    if not sizes or sizes[0] % group_size:
        rule = f"have a first dimension that {group_size} divides"
        raise errors.wrong_shape(op, "input", rule, x)
    return (sizes[0] // group_size, *sizes[1:])


def _like(input: Tensor, *rest: Any) -> Tensor:
    return empty(input, input._geometry.sizes)


def _all_to_all(input: Tensor, output_split_sizes: Any, *rest: Any) -> Tensor:
    rows, *others = input._geometry.sizes
    return empty(input, (sum(output_split_sizes) if output_split_sizes else rows, *others))


def _gathered(input: Tensor, group_size: int, group_name: str) -> Tensor:
    check_size("all_gather_into_tensor", group_size)
    return empty(input, gathered_sizes(input, group_size))


def _scattered(input: Tensor, reduce_op: str, group_size: int, group_name: str) -> Tensor:
    check_size("reduce_scatter_tensor", group_size)
    return empty(input, scattered_sizes("reduce_scatter_tensor", input, group_size))


def _of_each(function: Callable[..., Tensor]) -> Callable[..., list[Tensor]]:
    return lambda inputs, *rest: [function(x, *rest) for x in inputs]


def _given(input: Any, *rest: Any) -> Any:
    return input


def _inputs(inputs: Any, *rest: Any) -> Any:
    return inputs


def _out(input: Tensor, *rest: Any, out: Tensor) -> Tensor:
    return out


KERNELS: dict[str, Callable[..., Any]] = {
    "all_reduce": _like, "broadcast": _like,
    "all_reduce_": _given,
    "broadcast_": _given,
    "all_reduce_coalesced": _of_each(_like),
    "all_reduce_coalesced_": _inputs,
    "all_gather_into_tensor": _gathered,
    "all_gather_into_tensor_out": _out,
    "all_gather_into_tensor_coalesced": _of_each(_gathered),
    "reduce_scatter_tensor": _scattered,
    "reduce_scatter_tensor_out": _out,
    "reduce_scatter_tensor_coalesced": _of_each(_scattered),
    "all_to_all_single": _all_to_all,
}  # fmt: skip
