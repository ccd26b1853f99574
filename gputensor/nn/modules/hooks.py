"""Hooks of modules: functions called before and after `forward`, the backward pass, `state_dict`
and `load_state_dict`. The methods `get_extra_state`, `set_extra_state` and `__setstate__`, by which
a class stores and restores further state, are here too.

Source: torch/nn/modules/module.py, torch/utils/hooks.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ...autograd.function import Function
from ...autograd.node import HookDict, RemovableHandle
from ...core import errors
from ...tensor.tensor import Tensor

if TYPE_CHECKING:
    from .module import Module


class FlaggedHooks(HookDict):
    """Hooks of one kind. flags: maps the id of a hook to the hook's options, as bits. Hooks without
    options have no entry."""

    __slots__ = ("flags",)
    flags: dict[int, int]

    def __init__(self) -> None:
        super().__init__()
        self.flags = {}


def with_flags(hooks: dict[int, Any]) -> list[tuple[Any, int]]:
    """Return (hook, flag) of each hook. The flag 0 means no options. A program may have replaced
    `hooks` by a plain dict, which has no flags. All hooks in a plain dict get the flag 0."""
    flags = getattr(hooks, "flags", {})
    return [(hook, flags.get(key, 0)) for key, hook in hooks.items()]


# An empty dict. Modules without hooks of a kind share this dict.
_NONE = FlaggedHooks()
_WITH_KWARGS, _ALWAYS = 1, 2


class Hooks:
    """Base class of Module: its hooks, and a method that registers each kind of hook."""

    # Hooks that are registered for all modules. A module that has no hooks itself reads these
    # attributes of the class, so that a call checks only one dict of each kind.
    _forward_pre_hooks: dict[int, Any] = FlaggedHooks()
    _forward_hooks: dict[int, Any] = FlaggedHooks()
    _backward_pre_hooks: dict[int, Any] = FlaggedHooks()
    _backward_hooks: dict[int, Any] = FlaggedHooks()
    _state_dict_pre_hooks: dict[int, Any] = _NONE
    _state_dict_hooks: dict[int, Any] = _NONE
    _load_state_dict_pre_hooks: dict[int, Any] = _NONE
    _load_state_dict_post_hooks: dict[int, Any] = _NONE

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Register `hook(module, args)`, which is called before `forward`. If the hook does not
        return None, its result replaces args."""
        return self._hook("_forward_pre_hooks", hook, prepend, with_kwargs)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:  # fmt: skip
        """Register `hook(module, args, result)`, which is called after `forward`. If the hook does
        not return None, its return value replaces the result of `forward`.

        with_kwargs: call `hook(module, args, kwargs, result)`. always_call: call the hook also if
        `forward` or another hook raises, with None as the result.
        """
        flag = _WITH_KWARGS * bool(with_kwargs) + _ALWAYS * bool(always_call)
        return self._hook("_forward_hooks", hook, prepend, flag)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Register `hook(module, grad_input, grad_output)`, which is called when the gradients of
        the module's inputs have been computed. If the hook does not return None, its result
        replaces grad_input.

        grad_input has an entry for each positional argument of `forward`, and grad_output has one
        for each result. The entry is None for a value that is not a tensor or has no gradient.
        After the call, in-place operators must not write to the module's inputs or results.
        """
        return self._hook("_backward_hooks", hook, prepend)

    # In PyTorch, hooks of the older method only get the gradients of the module's last operator.
    register_backward_hook = register_full_backward_hook

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Register `hook(module, grad_output)`, which is called before the gradients of the module
        are computed. If the hook does not return None, its result replaces grad_output."""
        return self._hook("_backward_pre_hooks", hook, prepend)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Register `hook(module, prefix, keep_vars)`, which is called before `state_dict` reads the
        module."""
        return self._hook("_state_dict_pre_hooks", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Register `hook(module, state_dict, prefix, local_metadata)`, which is called after
        `state_dict` has read the module and its submodules. The hook may change state_dict."""
        return self._hook("_state_dict_hooks", hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Like `register_state_dict_post_hook`, but if the hook does not return None, its result
        replaces the state dict."""
        return self._hook("_state_dict_hooks", hook, False, True)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Register `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)`, which is called before `load_state_dict` reads names.
        Programs use it to rename entries of old files. state_dict: a copy, which the hook may
        change. prefix: the prefix of this module's names in state_dict. `load_state_dict` reports
        the entries that the hook adds to the last three arguments, which are lists."""
        return self._hook("_load_state_dict_pre_hooks", hook, False, True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """Like `register_load_state_dict_pre_hook`, but without `with_module` the hook has no
        argument `module`.
        """
        return self._hook("_load_state_dict_pre_hooks", hook, False, with_module)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Register `hook(module, incompatible_keys)`, which is called after `load_state_dict` has
        copied values. With `strict`, names that the hook removes from the two lists in
        incompatible_keys are not reported."""
        return self._hook("_load_state_dict_post_hooks", hook)

    def get_extra_state(self) -> Any:
        """Return state other than tensors, for `state_dict`. A class that overrides this method
        must also override `set_extra_state`. Raises: NotImplementedError unless overridden."""
        raise NotImplementedError(f"{type(self).__name__} has no get_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Restore the state that `get_extra_state` returned. Called by `load_state_dict`."""
        raise NotImplementedError(f"{type(self).__name__} has no set_extra_state")

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the attributes from a pickle. A class that overrides this method calls super()
        after it has changed attributes of earlier versions."""
        vars(self).update(state)

    def _hook(
        self, kind: str, hook: Any, prepend: bool = False, flag: int = False
    ) -> RemovableHandle:
        """Register a hook. flag: the options of the hook, such as `with_kwargs` or
        `with_module`."""
        hooks = self.__dict__.get(kind)
        if hooks is None:
            hooks = self.__dict__[kind] = FlaggedHooks()
        return _added(hooks, hook, prepend, flag)

    def _hooks(self, kind: str) -> list[tuple[Any, int]]:
        """Return the hooks of this kind that were registered for all modules, followed by those of
        this module."""
        return with_flags(getattr(Hooks, kind)) + with_flags(self.__dict__.get(kind, {}))

    def _finished(self, args: Any, kwargs: Any, result: Any, ran: list[Any]) -> Any:
        """Call the forward hooks and return the result, which they may replace. ran: a list to
        which the called hooks are added."""
        for hook, flag in self._hooks("_forward_hooks"):
            ran.append(hook)
            given = (self, args, kwargs, result) if flag & _WITH_KWARGS else (self, args, result)
            found = hook(*given)
            result = result if found is None else found
        return result

    def _failed(self, args: Any, kwargs: Any, ran: list[Any]) -> None:
        """After an error, call the forward hooks that were registered with `always_call` and have
        not been called yet."""
        for hook, flag in self._hooks("_forward_hooks"):
            if flag & _ALWAYS and hook not in ran:
                try:
                    hook(
                        *((self, args, kwargs, None) if flag & _WITH_KWARGS else (self, args, None))
                    )
                except Exception as error:
                    warnings.warn(errors.hook_silenced(error), stacklevel=4)


def _added(hooks: Any, hook: Any, prepend: bool, flag: int) -> RemovableHandle:
    handle = RemovableHandle(hooks, hook, first=prepend)
    if flag:
        hooks.flags[handle.id] = int(flag)
    return handle


# --- hooks of every module ------------------------------------------------------------------------


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register `hook(module, args)`, which is called before the `forward` of every module. It runs
    before the hooks of the module itself."""
    return _added(Hooks._forward_pre_hooks, hook, False, False)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Register `hook(module, args, result)`, which is called after the `forward` of every module.
    It runs before the hooks of the module itself.

    See `Module.register_forward_hook`.
    """
    flag = _WITH_KWARGS * bool(with_kwargs) + _ALWAYS * bool(always_call)
    return _added(Hooks._forward_hooks, hook, False, flag)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register `hook(module, grad_output)`, which is called before the gradients of every module
    are computed."""
    return _added(Hooks._backward_pre_hooks, hook, False, False)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register `hook(module, grad_input, grad_output)` for every module. See
    `Module.register_full_backward_hook`."""
    return _added(Hooks._backward_hooks, hook, False, False)


register_module_backward_hook = register_module_full_backward_hook

# Maps a kind of attribute to the hooks that are called when a module registers such an attribute.
REGISTERED = {kind: HookDict() for kind in ("_parameters", "_buffers", "_modules")}


def registered(module: Any, kind: str, name: str, value: Any) -> Any:
    """Return the value to register. The hooks may replace the given value."""
    for hook in list(REGISTERED[kind].values()):
        found = hook(module, name, value)
        value = value if found is None else found
    return value


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register `hook(module, name, param)`, which is called for each parameter that a module
    registers. If the hook does not return None, its result is registered instead of the
    parameter."""
    return _added(REGISTERED["_parameters"], hook, False, False)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register `hook(module, name, buffer)`, which is called for each buffer that a module
    registers. If the hook does not return None, its result is registered instead of the buffer."""
    return _added(REGISTERED["_buffers"], hook, False, False)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register `hook(module, name, submodule)`, which is called for each submodule that a module
    registers. If the hook does not return None, its result is registered instead of the
    submodule."""
    return _added(REGISTERED["_modules"], hook, False, False)


class BackwardHooks:
    """The backward hooks of one call of a module. See Hooks.register_full_backward_hook."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.before: list[Any] = [hook for hook, _ in module._hooks("_backward_pre_hooks")]
        self.after: list[Any] = [hook for hook, _ in module._hooks("_backward_hooks")]
        # None while no gradient has passed the module's outputs.
        self.grad_output: tuple[Any, ...] | None = None
        # grad_input where no input requires grad. None where an input requires grad.
        self.without_inputs: tuple[None, ...] | None = None

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments, passed through an autograd node that calls the hooks with the
        arguments' gradients."""
        made, has_inputs = self._through(args, self._computed)
        self.without_inputs = None if has_inputs else (None,) * len(args)
        return made

    def outputs(self, result: Any) -> Any:
        """Return the result, passed through an autograd node that calls the hooks with the result's
        gradients. Warn about a result that is neither a tensor nor a tuple, list or dict."""
        if isinstance(result, Tensor):
            return self._through((result,), self._given)[0][0]
        if isinstance(result, (tuple, list)):
            made = self._through(tuple(result), self._given)[0]
            if hasattr(result, "_fields"):
                return type(result)(*made)
            return type(result)(made)
        if isinstance(result, dict):
            return type(result)(zip(result, self._through(tuple(result.values()), self._given)[0]))
        message = errors.no_backward_hooks(type(self.module).__name__, result)
        warnings.warn(message, stacklevel=3)
        return result

    def _through(
        self, values: tuple[Any, ...], take: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    ) -> tuple[tuple[Any, ...], bool]:
        places = [n for n, x in enumerate(values) if isinstance(x, Tensor) and x.requires_grad]
        if not places:
            return values, False

        def gradients(grads: tuple[Any, ...]) -> tuple[Any, ...]:
            found: list[Any] = [None] * len(values)
            for place, grad in zip(places, grads):
                found[place] = grad
            taken = take(tuple(found))
            return tuple([taken[place] for place in places])

        made = list(values)
        for place, x in zip(places, _Passed.apply(gradients, *[values[n] for n in places])):
            made[place] = x
        return tuple(made), True

    def _given(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.before:
            grads = self._replaced("grad_output", hook(self.module, grads), grads)
        self.grad_output = grads
        nothing = self.without_inputs
        if nothing is not None:  # no gradient reaches the inputs, so call the hooks now
            for hook in self.after:
                if hook(self.module, nothing, grads) not in (None, nothing):
                    rule = "return None where no input requires grad"
                    raise errors.must(type(self.module).__name__, "backward hook", rule, hook)
        return grads

    def _computed(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        given, self.grad_output = self.grad_output, None
        if given is None:  # the gradient of a derivative, which does not pass the outputs
            return grads
        for hook in self.after:
            grads = self._replaced("grad_input", hook(self.module, grads, given), grads)
        return grads

    def _replaced(self, what: str, made: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        if made is None:
            return grads
        made = made if isinstance(made, tuple) else (made,)
        if len(made) != len(grads):
            rule = f"return None or {len(grads)} gradients for {what}"
            raise errors.must(type(self.module).__name__, "backward hook", rule, len(made))
        return cast("tuple[Any, ...]", made)


class _Passed(Function):
    """The identity function in forward. In backward, it calls a function that may replace the
    gradients."""

    @staticmethod
    def forward(ctx: Any, take: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.take = take
        ctx.set_materialize_grads(False)
        return tuple([x.view_as(x) for x in tensors])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return (None, *ctx.take(grads))
