"""gradcheck and gradgradcheck: comparison of derivatives with finite differences.

A complex number is treated as two real numbers, so a real Jacobian is compared for every dtype. In
PyTorch's convention, the gradient g of a real L with respect to z satisfies dL = Re(conj(g) dz).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from .._generated import calls
from ..core import errors
from ..core.arguments import flag
from ..core.dtype import FLOATING
from ..dispatch.refusal import declares, is_iterable
from ..tensor.make import over_array
from ..tensor.tensor import Tensor
from . import engine

Function = Callable[..., Any]
Array = np.ndarray[Any, Any]


class _Checks(NamedTuple):
    """Options of `gradcheck`, under their names there."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_batched_grad: bool
    check_batched_forward_grad: bool
    check_forward_ad: bool
    check_backward_ad: bool


@declares(
    func="Callable", inputs="Tensor|Iterable", eps="float", atol="float", rtol="float",
    nondet_tol="float",
)  # fmt: skip
def gradcheck(
    func: Function, inputs: Any, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False, check_forward_ad: bool = False,
    check_backward_ad: bool = True, fast_mode: bool = False,
) -> bool:  # fmt: skip
    """Return True if the derivative of `func` at `inputs` agrees with central differences.

    Args:
        func: takes the inputs and returns a tensor or several.
        inputs: tensors of double precision. Inputs that require grad are varied by eps.
        raise_exception: raise GradcheckError, with both Jacobians, instead of returning False.
        nondet_tol: the largest difference between the gradients of two backward passes.
        check_batched_grad: gradients of a batch (`is_grads_batched`) must equal single gradients.
        check_forward_ad, check_backward_ad: compare forward and reverse mode.
        check_batched_forward_grad: compare forward mode within vmap, too.
        check_undefined_grad, check_grad_dtypes, fast_mode: have no effect. Each output's gradients
            are computed without those of the other outputs, backward passes cast gradients to the
            dtypes of the inputs, and whole Jacobians are compared.
    """
    checks = _Checks(
        float(eps), float(atol), float(rtol), float(nondet_tol),
        *[
            flag("gradcheck", name, value) for name, value in (
                ("check_batched_grad", check_batched_grad),
                ("check_batched_forward_grad", check_batched_forward_grad),
                ("check_forward_ad", check_forward_ad), ("check_backward_ad", check_backward_ad),
            )
        ],
    )  # fmt: skip
    given = _tuple(inputs)
    varied = [x for x in given if isinstance(x, Tensor) and x.requires_grad]
    if not varied:
        rule = "hold a tensor that requires grad"
        raise errors.wrong_value("gradcheck", "inputs", rule, errors.Got("none"))
    try:
        _compare(func, given, varied, checks)
    except errors.GradcheckError:
        if raise_exception:
            raise
        return False
    return True


@declares(func="Callable", inputs="Tensor|Iterable", grad_outputs="Tensor?|Tensor[]", eps="float")
def gradgradcheck(
    func: Function, inputs: Any, grad_outputs: Any = None, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True,
    nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
    check_batched_grad: bool = False, check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True, fast_mode: bool = False,
) -> bool:  # fmt: skip
    """Call `gradcheck` for the derivative of `func`, with respect to inputs and incoming gradients.

    grad_outputs: the gradients of the outputs. They are random unless given.
    gen_non_contig_grad_outputs: make random gradients that are not contiguous.
    check_fwd_over_rev, check_rev_over_rev: compare forward and reverse mode of the derivative. The
    other arguments are those of `gradcheck`.
    """
    given = _tuple(inputs)
    varied = [n for n, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    if grad_outputs is None:
        random = np.random.default_rng(0)
        grad_outputs = [_random_like(random, y) for y in _outputs(func, given)]
        if flag("gradgradcheck", "gen_non_contig_grad_outputs", gen_non_contig_grad_outputs):
            grad_outputs = [calls.repeat(g[..., None], (1,) * g.ndim + (2,))[..., 0]
                            for g in grad_outputs]  # fmt: skip
    behind = tuple([g.detach().requires_grad_() for g in _tuple(grad_outputs)])

    def derivative(*args: Any) -> Any:
        front, back = args[: len(given)], args[len(given) :]
        wanted = [front[n] for n in varied]
        made = _outputs(func, front)
        grads = engine.grad(made, wanted, back, create_graph=True, allow_unused=True)
        return tuple([g for g in grads if g is not None and g.requires_grad])

    if not grad_outputs or not derivative(*given, *behind):
        return True  # the derivative depends on no input
    options = (eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad)
    if flag("gradgradcheck", "check_fwd_over_rev", check_fwd_over_rev) and not gradcheck(
        _of_vjp(func, given, varied), (*given, *behind), *options,
        check_forward_ad=True, check_backward_ad=False,
    ):  # fmt: skip
        return False
    return gradcheck(
        derivative, (*given, *behind), *options, check_grad_dtypes, check_batched_grad,
        check_backward_ad=check_rev_over_rev,
    )  # fmt: skip


def _of_vjp(func: Function, given: tuple[Any, ...], varied: list[int]) -> Function:
    """Return the derivative of `func` as a function that forward mode can differentiate."""
    vjp = import_module("gputensor.func").vjp
    made = _tuple(func(*given))
    kept = [n for n, y in enumerate(made) if isinstance(y, Tensor) and y.requires_grad]

    def derivative(*args: Any) -> Any:
        front, back = args[: len(given)], args[len(given) :]

        def chosen(*xs: Any) -> Any:
            inputs = list(front)
            for n, x in zip(varied, xs):
                inputs[n] = x
            results = _tuple(func(*inputs))
            return tuple([results[n] for n in kept])

        return vjp(chosen, *[front[n] for n in varied])[1](tuple(back))

    return derivative


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


def _compare(func: Function, given: tuple[Any, ...], varied: list[Tensor], checks: _Checks) -> None:
    outputs = _outputs(func, given)
    if not outputs:
        outputs = _differentiable(func, given)
    analytical = [_analytical(y, varied, checks) for y in outputs if checks.check_backward_ad]
    for number, x in enumerate(varied):
        modes = {}
        if checks.check_backward_ad:
            modes["derivative"] = [jacobians[number] for jacobians in analytical]
        if checks.check_forward_ad:
            modes["forward derivative"] = _forward(func, given, x, outputs)
        if checks.check_batched_forward_grad:
            modes["batched forward derivative"] = _batched_forward(func, given, x, outputs)
        numerical = _numerical(func, given, x, checks.eps, outputs)
        for mode, jacobians in modes.items():
            for place, (found, jacobian) in enumerate(zip(jacobians, numerical)):
                what = f"{mode} of output {place} with respect to input {number}"
                _must_agree(what, jacobian, found, checks.atol, checks.rtol)


def _must_agree(what: str, wanted: Array, found: Array, atol: float, rtol: float) -> None:
    difference = np.abs(found - wanted)
    if not np.all(difference <= atol + rtol * np.abs(wanted)):
        raise errors.gradients_differ(what, wanted, found, float(np.max(difference)))


def _reals(array: Array) -> Array:
    """Return the real parts, followed by the imaginary parts for complex numbers."""
    flat = array.reshape(-1)
    return np.concatenate([flat.real, flat.imag]) if array.dtype.kind == "c" else flat


def _numpy(x: Tensor) -> Array:
    return np.array(x.detach().cpu().resolve_conj().resolve_neg().numpy())


def _analytical(y: Tensor, varied: list[Tensor], checks: _Checks) -> list[Array]:
    """Return the Jacobians of reverse mode. Raise if two passes or a batch find other numbers."""
    found = _in_turn(y, varied)
    for number, (first, again) in enumerate(zip(found, _in_turn(y, varied))):
        what = f"gradients of two backward passes with respect to input {number}"
        _must_agree(what, first, again, checks.nondet_tol, 0.0)
    if checks.check_batched_grad and y.requires_grad and y.numel():
        behind = calls.stack([over_array(one).to(y.device) for one in _units(y)])
        grads = engine.grad(
            y, varied, behind, retain_graph=True, allow_unused=True, is_grads_batched=True
        )
        for number, (first, g) in enumerate(zip(found, grads)):
            if g is not None:
                together = np.array([_reals(row) for row in _numpy(g)])
                what = f"single and batched gradients with respect to input {number}"
                _must_agree(what, first, together, checks.atol, checks.rtol)
    return found


def _units(y: Tensor) -> Iterator[Array]:
    """Yield the unit vectors of the space of y."""
    for unit in [1, 1j] if y.is_complex() else [1]:
        for k in range(y.numel()):
            one = np.zeros(y.shape, y.dtype.np)
            one.reshape(-1)[k] = unit
            yield one


def _in_turn(y: Tensor, varied: list[Tensor]) -> list[Array]:
    """Return the Jacobians, whose rows are computed one after the other."""
    rows: list[list[Array]] = [[] for _ in varied]
    for one in _units(y):
        behind = over_array(one).to(y.device)
        if y.requires_grad:
            grads = engine.grad(y, varied, behind, retain_graph=True, allow_unused=True)
        else:
            grads = (None,) * len(varied)
        for row, g, x in zip(rows, grads, varied):
            row.append(_reals(np.zeros(x.shape, x.dtype.np) if g is None else _numpy(g)))
    widths = [x.numel() * (2 if x.is_complex() else 1) for x in varied]
    return [np.array(r).reshape(len(r), width) for r, width in zip(rows, widths)]


def _by_columns(
    outputs: list[Tensor], x: Tensor, column_of: Callable[[Array], Iterable[Array]]
) -> list[Array]:
    """Return the Jacobians of the outputs with respect to x. column_of: a function from a unit
    vector in the space of x to the derivatives of the outputs in its direction."""
    columns: list[list[Array]] = [[] for _ in outputs]
    for one in _units(x):
        for column, derivative in zip(columns, column_of(one)):
            column.append(_reals(derivative))
    heights = [len(_reals(_numpy(y))) for y in outputs]
    return [np.array(c).T.reshape(height, len(c)) for c, height in zip(columns, heights)]


def _forward(
    func: Function, given: tuple[Any, ...], x: Tensor, outputs: list[Tensor]
) -> list[Array]:
    """Return the Jacobians of forward mode with respect to x."""
    forward_ad = import_module(__package__).forward_ad  # the package loads it on first use

    def tangent_of(y: Tensor) -> Array:
        tangent = forward_ad.unpack_dual(y).tangent
        return np.zeros(y.shape, y.dtype.np) if tangent is None else _numpy(tangent)

    def column_of(one: Array) -> list[Array]:
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, over_array(one).to(x.device))
            moved = tuple([dual if a is x else a for a in given])
            return [tangent_of(y) for y in _differentiable(func, moved)]

    return _by_columns(outputs, x, column_of)


def _batched_forward(
    func: Function, given: tuple[Any, ...], x: Tensor, outputs: list[Tensor]
) -> list[Array]:
    """Return the Jacobians of forward mode with respect to x, computed by one vmap."""
    transforms = import_module("gputensor.func")

    def outputs_for(moved: Tensor) -> tuple[Tensor, ...]:
        return tuple(_differentiable(func, tuple([moved if a is x else a for a in given])))

    def column(t: Tensor) -> Any:
        return transforms.jvp(outputs_for, (x,), (t,))[1]

    made = transforms.vmap(column)(calls.stack([over_array(u).to(x.device) for u in _units(x)]))
    return [np.array([_reals(one) for one in _numpy(columns)]).T for columns in made]


def _numerical(
    func: Function, given: tuple[Any, ...], x: Tensor, eps: float, outputs: list[Tensor]
) -> list[Array]:
    """Return the Jacobians of central differences with respect to x."""
    start = _numpy(x)

    def moved(step: Array) -> list[Array]:
        _put(x, start + step)
        return [_numpy(y) for y in _differentiable(func, given)]

    def column_of(one: Array) -> list[Array]:
        return [(up - down) / (2 * eps) for up, down in zip(moved(eps * one), moved(-eps * one))]

    made = _by_columns(outputs, x, column_of)
    _put(x, start)
    return made


def _differentiable(func: Function, given: tuple[Any, ...]) -> list[Tensor]:
    made = [y for y in _tuple(func(*given)) if isinstance(y, Tensor)]
    made = [y for y in made if y.dtype.category >= FLOATING]
    return [y for y in made if y.requires_grad] or made


def _put(x: Tensor, values: Array) -> None:
    """Write to a tensor without incrementing its version."""
    calls.copy_(x.data, over_array(np.asarray(values, order="C")), False)
