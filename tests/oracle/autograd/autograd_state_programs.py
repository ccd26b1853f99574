"""Random programs that change the state of autograd, to run with two libraries.

In addition to the steps of autograd_programs.py: hooks on tensors, nodes and leaves, changes of
requires_grad, `detach_`, `.data` read and set, guards as blocks and as decorators of functions and
generators, guards left out of order, custom Functions, `retain_grad`, backward and grad within the
program with retained and recorded graphs, and, on a device, a stream for each step.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .autograd_programs import Run, Step, _may_overlap, step

GUARDS: dict[str, Callable[[Any], Any]] = {
    "no_grad": lambda lib: lib.no_grad(),
    "enable_grad": lambda lib: lib.enable_grad(),
    "set_off": lambda lib: lib.set_grad_enabled(False),
    "set_on": lambda lib: lib.set_grad_enabled(True),
}
FUNCTIONS = ("Twice", "Same", "Written", "Unreturned", "Two", "Viewed", "Constant", "Skipped")
CHANGES = (
    "freeze", "thaw", "detach_", "data", "set_data", "hook", "node_hook", "prehook",
    "after_accumulate",
    "retain_grad", "clear", "enter", "leave", "function", "decorated", "generator", "backward",
    "grad", "saved",
)  # fmt: skip
WEIGHTS = (2, 2, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1.5, 1.5, 3, 1, 1, 2, 1.5, 0.7)


def state_step(r: random.Random, shapes: list[tuple[int, ...]]) -> Step:
    """Return a random step for a pool of tensors of these sizes."""
    if r.random() < 0.55:
        return step(r, shapes)
    kind = r.choices(CHANGES, WEIGHTS)[0]
    a = r.randrange(len(shapes))
    if kind in ("hook", "node_hook", "prehook", "after_accumulate"):
        return ("state", kind, a, r.choice(("look", "double")))
    if kind == "enter":
        return ("state", kind, a, r.choice(list(GUARDS)))
    if kind == "leave":
        return ("state", kind, a, r.randrange(4))
    if kind == "function":
        return ("state", kind, a, r.choice(FUNCTIONS))
    if kind in ("decorated", "generator"):
        inner = tuple(step(r, shapes) for _ in range(1 if kind == "decorated" else 2))
        return ("state", kind, a, (r.choice(list(GUARDS)), inner))
    if kind in ("backward", "grad"):
        return ("state", kind, a, (r.randrange(len(shapes)), r.random() < 0.6, r.random() < 0.3))
    return ("state", kind, a, r.randrange(len(shapes)))


class StateRun(Run):
    """A program of steps of `state_step` that one library executes.

    log: the hooks that ran. place: a device of gputensor, on whose streams the steps run in turn.
    """

    def __init__(
        self,
        lib: Any,
        values: list[np.ndarray],
        wants_grad: list[bool],
        place: str = "",
        seed: int = 0,
    ) -> None:
        self.place, self.turns = place, random.Random(seed)
        if place:
            self.streams_of = getattr(lib, place)
            self.streams = [
                self.streams_of.default_stream(0),
                self.streams_of.Stream(),
                self.streams_of.Stream(),
            ]
        super().__init__(lib, values, wants_grad)
        self.log: list[Any] = []
        self.open: list[Any] = []
        self.functions = _functions(lib)

    def enter(self, value: np.ndarray, wants_grad: bool) -> Any:
        made = self.lib.from_numpy(value.copy())
        made = made.to(self.place) if self.place else made
        return made.requires_grad_() if wants_grad else made

    def do(self, step: Step) -> type | None:
        if not self.place or step[:2] in (("state", "enter"), ("state", "leave")):
            return super().do(step)
        stream = self.turns.choice(self.streams)
        runtime = self.lib.runtime.of(self.place)
        for other in self.streams:
            stream.wait_event(other.record_event())
        if hasattr(
            runtime, "record_stream"
        ):  # as users must do for memory that another stream uses
            for x in self.pool:
                x.record_stream(stream)
        with self.streams_of.stream(stream):
            return super().do(step)

    def _do(self, step: Step) -> None:
        if step[0] == "state":
            getattr(self, "_" + step[1])(self.pool[step[2]], step[3])
        else:
            super()._do(step)

    def close(self) -> None:
        while self.open:
            self.open.pop().__exit__(None, None, None)
        self.lib.set_grad_enabled(True)

    # --- steps ------------------------------------------------------------------------------------

    def _freeze(self, x: Any, _: Any) -> None:
        x.requires_grad_(False)

    def _thaw(self, x: Any, _: Any) -> None:
        x.requires_grad_(True)

    def _detach_(self, x: Any, _: Any) -> None:
        x.detach_()

    def _data(self, x: Any, _: Any) -> None:
        self.pool.append(x.data)

    def _set_data(self, x: Any, other: int) -> None:
        x.data = self.pool[other].clone()

    def _hook(self, x: Any, kind: str) -> None:
        x.register_hook(self._seen(kind))

    def _seen(self, kind: str) -> Callable[[Any], Any]:
        number = len(self.log)
        self.log.append(("made", number))

        def hook(g: Any) -> Any:
            if g is None:  # only PyTorch calls hooks of unused outputs
                return None
            self.log.append(("hook", number))
            return g * 2 if kind == "double" else None

        return hook

    def _node_hook(self, x: Any, kind: str) -> None:
        if x.grad_fn is not None:
            hook = self._seen(kind)
            x.grad_fn.register_hook(lambda grads, behind: self._each(hook, grads))

    def _prehook(self, x: Any, kind: str) -> None:
        if x.grad_fn is not None:
            hook = self._seen(kind)
            x.grad_fn.register_prehook(lambda grads: self._each(hook, grads))

    @staticmethod
    def _each(hook: Any, grads: Any) -> Any:
        made = [None if g is None else hook(g) for g in grads]
        return tuple(made) if any(g is not None for g in made) else None

    def _after_accumulate(self, x: Any, kind: str) -> None:
        number = len(self.log)

        def hook(x: Any) -> None:
            self.log.append(("accumulated", number))
            if kind == "double":
                x.grad = None

        x.register_post_accumulate_grad_hook(hook)

    def _retain_grad(self, x: Any, _: Any) -> None:
        x.retain_grad()

    def _clear(self, x: Any, _: Any) -> None:
        x.grad = None

    def _enter(self, x: Any, name: str) -> None:
        guard = GUARDS[name](self.lib)
        guard.__enter__()
        self.open.append(guard)

    def _leave(self, x: Any, number: int) -> None:
        if self.open:
            self.open.pop(number % len(self.open)).__exit__(None, None, None)

    def _function(self, x: Any, name: str) -> None:
        made = self.functions[name].apply(x)
        self.pool += made if isinstance(made, tuple) else [made]

    def _decorated(self, x: Any, given: Any) -> None:
        name, (inner,) = given
        GUARDS[name](self.lib)(lambda: self._inner(inner))()

    def _generator(self, x: Any, given: Any) -> None:
        name, inner = given

        def steps() -> Iterator[None]:
            for one in inner:
                self._inner(one)
                yield

        for _ in GUARDS[name](self.lib)(steps)():
            self.log.append(("between", self.lib.is_grad_enabled()))

    def _inner(self, inner: Step) -> None:
        # If a base got a history, PyTorch rejects writes to a view until the view's own history was
        # read.
        self.facts()
        if not self.is_ambiguous(inner):
            Run._do(self, inner)

    def _backward(self, x: Any, given: Any) -> None:
        _, retain, create = given
        x.sum().backward(retain_graph=retain or create, create_graph=create)

    def _grad(self, x: Any, given: Any) -> None:
        to, retain, create = given
        (g,) = self.lib.autograd.grad(
            x.sum(),
            self.pool[to],
            retain_graph=retain or create,
            create_graph=create,
            allow_unused=True,
        )
        if g is not None:
            self.pool.append(g.clone())  # the number of writes may differ

    def _saved(self, x: Any, _: Any) -> None:
        with self.lib.autograd.graph.saved_tensors_hooks(lambda x: x.detach().clone(), lambda x: x):
            self.pool.append(x * x)

    # --- comparison -------------------------------------------------------------------------------

    def facts(self) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = [("grad mode", self.lib.is_grad_enabled())]
        for fact, x in zip(super().facts(), self.pool):
            found.append((*fact, x._version, x.grad is None if fact[-1] != "error" else None))
        return found

    def is_ambiguous(self, step: Step) -> bool:
        """True also for steps with different rules in PyTorch. In gputensor a version belongs to
        the storage; in PyTorch, views that `x.data = y` separates from x's memory still share x's
        version. An untracked view does not record the writes before it in gputensor, so it belongs
        to a base that later requires grad; in PyTorch, views from before the last write do not.
        PyTorch allows a write to a view that is a leaf depending on whether `grad_fn` was read.
        """
        if step[0] != "state":  # and a write of a tensor to another view of itself
            return super().is_ambiguous(step) or step[0] == "setitem" and step[2] == step[3]
        x = self.pool[step[2]]
        if step[1] in ("set_data", "thaw"):
            address = x.untyped_storage().data_ptr()
            is_shared = any(
                y is not x and y.untyped_storage().data_ptr() == address for y in self.pool
            )
            return (
                is_shared if step[1] == "set_data" else x._is_view() or is_shared and x._version > 0
            )
        return step[3] in ("Written", "Unreturned") and _may_overlap(tuple(x.shape), x.stride())

    def grads(self) -> list[np.ndarray | None]:
        self._meet()
        return [
            None if x.grad is None else self._landed(x.grad)
            for x in self.pool
            if self._is_readable(x)
        ]

    def values(self) -> list[np.ndarray]:
        self._meet()
        return [self._landed(x) for x in self.pool]

    def _meet(self) -> None:
        """Let the caller's stream wait for the other streams, because later steps read their
        results."""
        if self.place:
            for stream in self.streams[1:]:
                self.streams[0].wait_event(stream.record_event())

    def _is_readable(self, x: Any) -> bool:
        try:
            return bool(x.is_leaf) or True
        except RuntimeError:
            return False

    def _landed(self, x: Any) -> np.ndarray:
        x = x.detach()
        return (x.cpu() if self.place else x).numpy().copy()


def _functions(lib: Any) -> dict[str, Any]:
    """Return custom Functions of each kind that autograd treats differently."""
    base = lib.autograd.Function

    class Twice(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * x
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, _ = ctx.saved_tensors
            return g * x * 2

    class Same(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    class Written(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    class Unreturned(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2) * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    class Two(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2, x

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            return g * 2 + h

    class Viewed(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view(x.shape)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    class Constant(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * 2
            ctx.mark_non_differentiable(y)
            return y, x * 3

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            return h * 3

    class Skipped(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            return None if g is None or h is None else g * 2 + h * 3

    return {
        made.__name__: made
        for made in (Twice, Same, Written, Unreturned, Two, Viewed, Constant, Skipped)
    }
