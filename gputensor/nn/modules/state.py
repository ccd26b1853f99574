"""Loading of a module's state: checks of names, and copies of values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import autograd
from ...core import errors
from ...tensor.tensor import Tensor
from ..parameter import Parameter, is_lazy
from .hooks import Hooks

if TYPE_CHECKING:
    from .module import Module


class IncompatibleKeys(NamedTuple):
    """Result of `load_state_dict`: missing names, and unexpected names."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys({self.missing_keys=}, {self.unexpected_keys=})".replace(
            "self.", ""
        )


EXTRA = "_extra_state"


def saved_state(
    root: Module, found: dict[str, Any], prefix: str, keep_vars: bool
) -> dict[str, Any]:
    """See Module.state_dict."""
    modules = list(root.named_modules(None, prefix.removesuffix("."), False))
    for path, module in modules:
        for hook, _ in list(module._before_state.values()):
            hook(module, joined(path, ""), keep_vars)
        for name, value in module._saved():
            found[joined(path, name)] = value if keep_vars or is_lazy(value) else value.detach()
        if _has_extra(module):
            found[joined(path, EXTRA)] = module.get_extra_state()
    for path, module in reversed(modules):
        for hook, _ in list(module._after_state.values()):
            hook(module, found, joined(path, ""), {"version": getattr(module, "_version", 1)})
    return found


def _has_extra(module: Module) -> bool:
    return type(module).get_extra_state is not Hooks.get_extra_state


def load_state(
    root: Module, state_dict: Mapping[str, Any], strict: bool, assign: bool
) -> IncompatibleKeys:
    """See Module.load_state_dict."""
    if not isinstance(state_dict, Mapping):
        raise errors.wrong_type("load_state_dict", "state_dict", "be a dict", state_dict)
    modules = list(root.named_modules(remove_duplicate=False))
    own = {
        joined(path, name): (module, name, value)
        for path, module in modules
        for name, value in module._saved()
    }
    extra = {joined(path, EXTRA): module for path, module in modules if _has_extra(module)}
    state_dict, missing, unexpected, wrong = _hooked(modules, state_dict, strict)
    missing += [name for name in [*own, *extra] if name not in state_dict]
    unexpected += [name for name in state_dict if name not in own and name not in extra]
    given = {name: _tensor(name, state_dict[name]) for name in own if name in state_dict}
    wrong += [
        f"{name} {tuple(x.shape)}"
        for name, x in given.items()
        if not is_lazy(x) and not is_lazy(own[name][2]) and own[name][2].shape != x.shape
    ]
    result = IncompatibleKeys(missing, unexpected)
    listeners = [x for _, x in root.named_modules() if x._after_load]
    if strict and not listeners:
        wrong += [f"missing {name}" for name in missing]
        wrong += [f"unexpected {name}" for name in unexpected]
    if wrong:
        raise _refused(root, wrong)
    with autograd.no_grad():
        for name, x in given.items():
            place: tuple[Module, str, Any] = own[name]
            module, short, value = place
            if is_lazy(x):
                continue
            if is_lazy(value):
                value.materialize(x.shape)
            if not assign:
                value.copy_(x)
            elif isinstance(value, Parameter):
                kept = x if isinstance(x, Parameter) else Parameter(x, value.requires_grad)
                module._parameters[short] = kept
            else:
                module._buffers[short] = x
    for name, module in extra.items():
        if name in state_dict:
            module.set_extra_state(state_dict[name])
    # These hooks run after the copies, as in PyTorch, and may remove names from the lists.
    for module in reversed(listeners):
        for hook, _ in list(module._after_load.values()):
            if hook(module, result) is not None:
                rule = "return None; it changes the lists that it gets"
                raise errors.must("load_state_dict", "post hook", rule, hook)
    left = [f"missing {name}" for name in missing]
    left += [f"unexpected {name}" for name in unexpected]
    if strict and left:
        raise _refused(root, left)
    return result


def _refused(root: Module, wrong: list[str]) -> errors.GpuTensorError:
    rule = f"fit {type(root).__name__}'s names and shapes"
    return errors.must("load_state_dict", "state_dict", rule, errors.Got("; ".join(wrong)))


def _hooked(
    every: list[tuple[str, Module]], state_dict: Mapping[str, Any], strict: bool
) -> tuple[Mapping[str, Any], list[str], list[str], list[str]]:
    """Run the hooks before loading; return the state, and the hooks' lists of missing names,
    unexpected names and errors."""
    found: tuple[list[str], list[str], list[str]] = [], [], []
    modules = [x for x in every if x[1]._before_load]
    if modules:
        metadata = getattr(state_dict, "_metadata", {})
        state_dict = OrderedDict(state_dict)
        for path, module in modules:
            for hook, takes_module in list(module._before_load.values()):
                given = (module,) if takes_module else ()
                hook(*given, state_dict, joined(path, ""), metadata.get(path, {}),
                     strict, *found)  # fmt: skip
    return state_dict, *found


def joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _tensor(name: str, value: Any) -> Tensor:
    """A value of a state as a tensor; another library's memory is not copied."""
    if isinstance(value, Tensor):
        return value
    from ...exchange.construct import asarray

    if not hasattr(value, "__array__") and not hasattr(value, "__dlpack__"):
        raise errors.wrong_type("load_state_dict", name, "be a Tensor", value)
    made: Tensor = asarray(value)
    return made
