"""The engine's public functions: `backward` and `grad`.

run.py walks the graph; node.py runs nodes that have hooks or other attachments.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ..._generated import calls
from ...core import errors
from ...core.dtype import COMPLEX
from ...core.geometry import Geometry
from ...dispatch import refusal
from ...dispatch.refusal import declares
from ...tensor.tensor import Tensor
from .. import variable
from .node import Grads
from .run import Run
from ..history import WRAPPED, gradient_edge, is_leaf, requires_grad
from ..node import Edge, GradientEdge, zeros_of


# --- public functions -----------------------------------------------------------------------------


@declares(
    tensors="Tensor|Tensor[]", grad_tensors="Tensor?|Tensor?[]", retain_graph="bool?",
    create_graph="bool", inputs="Tensor?|Tensor[]",
)  # fmt: skip
def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, inputs: Any = None,
) -> None:  # fmt: skip
    """Compute the gradients of the leaves from which `tensors` were made, and add them to `grad` of
    the leaves.

    Args:
        grad_tensors: the incoming gradient of each tensor; None is allowed for one element.
        retain_graph: keep saved values for another backward; by default equal to create_graph.
        create_graph: record the derivatives, so that they can be differentiated.
        inputs: the tensors to accumulate into, by default all leaves.
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
            if isinstance(x, Tensor) and requires_grad(x) and not is_leaf(x):
                variable.retain_grad(x)
        wanted = [_input_edge(x) for x in leaves]
    keep = create_graph if retain_graph is None else retain_graph
    Run(keep, create_graph).run(_roots(outputs), grads, wanted, accumulates=True)


@declares(
    outputs="Tensor|Tensor[]", inputs="Tensor|Tensor[]", grad_outputs="Tensor?|Tensor?[]",
    retain_graph="bool?", create_graph="bool", only_inputs="bool", allow_unused="bool?",
    is_grads_batched="bool", materialize_grads="bool",
)  # fmt: skip
def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, only_inputs: bool = True, allow_unused: bool | None = None,
    is_grads_batched: bool = False, materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return the gradients of `outputs` with respect to `inputs`, without changing any `.grad`.

    Args:
        grad_outputs, retain_graph, create_graph: as in `backward`.
        only_inputs: ignored, with a warning if it is False.
        allow_unused: return None for an input on which the outputs do not depend; do not raise.
        is_grads_batched: the first dimension of grad_outputs and of the results is a batch.
        materialize_grads: return zeros for an input on which the outputs do not depend.
    """
    if materialize_grads and allow_unused is False:
        rule = "not be False with materialize_grads"
        raise errors.must("grad", "allow_unused", rule, allow_unused)
    if not only_inputs:
        message = errors.deprecated("grad", "'only_inputs' is", "use backward to set .grad")
        refusal.warn(message, stacklevel=3)
    if is_grads_batched:
        options = (retain_graph, create_graph, True, allow_unused or materialize_grads)
        made = _batched(outputs, inputs, grad_outputs, options)
        return _filled(made, inputs) if materialize_grads else made
    results, wanted = _tuple(outputs), _tuple(inputs)
    if not wanted:
        raise errors.must("grad", "inputs", "not be empty", inputs)
    grads = _root_grads(results, grad_outputs)
    edges = [_input_edge(x) for x in wanted]
    keep = create_graph if retain_graph is None else retain_graph
    found = Run(keep, create_graph).run(_roots(results), grads, edges, accumulates=False)
    if materialize_grads:
        return _filled(found, wanted)
    unused = [number for number, gradient in enumerate(found) if gradient is None]
    if unused and not allow_unused:
        raise errors.input_unused(unused[0])
    return tuple(found)


def _filled(found: Sequence[Tensor | None], inputs: Any) -> tuple[Tensor, ...]:
    """Replace the gradients of unused inputs by zeros. These zeros have no batch dimension."""
    filled = []
    for x, gradient in zip(_tuple(inputs), found):
        if gradient is None:
            edge = _input_edge(x)
            assert edge is not None
            gradient = zeros_of(*edge[0].outputs[edge[1]])
        filled.append(gradient)
    return tuple(filled)


def _batched(
    outputs: Any, inputs: Any, grad_outputs: Any, options: tuple[Any, ...]
) -> tuple[Tensor | None, ...]:
    """Compute `grad` for each entry of a batch of incoming gradients, by vmap."""
    vmap = import_module("gputensor.func").vmap
    used: list[bool] = []
    given = () if grad_outputs is None else _tuple(grad_outputs)
    if not given or not all([isinstance(g, Tensor) and g.ndim for g in given]):
        rule = "have a batch dimension in each tensor, with is_grads_batched"
        kind = errors.ArgumentValueError
        raise errors.must("grad", "grad_outputs", rule, grad_outputs, kind=kind)

    def one(*given: Tensor) -> list[Tensor]:
        found = grad(outputs, inputs, given, *options)
        used[:] = [x is not None for x in found]
        return [x for x in found if x is not None]

    made = iter(vmap(one)(*given))
    return tuple([next(made) if is_used else None for is_used in used])


def _tuple(tensors: Any) -> tuple[Any, ...]:
    return (tensors,) if isinstance(tensors, (Tensor, GradientEdge)) else tuple(tensors)


def _shape(x: Any) -> Geometry:
    """Return the geometry of a tensor, or of the gradient that arrives at an edge."""
    shape: Geometry = x.node.outputs[x.output_nr][0] if isinstance(x, GradientEdge) else x._geometry
    return shape


def _root_grads(outputs: Sequence[Any], given: Any) -> Grads:
    grads: Grads = [None] * len(outputs) if given is None else list(_tuple(given))
    if len(grads) != len(outputs):
        raise errors.grads_count(len(outputs), len(grads))
    for number, (output, g) in enumerate(zip(outputs, grads)):
        if g is not None:
            if not isinstance(g, Tensor):
                rule = "be a Tensor or None"
                raise errors.wrong_type("backward", f"grad_tensors[{number}]", rule, g)
            shape = _shape(output)
            if g._geometry.sizes != shape.sizes:
                raise errors.wrong_grad_output(number, g, output)
            if g._geometry.dtype.is_complex != shape.dtype.is_complex:
                rule = "be complex as the output is"
                raise errors.must("backward", f"grad_tensors[{number}]", rule, g)
        elif isinstance(output, GradientEdge):
            shape, place = output.node.outputs[output.output_nr]
            if shape.numel != 1 or shape.dtype.category == COMPLEX:
                rule = "be given for an edge of several or complex numbers"
                raise errors.must("backward", f"grad_tensors[{number}]", rule, None)
            grads[number] = zeros_of(shape, place).fill_(1)
        elif requires_grad(output):
            if output._geometry.numel != 1:
                raise errors.not_scalar(output)
            if output._geometry.dtype.category == COMPLEX:
                raise errors.not_real_scalar(output)
            grads[number] = calls.ones_like(output)
    return grads


def _roots(outputs: Sequence[Any]) -> list[Edge]:
    roots = []
    for number, output in enumerate(outputs):
        _check_unwrapped(output)
        edge = output[:2] if isinstance(output, GradientEdge) else gradient_edge(output)
        if edge is None:
            raise errors.nothing_to_differentiate(number)
        roots.append(edge)
    return roots


def _check_unwrapped(x: Any) -> None:
    if getattr(x, "_autograd", None) is WRAPPED:
        raise errors.backward_of_wrapper(x)


def _input_edge(x: Any) -> Edge | None:
    if isinstance(x, GradientEdge):
        return x[:2]
    _check_unwrapped(x)
    if not requires_grad(x):
        raise errors.input_without_grad()
    return gradient_edge(x)
