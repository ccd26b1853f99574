"""The namespace of the standard's revisions up to 2024.12.

Some functions return lists in these revisions, and tuples in 2025.12. `x.__array_namespace__(
api_version="2024.12")` returns this module. All other names are imported from the package.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING, Literal as _Literal

from gputensor import Tensor as _Tensor, device as _device

from ..core import lazy as _lazy
from . import (
    __all__ as __all__, creation as _creation, info as _info, manipulation as _manipulation,
)  # fmt: skip
from . import *  # noqa: F403

__array_api_version__ = "2024.12"


class _Info(_info.Info):
    """The namespace's capabilities, devices and dtypes."""

    def devices(self) -> list[_device]:  # type: ignore[override]
        """Return all devices of this machine. Without a GPU, the emulated CUDA device is one of
        them."""
        return list(super().devices())


def __array_namespace_info__() -> _Info:
    """The namespace's capabilities, devices and dtypes."""
    return _Info()


def broadcast_arrays(*arrays: _Tensor) -> list[_Tensor]:
    """Return views of the tensors, broadcast to their common sizes."""
    return list(_manipulation.broadcast_arrays(*arrays))


def meshgrid(*arrays: _Tensor, indexing: _Literal["xy", "ij"] = "xy") -> list[_Tensor]:
    """Return the coordinates of a grid: one tensor for each vector. Each tensor repeats its
    vector along all other dimensions."""
    return list(_creation.meshgrid(*arrays, indexing=indexing))


if not _TYPE_CHECKING:
    __getattr__, __dir__ = _lazy.attributes(globals())
