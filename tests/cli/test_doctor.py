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


Findings = dict[str, dict[str, str]]


def examine(**environment: str) -> tuple[int, Findings]:
    """Return exit status and findings by name, from a separate process."""
    done = subprocess.run(
        [sys.executable, "-m", "gputensor", "doctor", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environment},
    )
    found = json.loads(done.stdout)["findings"]
    return done.returncode, {f["name"]: f for f in found}


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """The findings with a separate cache and no further settings."""
    return examine(GPUTENSOR_CACHE_DIR=str(tmp_path_factory.mktemp("cache")))[1]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Findings]:
    """Exit status and findings with wrong values in all settings."""
    folder, file = tmp_path_factory.mktemp("open"), tmp_path_factory.mktemp("held") / "file"
    folder.chmod(0o777)
    file.write_text("")  # a file, not a folder: root cannot write to it either
    return examine(
        PATH="/nonexistent", GPUTENSOR_CUDA="maybe", GPUTENSOR_CARRIED_CUBINS=str(folder),
        GPUTENSOR_CACHE_DIR=str(file / "cache"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def off(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """The findings without CUDA, with cubins, and with a cache that other users may write to."""
    cubins, cache = tmp_path_factory.mktemp("cubins"), tmp_path_factory.mktemp("cache")
    (cubins / "a.cubin").write_bytes(b"")
    cache.chmod(0o777)
    return examine(
        GPUTENSOR_CUDA="off", GPUTENSOR_CARRIED_CUBINS=str(cubins), GPUTENSOR_CACHE_DIR=str(cache)
    )[1]


def test_it_names_everything(complete: Findings) -> None:
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
    } <= set(complete)
    for finding in complete.values():
        assert finding["state"] in ("ok", "absent", "broken") and finding["found"]
        if finding["state"] == "broken":
            assert finding["remedy"]


def test_off_is_not_broken(off: Findings) -> None:
    assert off["GPU"]["state"] == "absent" and off["GPU"]["found"] == "GPUTENSOR_CUDA=off"


def test_a_wrong_setting_is_broken(broken: tuple[int, Findings]) -> None:
    status, found = broken
    assert status == 1
    assert (
        found["GPUTENSOR_CUDA"]["state"] == "broken"
        and "emulator" in found["GPUTENSOR_CUDA"]["remedy"]
    )


def test_a_cache_that_others_may_write_is_broken(off: Findings) -> None:
    assert "may be written by others" in off["kernel cache"]["found"]
    assert off["kernel cache"]["state"] == "broken"


def test_an_unwritable_cache_is_broken(broken: tuple[int, Findings]) -> None:
    found = broken[1]["kernel cache"]
    assert found["state"] == "broken" and "GPUTENSOR_CACHE_DIR" in found["remedy"]
    assert "is not writable" in found["found"]


def test_a_cache_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complete: Findings
) -> None:
    assert complete["kernel cache"]["found"].endswith(": 0 kernels, 0.0 MiB")
    for name, nbytes in (("a.so", 1 << 20), ("b.cubin", 1 << 19), ("lock", 1 << 20)):
        (tmp_path / name).write_bytes(bytes(nbytes))
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(tmp_path))
    assert doctor._cache().found == f"{tmp_path}: 2 kernels, 1.5 MiB"


def test_without_a_compiler_the_emulator_is_absent(broken: tuple[int, Findings]) -> None:
    found = broken[1]["emulator"]
    assert found["state"] == "absent" and "install g++" in found["remedy"]


def test_text_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(tmp_path))
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


def test_carried_cubins_are_told_where_they_are_asked_for(
    complete: Findings, off: Findings, broken: tuple[int, Findings]
) -> None:
    found = off["carried cubins"]
    assert found["state"] == "ok" and found["found"].endswith("cubins0: 1")
    assert broken[1]["carried cubins"]["state"] == "broken"
    assert "carried cubins" not in complete
