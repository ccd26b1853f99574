"""Arrays of any library as kernel arguments: their description, streams and write counters.

For a launch on the emulator, host memory is copied to the device and back; see host_memory.py.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ..core import errors
from ..exchange import foreign
from ..exchange.foreign import ForeignArray
from ..tensor.base import bump_version


def describe(entry: str, arg: str, value: Any) -> ForeignArray:
    """Return the description of the array `value`. Raises: ArgumentTypeError if `value` is not an
    array, DeviceError if it is on another type of device."""
    found = foreign.described(entry, arg, value)
    if found is None:
        rule = "be an array of gputensor, CuPy, torch or NumPy, on a CUDA device or on the host"
        raise errors.wrong_type(entry, arg, rule, value)
    if found.place.type not in ("cuda", "cpu"):
        raise errors.must(entry, arg, "be on a CUDA device", value, kind=errors.DeviceError)
    return found


def streams_of(
    found: Mapping[int, ForeignArray], cuda: Any, device_index: int, own: Any
) -> tuple[Any, list[Any]]:
    """Return the stream for the launch, and the streams to synchronise with it. The launch waits
    for these streams, and they wait for the launch.

    Streams of other libraries synchronise neither with our streams nor with the legacy default
    stream. So a launch uses a library's own stream if all arrays belong to that library, otherwise
    one of ours.
    """
    theirs: dict[Any, Any] = {}
    is_all_theirs = True
    for operand in found.values():
        if operand.device_index < 0:
            continue
        stream = own
        if operand.stream is not None:
            stream = cuda.external_stream(device_index, operand.stream, operand.stream_owner)
        if stream.key == own.key:
            is_all_theirs = False
        else:
            theirs.setdefault(stream.key, stream)
    others = [*theirs.values()]
    if is_all_theirs and len(others) == 1:
        return others[0], []
    return own, others


def note_write(operand: ForeignArray) -> None:
    """Report to the array's library that a kernel wrote to the array."""
    if operand.library == "gputensor":
        bump_version(operand.owner)
    elif operand.library == "torch":
        # torch counts writes, and backward checks the count
        bump = getattr(sys.modules["torch"].autograd.graph, "increment_version", None)
        if bump is not None:
            bump(operand.owner)
