"""Derivatives of the operators `_c10d_functional::…`.

A derivative is also a collective, and waits for its result. All ranks of a group must call
backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .groups import group_named
from .shapes import operator
from .work import wait_for
from .._generated import calls
from ..core import errors
from ..tensor.tensor import Tensor


def _waited(name: str, *args: Any) -> Any:
    made = operator(name)(*args)
    for x in made if isinstance(made, list) else (made,):
        wait_for(x)
    return made


def _check_linear(op: str, reduce_op: str) -> None:
    if reduce_op not in ("sum", "avg"):
        raise errors.wrong_value(op, "reduce_op", "be sum or avg, to have a gradient", reduce_op)


def all_reduce_backward(grad: Tensor, reduce_op: str, group_name: str) -> Tensor:
    _check_linear("all_reduce", reduce_op)
    made: Tensor = _waited("all_reduce", grad, reduce_op, group_name)
    return made


def all_reduce_coalesced_backward(
    grads: Sequence[Tensor], reduce_op: str, group_name: str
) -> list[Tensor]:
    _check_linear("all_reduce", reduce_op)
    made: list[Tensor] = _waited("all_reduce_coalesced", [*grads], reduce_op, group_name)
    return made


def all_gather_backward(
    grad: Tensor, shape: Sequence[int], group_size: int, group_name: str
) -> Tensor:
    made: Tensor = _waited("reduce_scatter_tensor", grad, "sum", group_size, group_name)
    return calls.reshape(made, shape)


def all_gather_coalesced_backward(
    grads: Sequence[Tensor], shapes: Sequence[Sequence[int]], group_size: int, group_name: str
) -> list[Tensor]:
    name = "reduce_scatter_tensor_coalesced"
    made = _waited(name, [*grads], "sum", group_size, group_name)
    return [calls.reshape(x, shape) for x, shape in zip(made, shapes)]


def reduce_scatter_backward(
    grad: Tensor, reduce_op: str, group_size: int, group_name: str
) -> Tensor:
    _check_linear("reduce_scatter_tensor", reduce_op)
    made: Tensor = _waited("all_gather_into_tensor", grad, group_size, group_name)
    return made / group_size if reduce_op == "avg" else made


def reduce_scatter_coalesced_backward(
    grads: Sequence[Tensor], reduce_op: str, group_size: int, group_name: str
) -> list[Tensor]:
    _check_linear("reduce_scatter_tensor", reduce_op)
    made = _waited("all_gather_into_tensor_coalesced", [*grads], group_size, group_name)
    return [x / group_size for x in made] if reduce_op == "avg" else made


def all_to_all_backward(
    grad: Tensor, output_split_sizes: Sequence[int], input_split_sizes: Sequence[int],
    group_name: str,
) -> Tensor:  # fmt: skip
    back = [*input_split_sizes], [*output_split_sizes]
    made: Tensor = _waited("all_to_all_single", grad, *back, group_name)
    return made


def broadcast_backward(grad: Tensor, src: int, group_name: str) -> Tensor:
    made: Tensor = _waited("all_reduce", grad, "sum", group_name)
    is_source = group_named("broadcast", group_name).rank() == src
    return made if is_source else calls.zeros_like(made)


def not_by_writing(op: str) -> Any:
    """Raise an error, as PyTorch does: operators that write to an argument have no derivative."""
    raise errors.derivative_not_implemented(op)
