"""Reader and writer of .safetensors files. They use the package of the format:
`pip install 'gputensor[safetensors]'`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..core import errors
from ..tensor.tensor import Tensor
from ..exchange.construct import asarray


def _package(op: str) -> Any:
    try:
        return import_module("safetensors.numpy")
    except ImportError as error:
        raise errors.extra_missing(f"{op} of .safetensors", "safetensors") from error


def save(obj: Any, path: Any) -> None:
    """Write a dict from names to tensors. Each tensor is written as a contiguous copy."""
    package = _package("save")
    if not isinstance(obj, dict):
        raise errors.wrong_type("save", "obj", "be a dict of tensors for a .safetensors file", obj)
    arrays = {}
    for name, value in obj.items():
        if type(name) is not str or not isinstance(value, Tensor):
            rule = "be a tensor under a name for a .safetensors file"
            raise errors.wrong_type("save", f"obj[{name!r}]", rule, value)
        arrays[name] = value.detach().cpu().contiguous().numpy()
    package.save_file(arrays, path)


def load(path: Any, map_location: Any) -> dict[str, Tensor]:
    package = _package("load")
    try:
        arrays = package.load_file(path)
    except FileNotFoundError:
        raise
    except Exception as error:  # the package has its own error classes
        raise errors.damaged_file("load", path, str(error)) from None
    made = {name: asarray(array) for name, array in arrays.items()}
    if map_location is None:
        return made
    place = map_location.get("cpu", "cpu") if isinstance(map_location, dict) else map_location
    return {name: x.to(place) for name, x in made.items()}
