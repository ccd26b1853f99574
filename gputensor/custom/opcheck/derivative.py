"""Comparison of the derivative with finite differences along one random direction for each input.

<u, f(x + eps v) - f(x - eps v)> / 2 eps must equal <grad, v>, where v is a random direction and
grad is backward's result for the random output gradient u. This takes two calls and one backward
for each input, whatever its size. For almost all u and v it detects a derivative that is wrong in a
single element. Complex numbers follow PyTorch's convention: dL = Re(conj(grad) dz).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..._generated import calls
from ...autograd import engine
from ...autograd.modes import enable_grad, no_grad
from ..autograd import OperatorNode
from ...core import errors
from ...core.dtype import COMPLEX, FLOATING, complex128, dtype, float64
from ...dispatch import keys
from ...tensor.make import over_array
from ...tensor.base import tensors_of
from ...tensor.tensor import Tensor
from .call import Call

Array = np.ndarray[Any, Any]
# Maps the bytes per element to (eps, atol, rtol, the accepted rounding error relative to the sum of
# the absolute terms).
_PRECISIONS = {8: (1e-6, 1e-6, 1e-4, 1e-9), 4: (1e-2, 1e-2, 2e-2, 1e-4)}


def check(call: Call, rtol: float | None, atol: float | None) -> None:
    """Raise OpCheckError for a wrong derivative. Exceptions of the user's backward are not
    caught."""
    if not call.requires_grad() or any(a.is_write for a in call.operator.schema.arguments):
        return
    # NumPy must not warn: the differences may exceed the range of the dtype
    with enable_grad(), np.errstate(all="ignore"):
        if not _backward(call):
            return
        chances = list(_precisions(call))
        for number, (what, itemsize) in enumerate(chances):
            try:
                return _compare_here_or_beside(what, _PRECISIONS[itemsize], rtol, atol)
            except errors.OpCheckError:
                if number == len(chances) - 1:
                    raise


def _backward(call: Call) -> bool:
    """Run backward once with the original arguments. Return False if no result requires grad."""
    made = call.copied(with_grad=True)
    outputs = _outputs(made.run())
    if not outputs:
        return False
    recorded = [y for y in outputs if y.requires_grad]
    kernels = call.operator.kernels
    above = ("Autograd", str(keys.CompositeImplicitAutograd))
    nodes = [y.grad_fn for y in recorded]
    if not any(str(key).startswith(above) for key in kernels) or any(
        isinstance(node, OperatorNode) and node.formula is None for node in nodes
    ):
        raise call.wrong(
            "an argument requires grad, and no derivative is registered",
            "use register_autograd, or check with arguments that do not require grad",
        )
    if not recorded:
        return False
    random = np.random.default_rng(0)
    grads = [_tensor(_draw(random, y), y) for y in recorded]
    before = [_array(g) for g in grads]
    try:
        engine.grad(recorded, _inputs(made), grads, allow_unused=True)
    except Exception as error:
        remedy = "correct the backward that register_autograd was given"
        raise errors.opcheck_raises(call.operator, "backward", error, remedy) from error
    if any(not np.array_equal(a, _array(g), equal_nan=True) for a, g in zip(before, grads)):
        what = "its backward writes to the gradient that it is given"
        raise call.wrong(what, "write to a clone of it")
    return True


def _precisions(call: Call) -> Iterator[tuple[Call, int]]:
    """Yield the calls to test, as pairs (call, bytes per element). The first call has arguments in
    double precision; it is omitted if the kernel does not return doubles for them. The second call
    is `call` itself; it is omitted if the kernel computed in double precision, or if any dtype is
    below single precision."""
    wide = call.mapped(_double)
    try:
        outputs = _outputs(wide.copied().run())
        is_double = all(y.dtype.to_real is float64 for y in outputs)
    except Exception:  # the kernel does not take doubles: check with the given dtype
        is_double = False
    if is_double:
        yield wide, 8
        if not all(map(_looks_single, _outputs(wide.mapped(_nudged).run()))):
            return
    inputs = [x for x in call.tensors() if x.dtype.category >= FLOATING]
    if min([x.dtype.to_real.itemsize for x in (*inputs, *_outputs(call.copied().run()))]) >= 4:
        yield call, 4


def _double(value: Any) -> Any:
    if not isinstance(value, Tensor) or value.dtype.category < FLOATING:
        return value
    with no_grad():
        to = complex128 if value.dtype.category == COMPLEX else float64
        made = calls.clone(value.detach()) if value.dtype is to else value.detach().to(to)
    return made.requires_grad_(value.requires_grad)


def _nudged(value: Any, by: float = 1e-9) -> Any:
    """Add a random number between `by / 2` and `by` to each element of a tensor. In double
    precision, the sums are in general values that single precision cannot represent. Return other
    values unchanged."""
    if not isinstance(value, Tensor) or value.dtype.category < FLOATING:
        return value
    values = _array(value)
    moved = _tensor(values + by * np.random.default_rng(2).uniform(0.5, 1, values.shape), value)
    return moved.requires_grad_(value.requires_grad)


def _looks_single(y: Tensor) -> bool:
    """Return True if single precision can represent the values exactly. The kernel may then have
    computed in single precision."""
    values = _array(y)
    single = values.astype(np.complex64 if y.is_complex() else np.float32)
    return np.array_equal(values, single, equal_nan=True)


class _NoDifference(Exception):
    """The exception for a function that has a jump or a corner at the arguments, or is not finite
    near them."""


def _compare_here_or_beside(
    call: Call, precision: tuple[float, ...], rtol: float | None, atol: float | None
) -> None:
    """Compare the analytical and the numerical derivative at the arguments.

    If the differences are inconclusive, compare at nearby points on both sides, because one element
    at a jump or a corner would otherwise prevent the check of all others. An operator that jumps
    everywhere, such as rounding to a fine grid, is not reported.
    """
    for steps in ((0.0,), (30.0, 170.0, 900.0), (-30.0, -170.0, -900.0)):  # offsets in eps
        for by in steps:
            beside = call.mapped(partial(_nudged, by=by * precision[0])) if by else call
            try:
                _compare(beside, precision, rtol, atol)
            except _NoDifference:
                continue
            if not by:
                return
            break


def _compare(
    call: Call, precision: tuple[float, ...], rtol: float | None, atol: float | None
) -> None:
    eps, own_atol, own_rtol, rounding = precision
    atol, rtol = own_atol if atol is None else atol, own_rtol if rtol is None else rtol
    random = np.random.default_rng(1)
    made = call.copied(with_grad=True)
    outputs = _outputs(made.run())
    recorded = [n for n, y in enumerate(outputs) if y.requires_grad]
    weights = {n: _draw(random, outputs[n]) for n in recorded}
    inputs = _inputs(made)
    back = [_tensor(weights[n], outputs[n]) for n in recorded]
    grads = engine.grad([outputs[n] for n in recorded], inputs, back, allow_unused=True)

    def value(moved: Call) -> tuple[float, float]:
        with no_grad():
            found = _outputs(moved.copied().run())
        terms = [(np.conj(u) * _array(found[n])).real for n, u in weights.items()]
        return sum(float(t.sum()) for t in terms), sum(float(np.abs(t).sum()) for t in terms)

    here, size = value(call)
    if value(call)[0] != here and not np.isnan(here):
        raise call.wrong(
            "two calls with the same arguments give different results, so differences say nothing",
            "leave test_gradcheck out of test_utils",
        )
    names: dict[int, str] = {}
    for _, what, x in made.named():
        names.setdefault(id(x), what)
    for x, grad in zip(inputs, grads):
        direction = _draw(random, x)
        steps = [step * eps * direction for step in (1, -1, 1 / 8, -1 / 8)]
        up, down, near_up, near_down = (value(_moved(call, made, x, s))[0] for s in steps)
        far, near = (up - here, here - down), (near_up - here, here - near_down)
        if not _is_smooth(far, near, (atol + rounding * size) * eps):
            raise _NoDifference
        numerical = (up - down) / (2 * eps)
        analytical = 0.0 if grad is None else float((np.conj(_array(grad)) * direction).real.sum())
        allowed = atol + rtol * max(abs(numerical), abs(analytical)) + rounding * size
        # at a corner, any value between the slopes of the two sides is accepted
        sides = sorted(step / eps for step in far)
        if not sides[0] - allowed <= analytical <= sides[1] + allowed:
            raise call.wrong(
                f"its derivative with respect to {names[id(x)]} is not that of the function "
                f"(along one direction {analytical:.6g}, by differences {numerical:.6g})",
                "correct the backward that register_autograd was given",
            )


def _is_smooth(far: tuple[float, float], near: tuple[float, float], noise: float) -> bool:
    """Return True if the function has no jump, corner or non-finite value near the arguments.

    far, near: (left, right) differences of the function, for a step and for an eighth of the step.
    `near` is an eighth of `far` on a slope, about a third at a root, and equal at a jump. The
    difference between left and right shrinks to a 64th for a curved function, and to an eighth at a
    corner.
    """
    has_jump = not all(abs(n) <= 0.6 * abs(f) + 4 * noise for f, n in zip(far, near))
    return not has_jump and abs(near[0] - near[1]) <= abs(far[0] - far[1]) / 13 + 4 * noise


def _moved(call: Call, made: Call, x: Tensor, step: Array) -> Call:
    """Return the call with `step` added to one input. `x` is the copy of that input in `made`."""
    pairs = zip(call.tensors(), made.tensors())
    original = next(a for a, b in pairs if b is x)

    def move(value: Any) -> Any:
        if value is not original:
            return value
        with no_grad():
            moved = calls.clone(value.detach())
            moved.copy_(_tensor(_array(value) + step, value))
        return moved

    return call.mapped(move)


# --- arrays and tensors ---------------------------------------------------------------------------


def _inputs(call: Call) -> list[Tensor]:
    """Return the tensors that require grad, without duplicates."""
    return list({id(x): x for x in call.tensors() if x.requires_grad}.values())


def _outputs(result: Any) -> list[Tensor]:
    return [y for y in tensors_of(result) if y.dtype.category >= FLOATING]


def _draw(random: np.random.Generator, like: Tensor) -> Array:
    real, imaginary = random.uniform(-1, 1, (2, *like.shape))
    values: Array = real + 1j * imaginary if like.is_complex() else real
    return values


def _array(x: Tensor) -> Array:
    wide: dtype = complex128 if x.is_complex() else float64
    with no_grad():
        return np.array(x.detach().cpu().resolve_conj().resolve_neg().to(wide).numpy())


def _tensor(values: Array, like: Tensor) -> Tensor:
    if not like.numel():  # empty NumPy arrays have other strides
        return calls.zeros_like(like.detach())
    with no_grad():
        array = np.ascontiguousarray(values).reshape(like.shape)
        return over_array(array).to(like.dtype).to(like.device)
