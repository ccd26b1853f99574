"""Run a library's cases in a new process with SCIPY_ARRAY_API=1.

SciPy reads the variable when it is imported, and gputensor's own use of SciPy is tested without it.
A module has CASES: name -> call, which gets a function that converts NumPy arrays. `python -m
MODULE` runs them with NumPy arrays and with tensors of each device, with warnings as errors, and
prints failures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import pytest

import gputensor as gt

from . import all_close

Case = Callable[[Callable[[Any], Any]], Any]


def run(
    cases: Mapping[str, Case], on_cuda: Iterable[str] = (), numpys: Iterable[str] = (),
    within: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> None:  # fmt: skip
    """Print {"NAME on DEVICE": traceback or ""}. numpys: names of cases whose results are NumPy
    arrays."""
    wrong = {}
    warnings.simplefilter("error")
    for name, case in cases.items():
        expected = case(np.asarray)
        for place in ("cpu", "cuda") if name in on_cuda and gt.cuda.is_available() else ("cpu",):
            try:
                with within():
                    found = case(lambda x, place=place: gt.tensor(x, device=place))
                all_close(found, expected, None if name in numpys else place)
            except Exception:
                wrong[f"{name} on {place}"] = traceback.format_exc()
            else:
                wrong[f"{name} on {place}"] = ""
    print(json.dumps(wrong))


@cache
def outcomes(module: str) -> dict[str, str]:
    command = [sys.executable, "-m", module]
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    found = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return dict(json.loads(found.stdout))


def check(module: str, name: str, place: str) -> None:
    if place == "cuda" and not gt.cuda.is_available():
        pytest.skip("needs CUDA devices, real or emulated")
    wrong = outcomes(module)[f"{name} on {place}"]
    assert not wrong, wrong


def both(cases: Iterable[str], on_cuda: Iterable[str]) -> list[tuple[str, str]]:
    return [*((name, "cpu") for name in cases), *((name, "cuda") for name in on_cuda)]
