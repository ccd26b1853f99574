"""The pytest plugin, in separate runs of pytest: modes, header, marker, fixture, checks."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputensor import pytest_plugin

from .cuda.support import requires_emulator

ROOT = Path(__file__).parents[1]

TESTS = '''
import numpy as np, pytest
import gputensor as gt
TEXT = """extern "C" __global__ void twice(float* x, int n) {
  const int i = threadIdx.x;
  if (i < n) x[i] *= 2;
}"""
def test_fixture(gputensor_cuda):
    x = np.ones(5, np.float32)
    gputensor_cuda.Kernel(TEXT, "twice")[1, 32](x, 5)
    assert (x == 2).all()
@pytest.mark.gputensor_cuda(devices=2)
def test_two_devices():
    assert gt.ones(2, device="cuda:1").device.index == 1
@pytest.mark.gputensor_cuda(real=True)
def test_real():
    assert not gt.cuda.is_emulated()
def test_overrun(gputensor_cuda):
    x = gt.ones(5, device="cuda")
    gputensor_cuda.Kernel(TEXT, "twice")[1, 32](x, 5 + OVER)
def test_without():
    pass
'''


def run(folder: Path, *options: str, over: int = 0, **settings: str) -> tuple[int, str]:
    (folder / "test_kernels.py").write_text(f"OVER = {over}\n{TESTS}")
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GPUTENSOR_") or "CACHE" in k}
    environment = kept | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | settings
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-rsE",
        "-p",
        "gputensor.pytest_plugin",
        "-p",
        "no:cacheprovider",
        *options,
        ".",
    ]
    answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return answer.returncode, answer.stdout + answer.stderr


@pytest.mark.full
@requires_emulator
@pytest.mark.emulator
def test_emulator_says_so_and_runs(tmp_path):
    status, said = run(tmp_path, "--gputensor=emulator", "--gputensor-order=random")
    assert (
        "gputensor: cuda EMULATED (2 devices, g++" in said
        and "order random; no GPU code ran)" in said
    )
    assert status == 0 and "4 passed, 1 skipped" in said and "needs a real GPU" in said


@requires_emulator
@pytest.mark.emulator
def test_checks_find_an_overrun_in_the_test_that_made_it(tmp_path):
    status, said = run(
        tmp_path,
        "--gputensor=emulator",
        "--gputensor-sanitize",
        over=1,
        GPUTENSOR_EMULATOR_ORDER="lazy",
    )
    assert "checks init, memory, overflow, race" in said
    assert status == 1 and "ERROR test_kernels.py::test_overrun" in said
    assert "queues.py" not in said.partition("short test summary")[0].partition("ERROR at")[2]
    assert "twice.cu:3: read 4 B past 'x' (block (0,0,0), thread (5,0,0), index 5 of 5)" in said


@pytest.mark.parametrize("given, checks", [
    (["--gputensor-sanitize", "memory"], "memory"),
    (["--gputensor-sanitize=race"], "race"),
    (["--gputensor-sanitize", "test_kernels.py"], "all"),
])  # fmt: skip
def test_the_value_of_an_option_is_not_a_path(given, checks, tmp_path, monkeypatch):
    (tmp_path / "test_kernels.py").touch()
    monkeypatch.chdir(tmp_path)
    arguments = [*given]
    pytest_plugin.pytest_load_initial_conftests(arguments)
    parser = argparse.ArgumentParser()
    parser.add_argument("--gputensor-sanitize", nargs="?", const="all")
    assert parser.parse_known_args(arguments)[0].gputensor_sanitize == checks


@pytest.mark.full
def test_required_fails_without_a_gpu(tmp_path):
    status, said = run(tmp_path, "--gputensor=required", CUDA_VISIBLE_DEVICES="")
    assert status == 4 and "gputensor: cuda: no device (GPUTENSOR_CUDA=required, but " in said


def test_off_skips_with_the_reason(tmp_path):
    status, said = run(tmp_path, "--gputensor=off")
    assert (
        status == 0
        and "gputensor: cuda OFF (GPUTENSOR_CUDA=off)" in said
        and "1 passed, 4 skipped" in said
    )


@pytest.mark.full
def test_nothing_is_chosen_where_nobody_asks(tmp_path):
    (tmp_path / "test_other.py").write_text("def test_one():\n    pass\n")
    status, said = run(tmp_path, "-k", "one")
    assert status == 0 and "gputensor: cuda" not in said


@pytest.mark.full
def test_the_ini_file_and_wrong_values(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\ngputensor = off\n")
    assert "cuda OFF" in run(tmp_path)[1]
    (tmp_path / "pytest.ini").write_text("[pytest]\ngputensor = perhaps\n")
    status, said = run(tmp_path)
    assert status == 4 and "must be one of auto, emulator, required, off (got perhaps)" in said
    status, said = run(tmp_path, "--gputensor-sanitize=everything", "--gputensor=emulator")
    assert status == 4 and "must be all, or of memory, init, race, overflow" in said


@pytest.mark.full
def test_asserts_of_the_package_are_not_rewritten(tmp_path):
    (tmp_path / "test_loader.py").write_text(
        "import gputensor.runtime.emulator as found\n"
        "def test_loader(pytestconfig):\n"
        "    assert 'gputensor' not in pytestconfig.pluginmanager.rewrite_hook._must_rewrite\n"
        "    assert 'rewrite' not in type(found.__spec__.loader).__module__\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "."]
    kept = {k: v for k, v in os.environ.items() if k != "PYTEST_DISABLE_PLUGIN_AUTOLOAD"}
    answer = subprocess.run(
        command, cwd=tmp_path, env=kept | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
