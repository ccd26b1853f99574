"""Random numbers as members of a chain: the numbers depend only on positions in a stream.

Note [Numbers that wait]
A call takes its part of the generator's stream when it is recorded, even if the numbers are never
read, so the generator's position is the same as without fusion. The numbers are a function of the
element's position. The tensor needs no memory until the numbers are computed, because the fill
overwrites the whole tensor. A replay first takes from the same generators in the same order.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ..._generated import operators
from ...core.device import CPU
from ...dispatch import tls
from ...dispatch.backend_select import TENSOR_KEYS
from ...dispatch.keys import FUSE, LAZY
from ...dispatch.operator import Operator
from ...iterator.config import NULLARY
from ...iterator.plan import build
from ...kernels import stub
from ...kernels.cpu import quiet
from ...native import random
from ...runtime import capture
from ...structured.generator import Generator
from ...tensor.storage import Storage
from ...tensor.tensor import Tensor
from ..chain import Entry, Recorded, Stream
from ..record.pending import Pending
from ..record.recorder import Recorder, current
from ..record.recording import lock

_OF = {
    "bernoulli": operators.bernoulli__float, "cauchy": operators.cauchy_,
    "exponential": operators.exponential_, "geometric": operators.geometric_,
    "integers": operators.random__from, "log_normal": operators.log_normal_,
    "normal": operators.normal_, "uniform": operators.uniform_,
}  # fmt: skip
# Operators whose kernels compute random numbers by `random._fill`.
NAMES = {*[x.qualified_name for x in _OF.values()], "aten::random_", "aten::random_.to"}
_PLACES = ("cpu", "cuda")
_BOUND = 1 << 11


@lru_cache(_BOUND)
def _known(loop: str, shape: Any, place: Any) -> Recorded:
    plan = build(loop, NULLARY, ((shape, place),), (), default_dtype=None)

    def write(outs: Any, inputs: Any, params: Any) -> None:
        if place is CPU:
            quiet.run(getattr(stub.cpu("random"), loop), outs[0], *params[0])
        else:
            random.draw(loop, outs[0], *params[0])

    return Recorded(_OF[loop], (), Entry("random", loop, plan, (), write))


def recording(
    operator: Operator, below: Callable[..., Any], is_own: Callable[[Any], bool]
) -> Callable[..., Any]:
    """Return the kernel of a fill operator at key Fuse. It calls the operator's own kernel, which
    calls `later` to record the random numbers. is_own: a function of a device; True if calls on
    this device reach gputensor's own kernel."""

    def record(key_set: int, self: Any, *args: Any) -> Any:
        recorder = current.get()
        if (
            recorder is None or type(self) is not Tensor or self._keys & LAZY
            or self._device.type not in _PLACES or not is_own(self._device)
        ):  # fmt: skip
            return below(key_set, self, *args)
        key_set &= ~FUSE
        return operator.redispatch_table[key_set](key_set, self, *args)

    return record


def later(loop: str, out: Tensor, source: tuple[Generator, int], *numbers: Any) -> bool:
    """Record a fill of `out` with random numbers; called by `random._fill`.

    Return False if the fill must run now. In this case, the recordings that compute or read `out`
    have been run.
    """
    recorder = current.get()
    if recorder is None:
        return False
    stream = Stream(*numbers)
    waits = _waits(recorder, loop, out, stream)
    if recorder.trace is not None:
        recorder.trace.drew(_OF[loop], stream, source, waits)
    return waits


def _waits(recorder: Recorder, loop: str, out: Tensor, stream: Stream) -> bool:
    if not tls.state.get()[0] & FUSE or out._device.type not in _PLACES:
        return False
    shape, place = out._geometry, out._device
    what = _known(loop, shape, place)
    with lock:
        storage = out._get_storage()
        # Three references: this variable, the tensor, and getrefcount's argument.
        is_alone = type(storage) is Storage and sys.getrefcount(storage) <= 3
        is_whole = not out._offset and storage._nbytes == shape.nbytes and (
            out._keys == TENSOR_KEYS[place.type]
        )  # fmt: skip
        can_wait = is_whole and not shape.dtype.is_complex and not capture.capturing
        if type(storage) is Pending and can_wait:
            return recorder.record_into(what, out, (), (stream,))
        made = recorder.record([what], (), (stream,)) if is_alone and can_wait else []
        if not made:
            storage.data  # noqa: B018 - runs what is pending
            recorder.before_write(storage, f"{what.operator.short_name} writes to an operand of it")
            return False
        version, storage = storage.version, made[0]._get_storage()
        storage.version, out._storage, out._array = version, storage, None
    return True
