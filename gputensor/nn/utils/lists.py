"""Norms and scaling of many gradients on CUDA, with one launch for all gradients.

The results have the same bits as the operators, which otherwise run for one gradient after the
other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from ..._generated.functions import empty, sqrt
from ...core.dtype import dtype, float32
from ...dispatch import dispatcher, tls
from ...dispatch.backend_select import TENSOR_KEYS
from ...fusion import block
from ...kernels import stub
from ...kernels.cuda import chain_launch, reduce_lists_launch
from ...kernels.cuda.chain_source import Body, Step
from ...tensor.base import bump_version
from ...tensor.tensor import Tensor


def are_on() -> bool:
    """True if one launch for many tensors may replace the calls of single operators. False if
    fusion is off, or if a mode, a trace or a user's kernel must receive these calls."""
    return tls.state.get() is tls.PLAIN and not block.is_off and not dispatcher.is_wrapped()


def are_apart(lists: Sequence[tuple[Sequence[Tensor], Collection[int]]]) -> bool:
    """True if no written tensor overlaps another tensor. lists: pairs (tensors, positions).
    positions: the indices of the written tensors in `tensors`."""
    tensors = [x for listed, _ in lists for x in listed]
    if len({id(x._get_storage()) for x in tensors}) == len(tensors):
        return True
    spans = []
    for listed, written in lists:
        for n, x in enumerate(listed):
            start, size = x._ptr(), x._geometry.numel * x._geometry.dtype.itemsize
            if size:
                spans.append((start, start + size, n in written))
    end = end_of_written = 0
    for start, behind, is_written in sorted(spans):
        if start < (end if is_written else end_of_written):
            return False
        end = max(end, behind)
        end_of_written = max(end_of_written, behind) if is_written else end_of_written
    return True


def norms(tensors: Sequence[Tensor], order: float) -> Tensor | None:
    """Return the norm of each tensor, as a vector. Return None if operators must compute the
    norms."""
    if order != 2 or not _are_alike(tensors):
        return None
    first, of = tensors[0], tensors[0]._geometry.dtype
    wide = float32 if of.itemsize == 2 else of
    found = empty(len(tensors), dtype=wide, device=first.device)
    given = [(x._address(), x._geometry.numel) for x in tensors]
    if not _squares(of, wide)(first._device.index or 0, given, found._address()):
        return None
    made = sqrt(found).to(of)
    for n, x in enumerate(tensors):
        # The norm of a 0-d tensor is its absolute value. The square of its element might overflow.
        if not x._geometry.ndim:
            made[n].copy_(x.abs())
    return made


def scale_(tensors: Sequence[Tensor], factor: Tensor) -> bool:
    """Multiply dense tensors by a 0-d tensor, in place. If operators must do this, return False and
    write nothing."""
    operands = [*tensors, factor]
    if not _are_alike(operands) or not are_apart([(operands, range(len(tensors)))]):
        return False
    launch = _scaled(factor._geometry.dtype)
    if launch is None:
        return False
    by = factor._address()
    launch(factor._device.index, [(x._geometry.numel, (x._address(), by)) for x in tensors], ())
    for x in tensors:
        bump_version(x)
    return True


def _are_alike(tensors: Sequence[Tensor]) -> bool:
    """True if one launch may replace the operators on these tensors. There must be at least two
    tensors. They must be dense, floating-point, of one dtype and on one GPU."""
    if len(tensors) < 2 or not are_on():
        return False
    device, of = tensors[0]._device, tensors[0]._geometry.dtype
    if device.type != "cuda" or not of.is_floating_point:
        return False
    if any([stub.registered(*loop, "cuda") is not None for loop in _LOOPS]):
        return False
    return all([
        x._keys in _KEYS and x._device is device and x._geometry.dtype is of
        and x._geometry.is_non_overlapping_and_dense for x in tensors
    ])  # fmt: skip


_KEYS = (TENSOR_KEYS["cuda"],)
# The kernel loops (family, operator) that this module's launches replace. If a user has registered
# one of these loops for CUDA, the launches are not used.
_LOOPS = (("binary", "mul"), ("reduce", "sum"), (stub.CHAIN, stub.CHAIN))


def _product_of(inputs: tuple[int, int], of: dtype) -> Step:
    return Step("binary", "mul", of, of, inputs, (), "aten::mul.Tensor")


@cache
def _squares(of: dtype, wide: dtype) -> reduce_lists_launch.Lists:
    """Return a function that launches one kernel for many tensors of dtype `of`. For each tensor,
    the kernel computes the sum of the squared elements in dtype `wide`."""
    cast = [] if wide is of else [Step("copy", "copy", of, wide, (0,), (), "aten::_to_copy")]
    x = len(cast)
    body = Body((of,), (*cast, _product_of((x, x), wide)), (x + 1,))
    return reduce_lists_launch.Lists("sum", body)


@cache
def _scaled(of: dtype) -> Any:
    body = Body((of, of), (_product_of((0, 1), of),), (2,))
    return chain_launch.bind_lists(body, (0, 0, 1), [], stays=(2,))
