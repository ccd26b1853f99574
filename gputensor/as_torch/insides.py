"""Private names of PyTorch that published packages use, implemented with our functions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import gputensor as gt
from gputensor.core import errors
from gputensor.dispatch import keys
from gputensor.nn.modules import module
from gputensor.tensor import printing
from gputensor.utils import _pytree
from gputensor.utils.key_paths import OF_PATHS


# --- torch._foreach_*: one operator for each tensor of a list -------------------------------------

_FOREACH = (
    "abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min clone copy_ cos cosh div erf "
    "erfc exp expm1 floor frac lerp lgamma log log10 log1p log2 max maximum minimum mul neg norm "
    "pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc zero_"
).split()
# Maps an operator to the name of its last argument. `torch._foreach_*` takes this argument by
# position, but the tensor's method takes it by keyword.
_LAST = {"addcdiv": "value", "addcmul": "value"}


def _foreach(name: str) -> Callable[..., list[Any] | None]:
    method = getattr(gt.Tensor, name, None) or _in_place(getattr(gt.Tensor, name.rstrip("_")))
    last = _LAST.get(name.rstrip("_"))

    def apply(self: Sequence[Any], *args: Any, **kwargs: Any) -> list[Any] | None:
        if last is not None and len(args) > 2:
            args, kwargs = args[:2], {**kwargs, last: args[2]}
        made = [
            method(x, *[_part(a, n) for a in args], **{k: _part(a, n) for k, a in kwargs.items()})
            for n, x in enumerate(self)
        ]
        return None if name.endswith("_") else made

    apply.__name__ = f"_foreach_{name}"
    return apply


def _in_place(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *args, **kwargs: x.copy_(method(x, *args, **kwargs))


def _part(argument: Any, n: int) -> Any:
    """Return the argument for the n-th tensor. If the argument is a list, it has one item for each
    tensor."""
    return argument[n] if isinstance(argument, (list, tuple)) else argument


def foreach_norm(self: Sequence[Any], ord: Any = 2, dtype: Any = None) -> list[Any]:
    """Return the norm of each tensor."""
    return [gt.linalg.vector_norm(x, ord, dtype=dtype) for x in self]


_EACH = [*_FOREACH, *(f"{stem}_" for stem in _FOREACH
                      if stem[-1] != "_" and stem not in ("clone", "max", "norm"))]  # fmt: skip

# --- torch._C -------------------------------------------------------------------------------------


def parse_to(
    *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False,
    memory_format: Any = None, tensor: Any = None,
) -> tuple[Any, Any, bool, Any]:  # fmt: skip
    """Return (device, dtype, non_blocking, memory_format) of the arguments of `to`."""
    given = args if tensor is None else (tensor, *args)
    return *module.parse_to(given, device, dtype, non_blocking), memory_format


def get_accelerator() -> Any:
    """Return the CUDA device, or the CPU if there is no CUDA device."""
    return gt.device("cuda" if gt.cuda.is_available() else "cpu")


# --- torch._tensor_str ----------------------------------------------------------------------------


class _PrintOptions:
    """The print options as attributes. Setting an attribute changes how tensors print."""

    def __getattr__(self, name: str) -> Any:
        return printing.get_printoptions()[name]

    def __setattr__(self, name: str, value: Any) -> None:
        options = printing.get_printoptions()
        printing.set_printoptions(**{"sci_mode": options["sci_mode"], name: value})


def tensor_str(tensor: Any, indent: int) -> str:
    """Return the text of a tensor's elements as `repr` writes it, for a line that begins at column
    `indent`."""
    return printing._body(tensor.detach(), indent) if tensor.numel() else "[]"


def add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """Append `, suffix` for each suffix, then `)`. Begin a new line where the line is full."""
    return printing._join(tensor_str, suffixes, indent)


def str_intern(inp: Any, *, tensor_contents: str | None = None) -> str:
    """Return the `repr` of a tensor. tensor_contents: a text that replaces the elements."""
    text = printing.tensor_repr(inp)
    if tensor_contents is None:
        return text
    return f"{type(inp).__name__}({tensor_contents})"


# --- torch._utils ---------------------------------------------------------------------------------


def get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the index of a device. If `optional` is True, None means the current device."""
    if isinstance(device, int):
        return device
    if device is None and optional:
        return gt.cuda.current_device()
    place = gt.device(device)
    if place.type == "cpu" and allow_cpu:
        return -1
    if place.index is None and not optional:
        raise errors.must("_get_device_index", "device", "have an index", device)
    return gt.cuda.current_device() if place.index is None else place.index


def flatten_dense_tensors(tensors: Sequence[Any]) -> Any:
    """Return the elements of tensors in one tensor of one dimension."""
    return gt.cat([x.reshape(-1) for x in tensors])


def unflatten_dense_tensors(flat: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Return the parts of a flat tensor as views with the sizes of the given tensors."""
    parts = flat.split([x.numel() for x in tensors])
    return tuple([part.view(x.shape) for part, x in zip(parts, tensors)])


# --- torch.utils._python_dispatch -----------------------------------------------------------------


class TorchDispatchMode(gt.DispatchMode):
    """A mode whose handler has PyTorch's name `__torch_dispatch__`."""

    def __gputensor_dispatch__(
        self, op: Any, types: tuple[type, ...], args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        """Call the program's handler."""
        return self.__torch_dispatch__(op, types, args, kwargs)  # type: ignore[attr-defined]


# --- flags and base classes -----------------------------------------------------------------------

# What a program asked for: whether it asked for deterministic algorithms, and for warnings only.
# All operators are deterministic, so this has no other effect.
deterministic = [False, False]


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Store the flags, which `are_deterministic_algorithms_enabled` returns."""
    deterministic[:] = mode, mode and warn_only


def get_deterministic_debug_mode() -> int:
    """Return 0 (off), 1 (warn) or 2 (error)."""
    return deterministic[0] + (deterministic[0] and not deterministic[1])


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Store the mode: 0 or "default", 1 or "warn", 2 or "error"."""
    modes = ("default", "warn", "error")
    mode = modes.index(debug_mode) if isinstance(debug_mode, str) else debug_mode
    use_deterministic_algorithms(mode > 0, warn_only=mode == 1)


class InplaceFunction(gt.autograd.Function):
    """PyTorch's base class of functions that may write to their operands."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


# --- torch._scaled_mm -----------------------------------------------------------------------------


def scaled_mm(
    self: Any, mat2: Any, scale_a: Any, scale_b: Any, bias: Any = None, scale_result: Any = None,
    out_dtype: Any = None, use_fast_accum: bool = False,
) -> Any:  # fmt: skip
    """Return the product of float8 matrices, times their scales, plus a bias.

    The product is computed in float32 and rounded once.

    Args:
        self, mat2: (m, k) and (k, n), float8.
        scale_a, scale_b: float32, of one element, or (m, 1) and (1, n). bias: (n,).
        out_dtype: by default that of self. use_fast_accum: accepted.
    """
    op = "_scaled_mm"
    for name, x, size, scale in (
        ("self", self, (self.shape[0], 1), scale_a), ("mat2", mat2, (1, mat2.shape[-1]), scale_b)
    ):  # fmt: skip
        if not str(x.dtype).partition(".")[2].startswith("float8"):
            raise errors.must(op, name, "be float8", x)
        if scale.dtype is not gt.float32 or (scale.numel() != 1 and scale.shape != size):
            rule = f"be a float32 tensor of one element, or {size}"
            raise errors.must(op, f"scale of {name}", rule, scale)
    if scale_result is not None:
        raise errors.must(op, "scale_result", "be None", scale_result, kind=errors.AbsentError)
    made = (self.to(gt.float32) @ mat2.to(gt.float32)) * scale_a * scale_b
    made = made if bias is None else made + bias.to(gt.float32)
    return made.to(out_dtype or self.dtype)


def int_mm(self: Any, mat2: Any) -> Any:
    """Return the product of int8 matrices in int32."""
    for name, x in (("self", self), ("mat2", mat2)):
        if x.dtype is not gt.int8:
            raise errors.must("_int_mm", name, "be int8", x)
    return self.to(gt.int32) @ mat2.to(gt.int32)


# --- torch.utils._pytree --------------------------------------------------------------------------

_nodes = _pytree.SUPPORTED_NODES


def is_batched(tensor: Any) -> bool:
    """True for a tensor with a batch dimension of vmap."""
    return bool(tensor._keys & keys.BATCHED)


def vmap_(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0,
    allow_none_pass_through: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """Return `gt.func.vmap(func)`. This is a former, internal name of vmap."""
    return gt.func.vmap(func, in_dims, out_dims)


# --- functorch ------------------------------------------------------------------------------------


def make_functional(
    model: gt.nn.Module, disable_autograd_tracking: bool = False
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return (function, parameters). The function calls the module with given parameters and
    inputs."""
    call, params, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return lambda params, *args, **kwargs: call(params, (), *args, **kwargs), params


def make_functional_with_buffers(
    model: gt.nn.Module, disable_autograd_tracking: bool = False
) -> tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]:
    """Return (function, parameters, buffers). The function calls the module with given parameters,
    buffers and inputs."""
    stateless = copy.deepcopy(model)
    params, buffers = dict(stateless.named_parameters()), dict(stateless.named_buffers())

    def call(given: Any, buffers_given: Any, *args: Any, **kwargs: Any) -> Any:
        state = {**dict(zip(params, given)), **dict(zip(buffers, buffers_given))}
        return gt.func.functional_call(stateless, state, args, kwargs)

    needs = not disable_autograd_tracking
    copies = [x.detach().clone().requires_grad_(needs and x.requires_grad) for x in params.values()]
    return call, tuple(copies), tuple([x.clone() for x in buffers.values()])


def combine_state_for_ensemble(
    models: Sequence[gt.nn.Module],
) -> tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]:
    """Return (function, parameters, buffers). The parameters and buffers of all models are stacked.
    `vmap` of the function calls all models."""
    calls, params, buffers = zip(*[make_functional_with_buffers(model) for model in models])
    leaves = [gt.stack(list(xs)).detach().requires_grad_() for xs in zip(*params)]
    return calls[0], tuple(leaves), tuple([gt.stack(list(xs)) for xs in zip(*buffers)])


OF_FUNCTORCH: dict[str, Any] = {
    **{name: type(name, (gt.nn.Module,), {})
       for name in ("FunctionalModule", "FunctionalModuleWithBuffers")},
    "make_functional": make_functional, "functionalize": lambda func, **options: func,
    "make_functional_with_buffers": make_functional_with_buffers,
    "combine_state_for_ensemble": combine_state_for_ensemble,
}  # fmt: skip
OF_TORCH: dict[str, Any] = {
    **{f"_foreach_{name}": _foreach(name) for name in _EACH},
    "_foreach_norm": foreach_norm,
    "_scaled_mm": scaled_mm, "_int_mm": int_mm, "_grouped_mm": gt.nn.functional.grouped_mm,
    "_softmax_backward_data": gt.ops.aten._softmax_backward_data,
    "_shape_as_tensor": lambda x: gt.tensor(x.shape), "__file__": gt.__file__,
}  # fmt: skip
OF_TENSOR_STR: dict[str, Any] = {
    "PRINT_OPTS": _PrintOptions(), "_tensor_str": tensor_str, "_add_suffixes": add_suffixes,
    "_str_intern": str_intern, "_str": str_intern, "printoptions": printing.printoptions,
    "set_printoptions": printing.set_printoptions, "get_printoptions": printing.get_printoptions,
}  # fmt: skip
OF_UTILS: dict[str, Any] = {
    "_flatten_dense_tensors": flatten_dense_tensors,
    "_unflatten_dense_tensors": unflatten_dense_tensors,
    "_get_device_index": get_device_index,
    "_get_available_device_type": lambda: "cuda" if gt.cuda.is_available() else None,
    "_get_device_module": lambda device_type: getattr(gt, device_type),
    "_element_size": lambda dtype: dtype.itemsize,
}
OF_DISPATCH: dict[str, Any] = {
    "TorchDispatchMode": TorchDispatchMode, "_disable_current_modes": gt.no_dispatch,
    "is_traceable_wrapper_subclass": lambda tensor: False,
}  # fmt: skip
OF_PYTREE: dict[str, Any] = {
    "PyTree": Any, "Context": Any, "KeyPath": tuple, **OF_PATHS,
    "_dict_flatten_with_keys": None,
    "is_structseq_instance": lambda obj: hasattr(type(obj), "n_sequence_fields"),
    "_list_flatten_with_keys": None, "_tuple_flatten_with_keys": None,
    "_dict_flatten": _nodes[dict].flatten_fn, "_dict_unflatten": _nodes[dict].unflatten_fn,
    "_list_flatten": _nodes[list].flatten_fn, "_list_unflatten": _nodes[list].unflatten_fn,
    "tree_is_leaf": lambda tree, is_leaf=None: _pytree.tree_structure(tree, is_leaf).is_leaf(),
}  # fmt: skip
