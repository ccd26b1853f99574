"""docs/usage/interop.md lists the tested calls; pyproject.toml has the same versions."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ROW = re.compile(r"^\| ([\w.-]+) \| ([\d.]+) \| (.+?) \| `tests/clients/([\w/]+\.py)` \|$", re.M)
ROWS = ROW.findall((ROOT / "docs" / "usage" / "interop.md").read_text(encoding="utf-8"))
OURS = {"test_table.py", "test_registration.py"}


def lowest() -> dict[str, str]:
    """Return package -> the lowest version that the extra `clients` allows."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]["clients"]
    return dict(line.split(">=") for line in extras)


def test_each_client_has_a_row_and_each_row_a_test():
    assert sorted(test for *_, test in ROWS) == sorted(
        path.relative_to(HERE).as_posix()
        for path in HERE.rglob("test_*.py")
        if path.name not in OURS
    )


def test_versions_are_those_of_the_extra():
    # PyTorch comes with `make oracle`.
    rows = {client: version for client, version, *_ in ROWS if client != "torch.utils.data"}
    beside = {"array-api-compat"}  # it comes with array-api-extra
    assert rows == {name: version for name, version in lowest().items() if name not in beside}


@pytest.mark.parametrize("client, version, what, test", ROWS, ids=[row[0] for row in ROWS])
def test_what_a_row_says_was_run_is_in_its_test(client, version, what, test):
    code = HERE.joinpath(test).read_text(encoding="utf-8")
    named = re.findall(r"`([^`]+)`", what)
    assert named
    for count, room in re.findall(r"(\d+) of `(\w+)`", what):
        calls = re.findall(rf"lambda a: \(?\s*(?:\w+\()?{room}\.", code)
        assert int(count) == len(calls), f"{test} runs {len(calls)} of {room}"
    missing = [n for n in named if not re.search(rf"\b{re.escape(n.split('.')[-1])}\b", code)]
    assert not missing, f"{test} runs no {missing}"


@pytest.mark.parametrize("client", sorted(lowest()))
def test_the_installed_version_is_no_older(client):
    try:
        found = importlib.metadata.version(client)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{client} is not installed")
    numbers = [[int(n) for n in re.findall(r"\d+", v)[:3]] for v in (found, lowest()[client])]
    assert numbers[0] >= numbers[1]
