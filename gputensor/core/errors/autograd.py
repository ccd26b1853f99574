"""Errors of differentiation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from .base import ArgumentTypeError, GpuTensorError, describe


# These messages contain PyTorch's wording where PyTorch programs match on it.


class AutogradError(GpuTensorError, RuntimeError):
    """Error for a derivative that cannot be computed, because of the graph or because one of the
    derivative's tensors was written to."""


class AnomalyWarning(UserWarning):
    """A warning with the call site of the operation whose derivative failed."""


_Says: TypeAlias = Callable[[], AutogradError]


def _says(sentence: str) -> _Says:
    """Return a function that makes an AutogradError with this message."""
    return lambda: AutogradError(sentence)


no_backward_pass: _Says = _says("queue_callback: this thread runs no backward pass")
leaf_modified: _Says = _says(
    "a leaf Variable that requires grad is being used in an in-place operation."
)
view_of_leaf_modified: _Says = _says(
    "a view of a leaf Variable that requires grad is being used in an in-place operation."
)
leaf_in_graph: _Says = _says("leaf variable has been moved into the graph interior")
dirty_not_returned: _Says = _says(
    "Some elements marked as dirty during the forward method were not returned as output. The "
    "inputs that are modified inplace must all be outputs of the Function"
)
dirty_view_among_several: _Says = _says(
    "If your Function modifies inplace an input that is a view of another Tensor, your "
    "Function cannot return more than one Tensor"
)
pack_hook_wrote: _Says = _says(
    "A saved tensor pack hook is modifying its input in place. Tensors provided as input to "
    "pack hook can not be modified by in-place operations"
)
backward_twice: _Says = _says(
    "Trying to backward through the graph a second time (or directly access saved tensors "
    "after they have already been freed). Specify retain_graph=True if you need to backward "
    "through the graph a second time"
)
inference_tensor_saved: _Says = _says(
    "Inference tensors cannot be saved for backward; make a clone to get a normal tensor"
)
inplace_on_inference_tensor: _Says = _says(
    "Inplace update to inference tensor outside InferenceMode is not allowed; make a clone to "
    "get a normal tensor"
)
inference_requires_grad: _Says = _says(
    "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed"
)
inference_version: _Says = _says("Inference tensors do not track version counter")
requires_grad_of_nonleaf: _Says = _says(
    "you can only change requires_grad flags of leaf variables; use .detach() for a tensor "
    "without history"
)
detach_view: _Says = _says("Can't detach views in-place; use detach() instead")
input_without_grad: _Says = _says("One of the differentiated Tensors does not require grad")
deepcopy_of_nonleaf: _Says = _says(
    "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
    "at the moment. Use .detach() on what is copied"
)


def view_modified(made: str, what: str) -> AutogradError:
    return AutogradError(
        f"A view was {made} and {what} with grad mode enabled. Its history cannot follow the "
        "write; make the view where it is written to, or use an operation that is not in place"
    )


def not_a_gradient(value: Any) -> AutogradError:
    return AutogradError(f"expected Variable or None (got {type(value).__name__})")


def wrong_hook(
    hook: Any, rule: str, *, kind: type[GpuTensorError] = AutogradError
) -> GpuTensorError:
    return kind(f"hook '{getattr(hook, '__name__', type(hook).__name__)}' {rule}")


def data_not_differentiable(x: Any) -> AutogradError:
    return AutogradError(
        "data set to a tensor that requires gradients must be floating point or complex dtype "
        f"(got {describe(x)})"
    )


def dirty_no_input() -> str:
    return "mark_dirty: a tensor that is not an argument of forward need not be marked"


def saved_tensor_modified(x: Any, made_by: str, version: int, expected: int) -> AutogradError:
    which = f", which is {made_by}," if made_by else ""
    return AutogradError(
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{describe(x)}]{which} is at version {version}; expected version {expected} "
        "instead. Hint: gputensor.autograd.detect_anomaly() names the operation that failed to "
        "compute its gradient"
    )


def not_differentiable(op: str, arg: str) -> AutogradError:
    return AutogradError(
        f"The function '{op}' is not differentiable with respect to argument '{arg}'. This input "
        "cannot have requires_grad True; use .detach()"
    )


def derivative_not_implemented(operator: str) -> AutogradError:
    return AutogradError(f"derivative for {operator} is not implemented")


def derivative_needs(op: str, what: str) -> AutogradError:
    return AutogradError(f"The derivative of {op} needs {what}")


def out_with_grad(op: str) -> AutogradError:
    return AutogradError(
        f"{op}(): functions with out=... arguments don't support automatic differentiation, but "
        "one of the arguments requires grad"
    )


def cannot_resize_with_grad(op: str) -> AutogradError:
    return AutogradError(f"{op}: cannot resize variables that require grad")


def grad_of_integers(x: Any) -> AutogradError:
    rule = "only Tensors of floating point and complex dtype can require gradients"
    return AutogradError(f"{rule} (got {describe(x)})")


def grad_of_nonleaf() -> str:
    return (
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed; use "
        ".retain_grad() on it before backward() to have it filled"
    )


def nothing_to_differentiate(number: int) -> AutogradError:
    return AutogradError(
        f"element {number} of tensors does not require grad and does not have a grad_fn"
    )


def backward_of_wrapper(x: Any) -> AutogradError:
    return AutogradError(
        "the backward pass must not begin or end at a tensor with a tangent or within vmap "
        f"(got {describe(x)}); use gt.func.grad, which nests with gt.func.jvp and gt.func.vmap"
    )


def not_scalar(x: Any) -> AutogradError:
    return AutogradError(
        f"grad can be implicitly created only for scalar outputs (got {describe(x)})"
    )


def not_real_scalar(x: Any) -> AutogradError:
    return AutogradError(
        f"grad can be implicitly created only for real scalar outputs but got {describe(x)}"
    )


def wrong_grad_output(number: int, grad: Any, output: Any) -> AutogradError:
    return AutogradError(
        f"Mismatch in shape: grad_output[{number}] has a shape of {list(grad._geometry.sizes)} and "
        f"output[{number}] has a shape of {list(output._geometry.sizes)}"
    )


def grads_count(tensors: int, grads: int) -> AutogradError:
    return AutogradError(f"got {tensors} tensors and {grads} gradients")


def input_unused(number: int) -> AutogradError:
    return AutogradError(
        f"The differentiated Tensor at index {number} appears to not have been used in the graph. "
        "Set allow_unused=True if this is the desired behavior"
    )


def wrong_gradient(name: str, number: int, got: Any, rule: str) -> AutogradError:
    return AutogradError(
        f"Function {name} returned an invalid gradient at index {number} - got {describe(got)} but "
        f"expected {rule}"
    )


def wrong_number_of_gradients(name: str, expected: int, got: int) -> AutogradError:
    what = "returned an incorrect number of gradients"
    return AutogradError(f"function {name} {what} (expected {expected}, got {got})")


def nan_gradient(name: str, number: int) -> AutogradError:
    return AutogradError(f"Function '{name}' returned nan values in its {number}th output.")


def failed_derivative(name: str, trace: str) -> str:
    return f"Error detected in {name}. Traceback of forward call that caused the error:\n{trace}"


def cannot_pickle(name: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"cannot pickle '{name}' object")


def hook_not_serialized(hook: Any) -> str:
    what = f"backward hook {hook!r} on tensor will not be serialized"
    return f"{what}; register it again where it is loaded"


class GradcheckError(AutogradError, AssertionError):
    """Error for an analytical derivative that differs from the numerical derivative."""


def gradients_differ(what: str, numerical: Any, analytical: Any, worst: float) -> GradcheckError:
    return GradcheckError(
        f"gradcheck: {what} must agree (worst difference {worst:.3g})\nnumerical:\n{numerical}\n"
        f"analytical:\n{analytical}"
    )


def wrong_function(rule: str) -> AutogradError:
    return AutogradError(f"autograd.Function: {rule}")
