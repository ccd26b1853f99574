"""Every exception class and every message of the project.

A message is built here and only on the unhappy path; it has one line, names the operator and the
argument, states the rule and says what was given. Where PyTorch's users match on PyTorch's wording,
that wording is matched here, once. It does not decide *when* something is wrong.
"""

from typing import TYPE_CHECKING, Any

from .base import *  # noqa: F403

# All modules but `base` are loaded at the first error, because imports are budgeted.
if TYPE_CHECKING:
    from .amp import *  # noqa: F403
    from .autograd import *  # noqa: F403
    from .custom_op import *  # noqa: F403
    from .dispatch import *  # noqa: F403
    from .distributed import *  # noqa: F403
    from .exchange import *  # noqa: F403
    from .linalg import *  # noqa: F403
    from .runtime import *  # noqa: F403
    from .shapes import *  # noqa: F403

_REST = (
    "shapes", "dispatch", "runtime", "exchange", "linalg", "autograd", "amp", "custom_op",
    "distributed",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module in [import_module(f"{__name__}.{rest}") for rest in _REST]:
        if name in vars(module) and not name.startswith("_"):
            globals()[name] = found = getattr(module, name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
