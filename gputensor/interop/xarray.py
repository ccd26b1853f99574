"""Support of tensors in xarray, which accepts them through the array API, apart from one type
check.

The check is `isinstance(data, (_arrayfunction, _arrayapi))` with two protocols that contain `imag`.
Up to Python 3.11 isinstance reads each attribute, and `imag` of a real tensor raises an error, as
in PyTorch.
"""

from __future__ import annotations

from types import ModuleType


def register(core: ModuleType) -> None:
    """Make the check accept tensors before it reads any attribute. core: the module
    `xarray.namedarray.core`, the only module with this check."""
    from ..tensor.tensor import Tensor

    core._arrayfunction_or_api = (Tensor, *core._arrayfunction_or_api)  # type: ignore[attr-defined]
