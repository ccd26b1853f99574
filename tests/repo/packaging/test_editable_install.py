"""mypy and pyright find types of an editable install, as of the wheel, from a program elsewhere."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.full

PROGRAM = """\
import gputensor as gt

total: gt.Tensor = gt.ones(2, 3).sum()
capability: str = gt.backends.cpu.get_cpu_capability()
wrong: int = gt.ones(2)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = metadata.distributions(name="gputensor", path=[sysconfig.get_path("purelib")])
    urls = [json.loads(one.read_text("direct_url.json") or "{}").get("url") for one in found]
    if urls != [ROOT.as_uri()]:
        pytest.skip("this checkout is not installed in this environment (pip install --editable .)")
    path = tmp_path_factory.mktemp("user") / "program.py"
    path.write_text(PROGRAM)
    return path


def said(program: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=program.parent, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_it_is_a_path_and_no_import_hook(program: Path) -> None:
    (path,) = Path(sysconfig.get_path("purelib")).glob("__editable__.gputensor-*.pth")
    assert path.read_text().strip() == str(ROOT)


def test_mypy_knows_the_types(program: Path) -> None:
    if find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    cache = str(program.parent / "cache")
    text = said(
        program, sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, program.name
    )
    assert (
        'program.py:5: error: Incompatible types in assignment (expression has type "Tensor"'
        in text
    )
    assert "Found 1 error in 1 file" in text


def test_pyright_knows_the_types(program: Path) -> None:
    found = shutil.which("pyright") or shutil.which("pyright", path=Path(sys.executable).parent)
    if found is None:
        pytest.skip("pyright is not installed")
    text = said(program, found, "--pythonpath", sys.executable, program.name)
    assert 'program.py:5:14 - error: Type "Tensor" is not assignable to declared type "int"' in text
    assert "1 error, 0 warnings" in text
