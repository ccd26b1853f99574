"""The block of `gt.fuse`: what it changes for its thread, and puts back."""

from __future__ import annotations

import os
from typing import Any

from ..core.guard import Guard
from ..dispatch import tls
from . import operators
from .recorder import Recorder, current

VARIABLE = "GPUTENSOR_FUSE"


class Fusing(Guard):
    """What `gt.fuse()` gives: a block, and a decorator of functions."""

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before: list[tuple[Any, int]] = []

    def _again(self) -> Fusing:
        return Fusing()

    def _enter(self) -> None:
        if os.environ.get(VARIABLE) == "off":
            self._before.append((None, -1))
            return
        operators.install()
        recorder = current.get()
        include, keep = tls.state.get()
        self._before.append((recorder, include & operators.FUSE))
        try:
            if recorder is None:
                current.set(Recorder())
            tls.state.set((include | operators.FUSE, keep))
        except BaseException:
            self._put_back(self._found())
            raise

    def _found(self) -> Any:
        return self._before[-1], len(self._before) - 1

    def _put_back(self, found: Any) -> None:
        (before, included), depth = found
        if included >= 0:
            include, keep = tls.state.get()
            tls.state.set(tls.same((include & ~operators.FUSE | included, keep)))
            recorder = current.get()
            if recorder is not None:
                recorder.run("the block is left")
            current.set(before)
        del self._before[depth:]
