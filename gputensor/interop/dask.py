"""Tensors as chunks of `dask.array`: functions for Dask's tables of array types.

Most of Dask's work calls NumPy's functions, which support tensors (exchange/numpy/protocol.py).
This module has the functions that Dask looks up by type: joining, taking, products, counts and
percentiles; the size of a chunk, by which Dask balances and spills; and a token. Tensors with equal
tokens become one task. dask_backend.py implements
`dask.config.set({"array.backend": "gputensor"})`.
"""

from __future__ import annotations

import math
import sys
from types import ModuleType
from typing import Any

import numpy as np

from .._generated import calls
from ..tensor.tensor import Tensor


def register(module: ModuleType) -> None:
    """Add tensors to the tables of one of Dask's modules: `dask.tokenize`, `dask.sizeof`,
    `dask.array.chunk_types` or `dask.array.backends`."""
    client: Any = module
    if module.__name__ == "dask.tokenize":
        client.normalize_token.register(Tensor, token)
        client.normalize_token.register(_dtype_type(), repr)
    elif module.__name__ == "dask.sizeof":
        client.sizeof.register(Tensor, size)
    elif module.__name__ == "dask.array.chunk_types":
        client.register_chunk_type(Tensor)
    else:
        _register_functions(client, Tensor)


def _register_functions(backends: Any, tensor: type) -> None:
    for table, function in {
        "concatenate_lookup": joined, "take_lookup": np.take,
        "tensordot_lookup": np.tensordot, "empty_lookup": empty,
        "divide_lookup": backends.np_divide, "einsum_lookup": einsum,
        "percentile_lookup": backends._percentile, "numel_lookup": count,
        "nannumel_lookup": backends._nannumel, "to_numpy_dispatch": to_numpy,
    }.items():  # fmt: skip
        getattr(backends, table).register(tensor, function)


def _dtype_type() -> type:
    from ..core.dtype import dtype

    return dtype


def token(x: Tensor) -> tuple[Any, ...]:
    """Return Dask's token of a tensor. Tensors with equal elements, dtype, sizes, device and
    requires_grad have equal tokens, in any process."""
    from ..core.device import META
    from ..tensor.base import materialised

    place = repr(x.device)
    if x.device == META:
        return ("gputensor.Tensor", place, repr(x.dtype), tuple(x.shape), tuple(x.stride()))
    hashed = sys.modules["dask.tokenize"].hash_buffer_hex(
        np.ascontiguousarray(materialised(x.detach().cpu())._get_array()).reshape(-1).view(np.uint8)
    )
    return ("gputensor.Tensor", place, repr(x.dtype), tuple(x.shape), x.requires_grad, hashed)


def size(x: Tensor) -> int:
    """Return the number of bytes of a tensor's elements. An expanded tensor counts at most the
    bytes of its storage."""
    held = 0 if x.device.type == "meta" else x.untyped_storage().nbytes()
    return min(held, x.numel() * x.dtype.itemsize)


def empty(shape: Any, dtype: Any = float, order: str = "C", **like: Any) -> Tensor:
    """Same as `np.empty`, for tensors."""
    from .._generated.functions import empty
    from ..core.arguments import element_type

    return empty(shape, dtype=element_type("empty", dtype, by_name=True))


def joined(tensors: Any, axis: Any = 0, **options: Any) -> Any:
    """Same as `np.concatenate`, but return a single tensor itself, without a copy. Dask joins
    nested lists along one axis after another. If an array is divided along one axis only, the lists
    along all other axes contain a single tensor.
    """
    if axis is not None and not options:
        if len(tensors) == 1:
            return tensors[0]
        if all([type(x) is Tensor and x._autograd is None for x in tensors]):
            return calls.cat(tensors, axis)
    return np.concatenate(tensors, axis, **options)


def count(
    x: Tensor, *, axis: Any = None, keepdims: bool = False, dtype: Any = float, **options: Any
) -> Any:
    """Return the number of elements in each sum along `axis`, as an array with the sizes of the
    sums: a NumPy array for chunks on the CPU, otherwise a tensor."""
    sizes = x._geometry.sizes
    if axis is None and not keepdims:
        return np.prod(sizes, dtype=np.dtype(dtype))
    axes = range(len(sizes)) if axis is None else axis if type(axis) is tuple else _axes(axis)
    along = [dim % len(sizes) for dim in axes]
    added = math.prod([sizes[dim] for dim in along])
    kept = [
        1 if dim in along else size
        for dim, size in enumerate(sizes)
        if keepdims or dim not in along
    ]
    if x.is_cpu:
        # Expand one number to the sizes. np.broadcast_to takes three times as long.
        one = np.array(added, np.dtype(dtype))
        seen: np.ndarray[Any, Any] = np.ndarray(kept, one.dtype, one, strides=[0] * len(kept))
        seen.flags.writeable = False
        return seen
    from .._generated.functions import full
    from ..core.arguments import element_type

    element = element_type("numel", dtype, by_name=True)
    return full(kept, added, dtype=element, device=x.device)


def _axes(axis: Any) -> tuple[int, ...]:
    return tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)


def einsum(subscripts: str, *operands: Any, **options: Any) -> Tensor:
    """Same as `np.einsum`. All options except dtype are ignored, because they do not change
    values."""
    from ..functional import einsum

    made = einsum(subscripts, *operands)
    return made if options.get("dtype") is None else made.astype(options["dtype"], copy=False)


def to_numpy(x: Tensor, **options: Any) -> np.ndarray[Any, Any]:
    """Return the chunk as a NumPy array, which shares the memory of a CPU tensor."""
    from ..tensor.base import materialised

    made: np.ndarray[Any, Any] = materialised(x.detach().cpu()).numpy()
    return made
