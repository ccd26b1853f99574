"""What the derivatives of native_functions.yaml call: formulas, a module a subject, and operators.

Everything here is made of public operators, so derivatives of derivatives need nothing more. None
stands for a gradient of zeros. Source: torch/csrc/autograd/FunctionsManual.cpp. The generator finds
the module of a formula; what no module has is an operator, under the name that the tables have.
"""

from __future__ import annotations

from typing import Any

from ..._generated import calls, functions


def __getattr__(name: str) -> Any:
    """An operator. None is named before its family has its derivatives: see Note [Loads take one
    lock first]."""
    if name.startswith("__"):
        raise AttributeError(name)
    found = getattr(functions, name, None)
    return getattr(calls, name) if found is None else found  # what is private, or of gt.nn
