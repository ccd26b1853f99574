"""Sizes of the results of the operators in distributed/operators.py, and their Meta kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from .._generated import calls
from ..core import errors
from ..dispatch import dispatcher
from ..dispatch.operator import Operator
from ..tensor.tensor import Tensor


def empty(like: Tensor, sizes: Sequence[int]) -> Tensor:
    return calls.empty_memory_format(sizes, dtype=like._geometry.dtype, device=like._device)


def check_size(op: str, group_size: int, size: int | None = None) -> None:
    """Raise for a wrong group_size. size: the group's size; None for Meta, which has no group."""
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


@cache
def operator(name: str) -> Operator:
    """Return an operator by name. Its family is loaded at the first call."""
    return dispatcher.find(f"_c10d_functional::{name}")


# --- kernels for Meta -----------------------------------------------------------------------------


def like(key_set: int, input: Tensor, *rest: Any) -> Tensor:
    return empty(input, input._geometry.sizes)


def exchanged(key_set: int, input: Tensor, output_split_sizes: Any, *rest: Any) -> Tensor:
    rows, *others = input._geometry.sizes
    return empty(input, (sum(output_split_sizes) if output_split_sizes else rows, *others))


def gathered(key_set: int, input: Tensor, group_size: int, group_name: str) -> Tensor:
    check_size("all_gather_into_tensor", group_size)
    return empty(input, gathered_sizes(input, group_size))


def scattered(
    key_set: int, input: Tensor, reduce_op: str, group_size: int, group_name: str
) -> Tensor:
    check_size("reduce_scatter_tensor", group_size)
    return empty(input, scattered_sizes("reduce_scatter_tensor", input, group_size))


def of_each(function: Callable[..., Tensor]) -> Callable[..., list[Tensor]]:
    return lambda key_set, inputs, *rest: [function(key_set, x, *rest) for x in inputs]


def given(key_set: int, input: Any, *rest: Any) -> Any:
    return input


def last(key_set: int, *args: Any) -> Any:
    return args[-1]
