"""Loading of a module's state: checks of names, and copies of values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import autograd
from ...core import errors
from ...tensor.tensor import Tensor
from ..parameter import Parameter, is_lazy

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


def load_state(
    root: Module, state_dict: Mapping[str, Any], strict: bool, assign: bool
) -> IncompatibleKeys:
    """See Module.load_state_dict."""
    if not isinstance(state_dict, Mapping):
        raise errors.wrong_type("load_state_dict", "state_dict", "be a dict", state_dict)
    own = {
        joined(path, name): (module, name, value)
        for path, module in root.named_modules(remove_duplicate=False)
        for name, value in module._saved()
    }
    state_dict, missing, unexpected, wrong = _hooked(root, state_dict, strict)
    missing += [name for name in own if name not in state_dict]
    unexpected += [name for name in state_dict if name not in own]
    given = {name: _tensor(name, state_dict[name]) for name in own if name in state_dict}
    wrong += [
        f"{name} {tuple(x.shape)}"
        for name, x in given.items()
        if not is_lazy(x) and not is_lazy(own[name][2]) and own[name][2].shape != x.shape
    ]
    if strict:
        wrong += [f"missing {name}" for name in missing]
        wrong += [f"unexpected {name}" for name in unexpected]
    if wrong:
        rule = f"fit {type(root).__name__}'s names and shapes"
        raise errors.must("load_state_dict", "state_dict", rule, errors.Got("; ".join(wrong)))
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
    return IncompatibleKeys(missing, unexpected)


def _hooked(
    root: Module, state_dict: Mapping[str, Any], strict: bool
) -> tuple[Mapping[str, Any], list[str], list[str], list[str]]:
    """A state as the hooks before loading leave it, and their names that are missing and
    unexpected and their errors."""
    found: tuple[list[str], list[str], list[str]] = [], [], []
    modules = [x for x in root.named_modules(remove_duplicate=False) if x[1]._before_load]
    if modules:
        metadata = getattr(state_dict, "_metadata", {})
        state_dict = OrderedDict(state_dict)
        for path, module in modules:
            for hook, takes_module in list(module._before_load.values()):
                given = (module,) if takes_module else ()
                hook(*given, state_dict, f"{path}." if path else "", metadata.get(path, {}),
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
