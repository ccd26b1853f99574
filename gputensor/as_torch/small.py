"""Small functions of PyTorch's utility modules."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any

import gputensor as gt
from gputensor import library
from gputensor.core import errors
from gputensor.distributed.work import Future

# --- torch.library --------------------------------------------------------------------------------

_kept: list[library.Library] = []  # keeps operators that programs define without a library


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Define an operator `namespace::name` by the rest of its schema."""
    namespace, separator, name = str(qualname).partition("::")
    if not (namespace and separator and name):
        raise errors.wrong_value("define", "qualname", "be 'namespace::name'", qualname)
    if lib is None:
        lib = library.Library(namespace, "FRAGMENT")
        _kept.append(lib)
    lib.define(f"{name}{schema}", tags=tags)


def impl(qualname: str, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """Register a kernel of an operator for device types, or for all by "default"."""
    listed = (types,) if isinstance(types, str) else tuple(types)
    devices = None if "default" in listed else listed
    if func is None:
        return lambda given: impl(qualname, types, given, lib=lib) or given
    library.register_kernel(qualname, devices, func, lib=lib)
    return None


# --- torch.utils ----------------------------------------------------------------------------------


def unserializable_hook(f: Any) -> Any:
    """Mark a hook, so that it is not saved with its tensor; returns the hook."""
    f.__torch_unserializable__ = True
    return f


def noop_context_fn() -> tuple[Any, Any]:
    """Return two context managers that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs, with tensors detached."""
    return tuple([
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, gt.Tensor) else x
        for x in inputs
    ])  # fmt: skip


def check_backward_validity(inputs: Any) -> None:
    """Warn if no input requires grad."""
    if not any(x.requires_grad for x in inputs if isinstance(x, gt.Tensor)):
        warnings.warn("none of the inputs requires grad, so gradients will be None", stacklevel=2)


def consume_prefix(state_dict: dict[str, Any], prefix: str) -> None:
    """Remove a prefix, such as `module.`, from the names of a state, in place."""
    for name in [*state_dict]:
        if name.startswith(prefix):
            state_dict[name[len(prefix) :]] = state_dict.pop(name)


# --- torch.func -----------------------------------------------------------------------------------


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Remove the running statistics of a module's batch norms, in place; returns the module."""
    from gputensor.nn.modules.norm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


# --- torch.futures --------------------------------------------------------------------------------


class _All(Future):
    """A future of futures."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[Future]) -> None:
        super().__init__()
        self._parts = parts

    def done(self) -> bool:
        if not self._value.done() and all(part.done() for part in self._parts):
            self._arrive()
        return bool(self._value.done())

    def _arrive(self) -> None:
        if not self._value.done():
            self._settle(self._all)

    def _all(self) -> list[Future]:
        wait_all(self._parts)
        return self._parts


def collect_all(futures: list[Future]) -> Future:
    """Return a future of the list of futures, which ends once all have ended."""
    return _All([*futures])


def wait_all(futures: list[Future]) -> list[Any]:
    """Wait for the values of all; raise the first exception among them."""
    return [future.wait() for future in futures]


OF_FUTURES: dict[str, Any] = {
    "Future": Future, "collect_all": collect_all, "wait_all": wait_all,
}  # fmt: skip
OF_LIBRARY: dict[str, Any] = {
    "define": define, "impl": impl, "impl_abstract": library.register_fake,
}  # fmt: skip
OF_HOOKS: dict[str, Any] = {
    "unserializable_hook": unserializable_hook, "warn_if_has_hooks": lambda tensor: None,
}  # fmt: skip
OF_CHECKPOINT: dict[str, Any] = {
    "noop_context_fn": noop_context_fn, "detach_variable": detach_variable,
    "check_backward_validity": check_backward_validity,
}  # fmt: skip
OF_FUNC: dict[str, Any] = {
    "replace_all_batch_norm_modules_": replace_all_batch_norm_modules_,
}
OF_TYPES: dict[str, Any] = {"FileLike": str | os.PathLike[str] | Any, "Storage": gt.Storage}
