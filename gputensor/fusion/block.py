"""The block of `gt.fuse`: it changes the state of its thread on entry and restores the state on
exit."""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import Any

from ..core.guard import Guard
from ..autograd import saved
from ..dispatch import tls
from .record import operators
from .record.recorder import Recorder, current

VARIABLE = "GPUTENSOR_FUSE"
is_off = os.environ.get(VARIABLE) == "off"
# The number of blocks that this thread or task is in.
_depth: ContextVar[int] = ContextVar("gputensor_fusion_depth", default=0)


class Fusing(Guard):
    """The result of `gt.fuse()`: a context manager and a decorator. Blocks may be left in any
    order. Leaving a block runs the recorded operators; leaving the last block ends recording.
    recompute: see `fuse`."""

    __slots__ = ("_counted", "_recompute")

    def __init__(self, recompute: bool = False) -> None:
        self._counted: list[bool] = []
        self._recompute = recompute

    def _again(self) -> Fusing:
        return Fusing(self._recompute)

    def _enter(self) -> None:
        if is_off:
            self._counted.append(False)
            return
        operators.install()
        depth, recorder = _depth.get(), current.get()
        before, keepers = tls.state.get(), saved.keepers.get()
        if self._recompute:
            saved.watch_saved(1)
        self._counted.append(True)
        try:
            if self._recompute:
                from .record import recompute

                saved.keepers.set((*keepers, recompute.keep))
            if recorder is None:
                current.set(Recorder())
            _depth.set(depth + 1)
            tls.state.set(tls.same((before[0] | operators.FUSE, before[1])))
        except BaseException:
            tls.state.set(before)
            current.set(recorder)
            saved.keepers.set(keepers)
            _depth.set(depth)
            self._counted.pop()
            raise

    def _found(self) -> Any:
        keepers = saved.keepers.get()[self._recompute :]
        depth = _depth.get() - 1
        return self._counted[-1], len(self._counted) - 1, depth, keepers, current.get()

    def _put_back(self, found: Any) -> None:
        is_counted, place, depth, keepers, recorder = found
        del self._counted[place:]
        if is_counted:
            saved.keepers.set(keepers)
            _depth.set(depth)
            if not depth:
                include, keep = tls.state.get()
                tls.state.set(tls.same((include & ~operators.FUSE, keep)))
                current.set(None)
            if recorder is not None and recorder.pending:
                recorder.run("the block is left")

    def _count(self, found: Any) -> None:
        if self._recompute and found[0]:
            saved.watch_saved(-1)
