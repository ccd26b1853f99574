"""Names of the benchmarks of `python -m bench run`, and a function that imports a benchmark."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

NAMES = (
    "dispatch", "overhead", "host_cuda", "autograd", "custom_op", "layout", "pack", "operators",
    "sweep", "bandwidth", "memcpy", "emulator", "import", "fuse", "scaling",
    "dask", "models",
)  # fmt: skip
FOLDER = Path(__file__).parent


def module(name: str) -> Any:
    """Import and return the module of a benchmark: the package `NAME/` or the module `NAME.py` in
    this folder, or `NAME.py` in a subfolder. Raises: LookupError if no benchmark has this name."""
    if name not in NAMES:
        raise LookupError(f"no benchmark is called {name!r}")
    patterns = (f"{name}/__init__.py", f"{name}.py", f"*/{name}.py")
    (path,) = [path for pattern in patterns for path in FOLDER.glob(pattern)]
    parts = path.relative_to(FOLDER).with_suffix("").parts
    return importlib.import_module(".".join(("bench", *parts)).removesuffix(".__init__"))
