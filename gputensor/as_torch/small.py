"""Small functions of PyTorch's utility modules."""

from __future__ import annotations

import contextlib
import operator
import os
import re
import warnings
from collections.abc import Callable
from typing import Any

import gputensor as gt
from gputensor import library
from gputensor.core import errors
from gputensor.distributed.work import Future

# --- torch.library --------------------------------------------------------------------------------

# keeps the operators alive that programs define without a library
_kept: list[library.Library] = []


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Define the operator `qualname`. schema: its arguments and returns, such as `(Tensor x) ->
    Tensor`.
    """
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
    """Return the inputs with tensors detached."""
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
    """Remove the running statistics of a module's batch norms in place. Return the module."""
    from gputensor.nn.modules.norm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


# --- torch.torch_version --------------------------------------------------------------------------


def _comparison(compare: Callable[[Any, Any], Any]) -> Callable[[str, Any], Any]:
    def method(self: str, other: Any) -> Any:
        if isinstance(other, (tuple, list)):
            other = ".".join(map(str, other))
        a, b = _numbers(self), _numbers(str(other))
        return compare(str(self), other) if b is None or a is None else compare(a, b)

    return method


class TorchVersion(str):
    """A version: a string that compares with strings and tuples by its numbers."""

    __slots__ = ()

    __lt__, __le__, __gt__, __ge__, __eq__ = map(
        _comparison, (operator.lt, operator.le, operator.gt, operator.ge, operator.eq)
    )

    def __ne__(self, other: Any) -> Any:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)


_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)[.-]?(dev|a|b|c|rc|alpha|beta|post)?\.?(\d*)(\+[\w.-]+)?")
_STAGES = {"dev": -5, "a": -4, "alpha": -4, "b": -3, "beta": -3, "c": -2, "rc": -2, "post": 1}


def _numbers(text: str) -> Any:
    """Return the key that orders versions, as in PEP 440; None if the text is no version."""
    found = _VERSION.fullmatch(text.strip().lower())
    if found is None:
        return None
    release, stage, number, local = found.groups()
    parts = [int(part) for part in release.split(".")]
    while parts and not parts[-1]:
        parts.pop()
    return parts, _STAGES.get(stage, 0), int(number or 0), local or ""


# --- torch.nn.attention.bias ----------------------------------------------------------------------


def causal_upper_left(*size: int) -> Any:
    """Return a mask for scaled_dot_product_attention: query n sees keys 0 to n.

    size: numbers of queries and of keys.
    """
    return gt.ones(*size, dtype=gt.bool).tril()


def causal_lower_right(*size: int) -> Any:
    """Return a mask: the last query sees all keys, and every other query one key fewer than the
    next query.
    """
    return gt.ones(*size, dtype=gt.bool).tril(size[1] - size[0])


# --- torch.nn.grad --------------------------------------------------------------------------------


def _conv_derivative(ndim: int, of_input: bool) -> Any:
    convolve = getattr(gt.nn.functional, f"conv{ndim}d")

    def derivative(
        first: Any, second: Any, grad_output: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Any:  # fmt: skip
        size, known = (first, second) if of_input else (second, first)
        asked = gt.zeros(tuple(size), dtype=known.dtype, device=known.device, requires_grad=True)
        pair = (asked, known) if of_input else (known, asked)
        made = convolve(*pair, None, stride, padding, dilation, groups)
        return gt.autograd.grad(made, asked, grad_output)[0]

    derivative.__name__ = f"conv{ndim}d_{'input' if of_input else 'weight'}"
    return derivative


OF_GRAD: dict[str, Any] = {
    made.__name__: made
    for made in (
        _conv_derivative(ndim, is_input) for ndim in (1, 2, 3) for is_input in (True, False)
    )
}
# --- torch.futures --------------------------------------------------------------------------------


class _All(Future):
    """A future that ends when all given futures have ended."""

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
    """Return a future that ends when all given futures have ended; its value is their list."""
    return _All([*futures])


def wait_all(futures: list[Future]) -> list[Any]:
    """Wait for the values of all; raise the first exception among them."""
    return [future.wait() for future in futures]


OF_FUTURES: dict[str, Any] = {
    "Future": Future, "collect_all": collect_all, "wait_all": wait_all,
}  # fmt: skip
OF_BIAS: dict[str, Any] = {
    "causal_upper_left": causal_upper_left, "causal_lower_right": causal_lower_right,
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
