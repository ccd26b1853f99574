"""The BackendSelect kernel of an operator without tensor arguments: the argument `device` selects
the backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._generated import shapes
from ..dispatch.backend_select import DENSE_KEYS, default_device
from ..dispatch.operator import Operator, Table


def selects(table: Table, key_set: int) -> Callable[..., Any]:
    """Make the kernel. It passes the default device if a call gives none."""
    operator = table.operator
    place = device_argument(operator)
    assert place is not None
    made = vars(shapes).get(f"selects_{place}_of_{len(operator.schema.arguments)}")
    return general(operator, place) if made is None else made(operator)


def general(operator: Operator, place: int) -> Callable[..., Any]:
    """Make the kernel for any schema. For the schemas of our operators, shapes.py has faster
    kernels.
    """

    def kernel(key_set: int, *args: Any) -> Any:
        device = args[place]
        if device is None:
            device = default_device()
            args = (*args[:place], device, *args[place + 1 :])
        key_set = DENSE_KEYS[device.type]
        return operator.redispatch_table[key_set](key_set, *args)

    return kernel


def device_argument(operator: Operator) -> int | None:
    """Return the index of the argument `device`."""
    for number, argument in enumerate(operator.schema.arguments):
        if argument.name == "device" and argument.type.base == "Device":
            return number
    return None
