"""Modules with uninitialised parameters, and convolution weights in another memory format.

Source: torch/nn/utils/init.py, memory_format.py.
"""

from __future__ import annotations

from typing import Any

from ...core import errors
from ...dispatch.refusal import declares
from ..modules.conv import _Conv
from ..modules.module import Module

__all__ = [
    "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format", "skip_init",
]  # fmt: skip


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """Make a module on `device` with uninitialised parameters and buffers.

    Raises: ArgumentTypeError if module_cls is not a subclass of Module.
    """
    if not isinstance(module_cls, type) or not issubclass(module_cls, Module):
        raise errors.wrong_type("skip_init", "module_cls", "be a subclass of Module", module_cls)
    device = kwargs.pop("device", "cpu")
    make: Any = module_cls
    made: Module = make(*args, device="meta", **kwargs)
    return made.to_empty(device=device)


def check_module(op: str, arg: str, value: Any) -> None:
    """Raise an error if an argument is not a module."""
    if not isinstance(value, Module):
        raise errors.wrong_type(op, arg, "be a Module", value)


def _convert(module: Any, memory_format: Any, ndim: int) -> Any:
    check_module(f"convert_conv{ndim}d_weight_memory_format", "module", module)
    for below in module.modules():
        if isinstance(below, _Conv) and below.ndim in (2, ndim):
            weight = below.weight
            if weight.ndim == ndim + 2:
                weight.data = weight.detach().clone(memory_format=memory_format)
    return module


@declares(module="Callable", memory_format="MemoryFormat")
def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Convert the weights of all Conv2d and ConvTranspose2d modules to a memory format."""
    return _convert(module, memory_format, 2)


@declares(module="Callable", memory_format="MemoryFormat")
def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Convert the weights of all Conv3d and ConvTranspose3d modules to a memory format."""
    return _convert(module, memory_format, 3)
