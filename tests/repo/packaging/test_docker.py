"""Docker images: pinned sources, no root user, and a build in CI.

`.ci/image` builds and runs them on machines with Docker.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

import build_library

ROOT = Path(__file__).parents[3]
DOCKER = ROOT / "docker"
FILES = sorted(DOCKER.glob("*.Dockerfile"))
LOCKS = sorted((DOCKER / "requirements").glob("*.txt"))


def instructions(path: Path) -> list[tuple[str, str]]:
    """Return (instruction, argument), with continuation lines joined and without comments."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    parts = (line.split(None, 1) for line in text.splitlines() if line.strip())
    return [(instruction, argument) for instruction, argument in parts]


def stages(path: Path) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    for name, argument in instructions(path):
        if name == "FROM":
            current = found[argument.split(" AS ")[1]] = []
        current.append((name, argument))
    return found


def text_of(stage: list[tuple[str, str]]) -> str:
    return " ".join(argument for _, argument in stage)


def test_there_are_two_images() -> None:
    assert [p.name for p in FILES] == ["cpu.Dockerfile", "cuda.Dockerfile"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_an_image_is_lean_by_default_and_has_a_target_with_peers(path: Path) -> None:
    by_name = stages(path)
    assert list(by_name) == ["wheels", "loops", "base", "peers", "lean"]
    assert by_name["lean"] == [("FROM", "base AS lean"), ("USER", "bench")]
    assert by_name["peers"][-1] == ("USER", "bench")
    base = dict(by_name["base"])
    device = path.stem.replace("cuda", "cuda:0")
    assert (
        base["CMD"]
        == f'["python3", "-m", "bench", "run", "layout", "--device", "{device}", "--out", "/out"]'
    )
    assert base["VOLUME"] == "/out"
    whole = path.read_text()
    assert re.search(r"^ARG BASE=python:3\.\d+\.\d+-slim-\w+$", whole, re.MULTILINE)
    assert "torch" not in text_of(by_name["base"])


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_an_image_has_the_compiled_loops_and_no_compiler(path: Path) -> None:
    by_name = stages(path)
    loops, library = text_of(by_name["loops"]), build_library.LIBRARY.relative_to(ROOT)
    assert "g++" in loops and "GPUTENSOR_REQUIRE_LIBRARY=1 python3 build_library.py" in loops
    assert ("COPY", f"--from=loops /gputensor/{library} {library.parent}/") in by_name["base"]
    for stage in ("wheels", "base", "lean"):
        assert "g++" not in text_of(by_name[stage])


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_what_an_image_copies_is_there_and_every_wheel_has_a_hash(path: Path) -> None:
    for name, argument in instructions(path):
        if name == "COPY" and not argument.startswith("--from="):
            for source in argument.split()[:-1]:
                for extra in ("cuda12", "cuda13"):
                    assert (ROOT / source.replace("${EXTRA}", extra)).exists(), source
        for command in re.findall(r"pip install[^&]*", argument):
            if "-r " in command:
                assert "--require-hashes" in command
            else:  # the project itself, and PyTorch's CPU wheel
                assert "--no-deps" in command and re.search(
                    r"--editable \.|torch==[\d.]+\+cpu", command
                )


@pytest.mark.parametrize("path", LOCKS, ids=lambda p: p.stem)
def test_a_lock_has_what_is_asked_for_and_hashes(path: Path) -> None:
    entries = path.read_text().replace("\\\n", " ").splitlines()
    locked = {re.split(r"==", line)[0]: line for line in entries if line.strip()}
    for line in locked.values():
        assert re.match(r"[a-z0-9.-]+==[\w.]+ .*--hash=sha256:[0-9a-f]{64}", line), line[:80]
    for line in path.with_suffix(".in").read_text().splitlines():
        if not line.startswith("-c"):
            name, _, version = line.partition("==")
            entry = locked[name.split(">")[0].replace("_", "-")]
            assert f"=={version} " in entry if version else True


def test_locks_agree_where_they_share_a_wheel() -> None:
    """`peers` is installed over the others."""
    seen: dict[tuple[str, str], str] = {}
    for path in LOCKS:
        group = "cuda12" if path.stem == "cuda12" else "others"
        for name, version in re.findall(
            r"^([a-z0-9.-]+)==([\w.]+)", path.read_text(), re.MULTILINE
        ):
            assert seen.setdefault((group, name), version) == version, f"{path.name}: {name}"


def test_every_committed_record_can_be_made_again() -> None:
    page = (DOCKER / "README.md").read_text()
    for record in (ROOT / "bench" / "results").glob("*.json"):
        assert f"`{record.name}`" in page


# --- .ci/image ------------------------------------------------------------------------------------


def image(**settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / ".ci" / "image"],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_builder_ci_says_that_the_image_is_skipped(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    done = image(GPUTENSOR_BUILD_IMAGE=missing, GPUTENSOR_REQUIRE_IMAGE="0")
    assert done.returncode == 0 and "SKIPPED" in done.stderr and missing in done.stderr
    assert image(GPUTENSOR_BUILD_IMAGE=missing, GPUTENSOR_REQUIRE_IMAGE="1").returncode == 1


@pytest.mark.parametrize("status", [0, 3])
def test_a_builder_gets_the_dockerfile_and_a_command_and_its_failure_counts(
    tmp_path: Path, status: int
) -> None:
    builder = tmp_path / "builder"
    builder.write_text(f'#!/bin/sh\necho "$1|$2|$3|$4" >{tmp_path}/asked\nexit {status}\n')
    builder.chmod(0o755)
    done = image(GPUTENSOR_BUILD_IMAGE=str(builder))
    assert done.returncode == status
    assert (tmp_path / "asked").read_text().startswith("docker/cpu.Dockerfile|.|--|sh")
