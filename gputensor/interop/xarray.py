"""xarray takes tensors, which have the array API, once its check does not call their `imag`.

It asks `isinstance(data, (_arrayfunction, _arrayapi))`, two protocols that list `imag`; up to
Python 3.11 such a check gets each attribute, and that of a real tensor raises, as PyTorch's does.
"""

from __future__ import annotations

from types import ModuleType


def register(core: ModuleType) -> None:
    """core: the module `xarray.namedarray.core`, which alone asks."""
    from ..tensor.tensor import Tensor

    core._arrayfunction_or_api = (Tensor, *core._arrayfunction_or_api)  # type: ignore[attr-defined]
