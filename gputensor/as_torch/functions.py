"""Functions of `torch` that have another name in gputensor, or that are composed of our
functions."""

from __future__ import annotations

import math
import pickle
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gputensor as gt
from gputensor.autograd import anomaly
from gputensor.core import errors
from gputensor.dispatch.refusal import declares


@declares()
def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """Call `conv1d` for an input (time, batch, channels) and a weight (time, channels in, channels
    out)."""
    made = gt.nn.functional.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad)
    return made.permute(2, 0, 1)


@declares()
def frobenius_norm(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the root of the sum of squares over `dim`, or over all elements."""
    return gt.linalg.vector_norm(input, 2, dim or None, keepdim)


@declares()
def nuclear_norm(input: Any, dim: Any = (-2, -1), keepdim: bool = False) -> Any:
    """Return the sum of the singular values of matrices."""
    return gt.linalg.matrix_norm(input, "nuc", dim, keepdim)


@declares()
def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """Return the norm over all dimensions except `dim`. If dim is -1, return the norm over all
    dimensions."""
    others = None if dim == -1 else [n for n in range(v.ndim) if n != dim % v.ndim]
    return gt.linalg.vector_norm(v, pow, others, keepdim=dim != -1)


@declares()
def svd_lowrank(A: Any, q: int = 6, niter: int = 2, M: Any = None) -> Any:
    """Approximate the q greatest singular values and their vectors, from random projections.

    Source: Halko, Martinsson, Tropp, Finding structure with randomness, 2009, algorithm 4.4.
    """
    x = A if M is None else A - M
    back = x.mH
    base = gt.linalg.qr(x @ gt.randn(x.shape[-1], q, dtype=x.dtype, device=x.device))[0]
    for _ in range(niter):
        base = gt.linalg.qr(back @ base)[0]
        base = gt.linalg.qr(x @ base)[0]
    u, s, vh = gt.linalg.svd(base.mH @ x, full_matrices=False)
    return base @ u, s, vh.mH


@declares()
def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """Call `svd_lowrank` for matrices after subtracting their column means. q: by default 6, or the
    smaller size of the matrices if it is less than 6."""
    count = min(6, *A.shape[-2:]) if q is None else q
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, count, niter)


def from_file(
    filename: Any, shared: bool = False, size: int = 0, *, dtype: Any = None, **options: Any
) -> Any:
    """Map the first `size` elements of a file into memory. With `shared`, writes change the
    file."""
    element = gt.get_default_dtype() if dtype is None else dtype
    nbytes = (size * element.itemsize,)
    mapped = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=nbytes)
    return gt.from_numpy(mapped).view(element)


def get_device_module(device: Any = None) -> Any:
    """Return `torch.cuda` for a CUDA device, and `torch.cpu` for the CPU."""
    from importlib import import_module

    kind = gt.get_default_device().type if device is None else gt.device(device).type
    return import_module(f"torch.{kind}")


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Call `autograd.set_detect_anomaly`."""
    gt.autograd.set_detect_anomaly(mode, check_nan)


def is_anomaly_check_nan_enabled() -> bool:
    """Return True if anomaly mode looks for NaN."""
    return anomaly.checks_nan


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:  # fmt: skip
    """Call true_fn or false_fn with the operands. Reading `pred` waits for the device."""
    return (true_fn if pred else false_fn)(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> Any:
    """Apply `body_fn` to the inputs while `cond_fn` is true. Each test waits for the device."""
    carried = tuple(carried_inputs)
    while cond_fn(*carried):
        made = body_fn(*carried)
        carried = tuple(made) if isinstance(made, (tuple, list)) else (made,)
    return carried


@declares()
def lu(A: gt.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return `A.lu(...)`."""
    return A.lu(*args, **kwargs)


@declares()
def split(tensor: gt.Tensor, split_size_or_sections: Any, dim: int = 0) -> Any:
    """Call `tensor.split(...)`, with the argument names of torch.split."""
    return tensor.split(split_size_or_sections, dim)


def save(
    obj: Any, f: Any, pickle_module: Any = pickle, pickle_protocol: int = 2, *args: Any,
    **kwargs: Any,
) -> None:  # fmt: skip
    """Save an object of any class, as PyTorch does. `gt.save` accepts fewer classes by default."""
    gt.save(obj, f, pickle_module)


@declares()
def range_(
    start: float, end: float | None = None, step: float = 1, *, dtype: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """`torch.range`: numbers from start to end, both included. PyTorch deprecates it."""
    first, last = (0, start) if end is None else (start, end)
    warnings.warn(errors.deprecated("range", "it is", "use arange"), UserWarning, stacklevel=2)
    count = math.floor((last - first) / step) + 1
    of = gt.get_default_dtype() if dtype is None else dtype
    made = first + gt.arange(count, dtype=gt.float64, device=device) * step
    return made.to(of).requires_grad_(requires_grad)


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = True, msg: str = "",
) -> None:  # fmt: skip
    """`torch.testing.assert_allclose`: assert_close that ignores dtypes and strides. PyTorch
    deprecates it."""
    message = errors.deprecated("assert_allclose", "it is", "use assert_close")
    warnings.warn(message, FutureWarning, stacklevel=2)
    gt.testing.assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False,
        msg=msg or None,
    )  # fmt: skip


# Maps PyTorch's names to our functions with the same meaning.
OF_TORCH: dict[str, Any] = {
    "range": range_, "spmm": gt.mm,
    "save": save, "split": split,
    "conv_tbc": conv_tbc, "from_file": from_file,
    "frobenius_norm": frobenius_norm, "nuclear_norm": nuclear_norm,
    "norm_except_dim": norm_except_dim, "svd_lowrank": svd_lowrank, "pca_lowrank": pca_lowrank,
    "lu": lu, "detach_": lambda x: x.detach_(),
    "is_inference": declares("is_inference")(lambda x: x.is_inference()),
    "get_device": declares("get_device")(lambda x: x.get_device()),
    "is_distributed": lambda x: x.is_distributed(), "to_dlpack": lambda x: x.__dlpack__(),
    "embedding_bag": gt.ops.aten.embedding_bag, "rrelu_": gt.nn.functional.rrelu_,
    "embedding_renorm_": gt.ops.aten.embedding_renorm_, "get_device_module": get_device_module,
    "get_autocast_cpu_dtype": lambda: gt.get_autocast_dtype("cpu"),
    "get_autocast_gpu_dtype": lambda: gt.get_autocast_dtype("cuda"),
    "set_autocast_cpu_dtype": lambda dtype: gt.set_autocast_dtype("cpu", dtype),
    "set_autocast_gpu_dtype": lambda dtype: gt.set_autocast_dtype("cuda", dtype),
    "is_autocast_cpu_enabled": lambda: gt.is_autocast_enabled("cpu"),
    "set_autocast_cpu_enabled": lambda enabled: gt.set_autocast_enabled("cpu", enabled),
    "set_anomaly_enabled": set_anomaly_enabled, "is_anomaly_enabled": anomaly.is_anomaly_enabled,
    "is_anomaly_check_nan_enabled": is_anomaly_check_nan_enabled, "cond": cond,
    "while_loop": while_loop, "sym_float": float, "sym_int": int, "sym_max": max, "sym_min": min,
    "sym_not": lambda a: not a, "sym_sqrt": lambda a: math.sqrt(a), "sym_sum": sum,
    "sym_ite": lambda b, t, f: t if b else f,
}  # fmt: skip
OF_SPECIAL: dict[str, Any] = {
    "softmax": gt.softmax, "log_softmax": gt.log_softmax, "logsumexp": gt.logsumexp,
    "round": gt.round,
}  # fmt: skip
