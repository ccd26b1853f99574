"""Programs of PyTorch's, unchanged: `import torch` gives gputensor, once asked for.

`install()` lets this process find gputensor under PyTorch's names, and
`gputensor run-as-torch script.py` runs a program so. places.py says which module of ours answers
for which of PyTorch's, stand_ins.py has what programs ask for that is harmless, finder.py is what
Python's import asks. docs/programs.md tells what runs.
"""

from __future__ import annotations

import sys
from typing import Any

from ..core import errors
from ..tensor import tensor
from .finder import Finder

__all__ = ["install", "is_installed", "uninstall"]

_finder = Finder()


def _tensor(*args: Any, **kwargs: Any) -> Any:
    """`torch.Tensor(...)`."""
    from .legacy_types import tensor

    return tensor(*args, **kwargs)


def is_installed() -> bool:
    """Whether `import torch` gives gputensor."""
    return _finder in sys.meta_path


def install() -> None:
    """Let `import torch` give gputensor in this process, until `uninstall`.

    Raises: DispatchError where PyTorch itself is imported already.
    """
    if is_installed():
        return
    if "torch" in sys.modules:
        rule = "be called before PyTorch is imported"
        raise errors.must(
            "as_torch", "install", rule, errors.Got("'torch' among the loaded modules")
        )
    sys.meta_path.insert(0, _finder)
    tensor.called.append(_tensor)


def uninstall() -> None:
    """Take PyTorch's names away again; what was imported meanwhile keeps what it has."""
    if not is_installed():
        return
    sys.meta_path.remove(_finder)
    tensor.called.clear()
    for name in [n for n in sys.modules if n == "torch" or n.startswith("torch.")]:
        del sys.modules[name]
