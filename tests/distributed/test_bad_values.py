"""Bad values for every argument of gt.distributed are accepted, or raise a clear error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from . import launch


def test_every_argument_of_every_function(tmp_path: Path) -> None:
    launch.mpiexec()
    file = tmp_path / "found.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.distributed.sweep", str(file)], cwd=launch.ROOT,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert file.exists(), done.stdout + done.stderr
    found = json.loads(file.read_text())
    assert not found["faults"], f"of {found['made']} calls\n" + "\n".join(found["faults"][:20])
    assert not found["missing"], f"tests/distributed/sweep.py has no call of {found['missing']}"
    assert found["made"] > 3000
