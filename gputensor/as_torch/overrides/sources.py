"""How PyTorch implements a function. The types and arguments that handlers get depend on whether a
function is written in Python or compiled."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from ...tensor.tensor import Tensor

PACKAGE = __name__.partition(".")[0]
signature = functools.cache(inspect.signature)

# Modules whose functions are written in Python in PyTorch. Handlers get arguments that have a
# default value by keyword. _COMPILED: functions of these modules that are compiled in PyTorch.
# Handlers get the arguments of these functions as the program passed them.
_IN_PYTHON = ("nn.functional", "functional", "tensor.overloads", "autograd.engine")
_COMPILED = {
    "linear", "logsigmoid", "softplus", "softshrink", "gelu", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "one_hot", "scaled_dot_product_attention", "elu_", "hardtanh_", "leaky_relu_",
    "rrelu_", "gradient", "histogramdd",
}  # fmt: skip
# Methods of tensors that are written in Python in PyTorch. Source: torch/_tensor.py.
_METHODS_IN_PYTHON = {
    "__array__", "__contains__", "__deepcopy__", "__dir__", "__dlpack__", "__dlpack_device__",
    "__floordiv__", "__format__", "__ipow__", "__len__", "__pow__", "__reduce_ex__", "__repr__",
    "__reversed__", "__rfloordiv__", "__rlshift__", "__rmatmul__", "__rmod__", "__rpow__",
    "__rrshift__", "__rsub__", "__rtruediv__", "__setstate__", "align_to", "backward",
    "dim_order", "is_shared", "istft", "lu", "module_load", "norm", "refine_names",
    "register_hook", "register_post_accumulate_grad_hook", "reinforce", "rename", "rename_",
    "resize", "resize_as", "share_memory_", "split", "stft", "storage", "storage_type",
    "to_sparse_coo", "unflatten", "unique", "unique_consecutive",
}  # fmt: skip

# Rules for the types that a handler gets. Source: torch/csrc/utils/python_arg_parser.cpp.
OF_PARSER = "parser"  # types of arguments with a handler; for functions that parse arguments
OF_PYTHON = "python"  # types of plain tensors too; for functions that are written in Python
OF_SELF = "self"  # type of the tensor itself; for attributes, and methods that parse no arguments


def is_in(name: str, modules: Iterable[str]) -> bool:
    """True if `name` is one of `modules`, or a module inside one of them. The names in `modules`
    are relative to our package."""
    inner = name.removeprefix(f"{PACKAGE}.") + "."
    return any([inner.startswith(f"{module}.") for module in modules])


def is_of_python(function: Callable[..., Any]) -> bool:
    """True for a function, other than a method of tensors, that is written in Python in PyTorch."""
    return is_in(function.__module__, _IN_PYTHON) and function.__name__ not in _COMPILED


@functools.lru_cache(1024)
def rule_of(func: Any) -> str:
    """Return the rule for the types that a handler gets: OF_PARSER, OF_PYTHON or OF_SELF."""
    if getattr(func, "__name__", "") in ("__get__", "__set__", "__delete__"):
        return OF_SELF
    if not isinstance(func, FunctionType):
        return OF_PARSER
    name = func.__qualname__.rpartition(".")[2]
    if getattr(Tensor, name, None) is not func:
        return OF_PYTHON if is_of_python(func) else OF_PARSER
    if name in _METHODS_IN_PYTHON:
        return OF_PYTHON
    # PyTorch parses the arguments of a method that has arguments. PyTorch's `cpu` has an argument,
    # but our `cpu` has none.
    is_parsed = name == "cpu" or len(signature(func).parameters) > 1
    return OF_PARSER if is_parsed and name not in ("apply_", "new_tensor") else OF_SELF
