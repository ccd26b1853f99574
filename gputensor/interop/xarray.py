"""Support of tensors in xarray. It accepts them by the array API if its type check does not read
`imag`.

The check is `isinstance(data, (_arrayfunction, _arrayapi))`, two protocols that list `imag`. Up to
Python 3.11 this reads each attribute, and `imag` of a real tensor raises, as in PyTorch.
"""

from __future__ import annotations

from types import ModuleType


def register(core: ModuleType) -> None:
    """Replace the check. core: the module `xarray.namedarray.core`, the only one with this
    check."""
    from ..tensor.tensor import Tensor

    core._arrayfunction_or_api = (Tensor, *core._arrayfunction_or_api)  # type: ignore[attr-defined]
