"""The benchmarks of `python -m bench run`, and where the module of each is."""

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
    """Return the module of a benchmark: `NAME.py` or `NAME/` in this folder, or `NAME.py` in one of
    its folders. Raises: LookupError if no benchmark has this name."""
    if name not in NAMES:
        raise LookupError(f"no benchmark is called {name!r}")
    patterns = (f"{name}/__init__.py", f"{name}.py", f"*/{name}.py")
    (path,) = [path for pattern in patterns for path in FOLDER.glob(pattern)]
    parts = path.relative_to(FOLDER).with_suffix("").parts
    return importlib.import_module(".".join(("bench", *parts)).removesuffix(".__init__"))
