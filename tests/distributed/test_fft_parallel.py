"""examples/fft_parallel.py: ranks that share the rows get the spectrum of one process."""

from __future__ import annotations

import re

import pytest

from . import launch


@pytest.mark.full
@pytest.mark.parametrize(("ranks", "size"), [(2, 256), (3, 101)])
def test_the_spectrum_is_one_processes(ranks: int, size: int) -> None:
    script = str(launch.ROOT / "examples" / "fft_parallel.py")
    done = launch.run(ranks, script, "--size", str(size))
    assert done.returncode == 0, done.stdout
    found = re.findall(r"(?:spectrum|way back) differs .* by (\S+)", done.stdout)
    assert len(found) == 2 and all(float(error) < 1e-5 for error in found), done.stdout
    assert re.search(rf"{ranks} ranks +[\d.]+ ms, [\d.]+ times as fast", done.stdout)
