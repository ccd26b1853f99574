"""`dask.config.set({"array.backend": "gputensor"})`: make Dask create arrays of tensors.

Dask finds this module by the entry point `gputensor` in the group `dask.array.backends`, and
imports it when a program first names the backend.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask import config
from dask.array.backends import ArrayBackendEntrypoint
from dask.utils import Dispatch

from .._generated.functions import empty
from ..exchange.numpy.bridge import from_numpy
from ..tensor.tensor import Tensor


def _of_numpy(data: np.ndarray[Any, Any], **options: Any) -> Tensor:
    return from_numpy(data)


def _of_tensor(data: Tensor, **options: Any) -> Tensor:
    return data


_of_name: Any = Dispatch  # Any, because the package has no annotations
to_gputensor = _of_name("to_gputensor")
to_gputensor.register(np.ndarray, _of_numpy)
to_gputensor.register(Tensor, _of_tensor)


def _made(name: str, *args: Any, meta: Any = None, **options: Any) -> Any:
    """Call Dask's function `name` with NumPy's backend and with chunks of the type of `meta`."""
    meta = empty(()) if meta is None else meta
    with config.set({"array.backend": "numpy"}):
        return getattr(da, name)(*args, meta=meta, **options)


class Backend(ArrayBackendEntrypoint):
    """Dask's functions that create arrays, with CPU tensors as chunks.

    Random arrays come from NumPy's generators: call `da.random.default_rng(0)` within
    `dask.config.set({"array.backend": "numpy"})`, then `.to_backend("gputensor")`.
    """

    @classmethod
    def to_backend_dispatch(cls) -> Any:
        return to_gputensor

    @classmethod
    def to_backend(cls, data: Any, **options: Any) -> Any:
        """Return the array with its chunks converted to tensors, which share the chunks' memory."""
        if isinstance(data._meta, Tensor):
            return data
        return data.map_blocks(cls.to_backend_dispatch(), **options)

    ones, zeros, empty, full = [
        staticmethod(partial(_made, name)) for name in ("ones", "zeros", "empty", "full")
    ]

    @staticmethod
    def arange(*args: Any, like: Any = None, **options: Any) -> Any:
        like = empty(()) if like is None else like
        with config.set({"array.backend": "numpy"}):
            return da.arange(*args, like=like, **options)
