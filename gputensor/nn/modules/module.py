"""Module: a tree of parameters, buffers and submodules, with a `forward` that computes with them.

Source: torch/nn/modules/module.py.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from ... import autograd
from ...core import errors
from ...core.arguments import element_type
from ...core.device import device as _device
from ...core.dtype import FLOATING, dtype as _dtype
from ...dispatch.refusal import declare_constructor, read
from ...tensor.tensor import Tensor
from ..parameter import Buffer, Parameter
from .hooks import BackwardHooks, Hooks, registered
from .state import IncompatibleKeys, joined, load_own, load_state, save_own, saved_state

_OURS = ("gputensor.nn.modules.", "gputensor.parallel.")
# Attributes of a Module that contain its registered values.
_KINDS = ("_parameters", "_modules", "_buffers")


class Module(Hooks):
    """Base class of all networks. A subclass assigns Parameters, Buffers and Modules as attributes,
    and defines `forward`.

    training: True after `train()`, False after `eval()`. Dropout and norms read it.
    """

    training: bool
    _version: int = 1  # version of the entries that the class saves (`_load_from_state_dict`)
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]

    def __init__(self) -> None:
        set_ = super().__setattr__
        set_("training", True)
        set_("_parameters", {})
        set_("_buffers", {})
        set_("_modules", {})
        set_("_non_persistent_buffers_set", set())

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Wrap the constructors of our modules, so that errors name the argument that is wrong."""
        super().__init_subclass__(**kwargs)
        declare_constructor(cls, _OURS)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's result. Raises: NotImplementedError unless a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        has_backward = self._backward_pre_hooks or self._backward_hooks
        if not (self._forward_pre_hooks or self._forward_hooks or has_backward):
            try:
                return self.forward(*args, **kwargs)
            except errors.GpuTensorError:
                raise
            except Exception:
                forward = type(self).forward
                # The module of code that `exec` defines without a name is None.
                if str(getattr(forward, "__module__", None)).startswith(_OURS):
                    read(type(self).__name__, forward, {}, (self, *args), kwargs)
                raise
        ran: list[Any] = []
        try:
            for hook, takes_kwargs in self._hooks("_forward_pre_hooks"):
                found = hook(self, args, kwargs) if takes_kwargs else hook(self, args)
                if found is not None and takes_kwargs:
                    args, kwargs = found
                elif found is not None:
                    args = found if isinstance(found, tuple) else (found,)
            backward = BackwardHooks(self) if has_backward else None
            if backward is not None:
                args = backward.inputs(args)
            result = self._finished(args, kwargs, self.forward(*args, **kwargs), ran)
            return result if backward is None else backward.outputs(result)
        except Exception:
            self._failed(args, kwargs, ran)
            raise

    # --- attributes -----------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        slots = self.__dict__
        if "_modules" not in slots:
            if isinstance(value, (Parameter, Buffer, Module)):
                rule = "be called before attributes are assigned"
                raise errors.must(type(self).__name__, "super().__init__()", rule, name)
            super().__setattr__(name, value)
        elif isinstance(value, Parameter):
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            # Unlike add_module, an assignment may hide an attribute of the class.
            self._release(name, "_modules")
            slots["_modules"][name] = registered(self, "_modules", name, value)
        elif isinstance(value, Buffer):
            self.register_buffer(name, value, *([] if value.persistent else [False]))
        elif name in slots["_parameters"]:
            if value is not None:
                rule = "be a Parameter or None, as it was one"
                raise errors.wrong_type(type(self).__name__, name, rule, value)
            slots["_parameters"][name] = None
        elif name in slots["_buffers"]:
            if value is not None and not isinstance(value, Tensor):
                rule = "be a Tensor or None, as it is a buffer"
                raise errors.wrong_type(type(self).__name__, name, rule, value)
            slots["_buffers"][name] = value
        elif name in slots["_modules"]:
            if value is not None:
                rule = "be a Module or None, as it was one"
                raise errors.wrong_type(type(self).__name__, name, rule, value)
            slots["_modules"][name] = None
        else:
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        for kind in _KINDS:
            found = self.__dict__.get(kind)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for kind in _KINDS:
            if name in self.__dict__[kind]:
                del self.__dict__[kind][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for kind in _KINDS for name in vars(self)[kind])})

    def _claim(self, what: str, name: str, kind: str) -> None:
        """Check that an attribute of this kind may have the name, and remove attributes of other
        kinds with this name. Raises: ArgumentValueError for a bad name."""
        if not isinstance(name, str):
            raise errors.wrong_type(what, "name", "be a str", name)
        if not name or "." in name:
            raise errors.must(what, "name", "be neither empty nor have a dot", name)
        taken = hasattr(self, name) and name not in self.__dict__[kind]
        if taken and name not in self.__dict__ and not any(
            name in self.__dict__[other] for other in _KINDS
        ):  # fmt: skip
            raise errors.must(what, "name", f"not be an attribute of {type(self).__name__}", name)
        self._release(name, kind)

    def _release(self, name: str, kind: str) -> None:
        """Remove attributes of other kinds with this name."""
        self.__dict__.pop(name, None)
        for other in _KINDS:
            if other != kind:
                self.__dict__[other].pop(name, None)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Register a Parameter, or None for a parameter that is absent."""
        if param is not None and not isinstance(param, Parameter):
            raise errors.wrong_type("register_parameter", "param", "be a Parameter or None", param)
        if param is not None and not param.is_leaf:
            raise errors.must("register_parameter", "param", "be a leaf", param)
        self._claim("register_parameter", name, "_parameters")
        if param is not None:
            param = registered(self, "_parameters", name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a tensor that is not a parameter. `to()` moves and casts it. If `persistent`,
        `state_dict()` includes it."""
        if tensor is not None and not isinstance(tensor, Tensor):
            raise errors.wrong_type("register_buffer", "tensor", "be a Tensor or None", tensor)
        self._claim("register_buffer", name, "_buffers")
        self._buffers[name] = registered(self, "_buffers", name, tensor)
        apart = self._non_persistent_buffers_set
        (apart.discard if persistent else apart.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Register a module, or None for a module that is absent."""
        if module is not None and not isinstance(module, Module):
            raise errors.wrong_type("add_module", "module", "be a Module or None", module)
        self._claim("add_module", name, "_modules")
        self._modules[name] = registered(self, "_modules", name, module)

    register_module = add_module

    # --- the tree -------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield this module and all submodules, each once, with names relative to this module."""
        seen = set() if memo is None else memo
        if remove_duplicate and self in seen:
            return
        seen.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(seen, joined(prefix, name), remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        return (m for _, m in self.named_modules(remove_duplicate=remove_duplicate))

    def named_children(self) -> Iterator[tuple[str, Module]]:
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        return (module for _, module in self.named_children())

    def _named(
        self, kind: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        modules = self.named_modules(None, prefix, remove_duplicate)
        seen: set[int] = set()
        for path, module in modules if recurse else [(prefix, self)]:
            for name, value in module.__dict__[kind].items():
                if value is not None and not (remove_duplicate and id(value) in seen):
                    seen.add(id(value))
                    yield joined(path, name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters of this module and of its submodules, each once, with names relative
        to this module."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return (value for _, value in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (value for _, value in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """Return the module at a path like `layers.0`. Raises: AttributeError if it is missing."""
        module: Module = self
        for name in target.split(".") if target else []:
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"'{name}' of {target!r} is not a Module")
        return module

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a path. Raises: AttributeError if there is none."""
        found: Parameter = self._get(target, "_parameters")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a path. Raises: AttributeError if there is none."""
        found: Tensor = self._get(target, "_buffers")
        return found

    def _get(self, target: str, kind: str) -> Any:
        path, _, name = target.rpartition(".")
        found = self.get_submodule(path).__dict__[kind].get(name)
        if found is None:
            raise AttributeError(f"{target!r} is no {kind.strip('_').removesuffix('s')}")
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Set the module at a path such as `layers.0`. With `strict`, the path must exist already.

        Raises: AttributeError if a part of the path is not a module. With `strict`, also if the
        path does not exist.
        """
        path, _, name = target.rpartition(".")
        if not isinstance(module, Module):
            raise errors.wrong_type("set_submodule", "module", "be a Module", module)
        if strict or hasattr(self.get_submodule(path), name):
            self.get_submodule(target)
        self.get_submodule(path).add_module(name, module)

    # --- all modules and tensors ----------------------------------------------------------------

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` with every submodule and then with this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Call `fn` with every parameter, gradient and buffer, and replace the tensor's data by the
        result. Parameters remain the same objects."""
        for module in self.modules() if recurse else [self]:
            for param in module._parameters.values():
                if param is not None:
                    grad = param.grad
                    with autograd.no_grad():
                        made = fn(param)
                    if made is not param:
                        param.grad = None
                        param.data = made
                        if grad is not None:
                            param.grad = fn(grad)
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[name] = fn(buffer)
        return self

    def to(
        self, *args: Any, device: Any = None, dtype: _dtype | None = None,
        non_blocking: bool = False, memory_format: Any = None,
    ) -> Self:  # fmt: skip
        """Move to a device and cast floating tensors: `to(device, dtype)`, `to(dtype)`,
        `to(tensor)`. `to(memory_format=...)` changes the strides of tensors with 4 or 5 dimensions.
        """
        place, element, is_late = parse_to(args, device, dtype, non_blocking)
        if element is not None and element.category < FLOATING:
            raise errors.wrong_type("to", "dtype", "be a floating or complex dtype", element)

        def moved(x: Tensor) -> Tensor:
            kwargs: dict[str, Any] = {} if place is None else {"device": place}
            if element is not None and x.dtype.category >= FLOATING:
                kwargs["dtype"] = element
            if memory_format is not None and x.ndim in (4, 5):
                kwargs["memory_format"] = memory_format
            return x.to(**kwargs, non_blocking=is_late) if kwargs else x

        return self._apply(moved)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device without copying values. The new memory is uninitialised."""
        from ..._generated.functions import empty_like

        return self._apply(lambda x: empty_like(x, device=device), recurse)

    def cpu(self) -> Self:
        return self._apply(lambda x: x.cpu())

    def cuda(self, device: Any = None) -> Self:
        return self._apply(lambda x: x.cuda(device))

    def _cast(self, name: str) -> Self:
        def cast(x: Tensor) -> Tensor:
            return getattr(x, name)() if x.is_floating_point() else x

        return self._apply(cast)

    def float(self) -> Self:
        return self._cast("float")

    def double(self) -> Self:
        return self._cast("double")

    def half(self) -> Self:
        return self._cast("half")

    def bfloat16(self) -> Self:
        return self._cast("bfloat16")

    def type(self, dst_type: Any) -> Self:
        """Cast all parameters and buffers, as `Tensor.type` does for one tensor."""
        return self._apply(lambda x: x.type(dst_type))

    def share_memory(self) -> Self:
        """Move parameters and buffers into shared memory. See Tensor.share_memory_."""
        return self._apply(lambda x: x.share_memory_())

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: modules are not compiled. PyTorch programs may call this method."""

    def train(self, mode: bool = True) -> Self:
        """Set training mode on all modules: Dropout drops, norms use the batch's statistics."""
        if not isinstance(mode, bool):
            raise errors.wrong_type("train", "mode", "be a bool", mode)
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or to zeros."""
        for param in self.parameters():
            if param.grad is not None:
                if set_to_none:
                    param.grad = None
                else:
                    param.grad.detach_().zero_()

    # --- state ----------------------------------------------------------------------------------

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "",
        keep_vars: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """Return parameters and persistent buffers by name. The values are the tensors themselves,
        detached unless `keep_vars`. `gt.save` and safetensors accept the result. Its attribute
        `_metadata` has the version of each module's class."""
        if destination is None:
            made: Any = OrderedDict()
            made._metadata = OrderedDict()
            destination = made
        return saved_state(self, destination, prefix, keep_vars)

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Write the module's own entries, without its submodules' entries, to a state dict. A class
        may override it."""
        save_own(self, destination, prefix, keep_vars)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any],
        strict: bool, missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Load the module's own entries, without its submodules' entries, from a state dict. A
        class may override it to change entries of files from earlier versions, and then call
        super().

        local_metadata["version"]: the `_version` of the class when the state was saved. It is
        absent from states without metadata. missing_keys, unexpected_keys, error_msgs: lists to
        extend.
        """
        load_own(
            self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
            error_msgs,
        )  # fmt: skip

    def _saved(self) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, tensor) for this module's own parameters and persistent buffers."""
        for name, value in itertools.chain(self._parameters.items(), self._buffers.items()):
            if value is not None and name not in self._non_persistent_buffers_set:
                yield name, value

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy tensors into the parameters and buffers of the same names. With `assign`, use the
        tensors themselves.

        Names and shapes are PyTorch's, so the values of torch's state dicts fit, as
        gputensor tensors or ndarrays.
        Raises: ArgumentValueError, before any change, for different shapes, and with `strict` for
            missing or unexpected names.
        """
        return load_state(self, state_dict, strict, assign)

    # --- repr -------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Return the text between the brackets of `repr`."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        below = [f"({name}): {indented(repr(module))}" for name, module in self._modules.items()]
        if len(lines) == 1 and not below:
            return f"{self._get_name()}({lines[0]})"
        inner = "".join(f"  {line}\n" for line in [*lines, *below])
        return f"{self._get_name()}(\n{inner})" if inner else f"{self._get_name()}()"


def indented(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(f"  {line}" for line in rest)])


def parse_to(
    args: tuple[Any, ...], device: Any, dtype: Any, non_blocking: bool
) -> tuple[_device | None, _dtype | None, bool]:
    """Return device, dtype and non_blocking for the arguments of `to`. args: the positional
    arguments. A tensor among them gives its device and dtype."""
    for given in args:
        if isinstance(given, Tensor):
            device, dtype = given.device, given.dtype
        elif isinstance(given, (_dtype, type)):
            dtype = given
        elif isinstance(given, bool):
            non_blocking = given
        elif given is not None:
            device = given
    place = None if device is None else _device(device)
    return place, None if dtype is None else element_type("to", dtype), non_blocking
