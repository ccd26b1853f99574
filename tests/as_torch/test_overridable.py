"""The functions that PyTorch lets classes override call `__torch_function__` here too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.oracle, pytest.mark.full]

# Prints the name of each function with the names of its required arguments.
NAMES = """
import inspect, json, torch
from torch import overrides
found = {}
ignored = overrides.get_ignored_functions()
for function, like in overrides.get_testing_overrides().items():
    name = overrides.resolve_name(function)
    if function not in ignored and name:
        parameters = inspect.signature(like).parameters.values()
        found[name] = [p.name for p in parameters if p.default is p.empty and p.kind < 2]
print(json.dumps(found))
"""

# Prints how many functions exist, and the names of those that do not call the handler of an
# object, or of a tensor of a subclass.
CALLS = """
import json, sys, warnings
from gputensor import as_torch
as_torch.install()
import torch

warnings.simplefilter("ignore")
called = []

class Handler:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        called.append(func)

class Sub(Handler, torch.Tensor):
    pass

def calls(function, *args):
    called.clear()
    try:
        function(*args)
    except NotImplementedError:
        return True  # it is left out, with a reason
    except Exception:
        pass
    return bool(called)

found, missing = 0, set()
x = torch.ones(2).as_subclass(Sub)
for name, required in json.load(sys.stdin).items():
    module, *parts = name.split(".")
    function = torch
    try:
        for part in parts:
            function = getattr(function, part)
    except (AttributeError, ImportError):
        continue
    found += 1
    if parts[0] != "Tensor":
        given = required or ["x", "y"]
        if not all(calls(function, *[kind] * len(given)) for kind in (Handler(), x)):
            missing.add(name)
    elif parts[-1] == "__get__":
        if not calls(getattr, x, parts[1]):
            missing.add(name)
    elif parts[-1] == "__set__":
        if not calls(setattr, x, parts[1], 1):
            missing.add(name)
    elif not calls(lambda: getattr(x, parts[1])(*[Handler() for _ in required[1:]])):
        missing.add(name)
print(json.dumps([found, sorted(missing)]))
"""

# Numbers rather than tensors; functions with other required arguments; attributes without meaning.
KNOWN = {
    *(f"torch.sym_{name}" for name in "float max min not ite sum sqrt".split()),
    "torch.embedding_bag", "torch.is_distributed", "torch.native_layer_norm",
    "torch.nonzero_static", "torch.linalg.solve_triangular", "torch.Tensor.__array_wrap__",
    "torch.Tensor._is_view",
}  # fmt: skip
FUNCTIONS = 1300  # at least


def printed(program: str, given: str = "") -> str:
    command = [sys.executable, "-W", "ignore", "-c", program]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, input=given, cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_functions_call_the_handlers_of_their_arguments() -> None:
    pytest.importorskip("torch")
    found, missing = json.loads(printed(CALLS, printed(NAMES)))
    assert found >= FUNCTIONS and set(missing) == KNOWN
