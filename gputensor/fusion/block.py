"""The block of `gt.fuse`: what it changes for its thread, and puts back."""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import Any

from ..core.guard import Guard
from ..dispatch import tls
from . import operators
from .recorder import Recorder, current

VARIABLE = "GPUTENSOR_FUSE"
# In how many blocks this thread or task is.
_depth: ContextVar[int] = ContextVar("gputensor_fusion_depth", default=0)


class Fusing(Guard):
    """What `gt.fuse()` gives: a block, and a decorator of functions. Blocks may be left in any
    order: recording ends with the last one, and each runs what was recorded. native: see `fuse`;
    within another block, that one's."""

    __slots__ = ("_counted", "_native")

    def __init__(self, native: bool = False) -> None:
        self._counted: list[bool] = []
        self._native = native

    def _again(self) -> Fusing:
        return Fusing(self._native)

    def _enter(self) -> None:
        setting = os.environ.get(VARIABLE)
        if setting == "off":
            self._counted.append(False)
            return
        operators.install()
        depth, recorder = _depth.get(), current.get()
        include, keep = tls.state.get()
        self._counted.append(True)
        try:
            if recorder is None:
                current.set(Recorder(self._native or setting == "native"))
            _depth.set(depth + 1)
            tls.state.set((include | operators.FUSE, keep))
        except BaseException:
            tls.state.set(tls.same((include, keep)))
            current.set(recorder)
            _depth.set(depth)
            self._counted.pop()
            raise

    def _found(self) -> Any:
        return self._counted[-1], len(self._counted) - 1, _depth.get() - 1

    def _put_back(self, found: Any) -> None:
        is_counted, place, depth = found
        if is_counted:
            if not depth:
                include, keep = tls.state.get()
                tls.state.set(tls.same((include & ~operators.FUSE, keep)))
            recorder = current.get()
            if recorder is not None:
                recorder.run("the block is left")
            if not depth:
                current.set(None)
            _depth.set(depth)
        del self._counted[place:]
