"""The loops that build_library.py builds."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

import build_library
import gputensor as gt

FLAGS = "flags\t\t: fpu avx2 fma f16c bmi1 bmi2 abm popcnt"
WIDE = f"{FLAGS} avx512f avx512bw avx512dq avx512vl"


@pytest.mark.parametrize(
    ("told", "asked", "before", "built"),
    [
        (WIDE, "", (), ["avx512"]),
        (FLAGS, "", (), ["avx2"]),
        (FLAGS.replace(" abm", ""), "", (), ["avx2", "avx512"]),  # neither runs: for others
        (WIDE, "avx2", (), ["avx2", "avx512"]),
        (WIDE, "", ("avx2_sort.o",), ["avx2", "avx512"]),
    ],
)
def test_the_best_of_a_cpu(
    told: str, asked: str, before: tuple[str, ...], built: list[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    for name in before:
        (tmp_path / name).touch()
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(build_library, "FOLDER", tmp_path)
    monkeypatch.setattr(Path, "read_text", lambda self, **options: f"processor\t: 0\n{told}\n")
    monkeypatch.setenv(build_library.VARIABLE, build_library.BEST)
    monkeypatch.setenv("GPUTENSOR_CPU_CAPABILITY", asked)
    assert list(build_library.capabilities()) == built


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="Linux alone says what a CPU has")
def test_the_best_is_what_runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = gt.backends.cpu.get_cpu_capability()
    if runs == build_library.DEFAULT:
        pytest.skip("NumPy's loops run here")
    monkeypatch.setattr(build_library, "FOLDER", tmp_path)
    monkeypatch.setenv(build_library.VARIABLE, build_library.BEST)
    assert runs in build_library.capabilities()
