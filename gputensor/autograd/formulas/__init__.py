"""Functions that the derivatives in native_functions.yaml call, one module for each subject.

The functions are composed of public operators, so they are differentiable themselves. None as a
gradient means zeros. Source: torch/csrc/autograd/FunctionsManual.cpp. The generator finds a
formula's module; any other name in a derivative is an operator.
"""

from __future__ import annotations

from typing import Any

from ..._generated import calls, functions


def __getattr__(name: str) -> Any:
    """Return the operator `name`. Formulas look up operators when they run.

    See Note [Loads take one lock first].
    """
    if name.startswith("__"):
        raise AttributeError(name)
    found = getattr(functions, name, None)
    # `functions` lacks private names and the names of gt.nn
    return getattr(calls, name) if found is None else found
