"""Random programs of views, in-place and out-of-place operators, to run with two libraries.

A program is a list of steps that name tensors by their index in a pool; `Run` executes it with
PyTorch or gputensor. After a step that raises, the next one continues with the unchanged pool.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

Step = tuple[Any, ...]

# name -> function that returns the arguments for a tensor of these sizes, or None if it does not
# fit
VIEWS: dict[str, Callable[[random.Random, tuple[int, ...]], tuple[Any, ...] | None]] = {
    "view": lambda r, s: ((-1,),),
    "reshape": lambda r, s: ((-1,),),
    "transpose": lambda r, s: (0, len(s) - 1) if s else None,
    "permute": lambda r, s: (tuple(r.sample(range(len(s)), len(s))),) if s else None,
    "t": lambda r, s: () if len(s) <= 2 else None,
    "select": lambda r, s: _select(r, s),
    "narrow": lambda r, s: _narrow(r, s),
    "unsqueeze": lambda r, s: (r.randint(0, len(s)),) if len(s) < 4 else None,
    "squeeze": lambda r, s: (),
    "expand": lambda r, s: ((2, *s),) if len(s) < 3 else None,
    "diagonal": lambda r, s: () if len(s) >= 2 else None,
    "detach": lambda r, s: (),
    "unfold": lambda r, s: (0, min(2, s[0]), 1) if s and len(s) < 4 else None,
    "as_strided": lambda r, s: ((2,), (1,)) if _numel(s) >= 3 else None,
    "alias": lambda r, s: (),
}
UNARY = ("neg", "abs", "exp", "clone")
BINARY = ("add", "sub", "mul", "maximum", "minimum", "div")
INPLACE = ("add_", "sub_", "mul_", "copy_", "neg_", "abs_", "zero_", "fill_")
REDUCE = ("sum", "mean", "amax", "amin")


def _numel(sizes: tuple[int, ...]) -> int:
    return int(np.prod(sizes, dtype=np.int64))


def _select(r: random.Random, sizes: tuple[int, ...]) -> tuple[Any, ...] | None:
    if not sizes:
        return None
    d = r.randrange(len(sizes))
    return (d, r.randrange(sizes[d])) if sizes[d] else None


def _narrow(r: random.Random, sizes: tuple[int, ...]) -> tuple[Any, ...] | None:
    if not sizes:
        return None
    d = r.randrange(len(sizes))
    start = r.randint(0, sizes[d])
    return (d, start, r.randint(0, sizes[d] - start))


def step(r: random.Random, shapes: list[tuple[int, ...]]) -> Step:
    """Return a random step for a pool of tensors of these sizes."""
    while True:
        kind = r.choices(
            (
                "view",
                "unary",
                "binary",
                "number",
                "inplace",
                "reduce",
                "list",
                "nograd",
                "setitem",
                "inplace_view",
            ),
            (8, 2, 4, 2, 6, 1, 1, 1.5, 1, 0.7),
        )[0]
        a, b = r.randrange(len(shapes)), r.randrange(len(shapes))
        if kind == "view":
            name = r.choice(list(VIEWS))
            args = VIEWS[name](r, shapes[a])
            if args is not None:
                return ("method", name, a, args)
        elif kind == "unary":
            return ("method", r.choice(UNARY), a, ())
        elif kind == "binary":
            return ("binary", r.choice(BINARY), a, b)
        elif kind == "number":
            return ("number", r.choice(("add", "mul", "sub", "div")), a, r.choice((2.0, -0.5, 1.5)))
        elif kind == "inplace":
            name = r.choice(INPLACE)
            if name in ("neg_", "abs_", "zero_"):
                return ("inplace", name, a, None)
            return ("inplace", name, a, 0.5 if name == "fill_" else b)
        elif kind == "reduce":
            return ("method", r.choice(REDUCE), a, ())
        elif kind == "list":
            return ("list", r.choice(("unbind", "chunk")), a, r.randrange(4))
        elif kind == "nograd":
            inner = step(r, shapes)
            if inner[0] != "nograd":
                return ("nograd", *inner)
        elif kind == "setitem" and shapes[a]:
            return ("setitem", "", a, b)
        elif kind == "inplace_view":
            name = r.choice(("t_", "unsqueeze_", "squeeze_"))
            return ("inplace_view", name, a, (0,) if name == "unsqueeze_" else ())


def _may_overlap(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    reach = 0
    for stride, n in sorted(zip(strides, sizes)):
        if n > 1:
            if stride <= reach:
                return True
            reach += stride * (n - 1)
    return False


class Run:
    """A program being executed by one library.

    pool: the tensors made so far. leaves: the first tensors of the pool. is_broken: True if an
    internal assertion of the library failed.
    """

    is_broken = False

    def __init__(self, lib: Any, values: list[np.ndarray], wants_grad: list[bool]) -> None:
        self.lib = lib
        self.leaves = [self.enter(v, g) for v, g in zip(values, wants_grad)]
        self.pool = list(self.leaves)

    def enter(self, value: np.ndarray, wants_grad: bool) -> Any:
        made = self.lib.from_numpy(value.copy())
        return made.requires_grad_() if wants_grad else made

    def do(self, step: Step) -> type | None:
        """Execute a step. Return the builtin class of its exception, or None."""
        try:
            self._do(step)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            return next(
                k for k in (IndexError, ValueError, TypeError, RuntimeError) if isinstance(error, k)
            )
        return None

    def _do(self, step: Step) -> None:
        if step[0] == "nograd":
            with self.lib.no_grad():
                self._do(step[1:])
            return
        kind, name, a, rest = step
        x = self.pool[a]
        if kind == "method":
            made = self.lib.ops.aten.alias(x) if name == "alias" else getattr(x, name)(*rest)
        elif kind == "binary":
            made = getattr(self.lib, name)(x, self.pool[rest])
        elif kind == "number":
            made = getattr(self.lib, name)(x, rest)
        elif kind == "list":
            parts = x.unbind(0) if name == "unbind" else x.chunk(2, 0)
            if not parts:
                return
            made = parts[rest % len(parts)]
        elif kind == "setitem":
            x[0] = self.pool[rest]
            return
        elif kind == "inplace_view":
            getattr(x, name)(*rest)
            return
        else:
            args = (
                () if rest is None else (rest,) if isinstance(rest, float) else (self.pool[rest],)
            )
            getattr(x, name)(*args)
            return
        self.pool.append(made)

    def is_ambiguous(self, step: Step) -> bool:
        """True if a step writes to overlapping memory, where the result depends on the order of
        elements."""
        if step[0] == "nograd":
            return self.is_ambiguous(step[1:])
        kind, _, a, rest = step
        if kind not in ("inplace", "setitem"):
            return False
        x = self.pool[a]
        if _may_overlap(tuple(x.shape), x.stride()):
            return True
        other = self.pool[rest] if type(rest) is int else None
        return other is not None and other is not x and (
            other.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        )  # fmt: skip

    def facts(self) -> list[tuple[Any, ...]]:
        """Return the properties of every tensor in the pool that must be equal."""
        found = []
        for x in self.pool:
            try:
                history = (x.requires_grad, x.is_leaf)
            except RuntimeError as error:
                history = ("error",)
                # PyTorch 2.13 fails in this way if the base of a view is written to, after the
                # view's `retain_grad` and an in-place change of its shape.
                self.is_broken = self.is_broken or "INTERNAL ASSERT" in str(error)
            found.append((tuple(x.shape), *history))
        return found

    def backward(self) -> type | None:
        """Run backward from the sum of all tensors with a history."""
        try:
            total = None
            for x in self.pool:
                if x.requires_grad and x.numel():
                    part = (x * x).sum() if x.is_floating_point() else x.sum()
                    total = part if total is None else total + part
            if total is not None:
                total.backward()
        except RuntimeError:
            return RuntimeError
        return None

    def grads(self) -> list[np.ndarray | None]:
        return [None if x.grad is None else x.grad.detach().numpy().copy() for x in self.leaves]

    def values(self) -> list[np.ndarray]:
        return [x.detach().numpy().copy() for x in self.pool]
