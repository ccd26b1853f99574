"""The loops that build_library.py builds."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import build_library
import gputensor as gt

FLAGS = "flags\t\t: fpu avx2 fma f16c bmi1 bmi2 abm popcnt"
WIDE = f"{FLAGS} avx512f avx512bw avx512dq avx512vl"

needs_compiler = pytest.mark.skipif(
    shutil.which(build_library.compiler()[0]) is None, reason="there is no C++ compiler"
)


@pytest.mark.parametrize(
    ("told", "asked", "before", "built"),
    [
        (WIDE, "", (), ["avx512"]),
        (FLAGS, "", (), ["avx2"]),
        (FLAGS.replace(" abm", ""), "", (), ["avx2", "avx512"]),  # for other machines
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


@needs_compiler
def test_two_processes_compile_each_unit_once(tmp_path: Path) -> None:
    """`make` compiles loops while pip builds the library."""
    for name in ("first", "second"):
        (tmp_path / f"{name}.cpp").write_text("int answer() { return 42; }\n")
    program = r"""
import sys; from pathlib import Path; import build_library as b
folder = Path(sys.argv[1])
units = [b.Unit(path.stem, path, ("-O1",), ()) for path in sorted(folder.glob("*.cpp"))]
b.all_compiled(units, folder, lambda line: sys.stdout.write(line + "\n"))
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    both = [
        subprocess.Popen(command, cwd=build_library.ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = sorted(line for process in both for line in process.communicate()[0].splitlines())
    assert said == ["compiling first.cpp (first)", "compiling second.cpp (second)"]
    assert [process.returncode for process in both] == [0, 0]


@pytest.mark.full
@needs_compiler
def test_loops_compile_without_numpy(tmp_path: Path) -> None:
    program = """
import sys; sys.modules["numpy"] = None
import build_library as b; from pathlib import Path
b.FOLDER, known = Path(sys.argv[1]), b.loop_units
b.loop_units = lambda *of: [unit for unit in known(*of) if unit.name.endswith("capability")]
b.main(["--loops"])
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    # `best` would depend on earlier builds, which differ between folders.
    wanted = build_library.capabilities()
    env = {**os.environ, build_library.VARIABLE: ",".join(wanted)}
    subprocess.run(command, cwd=build_library.ROOT, env=env, check=True)
    assert {path.stem for path in tmp_path.glob("*.o")} == {f"{name}_capability" for name in wanted}
