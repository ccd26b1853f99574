"""weight_norm and spectral_norm by hooks before `forward`, the older alternative to
parametrizations.

A module's state contains weight_g and weight_v for weight_norm, and weight_orig, weight_u and
weight_v for spectral_norm. Source: torch/nn/utils/weight_norm.py, spectral_norm.py.
"""

from __future__ import annotations

from typing import Any

from ...autograd import no_grad
from ...core import errors
from ...dispatch.refusal import declares
from ...tensor.tensor import Tensor
from .. import functional as F
from ..modules.module import Module
from ..parameter import Parameter
from .making import check_module
from .parametrizations import as_matrix, iterate_power, norm_except, output_dim

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


class _Norm:
    """A hook that computes the tensor `name` of a module from other parameters before each
    forward."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, module: Any, args: Any) -> None:
        setattr(module, self.name, self.compute(module))

    def compute(self, module: Any) -> Tensor:
        raise NotImplementedError


class WeightNorm(_Norm):
    """The hook of weight_norm: weight = weight_g * weight_v / |weight_v|."""

    def __init__(self, name: str, dim: int | None) -> None:
        super().__init__(name)
        self.dim: int = -1 if dim is None else dim

    def compute(self, module: Any) -> Tensor:
        g, v = (getattr(module, f"{self.name}_{part}") for part in "gv")
        made: Tensor = v * (g / norm_except(v, self.dim))
        return made


class SpectralNorm(_Norm):
    """The hook of spectral_norm: weight = weight_orig divided by its largest singular value."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__(name)
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps

    def compute(self, module: Any, follows: bool | None = None) -> Tensor:
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = as_matrix(weight, self.dim)
        if module.training if follows is None else follows:
            # This class updates the vectors in the order v, u. The parametrization updates u first.
            iterate_power(matrix.detach().mH, v, u, self.n_power_iterations, self.eps)
            u, v = u.clone(), v.clone()
        made: Tensor = weight / (u * (matrix @ v)).sum()
        return made


def _check(op: str, module: Any, name: str, dim: int | None = None) -> None:
    """Raise an error if `module` is not a Module, or if its parameter `name` has no dimension
    `dim`."""
    check_module(op, "module", module)
    weight = module._parameters.get(name)
    if dim is not None and weight is not None and not -weight.ndim <= dim < weight.ndim:
        raise errors.dim_out_of_range(op, dim, weight.ndim)


def _hook(module: Module, name: str, kind: type[_Norm]) -> int | None:
    """Return the key of the hook of class `kind` for the tensor `name`, or None without such a
    hook."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            return int(key)
    return None


def _add(op: str, module: Module, hook: _Norm) -> Any:
    """Register the hook. Return the parameter that it replaces."""
    weight = module._parameters.get(hook.name)
    if weight is None or _hook(module, hook.name, type(hook)) is not None:
        rule = f"be a parameter of {type(module).__name__} without this hook"
        raise errors.wrong_value(op, "name", rule, hook.name)
    delattr(module, hook.name)
    module.register_forward_pre_hook(hook)
    return weight


@declares(module="Callable", name="str", dim="int?")
def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Replace a parameter by a direction and by magnitudes, one for each index of `dim`. A hook
    computes the parameter from them."""
    _check("weight_norm", module, name, dim)
    hook = WeightNorm(name, dim)
    weight = _add("weight_norm", module, hook)
    module.register_parameter(f"{name}_g", Parameter(norm_except(weight.detach(), hook.dim)))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute(module))
    return module


@declares(
    module="Callable", name="str", n_power_iterations="int", eps="float", dim="int?"
)  # fmt: skip
def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """Divide a parameter by its largest singular value before each forward."""
    _check("spectral_norm", module, name, dim)
    if n_power_iterations < 1:
        rule = "be positive"
        raise errors.wrong_value("spectral_norm", "n_power_iterations", rule, n_power_iterations)
    hook = SpectralNorm(name, n_power_iterations, output_dim(module, dim), eps)
    weight = _add("spectral_norm", module, hook)
    with no_grad():
        matrix = as_matrix(weight, hook.dim)
        u, v = (F.normalize(matrix.new_empty(n).normal_(0, 1), dim=0, eps=eps)
                for n in matrix.shape)  # fmt: skip
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    return module


def _remove(op: str, module: Any, name: str, kind: type[_Norm], parts: tuple[str, ...]) -> Any:
    _check(op, module, name)
    key = _hook(module, name, kind)
    if key is None:
        raise errors.wrong_value(op, "name", f"have such a hook in {type(module).__name__}", name)
    hook = module._forward_pre_hooks[key]
    with no_grad():
        off = {"follows": False} if kind is SpectralNorm else {}
        weight = hook.compute(module, **off).detach()
    for part in parts:
        delattr(module, f"{name}_{part}")
    delattr(module, name)
    del module._forward_pre_hooks[key]
    module.register_parameter(name, Parameter(weight))
    return module


@declares(module="Callable", name="str")
def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Undo weight_norm: make the tensor an ordinary parameter again."""
    return _remove("remove_weight_norm", module, name, WeightNorm, ("g", "v"))


@declares(module="Callable", name="str")
def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Undo spectral_norm: make the tensor an ordinary parameter again."""
    return _remove("remove_spectral_norm", module, name, SpectralNorm, ("orig", "u", "v"))
