"""Linear algebra such as `gt.linalg.solve(a, b)`, as in torch.linalg.

The functions are operators: rows of native_functions.yaml with `python_module: linalg`. They are
loaded with their families.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.errors.linalg import LinAlgError as LinAlgError
from .dispatch.families import lazy_module as _lazy

if TYPE_CHECKING:
    from ._generated.linalg import *  # noqa: F403

_lazy(globals())
