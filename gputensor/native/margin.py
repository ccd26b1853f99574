"""Losses of margins between classes, and their gradients. multi_margin_loss has one target per row,
multilabel_margin_loss has several.

On the CPU, both losses have compiled loops; otherwise they are composed of other operators. f16 and
bf16 are computed in f32 and rounded once. A mean over no rows is NaN, where PyTorch returns
uninitialised memory.
Source: aten/src/ATen/native/LossMultiMargin.cpp and LossMultiLabelMargin.cpp.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .._generated import calls, operators
from ..core import dtype as dtypes, errors
from ..core.device import CPU
from ..core.geometry import contiguous_geometry
from ..dispatch import keys, shortcuts
from ..dispatch.tls import AUTOGRAD
from ..kernels import stub
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from .criterion import MEAN, NONE, check_reduction, reduced, reducing
from ..structured.layers.precision import cast, wide
from ..structured import arguments
from ..structured.shortcuts import results as short

Sizes = tuple[int, ...]
Results = list[Tensor] | None

_multilabel = stub.compiled("margin", "multilabel")
_multilabel_backward = stub.compiled("margin", "multilabel_backward")
_multi, _multi_backward = [stub.compiled("margin", op) for op in ("multi", "multi_backward")]


def _rows(op: str, self: Tensor) -> Tensor:
    """Return the input as (rows, classes), in the dtype of the computation."""
    given = self._geometry
    arguments.check_is_floating(op, "self", self)
    if given.ndim > 2 or given.ndim and not given.sizes[-1]:
        rule = "have at most two dimensions, (rows, classes), and a class"
        raise errors.wrong_shape(op, "self", rule, self)
    return calls.reshape(wide(self), given.sizes if given.ndim == 2 else (1, given.numel))


def _check_targets(op: str, self: Tensor, target: Tensor) -> None:
    if target._geometry.dtype is not dtypes.int64:
        raise errors.wrong_dtype(op, "target", "hold classes as int64", target)
    arguments.check_device(op, "self", self, "target", target)


def _has_array(x: Tensor) -> bool:
    """Return True for an ordinary tensor on the CPU, and False within a transformation of
    gt.func."""
    return x._device is CPU and not x._keys & (keys.BATCHED | keys.DUAL)


def _check_classes(op: str, target: Tensor, sizes: Sizes, least: int) -> None:
    """On the CPU, raise if a class is invalid: see Note [Targets outside the classes] in loss.py.
    The compiled loops check the classes themselves."""
    if target._geometry.numel and _has_array(target):
        array = target._get_array()
        outside = array[(array < least) | (array >= sizes[-1])]
        if outside.size:
            rule, got = f"hold classes in [{least}, {sizes[-1] - 1}]", str(outside.flat[0])
            raise errors.must(op, "target", rule, errors.Got(got), kind=errors.IndexRangeError)


def _share(op: str, grad: Tensor, rows: int, reduction: int) -> Tensor:
    """Return the gradients of the rows' losses as a column. They are grad_output, divided by the
    number of rows if the reduction is a mean."""
    check_reduction(op, reduction)
    grad = calls.reshape(wide(grad), (-1 if grad._geometry.numel else 0, 1))
    return grad / rows if reduction == MEAN and rows else grad


def _by_loop(
    loop: Callable[..., bool], wanted: Sequence[Sizes], x: Tensor, operands: Sequence[Any],
    *numbers: Any,
) -> Results:  # fmt: skip
    """Call the CPU's loop `(*operands, *results, *numbers)` and return the results, which have the
    sizes `wanted` and x's dtype. Return None if the loop cannot be used. x is one of the
    operands."""
    of = x._geometry
    if not of.numel or not all([t is None or _has_array(t) for t in operands]):
        return None
    arrays = [None if t is None else np.ascontiguousarray(t._get_array()) for t in operands]
    made = [allocate(contiguous_geometry(sizes, of.dtype), CPU) for sizes in wanted]
    return made if loop(*arrays, *[t._get_array() for t in made], *numbers) else None


# --- one target per row -------------------------------------------------------------------------


def _checked(
    op: str, self: Tensor, target: Tensor, p: Any, weight: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Check the arguments. Return the input as (rows, classes), and the weights. Both are in the
    dtype of the computation."""
    x = _rows(op, self)
    rows, classes = x._geometry.sizes
    if target._geometry.ndim > 1 or target._geometry.numel != rows:
        raise errors.wrong_shape(op, "target", f"have a class for each row, {rows}", target)
    _check_targets(op, self, target)
    if p not in (1, 2):
        raise errors.must(op, "p", "be 1 or 2", p)
    if weight is None:
        return x, None
    if weight._geometry.ndim > 1 or weight._geometry.numel != classes:
        raise errors.wrong_shape(op, "weight", f"have {classes} elements", weight)
    if weight._geometry.dtype is not self._geometry.dtype:
        rule = f"be {self._geometry.dtype.short}, as self is"
        raise errors.wrong_dtype(op, "weight", rule, weight)
    return x, calls.reshape(wide(weight), (classes,))


def _lacking(
    op: str, x: Tensor, target: Tensor, margin: Any, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the margin violations of all classes except the target, the targets as a column, and
    the weights of the targets."""
    rows = x._geometry.sizes[0]
    _check_classes(op, target, x._geometry.sizes, 0)
    at = calls.reshape(target, (rows, 1))
    if weight is not None:
        weight = calls.reshape(
            calls.index_select(weight, 0, calls.reshape(target, (rows,))), (rows, 1)
        )
    apart = x - calls.gather(x, 1, at) + margin
    lacking = calls.where_self(apart > 0, apart, 0)  # NaN becomes 0
    return calls.scatter_value(lacking, 1, at, 0), at, weight


def multi_margin_loss(
    key_set: int, self: Tensor, target: Tensor, p: Any, margin: Any, weight: Tensor | None,
    reduction: int,
) -> Tensor:  # fmt: skip
    op = "multi_margin_loss"
    x, weight = _checked(op, self, target, p, weight)
    rows, classes = x._geometry.sizes
    found = _by_loop(_multi, ((rows,),), x, (x, target, weight), int(p), float(margin))
    has_loop = found is not None
    if found is None:
        each, _, factor = _lacking(op, x, target, margin, weight)
        if p == 2:
            each = each * each
        if factor is not None:
            each = each * factor
        found = [calls.sum_dim_IntList(each, (1,), False) / classes]
    (losses,) = found
    if reduction == NONE:
        losses = calls.reshape(losses, target._geometry.sizes)
    made = cast(reduced(op, losses, reduction), self._geometry.dtype)
    if has_loop and weight is None:
        _learn(self, target, x, made, p, margin, reduction)
    return made


def _learn(
    self: Tensor, target: Tensor, x: Tensor, made: Tensor, p: Any, margin: Any, reduction: int
) -> None:
    """Store the short cut of multi_margin_loss without weights. x: self as (rows, classes)."""
    given = x._geometry
    if given.dtype is not self._geometry.dtype:
        return
    reduce = reducing(given.dtype, given.sizes[0], reduction)

    def compute(x: Any, target: Any) -> Any:
        rows, classes = x.reshape(given.sizes), target.reshape(-1)
        losses = np.empty(len(rows), rows.dtype)
        arrays = map(np.ascontiguousarray, (rows, classes))
        done = _multi(*arrays, None, losses, int(p), float(margin))
        return reduce(losses).reshape(made._geometry.sizes) if done else None

    table, args = operators.multi_margin_loss.table, (self, target, p, margin, None, reduction)
    short.learn(table, multi_margin_loss, args, made, compute, is_new=True)


_OVER_ALL = "reduce._over_all_cpu.<locals>.kernel"
shortcuts.jumps(multi_margin_loss, lambda: (
    (operators.reshape, shortcuts.CPU, "view.reshape"),
    (operators.mean, shortcuts.CPU, _OVER_ALL),
    (operators.sum, shortcuts.CPU, _OVER_ALL),
))  # fmt: skip


def multi_margin_loss_backward(
    key_set: int, grad_output: Tensor, self: Tensor, target: Tensor, p: Any, margin: Any,
    weight: Tensor | None = None, reduction: int = MEAN,
) -> Tensor:  # fmt: skip
    op = "multi_margin_loss_backward"
    check_reduction(op, reduction)
    x, weight = _checked(op, self, target, p, weight)
    rows, classes = sizes = x._geometry.sizes
    found = None
    if not key_set & AUTOGRAD or not (grad_output.requires_grad or self.requires_grad):
        operands = (wide(grad_output), x, target, weight)
        numbers = (int(p), float(margin), rows if reduction == MEAN else 0)
        found = _by_loop(_multi_backward, (sizes,), x, operands, *numbers)
    if found is None:
        each, at, factor = _lacking(op, x, target, margin, weight)
        slope = 2 * each if p == 2 else cast(each > 0, each._geometry.dtype)
        slope = slope * (_share(op, grad_output, rows, reduction) / classes)
        if factor is not None:
            slope = slope * factor
        of_target = -calls.sum_dim_IntList(slope, (1,), True)
        found = [calls.scatter_add(slope, 1, at, of_target)]
    return cast(calls.reshape(found[0], self._geometry.sizes), self._geometry.dtype)


# --- several targets per row, up to the first negative one --------------------------------------


def multilabel_margin_loss(
    key_set: int, self: Tensor, target: Tensor, reduction: int = MEAN
) -> Tensor:
    return calls.multilabel_margin_loss_forward(self, target, reduction)[0]


# The number of elements (rows x targets x classes) that are computed at a time.
_BLOCK = 1 << 20


def _of_rows(op: str, self: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the input and the targets, both as (rows, classes)."""
    x = _rows(op, self)
    if target._geometry.sizes != self._geometry.sizes:
        rule = f"have self's sizes {list(self._geometry.sizes)}"
        raise errors.wrong_shape(op, "target", rule, target)
    return x, calls.reshape(target, x._geometry.sizes)


def _pairs(
    op: str, self: Tensor, x: Tensor, target: Tensor
) -> tuple[Iterator[Tensor], Tensor, Tensor, Tensor]:
    """Return an iterator over the margin violations of non-target classes, for some targets at a
    time. Also return a mask of target classes, the targets (0 for an absent target), and a mask of
    the targets that exist."""
    sizes = x._geometry.sizes
    _check_targets(op, self, target)
    _check_classes(op, target, sizes, -1)
    valid = calls.cumprod(cast(target >= 0, dtypes.int64), 1)
    at, is_there = target * valid, cast(valid, x._geometry.dtype)
    is_target = calls.scatter_add(calls.zeros_like(is_there), 1, at, is_there) > 0

    def lacking() -> Iterator[Tensor]:
        step = max(1, _BLOCK // max(1, x._geometry.numel))
        others, goals = calls.unsqueeze(~is_target, 1), calls.gather(x, 1, at)
        for first in range(0, sizes[1], step):
            goal, counted = [
                calls.unsqueeze(calls.slice_Tensor(t, 1, first, first + step), 2)
                for t in (goals, valid > 0)
            ]
            apart = 1 - goal + calls.unsqueeze(x, 1)
            yield calls.where_self(counted & others & (apart > 0), apart, 0)

    return lacking(), is_target, at, is_there


def multilabel_margin_loss_forward(
    key_set: int, self: Tensor, target: Tensor, reduction: int
) -> tuple[Tensor, Tensor]:
    op, given = "multilabel_margin_loss", self._geometry
    check_reduction(op, reduction)
    x, target = _of_rows(op, self, target)
    sizes = x._geometry.sizes
    losses, is_target = _by_loop(_multilabel, (sizes[:1], sizes), x, (x, target)) or _multilabel_of(
        op, self, x, target
    )
    if reduction == NONE:
        losses = calls.reshape(losses, given.sizes[:-1])
    loss = cast(reduced(op, losses, reduction), given.dtype)
    return loss, cast(calls.reshape(is_target, given.sizes), given.dtype)


def _multilabel_of(op: str, self: Tensor, x: Tensor, target: Tensor) -> list[Tensor]:
    """Return the loss of each row and the mask of target classes. Both are computed by
    operators."""
    parts, is_target, _, _ = _pairs(op, self, x, target)
    sums = [calls.sum_dim_IntList(each, (1, 2), False) for each in parts]
    return [functools.reduce(calls.add_Tensor, sums) / x._geometry.sizes[1], is_target]


def multilabel_margin_loss_backward(
    key_set: int, grad_output: Tensor, self: Tensor, target: Tensor, reduction: int,
    is_target: Tensor,
) -> Tensor:  # fmt: skip
    op = "multilabel_margin_loss_backward"
    check_reduction(op, reduction)
    x, target = _of_rows(op, self, target)
    sizes = x._geometry.sizes
    found = None
    if not key_set & AUTOGRAD or not (grad_output.requires_grad or self.requires_grad):
        mean_of = sizes[0] if reduction == MEAN else 0
        operands = (wide(grad_output), x, target)
        found = _by_loop(_multilabel_backward, (sizes,), x, operands, mean_of)
    if found is None:
        made = _slopes(op, self, x, target)
        found = [made * (_share(op, grad_output, sizes[0], reduction) / sizes[1])]
    return cast(calls.reshape(found[0], self._geometry.sizes), self._geometry.dtype)


def _slopes(op: str, self: Tensor, x: Tensor, target: Tensor) -> Tensor:
    """Return the derivatives of each row's sum of violations. They are computed by operators."""
    parts, _, at, is_there = _pairs(op, self, x, target)
    of_classes, of_targets = [], []
    for each in parts:
        slope = cast(each > 0, each._geometry.dtype)
        of_classes.append(calls.sum_dim_IntList(slope, (1,), False))
        of_targets.append(-calls.sum_dim_IntList(slope, (2,), False))
    rest = functools.reduce(calls.add_Tensor, of_classes)
    return calls.scatter_add(rest, 1, at, calls.cat(of_targets, 1) * is_there)
