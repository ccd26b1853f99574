"""The engine: walks a graph from its results to its leaves and runs each node once.

A node runs when all that its gradient is made of has arrived; among those that can run, the one
that was recorded last goes first. Everything happens in the calling thread, and nothing recurses,
so that a chain of any length is fine. Source: torch/csrc/autograd/engine.cpp.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from copyreg import _slotnames  # type: ignore[attr-defined]
from heapq import heappop, heappush, heappushpop
from typing import Any

from .._generated import calls
from ..core import errors
from ..core.dtype import COMPLEX
from ..dispatch.refusal import declares
from ..dispatch.tls import AUTOCAST, same, state as _state
from ..runtime import current
from ..tensor.tensor import Tensor
from . import anomaly, variable
from .accumulate import accumulate
from .formulas.fitting import fit
from .history import gradient_edge, history, is_leaf, own_of, requires_grad
from .modes import DEFAULT, NO_GRAD_MODE, below_autograd, grad_mode, left, set_mode
from .node import AccumulateGrad, Edge, Node, zeros_of
from .streams import current_stream, device_of, identity, on_stream, wait

Grads = list[Tensor | Any]  # None where none arrived


# --- what users call ------------------------------------------------------------------------------


@declares(
    tensors="Tensor|Tensor[]", grad_tensors="Tensor?|Tensor?[]", retain_graph="bool?",
    create_graph="bool", inputs="Tensor?|Tensor[]",
)  # fmt: skip
def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, inputs: Any = None,
) -> None:  # fmt: skip
    """Add the gradient of `tensors` to `grad` of the leaves that they were made from.

    Args:
        grad_tensors: the gradient that arrives at each tensor; None will do for one element.
        retain_graph: keep what the nodes saved, to go through the graph again; as create_graph
            unless given.
        create_graph: record the derivatives too, to differentiate them again.
        inputs: the tensors to accumulate into, all leaves unless given.
    Raises: AutogradError if a tensor has no history, or if the graph was used up before.
    """
    outputs = _tuple(tensors)
    grads = _root_grads(outputs, grad_tensors)
    wanted = None
    if inputs is not None:
        leaves = _tuple(inputs)
        if not leaves:
            raise errors.must("backward", "inputs", "not be empty", inputs)
        for x in leaves:
            if requires_grad(x) and not is_leaf(x):
                variable.retain_grad(x)
        wanted = [_input_edge(x) for x in leaves]
    keep = create_graph if retain_graph is None else retain_graph
    _Run(keep, create_graph).run(_roots(outputs), grads, wanted, accumulates=True)


@declares(
    outputs="Tensor|Tensor[]", inputs="Tensor|Tensor[]", grad_outputs="Tensor?|Tensor?[]",
    retain_graph="bool?", create_graph="bool", allow_unused="bool?", materialize_grads="bool",
)  # fmt: skip
def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, allow_unused: bool | None = None, materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The gradients of `outputs` with respect to `inputs`; `grad` of no tensor changes.

    Args:
        grad_outputs, retain_graph, create_graph: as in `backward`.
        allow_unused: None for an input that the outputs do not depend on, instead of an error.
        materialize_grads: zeros for such an input.
    """
    results, wanted = _tuple(outputs), _tuple(inputs)
    if materialize_grads and allow_unused is False:
        rule = "not be False with materialize_grads"
        raise errors.must("grad", "allow_unused", rule, allow_unused)
    grads = _root_grads(results, grad_outputs)
    edges = [_input_edge(x) for x in wanted]
    keep = create_graph if retain_graph is None else retain_graph
    found = _Run(keep, create_graph).run(_roots(results), grads, edges, accumulates=False)
    for number, x in enumerate(wanted):
        if found[number] is None:
            if materialize_grads:
                found[number] = zeros_of(x._geometry, x._device)
            elif not allow_unused:
                raise errors.input_unused(number)
    return tuple(found)


def _tuple(tensors: Any) -> tuple[Tensor, ...]:
    return (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)


def _root_grads(outputs: Sequence[Tensor], given: Any) -> Grads:
    grads: Grads = [None] * len(outputs) if given is None else list(_tuple(given))
    if len(grads) != len(outputs):
        raise errors.grads_count(len(outputs), len(grads))
    for number, (output, g) in enumerate(zip(outputs, grads)):
        if g is not None:
            if not isinstance(g, Tensor):
                rule = "be a Tensor or None"
                raise errors.wrong_type("backward", f"grad_tensors[{number}]", rule, g)
            if g._geometry.sizes != output._geometry.sizes:
                raise errors.wrong_grad_output(number, g, output)
            if g._geometry.dtype.is_complex != output._geometry.dtype.is_complex:
                rule = "be complex as the output is"
                raise errors.must("backward", f"grad_tensors[{number}]", rule, g)
        elif requires_grad(output):
            if output._geometry.numel != 1:
                raise errors.not_scalar(output)
            if output._geometry.dtype.category == COMPLEX:
                raise errors.not_real_scalar(output)
            grads[number] = calls.ones_like(output)
    return grads


def _roots(outputs: Sequence[Tensor]) -> list[Edge]:
    roots = []
    for number, output in enumerate(outputs):
        edge = gradient_edge(output)
        if edge is None:
            raise errors.nothing_to_differentiate(number)
        roots.append(edge)
    return roots


def _input_edge(x: Tensor) -> Edge | None:
    if not requires_grad(x):
        raise errors.input_without_grad()
    return gradient_edge(x)


# Within so many backwards the next one goes on in a thread of its own, whose stack is empty: each
# takes a dozen frames of ours and what user code has between them, and Python's limit is 1000.
# Source: torch/csrc/autograd/engine.cpp, MAX_DEPTH.
NESTED_AT_MOST = 20
_thread = threading.local()

# --- one run --------------------------------------------------------------------------------------


class _Run:
    """One walk through a graph.

    waiting: node -> gradients that are still to arrive. buffers: node -> the sum of those that
    have, by output. needed: the nodes to run, None for all. captures: node -> [(output, input)].
    """

    __slots__ = (
        "keep", "create", "waiting", "buffers", "needed", "captures", "found", "own_state",
        "ready", "leaf_streams",
    )  # fmt: skip

    def __init__(self, keep: bool, create: bool) -> None:
        self.keep, self.create = keep, create
        self.waiting: dict[Node, int] = {}
        self.buffers: dict[Node, Grads] = {}
        self.needed: set[Node] | None = None
        self.captures: dict[Node, list[tuple[int, int]]] = {}
        self.found: Grads = []
        # A derivative computes in the types of its forward call, wherever backward is called.
        include, kept = _state.get()
        self.own_state = same((include, kept & ~AUTOCAST))
        self.ready: list[tuple[int, int, Node]] = []
        self.leaf_streams: list[tuple[Any, Any]] = []

    def run(self, roots: list[Edge], grads: Grads, wanted: Any, accumulates: bool) -> Grads:
        """The gradients of what is wanted; deep within backwards, on another thread's stack."""
        depth = getattr(_thread, "depth", 0)
        if depth >= NESTED_AT_MOST:
            return current.on_a_new_thread(self.run, roots, grads, wanted, accumulates)
        _thread.depth = depth + 1
        try:
            return self._run_here(roots, grads, wanted, accumulates)
        finally:
            _thread.depth = depth

    def _run_here(self, roots: list[Edge], grads: Grads, wanted: Any, accumulates: bool) -> Grads:
        nodes = list(dict.fromkeys([node for node, _ in roots]))
        order = self._count(nodes)
        if wanted is not None:
            self._choose(order, wanted, accumulates)
        state, mode = _state.get(), grad_mode.get()
        try:
            self._run(roots, grads, nodes, state, DEFAULT if self.create else NO_GRAD_MODE)
        finally:
            left(grad_mode.set(mode))
        self._join_streams()
        return self.found

    def _run(
        self, roots: list[Edge], grads: Grads, nodes: list[Node], state: tuple[int, int], mode: int
    ) -> None:
        try:
            set_mode(mode)
            # Nothing is recorded below, so the formulas need not ask; user code has its own state.
            _state.set(self.own_state if self.create else below_autograd[self.own_state])
            for number, ((node, output), g) in enumerate(zip(roots, grads)):
                self._arrive(node, output, g, None, number)
            grads.clear()  # a leaf may take over what is its gradient alone
            for node in nodes:
                if node not in self.waiting and (self.needed is None or node in self.needed):
                    heappush(self.ready, (-node.sequence_nr, id(node), node))
            self._walk()
        finally:
            _state.set(state)

    def _walk(self) -> None:
        """Run what is ready until nothing is. Written out: this is every node of every backward."""
        ready, buffers, waiting, needed, keep = (
            self.ready, self.buffers, self.waiting, self.needed, self.keep
        )  # fmt: skip
        is_plain_run = not self.captures and needed is None and not anomaly.is_on
        upcoming: Node | None = None  # a ready node that has not been put into the heap
        while ready or upcoming is not None:
            if upcoming is None:
                node = heappop(ready)[2]
            elif not ready or -upcoming.sequence_nr <= ready[0][0]:
                node = upcoming
            else:
                node = heappushpop(ready, (-upcoming.sequence_nr, id(upcoming), upcoming))[2]
            upcoming = None
            if type(node) is AccumulateGrad:
                if node.stream is None:
                    self._finish(node)
                else:
                    with on_stream(node):
                        self._finish(node)
                continue
            buffer = buffers.pop(node, None)
            if (
                not is_plain_run
                or node.hooks is not None
                or node.stream is not None
                or node.is_users
            ):
                results = self._run_node(node, buffer or [None] * len(node.outputs))
                if results is None:
                    continue
            elif buffer is None or buffer[0] is None and _all_none(buffer):
                if node.saved:
                    node.check_saved()
                    if not keep:
                        node.release()
                results = (None,) * len(node.edges)
            else:
                if node.saved and node.edges[0] is None and not any(node.edges):
                    node.check_saved()
                results = node.backward(*buffer)
                if not keep and node.saved:
                    node.release()
            buffer = None
            number = -1
            for edge in node.edges:
                number += 1
                if edge is None:
                    continue
                following, output = edge
                if needed is not None and following not in needed:
                    continue
                g = results[number]
                if g is not None:
                    arrived = buffers.get(following)
                    shape, device = following.outputs[output]
                    if (
                        g._geometry is not shape
                        or g._device is not device
                        or following.stream is not None
                    ):
                        self._arrive(following, output, g, node, number)
                    elif arrived is None:
                        arrived = buffers[following] = [None] * len(following.outputs)
                        arrived[output] = g
                    elif arrived[output] is None:
                        arrived[output] = g
                    else:
                        arrived[output] = calls.add_Tensor(arrived[output], g)
                left = waiting[following] = waiting[following] - 1
                if left:
                    continue
                if upcoming is None:
                    upcoming = following
                    continue
                if following.sequence_nr > upcoming.sequence_nr:
                    upcoming, following = following, upcoming
                heappush(ready, (-following.sequence_nr, id(following), following))
            results = g = arrived = None  # else a leaf would not be the only owner of its gradient

    def _count(self, nodes: list[Node]) -> list[Node]:
        """Count the edges to each node; returns the nodes that can be reached."""
        waiting, roots = self.waiting, set(nodes)
        order = list(nodes)
        for node in order:  # which grows meanwhile
            for edge in node.edges:
                if edge is not None:
                    following = edge[0]
                    if following in waiting:
                        waiting[following] += 1
                    else:
                        waiting[following] = 1
                        if following not in roots:
                            order.append(following)
        return order

    def _choose(self, order: list[Node], wanted: list[Edge | None], accumulates: bool) -> None:
        """Find the nodes on a way to what is wanted. A node is younger than those it leads to."""
        self.found = [None] * len(wanted)
        needed: set[Node] = set()
        for number, edge in enumerate(wanted):
            if edge is not None:
                needed.add(edge[0])
                if not accumulates:
                    self.captures.setdefault(edge[0], []).append((edge[1], number))
        leads = set(needed)
        for node in _oldest_first(order):
            if node not in leads and any([e is not None and e[0] in leads for e in node.edges]):
                leads.add(node)
        self.needed = leads
        # what only ends here is not run itself
        for node in needed:
            if type(node) is not AccumulateGrad and not self._leads_on(node):
                self.captures.setdefault(node, [])

    # --- gradients on their way -------------------------------------------------------------------

    def _arrive(
        self, node: Node, output: int, g: Tensor | None, source: Node | None, number: int
    ) -> None:
        """Add gradient `number` of `source` to what has arrived at an output of `node`."""
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

    def _run_node(self, node: Node, grads: Grads) -> Any:
        """The gradients of the operands of any node; None if the node is not to run."""
        with on_stream(node):
            return self._run_there(node, grads)

    def _run_there(self, node: Node, grads: Grads) -> Any:
        if node.hooks is not None:
            self._of_tensors(node, grads)
        wanted = self.captures.get(node)
        if wanted is not None:
            for output, number in wanted:
                self.found[number] = grads[output]
                self._remember_stream(node)
            if not self._leads_on(node):
                return None
        if node.hooks is not None:
            grads = self._of_node(node, grads)
        try:
            results = self._derivative(node, grads)
            if anomaly.is_on and anomaly.checks_nan:
                anomaly.check(node, results)
        except Exception:
            if anomaly.is_on:
                anomaly.explain(node)
            raise
        if node.hooks is not None:
            for hook in list(node.hooks.after.values()):
                results = self._replaced(hook, tuple(results), tuple(results), tuple(grads))
        if not self.keep:
            node.release()
        return results

    def _derivative(self, node: Node, grads: Grads) -> Any:
        if node.is_users:
            results = self._in_own_state(node.backward, *grads)
            for g in results:
                if g is not None and not isinstance(g, Tensor):
                    raise errors.not_a_gradient(g)
            return results
        is_zero = _all_none(grads)
        if node.saved and (is_zero or not any(node.edges)):
            node.check_saved()
        if is_zero:
            return (None,) * len(node.edges)
        return self._narrowed(node).backward(*grads)

    def _narrowed(self, node: Node) -> Node:
        """The node with those edges alone that lead to what is wanted, so that no other operand's
        formula runs: itself, or a twin. Source: engine.h, task_should_compute_output."""
        needed = self.needed
        if needed is None or len(node.edges) < 2:
            return node
        edges = tuple([e if e is not None and e[0] in needed else None for e in node.edges])
        if edges == node.edges:
            return node
        twin: Node = object.__new__(type(node))
        for name in _slotnames(type(node)):
            if hasattr(node, name):
                setattr(twin, name, getattr(node, name))
        twin.__dict__.update(node.__dict__)
        twin.edges, twin.whole = edges, node
        return twin

    def _leads_on(self, node: Node) -> bool:
        needed = self.needed
        return needed is None or any([e is not None and e[0] in needed for e in node.edges])

    def _in_own_state(self, function: Any, *args: Any) -> Any:
        """Call what is the user's with the user's dispatch state."""
        if self.create:
            return function(*args)
        state = _state.get()
        try:
            _state.set(self.own_state)
            return function(*args)
        finally:
            _state.set(state)

    # --- hooks ------------------------------------------------------------------------------------

    def _of_tensors(self, node: Node, grads: Grads) -> None:
        """Hooks of the tensors that a node made: before their gradients are returned or go on."""
        hooks = node.hooks
        for output, of_tensor in hooks.tensor.items():
            if grads[output] is not None:
                grads[output] = self._tensor_hooks(of_tensor, grads[output])
        for output, holder in hooks.retained.items():
            x = holder()
            if x is not None and grads[output] is not None:
                self._remember_stream(node)
                own, g = own_of(x), grads[output]
                own.grad = g if own.grad is None else calls.add_Tensor(own.grad, g)

    def _of_node(self, node: Node, grads: Grads) -> Grads:
        """Hooks of a node that is about to run."""
        for hook in list(node.hooks.before.values()):
            grads = list(self._replaced(hook, tuple(grads), tuple(grads)))
        return grads

    def _tensor_hooks(self, hooks: Any, g: Tensor) -> Tensor:
        for hook in list(hooks.values()):
            changed = self._in_own_state(hook, g)
            if changed is not None:
                _check_replacement(hook, g, changed)
                g = changed
        return g

    def _replaced(self, hook: Any, values: tuple[Any, ...], *args: Any) -> tuple[Any, ...]:
        """What a node's hook makes of gradients: as many as before, each like its former."""
        changed = self._in_own_state(hook, *args)
        if changed is None:
            return values
        if not isinstance(changed, tuple):
            rule = f"must return a tuple or None (got {type(changed).__name__})"
            raise errors.wrong_hook(hook, rule, kind=errors.ArgumentTypeError)
        if len(changed) != len(values):
            rule = "has returned an incorrect number of values"
            rule += f" (got {len(changed)}, but expected {len(values)})"
            raise errors.wrong_hook(hook, rule)
        for before, after in zip(values, changed):
            if after is not None:
                _check_replacement(hook, before, after)
        return changed

    # --- the end of a path ------------------------------------------------------------------------

    def _finish(self, node: AccumulateGrad) -> None:
        """Accumulate into a leaf, or return its gradient."""
        buffer = self.buffers.pop(node, None)
        if buffer is None or buffer[0] is None:
            return
        x = node.variable
        own = own_of(x)
        if own.hooks:
            buffer[0] = self._tensor_hooks(own.hooks, buffer[0])
        if node.hooks is not None:
            self._of_tensors(node, buffer)
        self._remember_stream(node)
        captured = self.captures.get(node)
        if captured is not None:
            for _, number in captured:
                self.found[number] = buffer[0]
            return
        if node.hooks is not None:
            buffer[:] = self._of_node(node, buffer)
        if history(x) is not None:
            raise errors.leaf_in_graph()
        # frozen since the forward call: its hooks have run, and that is all
        if own.requires_grad:
            accumulate(own, x._geometry, self.create, buffer)
        if own.after_accumulate and own.requires_grad:
            for hook in list(own.after_accumulate.values()):
                self._in_own_state(hook, x)
        if node.hooks is not None:
            for hook in list(node.hooks.after.values()):
                self._in_own_state(hook, (), (buffer[0],))

    def _remember_stream(self, node: Node) -> None:
        if node.stream is not None:
            self.leaf_streams.append((device_of(node), node.stream))

    def _join_streams(self) -> None:
        """Let the caller's streams wait for those that gradients were left on."""
        for device, stream in self.leaf_streams:
            current = current_stream(device)
            if identity(current) != identity(stream):
                current.wait_event(stream.record_event())


def _check_replacement(hook: Any, before: Any, after: Any) -> None:
    """Raises: AutogradError if a hook changed what must stay. Source: check_single_result."""
    if not isinstance(after, Tensor):
        rule = f"must return Tensors or None (got {type(after).__name__})"
        raise errors.wrong_hook(hook, rule, kind=errors.ArgumentTypeError)
    if before is None:
        raise errors.wrong_hook(hook, "can't replace a None gradient with a non-None value")
    for what, was, got in (
        ("type", before._geometry.dtype, after._geometry.dtype),
        ("type", before._device, after._device),
        ("size", list(before._geometry.sizes), list(after._geometry.sizes)),
    ):  # fmt: skip
        if was is not got and was != got:
            raise errors.wrong_hook(hook, f"has changed the {what} of value (was {was} got {got})")


def _all_none(grads: Grads) -> bool:
    # `grads.count(None)` would ask each tensor whether it equals None
    return not any([g is not None for g in grads])


def _oldest_first(order: list[Node]) -> list[Node]:
    """Nodes after everything that they lead to.

    Numbers tell it, for a node is made after those it leads to; the leaves come first.
    """
    return sorted(order, key=lambda node: -1 if type(node) is AccumulateGrad else node.sequence_nr)
