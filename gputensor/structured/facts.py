"""Functions of `gt` that are not operators. They return properties of tensors, dtypes and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import errors, promotion
from ..core.arguments import NUMBERS
from ..core.device import device
from ..core.dtype import dtype
from ..core.geometry import Size
from ..dispatch import backend_select, defaults
from ..dispatch.refusal import declares
from ..iterator.broadcast import broadcast_sizes
from ..tensor.tensor import Tensor
from . import arguments


def is_tensor(obj: Any) -> bool:
    """Return True if an object is a Tensor."""
    return isinstance(obj, Tensor)


@declares()
def is_floating_point(input: Tensor) -> bool:
    """Return True for a tensor of a floating dtype."""
    return input.is_floating_point()


@declares()
def is_complex(input: Tensor) -> bool:
    """Return True for a tensor of a complex dtype."""
    return input.is_complex()


@declares()
def is_signed(input: Tensor) -> bool:
    """Return True for a tensor of a dtype that has negative numbers."""
    return input.is_signed()


@declares()
def is_nonzero(input: Tensor) -> bool:
    """Return True if the only element of a tensor is not zero. The call waits for the device."""
    return input.is_nonzero()


@declares()
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return True if two tensors have equal sizes."""
    return input.is_same_size(other)


@declares()
def numel(input: Tensor) -> int:
    """Return the number of elements of a tensor.

    >>> gt.numel(gt.ones(2, 3))
    6
    """
    return input.numel()


def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """Return the promoted dtype of two operands, which are tensors or numbers.

    >>> gt.result_type(gt.tensor([1, 2]), 1.0)
    gputensor.float32
    """
    specs: list[Any] = []
    for name, x in (("tensor1", tensor1), ("tensor2", tensor2)):
        if isinstance(x, Tensor):
            specs.append((x._geometry, x._device))
        elif type(x) in NUMBERS:
            specs.append(type(x))
        else:
            raise errors.wrong_type("result_type", name, "be a Tensor or a number", x)
    return promotion.result_type("result_type", tuple(specs), defaults.get_default_dtype())


@declares(shapes="Iterable")
def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """Return the broadcast sizes of all shapes.

    >>> gt.broadcast_shapes((3, 1), (4,))
    gputensor.Size([3, 4])
    """
    found: Any = ()
    for shape in shapes:
        given = (shape,) if isinstance(shape, int) else shape
        sizes = arguments.sizes("broadcast_shapes", given)
        both = broadcast_sizes(found, sizes)
        if both is None:
            rule = f"broadcast with {errors.describe(tuple(found))}"
            raise errors.must(
                "broadcast_shapes", "shapes", rule, tuple(sizes), kind=errors.BroadcastError
            )
        found = both
    return Size(found)


def get_default_device() -> device:
    """Return the device of tensors that are made without the argument `device`."""
    return backend_select.default_device()
