"""Build wheels with and without compiled loops, and the sdist; use them without the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import build_library

ROOT = Path(__file__).parents[3]
PURE_MAX_BYTES, COMPILED_MAX_BYTES = 3 << 20, 8 << 20
LIBRARY_MAX_BYTES = 12 << 20
LIBRARY = "gputensor/kernels/compiled/_library.abi3.so"
pytestmark = pytest.mark.full

CODE = """
import sys
from pathlib import Path
import gputensor as gt

assert Path(gt.__file__).is_relative_to(sys.argv[1]), gt.__file__
assert (gt.ones(2, 3) + 1).tolist() == [[2.0] * 3] * 2
assert gt.rand(2, 3, 4).permute(2, 0, 1).contiguous().is_contiguous()
print(gt.__version__, gt.backends.cpu.get_cpu_capability())
"""


def run(*command: str | Path, **options: Any) -> str:
    found = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert found.returncode == 0, found.stdout + found.stderr
    return str(found.stdout)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, because setuptools leaves build folders behind. It contains the
    compiled objects."""
    for tool in ("pip", "setuptools"):
        if find_spec(tool) is None:
            pytest.skip(f"{tool} is not installed, so no wheel can be built without a network")
    tree = tmp_path_factory.mktemp("source") / "tree"
    left_out = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "gputensor", tree / "gputensor", ignore=left_out)
    if build_library.FOLDER.exists():
        shutil.copytree(build_library.FOLDER, tree / "build" / "library")
    for name in ("pyproject.toml", "setup.py", "build_library.py", "MANIFEST.in", "README.md"):
        shutil.copy(ROOT / name, tree)
    shutil.copy(ROOT / "LICENSE", tree)
    return tree


def built(source: Path, to: Path, **settings: str) -> Path:
    """The wheel, built with the installed packages and without a network."""
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
        "--disable-pip-version-check", "--wheel-dir", to, source,
        env=os.environ | settings)  # fmt: skip
    (path,) = to.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def pure(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = {build_library.VARIABLE: build_library.DEFAULT, "GPUTENSOR_REQUIRE_LIBRARY": "0"}
    return built(source, tmp_path_factory.mktemp("pure"), **settings)


@pytest.fixture(scope="module")
def compiled(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    reason = build_library.unavailable_reason()
    if reason or not build_library.is_current():
        pytest.skip(f"the library is not built: {reason or 'run python build_library.py'}")
    return built(source, tmp_path_factory.mktemp("compiled"), GPUTENSOR_REQUIRE_LIBRARY="1")


@pytest.fixture(params=["pure", "compiled"])
def wheel(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


def test_the_one_without_loops_is_pure_and_small(pure: Path) -> None:
    assert pure.name.endswith("-py3-none-any.whl")
    assert pure.stat().st_size <= PURE_MAX_BYTES
    assert LIBRARY not in zipfile.ZipFile(pure).namelist()


def test_the_one_with_loops_is_for_every_python_and_small(compiled: Path) -> None:
    assert re.search(r"-cp311-abi3-manylinux_2_\d+_(x86_64|aarch64)\.whl$", compiled.name)
    assert compiled.stat().st_size <= COMPILED_MAX_BYTES
    assert zipfile.ZipFile(compiled).getinfo(LIBRARY).file_size <= LIBRARY_MAX_BYTES


def test_auditwheel_finds_the_same_tag(compiled: Path) -> None:
    if find_spec("auditwheel") is None:
        pytest.skip("auditwheel is not installed")
    printed = run(sys.executable, "-m", "auditwheel", "show", compiled)
    tag = compiled.stem.rpartition("-")[2]
    assert f'the following platform tag: "{tag}"' in " ".join(printed.split())


def test_every_file_that_is_not_python_is_in_it(wheel: Path) -> None:
    suffixes = {".cu", ".cuh", ".h", ".cpp", ".pyi", ".typed"}
    here = {p.relative_to(ROOT).as_posix() for p in (ROOT / "gputensor").rglob("*")
            if p.suffix in suffixes or p.name == "py.typed"}  # fmt: skip
    sources = {name for name in here if name.startswith("gputensor/kernels/compiled/")}
    sources -= {"gputensor/kernels/compiled/_library.pyi"}
    assert any(name.endswith(".cu") for name in here) and sources
    assert here & set(zipfile.ZipFile(wheel).namelist()) == here - sources


def test_nothing_else_is_in_it(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"gputensor"}
    assert {n for n in names if n.endswith((".pyc", ".so"))} <= {LIBRARY}


def test_it_runs_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    (site,) = environment.glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)  # pip does the same, without scripts
    for dependency in ("numpy", "ml_dtypes", "scipy"):  # the required dependencies only
        folder = Path(find_spec(dependency).origin).parent  # type: ignore[union-attr, arg-type]
        for path in (folder, folder.with_name(f"{dependency}.libs")):
            if path.exists():
                (site / path.name).symlink_to(path)
    settings = {k: v for k, v in os.environ.items() if k != "GPUTENSOR_CPU_CAPABILITY"}
    python = environment / "bin" / "python"
    printed = run(python, "-I", "-c", CODE, environment, cwd=tmp_path, env=settings)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version, capability = printed.split()
    assert version == project["version"]
    assert (capability == "default") == wheel.name.endswith("-any.whl")


def test_the_sdist_has_what_the_library_is_built_from(source: Path, tmp_path: Path) -> None:
    code = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", code, tmp_path, cwd=source)
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    kernels = ROOT / "gputensor" / "kernels"
    texts = [p for room in ("engine", "loops") for p in (kernels / "compiled" / room).iterdir()]
    needed = [*texts, *kernels.rglob("*.cu*"), ROOT / "setup.py"]
    needed += [ROOT / "build_library.py", kernels / "_generated" / "loops.h"]
    assert len(needed) > 70 and {p.relative_to(ROOT).as_posix() for p in needed} <= inside


def test_without_a_compiler_the_wheel_is_pure_and_pip_says_why(
    source: Path, tmp_path: Path
) -> None:
    settings = {"GPUTENSOR_CXX": "no-such-compiler", "GPUTENSOR_REQUIRE_LIBRARY": "0"}
    assert built(source, tmp_path, **settings).name.endswith("-py3-none-any.whl")
    said = subprocess.run(
        [sys.executable, "setup.py", "--version"],
        cwd=source, env=os.environ | settings, capture_output=True, text=True,
    )  # fmt: skip
    assert "loops are not compiled, NumPy's run: no-such-compiler is not on PATH" in said.stderr
    assert "Traceback" not in said.stderr
    settings["GPUTENSOR_REQUIRE_LIBRARY"] = "1"
    done = subprocess.run(
        [sys.executable, "setup.py", "--version"],
        cwd=source, env=os.environ | settings, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
