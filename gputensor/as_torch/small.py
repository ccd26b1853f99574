"""Small functions of PyTorch's utility modules."""

from __future__ import annotations

import contextlib
import enum
import functools
import io
import operator
import os
import re
import warnings
import weakref
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import numpy as np

import gputensor as gt
from gputensor import library
from gputensor.core import errors
from gputensor.distributed.work import Future
from gputensor.optim import lbfgs
from gputensor.serialization import torch_files
from gputensor.serialization.places import Places

# --- torch.library --------------------------------------------------------------------------------

# Libraries of operators that programs define without a Library object. The list keeps them alive.
_kept: list[library.Library] = []


class Tag(enum.StrEnum):
    """`torch.Tag`: the tags of operators, which are strings here."""

    core = enum.auto()
    cudagraph_unsafe = enum.auto()
    data_dependent_output = enum.auto()
    dynamic_output_shape = enum.auto()
    flexible_layout = enum.auto()
    generated = enum.auto()
    inplace_view = enum.auto()
    maybe_aliasing_or_mutating = enum.auto()
    needs_exact_strides = enum.auto()
    needs_fixed_stride_order = enum.auto()
    nondeterministic_bitwise = enum.auto()
    nondeterministic_seeded = enum.auto()
    pointwise = enum.auto()
    pt2_compliant_tag = enum.auto()
    reduction = enum.auto()
    view_copy = enum.auto()


def define(qualname: Any, schema: str, *, lib: Any = None, tags: Any = ()) -> Any:
    """Define the operator `qualname`. schema: its arguments and returns, such as `(Tensor x) ->
    Tensor`.

    With a Library in place of the name, return a decorator. It defines the operator of the schema
    with the decorated function as its kernel.
    """
    if isinstance(qualname, library.Library):
        return lambda f: _defined(qualname, schema, f)
    namespace, separator, name = str(qualname).partition("::")
    if not (namespace and separator and name):
        raise errors.wrong_value("define", "qualname", "be 'namespace::name'", qualname)
    if lib is None:
        lib = library.Library(namespace, "FRAGMENT")
        _kept.append(lib)
    lib.define(f"{name}{schema}", tags=tags)
    return None


def _defined(lib: library.Library, schema: str, kernel: Any) -> Any:
    lib.define(schema)
    return _kernel(lib, schema.partition("(")[0].strip(), "", kernel)


def _kernel(lib: library.Library, name: str, key: str, kernel: Any) -> Any:
    lib.impl(name, kernel, key)
    return kernel


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """Register a kernel of an operator for device types. "default" means all types.

    With a Library in place of the name, `types` is the operator's name and `func` is a dispatch
    key. Return a decorator that registers a kernel.
    """
    if isinstance(qualname, library.Library):
        return lambda f: _kernel(qualname, types, func or "", f)
    listed = (types,) if isinstance(types, str) else tuple(types)
    devices = None if "default" in listed else listed
    if func is None:
        return lambda given: impl(qualname, types, given, lib=lib) or given
    library.register_kernel(qualname, devices, func, lib=lib)
    return None


# --- torch.utils ----------------------------------------------------------------------------------


def unserializable_hook(f: Any) -> Any:
    """Mark a hook so that it is not saved with its tensor. Return the hook."""
    f.__torch_unserializable__ = True
    return f


def noop_context_fn() -> tuple[Any, Any]:
    """Return two context managers that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the inputs with their tensors detached."""
    return tuple([
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, gt.Tensor) else x
        for x in inputs
    ])  # fmt: skip


def check_backward_validity(inputs: Any) -> None:
    """Issue a warning if no input requires grad."""
    if not any(x.requires_grad for x in inputs if isinstance(x, gt.Tensor)):
        warnings.warn("none of the inputs requires grad, so gradients will be None", stacklevel=2)


def consume_prefix(state_dict: dict[str, Any], prefix: str) -> None:
    """Remove a prefix, such as `module.`, from the names in a state dict and in its metadata, in
    place. The metadata of the module with this prefix becomes the metadata of the root."""
    for name in [*state_dict]:
        if name.startswith(prefix):
            state_dict[name[len(prefix) :]] = state_dict.pop(name)
    metadata = getattr(state_dict, "_metadata", {})
    for name in [*metadata]:
        if name and f"{name}.".startswith(prefix):
            metadata[name[len(prefix) :]] = metadata.pop(name)


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
    """A version string. Comparisons with strings and tuples compare the version numbers."""

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
    """Return a key that sorts versions as PEP 440 does, or None if the text is not a version."""
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
    """Return a mask for scaled_dot_product_attention: query n attends to keys 0 to n.

    size: the number of queries and the number of keys.
    """
    return gt.ones(*size, dtype=gt.bool).tril()


def causal_lower_right(*size: int) -> Any:
    """Return a mask for scaled_dot_product_attention. The last query attends to all keys. Each
    other query attends to one key fewer than the query after it.
    """
    return gt.ones(*size, dtype=gt.bool).tril(size[1] - size[0])


# --- torch.nn.grad --------------------------------------------------------------------------------


def _conv_derivative(ndim: int, of_input: bool) -> Any:
    convolve = getattr(gt.nn.functional, f"conv{ndim}d")

    def derivative(size: Any, known: Any, grad_output: Any, *options: Any) -> Any:
        asked = gt.zeros(tuple(size), dtype=known.dtype, device=known.device, requires_grad=True)
        pair = (asked, known) if of_input else (known, asked)
        made = convolve(*pair, None, *options)
        return gt.autograd.grad(made, asked, grad_output)[0]

    def with_input(
        input_size: Any, weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Any:  # fmt: skip
        return derivative(input_size, weight, grad_output, stride, padding, dilation, groups)

    def with_weight(
        input: Any, weight_size: Any, grad_output: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Any:  # fmt: skip
        return derivative(weight_size, input, grad_output, stride, padding, dilation, groups)

    made = with_input if of_input else with_weight
    made.__name__ = f"conv{ndim}d_{'input' if of_input else 'weight'}"
    return made


OF_GRAD: dict[str, Any] = {
    made.__name__: made
    for made in (
        _conv_derivative(ndim, is_input) for ndim in (1, 2, 3) for is_input in (True, False)
    )
}
# --- torch.futures --------------------------------------------------------------------------------


class _All(Future):
    """A future that ends when all the given futures have ended."""

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
    """Return a future that ends when all the given futures have ended. Its value is the list of
    these futures."""
    return _All([*futures])


def wait_all(futures: list[Future]) -> list[Any]:
    """Wait for all futures and return their values. Raise the exception of the first future that
    failed."""
    return [future.wait() for future in futures]


def load_from_bytes(b: bytes) -> Any:
    """Read a storage that is nested in one of PyTorch's pickles."""
    return torch_files.load_legacy(io.BytesIO(b), Places(None))


def group_tensors(tensorlistlist: Any, with_indices: bool = False) -> dict[Any, Any]:
    """Group the tensors of several lists by the device and dtype of the first list's tensors. Each
    list has one tensor for each parameter. with_indices: also return the indices of each group."""
    found: dict[Any, Any] = {}
    for place, x in enumerate(tensorlistlist[0]):
        lists, places = found.setdefault((x.device, x.dtype), ([[] for _ in tensorlistlist], []))
        for column, values in zip(lists, tensorlistlist):
            if values:
                column.append(values[place])
        places.append(place)
    return found if with_indices else {key: (lists, None) for key, (lists, _) in found.items()}


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dict whose keys are objects compared by identity. An entry is removed when its object is
    freed."""

    def __init__(self, dict: Any = None, ref_type: Any = None) -> None:
        self._held: Any = {}
        self.update(dict or {})

    def __setitem__(self, key: Any, value: Any) -> None:
        held, number = self._held, id(key)
        held[number] = weakref.ref(key, lambda _: held.pop(number, None)), value

    def __getitem__(self, key: Any) -> Any:
        return self._held[id(key)][1]

    def __delitem__(self, key: Any) -> None:
        del self._held[id(key)]

    def __contains__(self, key: Any) -> bool:
        return id(key) in self._held

    def __iter__(self) -> Iterator[Any]:
        return iter([x for ref, _ in [*self._held.values()] if (x := ref()) is not None])

    def __len__(self) -> int:
        return len(self._held)


class DecoratorContextManager:
    """Base class of context managers that can also decorate functions. Each call gets its own
    context manager."""

    def clone(self) -> Any:
        return type(self)()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            manager: Any = self.clone()
            with manager:
                return function(*args, **kwargs)

        return decorated


def swap_tensor(
    module: gt.nn.Module, name: str, tensor: gt.Tensor | None, allow_missing: bool = False
) -> gt.Tensor | None:
    """Replace a parameter or buffer by a tensor, and return the former tensor. None removes the
    parameter or buffer."""
    slots: Any = module._parameters
    if name not in slots:
        slots = module._buffers if name in module._buffers else module.__dict__
    if name not in slots and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    former: gt.Tensor | None = slots.pop(name, None)
    if tensor is not None:
        slots[name] = tensor
    return former


def as_tuple(inp: Any, arg_name: Any = None, fn_name: Any = None) -> tuple[bool, Any]:
    """Return two values: True if `inp` is a tuple, and `inp` as a tuple."""
    return (True, inp) if isinstance(inp, tuple) else (False, (inp,))


def tuple_postprocess(res: Any, to_unpack: Any) -> Any:
    """Undo `as_tuple` for the outer tuple and for the inner tuples."""
    if isinstance(to_unpack, tuple):
        inner = res if to_unpack[1] else tuple([x[0] for x in res])
        return inner if to_unpack[0] else inner[0]
    return res if to_unpack else res[0]


def grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    """Detach the gradients, unless `create_graph` is True."""
    if isinstance(inputs, gt.Tensor):
        return inputs if create_graph else inputs.detach()
    return tuple([grad_postprocess(x, create_graph) for x in inputs])


def standard_basis(tensors: Any, tensor_numels: Any) -> Any:
    """Return one matrix for each tensor: the columns of an identity matrix that belong to the
    elements of this tensor. The identity matrix has one row for each element of all tensors."""
    rows = sum(tensor_numels)
    whole = [gt.eye(rows, dtype=x.dtype, device=x.device) for x in tensors]
    starts = [sum(tensor_numels[:n]) for n in range(len(tensor_numels))]
    return tuple([x[:, a : a + n].clone() for x, a, n in zip(whole, starts, tensor_numels)])


def generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Return a worker's seed for NumPy."""
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return [int(x) for x in np.random.SeedSequence(entropy).generate_state(4)]


def _of_pickles(module: str) -> dict[str, Any]:
    """Return the functions `_rebuild...` of `module`. PyTorch's pickles call these functions."""
    names = [key for key in torch_files.NAMES if key.startswith(f"{module} _rebuild")]
    return {key.partition(" ")[2]: torch_files.NAMES[key] for key in names}


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Call a function immediately. In PyTorch, torch.jit.fork calls a compiled function in another
    thread."""
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


# --- torch.optim.lbfgs ----------------------------------------------------------------------------


def cubic_interpolate(
    x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: Any = None
) -> Any:
    """Return the position of the minimum of the cubic polynomial that has the values f1, f2 and the
    slopes g1, g2 at x1, x2."""
    one, two = lbfgs._Point(x1, f1, g1, g1), lbfgs._Point(x2, f2, g2, g2)
    return lbfgs._minimum(one, two, bounds)


def strong_wolfe(
    obj_func: Callable[..., Any], x: Any, t: Any, d: Any, f: Any, g: Any, gtd: Any,
    c1: float = 1e-4, c2: float = 0.9, tolerance_change: float = 1e-9, max_ls: int = 25,
) -> tuple[Any, Any, Any, int]:  # fmt: skip
    """Search for a step along `d` that meets the strong Wolfe conditions. Return the loss, the
    gradient, the step's length and the number of evaluations of the loss."""
    count = 0

    def point(at: Any) -> lbfgs._Point:
        nonlocal count
        count += 1
        loss, grad = obj_func(x, at, d)
        return lbfgs._Point(at, loss, grad, grad.dot(d))

    start = lbfgs._Point(0, f, g, gtd)
    limits = tolerance_change, max_ls
    found = lbfgs.strong_wolfe(point, start, t, d.abs().max(), limits, (c1, c2))
    return found.loss, found.grad, found.at, count


OF_LBFGS: dict[str, Any] = {
    "_strong_wolfe": strong_wolfe, "_cubic_interpolate": cubic_interpolate,
}  # fmt: skip
OF_FUNCTIONAL: dict[str, Any] = {
    "_as_tuple": as_tuple, "_tuple_postprocess": tuple_postprocess,
    "_grad_postprocess": grad_postprocess, "_construct_standard_basis_for": standard_basis,
}  # fmt: skip
OF_PICKLES = {module: _of_pickles(module) for module in ("torch._utils", "torch._tensor")}
OF_WEAK = dict.fromkeys(("WeakIdKeyDictionary", "WeakTensorKeyDictionary"), WeakIdKeyDictionary)
OF_CONTEXTLIB = dict.fromkeys(
    ("_DecoratorContextManager", "_NoParamDecoratorContextManager"), DecoratorContextManager
)
OF_FOREACH: dict[str, Any] = {
    "_group_tensors_by_device_and_dtype": group_tensors,
    "_get_foreach_kernels_supported_devices": lambda: ["cpu", "cuda"],
    "_has_foreach_support": lambda tensors, device: all(map(gt.is_tensor, tensors)),
    "_device_has_foreach_support": lambda device: device.type in ("cpu", "cuda"),
}
OF_FUTURES: dict[str, Any] = {
    "Future": Future, "collect_all": collect_all, "wait_all": wait_all,
}  # fmt: skip
OF_BIAS: dict[str, Any] = {
    "causal_upper_left": causal_upper_left, "causal_lower_right": causal_lower_right,
}  # fmt: skip
OF_LIBRARY: dict[str, Any] = {
    "triton_op": gt.library.custom_op, "wrap_triton": lambda kernel: kernel,
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
