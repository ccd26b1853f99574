"""Comparison of an operator's writes and shared memory with the declarations in its schema."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.modes import no_grad
from ...core.schema import Type
from ...dispatch.keys import ZERO
from ...dispatch.tls import AD_INPLACE_OR_VIEW
from ...tensor.base import tensors_of
from ...tensor.pickling import host_bytes
from ...tensor.storage import Storage
from ...tensor.tensor import Tensor
from .call import Call

Bytes = np.ndarray[Any, Any]


def check(call: Call) -> None:
    """Run a copy of the call and compare its effects with the schema. Raises: OpCheckError if they
    differ."""
    call = call.copied()
    before = [_Before(argument, what, x) for argument, what, x in call.named()]
    bytes_before = {id(b.storage): (b.storage, _bytes(b)) for b in before}
    with no_grad():
        result = call.run()
    _check_shapes(call, before)
    for storage, was in bytes_before.values():
        here = [b for b in before if b.storage is storage]
        if was is not None and storage._nbytes == was.size:
            _check_writes(call, here, was, host_bytes(storage))
    check_results(call, result)


class _Before:
    """A tensor argument, and its state before the call."""

    __slots__ = ("argument", "what", "tensor", "storage", "geometry", "offset", "version")

    def __init__(self, argument: Any, what: str, tensor: Tensor) -> None:
        self.argument, self.what, self.tensor = argument, what, tensor
        self.storage: Storage = tensor._get_storage()
        self.version, self.geometry = self.storage.version, tensor._geometry
        self.offset = tensor._offset

    def reach(self, nbytes: int) -> Bytes:
        """Return a mask of the storage's bytes, true for the bytes of the tensor's elements."""
        mask = np.zeros(nbytes, np.bool_)
        shape, size = self.geometry, self.geometry.dtype.itemsize
        if shape.numel:
            part = mask[self.offset * size :]
            view = np.lib.stride_tricks.as_strided
            view(part, (*shape.sizes, size), (*shape.stride_bytes, 1))[...] = True
        return mask


def _bytes(before: _Before) -> Bytes | None:
    """Return a copy of the storage's bytes, or None for meta tensors and efficient zeros, which
    have no memory."""
    if before.tensor.is_meta or before.tensor._keys & ZERO:
        return None
    return host_bytes(before.storage).copy()


def _check_shapes(call: Call, before: list[_Before]) -> None:
    for b in before:
        x = b.tensor
        shapes = [(g.sizes, g.strides, g.dtype) for g in (x._geometry, b.geometry)]
        is_same = shapes[0] == shapes[1] and x._offset == b.offset and x._get_storage() is b.storage
        if not is_same and not b.argument.is_write:
            raise call.wrong(
                f"it changes the sizes, strides or memory of {b.what}, which its schema does not "
                "say",
                "work on a view or a clone of it",
            )


def _check_writes(call: Call, here: list[_Before], was: Bytes, now: Bytes) -> None:
    changed = was != now
    if not changed.any():
        return
    reaches = [(b, b.reach(was.size)) for b in here]
    allowed = np.zeros(was.size, np.bool_)
    for b, reach in reaches:
        if b.argument.is_write:
            allowed |= reach
            is_counted = b.storage.version > b.version or not b.tensor._keys & AD_INPLACE_OR_VIEW
            if not is_counted and (changed & reach).any():
                raise call.wrong(
                    f"it writes to {b.what} and does not count that, so autograd will not notice",
                    "define it with custom_op, or bump the version in a kernel at ADInplaceOrView",
                )
    changed &= ~allowed
    if not changed.any():
        return
    for b, reach in reaches:
        if (changed & reach).any():
            raise call.wrong(
                f"it writes to {b.what}, which its schema does not declare",
                f"name '{b.argument.name}' in mutates_args, or write to a clone of it",
            )
    raise call.wrong(
        f"it writes to the memory of {here[0].what} outside of that tensor's elements",
        "heed its strides and its storage_offset()",
    )


# --- results --------------------------------------------------------------------------------------


def check_results(call: Call, result: Any, whose: str = "result") -> None:
    """Raise an error if a result is an argument, or shares memory with an argument or another
    result, and the schema does not declare this alias.

    whose: the words for a result in the message.
    """
    returns = call.operator.schema.returns
    seen: list[tuple[Tensor, str, frozenset[str]]] = []
    for argument, what, x in call.named():
        seen.append((x, what, _sets(argument.type)))
    for number, (returned, value) in enumerate(zip(returns, call.results(result))):
        mine = _sets(returned.type)
        if returned.is_write and not any(value is x and mine & sets for x, _, sets in seen):
            what = f"{whose} {number} is not the argument that its schema declares"
            raise call.wrong(what, "return the argument itself")
        for y in tensors_of(value):
            for x, what, sets in seen:
                if not (mine & sets or "*" in mine | sets and mine and sets) and _share(x, y):
                    how = f"is {what} itself" if x is y else f"shares the memory of {what}"
                    raise call.wrong(
                        f"{whose} {number} {how}, which its schema does not declare",
                        "return a clone, or declare the alias with schema=",
                    )
            seen.append((y, f"{whose} {number}", mine))


def _sets(type: Type) -> frozenset[str]:
    return frozenset(name for alias in type.aliases for name in (*alias.before, *alias.after))


def _share(x: Tensor, y: Tensor) -> bool:
    """Return True if two tensors are one object, have the same storage, or overlap in memory."""
    if x is y or x._get_storage() is y._get_storage():
        return True
    if x._device is not y._device or x.is_meta or not x.numel() or not y.numel():
        return False
    a, b = x.data_ptr(), y.data_ptr()
    return a < b + y._geometry.extent * y.itemsize and b < a + x._geometry.extent * x.itemsize
