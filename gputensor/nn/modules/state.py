"""Saving and loading of a module's state: checks of names and shapes, and copies of values."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import autograd
from ...core import errors
from ...tensor.tensor import Tensor
from ..parameter import Parameter, is_lazy
from .hooks import Hooks, with_flags

if TYPE_CHECKING:
    from .module import Module


class IncompatibleKeys(NamedTuple):
    """The result of `load_state_dict`: the missing names and the unexpected names."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys({self.missing_keys=}, {self.unexpected_keys=})".replace(
            "self.", ""
        )


EXTRA = "_extra_state"


def saved_state(
    root: Module, found: dict[str, Any], prefix: str, keep_vars: bool
) -> dict[str, Any]:
    """Implement Module.state_dict."""
    for hook in list(root._state_dict_pre_hooks.values()):
        hook(root, prefix, keep_vars)
    local_metadata = {"version": root._version}
    if hasattr(found, "_metadata"):
        found._metadata[prefix.removesuffix(".")] = local_metadata
    root._save_to_state_dict(found, prefix, keep_vars)
    for name, child in root._modules.items():
        if child is not None:
            child.state_dict(destination=found, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook, replaces in with_flags(root._state_dict_hooks):
        made = hook(root, found, prefix, local_metadata)
        if replaces and made is not None:
            found = made
    return found


def save_own(module: Module, found: dict[str, Any], prefix: str, keep_vars: bool) -> None:
    """Implement Module._save_to_state_dict."""
    for name, value in module._saved():
        found[prefix + name] = value if keep_vars or is_lazy(value) else value.detach()
    if type(module).get_extra_state is not Hooks.get_extra_state:
        found[prefix + EXTRA] = module.get_extra_state()


# --- loading ------------------------------------------------------------------------------------

# `local_metadata[_WAITING]` is the list of copies to make. The copies wait until all names and
# shapes are checked.
_WAITING = "gputensor: copies"


def load_state(
    root: Module, state_dict: Mapping[str, Any], strict: bool, assign: bool
) -> IncompatibleKeys:
    """Implement Module.load_state_dict."""
    if not isinstance(state_dict, Mapping):
        raise errors.wrong_type("load_state_dict", "state_dict", "be a dict", state_dict)
    missing: list[str] = []
    unexpected: list[str] = []
    wrong: list[str] = []
    copies: list[Callable[[], None]] = []
    with autograd.no_grad():
        _load_tree(root, state_dict, assign, copies, (missing, unexpected, wrong))
        result = IncompatibleKeys(missing, unexpected)
        listeners = [x for _, x in root.named_modules() if x._load_state_dict_post_hooks]
        if strict and not listeners:
            wrong += _unmatched(result)
        if wrong:
            raise _refused(root, wrong)
        for copy in copies:
            copy()
    # As in PyTorch, these hooks run after the copies. They may remove names from `missing_keys` and
    # `unexpected_keys`.
    for module in reversed(listeners):
        for hook in list(module._load_state_dict_post_hooks.values()):
            if hook(module, result) is not None:
                rule = "return None; it changes the lists that it gets"
                raise errors.must("load_state_dict", "post hook", rule, hook)
    if strict and (names := _unmatched(result)):
        raise _refused(root, names)
    return result


def _load_tree(
    root: Module, state_dict: Mapping[str, Any], assign: bool, copies: list[Callable[[], None]],
    lists: tuple[list[str], list[str], list[str]],
) -> None:  # fmt: skip
    """Load the entries of all modules. copies: a list to which the copies that wait are added.
    lists: the names that are missing, unexpected and wrong.

    This is a loop, because a local function that calls itself would be a reference cycle that keeps
    the tensors.
    """
    metadata = getattr(state_dict, "_metadata", {})
    left: list[tuple[Module, dict[str, Any], str]] = [(root, OrderedDict(state_dict), "")]
    while left:
        module, given, prefix = left.pop()
        local = {**metadata.get(prefix.removesuffix("."), {}), "assign_to_params_buffers": assign}
        if not _copies_at_once(module):
            local[_WAITING] = copies
        module._load_from_state_dict(given, prefix, local, True, *lists)
        for name, child in reversed(module._modules.items()):
            if child is not None:
                below = f"{prefix}{name}."
                own = {k: v for k, v in given.items() if k.startswith(below)}
                left.append((child, own, below))


def _copies_at_once(module: Module) -> bool:
    """True if a class outside of gputensor defines the module's `_load_from_state_dict`. This
    method may read the values after it calls super(), so the copies must not wait."""
    method = type(module)._load_from_state_dict
    return method.__module__.partition(".")[0] != __name__.partition(".")[0]


def _unmatched(keys: IncompatibleKeys) -> list[str]:
    missing = [f"missing {name}" for name in keys.missing_keys]
    return missing + [f"unexpected {name}" for name in keys.unexpected_keys]


def load_own(
    module: Module, given: dict[str, Any], prefix: str, local_metadata: dict[str, Any],
    strict: bool, missing: list[str], unexpected: list[str], wrong: list[str],
) -> None:  # fmt: skip
    """Implement Module._load_from_state_dict."""
    for hook, takes_module in with_flags(module._load_state_dict_pre_hooks):
        first = (module,) if takes_module else ()
        hook(*first, given, prefix, local_metadata, strict, missing, unexpected, wrong)
    assign = local_metadata.get("assign_to_params_buffers", False)
    copies: list[Callable[[], None]] = []
    own = dict(module._saved())
    for name, value in own.items():
        if prefix + name not in given:
            missing.append(prefix + name)
            continue
        x = _tensor(prefix + name, given[prefix + name])
        if is_lazy(x) and not is_lazy(value):
            wrong.append(f"{prefix}{name} without sizes, of a lazy module")
        elif not is_lazy(x) and not is_lazy(value) and value.shape != x.shape:
            wrong.append(f"{prefix}{name} {tuple(x.shape)}")
        elif not is_lazy(x):
            if value.is_meta and not x.is_meta and not assign:
                message = f"load_state_dict: '{prefix}{name}' is on the meta device, so its values"
                warnings.warn(f"{message} are not copied; pass assign=True", stacklevel=2)
            copies.append(partial(_take, module, name, value, x, assign))
    own_names = {*own}
    if type(module).set_extra_state is not Hooks.set_extra_state:
        own_names.add(EXTRA)
        if prefix + EXTRA in given:
            copies.append(partial(module.set_extra_state, given[prefix + EXTRA]))
        else:
            missing.append(prefix + EXTRA)
    for key in given:
        if key.startswith(prefix):
            name, _, below = key[len(prefix) :].partition(".")
            if name not in (module._modules if below else own_names):
                unexpected.append(key)
    waiting = local_metadata.get(_WAITING)
    if waiting is not None:
        waiting += copies
        return
    for copy in copies:
        copy()


def _take(module: Module, name: str, value: Any, x: Tensor, assign: bool) -> None:
    """Copy a tensor into a parameter or buffer. With `assign`, replace the parameter or buffer by
    the tensor."""
    if is_lazy(value):
        value.materialize(x.shape)
    if not assign:
        value.copy_(x)
    elif isinstance(value, Parameter):
        kept = x if isinstance(x, Parameter) else Parameter(x, value.requires_grad)
        module._parameters[name] = kept
    else:
        module._buffers[name] = x


def _refused(root: Module, wrong: list[str]) -> errors.GpuTensorError:
    rule = f"fit {type(root).__name__}'s names and shapes"
    return errors.must("load_state_dict", "state_dict", rule, errors.Got("; ".join(wrong)))


def joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _tensor(name: str, value: Any) -> Tensor:
    """Convert a value of a state dict to a tensor, without a copy of another library's memory."""
    if isinstance(value, Tensor):
        return value
    from ...exchange.construct import asarray

    if not hasattr(value, "__array__") and not hasattr(value, "__dlpack__"):
        raise errors.wrong_type("load_state_dict", name, "be a Tensor", value)
    return asarray(value)
