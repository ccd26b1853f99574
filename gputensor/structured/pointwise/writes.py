"""Launches that write new values to a tensor on a device: fill, ranges and random numbers.

The values depend on the index and on the scalars of a call, so a launch is valid for all tensors of
one geometry on one device. Launches are kept on a table, so that a repeated call builds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import runtime
from ..._generated import operators
from ...core.device import device
from ...core.geometry import Geometry
from ...iterator.config import FILL, NULLARY
from ...iterator.plan import Plan, build, over_sizes
from ...kernels import stub
from ...kernels.cuda.launch import numbered

# The loop of fill may visit the elements in any order. The values of the other families depend on
# the index of an element, so their loops visit the elements in row-major order.
_CONFIGS = {"fill": FILL, "range": NULLARY.replace(enforce_linear_iteration=True)}


def writing(op: str, family: str, loop: str, geometry: Geometry, place: device) -> Any:
    """Return the launch of a loop that writes to all elements of a tensor of this geometry and
    device. op: the operator's name in errors."""
    table = operators.fill__Scalar.table
    key = (family, loop, geometry, place)
    launch = table.plans.get(key)
    if launch is None:
        plan = _planned(op, family, geometry, place)
        launch = table.remember(key, stub.bind(family, loop, place.type, plan))
    return launch


def _planned(op: str, family: str, geometry: Geometry, place: device) -> Plan:
    """Return the plan of a write to all elements. For a row-major tensor, derive the plan from a
    cached plan for other sizes if possible."""
    table = operators.fill__Scalar.table
    alike = (_planned, op, family, geometry.dtype, place)
    is_derived = geometry.is_row_major and geometry.ndim and geometry.numel
    model = table.plans.get(alike) if is_derived else None
    if model is not None:
        return over_sizes(model, geometry)
    config = _CONFIGS.get(family, _CONFIGS["range"])
    plan = build(op, config, ((geometry, place),), (), default_dtype=None)
    if is_derived:
        table.remember(alike, plan)
    return plan


def writer(launch: Any, place: device, scalars: tuple[Any, ...]) -> Callable[[int], None]:
    """Return a function that takes an address and runs the launch with these scalars on the tensor
    at this address."""
    run, pack, tail = numbered(launch, place.index or 0, (None,), scalars)
    return lambda address: run(pack(address, tail))


def zeroing(geometry: Geometry, place: device) -> Callable[[int], None] | None:
    """Return a function that takes the address of a tensor with a dense geometry and sets its bytes
    to zero. Return None if the device's runtime has no `memset_async`."""
    found, index, nbytes = runtime.of(place.type), place.index, geometry.nbytes
    if not hasattr(found, "memset_async"):
        return None
    write, stream = found.memset_async, found.current_stream
    return lambda address: write(address, 0, nbytes, index, stream(index))
