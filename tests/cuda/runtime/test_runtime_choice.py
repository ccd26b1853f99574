"""The choice of the runtime, and that all runtimes have the same names."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys

import pytest

from gputensor import runtime
from gputensor.core import errors
from gputensor.runtime import no_cuda

from ..support import requires_emulator


def run(code: str, **settings: str) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("GPUTENSOR_CUDA")}
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**env, **settings},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


def top_level_names(module: str) -> set[str]:
    spec = importlib.util.find_spec(f"gputensor.runtime.{module}")
    with open(spec.origin) as file:
        tree = ast.parse(file.read())
    names = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            names.update(t.id for t in node.targets if isinstance(t, ast.Name))
    return names


@pytest.mark.parametrize("module", ["cuda", "cuda_emulator", "no_cuda"])
def test_every_runtime_has_the_whole_interface(module):
    assert runtime.INTERFACE
    assert not set(runtime.INTERFACE) - top_level_names(module)


PRINT = """from gputensor import runtime
m = runtime.cuda()
print(m.name, m.is_available(), m.unavailable_reason())"""


def test_off():
    assert run(PRINT, GPUTENSOR_CUDA="off") == "no_cuda False GPUTENSOR_CUDA=off"


@requires_emulator
def test_emulator():
    assert run(PRINT, GPUTENSOR_CUDA="emulator") == "cuda_emulator True None"


def test_emulator_without_a_compiler():
    reason = "the CUDA emulator needs g++, and no-such-compiler is not on PATH"
    got = run(PRINT, GPUTENSOR_CUDA="emulator", GPUTENSOR_CXX="no-such-compiler")
    assert got == f"no_cuda False {reason}"


BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name == "cupy":
            raise ERROR
sys.meta_path.insert(0, Blocked())
"""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("ModuleNotFoundError('no', name='cupy')", "cupy is not installed"),
        ("OSError('the cache cannot be made')", "cupy does not import: the cache cannot be made"),
    ],
)
def test_auto_without_cupy_records_the_reason(error, reason):
    code = BLOCKED.replace("ERROR", error) + PRINT
    assert run(code, GPUTENSOR_CUDA="auto") == f"no_cuda False {reason}"


def test_required_without_a_device_is_an_error():
    code = BLOCKED.replace("ERROR", "ModuleNotFoundError('no', name='cupy')") + (
        "from gputensor import runtime\ntry: runtime.cuda()\nexcept RuntimeError as e: print(e)"
    )
    expected = (
        "cuda: no device (GPUTENSOR_CUDA=required, but cupy is not installed); use device='cpu' "
        "(gputensor doctor says what is missing)"
    )
    assert run(code, GPUTENSOR_CUDA="required") == expected


def test_a_choice_that_does_not_exist(monkeypatch):
    monkeypatch.setattr(runtime, "_chosen", None)
    monkeypatch.setenv("GPUTENSOR_CUDA", "yes")
    with pytest.raises(
        ValueError,
        match=r"GPUTENSOR_CUDA: must be one of auto, emulator, off, required \(got 'yes'\)",
    ):
        runtime.cuda()


def test_importing_gputensor_imports_no_cupy():
    assert run("import sys, gputensor.runtime; print('cupy' in sys.modules)") == "False"


def test_the_function_survives_the_import_of_the_module():
    code = BLOCKED.replace("ERROR", "ModuleNotFoundError('no', name='cupy')") + (
        "import importlib, types\nfrom gputensor import runtime\n"
        "sys.modules['cupy'] = types.ModuleType('cupy')\n"
        "sys.modules['gputensor.runtime.cuda'] = module = types.ModuleType('cuda')\n"
        "runtime.cuda = module\n"
        "print(runtime.cuda().name)"
    )
    assert run(code, GPUTENSOR_CUDA="off") == "no_cuda"


def test_without_cuda_every_entry_gives_the_reason(monkeypatch):
    monkeypatch.setattr(no_cuda, "reason", "the driver is missing")
    assert (no_cuda.is_available(), no_cuda.device_count()) == (False, 0)
    answered = (
        "name is_emulated is_available unavailable_reason device_count reset_after_fork".split()
    )
    others = [name for name in runtime.INTERFACE if name not in answered]
    assert others
    for name in others:
        sentence = r"cuda: no device \(the driver is missing\); use device='cpu'"
        with pytest.raises(errors.DeviceError, match=sentence):
            getattr(no_cuda, name)()
