"""What `import gputensor` may load: modules are counted here, milliseconds in bench/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# NumPy loads some of these itself in some versions; what counts is what gputensor adds.
HEAVY = {
    "cupy",
    "cupy_backends",
    "torch",
    "yaml",
    "PIL",
    "matplotlib",
    "pytest",
    "dataclasses",
    "inspect",
    "argparse",
    "asyncio",
    "concurrent",
    "concurrent.futures",
    "importlib.metadata",
    "importlib.resources",
    "json",
    "logging",
    "multiprocessing",
    "subprocess",
    "tempfile",
    "typing_extensions",
    "unittest",
    "urllib",
    "email",
    "zipfile",
    "shutil",
    "hashlib",
    "gputensor.cli",
    "gputensor.runtime.cuda",
    "gputensor.runtime.cuda_emulator",
}

CODE = """
import sys
import numpy, ml_dtypes
before = set(sys.modules)
import gputensor
print(*sorted(set(sys.modules) - before))
"""


def added_modules() -> set[str]:
    found = subprocess.run(
        [sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(found.stdout.split())


def test_import_loads_nothing_heavy() -> None:
    added = added_modules()
    assert "gputensor.tensor" in added
    assert not added & HEAVY


def test_import_stays_small() -> None:
    # standard library modules beside ours, whatever they are; a jump here is a decision to make
    others = {m for m in added_modules() if not m.startswith("gputensor")}
    assert len(others) <= 12, sorted(others)
