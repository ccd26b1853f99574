"""Launches that write new values to a tensor on a device: fill, ranges and random numbers.

The values depend on the index and on the scalars of a call, so a launch is valid for all tensors of
one geometry on one device. Launches are kept on a table, so that a repeated call builds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import runtime
from .._generated import operators
from ..core.device import device
from ..core.geometry import Geometry
from ..iterator.config import FILL, NULLARY
from ..iterator.plan import build
from ..kernels import stub
from ..kernels.cuda.launch import numbered

# fill may visit the elements in any order. The other families number the elements.
_CONFIGS = {"fill": FILL, "range": NULLARY.replace(enforce_linear_iteration=True)}


def writing(op: str, family: str, loop: str, geometry: Geometry, place: device) -> Any:
    """Return the launch of a loop that writes to all elements of such a tensor. op: the operator's
    name in errors."""
    table = operators.fill__Scalar.table
    key = (family, loop, geometry, place)
    launch = table.plans.get(key)
    if launch is None:
        config = _CONFIGS.get(family, _CONFIGS["range"])
        plan = build(op, config, ((geometry, place),), (), default_dtype=None)
        launch = table.remember(key, stub.bind(family, loop, place.type, plan))
    return launch


def writer(launch: Any, place: device, scalars: tuple[Any, ...]) -> Callable[[int], None]:
    """Return a function of an address that runs a launch with these scalars."""
    run, pack, tail = numbered(launch, place.index or 0, (None,), scalars)
    return lambda address: run(pack(address, tail))


def zeroing(geometry: Geometry, place: device) -> Callable[[int], None] | None:
    """Return a function of an address that writes zero bytes over a dense geometry. Return None if
    the device's memory cannot be set."""
    found, index, nbytes = runtime.of(place.type), place.index, geometry.nbytes
    if not hasattr(found, "memset_async"):
        return None
    write, stream = found.memset_async, found.current_stream
    return lambda address: write(address, 0, nbytes, index, stream(index))
