"""All capabilities give equal results, with any number of threads: random programs.

Each capability has a process.

A failure names seed and step; `python -m tests.kernels.library.programs SEED SEED+1 FILE` with
GPUTENSOR_CPU_CAPABILITY runs one program.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gputensor.kernels.compiled import library
from tests.harness import compare, tier

from . import programs
from .programs import BITS, SUMS, Result, Rule, Step

ROOT = Path(__file__).parents[3]
PROGRAMS = tier.pick(20, 150)
# By seed: what each step gives.
Steps = dict[int, list[Step]]


def run(capability: str, to: Path) -> dict[int, Steps]:
    """Return number of threads -> the programs' results at a capability."""
    settings = {library.VARIABLE: capability, "GPUTENSOR_CUDA": "off"}
    command = [sys.executable, "-m", programs.__name__, "0", str(PROGRAMS), str(to)]
    done = subprocess.run(
        command, env=os.environ | settings, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    ran, found = pickle.loads(to.read_bytes())
    assert ran == capability
    return found  # type: ignore[no-any-return]


def differences(these: Steps, those: Steps, rule: Rule | None = None) -> Iterator[str]:
    """Return the steps whose results differ by more than `rule`, or their own rule, allows."""
    assert these.keys() == those.keys()
    for seed, steps in these.items():
        for number, (x, y) in enumerate(zip(steps, those[seed], strict=True)):
            found = difference(x, y, x.rule if rule is None else rule)
            if found:
                yield f"seed {seed}, step {number}: {x.text}: {found}"


def difference(x: Step, y: Step, rule: Rule) -> str:
    if x.text != y.text:
        return f"the other one is {y.text}"
    assert len(x.results) == len(y.results)
    for one, other in zip(x.results, y.results, strict=True):
        if not is_within(one, other, rule, x.size):
            a, b = one.values, other.values
            if a.shape != b.shape or a.dtype != b.dtype:
                return f"{a.dtype}{a.shape} and {b.dtype}{b.shape}"
            place = next(i for i in np.ndindex(a.shape) if not compare.same(a[i], b[i]))
            return f"first {a[place]!r} and {b[place]!r} at {list(place)}, {rule}, size {x.size}"
    return ""


def is_within(x: Result, y: Result, rule: Rule, size: float) -> bool:
    a, b = x.values, y.values
    if compare.same(a, b):
        return True
    if rule.zeros_equal and compare.same(compare.signs_dropped(a), compare.signs_dropped(b)):
        return True
    if not rule.ulp or a.shape != b.shape or a.dtype != b.dtype or not x.eps:
        return False
    a, b, real = programs.wide(a), programs.wide(b), a.real.dtype
    with np.errstate(invalid="ignore", over="ignore"):
        magnitude = np.maximum(np.abs(a), np.abs(b))
        finite = np.isfinite(magnitude)
        if rule.of_largest:
            magnitude = np.maximum(magnitude[finite].max(initial=0), size)
        unit = np.maximum(magnitude * x.eps, float(np.finfo(real).smallest_subnormal))
        is_equal = (a == b) | np.isnan(a) & np.isnan(b)
        return bool((is_equal | finite & (np.abs(a - b) <= rule.ulp * unit)).all())


@pytest.mark.full
@pytest.mark.skipif(
    library.choice().library is None, reason="the loops are not built or not chosen"
)
def test_random_programs_give_the_same_at_every_capability_and_with_any_threads(tmp_path: Path):
    found_library = library.choice().library
    assert found_library is not None
    built = found_library.capabilities()
    by_name = {name: run(name, tmp_path / name) for name in (library.DEFAULT, *built)}
    wrong = []
    for name, by_threads in by_name.items():
        for found in differences(by_threads[1], by_threads[2], BITS):
            wrong.append(f"{name}, with one thread and with two: {found}")
    for name in built:
        for found in differences(by_name[library.DEFAULT][1], by_name[name][1]):
            wrong.append(f"{library.DEFAULT} and {name}: {found}")
        for found in differences(by_name[built[0]][1], by_name[name][1], BITS):
            wrong.append(f"{built[0]} and {name}: {found}")
    assert not wrong, "\n".join(wrong)
    steps = [step for found in by_name[built[0]][1].values() for step in found]
    assert {step.text.partition("(")[0] for step in steps} == programs.TABLE.keys()
    refused = [step.text for step in steps if not step.results]
    assert len(refused) < len(steps) / 10, refused


@pytest.mark.skipif(library.choice().library is None, reason="as above")
def test_a_library_of_older_sources_names_the_command_that_builds_it() -> None:
    found: Any = library.choice().library
    with pytest.raises(AttributeError, match=r"no 'added'\); run: python build_library.py$"):
        found.added(1)
    assert not hasattr(found, "added")  # pickle searches every module for a function's name


# --- differences that the comparison finds --------------------------------------------------------


def step_of(*values: float, text: str = "op()", size: float = 0, dtype: type = np.float32) -> Step:
    array = np.array(values, dtype)
    return Step(text, BITS, size, [Result(array, float(np.finfo(dtype).eps))])


NEXT = float(np.nextafter(np.float32(1), np.float32(2)))


@pytest.mark.parametrize(
    ("x", "y", "rule"),
    [
        (step_of(1), step_of(NEXT), BITS),
        (step_of(0), step_of(-0.0), BITS),
        (step_of(1), step_of(1, 1), BITS),
        (step_of(1), step_of(1, dtype=np.float64), SUMS),
        (step_of(1), step_of(1, text="another()"), SUMS),
        (step_of(1), step_of(1 + 8e-7), Rule(6)),
        (step_of(1, 1000), step_of(1 + 8e-7, 1000), Rule(6)),
        (step_of(1, 1000), step_of(1 + 8e-4, 1000), Rule(6, of_largest=True)),
        (step_of(float("nan")), step_of(1), SUMS),
        (step_of(float("inf")), step_of(3e38), SUMS),
        (step_of(0), step_of(1e-44), Rule(6)),
    ],
)
def test_a_difference_is_seen(x: Step, y: Step, rule: Rule):
    assert difference(x, y, rule) and difference(y, x, rule)


@pytest.mark.parametrize(
    ("x", "y", "rule"),
    [
        (step_of(1, float("nan")), step_of(1, float("nan")), BITS),
        (step_of(0), step_of(-0.0), Rule(zeros_equal=True)),
        (step_of(1), step_of(NEXT), Rule(1)),
        (step_of(1, 1000), step_of(1 + 8e-5, 1000), Rule(6, of_largest=True)),
        (step_of(1, size=1000), step_of(1 + 8e-5, size=1000), Rule(6, of_largest=True)),
        (step_of(0), step_of(1e-45), Rule(6)),
    ],
)
def test_what_a_rule_allows_is_no_difference(x: Step, y: Step, rule: Rule):
    assert not difference(x, y, rule) and not difference(y, x, rule)
