"""`gputensor doctor` on complete, minimal and broken installations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputensor.__main__ import main
from gputensor.cli import doctor, driver

ROOT = Path(__file__).parents[2]


def examine(**environment: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Exit status and findings by name, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "gputensor", "doctor", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environment},
    )
    found = json.loads(done.stdout)["findings"]
    return done.returncode, {f["name"]: f for f in found}


def test_it_names_everything() -> None:
    _, found = examine()
    assert {
        "Python",
        "gputensor",
        "numpy",
        "ml_dtypes",
        "NVIDIA driver",
        "CuPy",
        "NVRTC",
        "GPUTENSOR_CUDA",
        "GPU",
        "emulator",
        "kernel cache",
        "cpu",
    } <= set(found)
    for finding in found.values():
        assert finding["state"] in ("ok", "absent", "broken") and finding["found"]
        if finding["state"] == "broken":
            assert finding["remedy"]


def test_off_is_not_broken() -> None:
    _, found = examine(GPUTENSOR_CUDA="off")
    assert found["GPU"]["state"] == "absent" and found["GPU"]["found"] == "GPUTENSOR_CUDA=off"


def test_a_wrong_setting_is_broken() -> None:
    status, found = examine(GPUTENSOR_CUDA="maybe")
    assert status == 1
    assert (
        found["GPUTENSOR_CUDA"]["state"] == "broken"
        and "emulator" in found["GPUTENSOR_CUDA"]["remedy"]
    )


def test_a_cache_that_others_may_write_is_broken(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    _, found = examine(GPUTENSOR_CACHE_DIR=str(tmp_path))
    assert "may be written by others" in found["kernel cache"]["found"]
    assert found["kernel cache"]["state"] == "broken"


def test_an_unwritable_cache_is_broken(tmp_path: Path) -> None:
    # a file where the folder should be: unwritable for root as well
    (tmp_path / "file").write_text("")
    status, found = examine(GPUTENSOR_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert status == 1
    assert (
        found["kernel cache"]["state"] == "broken"
        and "GPUTENSOR_CACHE_DIR" in found["kernel cache"]["remedy"]
    )


def test_without_a_compiler_the_emulator_is_absent() -> None:
    _, found = examine(PATH="/nonexistent")
    assert found["emulator"]["state"] == "absent" and "install g++" in found["emulator"]["remedy"]


def test_text_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    printed = capsys.readouterr().out
    assert "NVIDIA driver" in printed and "kernel cache" in printed


def test_require_what_there_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda: [doctor.Finding("GPU", doctor.ABSENT, "none")])
    assert main(["doctor", "--require", "cuda"]) == 3
    assert "'--require cuda' is not met: none" in capsys.readouterr().err
    assert main(["doctor"]) == 0
    assert main(["doctor", "--require", "tpu"]) == 2
    assert "must be cuda or emulator" in capsys.readouterr().err


DRIVERS = [
    (driver.Driver(None, 0, "libcuda.so.1 is not found"), None, "absent"),
    (driver.Driver((12, 4), 1, None), "cuda12", "ok"),
    (driver.Driver((13, 0), 2, None), "cuda13", "ok"),
    (driver.Driver((12, 4), 0, "the driver has no device"), None, "broken"),
    (driver.Driver((11, 8), 1, "the driver is for CUDA 11.8"), None, "broken"),
]


@pytest.mark.parametrize("answer, extra, state", DRIVERS)
def test_what_a_driver_asks_for(answer: driver.Driver, extra: str | None, state: str) -> None:
    assert answer.extra == extra
    assert doctor._driver(answer).state == state


WHEELS = [
    ({}, (12, 4), "broken", "pip install 'gputensor[cuda12]'"),
    ({}, None, "absent", ""),
    ({"cupy-cuda12x": "14.2.0"}, (12, 4), "ok", ""),
    ({"cupy-cuda12x": "14.2.0"}, (13, 0), "ok", ""),
    ({"cupy-cuda13x": "14.2.0"}, (12, 4), "broken", "pip install 'gputensor[cuda12]'"),
    ({"cupy-cuda12x": "14.2.0", "cupy-cuda13x": "14.2.0"}, (13, 0), "broken", "keep one of them"),
    ({"cupy": "14.2.0"}, (13, 0), "ok", ""),
]


@pytest.mark.parametrize("wheels, version, state, remedy", WHEELS)
def test_which_cupy_fits(
    wheels: dict[str, str],
    version: tuple[int, int] | None,
    state: str,
    remedy: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "_version", wheels.get)
    reason = None if version else "libcuda.so.1 is not found"
    found = doctor._cupy(driver.Driver(version, 1 if version else 0, reason))
    assert found.state == state and remedy in found.remedy


def test_the_makefile_and_pyproject_know_the_same_extras() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"cuda12", "cuda13", "demo", "test", "nvtx"} <= set(project["optional-dependencies"])
    done = subprocess.run(
        [sys.executable, "-I", ROOT / "gputensor/cli/driver.py"], capture_output=True, text=True
    )
    assert done.stdout.strip() in ("none", "cuda12", "cuda13")


def test_carried_cubins_are_told_where_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.cubin").write_bytes(b"")
    _, found = examine(GPUTENSOR_CARRIED_CUBINS=str(tmp_path))
    assert found["carried cubins"] | {"remedy": None} == {
        "name": "carried cubins", "state": "ok", "found": f"{tmp_path}: 1", "remedy": None,
    }  # fmt: skip
    tmp_path.chmod(0o777)
    assert examine(GPUTENSOR_CARRIED_CUBINS=str(tmp_path))[1]["carried cubins"]["state"] == "broken"
    assert "carried cubins" not in examine()[1]
