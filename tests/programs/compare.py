"""Compare the results of both libraries for a row, by relative difference."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .program import Row

# A gradient that is mathematically zero consists of rounding errors in both libraries, and so does
# a bias after one step with it. So an array's scale is at least this share of the greatest value of
# its kind in the program.
LEAST_PART = 1e-3
# The greatest difference allowed, relative to the greatest value of an array.
TOLERANCES = {"float32": 1e-4, "float64": 1e-6}


def read(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as kept:
        return {name: kept[name] for name in kept}


def faults(row: Row, folder: Path) -> list[str]:
    """Return a sentence for each difference between gputensor's and PyTorch's results; [] if there
    is none."""
    raised = folder / f"{row.name}.torch.txt"
    assert not raised.exists(), f"PyTorch itself does not run it: {raised.read_text()}"
    expected = read(folder / f"{row.name}.torch.npz")
    raised = folder / f"{row.name}.gputensor.txt"
    if raised.exists():
        return [raised.read_text()]
    found = read(folder / f"{row.name}.gputensor.npz")
    said = compared(expected, found, TOLERANCES[row.dtype])
    raised = folder / f"{row.name}.back.txt"
    if raised.exists():
        said.append(f"the saved files: {raised.read_text()}")
    elif (folder / f"{row.name}.back.npz").exists():
        back, kept = read(folder / f"{row.name}.back.npz"), {}
        if any(name.startswith("state ") for name in back):
            kept = {name: x for name, x in found.items() if name.startswith("state ")}
        kept |= read(folder / f"{row.name}.checkpoint.npz")
        said += [f"of the saved files, {s}" for s in differing(kept, back)]
    return said


def differing(expected: dict[str, np.ndarray], found: dict[str, np.ndarray]) -> list[str]:
    """Return a sentence for each name that one side lacks, and for each array with different
    bits."""
    said = [f"{name} is on one side only" for name in sorted(expected.keys() ^ found.keys())]
    for name in sorted(expected.keys() & found.keys()):
        a, b = expected[name], found[name]
        if (a.dtype, a.shape, a.tobytes()) != (b.dtype, b.shape, b.tobytes()):
            said.append(f"{name} has other bits")
    return said


def compared(
    expected: dict[str, np.ndarray], found: dict[str, np.ndarray], tolerance: float
) -> list[str]:
    """Return a sentence for each name that one side lacks, and for each array that differs."""
    said = [f"{name} is on one side only" for name in sorted(expected.keys() ^ found.keys())]
    least = {
        kind: LEAST_PART * max((greatest(x) for n, x in expected.items() if kind_of(n) == kind))
        for kind in ("grad", "state")
        if any(kind_of(n) == kind for n in expected)
    }
    for name in sorted(expected.keys() & found.keys()):
        a, b = expected[name], found[name]
        if a.dtype != b.dtype or a.shape != b.shape:
            said.append(f"{name} is {b.dtype}{b.shape}, not {a.dtype}{a.shape}")
            continue
        scale = max(greatest(a), least.get(kind_of(name), 0.0))
        difference = apart(a, b)
        if not difference <= tolerance * scale:
            said.append(f"{name} differs by {difference:.3g} where the greatest is {scale:.3g}")
    return said


def kind_of(name: str) -> str:
    """`grad`, `state` or `out`."""
    return name.partition(" ")[0].partition(".")[0]


def greatest(x: np.ndarray) -> float:
    """Return the greatest absolute value of finite elements; 0 if there are none."""
    x = x[np.isfinite(x)]
    return float(np.abs(x.astype(np.complex128)).max()) if x.size else 0.0


def apart(a: np.ndarray, b: np.ndarray) -> float:
    """Return the greatest difference; infinity if an element is not finite on one side and the
    sides differ."""
    if a.dtype.kind not in "fc":
        return 0.0 if np.array_equal(a, b) else float("inf")
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    return greatest(np.where(finite, a, 0) - np.where(finite, b, 0))
