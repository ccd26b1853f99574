"""CUDA graphs of copies, for cases in which a launch takes longer than the copy itself.

A replay runs the copies of all buffer pairs without the host, so the GPU's work alone is timed.
CuPy records its own launches and ours, which are on CuPy's current stream. PyTorch records its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gputensor as gt
from gputensor import runtime

from . import peers

# Copies of fewer bytes may take less time than their launch (a few µs at 4 TB/s).
BELOW_BYTES = 32 << 20
_OF_PYTORCH = ("torch", "torch.compile")


class NotRecorded(Exception):
    """Exception for a library whose copies cannot be recorded in a CUDA graph. Its text is the
    reason."""


def replays(
    sides: dict[str, Callable[[], Any]], calls: int, device: str
) -> dict[str, Callable[[], Any]]:
    """Return a dict from library to a function that replays a CUDA graph of `calls` calls. Raises:
    NotRecorded for the first library that fails."""
    made = {}
    for name, side in sides.items():
        record = _by_pytorch if name in _OF_PYTORCH else _by_cupy
        try:
            made[name] = record(side, calls, device)
        except Exception as error:  # libraries may raise any class of error
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            raise NotRecorded(f"{name}: {reason}") from error
    return made


def _by_cupy(side: Callable[[], Any], calls: int, device: str) -> Callable[[], Any]:
    if peers.cupy(device) is None:
        raise RuntimeError("CuPy records graphs, and it is not here")
    index = gt.device(device).index or 0
    stream = gt.cuda.Stream(device)
    stream.wait_stream(gt.cuda.current_stream(device))
    with gt.cuda.stream(stream):
        side()  # the first call of a library initialises it
        stream.synchronize()
        of_cupy = runtime.cuda().current_stream(index).cupy
        of_cupy.begin_capture()
        try:
            for _ in range(calls):
                side()
        finally:
            graph = of_cupy.end_capture()
    null = runtime.cuda().default_stream(index).cupy
    return lambda: graph.launch(stream=null)


def _by_pytorch(side: Callable[[], Any], calls: int, device: str) -> Callable[[], Any]:
    module = peers.torch(device)
    stream = module.cuda.Stream()
    stream.wait_stream(module.cuda.current_stream())
    with module.cuda.stream(stream):
        side()
    stream.synchronize()
    graph = module.cuda.CUDAGraph()
    with module.cuda.graph(graph):
        for _ in range(calls):
            side()
    replay: Callable[[], Any] = graph.replay
    return replay
