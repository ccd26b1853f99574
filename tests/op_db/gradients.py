"""Public functions on PyTorch's samples: results and gradients against recorded ones."""

from __future__ import annotations

from typing import Any

import gputensor as gt

from . import replay
from .cases import Case, Recorded


def function(name: str) -> Any:
    """Return `gt.linalg.det` for `linalg.det`; a method if there is no function; None if there is
    neither."""
    found: Any = gt
    for part in name.removeprefix("torch.").split("."):
        found = getattr(found, part, None)
    if found is None or isinstance(found, type) or not callable(found):
        found = getattr(gt.Tensor, name, None)
    if not callable(found) and "." not in name:
        found = getattr(gt.ops.aten, name, None)
    return found if callable(found) else None


class _Leaves(replay.Entered):
    """Converts recorded values to tensors; leaves require gradients."""

    in_place = False  # a copy, because a function must not write to the leaf itself

    def __call__(self, value: Any) -> Any:
        if isinstance(value, dict) and "leaf" in value:
            made = self._tensor(value["leaf"]).requires_grad_()
            self.leaves.append(made)
            return made.clone() if self.in_place else made
        return super().__call__(value)


def check(case: Case, device: str = "cpu") -> tuple[str, str]:
    called = function(case.op)
    if called is None:
        return replay.MISSING, ""
    enter = _Leaves(device)
    enter.in_place = case.op.endswith("_") and not case.op.endswith("__")
    args = [enter(x) for x in case.args]
    kwargs = {name: enter(x) for name, x in case.kwargs.items()}
    kind, found = replay.attempt(called, args, kwargs)
    if kind != replay.AGREES:
        return kind, found
    results = [x for x in _flat(found) if isinstance(x, gt.Tensor)]
    difference = replay.compare(case.results, results, case)
    if difference or case.is_random:
        return (replay.DIFFERS, difference) if difference else (replay.AGREES, "")
    wanted = case.after["differentiable"]
    chosen = [x for x, is_one in zip(results, wanted) if is_one]
    if not all(x.requires_grad for x in chosen):
        return replay.DIFFERS, "a result has no gradient"
    behind = [enter(c) for c in case.cotangents]

    def gradients() -> Any:
        return gt.autograd.grad(chosen, enter.leaves, behind, allow_unused=True)

    kind, grads = replay.attempt(gradients, [], {})
    if kind != replay.AGREES:
        return kind, f"backward: {grads}"
    for number, (expected, g) in enumerate(zip(case.gradients, grads)):
        difference = _compare(expected, g)
        if difference:
            return replay.DIFFERS, f"gradient {number}: {difference}"
    return replay.AGREES, ""


def _compare(expected: Recorded | None, g: Any) -> str | None:
    """Compare only values, because strides of gradients are not defined. None equals zeros."""
    if expected is None or g is None:
        other = g if expected is None else expected
        empty = other is None or not _numbers(other).any()
        return None if empty else f"{'none' if g is None else 'some'}, unlike PyTorch"
    if tuple(g.shape) != expected.sizes:
        return f"sizes {list(g.shape)}, not {list(expected.sizes)}"
    return replay.compare_values(expected, g)


def _numbers(x: Any) -> Any:
    return x.elements() if isinstance(x, Recorded) else replay.to_numpy(x)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [x for item in value for x in _flat(item)]
    return [value]
