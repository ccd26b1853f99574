"""Clipping of gradients, and conversion of parameters to one vector.

Source: torch/nn/utils/clip_grad.py, convert_parameters.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any

from ... import linalg
from ..._generated import functions
from ...autograd import no_grad
from ...core import errors
from ...core.renamed import renamed
from ...dispatch.refusal import declares
from ...tensor.tensor import Tensor

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "get_total_norm", "parameters_to_vector", "vector_to_parameters",
]  # fmt: skip


def lists() -> Any:
    """Return the module lists.py. It is imported only when gradients on CUDA are clipped,
    because it also imports fusion."""
    return import_module(f"{__package__}.lists")


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    of = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    for p in of:
        if not isinstance(p, Tensor):
            raise errors.wrong_type("clip_grad_norm_", "parameters", "hold Tensors", p)
    return [p.grad for p in of if p.grad is not None]


@declares(tensors="Parameters", norm_type="float", error_if_nonfinite="bool", foreach="bool?")
@no_grad()
def get_total_norm(
    tensors: Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return the norm of all tensors together, as if their elements were one vector.

    foreach: has no effect. On CUDA, few launches compute the norms of all tensors. This also holds
    for the other functions of this module.
    """
    listed = list(tensors)
    if not listed:
        return functions.zeros(())
    order = float(norm_type)
    total: Tensor = linalg.vector_norm(_norms(listed, order), order)
    if error_if_nonfinite and not total.isfinite():
        raise errors.must("clip_grad_norm_", "parameters", "have gradients of a finite norm", total)
    return total


def _norms(tensors: list[Tensor], order: float) -> Tensor:
    """Return the norm of each tensor, as a vector on the device of the first tensor."""
    of_lists = isinstance(tensors[0], Tensor) and tensors[0].is_cuda
    if of_lists and (found := lists().norms(tensors, order)) is not None:
        together: Tensor = found
        return together
    norms = [linalg.vector_norm(x, order) for x in tensors]
    place = norms[0].device
    return functions.stack([x if x.device is place else x.to(device=place) for x in norms])


@declares()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0,
    error_if_nonfinite: bool = False, foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scale all gradients in place, so that their common norm is at most `max_norm`.

    Returns: the norm before scaling. The factor stays on the device, so the host does not wait.
    """
    of = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = get_total_norm(_gradients(of), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(of, max_norm, total)
    return total


clip_grad_norm: Callable[..., Tensor] = renamed("clip_grad_norm", clip_grad_norm_)


@declares()
@no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor,
    foreach: bool | None = None,
) -> None:  # fmt: skip
    """Scale all gradients in place by max_norm / total_norm, if this factor is less than 1."""
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    of: dict[Any, list[Tensor]] = {}
    for grad in _gradients(parameters):
        of.setdefault((grad.device, grad.dtype), []).append(grad)
    for (device, kind), gradients in of.items():
        own = factor.to(device=device, dtype=kind)
        if device.type != "cuda" or not lists().scale_(gradients, own):
            for grad in gradients:
                grad.mul_(own)


@declares()
@no_grad()
def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clamp every element of every gradient to [-clip_value, clip_value], in place."""
    least, most = _bounds(float(clip_value))
    for grad in _gradients(parameters):
        grad.clamp_(least, most)


@lru_cache(maxsize=16)
def _bounds(most: float) -> tuple[float, float]:
    """Return (-most, most). The results are cached, because short cuts (dispatch/shortcuts.py)
    compare numbers by identity."""
    return -most, most


@declares(parameters="Parameters")
def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all elements of the parameters in one vector."""
    return functions.cat([p.reshape(-1) for p in parameters])


@declares(vec="Tensor", parameters="Parameters")
@no_grad()
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy a vector's elements to the parameters, in the order of the parameters."""
    at = 0
    for p in parameters:
        p.copy_(vec[at : at + p.numel()].view(p.shape))
        at += p.numel()
