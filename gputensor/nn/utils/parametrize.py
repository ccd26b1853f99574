"""Parametrizations: a tensor of a module is computed from other tensors each time it is read.

The module gets a class of its own, with a property for each parametrized tensor. The learned tensor
is `module.parametrizations.NAME.original`. Source: torch/nn/utils/parametrize.py.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...autograd import no_grad
from ...core import errors, lazy
from ...tensor.tensor import Tensor
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]  # fmt: skip

_depth = 0  # the number of active `cached` contexts
_cache: dict[tuple[int, str], Any] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once inside this context, on its first read."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _cache.clear()


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _check(what: str, made: Any, like: Tensor) -> None:
    """Raise an error unless `made` has the dtype and shape of the tensor `like`."""
    if not isinstance(made, Tensor):
        raise errors.wrong_type("register_parametrization", what, "give a Tensor", made)
    if made.dtype != like.dtype or made.shape != like.shape:
        rule = f"keep dtype {like.dtype} and shape {tuple(like.shape)}; or pass unsafe=True"
        raise errors.wrong_value("register_parametrization", what, rule, made)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor. They are applied in order to `original`, or to
    `original0`, `original1`, ... if the first parametrization takes several tensors."""

    original: Tensor
    unsafe: bool
    is_tensor: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise errors.wrong_value("ParametrizationList", "modules", "hold a module", modules)
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            new = self._inverse(original)
        self.is_tensor = isinstance(new, Tensor)
        if not self.is_tensor and not isinstance(new, Sequence):
            rule = "give a Tensor or a sequence of Tensors"
            raise errors.wrong_type("ParametrizationList", "right_inverse", rule, new)
        self.ntensors: int = 1 if self.is_tensor else len(new)
        if self.is_tensor and new.dtype != original.dtype:
            rule = f"keep dtype {original.dtype}"
            raise errors.wrong_value("ParametrizationList", "right_inverse", rule, new)
        for name, value in zip(self._names(), [new] if self.is_tensor else new):
            _register(self, name, self._kept(value, original))
        if not unsafe:
            _check("parametrization", self(), original)

    def _kept(self, value: Tensor, original: Tensor) -> Tensor:
        if self.is_tensor:
            with no_grad():
                original.data = value
            return original
        is_learnt = isinstance(original, Parameter)
        return Parameter(value, original.requires_grad) if is_learnt else value

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{n}" for n in range(self.ntensors)]

    def _inverse(self, value: Any) -> Any:
        for module in reversed(list(self)):
            if hasattr(module, "right_inverse"):
                try:
                    value = module.right_inverse(value)
                except NotImplementedError:
                    pass
        return value

    @no_grad()
    def right_inverse(self, value: Tensor) -> None:
        """Set the original tensors to values that the parametrizations map to `value`.

        Raises: NotImplementedError if a parametrization has no right_inverse.
        """
        new: Any = value
        for module in reversed(list(self)):
            if not hasattr(module, "right_inverse"):
                name = type(module).__name__
                raise NotImplementedError(f"{name} has no right_inverse, so nothing can be set")
            new = module.right_inverse(new)
        for name, made in zip(self._names(), [new] if self.is_tensor else new):
            kept = getattr(self, name)
            if kept.dtype != made.dtype or kept.shape != made.shape and not self.unsafe:
                rule = f"keep dtype {kept.dtype} and shape {tuple(kept.shape)}"
                raise errors.wrong_value("ParametrizationList", "right_inverse", rule, made)
            kept.data = made.detach().clone() if made is value else made

    def forward(self) -> Tensor:
        first, *rest = self
        x: Tensor = first(*[getattr(self, name) for name in self._names()])
        for module in rest:
            x = module(x)
        return x


def _property(name: str) -> property:
    def read(self: Any) -> Any:
        if not _depth:
            return self.parametrizations[name]()
        key = id(self), name
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def write(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(read, write)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let `parametrization` compute `module.tensor_name` at each read.

    Args: unsafe: let the parametrization change dtype and shape, and check nothing.
    Raises: ArgumentValueError for an unknown tensor, or if dtype or shape would change.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        have: Any = module.parametrizations[tensor_name]
        if not unsafe:
            with no_grad():
                now = getattr(module, tensor_name)
                _check("parametrization", parametrization(now), now)
        have.append(parametrization)
        have.unsafe |= unsafe
        return module
    original = module._parameters.get(tensor_name, module._buffers.get(tensor_name))
    if original is None:
        rule = f"be a parameter or buffer of {type(module).__name__}"
        raise errors.wrong_value("register_parametrization", "tensor_name", rule, tensor_name)
    made = ParametrizationList([parametrization], original, unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        kind = type(module)
        fields = {"__module__": kind.__module__, "__qualname__": f"Parametrized{kind.__qualname__}"}
        module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), fields)
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = made
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """True if this tensor of a module has a parametrization. With tensor_name=None, True if any
    tensor has one."""
    have = module._modules.get("parametrizations")
    if not isinstance(have, ModuleDict):
        return False
    return len(have) > 0 if tensor_name is None else tensor_name in have


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a tensor an ordinary parameter or buffer again. It keeps its present value or, with
    leave_parametrized=False, gets the value of `original`."""
    if not is_parametrized(module, tensor_name):
        rule = f"have a parametrization in {type(module).__name__}"
        raise errors.wrong_value("remove_parametrizations", "tensor_name", rule, tensor_name)
    have: Any = module.parametrizations[tensor_name]
    if not have.is_tensor and not leave_parametrized:
        rule = "be True for a parametrization of several tensors"
        raise errors.wrong_value("remove_parametrizations", "leave_parametrized", rule, False)
    kept = getattr(have, have._names()[0])
    if not have.is_tensor:
        now = getattr(module, tensor_name)
        kept = Parameter(now.detach()) if now.requires_grad else now
    elif leave_parametrized:
        with no_grad():
            kept.data = getattr(module, tensor_name).detach().clone()
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, kept)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the class of a module without its parametrizations."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Copy the parametrizations and values of `from_module` to `to_module`, for one tensor or for
    all tensors."""
    if tensor_name is not None and not is_parametrized(from_module, tensor_name):
        rule = f"have a parametrization in {type(from_module).__name__}"
        raise errors.wrong_value(
            "transfer_parametrizations_and_params", "tensor_name", rule, tensor_name
        )
    every = list(getattr(from_module, "parametrizations", ()))
    for name in every if tensor_name is None else [tensor_name]:
        source: Any = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            plain = source.original if source.is_tensor else getattr(from_module, name)
            _register(to_module, name, copy.deepcopy(plain.detach()) if not isinstance(
                plain, Parameter) else Parameter(plain.detach().clone()))  # fmt: skip
        for one in source:
            register_parametrization(to_module, name, copy.deepcopy(one), unsafe=source.unsafe)
        target: Any = to_module.parametrizations[name]
        with no_grad():
            for key in source._names():
                getattr(target, key).data = getattr(source, key).detach().clone()
    return to_module


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
