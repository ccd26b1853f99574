"""The parameters of CuPy's functions for NVIDIA's libraries, read from its compiled modules."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest


def parameters(module: str, name: str) -> list[str]:
    """Return the parameters of a function of `cupy_backends.cuda.libs`. Skip the test if CuPy is
    not installed. A machine without a GPU cannot import these modules."""
    spec = find_spec("cupy_backends")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    files = [file for place in places for file in Path(place).glob(f"cuda/libs/{module}.*.so")]
    if not files:
        pytest.skip("CuPy is not installed")
    found = re.search(rf"\0{name}\((.*?)\)".encode(), files[0].read_bytes())
    assert found is not None
    return [part.split()[-1] for part in found[1].decode().split(", ")]
