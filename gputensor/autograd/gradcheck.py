"""gradcheck and gradgradcheck: comparison of derivatives with finite differences.

A complex number is treated as two real numbers, so a real Jacobian is compared for every dtype. In
PyTorch's convention, the gradient g of a real L with respect to z satisfies dL = Re(conj(g) dz).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._generated import calls
from ..core import errors
from ..core.dtype import FLOATING
from ..dispatch.refusal import declares, is_iterable
from ..tensor.make import over_array
from ..tensor.tensor import Tensor
from . import engine

Function = Callable[..., Any]
Array = np.ndarray[Any, Any]


@declares(func="Callable", inputs="Tensor|Iterable", eps="float", atol="float", rtol="float")
def gradcheck(
    func: Function, inputs: Any, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:  # fmt: skip
    """Return True if the derivative of `func` at `inputs` agrees with central differences.

    Args:
        func: takes the inputs and returns a tensor or several.
        inputs: tensors of double precision. Inputs that require grad are varied by eps.
        raise_exception: raise GradcheckError, with both Jacobians, instead of returning False.
    """
    eps, atol, rtol = float(eps), float(atol), float(rtol)
    given = _tuple(inputs)
    varied = [x for x in given if isinstance(x, Tensor) and x.requires_grad]
    if not varied:
        rule = "hold a tensor that requires grad"
        raise errors.wrong_value("gradcheck", "inputs", rule, errors.Got("none"))
    try:
        _compare(func, given, varied, eps, atol, rtol)
    except errors.GradcheckError:
        if raise_exception:
            raise
        return False
    return True


@declares(func="Callable", inputs="Tensor|Iterable", grad_outputs="Tensor?|Tensor[]", eps="float")
def gradgradcheck(
    func: Function, inputs: Any, grad_outputs: Any = None, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, raise_exception: bool = True,
) -> bool:  # fmt: skip
    """Call `gradcheck` for the derivative of `func`, with respect to inputs and incoming gradients.

    grad_outputs: the gradients of the outputs. They are random unless given.
    """
    given = _tuple(inputs)
    varied = [n for n, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    if grad_outputs is None:
        random = np.random.default_rng(0)
        grad_outputs = [_random_like(random, y) for y in _outputs(func, given)]
    behind = tuple([g.detach().requires_grad_() for g in _tuple(grad_outputs)])

    def derivative(*args: Any) -> Any:
        front, back = args[: len(given)], args[len(given) :]
        wanted = [front[n] for n in varied]
        made = _outputs(func, front)
        grads = engine.grad(made, wanted, back, create_graph=True, allow_unused=True)
        return tuple([g for g in grads if g is not None and g.requires_grad])

    if not grad_outputs or not derivative(*given, *behind):
        return True  # the derivative depends on no input
    return gradcheck(derivative, (*given, *behind), eps, atol, rtol, raise_exception)


def _tuple(values: Any) -> tuple[Any, ...]:
    if isinstance(values, Tensor):
        return (values,)
    if not is_iterable(values):
        raise errors.wrong_type("gradcheck", "func", "take and return Tensors", values)
    return tuple(values)


def _outputs(func: Function, inputs: tuple[Any, ...]) -> list[Tensor]:
    """Return the results of `func` that require grad."""
    made = func(*inputs)
    return [y for y in _tuple(made) if isinstance(y, Tensor) and y.requires_grad]


def _random_like(random: np.random.Generator, y: Tensor) -> Tensor:
    if y.numel() == 0:  # NumPy's empty arrays have strides of 0
        return calls.zeros_like(y)
    values = random.uniform(-1, 1, (2, *y.shape))
    array = np.empty(y.shape, y.dtype.np)
    array[...] = values[0] + 1j * values[1] if y.is_complex() else values[0]
    return over_array(array).to(y.device)


# --- Jacobians: one row per real number of the outputs, one column per real number of an input ---


def _compare(
    func: Function, given: tuple[Any, ...], varied: list[Tensor], eps: float, atol: float,
    rtol: float,
) -> None:  # fmt: skip
    outputs = _outputs(func, given)
    if not outputs:
        outputs = _differentiable(func, given)
    analytical = [_analytical(y, varied) for y in outputs]
    for number, x in enumerate(varied):
        for place, jacobian in enumerate(_numerical(func, given, x, eps, len(outputs))):
            found = analytical[place][number]
            error = np.abs(found - jacobian) - (atol + rtol * np.abs(jacobian))
            if not np.all(error <= 0):
                what = f"derivative of output {place} with respect to input {number}"
                worst = float(np.max(np.abs(found - jacobian)))
                raise errors.gradients_differ(what, jacobian, found, worst)


def _reals(array: Array) -> Array:
    """Return the real parts, followed by the imaginary parts for complex numbers."""
    flat = array.reshape(-1)
    return np.concatenate([flat.real, flat.imag]) if array.dtype.kind == "c" else flat


def _numpy(x: Tensor) -> Array:
    return np.array(x.detach().cpu().resolve_conj().resolve_neg().numpy())


def _analytical(y: Tensor, varied: list[Tensor]) -> list[Array]:
    rows: list[list[Array]] = [[] for _ in varied]
    units = [1, 1j] if y.is_complex() else [1]
    for unit in units:
        for k in range(y.numel()):
            one = np.zeros(y.shape, y.dtype.np)
            one.reshape(-1)[k] = unit
            behind = over_array(one).to(y.device)
            if y.requires_grad:
                grads = engine.grad(y, varied, behind, retain_graph=True, allow_unused=True)
            else:
                grads = (None,) * len(varied)
            for row, g, x in zip(rows, grads, varied):
                row.append(_reals(np.zeros(x.shape, x.dtype.np) if g is None else _numpy(g)))
    widths = [x.numel() * (2 if x.is_complex() else 1) for x in varied]
    return [np.array(r).reshape(len(r), width) for r, width in zip(rows, widths)]


def _numerical(
    func: Function, given: tuple[Any, ...], x: Tensor, eps: float, count: int
) -> list[Array]:
    columns: list[list[Array]] = [[] for _ in range(count)]
    heights = [len(_reals(_numpy(y))) for y in _differentiable(func, given)]
    start = _numpy(x)
    for unit in [1, 1j] if x.is_complex() else [1]:
        for j in range(x.numel()):
            moved = []
            for sign in (1, -1):
                values = start.copy()
                values.reshape(-1)[j] += sign * eps * unit
                _put(x, values)
                moved.append([_reals(_numpy(y)) for y in _differentiable(func, given)])
            for column, up, down in zip(columns, *moved):
                column.append((up - down) / (2 * eps))
    _put(x, start)
    return [np.array(c).T.reshape(height, len(c)) for c, height in zip(columns, heights)]


def _differentiable(func: Function, given: tuple[Any, ...]) -> list[Tensor]:
    made = [y for y in _tuple(func(*given)) if isinstance(y, Tensor)]
    made = [y for y in made if y.dtype.category >= FLOATING]
    return [y for y in made if y.requires_grad] or made


def _put(x: Tensor, values: Array) -> None:
    """Write to a tensor without incrementing its version."""
    calls.copy_(x.data, over_array(np.asarray(values, order="C")), False)
