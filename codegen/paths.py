"""Paths in the checkout, and loading of single modules of gputensor by path.

Loading a module does not run `gputensor/__init__.py`.
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
YAML = ROOT / "native_functions.yaml"
PACKAGE = ROOT / "gputensor"
GENERATED = PACKAGE / "_generated"  # what users and native code call; rooms have the other files
NAMES = PACKAGE / "core" / "errors" / "names.txt"
OPERATORS_PAGE = ROOT / "docs" / "operators.md"


# Families whose native code and formulas are not in native/ and autograd/formulas/.
NATIVES = {"collective": "distributed/operators.py"}
FORMULAS = ("distributed/derivatives.py",)


def generated(room: str) -> Path:
    """Return the folder of the generated files in a room of the package."""
    return PACKAGE / room / GENERATED.name


def is_generated(path: Path) -> bool:
    return GENERATED.name in path.parts


def registrations(family: str) -> Path:
    return generated("registrations") / f"{family}.py"


def formulas() -> list[Path]:
    """Return the paths of the modules with derivative formulas."""
    ours = sorted((PACKAGE / "autograd" / "formulas").glob("[!_]*.py"))
    return [*ours, *[PACKAGE / place for place in FORMULAS]]


def load_module(name: str) -> types.ModuleType:
    """Load a module of gputensor, such as `core.schema`, by path.

    The packages that contain it are replaced by empty modules, so that relative imports work and no
    `__init__` runs.
    """
    package = "codegen_gputensor"
    folder = PACKAGE
    for part in ("", *name.split(".")[:-1]):
        if part:
            package, folder = f"{package}.{part}", folder / part
        if package not in sys.modules:
            made = types.ModuleType(package)
            made.__path__ = [str(folder)]
            sys.modules[package] = made
    return importlib.import_module(f"codegen_gputensor.{name}")


def native(family: str) -> Path:
    return PACKAGE / NATIVES.get(family, f"native/{family}.py")


def dotted(path: Path) -> str:
    """Return the dotted name of a module in the package, such as `native.view`."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def cpu_kernels(family: str) -> Path:
    return PACKAGE / "kernels" / "cpu" / f"{family}.py"


def cuda_kernels(family: str) -> Path:
    return PACKAGE / "kernels" / "cuda" / f"{family}.cu"


def rows(family: str) -> Path:
    return ROOT / "tests" / "rows" / f"{family}.py"


def shown(path: Path) -> str:
    """Return a path as it is printed: relative to the checkout's root, with forward slashes."""
    return path.relative_to(ROOT).as_posix()
