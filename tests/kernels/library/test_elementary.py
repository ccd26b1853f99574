"""Elementary functions of the compiled CPU library: within bounds, exact where C99 demands it.

The bounds are those of bench/accuracy/ulp.py, which measures every f32; here a sample with special
numbers uses the same loops.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bench.accuracy import ulp

PAGE = Path(__file__).parents[3] / "docs" / "measurements" / "numbers.md"
CAPABILITY = ulp.default_capability()
COUNT = 100_000
_reason = ulp.unavailable_reason(CAPABILITY)
needs_compiler = pytest.mark.skipif(bool(_reason), reason=_reason or "it is there")


@pytest.mark.full
@needs_compiler
@pytest.mark.emulator
@pytest.mark.parametrize("dtype", ulp.DTYPES)
@pytest.mark.parametrize("name", ulp.BOUNDS)
def test_a_function_is_within_its_bound(name: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    inputs = ulp.arguments(name, ulp.DTYPES[dtype], COUNT, rng)
    found = ulp.worst(ulp.built(CAPABILITY), name, *inputs)
    assert found.seen > COUNT
    assert found.ulp <= getattr(ulp.BOUNDS[name], dtype), found


@pytest.mark.full
@needs_compiler
@pytest.mark.emulator
@pytest.mark.parametrize("dtype", ulp.DTYPES.values())
def test_whole_powers_and_their_logarithms_are_exact(dtype: type) -> None:
    library = ulp.built(CAPABILITY)
    least, most = (-149, 127) if dtype is np.float32 else (-1074, 1023)
    exponents = np.arange(least, most + 1).astype(dtype)
    powers = np.ldexp(dtype(1), exponents.astype(np.int32))
    assert (ulp.computed(library, "exp2", exponents) == powers).all()
    assert (ulp.computed(library, "log2", powers) == exponents).all()
    assert (ulp.computed(library, "pow", np.full_like(powers, 2), exponents) == powers).all()
    tens = np.arange(11 if dtype is np.float32 else 23).astype(dtype)
    assert (
        ulp.computed(library, "log10", (10 ** tens.astype(np.int64).astype(object)).astype(dtype))
        == tens
    ).all()


@needs_compiler
@pytest.mark.emulator
@pytest.mark.full
def test_loops_are_vectorised() -> None:
    """Each function has a vectorised loop, except fmod, which calls the C library for some
    quotients."""
    command = [*ulp.command_of(CAPABILITY), "-fopt-info-vec-optimized", "-o", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    number = next(
        n
        for n, line in enumerate(ulp.SOURCE.read_text().splitlines(), 1)
        if "F::of(x[i]...);" in line and "?" not in line
    )
    size = {"avx2": 32, "neon": 16}[CAPABILITY]
    found = re.findall(
        rf"ulp\.cpp:{number}:\d+: optimized: loop vectorized using {size} byte", done.stderr
    )
    assert len(found) == 2 * (len(ulp.BOUNDS) - 1)


def test_the_page_has_the_bounds_and_what_was_measured() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name, _ in rows] == list(ulp.BOUNDS)
    for name, row in rows:
        cells = row.split(" | ")
        for dtype, (bound, measured, _) in zip(ulp.DTYPES, (cells[:3], cells[3:]), strict=True):
            assert float(bound) == getattr(ulp.BOUNDS[name], dtype)
            assert float(measured) <= float(bound)
