"""L-BFGS with an optional line search. Source: torch/optim/lbfgs.py and the code that it is based
on: minFunc, and lswolfe.lua and polyinterp.lua of torch/optim."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .._generated.functions import cat, view_as_real, zeros_like
from ..autograd import enable_grad, no_grad
from ..core import errors
from ..dispatch.refusal import declares
from ..runtime import capture
from ..tensor.tensor import Tensor
from .arithmetic import Group, State, rate
from .optimizer import Optimizer

# Constants of the Armijo condition (sufficient decrease of the loss) and the Wolfe condition
# (sufficient decrease of the slope), as fractions of the slope at the start.
_LEAST_FALL, _MOST_SLOPE = 1e-4, 0.9
_LEAST_CURVATURE = 1e-10


class LBFGS(Optimizer):
    """L-BFGS, a quasi-Newton method that calls the closure several times per step.

    All parameters form one vector. They must be in one group and on one device.

    Args:
        lr: length of a move along the direction; for the first move it is divided by the gradient's
            1-norm.
        max_iter: iterations per step.
        max_eval: calls of the closure per step; None means 1.25 * max_iter.
        tolerance_grad: end the step if no element of the gradient is larger.
        tolerance_change: end the step if the move or the change of the loss is not larger.
        history_size: number of past moves that estimate the curvature.
        line_search_fn: None, or "strong_wolfe" for a line search along each direction.
    """

    _numbers = ()

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1, max_iter: int = 20,
        max_eval: int | None = None, tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9,
        history_size: int = 100, line_search_fn: str | None = None,
    ) -> None:  # fmt: skip
        if max_eval is None and isinstance(max_iter, int):
            max_eval = max_iter * 5 // 4
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_eval, "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        })  # fmt: skip

    def _check(self, group: Group) -> None:
        super()._check(group)
        for name in ("max_iter", "max_eval", "history_size"):
            if not isinstance(self._number(name, group[name]), int):
                raise self._must(name, "be an int", group[name], errors.ArgumentTypeError)
        for name in ("tolerance_grad", "tolerance_change"):
            self._number(name, group[name])
        search = group["line_search_fn"]
        if search is not None and not (isinstance(search, str) and search == "strong_wolfe"):
            raise self._must("line_search_fn", "be None or 'strong_wolfe'", search)
        if self.param_groups:
            raise self._must("params", "be one group", errors.Got("more"))

    @declares(closure="Callable")
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Minimise the loss that the closure returns, in at most `max_iter` iterations.

        Args:
            closure: computes and returns the loss, and calls backward; called with grad enabled.
        Returns: the loss before the step.
        Raises: ArgumentTypeError without a closure.
        """
        if closure is None:
            raise self._must("closure", "be given", closure, errors.ArgumentTypeError)
        if capture.capturing and capture.here() is not None:
            raise errors.capture_refused("LBFGS.step", "the host reads the loss and decides by it")
        with no_grad():
            return _Descent(self.param_groups[0], self.state, closure).run()


@dataclass(slots=True)
class _Point:
    """A point along a direction: its distance from the start, and the loss, gradient and slope at
    the point."""

    at: Any
    loss: float
    grad: Tensor
    slope: Any


class _Descent:
    """The computation of one call of `LBFGS.step`."""

    def __init__(self, group: Group, states: Any, closure: Callable[[], Any]) -> None:
        self.group, self.closure, self.params = group, closure, group["params"]
        # The state of all parameters is stored at the first parameter, as in PyTorch's state dicts.
        self.state: State = states[self.params[0]]
        for name in ("func_evals", "n_iter"):
            self.state.setdefault(name, 0)
        self.calls = 0

    def run(self) -> Any:
        group, state, lr = self.group, self.state, rate(self.group)
        first = self._evaluate()
        loss, grad = float(first), self._grad()
        if self._is_flat(grad):
            return first
        move: Any = state.get("t")
        before = state.get("prev_loss")
        for n in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(grad, move)
            state["prev_flat_grad"], before = grad.clone(), loss
            is_first = state["n_iter"] == 1
            move = min(1.0, 1.0 / grad.abs().sum()) * lr if is_first else lr
            slope = grad.dot(direction)
            state.update(d=direction, t=move, prev_loss=before)
            if slope > -group["tolerance_change"]:
                break
            if group["line_search_fn"] is not None:
                loss, grad, move = self._search(_Point(0, loss, grad, slope), move, direction)
                state["t"] = move
                self._go(move, direction)
            else:
                self._go(move, direction)
                if n != group["max_iter"]:
                    loss = float(self._evaluate())
                    grad = self._grad()
            least = group["tolerance_change"]
            if n == group["max_iter"] or self.calls >= group["max_eval"] or self._is_flat(grad):
                break
            if (direction * move).abs().max() <= least or abs(loss - before) < least:
                break
        return first

    def _is_flat(self, grad: Tensor) -> bool:
        return bool(grad.abs().max() <= self.group["tolerance_grad"])

    # --- all parameters as one vector -----------------------------------------------------------

    def _evaluate(self) -> Any:
        self.calls += 1
        self.state["func_evals"] += 1
        with enable_grad():
            return self.closure()

    def _grad(self) -> Tensor:
        grads = [zeros_like(p) if p.grad is None else p.grad for p in self.params]
        grads = [view_as_real(g) if g.is_complex() else g for g in grads]
        return cat([g.reshape(-1) for g in grads])

    def _go(self, move: Any, direction: Tensor) -> None:
        """Add `move` times the direction to the parameters. move: the step length."""
        start = 0
        for p in self.params:
            p = view_as_real(p) if p.is_complex() else p
            part = direction[start : start + p.numel()].reshape(p.shape)
            p.add_(part * move)
            start += p.numel()

    # --- the direction --------------------------------------------------------------------------

    def _direction(self, grad: Tensor, move: Any) -> Tensor:
        """Return -H g for the gradient g and the estimated inverse Hessian H. The two-loop
        recursion uses the past steps (old_stps) and the past changes of the gradient (old_dirs)."""
        state = self.state
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -grad
        change, moved = grad - state["prev_flat_grad"], state["d"] * move
        changes, moves, curvatures = state["old_dirs"], state["old_stps"], state["ro"]
        curvature = change.dot(moved)
        if curvature > _LEAST_CURVATURE:
            if len(changes) == self.group["history_size"]:
                for kept in (changes, moves, curvatures):
                    kept.pop(0)
            changes.append(change)
            moves.append(moved)
            curvatures.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        shares = state.setdefault("al", [None] * self.group["history_size"])
        direction: Tensor = -grad
        for n in reversed(range(len(changes))):
            shares[n] = moves[n].dot(direction) * curvatures[n]
            direction.sub_(changes[n] * shares[n])
        direction = direction * state["H_diag"]
        for n in range(len(changes)):
            share = changes[n].dot(direction) * curvatures[n]
            direction.add_(moves[n] * (shares[n] - share))
        return direction

    # --- the line search ------------------------------------------------------------------------

    def _search(self, start: _Point, move: Any, direction: Tensor) -> tuple[float, Tensor, Any]:
        """Return the loss, the gradient and the step length of the point that `strong_wolfe`
        finds."""
        origin = [p.clone() for p in self.params]
        least, most = self.group["tolerance_change"], self.group["max_eval"] - self.calls

        def point(at: Any) -> _Point:
            self._go(at, direction)
            loss, grad = float(self._evaluate()), self._grad()
            for p, kept in zip(self.params, origin):
                p.copy_(kept)
            return _Point(at, loss, grad, grad.dot(direction))

        found = strong_wolfe(point, start, move, direction.abs().max(), (least, most))
        return found.loss, found.grad, found.at


def strong_wolfe(
    point: Callable[[Any], _Point], start: _Point, move: Any, size: Any, limits: tuple[float, int],
    conditions: tuple[float, float] = (_LEAST_FALL, _MOST_SLOPE),
) -> _Point:  # fmt: skip
    """Return the point of a step length (`move`) that meets the strong Wolfe conditions. If no move
    does, return the best point that was tried.

    The search first brackets a move, then narrows the bracket by cubic interpolation.

    point: a function that evaluates a move. size: the magnitude of the direction's greatest
    element. limits: the least change of an element, and the maximum number of moves to try.
    """
    (least, most), (fall, level) = limits, conditions

    def falls(found: _Point) -> bool:
        return bool(found.loss <= start.loss + fall * found.at * start.slope)

    def is_level(found: _Point) -> bool:
        return bool(abs(found.slope) <= -level * start.slope)

    before, now, tried = start, point(move), 0
    while tried < most:
        if not falls(now) or (tried > 1 and now.loss >= before.loss):
            break
        if is_level(now):
            return now
        if now.slope >= 0:
            break
        reach = (now.at + 0.01 * (now.at - before.at), now.at * 10)
        before, now = now, point(_minimum(before, now, reach))
        tried += 1
    if tried == most:
        before = start
    bracket = [before, now]
    low = int(now.loss < before.loss)
    was_close = False
    while tried < most and not abs(bracket[1].at - bracket[0].at) * size < least:
        left, right = sorted(found.at for found in bracket)
        at, margin = _minimum(bracket[0], bracket[1]), 0.1 * (right - left)
        is_close = bool(min(right - at, at - left) < margin)
        if is_close and (was_close or at >= right or at <= left):
            at = right - margin if abs(at - right) < abs(at - left) else left + margin
            is_close = False
        was_close = is_close
        found = point(at)
        tried += 1
        if not falls(found) or found.loss >= bracket[low].loss:
            bracket[1 - low] = found
            low = int(bracket[1].loss < bracket[0].loss)
            continue
        if is_level(found):
            return found
        if found.slope * (bracket[1 - low].at - bracket[low].at) >= 0:
            bracket[1 - low] = bracket[low]
        bracket[low] = found
    return bracket[low]


def _minimum(one: _Point, two: _Point, reach: tuple[Any, Any] | None = None) -> Any:
    """Return the position at which a cubic polynomial has its minimum, clamped to the interval
    `reach`. The cubic has the losses and slopes of two points. If the cubic has no minimum, return
    the middle of `reach`. reach: by default the interval between the points."""
    left, right = reach or (min(one.at, two.at), max(one.at, two.at))
    near, far = (one, two) if one.at <= two.at else (two, one)
    # The operands are in PyTorch's order, so that rounding is equal.
    d1 = one.slope + two.slope - 3 * (one.loss - two.loss) / (one.at - two.at)
    square = d1**2 - one.slope * two.slope
    if not square >= 0:
        return (left + right) / 2.0
    d2 = square.sqrt() if isinstance(square, Tensor) else math.sqrt(square)
    part = (far.slope + d2 - d1) / (far.slope - near.slope + 2 * d2)
    return min(max(far.at - (far.at - near.at) * part, left), right)
