"""The part of the engine that runs the less common nodes.

This module handles hooks, requested inputs, users' functions, anomaly mode and streams. Most nodes
need none of these features, and run.py runs them itself.
"""

from __future__ import annotations

from copyreg import _slotnames  # type: ignore[attr-defined]
from typing import Any

from ..._generated import calls
from ...core import errors
from ...dispatch.tls import state as _state
from ...tensor.tensor import Tensor
from .. import anomaly
from .accumulate import accumulate
from ..history import history, own_of
from ..node import AccumulateGrad, Node
from ..streams import current_stream, device_of, identity, on_stream

Grads = list[Tensor | Any]  # an item is None until its gradient has arrived


class Careful:
    """The part of a backward run that handles hooks, requested gradients, users' functions and
    streams.

    needed: the nodes to run, or None for all. captures: maps a node to pairs (number of the node's
    output, number of the requested input). found: the gradients of inputs. keep, create: as in
    `backward`. own_state: the caller's dispatch state, without autocast.
    """

    __slots__ = ("keep", "create", "needed", "captures", "found", "own_state", "leaf_streams")

    def __init__(self, keep: bool, create: bool) -> None:
        self.keep, self.create = keep, create
        self.needed: set[Node] | None = None
        self.captures: dict[Node, list[tuple[int, int]]] = {}
        self.found: Grads = []
        self.leaf_streams: list[tuple[Any, Any]] = []
        self.own_state: tuple[int, int] = _state.get()

    def run_node(self, node: Node, grads: Grads) -> Any:
        """Run any node. Return the gradients of its operands, or None if the node must not run."""
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
        is_zero = all_none(grads)
        if node.saved and (is_zero or not any(node.edges)):
            node.check_saved()
        if is_zero:
            return (None,) * len(node.edges)
        return self._narrowed(node).backward(*grads)

    def _narrowed(self, node: Node) -> Node:
        """Return the node, or a copy with only the edges that lead to requested inputs. The copy
        does not run the formulas of other operands. Source: engine.h,
        task_should_compute_output."""
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
        """Call a user's function with the dispatch state of the caller of backward, but without
        autocast."""
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
        """Run the hooks of a node's outputs, before the outputs' gradients are returned or passed
        to the node."""
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
        """Run the hooks of a node before the node runs."""
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
        """Call a node's hook and check the number and the properties of the gradients that it
        returns. Return them, or `values` if the hook returned None."""
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

    # --- leaves -----------------------------------------------------------------------------------

    def finish_leaf(self, node: AccumulateGrad, buffer: Grads) -> None:
        """Accumulate a gradient into a leaf, or return it. buffer: a list that holds the gradient.
        If nothing else refers to the gradient, the leaf takes it without a copy."""
        with on_stream(node):
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
            # If requires_grad was set to False after the forward call, only the leaf's hooks run.
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

    def join_streams(self) -> None:
        """Let the caller's streams wait for the streams of the gradients."""
        for device, stream in self.leaf_streams:
            current = current_stream(device)
            if identity(current) != identity(stream):
                current.wait_event(stream.record_event())


def _check_replacement(hook: Any, before: Any, after: Any) -> None:
    """Check a gradient that a hook returned. Raises: AutogradError if the hook changed the dtype,
    device or sizes. Source: check_single_result."""
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


def all_none(grads: Grads) -> bool:
    # A loop, because `grads.count(None)` would compare each tensor with None.
    return not any([g is not None for g in grads])
