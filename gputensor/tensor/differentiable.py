"""Attributes and methods of tensors for autograd. gputensor/autograd/ implements them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from .._generated import calls
from ..core import errors
from ..core.arguments import flag
from ..dispatch.tls import AD_INPLACE_OR_VIEW
from .base import TensorBase

if TYPE_CHECKING:
    from .tensor import Tensor


class _Above:
    """A placeholder for the package gputensor.autograd, or for its module `variable`. The package's
    import replaces the placeholder.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, attribute: str) -> Any:
        import_module("gputensor.autograd")
        return getattr(globals()[self.name], attribute)


autograd: Any = _Above("autograd")
variable: Any = _Above("variable")


class Differentiable(TensorBase):
    """The attributes of tensors for automatic differentiation."""

    __slots__ = ()

    @property
    def requires_grad(self) -> bool:
        """True if operations on the tensor are recorded for differentiation."""
        return self._autograd is not None and variable.requires_grad(self)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        variable.set_requires_grad(self, flag("requires_grad", "value", value))

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether operations on this leaf are recorded. Return the tensor."""
        variable.set_requires_grad(self, flag("requires_grad_", "requires_grad", requires_grad))
        return self

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward` has accumulated. Only leaves, and tensors on which
        `retain_grad` was called, have a gradient."""
        return None if self._autograd is None else variable.grad(self)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        variable.set_grad(self, value)

    @grad.deleter
    def grad(self) -> None:
        variable.set_grad(self, None)

    @property
    def _grad(self) -> Tensor | None:
        """PyTorch's private name of `grad`, to which programs assign."""
        return self.grad

    @_grad.setter
    def _grad(self, value: Tensor | None) -> None:
        variable.set_grad(self, value)

    @property
    def grad_fn(self) -> Any:
        """The node of the operation that made the tensor; None for a leaf."""
        return None if self._autograd is None else variable.grad_fn(self)

    @property
    def is_leaf(self) -> bool:
        """True if no recorded operation made the tensor."""
        return self._autograd is None or variable.is_leaf(self)

    @property
    def output_nr(self) -> int:
        """The index of this tensor among the outputs of `grad_fn`."""
        return 0 if self._autograd is None else variable.output_nr(self)

    def backward(
        self, gradient: Tensor | None = None, retain_graph: bool | None = None,
        create_graph: bool = False, inputs: Any = None,
    ) -> None:  # fmt: skip
        """Compute the gradients of the leaves from which this tensor was made, and add them to
        their `grad`.

        gradient: the gradient of this tensor. The default, for a tensor with one element, is 1. See
        gt.autograd.backward.
        """
        autograd.backward(self, gradient, retain_graph, create_graph, inputs)

    def detach_(self) -> Self:
        """Detach this tensor from its history, in place."""
        variable.detach_(self)
        return self

    def retain_grad(self) -> None:
        """Let `backward` set `grad` of this tensor, although the tensor is not a leaf."""
        variable.retain_grad(self)

    @property
    def retains_grad(self) -> bool:
        """True if `retain_grad` was called on a tensor that is not a leaf."""
        return self._autograd is not None and variable.retains_grad(self)

    def register_hook(self, hook: Any) -> Any:
        """Register `hook(grad)`, which is called when the gradient of this tensor is known. A
        result that is not None replaces the gradient.

        Return a handle with `remove()`.
        """
        return variable.register_hook(self, _callable("register_hook", hook))

    def register_post_accumulate_grad_hook(self, hook: Any) -> Any:
        """Register `hook(tensor)`, which is called after each addition to `grad` of this leaf."""
        named = _callable("register_post_accumulate_grad_hook", hook)
        return variable.register_post_accumulate_grad_hook(self, named)

    @property
    def data(self) -> Tensor:
        """A tensor over the same memory, without history and with its own version counter."""
        x: Any = self
        detached = calls.detach(x)
        detached._storage = detached._get_storage().twin()
        return detached

    @data.setter
    def data(self, value: Tensor) -> None:
        variable.set_data(self, value)

    @property
    def _base(self) -> Tensor | None:
        return None if self._autograd is None else variable.base(self)

    def _is_view(self) -> bool:
        return self._base is not None

    def is_inference(self) -> bool:
        """True if the tensor was made in inference mode."""
        return not self._keys & AD_INPLACE_OR_VIEW


def _callable(op: str, hook: Any) -> Any:
    if not callable(hook):
        raise errors.wrong_type(op, "hook", "be callable", hook)
    return hook
