"""examples/dask_images.py: two workers find the patterns in the images."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_workers_find_the_patterns(tmp_path):
    pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    command = [sys.executable, str(ROOT / "examples" / "dask_images.py"), "--images", "400"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, "--memory", "2GiB"], capture_output=True, text=True, cwd=tmp_path,
        env=environment, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "dashboard: http://127.0.0.1:" in done.stdout
    assert "400 images are 19 MiB in float32; a worker has 2GiB" in done.stdout
    shares = re.search(r"shares of the variance: (.*)", done.stdout)
    assert shares is not None
    found = [float(share) for share in re.findall(r"[\d.]+", shares[1])]
    # Images of three patterns in three channels, with weights of 40, 20 and 10.
    assert all(20 < share < 40 for share in found[:3]) and found[8] > 0.3 and found[9] < 0.1
    assert re.search(r"9 components carry (99\.\d|100\.0) % of it", done.stdout)
