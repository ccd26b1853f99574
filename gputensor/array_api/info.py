"""Capabilities of the namespace: `xp.__array_namespace_info__()`."""

from __future__ import annotations

from typing import TypedDict

import gputensor as gt
from gputensor import device, dtype

from ..core.geometry import MOST_DIMS
from .dtypes import of_kinds

Capabilities = TypedDict(
    "Capabilities",
    {"boolean indexing": bool, "data-dependent shapes": bool, "max dimensions": int},
)
DefaultDataTypes = TypedDict(
    "DefaultDataTypes",
    {"real floating": dtype, "complex floating": dtype, "integral": dtype, "indexing": dtype},
)


class Info:
    """The namespace's capabilities, devices and dtypes."""

    def capabilities(self) -> Capabilities:
        """Return the limits and the supported optional parts of the standard."""
        return {
            "boolean indexing": True, "data-dependent shapes": True, "max dimensions": MOST_DIMS,
        }  # fmt: skip

    def default_device(self) -> device:
        """Return the default device of new tensors."""
        return gt.device(gt.get_default_device())

    def default_dtypes(self, *, device: device | str | None = None) -> DefaultDataTypes:
        """Return the default dtypes of new tensors. They are the same on all devices."""
        real = gt.get_default_dtype()
        return {
            "real floating": real, "complex floating": real.to_complex, "integral": gt.int64,
            "indexing": gt.int64,
        }  # fmt: skip

    def devices(self) -> tuple[device, ...]:
        """Return all devices of this machine. Without a GPU, the emulated CUDA device is one of
        them."""
        count = gt.cuda.device_count()
        return (gt.device("cpu"), *[gt.device("cuda", index) for index in range(count)])

    def dtypes(
        self, *, device: device | str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, dtype]:
        """Return the standard's dtypes by name, of one or several kinds. All devices have all
        dtypes."""
        return of_kinds("dtypes", kind)


def __array_namespace_info__() -> Info:
    """The namespace's capabilities, devices and dtypes."""
    return Info()
