"""The parameters of PyTorch's public functions, classes and methods, and the bases of its classes,
for test_parameters_oracle.py: `python -m tests.oracle.names.parameters torch|gputensor` writes them
as JSON, from PyTorch or from gputensor under the name torch."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import sys
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
LISTS = (ROOT / "gputensor/core/errors/names.txt", ROOT / "tests/as_torch/names.txt")


def modules() -> list[str]:
    lines = [line for path in LISTS for line in path.read_text(encoding="utf-8").splitlines()]
    return [line.partition(": ")[0] for line in lines if line.startswith("torch")]


def parameters(function: Any) -> list[tuple[str, str]] | None:
    """Return (name, kind) of each parameter, or None for a function of C without a signature."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [(p.name, p.kind.name) for p in found]


def callables(module: str) -> dict[str, list[tuple[str, str]]]:
    """Return the parameters of a module's public functions and classes, and of their methods."""
    of, _, last = module.rpartition(".")
    is_class = last == "Tensor"
    place = (
        getattr(importlib.import_module(of), last) if is_class else importlib.import_module(module)
    )
    found: dict[str, list[tuple[str, str]]] = {}
    for name in dir(place):
        value = None
        with contextlib.suppress(Exception):  # placeholders raise when they are read
            value = getattr(place, name)
        if name.startswith("_") or not callable(value):
            continue
        given = {name: value}
        if inspect.isclass(value) and not is_class:
            members = [m for m in dir(value) if not m.startswith("_")]
            given |= {f"{name}.{m}": getattr(value, m, None) for m in members}
        for path, function in given.items():
            if callable(function) and (known := parameters(function)) is not None:
                found[path] = known
    return found


def bases(module: str) -> dict[str, list[str]]:
    """Return the names of each public class of a module and of the classes of the module from which
    it derives."""
    if module.endswith(".Tensor"):
        return {}
    place = importlib.import_module(module)
    classes: dict[str, Any] = {}
    for name in dir(place):
        with contextlib.suppress(Exception):
            if inspect.isclass(value := getattr(place, name)) and not name.startswith("_"):
                classes[name] = value
    return {
        name: [other for other, of in classes.items() if other != name and _derives(kind, of)]
        for name, kind in classes.items()
    }


def _derives(kind: Any, of: Any) -> bool:
    try:
        return issubclass(kind, of)
    except Exception:  # protocols, and classes with their own __subclasscheck__
        return False


def main(library: str) -> None:
    warnings.simplefilter("ignore")
    if library == "gputensor":
        from gputensor import as_torch

        as_torch.install()
    made = {}
    for module in modules():
        with contextlib.suppress(ImportError):
            made[module] = callables(module), bases(module)
    json.dump(made, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
