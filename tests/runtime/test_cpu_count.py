"""The number of threads is limited by the CPU quota of control groups of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputensor.runtime import cpu_count


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 8 CPUs, whose control groups are files below the returned folder."""
    monkeypatch.setattr(cpu_count, "_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(cpu_count, "_FILES", tmp_path / "fs")
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)), raising=False)
    return tmp_path


def write(system: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = system / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("quota", "count"),
    [("200000 100000", 2), ("50000 100000", 1), ("250000 100000", 3), ("max 100000", 8),
     ("1600000 100000", 8), ("nonsense", 8)],
)  # fmt: skip
def test_quota_of_version_2(system: Path, quota: str, count: int) -> None:
    write(system, cgroup="0::/pod/box\n", fs__pod__box__cpu_dot_max=quota)
    assert cpu_count.available() == count


def test_smallest_quota_of_all_parents(system: Path) -> None:
    write(
        system, cgroup="0::/pod/box\n", fs__pod__box__cpu_dot_max="max 100000",
        fs__pod__cpu_dot_max="300000 100000", fs__cpu_dot_max="500000 100000",
    )  # fmt: skip
    assert cpu_count.available() == 3


def test_container_sees_its_group_as_the_top_folder(system: Path) -> None:
    write(system, cgroup="0::/docker/1a2b\n", fs__cpu_dot_max="200000 100000")
    assert cpu_count.available() == 2


@pytest.mark.parametrize(("quota", "count"), [("150000", 2), ("-1", 8)])
def test_quota_of_version_1(system: Path, quota: str, count: int) -> None:
    write(
        system, cgroup="4:memory:/\n2:cpu,cpuacct:/box\n0::/\n",
        fs__cpu__box__cpu_dot_cfs_quota_us=quota, fs__cpu__box__cpu_dot_cfs_period_us="100000",
    )  # fmt: skip
    assert cpu_count.available() == count


def test_system_without_control_groups(system: Path) -> None:
    assert cpu_count.available() == 8
