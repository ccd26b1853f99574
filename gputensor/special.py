"""Special functions such as `gt.special.gammaln(x)`, as in torch.special.

The functions are operators: rows of native_functions.yaml with `python_module: special`. They are
loaded with their families.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .dispatch.families import lazy_module as _lazy

if TYPE_CHECKING:
    from ._generated.special import *  # noqa: F403

_lazy(globals())
