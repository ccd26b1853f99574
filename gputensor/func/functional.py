"""`gt.autograd.functional`: derivatives of functions at given inputs. `gt.func` has transforms that
return such derivatives as functions.

Functions take and return tensors, or tuples of them. Source: torch/autograd/functional.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._generated import functions
from ..autograd.engine import grad as _grad
from ..autograd.modes import enable_grad
from ..core import errors, lazy
from ..tensor.tensor import Tensor
from . import forward, reverse

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Function = Callable[..., Any]


def _tensors(op: str, arg: str, value: Any) -> tuple[tuple[Tensor, ...], bool]:
    """Return the tensors of an argument, and whether the argument is a tuple."""
    listed = value if isinstance(value, tuple) else (value,)
    for x in listed:
        if not isinstance(x, Tensor):
            raise errors.wrong_type(op, arg, "be a Tensor or a tuple of them", x)
    return listed, isinstance(value, tuple)


def _leaves(inputs: tuple[Tensor, ...], create_graph: bool) -> tuple[Tensor, ...]:
    """Return the tensors with respect to which to differentiate. With create_graph they keep the
    inputs' history."""
    if create_graph:
        return tuple([x.view_as(x) if x.requires_grad else _fresh(x) for x in inputs])
    return tuple([_fresh(x) for x in inputs])


def _fresh(x: Tensor) -> Tensor:
    return x.detach().requires_grad_()


def _vectors(op: str, v: Any, like: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return `v` as a tuple of tensors, after a check of their sizes. If `v` is None, `like` must
    be a single number, and the result is 1."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise errors.wrong_value(op, "v", "be given unless it would be one number", v)
        return (functions.ones_like(like[0].detach()),)
    listed, _ = _tensors(op, "v", v)
    if [x.shape for x in listed] != [x.shape for x in like]:
        got = errors.Got(str([list(x.shape) for x in listed]))
        rule = f"have the sizes {[list(x.shape) for x in like]}"
        raise errors.wrong_shape(op, "v", rule, got)
    return listed


def _pulled(
    op: str, ys: tuple[Tensor, ...], xs: tuple[Tensor, ...], vs: tuple[Tensor, ...],
    create_graph: bool, strict: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    pairs = [(y, v) for y, v in zip(ys, vs) if y.requires_grad]
    found: tuple[Any, ...] = (None,) * len(xs)
    if pairs:
        outputs, grads = zip(*pairs)
        found = _grad(outputs, xs, grads, create_graph=create_graph, allow_unused=True)
    if strict and any(g is None for g in found):
        number = [g is None for g in found].index(True)
        rule = "affect the output, with strict=True"
        raise errors.must(op, f"inputs[{number}]", rule, xs[number])
    return tuple([functions.zeros_like(x) if g is None else g for x, g in zip(xs, found)])


def _settled(listed: Any, is_tuple: bool, create_graph: bool) -> Any:
    made = tuple([x if create_graph else x.detach() for x in listed])
    return made if is_tuple else made[0]


def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the outputs, and v times the Jacobian. v has the outputs' sizes."""
    given, is_tuple = _tensors("vjp", "inputs", inputs)
    with enable_grad():
        xs = _leaves(given, create_graph)
        ys, is_several = _tensors("vjp", "func", func(*xs))
        made = _pulled("vjp", ys, xs, _vectors("vjp", v, ys), create_graph, strict)
    return _settled(ys, is_several, create_graph), _settled(made, is_tuple, create_graph)


def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the outputs, and the Jacobian times v, computed in reverse mode. v has the inputs'
    sizes.
    """
    given, _ = _tensors("jvp", "inputs", inputs)
    with enable_grad():
        xs = _leaves(given, create_graph)
        ys, is_several = _tensors("jvp", "func", func(*xs))
        directions = _vectors("jvp", v, xs)
        us = tuple([_fresh(functions.zeros_like(y)) for y in ys])
        gradients = _pulled("jvp", ys, xs, us, True, strict)
        made = _pulled("jvp", gradients, us, directions, create_graph, False)
    return _settled(ys, is_several, create_graph), _settled(made, is_several, create_graph)


def jacobian(
    func: Function, inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """Return the derivative of each output with respect to each input. Its sizes are the output's
    sizes, then the input's sizes.

    strategy: "reverse-mode", or "forward-mode", which is cheaper for more outputs than inputs.
    vectorize: no effect, because rows are always computed together. So, unlike in PyTorch,
    "forward-mode" does not require vectorize=True.
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        rule = "be 'reverse-mode' or 'forward-mode'"
        raise errors.wrong_value("jacobian", "strategy", rule, strategy)
    given, is_tuple = _tensors("jacobian", "inputs", inputs)
    if strict:
        vjp(func, inputs, _ones(func, given), strict=True)
    transform = reverse.jacrev if strategy == "reverse-mode" else forward.jacfwd
    with enable_grad():
        xs = _leaves(given, True) if create_graph else tuple([x.detach() for x in given])
        made = transform(func, tuple(range(len(xs))))(*xs)
    # Return one tuple for each output, which contains one item for each input. For a single output
    # or input there is no tuple.
    rows = made if isinstance(made[0], tuple) else (made,)
    found = tuple([_settled(row, is_tuple, create_graph) for row in rows])
    return found if isinstance(made[0], tuple) else found[0]


def _ones(func: Function, xs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    ys, _ = _tensors("jacobian", "func", func(*xs))
    return tuple([functions.ones_like(y.detach()) for y in ys])


def _number(op: str, func: Function) -> Function:
    """Return a function that calls `func` and raises an error if the result is not one number."""

    def checked(*xs: Tensor) -> Tensor:
        (y, *others), _ = _tensors(op, "func", func(*xs))
        if others or y.numel() != 1:
            raise errors.wrong_value(op, "func", "return one number", y)
        return y.reshape(())

    return checked


def hessian(
    func: Function, inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """Return the second derivatives of a function that returns one number, for each pair of
    inputs."""
    _, is_tuple = _tensors("hessian", "inputs", inputs)
    of_number = _number("hessian", func)

    def gradient(*xs: Tensor) -> Any:
        made = reverse.grad(of_number, tuple(range(len(xs))))(*xs)
        return made if is_tuple else made[0]

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def _differentiated(
    op: str, func: Function, inputs: Any, create_graph: bool, strict: bool
) -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...], bool]:
    """Return the function's value, the tensors with respect to which it is differentiated, its
    recorded gradient, and whether the inputs are a tuple."""
    given, is_tuple = _tensors(op, "inputs", inputs)
    xs = _leaves(given, create_graph)
    y = _number(op, func)(*xs)
    return y, xs, _pulled(op, (y,), xs, (functions.ones_like(y),), True, strict), is_tuple


def vhp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the output, and v times the matrix of second derivatives."""
    with enable_grad():
        y, xs, first, is_tuple = _differentiated("vhp", func, inputs, create_graph, strict)
        made = _pulled("vhp", first, xs, _vectors("vhp", v, xs), create_graph, strict)
    return _settled((y,), False, create_graph), _settled(made, is_tuple, create_graph)


def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the output, and the matrix of second derivatives times v. If the second derivatives
    are continuous, the matrix is symmetric; then `vhp` returns the same result at less cost."""
    with enable_grad():
        y, xs, first, is_tuple = _differentiated("hvp", func, inputs, create_graph, strict)
        us = tuple([_fresh(functions.zeros_like(x)) for x in xs])
        second = _pulled("hvp", first, xs, us, True, strict)
        made = _pulled("hvp", second, us, _vectors("hvp", v, xs), create_graph, False)
    return _settled((y,), False, create_graph), _settled(made, is_tuple, create_graph)


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
