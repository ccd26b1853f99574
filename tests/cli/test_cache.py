"""`gputensor cache`: warm for an architecture or the emulator, list, clear."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gputensor import runtime
from gputensor.__main__ import main
from gputensor.cli import cache
from gputensor.kernels.cuda import prebuilt
from gputensor.runtime.compilation import kernel_cache

from ..cuda.support import requires_emulator
from ..cuda.compile.test_compile import requires_nvrtc


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and three kernels to warm it with."""
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(kernel_cache, "_known", {})
    few = list(prebuilt.copies())[:3]
    monkeypatch.setattr(prebuilt, "copies", lambda: iter(few))
    return tmp_path / "kernels"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["cache", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@requires_nvrtc
def test_warming_for_an_architecture_needs_no_gpu(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(capsys, "warm", "--arch", "sm_90")
    assert found["added"] == found["kernels"] == 3 and found["archs"] == ["sm_90"]
    assert len(list(directory.glob("*.cubin"))) == 3
    assert run(capsys, "warm", "--arch", "sm_90")["added"] == 0
    listed = run(capsys, "list")["entries"]
    assert len(listed) == 3 and all("-arch=sm_90" in entry["label"] for entry in listed)
    assert main(["cache", "list"]) == 0
    assert "copy_tile.cu -arch=sm_90" in capsys.readouterr().out
    assert run(capsys, "clear")["removed"] == 3 and not run(capsys, "list")["entries"]


@requires_nvrtc
def test_an_unknown_architecture_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "warm", "--arch", "sm_1"]) == 2
    assert "'--arch' must be one of" in capsys.readouterr().err


@requires_emulator
def test_warming_for_the_device_that_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    if not runtime.cuda().is_emulated:
        pytest.skip("a GPU is there; the emulator is another device")
    assert run(capsys, "warm")["archs"] == ["emulator"]
    assert run(capsys, "list")["entries"]


def test_no_device_is_said_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gputensor.runtime import no_cuda

    monkeypatch.setattr(runtime, "_chosen", no_cuda.because("for this test"))
    assert main(["cache", "warm"]) == 3
    assert "for this test" in capsys.readouterr().err


def test_the_list_is_sorted_and_one_line_for_a_file_and_target(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, label in enumerate(["b.cu sm_80 f", "a.cu sm_90", "b.cu sm_80 g"]):
        kernel_cache.fetch(f"{number:032x}", ".cubin", lambda: b"x" * 2048, label)
    assert main(["cache", "list"]) == 0
    printed = capsys.readouterr().out
    assert "kept for 90 days after their last use, at most 1024 MiB" in printed
    lines = [line.split() for line in printed.splitlines() if ".cu" in line]
    assert [line[:3] for line in lines] == [["a.cu", "sm_90", "1"], ["b.cu", "sm_80", "2"]]
    assert len(run(capsys, "list")["entries"]) == 3


@pytest.mark.full
@requires_nvrtc
def test_a_folder_is_filled_by_several_processes_for_another_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_WORTH_A_PROCESS", 2)
    folder = tmp_path / "carried"
    to = ["warm", "--arch", "sm_90", "--to", str(folder), "--jobs", "2"]
    found = run(capsys, *to)
    assert found["added"] == 3 and found["directory"] == str(folder)
    assert len(list(folder.glob("*.cubin"))) == 3 and run(capsys, *to)["added"] == 0


def test_the_emulators_kernels_are_not_carried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not (runtime.cuda().is_available() and runtime.cuda().is_emulated):
        pytest.skip("this is what the emulator refuses")
    assert main(["cache", "warm", "--to", str(tmp_path)]) == 2
    assert "'--to' must come with --arch" in capsys.readouterr().err
