"""Write the public names of PyTorch and NumPy: `python -m tests.oracle.freeze_names`.

Errors about names that gputensor lacks read `gputensor/core/errors/names.txt`: a line for each of
their modules with a counterpart here, and for their tensor classes.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy
import torch

import gputensor

NAMES = Path(gputensor.__file__).parent / "core" / "errors" / "names.txt"
MODULES = {
    "torch": [
        "", ".Tensor", ".amp", ".autograd", ".autograd.graph", ".backends", ".cuda",
        ".distributions", ".fft", ".library", ".linalg", ".nn", ".nn.functional", ".nn.init",
        ".nn.utils", ".optim", ".optim.lr_scheduler", ".optim.swa_utils", ".profiler", ".random",
        ".special", ".testing", ".utils.data",
    ],
    "numpy": ["", ".ndarray", ".fft", ".linalg", ".random", ".testing"],
}  # fmt: skip


def public(module: str) -> list[str]:
    """Names that users may ask for: those listed, and whatever else is the library's own.

    PyTorch leaves many of its names out of `__all__`: functions made of C, and values such as its
    dtypes. What a module imports from another library is not its own, and modules are files.
    """
    of, _, last = module.rpartition(".")
    if last in ("Tensor", "ndarray"):
        return [name for name in dir(getattr(import_module(of), last)) if not name.startswith("_")]
    found = import_module(module)
    listed = {name for name in dir(found) if _is_own(module, vars(found).get(name))}
    listed |= set(getattr(found, "__all__", ()))
    return sorted(name for name in listed if not name.startswith("_"))


def _is_own(module: str, value: object) -> bool:
    if isinstance(value, ModuleType):
        return False
    if callable(value):
        home = str(getattr(value, "__module__", "") or module)
        return home.startswith((module, "torch._C"))
    return type(value).__module__.startswith(module.partition(".")[0])


def text() -> str:
    version = torch.__version__.partition("+")[0]
    lines = [
        f"# Frozen from PyTorch {version} and NumPy {numpy.__version__} "
        "by `python -m tests.oracle.freeze_names`."
    ]
    for library, places in MODULES.items():
        lines += [f"{library}{place}: {' '.join(public(library + place))}" for place in places]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    NAMES.write_text(text(), encoding="utf-8")
