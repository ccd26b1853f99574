"""examples/openreg: its tests, the op tests, the demo, and loading by its name."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import gputensor as gt
from gputensor.__main__ import main
from gputensor.core import errors
from gputensor.op_tests import check, samples

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "openreg"


def python(
    *arguments: str, path: Path | None = None, cwd: Path = ROOT, **settings: str
) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT), *([str(path)] if path else [])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | settings
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True
    )


@pytest.fixture
def openreg(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from gputensor_openreg import bring_up

    with bring_up() as device:
        yield device


@pytest.mark.full
def test_its_own_tests_pass() -> None:
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=EXAMPLE)
    assert done.returncode == 0 and "14 passed" in done.stdout, done.stdout + done.stderr


def test_it_is_small() -> None:
    lines = [
        line
        for path in (EXAMPLE / "gputensor_openreg").glob("*.py")
        for line in path.read_text().splitlines()
        if path.name != "operators.py" and line.strip() and not line.strip().startswith("#")
    ]  # fmt: skip
    assert 100 < len(lines) < 200


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::gputensor.core.errors.FallbackWarning")
def test_the_op_tests_pass_on_it(openreg: Any) -> None:
    outcomes = list(check.check(samples.load(), gt.device("openreg:1")))
    wrong = [failure for outcome in outcomes for failure in outcome.failures]
    assert not wrong, "\n".join(wrong)
    status = {outcome.name: outcome.status for outcome in outcomes}
    assert "missing" not in status.values() and sum(o.executed for o in outcomes) > 1000
    assert {
        status[name] for name in ("abs", "view", "contiguous", "cat", "to", "copy_", "item")
    } == {"native"}
    assert {status[name] for name in ("add", "sum", "mm", "exp")} == {"fallback"}


@pytest.mark.filterwarnings("ignore::gputensor.core.errors.FallbackWarning")
def test_the_demo_runs_on_it(
    openreg: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = pytest.importorskip("PIL.Image", reason="the demonstration reads images with Pillow")
    image.new("RGB", (48, 37), (3, 200, 77)).save(tmp_path / "picture.png")
    arguments = [
        str(tmp_path / "picture.png"),
        "--device",
        "openreg:1",
        "--batch",
        "2",
        "--peers",
        "numpy",
    ]
    assert main(["demo", *arguments, "--json", "--output", str(tmp_path / "out.png")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["all_equal"] and report["device"] == "openreg:1"


# --- loading by name ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the package is installed."""
    for tool in ("pip", "setuptools"):
        if find_spec(tool) is None:
            pytest.skip(
                f"{tool} is not installed, so the package cannot be installed without a network"
            )
    source = tmp_path_factory.mktemp("source")
    for path in ("pyproject.toml", "README.md", "gputensor_openreg/__init__.py",
    "gputensor_openreg/runtime.py",
                 "gputensor_openreg/kernels.py", "gputensor_openreg/operators.py"):  # fmt: skip
        (source / path).parent.mkdir(exist_ok=True)
        (source / path).write_text((EXAMPLE / path).read_text())
    site = tmp_path_factory.mktemp("site")
    done = python("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
    "--no-index",
                  "--disable-pip-version-check", "--target", str(site), str(source))  # fmt: skip
    assert done.returncode == 0, done.stderr
    return site


@pytest.mark.full
@pytest.mark.parametrize("use", [
    "gt.device('openreg')", "gt.empty(2, device='openreg:1')", "gt.ones(2).to('openreg')",
    "gt.openreg",
    "gt.backend.get('openreg')",
])  # fmt: skip
def test_the_first_use_of_its_name_loads_it(installed: Path, use: str) -> None:
    code = (
        "import sys, gputensor as gt; x = gt.ones(2, device='cpu').to('meta')\n"
        "assert not any('openreg' in m for m in sys.modules) and not hasattr(gt.Tensor, "
        "'openreg')\n"
        f"{use}\n"
        "assert gt.ones(2).openreg().is_openreg and gt.openreg.device_count() == 2\n"
    )
    done = python("-c", code, path=installed)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
def test_its_own_tests_pass_on_the_installed_package(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_openreg.py").write_text((EXAMPLE / "tests" / "test_openreg.py").read_text())
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", path=installed, cwd=tmp_path)
    assert done.returncode == 0 and re.match(r"\.+ .*\d\d passed", done.stdout, re.DOTALL), (
        done.stdout + done.stderr
    )


@pytest.mark.full
def test_what_was_removed_stays_away(installed: Path) -> None:
    code = (
        "import gputensor as gt\n"
        "gt.backend.get('openreg').remove()\n"
        "try: gt.device('openreg')\n"
        "except gt.GpuTensorError as error: print(error)\n"
        "from gputensor_openreg import bring_up\n"
        "bring_up('PrivateUse2')\n"
        "assert 'PrivateUse2' in gt.dispatch.key_set(gt.ones(2, device='openreg'))\n"
    )
    done = python("-c", code, path=installed)
    assert done.returncode == 0 and "'type' must be one of" in done.stdout, done.stderr


@pytest.mark.full
def test_loading_can_be_switched_off(installed: Path) -> None:
    done = python(
        "-c",
        "import gputensor as gt; gt.device('openreg')",
        path=installed,
        GPUTENSOR_BACKEND_AUTOLOAD="0",
    )
    assert done.returncode == 1 and "'type' must be one of cpu, cuda" in done.stderr


def test_a_package_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def bring_up():\n    raise OSError('no driver')\n")
    info = tmp_path / "broken-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[gputensor.backends]\nbroken = broken:bring_up\n")
    done = python("-c", "import gputensor as gt; gt.empty(1, device='broken')", path=tmp_path)
    assert (
        "device 'broken': its package did not load from the entry point broken:bring_up (OSError: "
        "no driver)" in done.stderr
    )


def test_a_name_that_nobody_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    scans = []
    scan = importlib.metadata.entry_points
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda **of: scans.append(of) or scan(**of)
    )
    monkeypatch.syspath_prepend(".")  # a separate path, for which nothing is cached
    assert not hasattr(gt, "nobody") and not hasattr(gt, "nobody_else")
    assert len(scans) == 1, "packages are scanned once, not once for each unknown name"
    with pytest.raises(errors.DeviceError, match="nobody: no device"):
        gt.backend.get("nobody")


def test_default_stream_takes_a_device_in_any_spelling(openreg: Any) -> None:
    second = gt.openreg.default_stream(1)
    assert gt.openreg.default_stream("openreg:1") is second is not gt.openreg.default_stream()
    assert gt.openreg.default_stream(gt.device("openreg", 1)) is second
    with pytest.raises(errors.DeviceError, match="default_stream"):
        gt.openreg.default_stream(2)
