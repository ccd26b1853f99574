"""Builds the wheel and uses it where nothing of the checkout can be seen."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MAX_BYTES = 3 << 20

CODE = """
import sys
from pathlib import Path
import gputensor as gt

assert Path(gt.__file__).is_relative_to(sys.argv[1]), gt.__file__
assert (gt.ones(2, 3) + 1).tolist() == [[2.0] * 3] * 2
assert gt.rand(2, 3, 4).permute(2, 0, 1).contiguous().is_contiguous()
print(gt.__version__)
"""


def run(*command: str | Path, **options: Any) -> str:
    found = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert found.returncode == 0, found.stdout + found.stderr
    return str(found.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for tool in ("pip", "setuptools"):
        if find_spec(tool) is None:
            pytest.skip(f"{tool} is not installed, so no wheel can be built without a network")
    # A copy, because setuptools leaves build folders behind.
    source = tmp_path_factory.mktemp("source") / "tree"
    shutil.copytree(
        ROOT / "gputensor", source / "gputensor", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    built = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
        "--disable-pip-version-check", "--wheel-dir", built, source)  # fmt: skip
    (path,) = built.glob("*.whl")
    return path


@pytest.mark.full
def test_the_wheel_is_pure_and_small(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    assert wheel.stat().st_size <= MAX_BYTES


@pytest.mark.full
def test_every_file_that_is_not_python_is_in_it(wheel: Path) -> None:
    suffixes = {".cu", ".cuh", ".h", ".cpp", ".pyi", ".typed"}
    here = {p.relative_to(ROOT).as_posix() for p in (ROOT / "gputensor").rglob("*")
            if p.suffix in suffixes or p.name == "py.typed"}  # fmt: skip
    assert any(name.endswith(".cu") for name in here)
    assert here <= set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.full
def test_nothing_else_is_in_it(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"gputensor"}
    assert not [n for n in names if n.endswith((".pyc", ".so"))]


@pytest.mark.full
def test_it_runs_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    (site,) = environment.glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)  # all that pip does for a pure wheel without scripts
    for dependency in ("numpy", "ml_dtypes", "scipy"):  # the hard dependencies, and no other
        folder = Path(find_spec(dependency).origin).parent  # type: ignore[union-attr, arg-type]
        for path in (folder, folder.with_name(f"{dependency}.libs")):
            if path.exists():
                (site / path.name).symlink_to(path)
    printed = run(environment / "bin" / "python", "-I", "-c", CODE, environment, cwd=tmp_path)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert printed.strip() == project["version"]
