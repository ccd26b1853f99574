"""One run of the engine: from the results through the graph to the leaves. Each node runs once.

A node takes its number after its edges are set, so its number is higher than the numbers of all
nodes to which it leads. So the reachable nodes run in descending order, and all parts of a node's
gradient have arrived when it runs. A leaf has no number. The run counts the parts of its gradient
that are missing, and finishes the leaf when none is missing. Everything runs in the calling thread
without recursion, so chains may have any length. Source: torch/csrc/autograd/engine.cpp.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from ..._generated import calls
from ...core import errors
from ...dispatch.tls import AUTOCAST, BELOW, PLAIN, same, state as _state
from ...runtime import capture, current
from ...tensor.tensor import Tensor
from .. import anomaly
from .accumulate import accumulate
from .node import Careful, Grads, all_none
from ..formulas.fitting import fit
from ..history import AutogradMeta
from ..modes import DEFAULT, NO_GRAD_MODE, below_autograd, grad_mode, left, set_mode
from ..node import AccumulateGrad, Edge, Node
from ..streams import current_stream, device_of, on_stream, wait

# After this many nested backwards, the next one runs in a new thread with an empty stack. Each
# nested backward takes a dozen frames, plus the frames of user code, and Python's limit is 1000
# frames. Source: torch/csrc/autograd/engine.cpp, MAX_DEPTH.
NESTED_AT_MOST = 20
_thread = threading.local()
_number = attrgetter("sequence_nr")


def running() -> Run | None:
    """The innermost backward run of this thread."""
    found: Run | None = getattr(_thread, "run", None)
    return found


def queue_callback(callback: Callable[[], Any]) -> None:
    """Call a function at the end of the backward pass that this thread is running.

    Raises: AutogradError outside of a backward pass.
    """
    run = running()
    if run is None:
        raise errors.no_backward_pass()
    run.callbacks = run.callbacks or []
    run.callbacks.append(callback)


class Run(Careful):
    """One run of backward through a graph.

    buffers: node -> the sum of the gradients that have arrived, by output. missing: leaf -> the
    number of gradients still missing. order: the nodes to run, without leaves. home: the stream
    that is current during the run, on the device of the first node with a stream: see `_home`.
    """

    __slots__ = ("buffers", "callbacks", "home", "missing", "order", "__weakref__")

    def __init__(self, keep: bool, create: bool) -> None:
        super().__init__(keep, create)
        self.order: list[Node] = []
        self.buffers: dict[Node, Grads] = {}
        self.missing: dict[Node, int] = {}
        self.home: Any = None
        self.callbacks: list[Callable[[], Any]] | None = None

    def run(self, roots: list[Edge], grads: Grads, wanted: Any, accumulates: bool) -> Grads:
        """Run backward and return the requested gradients. Deeply nested runs use the stack of
        another thread."""
        depth = getattr(_thread, "depth", 0)
        if depth >= NESTED_AT_MOST:
            return current.on_a_new_thread(self.run, roots, grads, wanted, accumulates)
        around = getattr(_thread, "run", None)
        _thread.depth, _thread.run = depth + 1, self
        try:
            found = self._run_here(roots, grads, wanted, accumulates)
            for call in self.callbacks or ():  # a callback may add others
                call()
            return found
        finally:
            _thread.depth, _thread.run = depth, around

    def _run_here(self, roots: list[Edge], grads: Grads, wanted: Any, accumulates: bool) -> Grads:
        order = self._order(roots)
        if wanted is not None:
            order = self._choose(order, wanted, accumulates)
        self.order = order
        state, mode = _state.get(), grad_mode.get()
        # Derivatives run without autocast, and they are recorded only if `create` is True. The
        # caller's autocast and grad modes have no effect on them, so formulas need not check the
        # modes. User code runs in the caller's dispatch state, but without autocast.
        if state is PLAIN:
            below = BELOW
        else:
            self.own_state = same((state[0], state[1] & ~AUTOCAST))
            below = below_autograd[self.own_state]
        try:
            try:
                set_mode(DEFAULT if self.create else NO_GRAD_MODE)
                _state.set(self.own_state if self.create else below)
                for number, ((node, output), g) in enumerate(zip(roots, grads)):
                    self._arrive(node, output, g, None, number)
                # Drop these references, because a leaf can use a gradient without a copy only if
                # nothing else refers to the gradient.
                grads.clear()
                g = None
                for leaf in [leaf for leaf, missing in self.missing.items() if not missing]:
                    if self.needed is None or leaf in self.needed:
                        self._finish(leaf)
                self._walk(order)
            finally:
                _state.set(state)
        finally:
            left(grad_mode.set(mode))
        if self.leaf_streams:
            self.join_streams()
        return self.found

    def reaches(self, node: Node) -> bool:
        """True if a gradient reaches the node in this run."""
        if type(node) is AccumulateGrad:
            return node in self.missing and (self.needed is None or node in self.needed)
        return node in self.order

    def _walk(self, order: list[Node]) -> None:
        """Run the nodes. The loop avoids calls, because every node of every backward runs in it."""
        buffers, missing, needed, keep = self.buffers, self.missing, self.needed, self.keep
        is_plain_run = not self.captures and needed is None and not anomaly.is_on
        complete: list[Node] = []  # leaves whose gradients are complete
        home = place = None
        for node in order:
            buffer = buffers.pop(node, None)
            edges, is_far = node.edges, False
            if node.stream is not None:
                if place is None:
                    home, place = self._home(node)
                is_far = node.stream is not home
            if not is_plain_run or node.hooks is not None or is_far or node.is_users:
                results = self.run_node(node, buffer or [None] * len(node.outputs))
                if results is None:
                    continue
            elif buffer is None or buffer[0] is None and all_none(buffer):
                if node.saved:
                    node.check_saved()
                    if not keep:
                        node.release()
                results = (None,) * len(edges)
            else:
                if node.saved:
                    if edges[0] is None and not any(edges):
                        node.check_saved()
                    results = node.backward(*buffer)
                    if not keep:
                        node.release()
                else:
                    results = node.backward(*buffer)
            buffer = None
            for number, edge in enumerate(edges):
                if edge is None:
                    continue
                following, output = edge
                if needed is not None and following not in needed:
                    continue
                g = results[number]
                if g is not None:
                    shape, device = following.outputs[output]
                    # A gradient from one node of the current stream to another must not wait.
                    waits = following.stream is not None and (
                        following.stream is not home or node.stream is not home
                        or device is not place
                    )  # fmt: skip
                    if g._geometry is not shape:
                        if g._device is device and not waits:
                            g = fit(g, shape, device, node, number)
                        else:
                            self._arrive(following, output, g, node, number)
                            g = None
                    elif g._device is not device or waits:
                        self._arrive(following, output, g, node, number)
                        g = None
                    if g is not None:
                        arrived = buffers.get(following)
                        if arrived is None:
                            outputs = following.outputs
                            buffers[following] = arrived = [None] * len(outputs)
                            arrived[output] = g
                        elif arrived[output] is None:
                            arrived[output] = g
                        else:
                            arrived[output] = calls.add_Tensor(arrived[output], g)
                if following in missing:
                    missing[following] -= 1
                    if not missing[following]:
                        complete.append(following)
            # drop these references, because a leaf takes a gradient without a copy only if nothing
            # else refers to it
            results = g = arrived = None
            if complete:
                for leaf in complete:
                    self._finish(leaf)
                complete.clear()

    def _home(self, node: Node) -> tuple[Any, Any]:
        """Return the current stream of the device of a node, or None within a capture, and the
        device. Nodes of the current stream need no change of streams. Gradients between them need
        no wait."""
        place = device_of(node)
        self.home = None if capture.capturing else current_stream(place)
        return self.home, place

    def _order(self, roots: list[Edge]) -> list[Node]:
        """Return the reachable nodes in descending order of their sequence numbers. Also count the
        edges to each leaf."""
        missing = self.missing
        order: list[Node] = []
        seen: set[Node] = set()
        see, follow = seen.add, order.append
        for node, _ in roots:
            if type(node) is AccumulateGrad:
                missing[node] = 0
            elif node not in seen:
                see(node)
                follow(node)
        for node in order:  # `order` grows during the loop
            for edge in node.edges:
                if edge is not None:
                    following = edge[0]
                    if type(following) is AccumulateGrad:
                        missing[following] = missing.get(following, 0) + 1
                    elif following not in seen:
                        see(following)
                        follow(following)
        order.sort(key=_number, reverse=True)
        return order

    def _choose(
        self, order: list[Node], wanted: list[Edge | None], accumulates: bool
    ) -> list[Node]:
        """Return the nodes of `order` that are on a path to requested inputs."""
        self.found = [None] * len(wanted)
        needed: set[Node] = set()
        for number, edge in enumerate(wanted):
            if edge is not None:
                needed.add(edge[0])
                if not accumulates:
                    self.captures.setdefault(edge[0], []).append((edge[1], number))
        leads = set(needed)
        for node in reversed(order):
            if node not in leads and any([e is not None and e[0] in leads for e in node.edges]):
                leads.add(node)
        self.needed = leads
        # the node of a requested input does not run, unless it leads to another requested input
        for node in needed:
            if type(node) is not AccumulateGrad and not self._leads_on(node):
                self.captures.setdefault(node, [])
        return [node for node in order if node in leads]

    # --- accumulated gradients --------------------------------------------------------------------

    def _arrive(
        self, node: Node, output: int, g: Tensor | None, source: Node | None, number: int
    ) -> None:
        """Add the gradient g to the sum at an output of `node`. source: the node that computed g,
        or None for a gradient that the caller passed. number: the position of g among the results
        of `source`."""
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = [None] * len(node.outputs)
        if g is None:
            return
        shape, device = node.outputs[output]
        if g._geometry is not shape or g._device is not device:
            if source is None or source.stream is None:
                g = fit(g, shape, device, source, number)
            else:
                with on_stream(source):
                    g = fit(g, shape, device, source, number)
        if node.stream is not None:
            wait(node, source, g)
        before = buffer[output]
        if before is None:
            buffer[output] = g
        else:
            with on_stream(node):
                buffer[output] = calls.add_Tensor(before, g)

    def _finish(self, leaf: Any) -> None:
        """Accumulate or return the complete gradient of a leaf."""
        buffer = self.buffers.pop(leaf, None)
        if buffer is None or buffer[0] is None:
            return
        x = leaf.variable
        meta = x._autograd
        if (
            not self.captures
            and leaf.hooks is None
            and (leaf.stream is None or leaf.stream is self.home)
            and type(meta) is AutogradMeta
            and meta.edge is None
            and meta.view is None
            and (own := meta.own) is not None
            and own.requires_grad
            and not own.hooks
            and not own.after_accumulate
        ):
            accumulate(own, x._geometry, self.create, buffer)
        else:
            self.finish_leaf(leaf, buffer)
