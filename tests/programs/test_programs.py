"""Public PyTorch programs give equal results with PyTorch and with gputensor in its place.

packages.py fetches them when the test runs. With GPUTENSOR_REQUIRE_PROGRAMS=1 the test fails
instead of being skipped without the registry.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import compare, packages, table
from .program import Row

pytest.importorskip("torch")
pytest.importorskip("safetensors", reason="weights are exchanged as safetensors")
pytestmark = [pytest.mark.oracle, pytest.mark.full]

ROOT = Path(__file__).parents[2]


def run(side: str, rows: list[Row], folder: Path, found: list[Path]) -> None:
    """Run the rows in a separate process."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *found])),
        "GPUTENSOR_CUDA": "off",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "huggingface"),
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-W", "ignore", "-m", "tests.programs.child", side, str(folder)]
    done = subprocess.run(
        [*command, *(row.name for row in rows)],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"the {side} side ended early: {done.stderr[-2000:]}"


def run_group(group: str, folder: Path) -> None:
    """Run all rows of a group on both sides; then let PyTorch read gputensor's files."""
    try:
        found = packages.fetch(table.requirements(group))
    except packages.NotFetched as error:
        (folder / "skipped").write_text(str(error))
        return
    rows = list(table.GROUPS[group].ROWS)
    run("torch", rows, folder, found)
    run("gputensor", rows, folder, found)
    saved = [row for row in rows if (folder / f"{row.name}.checkpoint.pt").exists()]
    if saved:
        run("back", saved, folder, found)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of results, which all processes of a test run share."""
    mine = tmp_path_factory.getbasetemp()
    shared = mine.parent if os.environ.get("PYTEST_XDIST_WORKER") else mine
    (shared / "programs").mkdir(exist_ok=True)
    return shared / "programs"


def folder_of(group: str, results: Path) -> Path:
    """Return the folder of a group's results. The first process that needs them computes them;
    others wait."""
    folder = results / group
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            run_group(group, folder)
            (folder / "done").touch()
    return folder


def cases() -> list[object]:
    return [
        pytest.param(group, row, id=row.name.replace(" ", "-"))
        for group, rows in table.GROUPS.items() for row in rows.ROWS
    ]  # fmt: skip


@pytest.mark.parametrize(("group", "row"), cases())
def test_it_agrees(group: str, row: Row, results: Path) -> None:
    folder = folder_of(group, results)
    if (folder / "skipped").exists():
        reason = f"the registry does not answer: {(folder / 'skipped').read_text()}"
        assert os.environ.get("GPUTENSOR_REQUIRE_PROGRAMS") != "1", reason
        pytest.skip(reason)
    faults = compare.faults(row, folder)
    assert not faults, f"{len(faults)} differences: " + "; ".join(faults[:5])
    # models were exchanged by checkpoints in both directions; a row without a model has no
    # checkpoint
    has_model = (folder / f"{row.name}.weights.pt").exists()
    assert has_model == (folder / f"{row.name}.back.npz").exists()


def test_there_are_many_and_no_two_of_a_name() -> None:
    names = [row.name for row in table.ROWS]
    assert len(names) == len(set(names)) and len(names) >= 60


def test_a_difference_is_seen() -> None:
    import numpy as np

    one = {"out": np.array([1.0, 2.0], np.float32), "grad of w": np.ones(2, np.float32)}
    assert not compare.compared(one, dict(one), 1e-4)
    for name, other in {
        "out": np.array([1.0, 2.001], np.float32), "grad of w": np.array([1.0, np.nan], np.float32),
    }.items():  # fmt: skip
        assert len(compare.compared(one, {**one, name: other}, 1e-4)) == 1
    assert not compare.differing(one, dict(one))
    other = np.array([0.0, 1.0], np.float32) * -1.0
    assert compare.differing({"x": other}, {"x": other + 0.0}) == ["x has other bits"]
    assert compare.differing(one, {}) == [
        "grad of w is on one side only",
        "out is on one side only",
    ]
    assert compare.compared(one, {"out": one["out"].astype(np.float64)}, 1e-4) == [
        "grad of w is on one side only", "out is float64(2,), not float32(2,)"
    ]  # fmt: skip
