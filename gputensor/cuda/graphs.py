"""CUDA graphs: work is recorded once, and one host call launches all of it.

Names and rules are PyTorch's (torch/cuda/graphs.py). See runtime/capture.py for calls that cannot
be captured and for random numbers in replays, runtime/allocator for the memory pools, and
graphed.py for `make_graphed_callables`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import runtime
from ..core import errors
from ..core.arguments import flag
from ..fusion.record.recorder import current as current_recorder
from ..kernels import cublas
from ..runtime import capture, files
from ..runtime.current import CurrentStream, stream_given
from ..structured.generator import Generator


def is_current_stream_capturing() -> bool:
    """Return True if work on the current stream is being recorded into a graph."""
    if not capture.capturing:
        return False
    cuda = runtime.cuda()
    return capture.of(cuda.current_stream(cuda.current_device())) is not None


def graph_pool_handle() -> capture.Handle:
    """Return the handle of a new memory pool that graphs can share; see `CUDAGraph.pool`."""
    return capture.new_handle()


class CUDAGraph:
    """The work of a stream, recorded by a capture. `replay` launches all of it at once.

    A replay reads and writes the memory of the capture. Before a replay, copy new values into the
    tensors that the captured code reads. After a replay, read results from the tensors that the
    code made. During a capture the work is not run.

    keep_graph: keep the graph for `raw_cuda_graph`.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._keeps = flag("CUDAGraph", "keep_graph", keep_graph)
        # _capture: the running or finished capture. _recorded: the graph that the finished capture
        # made.
        self._capture: capture.Capture | None = None
        self._recorded: Any = None
        self._handle: capture.Handle | None = None
        self._allocators: list[Any] = []  # allocators that keep the pool for this graph
        self._draws: list[tuple[Generator, Any]] = []
        self._index = 0
        self._replay: Any = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Record all work queued on the current stream from now on. The current stream must not be
        the default stream.

        Args:
            pool: the handle of a memory pool shared with graphs that are replayed in the order of
                their captures and never concurrently; by default a new pool.
            capture_error_mode: the threads whose unsafe calls raise during the capture: all
                ("global"), this one ("thread_local"), or none ("relaxed").
        """
        if self._capture is not None:
            raise errors.no_graph("capture_begin", "has been captured into; reset() it first")
        if type(capture_error_mode) is not str or capture_error_mode not in capture.MODES:
            rule = f"be one of {', '.join(capture.MODES)}"
            raise errors.wrong_value(
                "capture_begin", "capture_error_mode", rule, capture_error_mode
            )
        if pool is not None:
            check_handle("capture_begin", pool)
        if capture.here() is not None:
            raise errors.capture_refused("capture_begin", "this thread captures another graph")
        cuda = runtime.cuda()
        index = cuda.current_device()
        handle = capture.new_handle(is_of_graph=True) if pool is None else pool
        cublas.ready_for_capture(index)
        _run_recorded("the capture of a graph begins")
        self._capture = cuda.begin_capture(cuda.current_stream(index), handle, capture_error_mode)
        self._handle, self._index = handle, index

    def capture_end(self) -> None:
        """Stop recording, so that `replay` can run. If recording fails, the graph is empty and can
        be used again."""
        begun = self._capture
        if begun is None or begun.is_over:
            raise errors.no_graph("capture_end", "is not being captured into")
        cuda = runtime.cuda()
        if capture.of(cuda.current_stream(begun.origin.device_index)) is not begun:
            raise errors.must(
                "capture_end", "stream", "be the one that the capture began on",
                errors.Got(str(cuda.current_stream(begun.origin.device_index))),
            )  # fmt: skip
        try:
            _run_recorded("the capture of a graph ends")
        except BaseException:
            self.reset()
            raise
        for stream in begun.streams:
            allocator = begun.allocators[stream.device_index]
            if allocator not in self._allocators:
                allocator.hold_pool(begun.handle)
                self._allocators.append(allocator)
        try:
            self._recorded = begun.end()
        except BaseException:
            self.reset()
            raise
        self._draws = [(generator, drawn) for (generator, _), drawn in begun.draws.items()]
        self._replay = cuda.replay

    def replay(self) -> None:
        """Launch the recorded work on the current stream of its device, without waiting."""
        recorded = self._recorded
        if recorded is None:
            raise errors.no_graph("replay", "holds no capture")
        if capture.capturing and capture.here() is not None:
            raise errors.capture_refused("replay", "a graph is not a part of another")
        if self._draws:
            self._draw()
        self._replay(recorded, self._index)

    def _draw(self) -> None:
        """Write the generators' states for a replay. See Note [Random numbers of a graph]."""
        cuda = runtime.cuda()
        own = cuda.current_stream(self._index)
        for generator, drawn in self._draws:
            index = drawn.memory.device_index
            stream = own if index == self._index else cuda.current_stream(index)
            if stream is not own:
                stream.wait_stream(own)
            state = np.array(generator.take(4 * drawn.blocks), np.uint64)
            cuda.copy_async(drawn.memory.ptr, index, state.ctypes.data, -1, state.nbytes, stream)
            cuda.record_stream(drawn.memory, stream)
            if stream is not own:
                own.wait_stream(stream)

    def reset(self) -> None:
        """Drop the recorded work. Its memory is released when no graph and no tensor uses it."""
        begun, self._capture, self._recorded, self._draws = self._capture, None, None, []
        try:
            if begun is not None and not begun.is_over:
                begun.end()
        finally:
            while self._allocators:
                self._allocators.pop().drop_pool(self._handle)

    def __del__(self) -> None:
        if "_replay" in self.__dict__:
            self.reset()

    def pool(self) -> capture.Handle:
        """Return the handle of the graph's memory pool, to be passed as `pool=` to later
        captures."""
        if self._handle is None or self._recorded is None:
            raise errors.no_graph("pool", "holds no capture")
        return self._handle

    def register_generator_state(self, generator: Generator) -> None:
        """Do nothing. PyTorch programs call this method, but here a capture finds the generators
        itself."""
        if not isinstance(generator, Generator):
            rule = "be a gputensor.Generator"
            raise errors.wrong_type("register_generator_state", "generator", rule, generator)

    def instantiate(self) -> None:
        """Do nothing: a finished capture can be replayed without it."""
        self._graph("instantiate")

    def enable_debug_mode(self) -> None:
        """Do nothing: `debug_dump` works without it."""

    def debug_dump(self, debug_path: str) -> None:
        """Write the graph's nodes and edges to a file in the DOT language, for Graphviz."""
        text = self._graph("debug_dump").debug_dot_str(1)
        files.write_text(debug_path, text)

    def raw_cuda_graph(self) -> int:
        """Return the cudaGraph_t. Requires `keep_graph=True`."""
        if not self._keeps:
            raise errors.no_graph("raw_cuda_graph", "was not made with keep_graph=True")
        return self._raw("raw_cuda_graph", "graph")

    def raw_cuda_graph_exec(self) -> int:
        """Return the cudaGraphExec_t."""
        return self._raw("raw_cuda_graph_exec", "graphExec")

    def _raw(self, op: str, name: str) -> int:
        found = getattr(self._graph(op), name, None)
        if found is None:
            raise errors.no_graph(op, "is the emulator's, which has no handle")
        return int(found)

    def _graph(self, op: str) -> Any:
        if self._recorded is None:
            raise errors.no_graph(op, "holds no capture")
        return getattr(self._recorded, "cupy", self._recorded)


class graph:
    """`with gt.cuda.graph(g):` captures the block's work into a `CUDAGraph`.

    An error in the block ends the capture and leaves `g` empty.

    Args:
        cuda_graph: the graph to capture into.
        pool: the handle of a memory pool that graphs share, made by `graph_pool_handle`.
        stream: the captured stream; by default a side stream of the device.
        capture_error_mode: as for `CUDAGraph.capture_begin`.
    """

    cuda_graph: CUDAGraph
    pool: Any
    capture_stream: Any

    def __init__(
        self, cuda_graph: CUDAGraph, pool: Any = None, stream: Any = None,
        capture_error_mode: str = "global",
    ) -> None:  # fmt: skip
        if not isinstance(cuda_graph, CUDAGraph):
            raise errors.wrong_type("graph", "cuda_graph", "be a CUDAGraph", cuda_graph)
        cuda = runtime.cuda()
        index = cuda.current_device()
        if stream is None:
            stream = _own_stream(cuda, index)
        else:
            stream = stream_given("graph", cuda, index, stream)
        if pool is not None:
            check_handle("graph", pool)
        self.cuda_graph, self.pool, self.capture_stream = cuda_graph, pool, stream
        self.capture_error_mode = capture_error_mode
        self.stream_ctx: CurrentStream = CurrentStream(cuda, stream)

    def __enter__(self) -> None:
        if capture.capturing and capture.here() is not None:
            raise errors.capture_refused("graph", "this thread captures another graph")
        cuda = runtime.cuda()
        cuda.synchronize(self.capture_stream.device_index)
        if not capture.capturing:
            cuda.empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self.stream_ctx.__exit__()
            raise

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None:
                self.cuda_graph.capture_end()
            else:
                _abandon(self.cuda_graph)
        finally:
            self.stream_ctx.__exit__(kind, error, trace)


def _abandon(of: CUDAGraph) -> None:
    """End a capture after an error. The caller raises that error."""
    try:
        of.reset()
    except errors.GpuTensorError:
        pass  # the driver reports the same error again


def _run_recorded(reason: str) -> None:
    """Run the work that `gt.fuse` has recorded. This must happen before a capture begins or
    ends."""
    recorder = current_recorder.get()
    if recorder is not None:
        recorder.run(reason)


# (runtime, device) -> the side stream that `graph` captures if the caller passes no stream.
_streams: dict[tuple[Any, int], Any] = {}


def _own_stream(cuda: Any, index: int) -> Any:
    key = cuda, index
    if key not in _streams:
        _streams[key] = cuda.Stream(index)
    return _streams[key]


def check_handle(op: str, pool: Any) -> None:
    if (
        not isinstance(pool, tuple) or len(pool) != 2
        or not all(type(n) is int for n in pool)
    ):  # fmt: skip
        rule = "be what graph_pool_handle() or a graph's pool() returned"
        raise errors.wrong_type(op, "pool", rule, pool)
