"""Every exception class and every message of the project.

Each message is built here, and only after a failure. It is one line: it names the operator and the
argument, states the rule and describes the given value. If PyTorch programs match on PyTorch's
wording, the message contains that wording. The checks that detect a wrong call are elsewhere.
"""

from typing import TYPE_CHECKING, Any

from .base import *  # noqa: F403

# Only `base` is imported here, which keeps `import gputensor` fast. The names of the other modules
# are loaded at the first error.
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
